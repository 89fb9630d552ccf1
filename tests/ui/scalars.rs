//! Mistakes that the compiler finds in the expansion of a kernel without mistakes.

use polyshard::kernel;

fn main() {
    let n = 4;
    let alpha = 0.5f64;
    let _ = kernel! { fn axpy(A: [f32; n]) -> C: [f32; n] { C[i] = alpha * A[i] } };
}
