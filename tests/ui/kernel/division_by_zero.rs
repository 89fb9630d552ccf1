use polyshard::kernel;

fn main() {
    let n = 4;
    let _ = kernel! {
        fn f(A: [i64; n]) -> C: [i64; n] {
            C[i] = A[i] / 0
        }
    };
}
