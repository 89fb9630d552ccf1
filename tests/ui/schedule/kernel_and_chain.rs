use polyshard::kernel;

kernel! {
    fn copy(A: [f32; 8]) -> C: [f32; 8] {
        C[i] = B[i]
    }
    mesh(x: 0)
    .distribute([i], [io], [ii])
    .expect(A, ring)
}

fn main() {}
