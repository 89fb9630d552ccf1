//! Bounds of arrays that do not lie in one copy.

use super::{check, kernel, matmul};
use polyshard_dsl::{Var, partial, pin};
use polyshard_layout::{Mesh, Name, Placement, Sharding};
use polyshard_polyhedral::Schedule;
use polyshard_program::{Kernel, example};

/// The bound of arrays that lie so on this mesh; the others lie in one copy.
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
fn one_copy_has_one_bound_wherever_its_parts_lie() {
    let (product, mesh) = (matmul([60, 50, 40]), Mesh::new([("x", 3), ("y", 2)]));
    let [x, y] = mesh.axes();
    let one = product.lower_bound(6, None).words;
    assert!(one > 0.0);
    let homes: [&[Placement]; 4] = [
        &[Placement::block(0, x), Placement::block(1, y)],
        &[Placement::block(0, x), Placement::pin("y", 0)],
        &[Placement::pin("x", 2), Placement::pin("y", 1)],
        &[Placement::block_cyclic(1, [x, y], 7)],
    ];
    for home in homes {
        is(bound(&product, &mesh, &[("A", home)]), one);
        is(bound(&product, &mesh, &[("B", home), ("C", home)]), one);
    }
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
    // So it is if the input is everywhere, as each instance is computed once.
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
        "    - C stays a sum of 4 terms, which need not meet\n    - so with these shardings, at least 0 bytes\nproved",
    );
    check(
        product.clone().shard("B", []).shard("C", []),
        "    - each element of B is on 4 ranks at the start, which need not fetch it\n    \
         - each element of C must be on 4 ranks in the end, so all but one of them receive it\n    - so with these shardings, at least 192 bytes",
    );
    check(
        product.shard("B", [k.at(x)]).shard("C", [pin(x, 1)]),
        "    - C is not in even shares, which does not change the bound\nproved",
    );
}
