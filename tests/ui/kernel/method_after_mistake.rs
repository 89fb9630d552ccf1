//! A mistake in a kernel is not followed by errors about what the kernel would have been.

use polyshard::{kernel, vars};

fn main() {
    vars!(i, io, ii);
    let kernel = kernel! {
        fn f(A: [f32; 4], B: [f32; 4]) -> C: [f32; 4] {
            C[i] = A[i] * D[i] + C[i]
        }
    };
    let _ = kernel.split(i, io, ii, 2).lower();
}
