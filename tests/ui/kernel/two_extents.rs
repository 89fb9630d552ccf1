use polyshard::kernel;

fn main() {
    let _ = kernel! {
        fn matmul(A: [f32; 512, 2048], B: [f32; 1024, 512]) -> C: [f32; 512, 512] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
}
