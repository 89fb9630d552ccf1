//! Nests: one kernel with its schedule's loops, its transfers and its leaf.
//!
//! All ranks run the same statements; they differ in the values of their coordinates alone.
//!
//! ```text
//! body      = statement*
//! statement = Loop counter body         counter in 0..extent, the same on all ranks
//!           | Fetch transfer            bring the transfer's region of an input here
//!           | Start                     an output tile of identities, or the sums of a neighbour
//!           | Leaf                      compute on tiles
//!           | Finish                    combine the output tile into its owners' shards
//! ```

mod body;
mod products;
mod queries;
mod region;
mod route;

pub use region::{Blocks, Region};
pub use route::Route;
use route::halo;
pub use route::{members, partners};
use serde::{Deserialize, Serialize};

use crate::expr::Expr;
use crate::hint::Hint;
use crate::kernel::Kernel;
use crate::pattern::{LeafKind, Pattern};
use crate::proof::Report;
use crate::tile_statement::TileStatement;
use crate::value::Value;
use polyshard_layout::{Mesh, Name, Reach, Sharding};

pub use products::{Factor, LoopBlock, Product};

/// A kernel with the loops, transfers and leaf that its schedule lowered to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Nest {
    /// What it computes.
    pub kernel: Kernel,
    /// The steps of the schedule, as they print.
    pub steps: Vec<String>,
    /// The mesh of ranks.
    pub mesh: Mesh,
    /// How the tensors lie: the inputs, then the output.
    pub shardings: Vec<Sharding>,
    /// The serial loops by number, outermost first.
    pub loops: Vec<Loop>,
    /// How inputs get to their readers, by number.
    pub transfers: Vec<Transfer>,
    /// How the output gets to its owners.
    pub output: Output,
    /// The innermost operation.
    pub leaf: Leaf,
    /// The statements.
    pub body: Vec<NestStatement>,
    /// What was proved, and the bounds.
    pub report: Report,
    /// What would likely make it faster; none of them is about whether it is right.
    pub hints: Vec<Hint>,
}

/// A serial loop, `0..extent` on all ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loop {
    /// Its name.
    pub name: Name,
    /// Its number of iterations.
    pub extent: i64,
    /// The numbers, from 1, of the steps that made it.
    pub steps: Vec<usize>,
}

/// The number of a transfer of a nest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransferId(pub usize);

/// A statement of a nest; see the module's grammar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NestStatement {
    /// Runs the body once per value of the counter.
    Loop {
        /// The number of the loop.
        counter: usize,
        /// What it repeats.
        body: Vec<NestStatement>,
    },
    /// Performs the transfer with this number.
    Fetch(TransferId),
    /// Fills the output tile with the identity of the kernel's operation, or takes over the sums of a neighbour.
    Start,
    /// Computes.
    Leaf,
    /// Combines the output tile into the shards of its owners.
    Finish,
}

/// One `communicate` of an input made concrete: how a region of it gets here.
///
/// An input has one transfer per region that its accesses touch: one for accesses that differ in constants alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// The position of the input.
    pub tensor: usize,
    /// The leaf's operands that read what it brings, by their numbers, ascending.
    pub operands: Vec<usize>,
    /// The number of serial loops around it.
    pub level: usize,
    /// What it brings.
    pub region: Region,
    /// How.
    pub route: Route,
    /// Elements of one tile buffer; 0 if the leaf reads the shard.
    pub capacity: usize,
    /// The number of such buffers.
    pub buffers: usize,
    /// The steps that led here, by number from 1.
    pub step: Option<usize>,
    /// The tests that led to the route, for [`Program::explain`](crate::Program::explain).
    pub tests: Vec<String>,
}

/// How the output gets from the rank that computes it to its owners.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// The number of serial loops around [`NestStatement::Start`] and [`NestStatement::Finish`].
    pub level: usize,
    /// What one tile holds.
    pub region: Region,
    /// How it gets to its owners.
    pub route: OutputRoute,
    /// Whether the communication library chooses the order in which collectives add up partial sums, else it is that of
    /// the ranks.
    pub any_order: bool,
    /// Elements of the tile; 0 if the leaf writes the shard.
    pub capacity: usize,
    /// The step that led here, by number from 1.
    pub step: Option<usize>,
    /// The tests that led to the route.
    pub tests: Vec<String>,
}

/// How an output tile gets to its owners.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum OutputRoute {
    /// The leaf accumulates into the rank's own shard.
    InPlace,
    /// The rank owns it, but block-cyclic: the tile is combined into the rank's own shard.
    Combine,
    /// The tiles of all ranks along the axes are summed up at one of them: a broadcast run backwards.
    Reduce {
        /// The axes' positions, ascending.
        axes: Vec<usize>,
        /// The coordinates of the owner along them.
        root: Vec<Expr>,
    },
    /// The tiles of all ranks along the axes are summed up at each of them, as all own it.
    AllReduce {
        /// The axes' positions, ascending.
        axes: Vec<usize>,
    },
    /// The tiles of all ranks along the axes are summed up part by part, each at the rank that owns it: an
    /// all-gather run backwards.
    ReduceScatter {
        /// The axes' positions, ascending.
        axes: Vec<usize>,
    },
    /// The sums travel: in each iteration but the first of the innermost loop around, a rank goes on from the tile
    /// that its neighbour had in the one before; after the last, they go home by another route.
    Shift {
        /// The axis' position.
        axis: usize,
        /// The neighbour's distance along the axis, modulo its extent.
        by: i64,
        /// The loop.
        counter: usize,
        /// The route of the last iteration.
        last: Box<OutputRoute>,
    },
    /// To one rank, and one tile from another.
    Permute {
        /// The coordinates of the rank that owns this rank's tile.
        to: Vec<Expr>,
        /// The coordinates of the rank whose tile this rank owns.
        from: Vec<Expr>,
    },
    /// To neighbours, who own what the rank writes beyond what it owns itself.
    Halo {
        /// Per axis, how far owners are from the rank that writes.
        reach: Vec<Reach>,
    },
    /// To every owner of each piece.
    Exchange {
        /// Per axis, how far owners are from the rank that writes.
        reach: Vec<Reach>,
    },
}

impl OutputRoute {
    /// Returns the most other ranks that a rank looks at in one step, as [`Route::partners`].
    #[must_use]
    pub fn partners(&self, mesh: &Mesh) -> usize {
        let group = |axes: &[usize]| members(axes, mesh) as usize - 1;
        match self {
            Self::InPlace | Self::Combine => 0,
            Self::Reduce { axes, .. } | Self::AllReduce { axes } | Self::ReduceScatter { axes } => group(axes),
            Self::Shift { last, .. } => last.partners(mesh).max(2),
            Self::Permute { .. } => 2,
            Self::Halo { reach } | Self::Exchange { reach } => partners(reach, mesh),
        }
    }

    /// Returns the pattern, with axes by name.
    #[must_use]
    pub fn pattern(&self, mesh: &Mesh) -> Pattern {
        match self {
            Self::InPlace | Self::Combine => Pattern::Local,
            Self::Reduce { axes, .. } => Pattern::Reduce { axes: mesh.names(axes) },
            Self::AllReduce { axes } => Pattern::AllReduce { axes: mesh.names(axes) },
            Self::ReduceScatter { axes } => Pattern::ReduceScatter { axes: mesh.names(axes) },
            Self::Shift { axis, by, .. } => Pattern::Shift { axis: mesh.as_slice()[*axis].name, by: *by },
            Self::Permute { .. } => Pattern::Permute,
            Self::Halo { reach } => halo(reach, mesh),
            Self::Exchange { .. } => Pattern::Exchange,
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
    /// The tensor: an input's position, or the number of inputs for the output.
    pub tensor: usize,
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

/// What a loop of a contraction is to its operands.
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

/// What the leaf does at each point.
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
        /// The products in the order in which they run; the last one adds to the output, the others make scratch.
        steps: Vec<Product>,
        /// The loops that run in blocks around products, outermost first, which bounds the scratch.
        blocks: Vec<LoopBlock>,
        /// A value without accesses.
        alpha: Value,
    },
    /// Combines the kernel's value into the output.
    Nest,
    /// Calls what the user has registered under a name.
    Named {
        /// The name.
        name: Name,
        /// What the leaf must compute: the kernel's statement over tiles, which have a dimension per loop that moves them.
        statement: TileStatement,
        /// What the operands of the statement are, in the order in which it names them first.
        operands: Vec<TileOperand>,
    },
}

/// An operand of a leaf with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TileOperand {
    /// The leaf's operand with this number.
    Access(usize),
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

    /// Returns the most elements of results that lie between the products of a leaf of several.
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
    /// Where it writes.
    pub target: LeafAccess,
    /// What it reads, in the order of the kernel's accesses.
    pub operands: Vec<LeafAccess>,
    /// The indices that the kernel's value holds as numbers, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<LeafNumber>,
    /// What it does.
    pub op: LeafOp,
    /// The step that made it, by number from 1.
    pub step: Option<usize>,
}
