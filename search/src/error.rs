//! Why no schedule is found.

use polyshard_layout::Name;
use polyshard_machine::units::{counted, scaled};
use polyshard_planner::SequenceError;
use polyshard_planner::cost::CostError;
use polyshard_polyhedral::LowerError;
use std::fmt;

/// Why a search has no answer.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::search::SearchError;
/// let machine = Machine::preset("a100")?;
/// let sum = kernel! { fn sum(A: [f32; 8]) -> s: f32 { s[] += A[i] } };
/// assert!(matches!(sum.auto(0, &machine).find(), Err(SearchError::NoRanks)));
/// let split = sum.split("i", "io", "ii", 4);
/// assert!(matches!(split.auto(4, &machine).find(), Err(SearchError::HasSteps { steps: 1, .. })));
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields of variants are named by what they are; the messages say it in full")]
pub enum SearchError {
    /// There are no ranks.
    #[error("a schedule for 0 ranks is asked for; give at least 1")]
    NoRanks,
    /// No rank is to be idle, and the loops cannot be divided so.
    #[error(
        "the loops of `{kernel}` cannot be divided over exactly {}; leave some of them idle",
        counted(ranks, "rank")
    )]
    NoGrid { kernel: String, ranks: usize },
    /// There is more to compare than fits.
    #[error(
        "`{kernel}` has {loops} loops, which can be divided over {} in too many ways to compare; ask for fewer ranks, or write the schedule",
        counted(ranks, "rank")
    )]
    TooMany { kernel: String, loops: usize, ranks: usize },
    /// The schedule is there already.
    #[error(
        "the schedule has {} already, the first of them `{first}`; search for one of the kernel alone",
        counted(steps, "step")
    )]
    HasSteps { steps: usize, first: String },
    /// The mesh has more ranks than there are.
    #[error(
        "the mesh ({mesh}) has {}, and {ranks} are there; give a smaller mesh, or more ranks",
        counted(size, "rank")
    )]
    Mesh { mesh: String, size: usize, ranks: usize },
    /// A home is given, but no mesh.
    #[error("`{tensor}` is to be sharded by ({home}), but there is no mesh; give one too")]
    NoMeshOf { tensor: Name, home: String },
    /// A tensor is to lie in two ways.
    #[error("`{tensor}` has two shardings, ({first}) and ({second}); give one")]
    Homes { tensor: Name, first: String, second: String },
    /// No schedule is legal with the homes that are given.
    #[error("no schedule fits the shardings that are given: {why}")]
    Home { why: String },
    /// A home is of no tensor.
    #[error("no tensor `{tensor}` to shard; the tensors are {tensors}")]
    NoTensor { tensor: Name, tensors: String },
    /// Nothing fits into the memory.
    #[error(
        "no schedule of `{kernel}` on up to {} fits into {} a rank; {} {}: allow that{enough}",
        counted(ranks, "rank"), scaled(*memory as f64, "B"), least_is(*is_least), rounded_up(*least)
    )]
    Memory {
        kernel: String,
        ranks: usize,
        memory: u64,
        /// Bytes that do.
        least: u64,
        /// Whether none needs less; else a limit ended the search before all were compared.
        is_least: bool,
        /// The ranks that would do.
        enough: Enough,
    },
    /// There is not one schedule for each kernel of a sequence.
    #[error(
        "the sequence has {}, and {} given; give one for each",
        counted(kernels, "kernel"), schedules_are(*schedules)
    )]
    Schedules { kernels: usize, schedules: usize },
    /// Rounds are not of kernels that there are, or begin inside of others and end outside.
    #[error("rounds of the kernels {first}..{end} are asked for, but {why}")]
    Rounds { first: usize, end: usize, why: String },
    /// Kernels that run in sequence have no mesh that suits all.
    #[error("no mesh of up to {} suits all of `{kernels}`; give them schedules on one mesh", counted(ranks, "rank"))]
    NoMesh { kernels: String, ranks: usize },
    /// There is nothing to order.
    #[error("`{kernel}` is no product of several tensors by plain indices that is summed up; leave the order out")]
    NoOrder { kernel: String },
    /// A step of an order cannot be taken.
    #[error("cannot contract `{step}`: {why}")]
    Order { step: String, why: String },
    /// Kernels do not fit together.
    #[error(transparent)]
    Sequence(#[from] Box<SequenceError>),
    /// The kernel is invalid, or no schedule of it is legal.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The machine does not say what is needed.
    #[error(transparent)]
    Cost(#[from] CostError),
}

/// Bytes in so many digits that as many as are printed are enough.
fn rounded_up(bytes: u64) -> String {
    let digits = bytes.max(1).ilog10() + 1;
    // Four are printed where three are in front of the point, else three.
    let unit = 10u64.pow(digits.saturating_sub(if digits.is_multiple_of(3) { 4 } else { 3 }));
    scaled(bytes.div_ceil(unit).saturating_mul(unit) as f64, "B")
}

fn least_is(is_least: bool) -> &'static str {
    match is_least {
        true => "the least that one needs is",
        false => "not all were compared, and the least that one of those needs is",
    }
}

fn schedules_are(count: usize) -> String {
    format!("{} {}", counted(count, "schedule"), if count == 1 { "is" } else { "are" })
}

/// How many ranks would do, where nothing on those that there are fits into the memory.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::search::{Enough, SearchError};
/// let machine = Machine::preset("a100")?.with_counts(&[64, 1])?;
/// let product = kernel! {
///     fn product(A: [f32; 64, 64], B: [f32; 64, 64]) -> C: [f32; 64, 64] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// let bytes = 8 << 10;
/// let refused = product.auto(2, &machine).memory(bytes).find().unwrap_err();
/// let SearchError::Memory { enough: Enough::Fewest(ranks), .. } = refused else { panic!("{refused}") };
/// assert!(product.auto(ranks, &machine).memory(bytes).find()?.cost().memory <= bytes);
/// assert!(product.auto(ranks - 1, &machine).memory(bytes).find().is_err());
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Enough {
    /// This many: a search with them finds a schedule, and with fewer it does not.
    Fewest(usize),
    /// This many do; fewer may.
    Found(usize),
    /// No number does.
    Never,
    /// None was found that does; up to this one, some schedules were tried.
    NotFound(usize),
    /// No number does on the mesh that is given.
    LargerMesh,
    /// It was not sought.
    NotSought,
}

impl fmt::Display for Enough {
    /// As it goes on behind "allow that".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fewest(ranks) => write!(f, ", or {ranks} ranks, the fewest that would do"),
            Self::Found(ranks) => write!(f, ", or {ranks} ranks, which would do; fewer may, too"),
            Self::Never => f.write_str("; no number of ranks would do"),
            Self::NotFound(ranks) => {
                write!(f, "; none of the schedules that were tried on more, up to {}, would do", counted(ranks, "rank"))
            }
            Self::LargerMesh => f.write_str(", or give a larger mesh"),
            Self::NotSought => f.write_str(", or more ranks"),
        }
    }
}

impl SearchError {
    /// What is said of two ways of which neither has an answer: the first, but the one that needs less memory if that is what both lack.
    pub(crate) fn first_or_least(first: Self, second: Self) -> Self {
        match (&first, &second) {
            (Self::Memory { least, is_least, .. }, Self::Memory { least: other, is_least: also, .. }) => {
                let is_least = *is_least && *also;
                if other < least { second } else { first }.with_least(is_least)
            }
            // What cannot be compared may need less.
            (Self::Memory { .. }, Self::TooMany { .. }) => first.with_least(false),
            (Self::TooMany { .. }, Self::Memory { .. }) => second.with_least(false),
            _ => first,
        }
    }

    /// The same, with the number of ranks that would do with that memory, if it is one of memory.
    pub(crate) fn with_enough(mut self, of: impl FnOnce(u64) -> Enough) -> Self {
        if let Self::Memory { memory, enough, .. } = &mut self {
            *enough = of(*memory);
        }
        self
    }

    /// The same, where the memory that it says is the least of all if `is_it`.
    pub(crate) fn with_least(mut self, is_it: bool) -> Self {
        if let Self::Memory { is_least, .. } = &mut self {
            *is_least = is_it;
        }
        self
    }
}
