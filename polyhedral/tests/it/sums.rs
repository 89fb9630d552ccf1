//! Sums over ranks: the output's route is the transpose of an input's.

use crate::lowered;
use expect_test::expect;
use polyshard_dsl::{Clause, Var, partial, pin};
use polyshard_layout::{AxisExpr, Mesh};
use polyshard_polyhedral::Schedule;
use polyshard_program::{Algorithm, Assign, Leg, Pattern, Program};
use polyshard_testing::example;

/// C[m, n] += A[m, k] * B[k, n], all loops distributed over a cube, with A and B on faces of it.
fn cube(extents: [usize; 3], [rows, columns, depth]: [usize; 3]) -> Schedule {
    let [x, y, z] = extents;
    let mesh = Mesh::new([("x", x), ("y", y), ("z", z)]);
    let [x, y, z] = mesh.axes();
    let [m, n, k] = ["m", "n", "k"].map(Var::new);
    Schedule::from_spec(example::matmul(rows, columns, depth))
        .distribute(["m", "n", "k"], ["mo", "no", "ko"], ["mi", "ni", "ki"], &mesh)
        .shard("A", [m.at(x), k.at(z), pin(y, 0)])
        .shard("B", [k.at(z), n.at(y), pin(x, 0)])
        .tensorize(["mi", "ni", "ki"])
}

fn johnson(clauses: impl IntoIterator<Item = Clause>) -> Program {
    lowered(&cube([2, 2, 2], [64, 64, 64]).shard("C", clauses))
}

fn axis(name: &str) -> AxisExpr {
    AxisExpr::axis(name)
}

#[track_caller]
fn check(program: &Program, expected: [&str; 3]) {
    let pattern = |tensor| program.pattern(tensor).expect("a tensor of the kernel").to_string();
    assert_eq!(["A", "B", "C"].map(pattern), expected);
}

/// Sums along z, which each copy closes separately.
#[test]
fn copies_close_their_own_sums() {
    let [m, n] = ["m", "n"].map(Var::new);
    let z = Mesh::new([("z", 2)]).axes::<1>()[0];
    let copied = |clauses: Vec<Clause>| {
        lowered(&cube([2, 1, 2], [64, 64, 64]).replicate(&Mesh::new([("w", 3)])).shard("C", clauses))
    };
    let reduced = copied(vec![m.at(axis("x")), pin(z, 0)]);
    assert_eq!((reduced.pattern("C"), &reduced.nest().copies[..]), (Some(Pattern::reduce(["z"])), &[3][..]));
    let scattered = copied(vec![m.at(axis("x")), n.at(axis("z"))]);
    assert_eq!(scattered.pattern("C"), Some(Pattern::reduce_scatter(["z"])));
    let everywhere = copied(vec![m.at(axis("x"))]);
    assert_eq!(everywhere.pattern("C"), Some(Pattern::all_reduce(["z"])));
    assert_eq!(copied(vec![m.at(axis("x")), partial(z)]).pattern("C"), Some(Pattern::Local));
}

#[test]
fn johnson_broadcasts_twice_and_reduces() {
    let [m, n] = ["m", "n"].map(Var::new);
    let z = Mesh::new([("z", 2)]).axes::<1>()[0];
    let program = johnson([m.at(axis("x")), n.at(axis("y")), pin(z, 0)]);
    check(&program, ["broadcast(y)", "broadcast(x)", "reduce(z)"]);
    expect![[r#"
        A: broadcast(y), once, outside all serial loops
            broadcast along y from y = 0
            tile [32, 32] of A[32*x .. +32, 32*z .. +32]
            at most 4096 bytes received per rank and step
            read in place where ranks share memory, if they are threads or have a core each, else sent in messages
            - the needed region has one owner, (x, 0, z)
            - axis x: the owner's coordinate is the reader's, aligned
            - axis y: owner and region are the same for all y, broadcast
            - axis z: the owner's coordinate is the reader's, aligned
        B: broadcast(x), once, outside all serial loops
            broadcast along x from x = 0
            tile [32, 32] of B[32*z .. +32, 32*y .. +32]
            at most 4096 bytes received per rank and step
            read in place where ranks share memory, if they are threads or have a core each, else sent in messages
            - the needed region has one owner, (0, y, z)
            - axis x: owner and region are the same for all x, broadcast
            - axis y: the owner's coordinate is the reader's, aligned
            - axis z: the owner's coordinate is the reader's, aligned
        C: reduce(z), once, outside all serial loops
            reduce along z to z = 0
            tile [32, 32] of C[32*x .. +32, 32*y .. +32]
            at most 4096 bytes received per rank and step
            - an input of this region and sharding would be fetched like this:
            -   the needed region has one owner, (x, y, 0)
            -   axis x: the owner's coordinate is the reader's, aligned
            -   axis y: the owner's coordinate is the reader's, aligned
            -   axis z: owner and region are the same for all z, broadcast
            - run backwards, a broadcast is a reduction: reduce(z)
        lower bound
            at least 6144 bytes received by one of 8 ranks, by any algorithm that divides the work evenly, from one copy of each tensor
            - here at most 12288 bytes, 2.00 times as many
            - A, B, C are not divided evenly, which does not change the bound
        proved
            - every instance once: the relation from the loops of each step to those that they replace is single-valued, injective and onto
            - residency of A: the rank that an element is read from owns it; what the leaf reads is in the tile; the tile is inside A; rank (x, 0, z) owns the tile
            - residency of B: the rank that an element is read from owns it; what the leaf reads is in the tile; the tile is inside B; rank (0, y, z) owns the tile
            - delivery of C: what the leaf writes is in the tile; the tile is inside C; one of the ranks along z is the only owner of the tile that all of them have
            - matching: no loop is around a call
            - matching of A: its extent and root are independent of y
            - matching of B: its extent and root are independent of x
            - matching of C: its extent and root are independent of z
        bounds per rank
            - shards 12288 bytes
            - tiles and staging 20480 bytes
            - packed copies of matrix products 82176 bytes
            - received 12288 bytes
    "#]].assert_eq(&program.explain());
}

#[test]
fn where_the_output_lies_says_where_sums_meet() {
    let [m, n] = ["m", "n"].map(Var::new);
    let replicated = johnson([m.at(axis("x")), n.at(axis("y"))]);
    assert_eq!(replicated.pattern("C"), Some(Pattern::all_reduce(["z"])));
    let scattered = johnson([m.at(AxisExpr::list(&["x", "z"])), n.at(axis("y"))]);
    assert_eq!(scattered.pattern("C"), Some(Pattern::reduce_scatter(["z"])));
    let scattered = johnson([m.at(axis("x")), n.at(AxisExpr::list(&["y", "z"]))]);
    assert_eq!(scattered.pattern("C"), Some(Pattern::reduce_scatter(["z"])));
    let nowhere = johnson([]);
    assert_eq!(nowhere.pattern("C"), Some(Pattern::Exchange));
}

#[test]
fn ragged_sizes_and_empty_tiles_keep_the_patterns() {
    let [m, n] = ["m", "n"].map(Var::new);
    for size in [[5, 7, 3], [1, 1, 1], [64, 63, 65], [2, 9, 1]] {
        for extents in [[2, 2, 2], [3, 2, 4], [1, 5, 3]] {
            let c = |clauses: &[Clause]| lowered(&cube(extents, size).shard("C", clauses.to_vec())).pattern("C");
            let z = Mesh::new([("z", 9)]).axes::<1>()[0];
            let home = [m.at(axis("x")), n.at(axis("y")), pin(z, extents[2] - 1)];
            assert_eq!(c(&home), Some(Pattern::reduce(["z"])), "{size:?} on {extents:?}");
            assert_eq!(c(&home[..2]), Some(Pattern::all_reduce(["z"])), "{size:?} on {extents:?}");
        }
    }
}

/// GEMM-ReduceScatter on one axis: k distributed, C by rows.
fn gemm_rs(ranks: usize, panels: usize) -> Schedule {
    let mesh = Mesh::new([("x", ranks)]);
    let [x] = mesh.axes();
    let [m, k] = ["m", "k"].map(Var::new);
    Schedule::from_spec(example::matmul(64, 48, 32))
        .distribute(["k"], ["ko"], ["ki"], &mesh)
        .divide("m", "mo", "mi", panels)
        .reorder(["mo", "mi", "n", "ki"])
        .shard("A", [k.at(x)])
        .shard("B", [k.at(x)])
        .shard("C", [m.at(x)])
}

#[test]
fn sums_meet_at_the_end_per_panel_or_on_a_ring() {
    let whole = gemm_rs(4, 4).tensorize(["mi", "n", "ki"]);
    assert_eq!(lowered(&whole).pattern("C"), Some(Pattern::reduce_scatter(["x"])));
    let panels = gemm_rs(4, 4).communicate("C", "mo").tensorize(["mi", "n", "ki"]);
    assert_eq!(lowered(&panels).pattern("C"), Some(Pattern::reduce(["x"])));
    let ring = gemm_rs(4, 4).rotate("mo", ["ko"]).communicate("C", "mo").tensorize(["mi", "n", "ki"]);
    assert_eq!(lowered(&ring).pattern("C"), Some(Pattern::shift("x", 1)));
    expect![[r#"
        // matmul: C[m, n] += A[m, k] * B[k, n], f32
        // mesh(x: 4), 4 ranks
        // A[64, 32]: k @ x
        // B[32, 48]: k @ x
        // C[64, 48]: m @ x
        on each rank (x):
            A_tile[64, 8] = A[0..64, 8*x .. +8]: own shard
            B_tile[8, 48] = B[8*x .. +8, 0..48]: own shard
            for mo in 0..4:    // divide(m, mo, mi, 4), rotate(mo, [ko])
                C_tile[16, 48] = [16*((x + mo) % 4) .. +16, 0..48] of C, empty at mo = 0, then the sums of x + 1
                C[m, n] += A[m, k] * B[k, n]    // product (m=M, n=N, k=K)
                    over m: 16 from 16*((x + mo) % 4); n: 48 from 0; k: 8 from 8*x
                C <- C_tile: sums shift along x by 1; at mo = 3: permute: to rank ((x + 3) % 4), from rank ((x + 1) % 4)
    "#]]
    .assert_eq(&lowered(&ring).to_string());
}

#[test]
fn the_order_of_sums_is_left_to_the_library_where_the_schedule_says_so() {
    let [m, n] = ["m", "n"].map(Var::new);
    let [x, y, z] = Mesh::new([("x", 2), ("y", 2), ("z", 2)]).axes();
    let reduced = || cube([2, 2, 2], [64, 64, 64]).shard("C", [m.at(x), n.at(y), pin(z, 0)]);
    let (in_order, in_any) = (lowered(&reduced()), lowered(&reduced().reassociate("C")));
    assert!(!in_order.nest().any_order() && in_any.nest().any_order());
    // They differ in who adds up the terms, not in the ranks between which they are sent.
    let legs = |program: &Program| -> Vec<Leg> {
        program.nest().output().route.legs.iter().map(|leg| leg.clone().by(Algorithm::Library)).collect()
    };
    assert_eq!(legs(&in_order), legs(&in_any));
    let shown = in_any.to_string();
    expect!["    C <- C_tile: reduce along z to z = 0, in any order"]
        .assert_eq(shown.lines().find(|line| line.contains("C <- C_tile")).unwrap_or_default());
    // Sums that no collective adds up keep their order.
    let scattered = cube([2, 2, 2], [64, 64, 64]).shard("C", [m.at(y), n.at(x), pin(z, 0)]).reassociate("C");
    assert!(!lowered(&scattered).nest().any_order());

    let message = |schedule: Schedule| schedule.lower().expect_err("it is refused").kind().to_string();
    expect!["`A` is an input, so ranks do not sum it; reassociate the sums of the output, `C`"]
        .assert_eq(&message(reduced().reassociate("A")));
    expect!["sums of `C` are already reassociated in step 6; remove one of the two"]
        .assert_eq(&message(reduced().reassociate("C").reassociate("C")));
}

#[test]
fn sums_stay_open_where_the_output_says_so() {
    let [m, n, k] = ["m", "n", "k"].map(Var::new);
    let [x, y, z] = Mesh::new([("x", 2), ("y", 2), ("z", 2)]).axes();
    let open = johnson([m.at(x), n.at(y), partial(z)]);
    assert_eq!(open.pattern("C"), Some(Pattern::Local));
    assert_eq!(open.sharding("C").to_string(), "[0 @ x, 1 @ y, partial(z)]");
    assert!(open.to_string().contains("// C[64, 64]: m @ x, n @ y, partial(z)"), "{open}");
    assert_eq!(open.report().traffic_bytes, 2 * 32 * 32 * 4, "only A and B move");
    let moved = johnson([m.at(y), n.at(x), partial(z)]);
    assert_eq!(moved.pattern("C"), Some(Pattern::Permute));

    let message = |schedule: Schedule| schedule.lower().expect_err("it is refused").kind().to_string();
    let cube = || cube([2, 2, 2], [8, 8, 8]);
    expect!["axis `x` holds partial sums, so it cannot also place a dimension or be pinned; leave either out"]
        .assert_eq(&message(cube().shard("C", [m.at(x), n.at(x), partial(x)])));
    let read = Schedule::from_spec(example::matmul(8, 8, 8))
        .distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", 2)]))
        .shard("A", [k.at(0), partial(x)]);
    expect!["`A` would be read as partial sums along x; `redistribute` it to a sharding without `partial` first, and give that sharding here"].assert_eq(&message(read));
    let mut greatest = example::matmul(8, 8, 8);
    greatest.assign = Assign::Max;
    let open = Schedule::from_spec(greatest)
        .distribute(["k"], ["ko"], ["ki"], &Mesh::new([("x", 2)]))
        .shard("C", [partial(x)]);
    expect!["`C max= ..` is not a sum, so it cannot hold partial sums along x; leave `partial` out"]
        .assert_eq(&message(open));
}

#[test]
fn what_the_output_expects_is_checked() {
    let [m, n] = ["m", "n"].map(Var::new);
    let cube = cube([2, 2, 2], [8, 8, 8]).shard("C", [m.at(axis("x")), n.at(axis("y"))]);
    lowered(&cube.clone().expect("C", Pattern::all_reduce(["z"])));
    let message = cube.expect("C", Pattern::reduce(["z"])).lower().expect_err("all own it").kind().to_string();
    expect!["the transfer of `C` is all_reduce(z), not reduce(z); `explain()` prints the tests that led to it"]
        .assert_eq(&message);
}
