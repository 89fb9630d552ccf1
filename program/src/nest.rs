//! Nests: kernels with their schedule's loops, transfers and leaf.
//!
//! A program has them in [tables](crate::Body); [`NestView`] shows those of one kernel. Counters in expressions count the loops around a
//! place, the outermost first. The statements of the program say when a transfer begins and ends, and when a leaf runs.
//!
//! | module | holds |
//! | --- | --- |
//! | `transfer`, `view` | rows of the tables of transfers, and the view of a kernel |
//! | `region`, `route`, `interior`, `time_steps` | regions, routes, and the part of a leaf to compute while a halo is in flight |
//! | `products`, `path`, `operation` | leaves of several operands |
//! | `overlap`, `queries` | overlap with computation, queries |
//! | `in_place` | which ranks read inputs in place |
//! | `complete`, `check`, `steps` | derived parts, and checks that the parts fit together |
//!
//! Tests: `program/tests/it/refused.rs`.

mod check;
mod complete;
mod in_place;
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
mod transfer;
mod view;

pub use in_place::InPlace;
pub use interior::Interior;
pub use overlap::{Overlap, SlicesOf};
pub use path::PathStep;
pub use products::{Factor, LoopBlock, Product};
pub use region::{Blocks, Region};
pub use route::{Algorithm, Direction, Leg, Owners, Packing, Route, Shift};
use serde::{Deserialize, Serialize};
pub use time_steps::{MOST_TIME_STEPS, TimeSteps};
pub use transfer::{Buffers, End, Tile, Transfer};
pub use view::{NestView, TransferView};

use crate::affine::Affine;
use crate::expr::Expr;
use crate::hint::Hint;
use crate::ids::{ArrayId, Axes, LoopId, OperandId, StepId, TensorId, TransferId};
use crate::kernel::Kernel;
use crate::pattern::LeafKind;
use crate::proof::Report;
use crate::tile_statement::TileStatement;
use crate::value::{Access, Value};
use polyshard_layout::Name;

/// A kernel as its schedule lowered it: a row of the table of kernels, with the numbers of the arrays, loops and transfers that it uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoweredKernel {
    /// The kernel that it computes.
    pub kernel: Kernel,
    /// The steps of the schedule, as they print.
    pub steps: Vec<String>,
    /// The axes of the mesh along which all ranks compute the same, redundantly.
    #[serde(default, skip_serializing_if = "Axes::is_empty")]
    pub copies: Axes,
    /// The arrays that the tensors are: the inputs, then the output.
    pub arrays: Vec<ArrayId>,
    /// The serial loops around the leaf, outermost first.
    pub loops: Vec<LoopId>,
    /// The transfers of inputs to their readers, and last that of the output to its owners.
    pub uses: Vec<Use>,
    /// The innermost operation.
    pub leaf: Leaf,
    /// Whether and how the kernel is applied several times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_steps: Option<TimeSteps>,
    /// The array that its output is the next version of, if it is stated here; rounds may also [imply](crate::Body::version_before) it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<Continued>,
    /// Proofs and bounds.
    pub report: Report,
    /// Hints at what would likely make it faster; none concerns correctness.
    pub hints: Vec<Hint>,
}

/// The array as which the output of a kernel begins, which has the same shape and sharding: the output is its next version, and a
/// temporary or an output of its own.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::program::{Array, ArrayId, ArrayKind, Continued};
/// let product = kernel! { fn product(A: [f64; 2, 3], B: [f64; 3, 2]) -> C: [f64; 2, 2] { C[i, j] += A[i, k] * B[k, j] } };
/// let mut body = product.lower()?.body().clone();
/// // Of the arrays A, B and C, C begins as another input, and the products are added to it.
/// let given = Array { name: "C0".into(), kind: ArrayKind::Input, ..body.arrays[2].clone() };
/// body.arrays.push(given);
/// body.kernels[0].continues = Some(Continued { array: ArrayId(3), adds: true });
/// let program = Program::new(body)?;
/// assert!(program.explain().contains("C begins as C0, and `product` adds to it"));
/// let found = spmd(1, |world| {
///     let ones = |name| DistArray::filled(world, program.sharding(name), 1.0);
///     Ok(program.run(world, &[&ones("A")?, &ones("B")?, &ones("C0")?])?.block().to_vec())
/// })?;
/// assert_eq!(found, [[4.0; 4]]);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Continued<A = ArrayId> {
    /// The array, an input or written before: its number in a program, its name in a sequence.
    pub array: A,
    /// Whether the terms of the kernel are combined with the array's elements, as its operation says: `+=`, `*=`, `max=` or `min=`. If
    /// not, the elements that the kernel writes begin anew, and only the others are those of the array.
    pub adds: bool,
}

/// What a transfer is for a kernel: two kernels use the same transfer if the second one reads the tile of the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Use {
    /// The transfer.
    pub transfer: TransferId,
    /// The tensor of the kernel.
    pub tensor: TensorId,
    /// The leaf's operands that read the fetched region, ascending.
    pub operands: Vec<OperandId>,
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

impl LeafNumber {
    /// Returns an index of a kernel as a number in a leaf with these loops, as if it did not wrap.
    #[must_use]
    pub fn new(index: &Affine, loops: &[LeafLoop]) -> Self {
        let base = loops.iter().fold(Expr::constant(index.constant), |sum, inner| {
            sum.add(&inner.low.multiply(index.coefficient(inner.var)))
        });
        let strides = loops.iter().map(|inner| index.coefficient(inner.var).saturating_mul(inner.stride));
        Self { base, strides: strides.collect() }
    }
}

impl LeafAccess {
    /// Returns an access of a kernel to a tensor in a leaf with these loops. A tile holds the elements of a periodic index as if it did
    /// not wrap, so that the leaf walks with one stride.
    #[must_use]
    pub fn new(access: &Access, tensor: TensorId, loops: &[LeafLoop]) -> Self {
        let dims = access.index.iter().map(|index| LeafNumber::new(&index.unwrapped(), loops));
        let (base, strides) = dims.map(|LeafNumber { base, strides }| (base, strides)).unzip();
        Self { tensor, base, strides }
    }
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
