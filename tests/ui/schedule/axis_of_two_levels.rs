use polyshard::kernel;

kernel! {
    fn matmul(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] {
        C[m, n] += A[m, k] * B[k, n]
    }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .shard(A, m @ x, k @ y @ y)
}

fn main() {}
