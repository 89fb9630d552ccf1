//! Tensor kernels, schedules, and the polyhedral analysis that turns them into programs.
//!
//! The way of the data: a [`KernelSpec`] is checked into a [`Kernel`]; a [`Schedule`] adds steps to it,
//! each checked as it is added; [`Schedule::lower`] derives the communication, proves it with isl and
//! returns a [`Program`], which is plain data. Nothing here knows MPI, arrays or how code is printed.
//!
//! | word | meaning |
//! | --- | --- |
//! | instance | one execution of the kernel's statement, for one value of every index variable |
//! | loop | one dimension of the schedule: distributed over a mesh axis, serial, or inside the leaf |
//! | step | one schedule method |
//! | region | a box of a tensor that one iteration touches |
//! | transfer | one `communicate` made concrete: a region and its route |
//! | route | how a region gets to its reader; its name is the pattern |
//! | leaf | the operation inside a tensorized nest |
//! | home | the sharding before the program starts |

mod access;
mod bounds;
mod by_exchange;
mod classify;
mod compose;
mod conditions;
mod display;
mod dtype;
mod error;
#[doc(hidden)]
pub mod example;
mod explain;
mod expr;
mod extent;
mod hint;
mod hints;
mod input;
mod isl;
mod kernel;
mod kernel_check;
mod kernel_error;
mod kernel_form;
mod kernel_numbers;
mod leaf;
mod lower;
mod matching;
mod named;
mod nest;
mod output;
mod pass;
mod periodic;
mod products;
mod program;
mod proof;
mod range;
mod reach;
mod relation;
mod report;
mod scalars;
mod schedule;
mod source;
mod state;
mod step;
mod traffic;
mod value;
mod written;

pub use access::{Access, Affine, Modulus};
pub use dtype::{DType, Number, ScalarType};
pub use error::{ErrorKind, LowerError};
pub use expr::{Atom, Expr, Ranges, Symbol};
pub use extent::{Extent, extent};
pub use hint::Hint;
pub use kernel::{Assign, IndexVar, Kernel, KernelSpec, Tensor};
pub use kernel_error::KernelError;
pub use program::{
    Blocks, Factor, Leaf, LeafAccess, LeafLoop, LeafOp, Loop, LoopBlock, Output, OutputRoute, Product, ProductOp,
    Program, Region, Report, Role, Route, Statement, TileOperand, Transfer,
};
pub use proof::{Proof, Property};
pub use schedule::{Schedule, Trace};
pub use step::{Clause, Dim, LeafKind, Offsets, Pattern, Step, Var, dim, partial, pin};
pub use value::{Choice, Comparison, Function, Value};
pub use written::Written;
