use polyshard::kernel;

fn main() {
    let (m, k) = (3, 4);
    let _ = kernel! {
        fn f(A: [f32; m, k], s: f32) -> C: [f32; m] {
            C[i, j] = A[i] * s[i]
        }
    };
}
