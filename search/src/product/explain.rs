//! Plans of products as text.

use super::{Operation, ProductPlan, ProductSequence};
use polyshard_machine::units::{bytes, scaled, seconds, table};
use std::fmt::{self, Write as _};

/// Sequences that are listed before the rest is only counted.
const LISTED: usize = 16;

impl ProductPlan {
    /// Returns the product's case, a table of its sequences, best first and marked, and the steps of the best with
    /// types and seconds.
    ///
    /// ```
    /// use polyshard::planner::placement::PlacedMesh;
    /// use polyshard::prelude::*;
    /// use polyshard::search::product::Product;
    /// let mesh = Mesh::new([("X", 4)]);
    /// let sizes = [("I", 512), ("J", 4096), ("K", 8192)];
    /// let product = Product::new("A[I, J_X] * B[J, K] -> C[I, K]", &mesh, &sizes, DType::Bf16)?;
    /// let plan = product.plan(&PlacedMesh::on_torus(&mesh, "tpu-v4p")?)?;
    /// assert_eq!(plan.explain(), "\
    /// A[I, J_X] * B[J, K] -> C[I, K] over (X: 4), bf16, I = 512, J = 4096, K = 8192
    /// case 2: the factors shard a dimension that they share differently
    ///     work        moved      comm      math       max       sum    memory  steps
    /// *1  I_X J K   7.08 MB  85.56 us  60.29 us  85.56 us  145.8 us  81.79 MB  all_to_all(X) A; A * B; all_gather(X) C
    ///  2  I J K     3.15 MB  36.95 us  124.9 us  124.9 us  161.9 us  85.98 MB  all_gather(X) A; A * B
    ///  3  I J K_X   9.44 MB  132.2 us  31.24 us  132.2 us  163.4 us  90.18 MB  all_gather(X) A; A * B; all_gather(X) C
    ///  4  I J_X K  12.58 MB  143.8 us  31.24 us  143.8 us  175.0 us  101.7 MB  A * B; all_reduce(X) C
    /// best, of 32 GB per device:
    /// 1 all_to_all(X) A[I, J_X] -> A[I_X, J]: 786.4 kB in 13.65 us
    /// 2 A[I_X, J] * B[J, K] -> C[I_X, K]: 8.59 GFLOP in 60.29 us
    /// 3 all_gather(X) C[I_X, K] -> C[I, K]: 6.29 MB in 71.91 us
    /// ");
    /// # Ok::<(), polyshard::Error>(())
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
        let _ = write!(text, "best, of {} per device:\n{}", bytes(self.capacity.into()), self.best());
        text
    }

    fn row(&self, nth: usize, sequence: &ProductSequence) -> [String; 9] {
        let total = sequence.total();
        let factors =
            if self.free.is_some() { format!("{}, {}: ", sequence.left, sequence.right) } else { String::new() };
        let memory = bytes(total.memory.into()) + if sequence.fits { "" } else { " too much" };
        [
            if nth == 0 { "*1".to_owned() } else { (nth + 1).to_string() },
            sequence.work.clone(),
            bytes(total.bytes.into()),
            seconds(total.communication),
            seconds(total.arithmetic),
            seconds(total.overlapped()),
            seconds(total.sequential()),
            memory,
            factors + &sequence.brief(),
        ]
    }
}

impl fmt::Display for ProductSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, step) in self.steps.iter().enumerate() {
            write!(f, "{} {step}: ", nth + 1)?;
            match step.operation {
                Operation::Multiply => writeln!(f, "{} in {}", scaled(self.flops, "FLOP"), seconds(step.seconds))?,
                Operation::Move(..) => writeln!(f, "{} in {}", bytes(step.bytes.into()), seconds(step.seconds))?,
            }
        }
        Ok(())
    }
}
