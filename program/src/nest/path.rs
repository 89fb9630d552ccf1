//! The products of a leaf of several operands, two factors each.

use crate::ids::{BlockDepth, LeafLoopId, ProductId};
use crate::nest::{Factor, LeafOp, NestView, Product};
use polyshard_layout::joined;

/// A product of two operands or results of a leaf of several; see [`NestView::path`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStep {
    /// Its result: an intermediate result, `T0[j, k, r]`, or the output's element.
    pub result: String,
    /// Its factors.
    pub factors: [String; 2],
    /// Upper bound on the operations in a step of the program, on the busiest rank.
    pub operations: u64,
    /// Maximum number of elements of an intermediate result at one time; none for the output.
    pub elements: Option<u64>,
    /// Whether it is a product of matrices, else a nest of loops.
    pub is_product: bool,
    /// The loops that run in blocks around it.
    pub level: BlockDepth,
}

impl NestView<'_> {
    /// Returns the products of the leaf, two factors each, in the order in which they run; none if it combines all operands in one
    /// operation.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// let kernel = polyshard::text::parse_kernel(
    ///     "fn f(A: [f32; 90, 80], B: [f32; 80, 70], x: [f32; 70]) -> y: [f32; 90] { y[i] += A[i, j] * B[j, k] * x[k] }",
    /// )?;
    /// let program = Schedule::from_spec(kernel).tensorize(["i", "j", "k"]).lower()?;
    /// let path: Vec<_> = program.nest().path().into_iter().map(|step| (step.result, step.factors.join(" * "))).collect();
    /// assert_eq!(path[0], ("T0[j]".to_owned(), "B[j, k] * x[k]".to_owned()));
    /// assert_eq!(path[1], ("y[i]".to_owned(), "A[i, j] * T0[j]".to_owned()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn path(&self) -> Vec<PathStep> {
        let LeafOp::Products { steps, .. } = &self.leaf.op else { return Vec::new() };
        let ranges = self.ranges();
        let accesses = self.kernel.value().accesses();
        let most = |number: &LeafLoopId| self.leaf.loops[number.0].count.bounds(&ranges).1.max(0) as u64;
        let scratch = |step: ProductId| {
            let kept = steps[step.0].kept.iter().map(|l| self.leaf.loops[l.0].var);
            format!("T{}[{}]", step.0, joined(kept, ", "))
        };
        let factor = |factor: &Factor| match factor {
            Factor::Operand(operand) => accesses[operand.0].to_string(),
            Factor::Scratch(step) => scratch(*step),
        };
        let described = |(number, step): (usize, &Product)| {
            let is_last = number + 1 == steps.len();
            PathStep {
                result: if is_last { self.kernel.target().to_string() } else { scratch(ProductId(number)) },
                factors: step.factors.each_ref().map(factor),
                operations: step.loops.iter().map(most).fold(2, u64::saturating_mul),
                elements: (!is_last).then_some(step.capacity as u64),
                is_product: !step.roles.is_empty(),
                level: step.level,
            }
        };
        steps.iter().enumerate().map(described).collect()
    }
}
