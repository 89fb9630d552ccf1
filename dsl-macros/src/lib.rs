//! The macros of Polyshard: `kernel!`, a tensor statement in index notation, and `vars!`.
//!
//! ```text
//! tokens --polyshard-dsl--> Definition --expand----> an expression: the kernel as data
//!                                      --compiled--> a module: the scheduled kernel
//! ```
//!
//! How kernels and schedules are written is known to `polyshard-dsl`. What a schedule means and which are legal
//! is decided by `polyhedral`, which the compiled form asks while the user's crate is built.

mod compiled;
mod expand;
#[cfg(test)]
mod tests;
mod vars;

use polyshard_dsl::Definition;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::quote;

/// A tensor kernel in index notation: an expression, or with a schedule inside, a module.
///
/// ```text
/// kernel! {
///     pub? fn NAME(A: [T; extent, ..], ..) -> C: [T; extent, ..] {
///         C[index, ..] OP value  for q in start..end ..
///     }
///     schedule?
/// }
/// ```
///
/// # The statement
///
/// ```
/// use polyshard::prelude::*;
///
/// let (n, alpha) = (1000, 0.5);
/// let kernel: Schedule = kernel! {
///     fn smooth(A: [f64; n + 2], W: [f64; 3]) -> C: [f64; n] {
///         C[i] += alpha * A[i + r] * W[r]
///     }
/// };
/// assert_eq!(kernel.kernel()?.statement(), "C[i] += alpha * A[i + r] * W[r]");
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// - *Tensors* have elements of one type, `f32`, `f64`, `i32`, `i64` or a name for one of them, such as a
///   type parameter `T`. Extents are any Rust expressions of an integer type. `s: f32` is a tensor of no
///   dimensions and is read as `s[]`.
/// - *Indices* are affine: `i`, `i + 1`, `2*i + r`, `i - j`. An index has the range that is stated for it,
///   before or after the statement, and which may start anywhere: `B[i] = A[i - 1] + A[i + 1] for i in 1..n - 1`;
///   accesses need only stay inside their tensors. Without one it has the extent of the dimensions where it stands
///   alone, which must agree. The indices of the output number its elements; the others are contracted.
/// - Indices of inputs may be *periodic*, `(i + n - 1) % n` or `(i - 1) % n`: the remainder of the whole index, never
///   negative, by a number or a captured size between 1 and the extent of the dimension. An index under `%` gets no
///   extent there.
/// - *OP* is `=` (a contracted index sums, as in einsum), `+=`, `*=`, `max=` or `min=`, which go on from what
///   the output holds.
/// - *Values* are made of `+`, `-`, `*`, `/`, parentheses, numbers, accesses, scalars captured from the
///   surroundings by name, of the element type, indices, functions and choices. An index is the number that it is in the
///   statement instance, whatever the schedule: `C[i] = if i > 0 { A[i] * i } else { 0 }`.
/// - *Functions* are `abs(a)`, `sign(a)`, `max(a, b)` and `min(a, b)`, and of floats `exp(a)`, `log(a)` (natural),
///   `sqrt(a)`, `tanh(a)`, `sin(a)`, `cos(a)`, `floor(a)` and `pow(a, b)`, with results at most 1 ulp from the exact ones and
///   the same bits on every processor; `sqrt` and `floor` are exact. `max` and `min`, also `max=` and `min=`, propagate NaN, as NumPy and JAX do, and 0 is greater than -0:
///   so they have the same bits in any order. Of several NaNs, the bits are those that are set in one of them.
/// - *Choices* are `if a < b { x } else { y }`, with one of `<`, `<=`, `>`, `>=`, `==` and `!=`, and `else if` for
///   more. Only the value that is chosen is computed.
/// - *Integers* wrap, also the least divided by -1 and its `abs`. They are divided towards 0; where the divisor is
///   0 the program panics, unless a choice avoids it: `if B[i] != 0 { A[i] / B[i] } else { 0 }`.
///
/// ```
/// use polyshard::prelude::*;
///
/// let n = 1000;
/// let kernel: Schedule = kernel! {
///     fn relu_of_slope(A: [f32; n]) -> B: [f32; n] {
///         B[i] = max((A[i + 1] - A[i - 1]) / 2, 0) for i in 1..n - 1
///     }
/// };
/// assert!(kernel.lower().is_ok());
/// ```
///
/// The expression is a `Schedule` without steps, whose methods lay the kernel over a mesh. What can be
/// wrong only when the program runs, such as two extents that differ, is reported by `Schedule::lower`.
///
/// # The schedule
///
/// With the steps inside the block, the kernel is scheduled, proved and emitted while the crate is built,
/// and an illegal step does not compile. Extents and arguments are literals or arithmetic on them.
///
/// ```
/// use polyshard::prelude::*;
///
/// kernel! {
///     /// C = A·B by SUMMA on a 2×2 mesh.
///     pub fn summa(A: [f32; 8, 16], B: [f32; 16, 8]) -> C: [f32; 8, 8] {
///         C[m, n] += A[m, k] * B[k, n]
///     }
///     mesh(x: 2, y: 2)
///     .distribute([m, n], [mo, no], [mi, ni])
///     .divide(k, ko, ki, 2)
///     .reorder([mo, no, ko, mi, ni, ki])
///     .shard(A, m @ x, k @ y)
///     .shard(B, k @ x, n @ y)
///     .shard(C, m @ x, n @ y)
///     .communicate(A, ko)
///     .communicate(B, ko)
///     .tensorize([mi, ni, ki])
/// }
///
/// # fn main() -> polyshard::Result<()> {
/// let sums = polyshard::spmd(4, |world| {
///     let a = DistArray::from_fn(world, &summa::sharding_a(), |i| i[0] as f32)?;
///     let b = DistArray::from_fn(world, &summa::sharding_b(), |i| i[1] as f32)?;
///     let c = summa::run(world, &a, &b)?;
///     Ok(c.block().iter().sum::<f32>())
/// })?;
/// assert_eq!(sums, [576.0, 2112.0, 2112.0, 7744.0]);
/// assert_eq!(summa::MESH, [("x", 2), ("y", 2)]);
/// # Ok(())
/// # }
/// ```
///
/// | item | is |
/// | --- | --- |
/// | `run(world, &a, .., scalars..)` | the kernel on zeros; returns the output |
/// | `run_into(world, &a, .., &mut c, scalars..)` | the kernel on what `c` holds |
/// | `mesh()`, `sharding_a()`, .. | how ranks and tensors lie |
/// | `MESH`, `SOURCE` | the mesh's axes, and the emitted Rust |
/// | `schedule(scalars..)` | the same as a `Schedule`, to print, explain or replay |
///
/// Steps are written as they print. Where methods take values, this form has names and signs:
///
/// ```text
/// mesh(x: 2, y: 2)                        the mesh of the first `distribute`
/// .distribute([mi], [a], [b], mesh(z: 2)) an inner mesh
/// .shard(A, m @ x, k @ ((x + y) % 2))     also m @ [x, y], m @ cyclic(x, 16), m @ x @ y, dim(0) @ x,
///                                         pin(z, 0), partial(z) of an output
/// .shard(A)                               replicated
/// .tensorize_as([mi, ni, ki], nest)       or contraction
/// .tensorize_with([mi, ni, ki], name)     the leaf that is registered as `name` when the program runs
/// .expect(A, shift(y, 1))                 or local, broadcast(x, y), permute, all_gather(x), halo(x: -1..=1), exchange,
///                                         and of outputs reduce(x), all_reduce(x), reduce_scatter(x)
/// .expect(A, permute, broadcast(z))       one after the other
/// ```
///
/// # Errors
///
/// All mistakes are reported at once, each where it was written and with what to write instead:
///
/// ```text
/// error: index `q` of output `C` appears in no input, so its extent is unknown
///        help: use it in an input access or give its range: `for q in 0..n`
///  --> src/main.rs:4:14
/// ```
#[proc_macro]
pub fn kernel(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = TokenStream::from(input);
    // A chain ends in its last step's parentheses, and nothing else tells where the macro stands.
    let is_expression = matches!(
        input.clone().into_iter().last(),
        Some(TokenTree::Group(last)) if last.delimiter() == Delimiter::Brace
    );
    match expand_kernel(input) {
        Ok(tokens) => tokens.into(),
        Err(errors) if is_expression => in_expression(errors).into(),
        Err(errors) => errors.into_compile_error().into(),
    }
}

/// Variables to write schedules with: `vars!(m, n)` is `let m = Var::new("m"); let n = Var::new("n");`.
///
/// ```
/// use polyshard::prelude::*;
///
/// vars!(k, ko, ki);
/// let kernel = kernel! { fn sum(A: [i32; 100]) -> c: i32 { c[] += A[k] } };
/// assert!(kernel.split(k, ko, ki, 8).lower().is_ok());
/// ```
#[proc_macro]
pub fn vars(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    vars::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

fn expand_kernel(input: TokenStream) -> syn::Result<TokenStream> {
    let Definition { kernel, chain } = syn::parse2(input)?;
    chain.map_or_else(|| Ok(expand::schedule(&kernel)), |chain| compiled::module(&kernel, &chain))
}

/// Several errors make one expression; it ends in an error, so that its type is not another one.
fn in_expression(errors: syn::Error) -> TokenStream {
    let mut all: Vec<_> = errors.into_iter().map(syn::Error::into_compile_error).collect();
    let last = all.pop();
    quote!({ #(#all;)* #last })
}
