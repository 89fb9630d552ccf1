//! Each route of the output to its owners on the smallest schedule that has it, with the tests that lead to it.

use super::*;
use crate::Schedule;
use expect_test::{Expect, expect};
use polyshard_dsl::{Clause, Var, dim, partial, pin};
use polyshard_layout::Mesh;
use polyshard_program::{Access, Assign, KernelSpec, Value};
use polyshard_testing::example;

/// The route of the output, the tests made, and the proofs about it.
#[track_caller]
fn check(schedule: &Schedule, expect: Expect) {
    let context = Context::new(schedule).expect("the steps are legal");
    let (output, proofs) = output(&context).expect("there is a route");
    let pattern = output.route.pattern(output.direction, &context.state.mesh);
    let mut text = format!("{pattern}, inside {} loops, {} elements\n", output.level.0, output.tile.capacity);
    for test in &output.tests {
        text += &format!("- {test}\n");
    }
    for proof in proofs.iter().filter(|proof| proof.of_route) {
        text += &format!("{}: {}\n", proof.property, proof.claim);
    }
    expect.assert_eq(&text);
}

/// `C[m, n] += A[m, k] * B[k, n]`, 9 by 4 by 6, with rows or sums over 3 ranks.
fn over(index: &str, home: impl FnOnce(polyshard_layout::Axis) -> Vec<Clause>) -> Schedule {
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let (outer, inner) = (format!("{index}o"), format!("{index}i"));
    Schedule::from_spec(example::matmul(9, 4, 6)).distribute([index], [&*outer], [&*inner], &mesh).shard("C", home(x))
}

fn at(index: &str, axis: polyshard_layout::Axis) -> Clause {
    Var::new(index).at(axis)
}

#[test]
fn what_a_rank_alone_owns_it_writes_in_place() {
    check(
        &over("m", |x| vec![at("m", x)]),
        expect![[r#"
        local, inside 0 loops, 0 elements
        - each rank owns exactly what it computes, as one block: local
        delivery: each rank is the only owner of what it computes
    "#]],
    );
    // Each rank owns its term.
    check(
        &over("k", |x| vec![partial(x)]),
        expect![[r#"
        local, inside 0 loops, 0 elements
        - each rank owns exactly its term of what it computes, as one block: local
        delivery: each rank is the only owner of its term of what it computes
    "#]],
    );
}

#[test]
fn what_lies_in_cyclic_blocks_is_combined_into_the_shard() {
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let cyclic = Schedule::from_spec(example::matmul(12, 4, 6))
        .split("m", "mb", "mi", 2)
        .split("mb", "mt", "mp", 3)
        .distribute(["mp"], ["mo"], ["ml"], &mesh)
        .shard("C", [Var::new("m").cyclic(x, 2)]);
    check(
        &cyclic,
        expect![[r#"
        local, inside 0 loops, 16 elements
        - an input of this region and sharding would be fetched like this:
        -   each rank owns all it needs, block-cyclic: local
        - each rank is the only owner of what it computes: local
        delivery: each rank is the only owner of its tile
    "#]],
    );
}

#[test]
fn sums_meet_at_one_owner_at_all_of_them_or_part_by_part() {
    check(
        &over("k", |x| vec![pin(x, 1)]),
        expect![[r#"
        reduce(x), inside 0 loops, 36 elements
        - an input of this region and sharding would be fetched like this:
        -   the needed region has one owner, (1)
        -   axis x: owner and region are the same for all x, broadcast
        - run backwards, a broadcast is a reduction: reduce(x)
        delivery: one of the ranks along x is the only owner of the tile that all of them have
    "#]],
    );
    check(
        &over("k", |_| vec![]),
        expect![[r#"
        all_reduce(x), inside 0 loops, 36 elements
        - an input of this region and sharding would be fetched like this:
        -   each rank owns all it needs: local
        - its owners are the ranks along x, and all compute the same: all_reduce(x)
        delivery: the owners of the tile that all ranks along x have are these ranks
    "#]],
    );
    check(
        &over("k", |x| vec![at("m", x)]),
        expect![[r#"
        reduce_scatter(x), inside 0 loops, 36 elements
        - an input of this region and sharding would be fetched like this:
        -   the needed region has several owners
        -   axis x: the region is the same for all x
        -   ranks along x own it together: all-gather
        - run backwards, an all-gather is a reduce-scatter: reduce_scatter(x)
        delivery: each element of the tile that all ranks along x hold is owned by one of these ranks
    "#]],
    );
}

#[test]
fn sums_travel_where_ranks_are_rotated_against_each_other() {
    let ring = over("k", |x| vec![at("m", x)])
        .divide("m", "mo", "mi", 3)
        .reorder(["mo", "mi", "n", "ki"])
        .rotate("mo", ["ko"])
        .communicate("C", "mo");
    check(
        &ring,
        expect![[r#"
        shift(x, 1), inside 1 loops, 12 elements
        - an input of this region and sharding would be fetched like this:
        -   the needed region has one owner, ((x + mo) % 3)
        -   axis x: neither aligned nor broadcast
        -   axis x: the next region is the one that the neighbour at x + 1 holds now, shift
        -   the last iteration on its own:
        -     the needed region has one owner, ((x + 2) % 3)
        -     axis x: neither aligned nor broadcast
        -     each owner serves one rank at a time
        -     each rank sends one tile and receives one: permute
        - run backwards, partial sums move on: shift(x, 1)
        - run backwards: permute
        matching: in the last iteration the rank that a tile is sent to is the one that receives it
        delivery: in each iteration but the first, a rank continues with the tile that the neighbour at x + 1 had in the previous one, so each term is in one tile
        delivery: one rank is the only owner of a tile
    "#]],
    );
}

#[test]
fn a_loop_that_does_not_change_the_tile_is_outside_of_it() {
    let panels = over("k", |x| vec![pin(x, 0)]).reorder(["ki", "m", "n"]).communicate("C", "ki");
    check(
        &panels,
        expect![[r#"
        reduce(x), inside 0 loops, 36 elements
        - the 1 inner loops do not change what is written, so it is sent outside them
        - an input of this region and sharding would be fetched like this:
        -   the needed region has one owner, (0)
        -   axis x: owner and region are the same for all x, broadcast
        - run backwards, a broadcast is a reduction: reduce(x)
        delivery: one of the ranks along x is the only owner of the tile that all of them have
    "#]],
    );
}

#[test]
fn what_lies_elsewhere_is_permuted_or_exchanged() {
    let mesh = Mesh::new([("x", 3), ("y", 3)]);
    let [x, y] = mesh.axes();
    let tiles = Schedule::from_spec(example::matmul(9, 9, 4)).distribute(["m", "n"], ["mo", "no"], ["mi", "ni"], &mesh);
    check(
        &tiles.shard("C", [at("m", y), at("n", x)]),
        expect![[r#"
        permute, inside 0 loops, 9 elements
        - an input of this region and sharding would be fetched like this:
        -   the needed region has one owner, (y, x)
        -   axis x: neither aligned nor broadcast
        -   axis y: neither aligned nor broadcast
        -   each owner serves one rank at a time
        -   each rank sends one tile and receives one: permute
        - run backwards: permute
        matching: the rank that a tile is sent to is the one that receives it
        delivery: one rank is the only owner of a tile
    "#]],
    );
    check(
        &over("m", |x| vec![at("n", x)]),
        expect![[r#"
        exchange, inside 0 loops, 12 elements
        - an input of this region and sharding would be fetched like this:
        -   the needed region has several owners
        -   axis x: neither aligned, nor the same region for all x
        -   exchange
        - run backwards: combining exchange
        delivery: each element of a tile goes to all of its owners
    "#]],
    );
    check(
        &over("m", |_| vec![]),
        expect![[r#"
        exchange, inside 0 loops, 12 elements
        - an input of this region and sharding would be fetched like this:
        -   each rank owns all it needs: local
        - all ranks along x own it, but not alone or not as one tile: exchange
        delivery: each element of a tile goes to all of its owners
    "#]],
    );
}

#[test]
fn rims_go_to_neighbours() {
    // C[i + j] += A[i]: each rank writes 2 elements that its neighbour owns.
    let [i, j] = ["i", "j"].map(polyshard_layout::Name::new);
    let c = polyshard_layout::Name::new("C");
    let index = polyshard_program::Affine::new([(i, 1), (j, 1)], 0);
    let spec = KernelSpec {
        inputs: vec![("A".into(), vec![12])],
        output: (c, vec![14]),
        ranges: vec![(j, 0..3)],
        target: Access::new(c, vec![index]),
        assign: Assign::Add,
        value: Value::Access(Access::plain("A", &["i"])),
        ..example::matmul(1, 1, 1)
    };
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let spread = Schedule::from_spec(spec).distribute(["i"], ["io"], ["ii"], &mesh);
    check(
        &spread.shard("C", [dim(0).at(x)]),
        expect![[r#"
        halo(x: -1..=1), inside 0 loops, 6 elements
        - an input of this region and sharding would be fetched like this:
        -   the needed region has several owners
        -   axis x: neither aligned, nor the same region for all x
        -   owners are at the offsets x: -1..=1 from the rank
        -   a few neighbours own it, around the rank's own elements: halo
        - run backwards, neighbours get their rims: halo
        matching: owners are at the offsets x: -1..=1 from the rank
        delivery: each element of a tile goes to all of its owners
    "#]],
    );
}
