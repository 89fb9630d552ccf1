//! Plans of products as text.

use super::cost::flops;
use super::{ProductPlan, ProductStep, Sequence};
use polyshard_machine::units::{bytes, scaled, seconds, table};
use std::fmt::{self, Write as _};

/// Sequences that are listed before the rest is only counted.
const LISTED: usize = 16;

impl ProductPlan {
    /// Returns the product's case, a table of its sequences, best first and marked, and the steps of the best with
    /// types and seconds.
    ///
    /// ```
    /// use polyshard_layout::{DType, Mesh};
    /// use polyshard_planner::product::{Product, Roofline};
    /// let mesh = Mesh::new([("X", 4)]);
    /// let sizes = [("I", 512), ("J", 4096), ("K", 8192)];
    /// let product = Product::new("A[I, J_X] * B[J, K] -> C[I, K]", &mesh, &sizes, DType::Bf16)?;
    /// let plan = product.plan(&Roofline::preset("tpu-v4p", &mesh, DType::Bf16)?)?;
    /// assert_eq!(plan.explain(), "\
    /// A[I, J_X] * B[J, K] -> C[I, K] over (X: 4), bf16, I = 512, J = 4096, K = 8192
    /// case 2: a shared dimension is cut otherwise in one factor than in the other
    ///     work        moved      comm      math       max       sum    memory  steps
    /// *1  I_X J K   7.08 MB  104.9 us  58.55 us  104.9 us  163.4 us  78.64 MB  AllToAll_X A; A * B; AllGather_X C
    ///  2  I J K     3.15 MB  46.60 us  124.9 us  124.9 us  171.5 us  80.74 MB  AllGather_X A; A * B
    ///  3  I J K_X   9.44 MB  139.8 us  31.24 us  139.8 us  171.0 us  91.23 MB  AllGather_X A; Slice_X B; A * B; AllGather_X C
    ///  4  I J_X K  12.58 MB  186.4 us  31.24 us  186.4 us  217.6 us  93.32 MB  Slice_X B; A * B; AllReduce_X C
    /// best, of 32 GB per device:
    /// 1 AllToAll_X A[I, J_X] -> A[I_X, J]: 786.4 kB in 11.65 us
    /// 2 A[I_X, J] * B[J, K] -> C[I_X, K]: 8.59 GFLOP in 58.55 us
    /// 3 AllGather_X C[I_X, K] -> C[I, K]: 6.29 MB in 93.21 us
    /// ");
    /// # Ok::<(), polyshard_planner::product::ProductError>(())
    /// ```
    #[must_use]
    pub fn explain(&self) -> String {
        let product = &self.product;
        let sizes: Vec<_> = product.loops.iter().map(|name| format!("{name} = {}", product.size(name))).collect();
        let free = if self.free.is_some() { ", factors sharded freely" } else { "" };
        let mut text =
            format!("{product} over ({}), {}, {}{free}\n", product.mesh(), product.dtype(), sizes.join(", "));
        // Free factors belong to no case yet. Writing to a string cannot fail.
        if self.free.is_none() {
            let _ = writeln!(text, "{}", product.case());
        }
        let head = ["", "work", "moved", "comm", "math", "max", "sum", "memory", "steps"].map(String::from);
        let mut rows = vec![head];
        for (nth, sequence) in self.sequences.iter().take(LISTED).enumerate() {
            rows.push(self.row(nth, sequence));
        }
        text += &table(&rows, &[1, 8]);
        if self.sequences.len() > LISTED {
            let _ = writeln!(text, "and {} more", self.sequences.len() - LISTED);
        }
        let _ = write!(text, "best, of {} per device:\n{}", bytes(self.capacity), self.best());
        text
    }

    fn row(&self, nth: usize, sequence: &Sequence) -> [String; 9] {
        let total = sequence.total();
        let factors =
            if self.free.is_some() { format!("{}, {}: ", sequence.left, sequence.right) } else { String::new() };
        let memory = bytes(total.memory) + if sequence.fits { "" } else { " too much" };
        [
            if nth == 0 { "*1".to_owned() } else { (nth + 1).to_string() },
            sequence.work.clone(),
            bytes(total.bytes),
            seconds(total.communication),
            seconds(total.arithmetic),
            seconds(total.overlapped()),
            seconds(total.sequential()),
            memory,
            factors + &sequence.brief(),
        ]
    }
}

impl Sequence {
    /// The steps in one line, without types.
    pub(super) fn brief(&self) -> String {
        self.steps.iter().map(ProductStep::brief).collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (step, cost)) in self.steps.iter().zip(&self.costs).enumerate() {
            write!(f, "{} {step}: ", nth + 1)?;
            match step {
                ProductStep::Multiply { .. } => {
                    writeln!(f, "{} in {}", scaled(flops(step), "FLOP"), seconds(cost.arithmetic))?;
                }
                ProductStep::Move { .. } => writeln!(f, "{} in {}", bytes(cost.bytes), seconds(cost.communication))?,
            }
        }
        Ok(())
    }
}
