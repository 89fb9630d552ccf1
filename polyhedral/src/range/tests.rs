//! The values of the indices of `C[m, n] += A[m, k] * B[k, n]`, 100 by 30 by 7, by schedule and depth.

use super::*;
use crate::Schedule;
use crate::context::Context;
use expect_test::{Expect, expect};
use polyshard_layout::Mesh;
use polyshard_program::AxisId;
use polyshard_testing::example;

fn matmul() -> Schedule {
    Schedule::from_spec(example::matmul(100, 30, 7))
}

fn rows(ranks: usize) -> Schedule {
    matmul().distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", ranks)]))
}

fn shown(context: &Context<'_>, expr: &Expr) -> String {
    let loops = &context.nest().loops;
    let position = |symbol| match symbol {
        Symbol::Coordinate(AxisId(axis)) => axis,
        Symbol::Counter(number) => context.nest().distributed + number.0,
    };
    expr.show(&|symbol| context.nest().node(loops[position(symbol)]).name.to_string())
}

/// The span of one index variable while the loops around `depth` are fixed.
#[track_caller]
fn check(schedule: &Schedule, depth: usize, var: &str, expect: Expect) {
    let context = Context::new(schedule).expect("the steps are legal");
    let span = context.fixed(Depth(depth)).variable(position(context.kernel(), Name::new(var)));
    let show = |expr: &Expr| shown(&context, expr);
    let blocks = span.blocks.as_ref();
    let blocks = blocks.map(|blocks| format!(" by blocks of {} every {}", show(&blocks.size), blocks.stride));
    let count = span.count(&context.ranges);
    expect.assert_eq(&format!(
        "{}..{}{}, {} values",
        show(&span.low),
        show(&span.high),
        blocks.unwrap_or_default(),
        show(&count)
    ));
}

#[test]
fn an_index_without_steps_is_a_point_or_all_of_its_extent() {
    check(&matmul(), 0, "m", expect!["0..100, 100 values"]);
    check(&matmul(), 1, "m", expect!["m..m + 1, 1 values"]);
    check(&matmul(), 1, "n", expect!["0..30, 30 values"]);
}

#[test]
fn the_last_tile_of_a_rank_is_short_or_empty() {
    check(&rows(4), 0, "m", expect!["25*mo..25*mo + 25, 25 values"]);
    check(&rows(8), 0, "m", expect!["13*mo..min(100, 13*mo + 13), min(100, 13*mo + 13) - 13*mo values"]);
    check(
        &rows(8),
        1,
        "m",
        expect!["13*mo + mi..min(100, 13*mo + mi + 1), min(100, 13*mo + mi + 1) - 13*mo - mi values"],
    );
}

#[test]
fn loops_inside_of_outer_ones_take_values_at_equal_distances() {
    let strided = matmul().split("m", "mo", "mi", 8).reorder(["mi", "mo"]);
    check(
        &strided,
        1,
        "m",
        expect!["mi..min(100, mi + 97) by blocks of 1 every 8, (min(100, mi + 97) - mi + 7) / 8 values"],
    );
    check(&strided, 2, "m", expect!["mi + 8*mo..min(100, mi + 8*mo + 1), min(100, mi + 8*mo + 1) - mi - 8*mo values"]);
    let cyclic = matmul().split("m", "mb", "mi", 16).split("mb", "mt", "mp", 4);
    let cyclic = cyclic.distribute(["mp"], ["mo"], ["ml"], &Mesh::new([("x", 4)]));
    check(
        &cyclic,
        0,
        "m",
        expect![
            "16*mo..min(100, 16*min(7, mo + 5)) by blocks of 16 every 64, min(100, 16*min(7, mo + 5)) - 16*mo values"
        ],
    );
    check(
        &cyclic,
        1,
        "m",
        expect![
            "16*mo + 64*mt..min(100, 16*min(7, mo + 4*mt + 1)), min(100, 16*min(7, mo + 4*mt + 1)) - 16*mo - 64*mt values"
        ],
    );
}

#[test]
fn fused_loops_are_quotient_and_remainder_inside_a_row() {
    let fused = matmul().fuse("m", "n", "f");
    check(&fused, 1, "m", expect!["f / 30..(f / 30) + 1, 1 values"]);
    check(&fused, 1, "n", expect!["f % 30..(f % 30) + 1, 1 values"]);
    let tiles = fused.clone().split("f", "fo", "fi", 10);
    check(&tiles, 1, "m", expect!["(10*fo) / 30..((10*fo) / 30) + 1, 1 values"]);
    check(&tiles, 1, "n", expect!["(10*fo) % 30..((10*fo) % 30) + 10, 10 values"]);
    // A tile of 8 may cross from one row of 30 to the next.
    let crossing = fused.split("f", "fo", "fi", 8);
    check(
        &crossing,
        1,
        "m",
        expect!["(8*fo) / 30..((8*fo + 7) / 30) + 1, ((8*fo + 7) / 30) - ((8*fo) / 30) + 1 values"],
    );
    check(&crossing, 1, "n", expect!["0..30, 30 values"]);
}

#[test]
fn a_rotated_loop_is_known_where_it_is_fixed() {
    let rotated = rows(4).divide("k", "ko", "ki", 7).reorder(["ko", "mi", "n", "ki"]).rotate("ko", ["mo"]);
    check(&rotated, 0, "k", expect!["0..7, 7 values"]);
    check(&rotated, 1, "k", expect!["(mo + ko) % 7..((mo + ko) % 7) + 1, 1 values"]);
}

#[test]
fn sums_of_indices_go_from_the_sum_of_the_first_values_to_that_of_the_last() {
    let schedule = rows(4);
    let context = Context::new(&schedule).expect("the steps are legal");
    let index = Affine::new([(Name::new("m"), 2), (Name::new("k"), -1)], 3);
    let span = context.fixed(Depth(0)).index(&index, context.kernel());
    let [low, high] = [&span.low, &span.high].map(|expr| shown(&context, expr));
    expect!["50*mo - 3..50*mo + 52"].assert_eq(&format!("{low}..{high}"));
}

#[test]
fn a_hull_holds_all_spans_and_their_blocks() {
    let ranges = Ranges { coordinates: vec![], counters: vec![10] };
    let every_four =
        |from: i64| Span { low: Expr::constant(from), high: Expr::constant(from + 20), blocks: Blocks::points(4) };
    let hull = Span::hull(&[every_four(0), every_four(1)], &ranges);
    let blocks = Blocks { size: Expr::constant(2), stride: 4 };
    assert_eq!(hull, Span { low: Expr::constant(0), high: Expr::constant(21), blocks: Some(blocks) });
    // Points every 4, shifted by 0 to 3, are blocks of 4 every 4: all values.
    assert_eq!(Span::hull(&[every_four(0), every_four(3)], &ranges).blocks, None);
}
