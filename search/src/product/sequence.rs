//! One way to a product: its steps, what they cost, and its program.

use super::ProductError;
use polyshard_layout::{DType, Mesh, Name};
use polyshard_planner::{Sequence, Sharded};
use polyshard_polyhedral::Schedule;
use polyshard_program::{KernelSpec, Pattern, Program};
use std::cmp::Ordering;
use std::fmt;

/// Which array of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The first factor.
    Left,
    /// The second factor.
    Right,
    /// The result.
    Out,
}

/// What a step of a product does.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// An array gets to other ranks by this pattern.
    Move(Operand, Pattern),
    /// Every rank multiplies what it has. Where a contracted dimension is cut, its product is one term.
    ///
    /// ```text
    /// before   rank 0: a0, b0     rank 1: a1, b1     A[I, J_X], B[J_X, K]
    /// after    rank 0: a0 * b0    rank 1: a1 * b1    C[I, K] {U_X}
    /// ```
    Multiply,
}

/// One step of a [`ProductSequence`], and what it costs the slowest device.
#[derive(Clone, Debug, PartialEq)]
pub struct ProductStep {
    /// What is done.
    pub operation: Operation,
    /// The arrays before and after: `A[I_X, J] -> A[I, J]`.
    pub text: String,
    pub(super) tensors: [String; 3],
    /// Bytes that a device gets from others.
    pub bytes: u64,
    /// Seconds that it takes.
    pub seconds: f64,
}

impl ProductStep {
    /// Returns the groups of ranks that communicate, each ascending; none in which a rank is alone.
    #[must_use]
    pub fn groups(&self, mesh: &Mesh) -> Vec<Vec<usize>> {
        let Operation::Move(_, pattern) = &self.operation else { return Vec::new() };
        let axes = match pattern {
            Pattern::Local => return Vec::new(),
            Pattern::Broadcast { axes }
            | Pattern::AllGather { axes }
            | Pattern::AllToAll { axes }
            | Pattern::Reduce { axes }
            | Pattern::AllReduce { axes }
            | Pattern::ReduceScatter { axes } => axes_of(mesh, axes),
            Pattern::Shift { axis, .. } => axes_of(mesh, &[*axis]),
            Pattern::Permute | Pattern::Halo { .. } | Pattern::Exchange | Pattern::Sequence { .. } => {
                (0..mesh.ndim()).collect()
            }
        };
        mesh.groups_along(&axes).into_iter().filter(|group| group.len() > 1).collect()
    }

    /// The step without the arrays' types: `all_gather(X) A`.
    pub(super) fn brief(&self) -> String {
        let [left, right, _] = &self.tensors;
        match &self.operation {
            Operation::Move(operand, pattern) => format!("{pattern} {}", self.tensors[*operand as usize]),
            Operation::Multiply => format!("{left} * {right}"),
        }
    }
}

/// The positions of the axes that these are names of, or of digits of them such as `y%3`, each once. Groups along digits are parts of those
/// along the axis.
fn axes_of(mesh: &Mesh, names: &[Name]) -> Vec<usize> {
    let axis = |name: &Name| name.as_str().split(['/', '%']).next().and_then(|axis| mesh.position(axis.into()));
    let mut axes: Vec<usize> = names.iter().filter_map(axis).collect();
    axes.sort_unstable();
    axes.dedup();
    axes
}

impl fmt::Display for ProductStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.operation {
            Operation::Move(_, pattern) => write!(f, "{pattern} {}", self.text),
            Operation::Multiply => f.write_str(&self.text),
        }
    }
}

/// What the steps of a sequence cost a device together.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Total {
    /// Bytes that it gets from others.
    pub bytes: u64,
    /// Seconds in which data move.
    pub communication: f64,
    /// Seconds in which it multiplies.
    pub arithmetic: f64,
    /// Bytes of memory that are taken at the same time: a bound.
    pub memory: u64,
}

impl Total {
    /// Returns the seconds if communication and arithmetic overlap: those of the longer.
    #[must_use]
    pub fn overlapped(&self) -> f64 {
        self.communication.max(self.arithmetic)
    }

    /// Returns the seconds if they follow each other: their sum.
    #[must_use]
    pub fn sequential(&self) -> f64 {
        self.communication + self.arithmetic
    }
}

/// One way to a product: steps, in the order in which they run, and what they cost.
#[derive(Clone, Debug)]
pub struct ProductSequence {
    pub(super) work: String,
    pub(super) left: Sharded,
    pub(super) right: Sharded,
    pub(super) out: Sharded,
    pub(super) steps: Vec<ProductStep>,
    pub(super) flops: f64,
    pub(super) memory: u64,
    pub(super) fits: bool,
    pub(super) dtype: DType,
    pub(super) schedule: Schedule,
    pub(super) tensors: [Name; 3],
}

impl ProductSequence {
    /// Returns which axes divide which loop of the product, as in `I_X J K_Y`: how the work is split. Along axes that
    /// divide none, all ranks do the same.
    #[must_use]
    pub fn work(&self) -> &str {
        &self.work
    }

    /// Returns the first factor as it lies before all steps.
    #[must_use]
    pub fn left(&self) -> &Sharded {
        &self.left
    }

    /// Returns the second factor as it lies before all steps.
    #[must_use]
    pub fn right(&self) -> &Sharded {
        &self.right
    }

    /// Returns the steps.
    #[must_use]
    pub fn steps(&self) -> &[ProductStep] {
        &self.steps
    }

    /// Returns the schedule of the product itself.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Returns what the steps cost together.
    #[must_use]
    pub fn total(&self) -> Total {
        let sum = |multiplies: bool| -> f64 {
            let steps = self.steps.iter().filter(|step| (step.operation == Operation::Multiply) == multiplies);
            steps.map(|step| step.seconds).sum()
        };
        let bytes = self.steps.iter().map(|step| step.bytes).fold(0, u64::saturating_add);
        Total { bytes, communication: sum(false), arithmetic: sum(true), memory: self.memory }
    }

    /// Returns whether it fits into a device's memory.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.fits
    }

    /// Returns the program, which is proved as any is.
    ///
    /// # Errors
    /// [`ProductError::Lower`] if programs do not compute in the product's element type, or what was priced is not so.
    pub fn program(&self) -> Result<Program, ProductError> {
        self.program_in(self.dtype)
    }

    /// Returns the program for elements of another type.
    ///
    /// # Errors
    /// As [`program`](Self::program).
    pub fn program_in(&self, dtype: DType) -> Result<Program, ProductError> {
        let spec = KernelSpec { dtype, ..self.schedule.kernel()?.spec() };
        let schedule = self.schedule.steps().cloned().fold(Schedule::from_spec(spec), Schedule::apply);
        let kernel = schedule.lower()?;
        let [left, right, out] = self.tensors;
        let sequence = Sequence::new().stage(&kernel, [left, right], out);
        let sequence = sequence.input(left, self.left.sharding()).input(right, self.right.sharding());
        Ok(sequence.output(out, self.out.sharding()).build()?)
    }

    /// The steps in one line, without types.
    pub(super) fn brief(&self) -> String {
        self.steps.iter().map(ProductStep::brief).collect::<Vec<_>>().join("; ")
    }
}

/// The better first: of two that fit the faster, of two that do not the smaller.
pub(super) fn compare(left: &ProductSequence, right: &ProductSequence) -> Ordering {
    let (mine, theirs) = (left.total(), right.total());
    let smaller = mine.memory.cmp(&theirs.memory);
    right
        .fits
        .cmp(&left.fits)
        .then(if left.fits { Ordering::Equal } else { smaller })
        .then(mine.sequential().total_cmp(&theirs.sequential()))
        .then(mine.overlapped().total_cmp(&theirs.overlapped()))
        .then(smaller)
        .then(left.steps.len().cmp(&right.steps.len()))
        .then_with(|| left.work.cmp(&right.work))
}
