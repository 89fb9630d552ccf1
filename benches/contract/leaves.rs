//! Leaves on one rank: nests, which are bound by memory, and products of several tensors, which are bound by
//! arithmetic.

use polyshard::prelude::*;
use polyshard_testing::bench::record::{Case, Record};
use polyshard_testing::filled::inputs_and_output;
use std::time::Instant;

/// Prints the seconds of each leaf; leaves run in turns, so that noise on the machine affects all of them.
pub(crate) fn measure(size: usize, extent: usize, columns: usize, runs: usize) -> polyshard::Result<()> {
    in_turns::<f64>(&Case { size: size.to_string(), ..case("nest", "f64") }, &nests(size), runs)?;
    let functions = |dtype| Case { size: size.to_string(), ..case("function", dtype) };
    in_turns::<f64>(&functions("f64"), &functions_of::<f64>(size), runs)?;
    in_turns::<f32>(&functions("f32"), &functions_of::<f32>(size), runs)?;
    let size = format!("{extent}x{columns}");
    in_turns::<f32>(&Case { size, ..case("product", "f32") }, &products(extent, columns), runs)
}

fn case(backend: &str, dtype: &str) -> Case {
    Case { backend: backend.into(), grid: "1".into(), dtype: dtype.into(), size: String::new() }
}

/// Kernels over square matrices, with the names used in numpy's figures.
fn nests(n: usize) -> Vec<(&'static str, Schedule)> {
    let pointwise =
        kernel! { fn pointwise(A: [f64; n, n], B: [f64; n, n]) -> C: [f64; n, n] { C[i, j] = 2 * A[i, j] + B[i, j] } };
    let row_sums = kernel! { fn sums(A: [f64; n, n]) -> s: [f64; n] { s[i] = A[i, j] } };
    let row_maxima = kernel! { fn maxima(A: [f64; n, n]) -> s: [f64; n] { s[i] max= A[i, j] } };
    let inner = kernel! { fn inner(A: [f64; n, n], B: [f64; n, n]) -> s: [f64; n] { s[i] = A[i, j] * B[i, j] } };
    let matvec = kernel! { fn matvec(A: [f64; n, n], x: [f64; n]) -> y: [f64; n] { y[i] = A[i, j] * x[j] } };
    let transposed = kernel! { fn vecmat(A: [f64; n, n], x: [f64; n]) -> y: [f64; n] { y[j] = A[i, j] * x[i] } };
    let along_rows = kernel! {
        fn along_rows(A: [f64; n, n]) -> B: [f64; n, n] {
            B[i, j] = A[i, j - 1] + 2 * A[i, j] + A[i, j + 1] for j in 1..n - 1
        }
    };
    let along_columns = kernel! {
        fn along_columns(A: [f64; n, n]) -> B: [f64; n, n] {
            B[i, j] = A[i - 1, j] + 2 * A[i, j] + A[i + 1, j] for i in 1..n - 1
        }
    };
    let transpose = kernel! { fn transpose(A: [f64; n, n]) -> B: [f64; n, n] { B[i, j] = A[j, i] } };
    vec![
        ("pointwise", pointwise),
        ("row-sums", row_sums),
        ("row-maxima", row_maxima),
        ("inner-products", inner),
        ("matrix-vector", matvec.tensorize(["i", "j"])),
        ("vector-matrix", transposed.tensorize(["j", "i"])),
        ("stencil-rows", along_rows),
        ("stencil-columns", along_columns),
        ("transpose", transpose),
    ]
}

/// Functions of the elements of a square matrix, and its sums along either dimension, with the names used in numpy's
/// figures.
fn functions_of<T: Element>(n: usize) -> Vec<(&'static str, Schedule)> {
    vec![
        ("exp", kernel! { fn exp(A: [T; n, n]) -> B: [T; n, n] { B[i, j] = exp(A[i, j]) } }),
        ("log", kernel! { fn log(A: [T; n, n]) -> B: [T; n, n] { B[i, j] = log(A[i, j]) } }),
        ("tanh", kernel! { fn tanh(A: [T; n, n]) -> B: [T; n, n] { B[i, j] = tanh(A[i, j]) } }),
        ("sin", kernel! { fn sin(A: [T; n, n]) -> B: [T; n, n] { B[i, j] = sin(A[i, j]) } }),
        ("cos", kernel! { fn cos(A: [T; n, n]) -> B: [T; n, n] { B[i, j] = cos(A[i, j]) } }),
        ("sqrt", kernel! { fn sqrt(A: [T; n, n]) -> B: [T; n, n] { B[i, j] = sqrt(A[i, j]) } }),
        ("row-sums", kernel! { fn row_sums(A: [T; n, n]) -> s: [T; n] { s[i] = A[i, j] } }),
        ("column-sums", kernel! { fn column_sums(A: [T; n, n]) -> s: [T; n] { s[j] = A[i, j] } }),
    ]
}

/// Kernels over tensors of three dimensions, and a matrix product with the operations of one of them.
fn products(n: usize, r: usize) -> Vec<(&'static str, Schedule)> {
    let m = n * n;
    let gemm = kernel! { fn gemm(X: [f32; m, n], D: [f32; n, r]) -> B: [f32; m, r] { B[i, r] += X[i, k] * D[k, r] } };
    let mttkrp = kernel! {
        fn mttkrp(X: [f32; n, n, n], C: [f32; n, r], D: [f32; n, r]) -> B: [f32; n, r] {
            B[i, r] += X[i, j, k] * C[j, r] * D[k, r]
        }
    };
    let ttm = kernel! {
        fn ttm(X: [f32; n, n, n], U: [f32; n, r], V: [f32; n, r], W: [f32; n, r]) -> Y: [f32; r, r, r] {
            Y[a, b, c] += X[i, j, k] * U[i, a] * V[j, b] * W[k, c]
        }
    };
    vec![
        ("gemm", gemm.tensorize(["i", "r", "k"])),
        ("mttkrp", mttkrp.tensorize(["i", "r", "j", "k"])),
        ("ttm-chain", ttm.tensorize(["a", "b", "c", "i", "j", "k"])),
    ]
}

fn in_turns<T: Element>(case: &Case, kernels: &[(&str, Schedule)], runs: usize) -> polyshard::Result<()> {
    let programs: Vec<Program> = kernels.iter().map(|(_, schedule)| schedule.lower()).collect::<Result<_, _>>()?;
    for run in 0..=runs {
        for ((name, _), program) in kernels.iter().zip(&programs) {
            let value = polyshard::spmd(1, |world| {
                let (arrays, mut output) = inputs_and_output(world, program, |_, index| value::<T>(index))?;
                let inputs: Vec<_> = arrays.iter().collect();
                let start = Instant::now();
                program.run_into(world, &inputs, &mut output)?;
                Ok(start.elapsed().as_secs_f64())
            })?[0];
            if run > 0 {
                let (quantity, contestant) = ("seconds".into(), (*name).to_owned());
                println!("{}", Record { quantity, case: case.clone(), contestant, value });
            }
        }
    }
    Ok(())
}

/// Small positive integers, for which every function is defined.
fn value<T: Element>(index: &[usize]) -> T {
    let sum: usize = index.iter().sum();
    num_traits::NumCast::from(1 + sum % 7).expect("a small integer is of every type")
}
