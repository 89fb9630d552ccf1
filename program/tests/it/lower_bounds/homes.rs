//! Bounds for arrays that are not in one copy.

use super::{check, kernel, matmul};
use polyshard_dsl::{Var, partial, pin};
use polyshard_layout::{Mesh, Name, Placement, Sharding};
use polyshard_polyhedral::Schedule;
use polyshard_program::Kernel;
use polyshard_testing::example;

/// The bound for arrays in these shardings on this mesh; the others have one copy.
fn bound(kernel: &Kernel, mesh: &Mesh, homes: &[(&str, &[Placement])]) -> f64 {
    let shape =
        |name: &str| kernel.tensors().find(|tensor| tensor.name.as_str() == name).expect("a tensor").shape.clone();
    let of = |(name, placements): &(&str, &[Placement])| {
        let sharding = Sharding::new(mesh, &shape(name), placements).expect("a sharding");
        (Name::new(name), sharding)
    };
    let homes: Vec<(Name, Sharding)> = homes.iter().map(of).collect();
    let homes: Vec<(Name, &Sharding)> = homes.iter().map(|(name, sharding)| (*name, sharding)).collect();
    kernel.lower_bound_in(mesh.size(), None, &homes).words
}

#[track_caller]
fn is(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-6 * expected.max(1.0), "{found}, not {expected}");
}

#[test]
fn what_is_replicated_at_the_start_need_not_be_fetched() {
    let (product, mesh) = (matmul([4096; 3]), Mesh::new([("x", 2), ("y", 2)]));
    let rows = Placement::block(0, mesh.axis("x").expect("an axis"));
    let one = product.lower_bound(4, None).words;
    // With one of the factors everywhere, rows of the other and of the result stay.
    is(bound(&product, &mesh, &[("B", &[])]), 0.0);
    is(bound(&product, &mesh, &[("A", &[]), ("B", &[])]), 0.0);
    let half = bound(&product, &mesh, &[("A", &[rows])]);
    assert!(half > 0.0 && half < one, "{half} of {one}");
    // Half of A on each of four ranks: 2 (n^4 / 8)^(1/2) elements of B and C, less shares of these.
    let n = 4096f64;
    is(half, 2.0 * (n.powi(6) / 16.0 / (n * n / 2.0)).sqrt() - n * n / 2.0);
}

#[test]
fn one_copy_in_even_shares_has_one_bound_wherever_its_parts_lie() {
    let (product, mesh) = (matmul([60, 50, 40]), Mesh::new([("x", 3), ("y", 2)]));
    let [x, y] = mesh.axes();
    let one = product.lower_bound(6, None).words;
    assert!(one > 0.0);
    let homes: [&[Placement]; 4] = [
        &[Placement::block(0, x), Placement::block(1, y)],
        &[Placement::block(0, x), Placement::block(1, (x + y) % 2)],
        &[Placement::block(1, y), Placement::block(0, (x + y) % 3)],
        &[Placement::block_cyclic(0, [x, y], 5)],
    ];
    for home in homes {
        is(bound(&product, &mesh, &[("A", home)]), one);
        is(bound(&product, &mesh, &[("C", home)]), one);
    }
}

#[test]
fn what_lies_on_one_rank_has_to_leave_it() {
    let (n, ranks) = (64.0, 8);
    let (product, mesh) = (matmul([64; 3]), Mesh::new([("x", ranks)]));
    let p = ranks as f64;
    let [x] = mesh.axes();
    let (rows, pinned) = ([Placement::block(0, x)], [Placement::pin("x", 5)]);
    let share = n * n / p;
    // If A is on one rank, each of the others touches (n^3 / P)^(2/3) of each matrix and has a share of B. The rank that has A touches
    // all of A, and then as little of C as of B, a share. All of C is one share per rank.
    let touched = (n.powi(3) / p).powf(2.0 / 3.0);
    let expected = (p - 1.0) / p * (3.0 * touched - share) + share / p - share;
    is(bound(&product, &mesh, &[("A", &pinned), ("B", &rows), ("C", &rows)]), expected);
    assert!(expected > product.lower_bound(ranks, None).words);
    // If both are, the others have nothing, and the rank that has them computes a share of C from them.
    let expected = (p - 1.0) / p * 3.0 * touched + share / p - share;
    is(bound(&product, &mesh, &[("A", &pinned), ("B", &pinned), ("C", &rows)]), expected);
    // An output that must be on one rank in the end is sent to it, except for that rank's share.
    is(bound(&product, &mesh, &[("A", &rows), ("B", &rows), ("C", &pinned)]), (p - 1.0) * share);
    is(bound(&product, &mesh, &[("C", &pinned)]), (p - 1.0) * share);
    // It may have the whole of A as well.
    is(bound(&product, &mesh, &[("A", &pinned), ("C", &pinned)]), (p - 1.0) * share);
    // Terms that stay open need not be sent.
    let open = [Placement::partial("x")];
    assert!(bound(&product, &mesh, &[("A", &pinned), ("C", &open)]) < (p - 1.0) * share);
    // Of an array that is read element by element, all but a share is sent to others.
    let scale = kernel("fn scale(A: [f64; 96]) -> B: [f64; 96] { B[i] = 2 * A[i] }");
    let (everywhere, one) = ([Placement::block(0, x)], [Placement::pin("x", 0)]);
    is(bound(&scale, &mesh, &[("A", &one), ("B", &everywhere)]), 12.0);
    is(bound(&scale, &mesh, &[("A", &everywhere), ("B", &one)]), 84.0);
    is(bound(&scale, &mesh, &[("A", &one)]), 12.0);
}

#[test]
fn shares_that_rounding_makes_different_have_the_bound_of_even_ones() {
    // Each rank scales its own elements, of 97 elements or of rows and columns that do not divide evenly, and receives nothing.
    let (mesh, [rows, columns]) = (Mesh::new([("x", 2), ("y", 3)]), [53, 41]);
    let [x, y] = mesh.axes();
    let text = format!(
        "fn scale(A: [f64; {rows}, {columns}], s: [f64; {columns}]) -> B: [f64; {rows}, {columns}] {{ B[i, j] = A[i, j] * s[j] }}"
    );
    let (scale, blocks) = (kernel(&text), [Placement::block(0, x), Placement::block(1, y)]);
    is(bound(&scale, &mesh, &[("A", &blocks), ("s", &[]), ("B", &blocks)]), 0.0);
    // Products of rows by all of another matrix.
    let (product, by_rows) = (matmul([53, 41, 29]), [Placement::block(0, [x, y])]);
    is(bound(&product, &mesh, &[("A", &by_rows), ("B", &[]), ("C", &by_rows)]), 0.0);
}

#[test]
fn ranks_that_have_less_receive_more() {
    let (scale, mesh) = (kernel("fn scale(A: [f64; 96]) -> B: [f64; 96] { B[i] = 2 * A[i] }"), Mesh::new([("x", 4)]));
    let x = mesh.axis("x").expect("an axis");
    // Three ranks have 40, 40 and 16, and one nothing, of the 24 that each needs.
    let blocks = [Placement::block_cyclic(0, x, 40)];
    is(bound(&scale, &mesh, &[("A", &blocks)]), 24.0);
    is(bound(&scale, &mesh, &[("B", &blocks)]), 16.0);
    // Two ranks of a pair have the same half, and the others nothing.
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let [x, y] = mesh.axes();
    is(bound(&scale, &mesh, &[("A", &[Placement::block(0, x), Placement::pin("y", 1)])]), 24.0);
    is(bound(&scale, &mesh, &[("A", &[Placement::block(0, (x + y) % 2)])]), 0.0);
    // Skewed shares that are even are as good as others.
    let product = matmul([64; 3]);
    let skewed = [Placement::block(0, x), Placement::block(1, (x + y) % 2)];
    is(bound(&product, &mesh, &[("A", &skewed)]), product.lower_bound(4, None).words);
}

#[test]
fn what_several_ranks_must_have_in_the_end_is_received_more_often() {
    let dot = kernel("fn dot(A: [f64; 90], B: [f64; 90]) -> C: f64 { C[] += A[i] * B[i] }");
    for ranks in [1, 2, 3, 5] {
        let mesh = Mesh::new([("x", ranks)]);
        // An all-reduce moves as much as a reduction and a broadcast.
        is(bound(&dot, &mesh, &[("C", &[])]), 2.0 * (1.0 - 1.0 / ranks as f64));
        is(bound(&dot, &mesh, &[("C", &[Placement::pin("x", 0)])]), 1.0 - 1.0 / ranks as f64);
    }
    // Nothing of an outer product's output needs to move, unless all of it has to be everywhere.
    let scale = kernel("fn scale(A: [f32; 6, 4]) -> B: [f32; 6, 4] { B[i, j] = 2 * A[i, j] }");
    let mesh = Mesh::new([("x", 4)]);
    is(bound(&scale, &mesh, &[("B", &[])]), 24.0 * 3.0 / 4.0);
    // The same holds if the input is everywhere, as each instance is computed once.
    is(bound(&scale, &mesh, &[("A", &[]), ("B", &[])]), 24.0 * 3.0 / 4.0);
}

#[test]
fn terms_of_a_sum_that_stays_open_need_not_meet() {
    let (product, mesh) = (matmul([64, 64, 512]), Mesh::new([("x", 4)]));
    let open = [("C", &[Placement::partial("x")][..])];
    is(bound(&product, &mesh, &open), 0.0);
    assert!(bound(&product, &mesh, &[]) > 0.0);
    // Along one of two axes, half of it meets.
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let half = bound(&product, &mesh, &[("C", &[Placement::partial("x"), Placement::block(0, mesh.axes::<2>()[1])])]);
    assert!(half > 0.0 && half < product.lower_bound(4, None).words, "{half}");
}

#[test]
fn ranks_that_have_nothing_to_compute_receive_nothing() {
    check(&matmul([1, 1, 1]), 3, 0.0);
    check(&matmul([1, 2, 1]), 3, 2.0 / 3.0 - 1.0 / 3.0);
}

#[test]
fn an_explanation_says_what_of_the_start_and_of_the_end_is_not_one_copy() {
    let mesh = Mesh::new([("x", 4)]);
    let (k, x) = (Var::new("k"), mesh.axis("x").expect("an axis"));
    let product = Schedule::from_spec(example::matmul(8, 8, 64)).distribute(["k"], ["ko"], ["ki"], &mesh);
    let product = product.shard("A", [k.at(x)]);
    let check = |schedule: Schedule, expected: &str| {
        let said = schedule.lower().expect("a program").explain();
        assert!(said.contains(expected), "{said}");
    };
    check(
        product.clone().shard("B", [k.at(x)]).shard("C", [partial(x)]),
        "    - C stays a sum of 4 terms, which no rank has to add\n    - so with these shardings, at least 0 \
         bytes\nproved",
    );
    check(
        product.clone().shard("B", []).shard("C", []),
        "    - each element of B is on 4 ranks at the start, which need not fetch it\n    \
         - each element of C must be on 4 ranks in the end, so all but one of them receive it\n    - so with these shardings, at least 192 bytes",
    );
    check(
        product.clone().shard("B", [k.at(x)]).shard("C", [pin(x, 1)]),
        "    - C is not divided evenly, which does not change the bound\nproved",
    );
    let pinned = Schedule::from_spec(example::matmul(8, 8, 64)).distribute(["k"], ["ko"], ["ki"], &mesh);
    check(
        pinned.shard("A", [pin(x, 0)]).shard("B", [k.at(x)]).shard("C", [pin(x, 1)]),
        "    - A, C are not divided evenly, so some ranks must receive more than others\n    \
         - so with these shardings, at least ",
    );
}

#[test]
fn scalars_are_on_all_ranks() {
    let mesh = Mesh::new([("x", 4)]);
    let x = mesh.axis("x").expect("an axis");
    let scale = kernel("fn scale(a: f64, A: [f64; 96]) -> B: [f64; 96] { B[i] = a[] * A[i] }");
    is(bound(&scale, &mesh, &[]), 0.0);
    // One rank has none of A, and the 16 others of another's 40 are of no use to it.
    is(bound(&scale, &mesh, &[("A", &[Placement::block_cyclic(0, x, 40)])]), 24.0);
    // A scalar that is placed on one rank is sent to the others.
    is(bound(&scale, &mesh, &[("a", &[Placement::pin("x", 1)])]), 0.75);
}

#[test]
fn pinned_shares_that_rounding_makes_different_have_the_bound_of_even_ones() {
    // Ranks (0, y) have 3, 3, 3 and 1 of ten rows, and ranks (1, y) nothing. A and B on the pinned ranks give C there, whose rows are divided likewise.
    let mesh = Mesh::new([("x", 2), ("y", 4)]);
    let [x, y] = mesh.axes();
    let scale = kernel("fn scale(A: [f64; 2, 10], B: [f64; 2, 10]) -> C: [f64; 2, 10] { C[i, j] = A[i, j] * B[i, j] }");
    let (blocks, pinned) =
        ([Placement::block(0, x), Placement::block(1, y)], [Placement::block(1, y), Placement::pin("x", 0)]);
    // Rank (0, 3) computes one element of each row, and so receives none; ranks (1, y) receive up to 3 of A.
    assert!(bound(&scale, &mesh, &[("A", &pinned), ("B", &blocks), ("C", &blocks)]) <= 3.0);
    let one = kernel("fn scale(A: [f64; 10], B: [f64; 2, 10]) -> C: [f64; 2, 10] { C[i, j] = A[j] * B[i, j] }");
    let (row, all) =
        ([Placement::block(0, y), Placement::pin("x", 0)], [Placement::block(1, y), Placement::block(0, x)]);
    assert!(bound(&one, &mesh, &[("A", &row), ("B", &all), ("C", &all)]) <= 3.0);
}
