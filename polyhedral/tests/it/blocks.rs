//! Loops that are distributed block-cyclically: one transfer moves all blocks of a rank, and nothing else.

use crate::lowered;
use expect_test::{Expect, expect};
use polyshard_dsl::{Clause, Var};
use polyshard_layout::{AxisExpr, Mesh, Name};
use polyshard_polyhedral::Schedule;
use polyshard_program::{Access, Affine, Assign, DType, Depth, KernelSpec, Pattern, Value};
use polyshard_testing::example;

/// C[m, n] += A[m, k] * B[k, n] where, along `x`, a rank has every `x`-th block of `block` rows.
fn cyclic(rows: usize, mesh: &Mesh, block: usize) -> Schedule {
    let [x, ..] = mesh.as_slice() else { panic!("a mesh of at least one axis") };
    let rows = Schedule::from_spec(example::matmul(rows, 5, 7))
        .split("m", "mb", "mi", block)
        .split("mb", "mt", "mp", x.extent);
    let rows = match mesh.ndim() {
        1 => rows.distribute(["mp"], ["mo"], ["ml"], mesh),
        _ => rows.distribute(["mp", "n"], ["mo", "no"], ["ml", "ni"], mesh),
    };
    rows.tensorize(["ml", "mi", if mesh.ndim() == 1 { "n" } else { "ni" }, "k"])
}

fn line(ranks: usize) -> Mesh {
    Mesh::new([("x", ranks)])
}

fn blocks(block: usize) -> Clause {
    Var::new("m").cyclic(AxisExpr::axis("x"), block)
}

fn rows(axis: &str) -> Clause {
    Var::new("m").at(AxisExpr::axis(axis))
}

/// How the tensors are transferred, as `explain()` prints it.
fn check(schedule: Schedule, expect: Expect) {
    let text = lowered(&schedule).explain();
    expect.assert_eq(text.split("proved\n").next().expect("a text has a beginning"));
}

#[test]
fn blocks_that_a_rank_owns_are_copied_once() {
    check(
        cyclic(64, &line(4), 4).shard("A", [blocks(4)]).shard("C", [blocks(4)]),
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
                - an input of this region and sharding would be fetched like this:
                -   each rank owns all it needs, block-cyclic: local
                - each rank is the only owner of what it computes: local
            lower bound
                at least 108 bytes received by one of 4 ranks, by any algorithm that divides the work evenly, from one copy of each tensor
                - here at most 0 bytes
                - each element of B is on 4 ranks at the start, which need not fetch it
                - so with these shardings, at least 0 bytes
        "#]],
    );
}

#[test]
fn blocks_of_contiguous_rows_are_exchanged_at_once() {
    check(
        cyclic(64, &line(4), 4).shard("A", [rows("x")]).shard("C", [rows("x")]),
        expect![[r#"
            A: exchange, once, outside all serial loops
                exchange with the owners at any x
                tile [16, 7] of A[4*x .. +52 by blocks of 4 every 16, 0..7]
                at most 336 bytes received per rank and step
                messages with at most 3 other ranks
                the same in all iterations: messages are planned once
                read in place by threads, sent in messages between processes
                - the needed region has several owners
                - axis x: neither aligned, nor the same region for all x
                - exchange
            B: local, once, outside all serial loops
                tile [7, 5] of B[0..7, 0..5]
                - each rank owns all it needs: local
            C: exchange, once, outside all serial loops
                exchange with the owners at any x
                tile [16, 5] of C[4*x .. +52 by blocks of 4 every 16, 0..5]
                at most 240 bytes received per rank and step
                the same in all iterations: messages are planned once
                - an input of this region and sharding would be fetched like this:
                -   the needed region has several owners
                -   axis x: neither aligned, nor the same region for all x
                -   exchange
                - run backwards: combining exchange
            lower bound
                at least 108 bytes received by one of 4 ranks, by any algorithm that divides the work evenly, from one copy of each tensor
                - here at most 576 bytes, 5.33 times as many
                - each element of B is on 4 ranks at the start, which need not fetch it
                - so with these shardings, at least 0 bytes
        "#]],
    );
}

#[test]
fn ranks_that_read_the_same_blocks_gather_them() {
    let mesh = Mesh::new([("x", 2), ("y", 3)]);
    check(
        cyclic(37, &mesh, 4).shard("A", [rows("y")]).shard("C", [blocks(4)]),
        expect![[r#"
            A: all_gather(y), once, outside all serial loops
                all-gather along y
                tile [20, 7] of A[4*x..min(37, 4*x + 36) by blocks of 4 every 8, 0..7]
                at most 392 bytes received per rank and step
                read in place by threads, sent in messages between processes
                - the needed region has several owners
                - axis x: the owners' coordinate is the reader's, aligned
                - axis y: the region is the same for all y
                - ranks along y own it together: all-gather
            B: local, once, outside all serial loops
                tile [7, 2] of B[0..7, 2*y..min(5, 2*y + 2)]
                - each rank owns all it needs: local
            C: exchange, once, outside all serial loops
                exchange with the owners at x, any y
                tile [20, 2] of C[4*x..min(37, 4*x + 36) by blocks of 4 every 8, 2*y..min(5, 2*y + 2)]
                at most 320 bytes received per rank and step
                the same in all iterations: messages are planned once
                - an input of this region and sharding would be fetched like this:
                -   each rank owns all it needs, block-cyclic: local
                - all ranks along y own it, but not alone or not as one tile: exchange
                - owners are at the offsets y: any from the rank
            lower bound
                at least 120 bytes received by one of 6 ranks, by any algorithm that divides the work evenly, from one copy of each tensor
                - here at most 712 bytes, 5.93 times as many
                - each element of A is on 2 ranks at the start, which need not fetch it
                - each element of B is on 6 ranks at the start, which need not fetch it
                - each element of C must be on 3 ranks in the end, so all but one of them receive it
                - so with these shardings, at least 280 bytes, 2.54 times as many
        "#]],
    );
}

/// B[i] = A[i] + A[i + 1] + A[i + 2] with `i` in blocks of 4.
#[test]
fn blocks_of_a_stencil_have_rims() {
    let read = |by: i64| {
        let index = vec![Affine::new([(Name::new("i"), 1)], by)];
        Box::new(Value::Access(Access::new(Name::new("A"), index)))
    };
    let spec = KernelSpec {
        name: Name::new("stencil"),
        dtype: DType::F32,
        inputs: vec![(Name::new("A"), vec![66])],
        output: (Name::new("B"), vec![64]),
        ranges: vec![(Name::new("i"), 0..64)],
        scalars: Vec::new(),
        moduli: Vec::new(),
        target: Access::plain("B", &["i"]),
        assign: Assign::Set,
        value: Value::Add(Box::new(Value::Add(read(0), read(1))), read(2)),
    };
    let i = Var::new("i");
    let schedule = Schedule::from_spec(spec)
        .split("i", "ib", "ii", 4)
        .split("ib", "it", "ip", 4)
        .distribute(["ip"], ["io"], ["il"], &line(4))
        .shard("A", [i.cyclic(AxisExpr::axis("x"), 4)])
        .shard("B", [i.cyclic(AxisExpr::axis("x"), 4)]);
    check(
        schedule,
        expect![[r#"
            A: exchange, once, outside all serial loops
                exchange with the owners at x..=x + 1 around the axis
                tile [24] of A[4*x .. +54 by blocks of 6 every 16]
                at most 32 bytes received per rank and step
                messages with at most 1 other rank
                the same in all iterations: messages are planned once
                read in place by threads, sent in messages between processes
                - the needed region has several owners
                - axis x: neither aligned, nor the same region for all x
                - owners are at the offsets x: 0..=1 from the rank
                - exchange
            B: local, once, outside all serial loops
                combined into own shard
                tile [16] of B[4*x .. +52 by blocks of 4 every 16]
                - an input of this region and sharding would be fetched like this:
                -   each rank owns all it needs, block-cyclic: local
                - each rank is the only owner of what it computes: local
        "#]],
    );
}

/// A message per pair of ranks, however many blocks there are; at the loop over rounds, it is one per block.
#[test]
fn the_number_of_messages_does_not_grow_with_the_number_of_blocks() {
    for rounds in [4, 8, 32] {
        let schedule = cyclic(16 * rounds, &line(4), 4).shard("A", [rows("x")]).shard("C", [rows("x")]);
        let messages = |schedule: &Schedule| {
            let program = lowered(schedule);
            let executions =
                |level: Depth| program.nest().loops[..level.0].iter().map(|l| l.extent as usize).product::<usize>();
            let a = &program.nest().transfers[0];
            let inputs = executions(a.level) * a.route.partners(program.mesh());
            (inputs, executions(program.nest().output().level) * program.nest().output().route.partners(program.mesh()))
        };
        assert_eq!(messages(&schedule), (3, 3), "{rounds} rounds");
        let (inputs, outputs) = messages(&schedule.communicate("A", "mt").communicate("C", "mt"));
        assert!(inputs >= rounds && outputs >= rounds, "{rounds} rounds: {inputs} and {outputs}");
    }
}

/// Short or missing blocks at the end change nothing.
#[test]
fn ragged_blocks_and_ranks_without_blocks_keep_the_patterns() {
    for (rows, ranks, block) in [(61, 4, 4), (3, 4, 4), (17, 5, 2), (1, 3, 1), (13, 3, 5), (0, 2, 4)] {
        let program =
            lowered(&cyclic(rows, &line(ranks), block).shard("A", [blocks(block)]).shard("C", [blocks(block)]));
        assert_eq!(["A", "C"].map(|tensor| program.pattern(tensor)), [Some(Pattern::Local), Some(Pattern::Local)]);
        let most = rows.div_ceil(block).div_ceil(ranks) * block;
        assert!(
            program.nest().output().tile.capacity <= 5 * most,
            "{rows} rows, {ranks} ranks, blocks of {block}: {program}"
        );
    }
}
