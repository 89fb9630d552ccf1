//! Lower bounds on communication, against the closed forms and the tables of the literature, and against all grids.

mod forms;
mod homes;

use polyshard_program::Kernel;
use polyshard_testing::example;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn kernel(text: &str) -> Kernel {
    polyshard_dsl::parse_kernel(text).expect("a kernel").check().expect("a kernel that is read is checked")
}

fn matmul([m, n, k]: [usize; 3]) -> Kernel {
    example::matmul(m, n, k).check().expect("a product")
}

/// `B[i, r]` of a tensor of these extents times two matrices of `rank` columns.
fn mttkrp([i, j, k]: [usize; 3], rank: usize) -> Kernel {
    kernel(&format!(
        "fn mttkrp(X: [f64; {i}, {j}, {k}], U: [f64; {j}, {rank}], V: [f64; {k}, {rank}]) -> B: [f64; {i}, {rank}] {{
            B[i, r] += X[i, j, k] * U[j, r] * V[k, r]
        }}"
    ))
}

/// `Y = X x1 A1^T x2 A2^T x3 A3^T`, of a cube of extent `n` to one of extent `r`.
fn multi_ttm(n: usize, r: usize) -> Kernel {
    kernel(&format!(
        "fn tucker(X: [f64; {n}, {n}, {n}], P: [f64; {n}, {r}], Q: [f64; {n}, {r}], R: [f64; {n}, {r}])
            -> Y: [f64; {r}, {r}, {r}] {{
            Y[a, b, c] += X[i, j, k] * P[i, a] * Q[j, b] * R[k, c]
        }}"
    ))
}

#[track_caller]
fn check(kernel: &Kernel, ranks: usize, expected: f64) {
    let found = kernel.lower_bound(ranks, None).words;
    assert!((found - expected).abs() <= 1e-6 * expected.max(1.0), "{kernel} on {ranks} ranks: {found}, not {expected}");
}

/// Rounding errors of a large array neither lose nor add elements received of a small one.
#[test]
fn a_small_array_beside_a_large_one_is_received_once() {
    let text = "fn f(A: [f32; 2048, 2048], x: [f32; 8]) -> h: [f32; 2048] { h[i] += A[i, j] * x[k] }";
    assert_eq!(kernel(text).lower_bound(2, None).elements(), 4);
}

/// Al Daas et al., SPAA 2022.
fn of_product(extents: [usize; 3], ranks: usize) -> f64 {
    let mut sorted = extents.map(|extent| extent as f64);
    sorted.sort_by(|a, b| b.total_cmp(a));
    let ([m, n, k], p) = (sorted, ranks as f64);
    let touched = if p <= m / n {
        (m * n + m * k) / p + n * k
    } else if p <= m * n / (k * k) {
        2.0 * (m * n * k * k / p).sqrt() + m * n / p
    } else {
        3.0 * (m * n * k / p).powf(2.0 / 3.0)
    };
    touched - (m * n + m * k + n * k) / p
}

#[test]
fn products_of_the_literature() {
    let table = [
        ([4096, 4096, 4096], 8, 6_291_456.0),
        ([4096, 4096, 4096], 64, 2_359_296.0),
        ([4096, 4096, 4096], 512, 688_128.0),
        ([4096, 4096, 4096], 4, 7_391_215.7),
        ([4096, 4096, 4096], 6, 6_854_504.3),
        ([4096, 4096, 4096], 16, 4_781_010.0),
        ([4096, 4096, 4096], 36, 3_218_328.0),
        ([9600, 2400, 600], 4, 1_080_000.0),
        ([9600, 2400, 600], 36, 760_000.0),
        ([9600, 2400, 600], 512, 210_937.5),
        ([1024, 256, 64], 4, 12_288.0),
        ([1024, 256, 64], 16, 11_264.0),
        ([1024, 256, 64], 64, 6912.0),
        ([1024, 256, 64], 512, 2400.0),
        ([32768, 1024, 1024], 16, 983_040.0),
        ([32768, 1024, 1024], 64, 916_724.0),
    ];
    for (extents, ranks, expected) in table {
        check(&matmul(extents), ranks, expected);
        assert!((of_product(extents, ranks) - expected).abs() < 1.0);
    }
    check(&matmul([4096; 3]), 1, 0.0);
    // On a square of ranks that passes panels on, the factors move and the result stays.
    for (ranks, ratio) in [(4, 1.135), (16, 1.316), (64, 1.556), (256, 1.869)] {
        let p = f64::from(ranks);
        let words = 2.0 * 4096.0 * 4096.0 * (1.0 / p.sqrt() - 1.0 / p);
        let found = words / matmul([4096; 3]).lower_bound(ranks as usize, None).words;
        assert!((found - ratio).abs() < 1e-3, "{ranks} ranks: {found}");
    }
}

#[test]
fn products_of_all_shapes_have_the_closed_form() {
    for extents in [[64, 64, 64], [1000, 10, 3], [3, 1000, 10], [7, 500, 500], [1, 80, 90], [1, 1, 50]] {
        // At most as many ranks as products to add up.
        for ranks in [1, 2, 3, 5, 7, 16, 50, 1000].into_iter().filter(|&ranks| ranks <= extents.iter().product()) {
            check(&matmul(extents), ranks, of_product(extents, ranks));
        }
    }
}

#[test]
fn tensors_times_matrices_of_the_literature() {
    let table = [
        ([1724; 3], 42, 8, 81_459.0),
        ([2900; 3], 68, 64, 138_656.25),
        ([3425; 3], 85, 125, 167_688.0),
        ([4872; 3], 120, 512, 215_814.375),
        ([1908; 3], 48, 12, 97_113.0),
        ([4116; 3], 126, 252, 240_146.4),
        // The tensor moves, too.
        ([64; 3], 4096, 64, 65_536.0),
    ];
    for (extents, columns, ranks, expected) in table {
        check(&mttkrp(extents, columns), ranks, expected);
    }
    for (ranks, expected) in [(8, 8192.0), (64, 6912.0), (512, 5600.0)] {
        check(&multi_ttm(256, 16), ranks, expected);
    }
}

#[test]
fn where_nothing_needs_to_move_the_bound_is_nothing() {
    check(&kernel("fn scale(A: [f32; 4, 8]) -> B: [f32; 4, 8] { B[i, j] = 2 * A[i, j] }"), 7, 0.0);
    check(&kernel("fn near(A: [f32; 10]) -> B: [f32; 10] { B[i] = A[i - 1] + A[i + 1] for i in 1..9 }"), 3, 0.0);
    // The sums of all ranks meet on one, in one element.
    check(&kernel("fn dot(A: [f64; 90], B: [f64; 90]) -> C: f64 { C[] += A[i] * B[i] }"), 3, 2.0 / 3.0);
    check(
        &kernel("fn none(A: [f64; 0, 5], B: [f64; 5, 4]) -> C: [f64; 0, 4] { C[m, n] += A[m, k] * B[k, n] }"),
        4,
        0.0,
    );
}

#[test]
fn one_tensor_that_is_read_twice_counts_once() {
    let syrk = kernel("fn syrk(A: [f64; 512, 64]) -> C: [f64; 512, 512] { C[i, j] += A[i, k] * A[j, k] }");
    let product = matmul([512, 512, 64]);
    assert!(syrk.lower_bound(16, None).words < product.lower_bound(16, None).words);
    assert!(syrk.lower_bound(16, None).words > 0.0);
}

#[test]
fn sums_of_several_terms_are_bounded_by_the_largest_of_them_at_least() {
    let shapes = "A: [f64; 256, 256], B: [f64; 256, 256], D: [f64; 256, 256]";
    let sum = kernel(&format!("fn f({shapes}) -> C: [f64; 256, 256] {{ C[m, n] += A[m, k] * B[k, n] + D[m, k] }}"));
    let product = matmul([256; 3]).lower_bound(8, None).words;
    assert!(sum.lower_bound(8, None).words >= product);
}

#[test]
fn what_may_not_be_read_is_not_counted() {
    let shapes = "A: [f64; 256, 256], B: [f64; 256, 256]";
    let branch = kernel(&format!(
        "fn f({shapes}) -> C: [f64; 256, 256] {{ C[m, n] += if m < n {{ A[m, k] * B[k, n] }} else {{ 0.0 }} }}"
    ));
    check(&branch, 8, 0.0);
}

#[test]
fn with_little_memory_elements_are_received_again() {
    let product = matmul([4096; 3]);
    let memory = 800_000;
    let bound = product.lower_bound(64, Some(memory));
    let leading = 2.0 * 4096f64.powi(3) / 64.0 / (memory as f64).sqrt();
    assert!((bound.limited.expect("a bound") / leading - 1.0).abs() < 1e-6, "{bound:?}, not {leading}");
    assert!(bound.words > bound.unlimited);
    let much = product.lower_bound(64, Some(1 << 40));
    assert_eq!(much.words, much.unlimited);
}

/// The words that the busiest rank receives on a grid that divides the loops evenly.
fn on_grid(kernel: &Kernel, grid: &[usize]) -> f64 {
    let ranks: usize = grid.iter().product();
    let accesses = [kernel.target()].into_iter().chain(kernel.value().accesses());
    let words = accesses.map(|access| {
        let indices = access.index.iter().map(|index| index.as_variable().expect("a plain index"));
        let places = indices.map(|name| kernel.vars().iter().position(|var| var.name == name).expect("an index"));
        let (all, tile) = places.fold((1.0, 1.0), |(all, tile), at| {
            let extent = kernel.vars()[at].extent as f64;
            (all * extent, tile * extent / grid[at] as f64)
        });
        tile - all / ranks as f64
    });
    words.sum()
}

#[test]
fn no_grid_moves_fewer_words() {
    let extent = || prop::sample::select(vec![1usize, 2, 8, 60, 500]);
    let extents = (extent(), extent(), extent(), extent());
    // A tensor has any of four indices; each index is in at least one tensor.
    let problem = (extents, prop::collection::vec(1usize..16, 2..4), prop::collection::vec(1usize..5, 4));
    let mut runner =
        TestRunner::new_with_rng(Config { cases: 200, failure_persistence: None, ..Config::default() }, rng());
    let law = |((a, b, c, d), mut tensors, grid): ((usize, usize, usize, usize), Vec<usize>, Vec<usize>)| {
        let extents = [a, b, c, d];
        let covered = tensors[1..].iter().fold(0, |all, tensor| all | tensor);
        tensors.push(15 & !covered | 1);
        let indices = |tensor: usize| (0..4).filter(move |at| tensor >> at & 1 == 1);
        let shape = |tensor| indices(tensor).map(|at| extents[at].to_string()).collect::<Vec<_>>().join(", ");
        let index = |tensor| indices(tensor).map(|at| ["i", "j", "k", "l"][at]).collect::<Vec<_>>().join(", ");
        let (output, inputs) = tensors.split_first().expect("an output");
        let declared = (0..).zip(inputs).map(|(nth, &t): (usize, _)| format!("A{nth}: [f64; {}]", shape(t)));
        let read = (0..).zip(inputs).map(|(nth, &t): (usize, _)| format!("A{nth}[{}]", index(t)));
        let text = format!(
            "fn f({}) -> C: [f64; {}] {{ C[{}] += {} }}",
            declared.collect::<Vec<_>>().join(", "),
            shape(*output),
            index(*output),
            read.collect::<Vec<_>>().join(" * ")
        );
        let kernel = kernel(&text);
        let grid: Vec<usize> = kernel
            .vars()
            .iter()
            .map(|var| {
                grid[["i", "j", "k", "l"].iter().position(|name| var.name.as_str() == *name).expect("one of these")]
            })
            .zip(kernel.vars())
            // At most as many ranks as values.
            .map(|(ranks, var)| ranks.min(var.extent))
            .collect();
        let (words, bound) = (on_grid(&kernel, &grid), kernel.lower_bound(grid.iter().product(), None).words);
        prop_assert!(bound <= words * (1.0 + 1e-9) + 1e-6, "{text} on {grid:?}: {words} < {bound}");
        Ok(())
    };
    runner.run(&problem, law).unwrap_or_else(|error| panic!("{error}"));
}

/// The same problems each time.
fn rng() -> proptest::test_runner::TestRng {
    proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha)
}
