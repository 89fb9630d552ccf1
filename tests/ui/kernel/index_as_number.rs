use polyshard::kernel;

fn main() {
    let n = 4;
    let _ = kernel! {
        fn iota() -> C: [i32; n] {
            C[i] = i for i in 0..n
        }
    };
}
