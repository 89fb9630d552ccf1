//! Mistakes in kernels; each kernel is named after its mistake.

use polyshard::{kernel, vars};

fn main() {
    let (m, n, k) = (3, 4, 4);
    let _ = kernel! { fn brackets_twice(A: [f32; n, n]) -> C: [f32; n, n] { C[i][j] += A[i, j] } };
    let _ = kernel! { fn call_in_value(A: [f32; n]) -> C: [f32; n] { C[i] = tan(2.0) * A[i] } };
    let _ = kernel! { fn closed_range(A: [f32; n]) -> C: [f32; n] { C[i] += A[r] for i in 0..n for r in 1..=n } };
    let _ = kernel! { fn division_by_zero(A: [i64; n]) -> C: [i64; n] { C[i] = A[i] / 0 } };
    let _ = kernel! { fn element_type(A: [u8; n]) -> C: [u8; n] { C[i] = A[i] } };
    let _ = kernel! { fn float_in_integers(A: [i32; n]) -> C: [i32; n] { C[i] = 1.5 * A[i] } };
    let _ = kernel! { fn index_named_as_tensor(A: [f32; n], k: f32) -> C: [f32; n] { C[k] = A[k] * k[] } };
    let _ = kernel! { fn indirect_index(A: [f32; n], B: [f32; n]) -> C: [f32; n] { C[i] = A[B[i]] } };
    let _ = kernel! { fn literal_too_large(A: [i32; n]) -> C: [i32; n] { C[i] = 3000000000 + A[i] } };
    let _ = kernel! { fn name_twice(A: [f32; n], A: [f32; n]) -> C: [f32; n] { C[i] = A[i] * A[i] } };
    let _ = kernel! { fn negative_extent(A: [f32; 4 - 6]) -> C: [f32; 4] { C[i] += A[k] for i in 0..4 } };
    let _ = kernel! { fn not_affine(A: [f32; n], B: [f32; n, n]) -> C: [f32; n] { C[i] += A[i / 2] * B[i * k, k] } };
    let _ = kernel! { fn not_the_output(A: [f32; n]) -> C: [f32; n] { A[i] += 2 * A[i] } };
    let _ = kernel! { fn other_assignment(A: [f32; n]) -> C: [f32; n] { C[i] -= A[i] } };
    let _ = kernel! { fn other_operator(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] % 2.0 } };
    let _ = kernel! { fn out_of_bounds(A: [f32; 8]) -> C: [f32; 8] { C[i] = A[i + 1] } };
    let _ = kernel! { fn output_read(A: [f32; n]) -> C: [f32; n] { C[i] = C[i] + A[i] } };
    let _ = kernel! { fn output_without_name(A: [f32; n]) -> [f32; n] { C[i] = A[i] } };
    let _ = kernel! { fn read_before_written(A: [f32; n]) -> C: [f32; n] { let B: [f32; n]; C[i] = A[i] * B[i]; } };
    let _ = kernel! {
        fn several_mistakes(A: [f32; 8, 4], B: [f32; 4]) -> C: [f32; 9] { C[i] += A[i, k, 1] * B[k * k] / D[q] + C[i] }
    };
    let _ = kernel! { fn tensor_without_indices(A: [f32; n], s: f32) -> C: [f32; n] { C[i] = s * A[i] * A } };
    let _ = kernel! { fn two_element_types(A: [f32; n], B: [f64; n]) -> C: [f32; n] { C[i] = A[i] * B[i] } };
    let _ = kernel! {
        fn two_extents(A: [f32; 512, 2048], B: [f32; 1024, 512]) -> C: [f32; 512, 512] { C[m, n] += A[m, k] * B[k, n] }
    };
    let _ = kernel! { fn unbound_input_index(A: [f32; n + 2]) -> C: [f32; n] { C[i] += A[i + r] } };
    let _ = kernel! { fn unbound_output_index(A: [f32; m]) -> C: [f32; m, n] { C[i, q] = A[i] } };
    let _ = kernel! { fn unknown_tensor(A: [f32; n], B: [f32; n]) -> C: [f32; n] { C[i] = A[i] * D[i] + B[i] } };
    let _ = kernel! { fn unused_range(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] for q in 0..3 } };
    let _ = kernel! { fn unused_tensor(A: [f32; n], B: [f32; n]) -> C: [f32; n] { C[i] = 2 * A[i] } };
    let _ = kernel! { fn wrong_index_count(A: [f32; m, k], s: f32) -> C: [f32; m] { C[i, j] = A[i] * s[i] } };
    vars!(vars_twice, n, k, vars_twice);

    // A mistake in a kernel is not followed by errors about what the kernel would have been.
    vars!(i, io, ii);
    let kernel = kernel! {
        fn method_after_mistake(A: [f32; 4], B: [f32; 4]) -> C: [f32; 4] { C[i] = A[i] * D[i] + C[i] }
    };
    let _ = kernel.split(i, io, ii, 2).lower();
}
