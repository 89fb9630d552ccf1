//! Nests: one kernel with its schedule's loops, its transfers and its leaf.
//!
//! Loops, transfers and operands are numbered within their nest, and so are the counters in expressions. The statements of the
//! [program](crate::Program) that the nest belongs to say when each of them runs.
//!
//! | module | holds |
//! | --- | --- |
//! | `region`, `route`, `interior`, `time_steps` | regions, routes, and the part of a leaf to compute while a halo is in flight |
//! | `products`, `path`, `operation` | leaves of several operands |
//! | `overlap`, `queries` | overlap with computation, queries |
//! | `complete`, `check`, `steps` | derived parts, and checks that the parts fit together |
//!
//! Tests: `program/tests/it/refused.rs`.

mod check;
mod complete;
mod interior;
mod operation;
mod overlap;
mod path;
mod products;
mod queries;
mod region;
mod route;
mod steps;
mod time_steps;

pub use interior::{Interior, LeafPart};
pub use overlap::{Overlap, SlicesOf};
pub use path::PathStep;
pub use products::{Factor, LoopBlock, Product};
pub use region::{Blocks, Region};
pub use route::{Algorithm, Direction, Leg, Owners, Packing, Route, Shift};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
pub use time_steps::{MOST_TIME_STEPS, TimeSteps};

use crate::expr::Expr;
use crate::hint::Hint;
use crate::ids::{ArrayId, Axes, Depth, LegId, NestId, OperandId, StepId, TensorId, TileId};
use crate::kernel::Kernel;
use crate::pattern::LeafKind;
use crate::proof::Report;
use crate::tile_statement::TileStatement;
use crate::value::Value;
use polyshard_layout::{Mesh, Name, Sharding};

/// A kernel with the loops, transfers and leaf that its schedule lowered to.
///
/// ```
/// # use polyshard::prelude::*;
/// # let rows = kernel! { fn matmul(A: [f64; 4, 6], B: [f64; 6, 8]) -> C: [f64; 4, 8] { C[m, n] += A[m, k] * B[k, n] } };
/// # vars!(m, n, k, mo, mi);
/// # let (mesh, x) = (Mesh::new([("x", 2)]), "x");
/// # let rows = rows.distribute([m], [mo], [mi], &mesh).shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]);
/// // Rows of C = A * B on two ranks, as in the example of `Program`.
/// let program = rows.lower()?;
/// let nest = program.nest();
/// assert_eq!(nest.kernel.statement(), "C[m, n] += A[m, k] * B[k, n]");
/// assert_eq!(nest.steps[0], "distribute([m], [mo], [mi], mesh(x: 2))");
/// assert_eq!(nest.transfers.len(), 3); // of A, B and C
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Nest {
    /// The kernel that it computes.
    pub kernel: Kernel,
    /// The steps of the schedule, as they print.
    pub steps: Vec<String>,
    /// The mesh of ranks.
    pub mesh: Mesh,
    /// The axes of the mesh along which all ranks compute the same, redundantly.
    #[serde(default, skip_serializing_if = "Axes::is_empty")]
    pub copies: Axes,
    /// The program's arrays that the tensors are: the inputs, then the output.
    pub arrays: Vec<ArrayId>,
    /// The shardings of the tensors: the inputs, then the output.
    pub shardings: Vec<Sharding>,
    /// The serial loops by number, outermost first.
    pub loops: Vec<Loop>,
    /// The transfers of inputs to their readers, by number, and last that of the output to its owners.
    pub transfers: Vec<Transfer>,
    /// The innermost operation.
    pub leaf: Leaf,
    /// Whether and how the kernel is applied several times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_steps: Option<TimeSteps>,
    /// Proofs and bounds.
    pub report: Report,
    /// Hints at what would likely make it faster; none concerns correctness.
    pub hints: Vec<Hint>,
}

/// A serial loop, `0..extent` on all ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loop {
    /// Its name.
    pub name: Name,
    /// Its number of iterations.
    pub extent: i64,
    /// The steps that made it.
    pub steps: Vec<StepId>,
}

/// One `communicate` made concrete: how a region of an input gets to its reader, or a computed region of the output to its owners.
///
/// An input has one transfer per region that its accesses touch: one for accesses that differ in constants alone.
///
/// ```
/// # use polyshard::prelude::*;
/// # let rows = kernel! { fn matmul(A: [f64; 4, 6], B: [f64; 6, 8]) -> C: [f64; 4, 8] { C[m, n] += A[m, k] * B[k, n] } };
/// # vars!(m, n, k, mo, mi);
/// # let (mesh, x) = (Mesh::new([("x", 2)]), "x");
/// # let rows = rows.distribute([m], [mo], [mi], &mesh).shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]);
/// use polyshard::program::{Depth, Direction};
/// // Rows of C = A * B on two ranks, as in the example of `Program`.
/// let program = rows.lower()?;
/// let b = &program.nest().transfers[1];
/// assert_eq!((b.direction, b.level), (Direction::In, Depth(0))); // once, before the leaf
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// The tensor.
    pub tensor: TensorId,
    /// Its direction.
    pub direction: Direction,
    /// The leaf's operands that read the fetched region, ascending.
    pub operands: Vec<OperandId>,
    /// The serial loops around it.
    pub level: Depth,
    /// How many iterations of the innermost of these loops lie between its beginning and its end: an input's transfer begins this many
    /// before the iteration that reads it, and an output's ends this many after the iteration that computes it; 0 if both are in the same
    /// iteration.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ahead: usize,
    /// Which runs of its nest fetch it.
    #[serde(default, skip_serializing_if = "Brought::is_each_time")]
    pub brought: Brought,
    /// Whether the [interior](Leaf::interior) of the leaf is computed while it is in flight, and the iterations that read it after that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interior_first: bool,
    /// The region that it moves.
    pub region: Region,
    /// How it is moved.
    pub route: Route,
    /// The region's buffers on this rank.
    pub tile: Tile,
    /// The step of the schedule that it follows from.
    pub step: Option<StepId>,
    /// The tests that led to the route, for [`Program::explain`](crate::Program::explain).
    pub tests: Vec<String>,
    /// Why collectives are carried out as they are, by their legs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub carried_out: BTreeMap<LegId, String>,
}

/// Which runs of a nest fetch a transfer's region: all, unless the rank has received it since the array was last written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Brought {
    /// All.
    #[default]
    EachTime,
    /// The run in the first round of the [`Repeat`](crate::Statement::Repeat) around the nest: no round writes the array, so the tile
    /// still holds the data in later rounds.
    Once,
    /// None: the region is in the tile of another nest that read it earlier in the same round.
    For {
        /// That nest.
        nest: NestId,
        /// The transfer that fetched it.
        tile: TileId,
    },
}

impl Brought {
    fn is_each_time(&self) -> bool {
        *self == Self::EachTime
    }
}

impl Transfer {
    /// Returns the transfer of another nest whose tile it reuses, if any.
    #[must_use]
    pub fn kept_by(&self) -> Option<(NestId, TileId)> {
        match self.brought {
            Brought::For { nest, tile } => Some((nest, tile)),
            Brought::EachTime | Brought::Once => None,
        }
    }

    /// Returns whether its tile can keep the fetched region for another run of the nest: if it is fetched into a tile that receives
    /// nothing else.
    #[must_use]
    pub fn can_stay(&self) -> bool {
        self.direction == Direction::In && self.level == Depth(0) && !self.route.is_in_place()
    }
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The buffers of a transfer's region on a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tile {
    /// Elements of one buffer; 0 if the leaf reads or writes the shard.
    pub capacity: usize,
    /// Its buffers.
    pub buffers: Buffers,
    /// Whether its region is the same in all iterations, so that the messages of an exchange are planned once.
    pub is_fixed: bool,
    /// Whether the rank's own part of a halo's region is read in place, not copied into the tile.
    pub own_in_place: bool,
}

/// The buffers of a tile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Buffers {
    /// None: the leaf reads or writes the rank's shard.
    #[default]
    Shard,
    /// One.
    One,
    /// Two in turns: one is forwarded while the other receives.
    Relay,
    /// One more than this in turns: one is read while the others receive for the next iterations, or written while the others are sent.
    Ahead(usize),
}

impl Buffers {
    /// Returns the number of buffers.
    #[must_use]
    pub fn count(self) -> u64 {
        match self {
            Self::Shard => 0,
            Self::One => 1,
            Self::Relay => 2,
            Self::Ahead(depth) => depth as u64 + 1,
        }
    }
}

/// One index variable inside the leaf: `low, low + stride, ..`, `count` values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeafLoop {
    /// The index variable's name.
    pub var: Name,
    /// Its first value.
    pub low: Expr,
    /// The number of values; none if it is not positive.
    pub count: Expr,
    /// The distance from one value to the next.
    pub stride: i64,
}

/// An access of the leaf, affine in its loops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeafAccess {
    /// The tensor.
    pub tensor: TensorId,
    /// The global index, per dimension, at the first value of every loop.
    pub base: Vec<Expr>,
    /// How far the index moves, per dimension and leaf loop.
    pub strides: Vec<Vec<i64>>,
}

/// An index as a number, affine in the leaf's loops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeafNumber {
    /// Its value at the first value of every loop.
    pub base: Expr,
    /// How far each loop moves it.
    pub strides: Vec<i64>,
}

/// The role of a contraction's loop for its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Indexes both operands and the output.
    Batch,
    /// Indexes the first operand and the output.
    M,
    /// Indexes the second operand and the output.
    N,
    /// Indexes both operands, and is summed.
    K,
}

/// The operation of a leaf at each point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LeafOp {
    /// `output += alpha * first * second`.
    Contraction {
        /// The role of each loop.
        roles: Vec<Role>,
        /// A value without accesses.
        alpha: Value,
    },
    /// `output += alpha * first * second * ..`, two at a time.
    Products {
        /// The products in the order in which they run; the last one adds to the output, the others write scratch.
        steps: Vec<Product>,
        /// The loops that run in blocks around products, outermost first, which bounds the scratch.
        blocks: Vec<LoopBlock>,
        /// A value without accesses.
        alpha: Value,
    },
    /// Combines the kernel's value into the output.
    Nest,
    /// Calls the function that the user has registered under a name.
    Named {
        /// The name.
        name: Name,
        /// What the leaf must compute: the kernel's statement over tiles, which have a dimension per loop that indexes them.
        statement: TileStatement,
        /// The operands of the statement, in the order in which it first names them.
        operands: Vec<TileOperand>,
    },
}

/// An operand of a named leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TileOperand {
    /// An operand of the leaf.
    Access(OperandId),
    /// A scalar of the kernel.
    Scalar(Name),
}

impl LeafOp {
    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> LeafKind {
        match self {
            Self::Contraction { .. } | Self::Products { .. } => LeafKind::Contraction,
            Self::Nest => LeafKind::Nest,
            Self::Named { name, .. } => LeafKind::Named(*name),
        }
    }

    /// Returns the elements of all intermediate results of a leaf with several products, at most.
    #[must_use]
    pub fn scratch(&self) -> i64 {
        match self {
            Self::Products { steps, .. } => {
                steps.iter().fold(0, |sum: i64, step| sum.saturating_add(step.capacity as i64))
            }
            Self::Contraction { .. } | Self::Nest | Self::Named { .. } => 0,
        }
    }
}

/// The innermost operation: index variables over boxes, in a nest or as a matrix product.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Leaf {
    /// The loops, outermost first.
    pub loops: Vec<LeafLoop>,
    /// The access that it writes.
    pub target: LeafAccess,
    /// The accesses that it reads, in the kernel's order.
    pub operands: Vec<LeafAccess>,
    /// The indices that the kernel's value uses as numbers, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<LeafNumber>,
    /// Its operation.
    pub op: LeafOp,
    /// Whether it overwrites the output in place, so that `=` need not clear it first.
    pub overwrites: bool,
    /// The iterations that are computed while halos are in flight, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interior: Option<Interior>,
    /// The step that made it.
    pub step: Option<StepId>,
}
