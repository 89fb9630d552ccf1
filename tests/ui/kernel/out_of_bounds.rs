use polyshard::kernel;

fn main() {
    let _ = kernel! {
        fn f(A: [f32; 8]) -> C: [f32; 8] {
            C[i] = A[i + 1]
        }
    };
}
