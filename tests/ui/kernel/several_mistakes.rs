use polyshard::kernel;

fn main() {
    let _ = kernel! {
        fn f(A: [f32; 8, 4], B: [f32; 4]) -> C: [f32; 9] {
            C[i] += A[i, k, 1] * B[k * k] / D[q] + C[i]
        }
    };
}
