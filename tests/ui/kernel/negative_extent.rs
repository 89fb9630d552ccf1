use polyshard::kernel;

fn main() {
    let _ = kernel! {
        fn f(A: [f32; 4 - 6]) -> C: [f32; 4] {
            C[i] += A[k] for i in 0..4
        }
    };
}
