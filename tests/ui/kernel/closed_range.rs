use polyshard::kernel;

fn main() {
    let n = 4;
    let _ = kernel! {
        fn f(A: [f32; n]) -> C: [f32; n] {
            C[i] += A[r] for i in 0..n for r in 1..=n
        }
    };
}
