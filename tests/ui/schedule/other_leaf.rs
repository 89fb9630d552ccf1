use polyshard::kernel;

kernel! {
    fn greatest(A: [f32; 8, 8]) -> C: [f32; 8] {
        C[m] max= A[m, k]
    }
    mesh(x: 2)
    .distribute([m], [mo], [mi])
    .tensorize_as([mi, k], contraction)
}

fn main() {}
