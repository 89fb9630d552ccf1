//! Where an element of an array of 24 by 10 is read from, and which rank reads from which.

use super::*;
use crate::nest::Nest;
use expect_test::{Expect, expect};
use polyshard_layout::{Axis, Mesh, Placement};
use polyshard_program::{AxisId, CounterId};
use polyshard_testing::example;

fn mesh() -> (Mesh, [Axis; 2]) {
    let mesh = Mesh::new([("x", 4), ("y", 3)]);
    let axes = mesh.axes();
    (mesh, axes)
}

fn shown(coordinates: &[Expr]) -> String {
    let name = |symbol| match symbol {
        Symbol::Coordinate(AxisId(axis)) => ["x", "y"][axis].to_owned(),
        Symbol::Counter(number) => ["i", "j"][number.0].to_owned(),
    };
    let shown: Vec<_> = coordinates.iter().map(|coordinate| coordinate.show(&name)).collect();
    shown.join(", ")
}

fn ranges() -> Ranges {
    Ranges { coordinates: vec![4, 3], counters: vec![24, 10] }
}

/// The coordinates of the rank from which element `(i, j)` is read, and isl's decision about them.
#[track_caller]
fn check(placements: &[Placement], expect: Expect) {
    let (mesh, _) = mesh();
    let sharding = Sharding::new(&mesh, &[24, 10], placements).expect("a sharding");
    let (kernel, nest) = (example::matmul(1, 1, 1).check().expect("a kernel"), Nest::default());
    let (relations, ranges) = (Relations { kernel: &kernel, nest: &nest }, ranges());
    let sources = Sources { relations: &relations, sharding: &sharding, ranges: &ranges };
    let element = [0, 1].map(|number| Expr::symbol(Symbol::Counter(CounterId(number))));
    let region = Region::of_ranges(element.map(|index| (index.clone(), index.offset_by(1))).into());
    let from = sources.at_low(&region);
    expect.assert_eq(&shown(&from));
    // The closed forms agree with the running program.
    for (i, j, rank) in (0..24).flat_map(|i| (0..10).flat_map(move |j| (0..12).map(move |rank| (i, j, rank)))) {
        let reader = mesh.coordinates(rank);
        let own: Vec<_> = reader.iter().map(|&at| at as i64).collect();
        let found: Vec<_> = from.iter().map(|at| at.eval(&own, &[i, j]) as usize).collect();
        assert_eq!(found, sharding.owner(&reader, &[i as usize, j as usize]), "element ({i}, {j}) for rank {rank}");
    }
}

#[test]
fn a_block_is_its_index_divided() {
    let (_, [x, y]) = mesh();
    check(&[Placement::block(0, x), Placement::block(1, y)], expect!["i / 6, j / 4"]);
    check(&[Placement::block(0, [x, y])], expect!["(i / 2) / 3, (i / 2) % 3"]);
    check(&[Placement::block(0, x).at(y)], expect!["(i / 2) / 3, (i / 2) % 3"]);
}

#[test]
fn a_cyclic_block_wraps_around() {
    let (_, [x, y]) = mesh();
    check(&[Placement::block_cyclic(0, x, 2), Placement::block_cyclic(1, y, 1)], expect!["(i / 2) % 4, j % 3"]);
}

#[test]
fn a_skewed_block_depends_on_the_other_coordinate() {
    let (_, [x, y]) = mesh();
    check(&[Placement::block(0, (x + y) % 4), Placement::block(1, y)], expect!["((i / 6) - (j / 4)) % 4, j / 4"]);
}

#[test]
fn a_reader_asks_its_own_layer_where_the_array_is_replicated_and_the_pin_where_it_is_not() {
    let (_, [x, _]) = mesh();
    check(&[Placement::block(0, x)], expect!["i / 6, y"]);
    check(&[Placement::block(0, x), Placement::pin("y", 2)], expect!["i / 6, 2"]);
}

#[test]
fn who_reads_from_a_rank_is_found_where_each_reads_from_one() {
    let [x, y] = [0, 1].map(|axis| Expr::symbol(Symbol::Coordinate(AxisId(axis))));
    let (i, ranges) =
        (Expr::symbol(Symbol::Counter(CounterId(0))), Ranges { coordinates: vec![4, 4], counters: vec![4] });
    let solved = |from: [&Expr; 2], kept: &[usize]| {
        let from = from.map(Clone::clone);
        invert(&from, kept, &ranges).map_or_else(|| "none".into(), |to| shown(&to))
    };
    expect!["y, x"].assert_eq(&solved([&y, &x], &[]));
    expect!["(x - y - i) % 4, y"].assert_eq(&solved([&x.add(&y).add(&i).rem(4, &ranges), &y], &[]));
    expect!["x, -y + 3"].assert_eq(&solved([&x, &Expr::constant(3).subtract(&y)], &[]));
    expect!["none"].assert_eq(&solved([&x.add(&y).rem(4, &ranges), &x.subtract(&y).rem(4, &ranges)], &[]));
    expect!["none"].assert_eq(&solved([&x, &Expr::constant(0)], &[]));
    expect!["x, y"].assert_eq(&solved([&x, &Expr::constant(0)], &[1]));
}
