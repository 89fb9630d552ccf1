//! Mistakes in schedules; each kernel is named after its mistake.

use polyshard::kernel;

const N: usize = 8;

kernel! {
    fn axis_distributed_twice(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .distribute([mi], [mio], [mii], mesh(x: 2))
}

kernel! {
    fn axis_of_two_levels(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .shard(A, m @ x, k @ y @ y)
}

kernel! {
    fn axis_twice(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .shard(A, m @ x, k @ x)
}

kernel! {
    fn block_of_two_extents(A: [f64; 8], B: [f64; 9]) -> (A, s: f64) { A[i] = A[i] / 2.0; s = B[i] * B[i]; }
    mesh(x: 2)
    .distribute([i], [io], [ii])
}

kernel! {
    fn block_step(A: [f64; 8]) -> (A, s: f64) { A[i] = A[i] / 2.0; s = A[i] * A[i]; }
    mesh(x: 2)
    .distribute([i], [io], [ii])
    .split(q, qo, qi, 2)
}

kernel! {
    fn block_with_variables(A: [f64; N]) -> (A, s: f64) {
        repeat(rounds, until s < tolerance) { A[i] = A[i] / 2.0; s = A[i] * A[i]; }
    }
    mesh(x: 2)
    .distribute([i], [io], [ii])
}

kernel! {
    fn distributed_loop_reordered(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .reorder([mi, mo, k, ni])
}

kernel! {
    fn distributed_loop_tensorized(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .tensorize([mo, ni, k])
}

kernel! {
    fn kernel_and_chain(A: [f32; 8]) -> C: [f32; 8] { C[i] = B[i] }
    mesh(x: 0)
    .distribute([i], [io], [ii])
    .expect(A, ring)
}

kernel! {
    fn literal_extents(A: [f32; N]) -> C: [f32; N] { C[i] = A[i] }
    mesh(x: 2)
    .distribute([i], [io], [ii])
}

kernel! {
    fn no_mesh(A: [f32; 8]) -> C: [f32; 8] { C[i] = A[i] }
    .distribute([i], [io], [ii])
}

kernel! {
    fn no_sharding(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .divide(k, ko, ki, 2)
    .reorder([mo, no, ko, mi, ni, ki])
    .communicate(A, ko)
}

kernel! {
    fn other_leaf(A: [f32; 8, 8]) -> C: [f32; 8] { C[m] max= A[m, k] }
    mesh(x: 2)
    .distribute([m], [mo], [mi])
    .tensorize_as([mi, k], contraction)
}

kernel! {
    fn other_pattern(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .divide(k, ko, ki, 2)
    .reorder([mo, no, ko, mi, ni, ki])
    .shard(A, m @ x, k @ y)
    .communicate(A, ko)
    .expect(A, shift(y, 1))
}

kernel! {
    fn overlapping_tiles(A: [f32; 8], w: [f32; 3]) -> C: [f32; 10] { C[i + r] += A[i] * w[r] }
    mesh(x: 2)
    .distribute([i], [io], [ii])
    .tensorize_with([ii, r], scatter_tile)
}

kernel! {
    fn rotate_by_inner_loop(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .divide(k, ko, ki, 2)
    .rotate(ko, [ki])
}

kernel! {
    fn unknown_axis(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .shard(A, m @ x, k @ z)
}

kernel! {
    fn unknown_loop(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .split(q, qo, qi, 4)
}

kernel! {
    fn unknown_step(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .tile(k, 4)
    .lower()
}

kernel! {
    fn unknown_tensor(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .communicate(D, k)
}

kernel! {
    fn wrong_arguments(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
    mesh(x: 2, y: 2)
    .distribute([m, n], [mo, no], [mi, ni])
    .divide(k, 2)
    .reorder(mi, ni)
    .shard("A", m.at(x))
    .split(mi, a, b, tile)
}

fn main() {}
