//! Leaf kernels: the computation of one rank on tiles that it holds.
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
//! | `named` | leaves that users register |

mod contract;
mod evaluate;
mod expression;
mod fold;
mod functions;
mod gather;
mod gemm;
mod integer;
mod named;
mod nest;
mod order;
mod packed;
mod panel;
mod parts;
mod pointwise;
mod products;
mod rows;
mod scratch;
mod slices;
mod vector;
mod walk;

pub use contract::contract;
pub(crate) use contract::contract_strided;
pub use expression::Expression;
pub use gemm::Vectors;
pub use named::{Named, register};
pub use nest::{Ramp, nest, nest_with_numbers};
pub(crate) use parts::{LeafBox, LeafBoxes};
pub use pointwise::{Closure, Pointwise, pointwise};
pub use polyshard_layout::Name;
pub use polyshard_program::{
    Access, Assign, BlockDepth, Comparison, Conditional, Factor, Function, LeafLoopId, Number, OperandId, Product,
    ProductId, Role, SlicesOf, TileStatement, Value,
};
pub use products::Products;
pub use rows::Rows;
pub(crate) use slices::Slices;

#[cfg(test)]
mod tests;
