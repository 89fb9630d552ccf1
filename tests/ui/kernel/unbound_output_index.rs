use polyshard::kernel;

fn main() {
    let (m, n) = (3, 4);
    let _ = kernel! {
        fn f(A: [f32; m]) -> C: [f32; m, n] {
            C[i, q] = A[i]
        }
    };
}
