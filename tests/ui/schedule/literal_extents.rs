use polyshard::kernel;

const N: usize = 8;

kernel! {
    fn copy(A: [f32; N]) -> C: [f32; N] {
        C[i] = A[i]
    }
    mesh(x: 2)
    .distribute([i], [io], [ii])
}

fn main() {}
