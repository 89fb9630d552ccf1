use polyshard::kernel;

fn main() {
    let n = 4;
    let _ = kernel! {
        fn f(A: [f32; n]) -> C: [f32; n] {
            C[i] = tan(2.0) * A[i]
        }
    };
}
