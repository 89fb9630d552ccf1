use polyshard::kernel;

kernel! {
    fn scatter(A: [f32; 8], w: [f32; 3]) -> C: [f32; 10] {
        C[i + r] += A[i] * w[r]
    }
    mesh(x: 2)
    .distribute([i], [io], [ii])
    .tensorize_with([ii, r], scatter_tile)
}

fn main() {}
