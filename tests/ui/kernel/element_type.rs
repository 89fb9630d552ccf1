use polyshard::kernel;

fn main() {
    let n = 4;
    let _ = kernel! {
        fn f(A: [u8; n]) -> C: [u8; n] {
            C[i] = A[i]
        }
    };
}
