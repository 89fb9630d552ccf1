//! Programs, which every rank runs, as plain data.
//!
//! A [`Program`] is what is proved, printed, priced, emitted and run. Other crates make programs: `polyshard-polyhedral` from schedules,
//! and `polyshard-planner` from types; they decide the routes. This crate holds the parts of a program, the decisions that follow from
//! these alone (the [`Route`] of a move, the buffers of a tile), and their text, explanation and bounds.
//!
//! | word | meaning |
//! | --- | --- |
//! | kernel | one statement over index variables, checked: indices bound, accesses inside their tensors |
//! | region | a box of a tensor that one iteration touches |
//! | transfer | one `communicate` made concrete: a region and its route |
//! | route | how a region gets to its reader; its name is the pattern |
//! | leaf | the operation inside a tensorized nest |
//!
//! | module | holds |
//! | --- | --- |
//! | `kernel`, `kernel_check`, `kernel_error`, `kernel_numbers` | kernels: data, checks, files |
//! | `value`, `affine`, `periodic`, `scalars`, `number`, `extent`, `bounds` | the parts of a kernel: values, indices, numbers and their limit |
//! | `program`, `statement`, `nest`, `ids`, `expr`, `part` | programs and their tables, and the expressions in these |
//! | `between`, `pattern`, `leg_text`, `tile_statement` | how elements get to the ranks that need them, and the names for it |
//! | `reduction`, `matching` | which ranks combine which terms, and whether ranks make the same calls |
//! | `running` | reductions of several values at once |
//! | `proof`, `unproved`, `written`, `footprint` | proofs, and which elements a kernel touches |
//! | `volume`, `traffic`, `received`, `staged`, `work`, `report`, `lower_bound` | traffic, memory and work, and a lower bound on traffic |
//! | `display`, `explain`, `hint` | a program as text, the reasons for it, and hints about slow schedules |

mod affine;
mod between;
pub mod bounds;
mod display;
mod explain;
mod expr;
mod extent;
mod footprint;
mod hint;
mod ids;
mod kernel;
mod kernel_check;
mod kernel_error;
mod kernel_numbers;
mod leg_text;
mod lower_bound;
mod matching;
mod nest;
mod number;
mod part;
mod pattern;
mod periodic;
mod program;
mod proof;
mod received;
pub mod reduction;
mod report;
mod running;
mod scalars;
mod staged;
mod statement;
mod tile_statement;
mod traffic;
mod unproved;
mod value;
mod volume;
mod work;
mod written;

pub use affine::{Affine, Modulus};
pub use between::{RouteError, common_mesh, summed_up};

pub use expr::{Atom, Expr, Ranges, Symbol};
pub use extent::{Extent, extent};
pub use footprint::{Footprint, Progression};
pub use hint::Hint;
pub use ids::{
    ArrayId, Axes, AxisId, BlockDepth, CounterId, Depth, KernelId, LeafLoopId, LegId, LoopId, OperandId, ProductId,
    RoomId, RoundsId, StatementId, StepId, TensorId, TileId, TransferId,
};
pub use kernel::{Assign, IndexVar, Kernel, KernelSpec, Tensor};
pub use kernel_error::KernelError;
pub use lower_bound::LowerBound;
pub use matching::MOST_AHEAD;
pub use nest::{
    Algorithm, Blocks, Buffers, Continued, Direction, End, Factor, InPlace, Interior, Leaf, LeafAccess, LeafLoop,
    LeafNumber, LeafOp, Leg, Loop, LoopBlock, LoweredKernel, MOST_TIME_STEPS, NestView, Overlap, Owners, Packing,
    PathStep, Product, Region, Role, Route, Shift, SlicesOf, Tile, TileOperand, TimeSteps, Transfer, TransferView, Use,
};
pub use number::{Number, ScalarType};
pub use pattern::{LeafKind, Offsets, Pattern};
pub use periodic::periods;
pub use polyshard_layout::DType;
pub use program::{
    Array, ArrayKind, Body, Carried, InRounds, MOST_ROUNDS, MoveView, Program, ProgramError, Rooms, Rounds, Span,
    StagedLeg, Until,
};
pub use proof::{Proof, Property, Report, SENT};
pub use running::{Field, Running, RunningForm};
#[doc(hidden)]
pub use running::{Node, Plan};
pub use staged::CHUNK;
pub use statement::{At, Iteration, LeafPart, Statement};
pub use tile_statement::TileStatement;
pub use unproved::{Priced, Unproved};
pub use value::{Access, Comparison, Conditional, Function, Value};
pub use volume::Volume;
pub use work::{LeafProduct, Work};
pub use written::Written;
