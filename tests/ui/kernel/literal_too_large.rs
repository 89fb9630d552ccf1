use polyshard::kernel;

fn main() {
    let n = 4;
    let _ = kernel! {
        fn f(A: [i32; n]) -> C: [i32; n] {
            C[i] = 3000000000 + A[i]
        }
    };
}
