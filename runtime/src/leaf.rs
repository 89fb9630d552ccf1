//! Leaf kernels: the computation of one rank on tiles that it holds.
//!
//! Two kernels compute everything: [`contract`] for sums of products of two operands, through a fast GEMM, and [`nest`] for everything
//! else; [`Products`] is a sequence of both for sums of products of several operands. They take strided operands, so no leaf copies a tile
//! to transpose it, and visit the same points in the same order for the same arguments: a generated program and the executor give the same
//! bits. A leaf moves no data between ranks and starts no threads.
//!
//! A program may instead call a function that the user has registered: [`register`].

use crate::{Element, Result};
use ndarray::{ArrayViewD, ArrayViewMutD};
use polyshard_program::Kernel;

pub use polyshard_leaf::{
    Access, Assign, BlockDepth, Closure, Comparison, Conditional, Expression, Factor, Field, Function, LeafLoopId,
    Name, Named, Number, OperandId, Pointwise, Product, ProductId, Products, Ramp, Role, Rows, Running, RunningForm,
    SlicesOf, TileStatement, Value, Vectors, contract, nest, nest_with_numbers, op, pointwise,
};
pub(crate) use polyshard_leaf::{LeafBox, LeafBoxes, Slices};

/// Registers `function` as the leaf `name` over elements of type `T`, for programs with the step
/// `tensorize_with([..], "name")`.
///
/// `kernel` states the function's result in index notation over tiles: `C[m, n] += A[m, k] * B[k, n]`. Each tensor is a tile with a
/// dimension per index, in the order in which its access lists them; the extents of the kernel are ignored. The function gets the output's
/// tile and then those of the `N` operands in the order in which the kernel first names them. An operand without dimensions, a scalar
/// `alpha` or a tensor `alpha[]`, may be a scalar of the program's kernel. The function
///
/// - combines into the current values of the output's tile: it adds for `+=`, which kernels with `=` need too, since their output starts
///   from zeros, and multiplies or keeps the greater or smaller for `*=`, `max=` and `min=`;
/// - accepts all extents but 0: tiles at the end of a dimension are short, and for empty ones it is not called;
/// - accepts all strides: tiles are parts of larger arrays, in any order of dimensions, and those of operands may have elements in common,
///   as the windows of `A[i + r]` do, which is the tile `A[i, r]`.
///
/// A program that needs a statement other than the registered one is refused before it communicates. The names in a statement are ignored,
/// and so is the order of a tile's dimensions; the order of factors and terms is not. Whether the function computes its kernel is not
/// checked.
///
/// Threads of [`spmd`](crate::spmd()) share the registry. Under MPI each process registers for itself. The same function, if it captures
/// nothing, may be registered again.
///
/// ```
/// use ndarray::{ArrayViewD, ArrayViewMutD};
/// use polyshard::runtime::leaf::{Named, TileStatement, register};
/// use polyshard::runtime::{Strided, StridedMut};
/// fn axpy(mut y: ArrayViewMutD<'_, f64>, [a, x]: [ArrayViewD<'_, f64>; 2]) {
///     y.scaled_add(a[[]], &x);
/// }
/// let text = "fn axpy(a: [f64;], x: [f64; 8]) -> y: [f64; 8] { y[i] += a[] * x[i] }";
/// let kernel = polyshard::text::parse_kernel(text)?.check()?;
/// register("axpy", &kernel, axpy)?;
///
/// // What a program does with it: tiles of three elements, of which those of `x` lie two apart.
/// let leaf = Named::<f64>::find("axpy", &["i"], &TileStatement::of_kernel(&kernel)?)?;
/// let (x, mut y) = ([1.0, 0.0, 2.0, 0.0, 3.0], [10.0, 20.0, 30.0]);
/// let operands = [Strided::new(&[0.5], 0, vec![]), Strided::new(&x, 0, vec![2])];
/// leaf.run(&[3], &operands, StridedMut::new(&mut y, 0, vec![1]));
/// assert_eq!(y, [10.5, 21.0, 31.5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`LeafError`](crate::LeafError) if the name is not an identifier, a tensor of the kernel is not one tile, its element type or the number of
/// its operands is not the function's, or another function is registered under the name for this element type.
pub fn register<T, const N: usize, F>(name: &str, kernel: &Kernel, function: F) -> Result<()>
where
    T: Element,
    F: Fn(ArrayViewMutD<'_, T>, [ArrayViewD<'_, T>; N]) + Send + Sync + 'static,
{
    Ok(polyshard_leaf::register(name, kernel, function)?)
}
