//! Why no schedule is found.

use polyshard_layout::{Name, are};
use polyshard_machine::units::{counted, scaled};
use polyshard_planner::SequenceError;
use polyshard_planner::cost::CostError;
use polyshard_polyhedral::{LowerError, Passes};
use std::fmt;

/// Why a search finds no schedule.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::search::SearchError;
/// let machine = Machine::preset("a100")?;
/// let sum = kernel! { fn sum(A: [f32; 8]) -> s: f32 { s[] += A[i] } };
/// assert!(matches!(sum.auto(0, &machine).find(), Err(SearchError::NoRanks)));
/// let split = sum.split("i", "io", "ii", 4);
/// let refused = split.auto(4, &machine).find().unwrap_err().to_string();
/// assert!(refused.contains("`split(i, io, ii, 4)`: a search does not keep this step"), "{refused}");
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum SearchError {
    /// A search on 0 ranks.
    #[error("cannot search for a schedule on 0 ranks; give at least 1")]
    NoRanks,
    /// The loops cannot be divided over all ranks, and none may be idle.
    #[error("the loops of `{kernel}` cannot be divided over exactly {}; allow idle ranks", counted(ranks, "rank"))]
    NoGrid { kernel: String, ranks: usize },
    /// There are too many schedules to compare.
    #[error(
        "`{kernel}` has {loops} loops, which can be divided over {} in too many ways to compare; ask for fewer ranks, or write the schedule",
        counted(ranks, "rank")
    )]
    TooMany { kernel: String, loops: usize, ranks: usize },
    /// Kernels cannot run together, though a step of their schedules asks for it.
    #[error("the kernels up to the one that writes `{kernel}` cannot run together: {why}; {}", Passes::HELP)]
    Together { kernel: Name, why: String },
    /// The schedule already has steps.
    #[error(
        "the schedule already has {}, beginning with `{first}`; start the search from a kernel without steps",
        counted(steps, "step")
    )]
    HasSteps { steps: usize, first: String },
    /// The mesh has more ranks than there are.
    #[error(
        "the mesh ({mesh}) needs {}, but there are {ranks}; give a smaller mesh, or more ranks",
        counted(size, "rank")
    )]
    Mesh { mesh: String, size: usize, ranks: usize },
    /// Shardings of many axes are given without a mesh.
    #[error("the shardings, such as ({home}) of `{tensor}`, have too many axes to try all meshes; give a mesh too")]
    NoMeshOf { tensor: Name, home: String },
    /// A tensor is given two shardings.
    #[error("`{tensor}` has two shardings, ({first}) and ({second}); give one")]
    Homes { tensor: Name, first: String, second: String },
    /// No schedule is legal with the given shardings.
    #[error("no schedule fits the given shardings: {why}")]
    Home { why: String },
    /// A sharding is given for an unknown tensor.
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
        /// Bytes that the smallest schedule needs.
        least: u64,
        /// Whether none needs less; else a limit ended the search before all were compared.
        is_least: bool,
        /// How many ranks would be enough.
        enough: Enough,
    },
    /// The number of schedules differs from the number of kernels.
    #[error(
        "the sequence has {}, but {} given; give one for each",
        counted(kernels, "kernel"), schedules_are(*schedules)
    )]
    Schedules { kernels: usize, schedules: usize },
    /// Rounds name unknown kernels, or overlap others without containing them.
    #[error("cannot repeat the kernels {first}..{end}: {why}")]
    Rounds { first: usize, end: usize, why: String },
    /// Kernels that run in sequence have no mesh that suits all.
    #[error("no mesh of up to {} suits all of `{kernels}`; give them schedules on one mesh", counted(ranks, "rank"))]
    NoMesh { kernels: String, ranks: usize },
    /// The kernel has no products to order.
    #[error("`{kernel}` is not a summed product of several tensors with plain indices; leave the order out")]
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
    /// The machine lacks a figure of the cost model.
    #[error(transparent)]
    Cost(#[from] CostError),
}

/// Bytes, rounded up to the digits that are printed, so that the printed amount is enough.
fn rounded_up(bytes: u64) -> String {
    let digits = bytes.max(1).ilog10() + 1;
    // Four digits are printed if three are in front of the point, otherwise three.
    let unit = 10u64.pow(digits.saturating_sub(if digits.is_multiple_of(3) { 4 } else { 3 }));
    scaled(bytes.div_ceil(unit).saturating_mul(unit) as f64, "B")
}

fn least_is(is_least: bool) -> &'static str {
    match is_least {
        true => "the smallest needs",
        false => "not all were compared, and the smallest compared needs",
    }
}

fn schedules_are(count: usize) -> String {
    format!("{} {}", counted(count, "schedule"), are(count))
}

/// How many ranks would be enough if no schedule on the given ones fits into the memory.
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
    /// A search on this many ranks finds a schedule; on fewer it does not.
    Fewest(usize),
    /// This many are enough; fewer may be.
    Found(usize),
    /// No number of ranks is enough.
    Never,
    /// No schedule tried on up to this many ranks fits.
    NotFound(usize),
    /// The given mesh fixes the number; a larger mesh may be enough.
    LargerMesh,
    /// Not searched for.
    NotSought,
}

impl fmt::Display for Enough {
    /// Continues a message after "allow that".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fewest(ranks) => write!(f, ", or use {ranks} ranks, the fewest that would be enough"),
            Self::Found(ranks) => write!(f, ", or use {ranks} ranks, which would be enough; fewer may be, too"),
            Self::Never => f.write_str("; no number of ranks would be enough"),
            Self::NotFound(ranks) => {
                write!(f, "; none of the schedules tried on more ranks, up to {}, fits", counted(ranks, "rank"))
            }
            Self::LargerMesh => f.write_str(", or give a larger mesh"),
            Self::NotSought => f.write_str(", or more ranks"),
        }
    }
}

impl SearchError {
    /// The error that no schedule is legal with the given shardings.
    pub(crate) fn home(failed: &LowerError) -> Self {
        Self::Home { why: [Some(failed.message()), failed.help()].into_iter().flatten().collect::<Vec<_>>().join("; ") }
    }

    /// The error to report if two searches fail: the first, or if both lack memory, the one that needs less of it.
    pub(crate) fn first_or_least(first: Self, second: Self) -> Self {
        match (&first, &second) {
            (Self::Memory { least, is_least, .. }, Self::Memory { least: other, is_least: also, .. }) => {
                let is_least = *is_least && *also;
                if other < least { second } else { first }.with_least(is_least)
            }
            // Schedules that were not compared may need less.
            (Self::Memory { .. }, Self::TooMany { .. }) => first.with_least(false),
            (Self::TooMany { .. }, Self::Memory { .. }) => second.with_least(false),
            _ => first,
        }
    }

    /// Adds to an out-of-memory error how many ranks would be enough.
    pub(crate) fn with_enough(mut self, of: impl FnOnce(u64) -> Enough) -> Self {
        if let Self::Memory { memory, enough, .. } = &mut self {
            *enough = of(*memory);
        }
        self
    }

    /// Sets, in an out-of-memory error, whether its memory is the minimum over all schedules.
    pub(crate) fn with_least(mut self, is_it: bool) -> Self {
        if let Self::Memory { is_least, .. } = &mut self {
            *is_least = is_it;
        }
        self
    }
}
