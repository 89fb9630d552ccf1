//! Loops that are distributed block-cyclically: one transfer takes all blocks of a rank, and nothing else.

use expect_test::{Expect, expect};
use polyshard_layout::{AxisExpr, Mesh};
use polyshard_polyhedral::{Clause, Program, Schedule, Var, example};

/// C[m, n] += A[m, k] * B[k, n] where a rank has every `ranks`-th block of `block` rows.
fn dealt(rows: usize, ranks: usize, block: usize) -> Schedule {
    let mesh = Mesh::new([("x", ranks)]);
    Schedule::from_spec(example::matmul(rows, 5, 7))
        .split("m", "mb", "mi", block)
        .split("mb", "mt", "mp", ranks)
        .distribute(["mp"], ["mo"], ["ml"], &mesh)
        .tensorize(["ml", "mi", "n", "k"])
}

fn blocks(block: usize) -> Clause {
    Var::new("m").cyclic(AxisExpr::axis("x"), block)
}

fn rows() -> Clause {
    Var::new("m").at(AxisExpr::axis("x"))
}

fn lowered(schedule: &Schedule) -> Program {
    schedule.lower().unwrap_or_else(|error| panic!("{error}\n{schedule}"))
}

/// The explanation's paragraphs of `A` and `C`.
fn check(schedule: Schedule, expect: Expect) {
    let text = lowered(&schedule).explain();
    let paragraphs = text.split("\n\n").filter(|text| text.starts_with("A: ") || text.starts_with("C: "));
    expect.assert_eq(&(paragraphs.collect::<Vec<_>>().join("\n\n") + "\n"));
}

#[test]
fn blocks_that_a_rank_owns_are_copied_once() {
    check(
        dealt(64, 4, 4).shard("A", [blocks(4)]).shard("C", [blocks(4)]),
        expect![[r#"
        A: local, once, outside all serial loops
            gathered from own shard
            tile [16, 7] of A[4*x .. +52 by blocks of 4 every 16, 0..7]
            - each rank owns all it needs, block-cyclic: local
        B: local, once, outside all serial loops
            tile [7, 5] of B[0..7, 0..5]
            - each rank owns all it needs: local
        C: local, once, outside all serial loops
            combined into own shard
            tile [16, 5] of C[4*x .. +52 by blocks of 4 every 16, 0..5]
            - an input of this region and sharding would be fetched so:
            -   each rank owns all it needs, block-cyclic: local
            - each rank is the only owner of what it computes: local
        proved
            - every instance once: the relation from the loops of each step to those that they replace is single-valued, injective and onto
            - residency of A: the rank that an element is read from owns it; what the leaf reads is in the tile; the tile is inside A; each rank owns its tile
            - residency of B: what the leaf reads is in the tile; the tile is inside B; each rank owns its tile
            - delivery of C: what the leaf writes is in the tile; the tile is inside C; each rank is the only owner of its tile
        bounds per rank
            - shards 908 bytes
            - tiles and staging 768 bytes
            - received 0 bytes

    "#]],
    );
}

#[test]
fn blocks_of_contiguous_rows_are_exchanged_at_once() {
    check(
        dealt(64, 4, 4).shard("A", [rows()]).shard("C", [rows()]),
        expect![[r#"
        A: exchange, once, outside all serial loops
            exchange with the owners at any x
            tile [16, 7] of A[4*x .. +52 by blocks of 4 every 16, 0..7]
            at most 448 bytes received per rank and step
            messages with at most 3 other ranks
            - what one rank needs has several owners
            - axis x: neither aligned, nor the same region for all x
            - exchange
        B: local, once, outside all serial loops
            tile [7, 5] of B[0..7, 0..5]
            - each rank owns all it needs: local
        C: exchange, once, outside all serial loops
            exchange with the owners at any x
            tile [16, 5] of C[4*x .. +52 by blocks of 4 every 16, 0..5]
            - an input of this region and sharding would be fetched so:
            -   what one rank needs has several owners
            -   axis x: neither aligned, nor the same region for all x
            -   exchange
            - run backwards: combining exchange
        proved
            - every instance once: the relation from the loops of each step to those that they replace is single-valued, injective and onto
            - residency of A: the rank that an element is read from owns it; what the leaf reads is in the tile; the tile is inside A
            - residency of B: what the leaf reads is in the tile; the tile is inside B; each rank owns its tile
            - delivery of C: what the leaf writes is in the tile; the tile is inside C; each element of a tile goes to all of its owners
            - matching: every loop around a call has the same number of iterations on all ranks
            - matching of A: sender and receiver work out the same pieces
            - matching of C: sender and receiver work out the same pieces
        bounds per rank
            - shards 908 bytes
            - tiles and staging 4480 bytes
            - received 576 bytes

    "#]],
    );
}
