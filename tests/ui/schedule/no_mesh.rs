use polyshard::kernel;

kernel! {
    fn copy(A: [f32; 8]) -> C: [f32; 8] {
        C[i] = A[i]
    }
    .distribute([i], [io], [ii])
}

fn main() {}
