//! Each pattern on the smallest schedule that has it, with the tests that lead to it.

use super::*;
use crate::Schedule;
use expect_test::{Expect, expect};
use polyshard_dsl::{Var, pin};
use polyshard_layout::{Mesh, Name};
use polyshard_program::{Access, Affine, Assign, Direction, KernelSpec, Value};
use polyshard_testing::example;

/// The route of an input, the tests made, and the claims that they proved.
#[track_caller]
fn check(schedule: &Schedule, tensor: &str, expect: Expect) {
    let context = Context::new(schedule).expect("the steps are legal");
    let name = Name::new(tensor);
    let found = context.kernel().inputs().iter().find(|input| input.name == name);
    let shape = &found.expect("an input of the kernel").shape;
    let (depth, region) = context.hoisted(&context.kernel().accesses_of(name), context.requested(name).0, shape);
    let sharding = context.state.sharding(name);
    let mut trail = Trail::default();
    let need = Need { depth, region: &region, sharding: &sharding, reads: &[], written: false };
    let route = context.route(&need, &mut trail).expect("isl decides");
    let mut text = format!("{}\n", route.pattern(Direction::In, &context.state.mesh));
    for test in &trail.tests {
        text += &format!("- {test}\n");
    }
    for (property, claim) in &trail.proved {
        text += &format!("{property}: {claim}\n");
    }
    expect.assert_eq(&text);
}

/// `C[m, n] += A[m, k] * B[k, n]`, 12 by 12 by 12, on 3 by 3 ranks.
fn square(a: [&str; 2], b: [&str; 2]) -> Schedule {
    let mesh = Mesh::new([("x", 3), ("y", 3)]);
    let [x, y] = mesh.axes();
    let at = |dims: [&str; 2]| [Var::new(dims[0]).at(x), Var::new(dims[1]).at(y)];
    Schedule::from_spec(example::matmul(12, 12, 12))
        .distribute(["m", "n"], ["mo", "no"], ["mi", "ni"], &mesh)
        .divide("k", "ko", "ki", 3)
        .reorder(["ko", "mi", "ni", "ki"])
        .shard("A", at(a))
        .shard("B", at(b))
        .shard("C", at(["m", "n"]))
        .communicate("A", "ko")
        .communicate("B", "ko")
}

/// `C[i] += A[i + j]`, of 14 by 3.
fn window() -> KernelSpec {
    let [i, j] = ["i", "j"].map(Name::new);
    let read = Access::new(Name::new("A"), vec![Affine::new([(i, 1), (j, 1)], 0)]);
    KernelSpec {
        inputs: vec![(Name::new("A"), vec![16])],
        output: (Name::new("C"), vec![14]),
        ranges: vec![(j, 0..3)],
        target: Access::plain("C", &["i"]),
        assign: Assign::Add,
        value: Value::Access(read),
        ..example::matmul(1, 1, 1)
    }
}

#[test]
fn what_a_rank_owns_stays() {
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let rows = Schedule::from_spec(example::matmul(12, 4, 4)).distribute(["m"], ["mo"], ["mi"], &mesh);
    check(
        &rows.clone().shard("A", [Var::new("m").at(x)]),
        "A",
        expect![[r#"
        local
        - each rank owns all it needs: local
        residency: each rank owns its tile
    "#]],
    );
    // Replicated.
    check(
        &rows,
        "B",
        expect![[r#"
        local
        - each rank owns all it needs: local
        residency: each rank owns its tile
    "#]],
    );
}

#[test]
fn what_all_ranks_along_an_axis_need_of_one_is_broadcast() {
    check(
        &square(["m", "k"], ["k", "n"]),
        "A",
        expect![[r#"
        broadcast(y)
        - the needed region has one owner, (x, ko)
        - axis x: the owner's coordinate is the reader's, aligned
        - axis y: owner and region are the same for all y, broadcast
        residency: rank (x, ko) owns the tile
    "#]],
    );
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let rows = Schedule::from_spec(example::matmul(12, 4, 4)).distribute(["m"], ["mo"], ["mi"], &mesh);
    check(
        &rows.shard("B", [pin(x, 2)]),
        "B",
        expect![[r#"
        broadcast(x)
        - the needed region has one owner, (2)
        - axis x: owner and region are the same for all x, broadcast
        residency: rank (2) owns the tile
    "#]],
    );
}

#[test]
fn what_the_neighbour_has_now_is_shifted() {
    check(
        &square(["m", "k"], ["k", "n"]).rotate("ko", ["mo", "no"]),
        "A",
        expect![[r#"
        shift(y, 1)
        - the needed region has one owner, (x, (x + y + ko) % 3)
        - axis x: the owner's coordinate is the reader's, aligned
        - axis y: neither aligned nor broadcast
        - axis y: the next region is the one that the neighbour at y + 1 holds now, shift
        - the first iteration on its own:
        -   the needed region has one owner, (x, (x + y) % 3)
        -   axis x: the owner's coordinate is the reader's, aligned
        -   axis y: neither aligned nor broadcast
        -   each owner serves one rank at a time
        -   each rank sends one tile and receives one: permute
        matching: in the first iteration the rank that a tile is sent to is the one that receives it
        residency: in the first iteration rank (x, (x + y) % 3) owns the tile
        residency: in each later one it is the tile that the neighbour at y + 1 held in the previous iteration
    "#]],
    );
}

#[test]
fn what_each_owner_has_for_one_rank_is_permuted() {
    // Each rank needs its rows of `A` at once, but `A` is sharded transposed.
    let mesh = Mesh::new([("x", 3), ("y", 3)]);
    let [x, y] = mesh.axes();
    let transposed = Schedule::from_spec(example::matmul(12, 12, 12))
        .distribute(["m", "k"], ["mo", "ko"], ["mi", "ki"], &mesh)
        .shard("A", [Var::new("m").at(y), Var::new("k").at(x)]);
    check(
        &transposed,
        "A",
        expect![[r#"
        permute
        - the needed region has one owner, (y, x)
        - axis x: neither aligned nor broadcast
        - axis y: neither aligned nor broadcast
        - each owner serves one rank at a time
        - each rank sends one tile and receives one: permute
        matching: the rank that a tile is sent to is the one that receives it
        residency: rank (y, x) owns the tile
    "#]],
    );
}

#[test]
fn what_ranks_own_among_them_is_gathered() {
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let rows = Schedule::from_spec(example::matmul(12, 4, 4)).distribute(["m"], ["mo"], ["mi"], &mesh);
    check(
        &rows.shard("B", [Var::new("k").at(x)]),
        "B",
        expect![[r#"
        all_gather(x)
        - the needed region has several owners
        - axis x: the region is the same for all x
        - ranks along x own it together: all-gather
        residency: the owners of the tile differ from its readers along x alone
    "#]],
    );
}

#[test]
fn rims_of_neighbours_are_a_halo() {
    let mesh = Mesh::new([("x", 4)]);
    let [x] = mesh.axes();
    let windows = Schedule::from_spec(window()).distribute(["i"], ["io"], ["ii"], &mesh);
    check(
        &windows.shard("A", [polyshard_dsl::dim(0).at(x)]),
        "A",
        expect![[r#"
        halo(x: 0..=1)
        - the needed region has several owners
        - axis x: neither aligned, nor the same region for all x
        - owners are at the offsets x: 0..=1 from the rank
        - a few neighbours own it, around the rank's own elements: halo
        matching: owners are at the offsets x: 0..=1 from the rank
    "#]],
    );
}

#[test]
fn what_has_no_pattern_is_exchanged() {
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let columns = Schedule::from_spec(example::matmul(12, 4, 12)).distribute(["m"], ["mo"], ["mi"], &mesh);
    check(
        &columns.shard("A", [Var::new("k").at(x)]),
        "A",
        expect![[r#"
        exchange
        - the needed region has several owners
        - axis x: neither aligned, nor the same region for all x
        - exchange
    "#]],
    );
}
