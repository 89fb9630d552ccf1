//! Closed forms, over several sizes, of kernels and of memory.

use super::{check, kernel, matmul, mttkrp, multi_ttm};
use polyshard_program::Kernel;

/// Of a product of a matrix with a vector, and of one of two vectors, with these two extents: a square of ranks, or a line of them.
fn of_vectors([m, n]: [usize; 2], ranks: usize) -> f64 {
    let ([long, short], p) = ([m.max(n), m.min(n)].map(|extent| extent as f64), ranks as f64);
    if p <= long / short { short * (1.0 - 1.0 / p) } else { 2.0 * (long * short / p).sqrt() - (long + short) / p }
}

#[test]
fn vectors_are_all_that_moves_where_a_matrix_stays() {
    for [m, n] in [[64, 64], [1000, 10], [10, 1000], [4096, 256], [7, 5]] {
        let matvec =
            kernel(&format!("fn f(A: [f64; {m}, {n}], x: [f64; {n}]) -> y: [f64; {m}] {{ y[i] += A[i, j] * x[j] }}"));
        let outer =
            kernel(&format!("fn f(u: [f64; {m}], v: [f64; {n}]) -> C: [f64; {m}, {n}] {{ C[i, j] = u[i] * v[j] }}"));
        for ranks in [1, 2, 3, 8, 16, 35] {
            check(&matvec, ranks, of_vectors([m, n], ranks));
            check(&outer, ranks, of_vectors([m, n], ranks));
        }
    }
}

#[test]
fn an_inner_product_moves_one_sum() {
    for extent in [90, 1000, 1 << 20] {
        let dot = kernel(&format!("fn f(A: [f64; {extent}], B: [f64; {extent}]) -> C: f64 {{ C[] += A[i] * B[i] }}"));
        for ranks in [1, 2, 9, 64] {
            check(&dot, ranks, 1.0 - 1.0 / ranks as f64);
        }
    }
}

/// G. Ballard, N. Knight, K. Rouse, IPDPS 2018: the tensor stays for few columns, and moves for many.
fn of_mttkrp(extents: [usize; 3], columns: usize, ranks: usize) -> f64 {
    let mut sorted = extents.map(|extent| extent as f64);
    sorted.sort_by(|a, b| b.total_cmp(a));
    let ([i, j, k], r, p) = (sorted, columns as f64, ranks as f64);
    let (all, sum) = (i * j * k, i + j + k);
    if 2.0 * r > (all / p).powf(2.0 / 3.0) {
        return 2.5 * (2.0 * all * r / p).powf(3.0 / 5.0) - all / p - r * sum / p;
    }
    if p <= i / j {
        r * (j + k) * (1.0 - 1.0 / p)
    } else if p <= i * j / (k * k) {
        2.0 * r * (i * j / p).sqrt() + r * k - r * sum / p
    } else {
        3.0 * r * (all / p).cbrt() - r * sum / p
    }
}

#[test]
fn tensors_times_matrices_have_the_closed_form() {
    for (extents, columns, ranks) in [
        ([256; 3], 16, [1, 2, 8, 27, 64]),
        ([1724; 3], 42, [2, 8, 12, 100, 512]),
        ([4096, 64, 64], 8, [2, 16, 64, 100, 128]),
        ([64, 512, 512], 8, [2, 4, 32, 64, 100]),
        ([1000, 400, 20], 4, [2, 5, 50, 400, 1000]),
        // The tensor moves, too.
        ([64; 3], 4096, [16, 32, 64, 100, 128]),
    ] {
        for ranks in ranks {
            check(&mttkrp(extents, columns), ranks, of_mttkrp(extents, columns, ranks));
        }
    }
}

/// H. Al Daas et al., SIMAX 2024, for a cube, whose matrices are equal.
fn of_multi_ttm(extent: usize, reduced: usize, ranks: usize) -> f64 {
    let ([n, r, a], p) = ([extent.pow(3), reduced.pow(3), extent * reduced].map(|size| size as f64), ranks as f64);
    let tensors = if p < n / r { r + n / p } else { 2.0 * (n * r / p).sqrt() };
    3.0 * (n * r / p).cbrt() + tensors - (n + r + 3.0 * a) / p
}

#[test]
fn tensors_times_three_matrices_have_the_closed_form() {
    for (extent, reduced) in [(256, 16), (64, 32), (100, 20)] {
        for ranks in [2, 8, 64, 125, 512] {
            check(&multi_ttm(extent, reduced), ranks, of_multi_ttm(extent, reduced, ranks));
        }
    }
}

/// `A A^T` with all of its output, which reads `A` twice: products of `a c^(1/2)` instances from `a` and `c` elements.
fn of_syrk([n, k]: [usize; 2], ranks: usize) -> f64 {
    let [n, k, p] = [n, k, ranks].map(|size| size as f64);
    let instances = n * n * k / p;
    let output = (instances / 2.0).powf(2.0 / 3.0).clamp(n * n / p, n * n);
    instances / output.sqrt() + output - (n * k + n * n) / p
}

#[test]
fn products_with_the_own_transpose_have_the_closed_form() {
    // A square of ranks where the output is large, cubes, and a line where sums are long.
    for (n, k) in [(4096, 64), (512, 512), (100, 1000), (64, 1 << 20)] {
        let text = format!("fn f(A: [f64; {n}, {k}]) -> C: [f64; {n}, {n}] {{ C[i, j] += A[i, l] * A[j, l] }}");
        for ranks in [1, 2, 4, 9, 16, 36] {
            check(&kernel(&text), ranks, of_syrk([n, k], ranks));
        }
    }
}

#[test]
fn a_batch_of_products_moves_nothing_on_as_many_ranks_as_it_has_products() {
    let (batch, n) = (16, 64);
    let shape = format!("[f64; {batch}, {n}, {n}]");
    let batched =
        kernel(&format!("fn f(A: {shape}, B: {shape}) -> C: {shape} {{ C[b, i, j] += A[b, i, l] * B[b, l, j] }}"));
    for ranks in [1, 2, 16, 32, 128, 1024] {
        let [batch, n, p] = [batch, n, ranks].map(|size| size as f64);
        let moved = 3.0 * (batch * n.powi(3) / p).powf(2.0 / 3.0) - 3.0 * batch * n * n / p;
        check(&batched, ranks, moved.max(0.0));
    }
}

#[track_caller]
fn check_memory(kernel: &Kernel, ranks: usize, memory: u64, expected: f64) {
    let found = kernel.lower_bound(ranks, Some(memory)).limited.expect("a bound of memory");
    assert!((found / expected - 1.0).abs() < 1e-5, "{kernel}, {ranks} ranks of {memory}: {found}, not {expected}");
}

#[test]
fn with_little_memory_products_move_what_its_root_leaves() {
    for (extents, ranks, memory) in
        [([4096; 3], 64, 800_000), ([4096; 3], 16, 1 << 20), ([8192, 2048, 4096], 64, 300_000), ([1024; 3], 1, 10_000)]
    {
        let instances: f64 = extents.iter().map(|&extent| extent as f64).product();
        check_memory(&matmul(extents), ranks, memory, 2.0 * instances / ranks as f64 / (memory as f64).sqrt());
    }
    // N I R / (P M^(1 - 1/N)), where factors are read again and again.
    for (extent, columns, ranks, memory) in [(512, 512, 8, 100_000), (400, 1000, 16, 30_000)] {
        let instances = f64::powi(extent as f64, 3) * columns as f64;
        let expected = 3.0 * instances / ranks as f64 / (memory as f64).powf(2.0 / 3.0);
        check_memory(&mttkrp([extent; 3], columns), ranks, memory, expected);
    }
}
