//! Leaf kernels: the computation of one rank on tiles that it holds, and the elements of tiles.
//!
//! Two kernels compute everything: [`contract`] for sums of products of two operands, through a fast GEMM, and [`nest`] for everything
//! else; [`Products`] is a sequence of both for sums of products of several operands. They take strided operands, so no leaf copies a tile
//! to transpose it, and visit the same points in the same order for the same arguments: a generated program and the executor give the same
//! bits. A leaf moves no data between ranks and starts no threads.
//!
//! A program may instead call a function that the user has registered: [`register`].
//!
//! | module | holds |
//! | --- | --- |
//! | `contract`, `gemm`, `panel`, `products`, `integer` | sums of products |
//! | `nest`, `pointwise`, `expression`, `functions`, `fold`, `order` | all other kernels, point by point |
//! | `evaluate`, `rows`, `gather`, `vector`, `walk` | how rows are read and evaluated |
//! | `parts`, `slices`, `packed`, `scratch` | a leaf in parts, and its scratch memory |
//! | `records` | running reductions |
//! | `named` | leaves that users register |
//! | `view`, `region` | operands, and boxes of indices |
//! | `element`, `math`, `instances` | element types and their functions |
//! | `error` | errors |

mod contract;
mod element;
mod error;
mod evaluate;
mod expression;
mod fold;
mod functions;
mod gather;
mod gemm;
mod instances;
mod integer;
mod math;
mod named;
mod nest;
mod order;
mod packed;
mod panel;
mod parts;
mod pointwise;
mod products;
mod records;
pub mod region;
mod rows;
mod scratch;
mod slices;
mod vector;
pub mod view;
mod walk;

pub use contract::contract;
pub use element::{Element, of_number};
pub use error::LeafError;
pub use expression::Expression;
pub use gemm::Vectors;
pub use named::{Named, register};
pub use nest::{Ramp, nest, nest_with_numbers};
pub use parts::{LeafBox, LeafBoxes};
pub use pointwise::{Closure, Pointwise, pointwise};
pub use polyshard_layout::{DType, Name, ReduceOp};
pub use polyshard_program::{
    Access, Assign, BlockDepth, Comparison, Conditional, Factor, Field, Function, LeafLoopId, Number, OperandId,
    Product, ProductId, Role, Running, RunningForm, SlicesOf, TileStatement, Value,
};
pub use products::Products;
pub use records::op;
pub use region::Region;
pub use rows::Rows;
pub use slices::Slices;
pub use view::{Strided, StridedMut, View, ViewMut};

#[cfg(test)]
mod tests;
