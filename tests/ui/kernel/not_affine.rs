use polyshard::kernel;

fn main() {
    let n = 4;
    let _ = kernel! {
        fn f(A: [f32; n], B: [f32; n, n]) -> C: [f32; n] {
            C[i] += A[i / 2] * B[i * k, k]
        }
    };
}
