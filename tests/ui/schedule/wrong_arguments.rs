use polyshard::kernel;

kernel! {
    fn matmul(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] {
        C[m, n] += A[m, k] * B[k, n]
    }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .divide(k, 2)
    .reorder(mi, ni)
    .shard("A", m.at(x))
    .split(mi, a, b, tile)
}

fn main() {}
