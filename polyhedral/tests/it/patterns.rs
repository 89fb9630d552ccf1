//! The patterns found for known algorithms, and that finding them does not depend on the number of ranks.

use crate::lowered;
use expect_test::expect;
use polyshard_dsl::{Clause, Dim, Var, dim, pin};
use polyshard_layout::{Axis, AxisExpr, Mesh};
use polyshard_polyhedral::Schedule;
use polyshard_program::{Access, KernelSpec, Pattern, Value};
use polyshard_testing::example;

const M: Dim = Dim::Number(0);

fn mesh(x: usize, y: usize) -> Mesh {
    Mesh::new([("x", x), ("y", y)])
}

/// C[m, n] += A[m, k] * B[k, n] in tiles on a mesh, with `k` in as many parts as axis y has coordinates.
fn tiled(mesh: &Mesh, [m, n, k]: [usize; 3]) -> Schedule {
    let [_, y] = mesh.axes();
    Schedule::from_spec(example::matmul(m, n, k))
        .distribute(["m", "n"], ["mo", "no"], ["mi", "ni"], mesh)
        .divide("k", "ko", "ki", y.extent)
        .reorder(["mo", "no", "ko", "mi", "ni", "ki"])
}

fn plain(schedule: Schedule) -> Schedule {
    let [m, n, k] = ["m", "n", "k"].map(Var::new);
    schedule.shard("A", [m.at("x"), k.at("y")]).shard("B", [k.at("x"), n.at("y")]).shard("C", [m.at("x"), n.at("y")])
}

fn skewed(schedule: Schedule, parts: i64) -> Schedule {
    let [m, n, k] = ["m", "n", "k"].map(Var::new);
    let skew = (AxisExpr::axis("x") + AxisExpr::axis("y")) % parts;
    schedule
        .shard("A", [m.at("x"), k.at(skew.clone())])
        .shard("B", [k.at(skew), n.at("y")])
        .shard("C", [m.at("x"), n.at("y")])
}

fn inside(schedule: Schedule) -> Schedule {
    schedule.communicate("A", "ko").communicate("B", "ko").tensorize(["mi", "ni", "ki"])
}

fn patterns(schedule: &Schedule) -> [String; 3] {
    let program = lowered(schedule);
    ["A", "B", "C"].map(|tensor| program.pattern(tensor).expect("a tensor of the kernel").to_string())
}

const SIZE: [usize; 3] = [512, 1024, 2048];

#[test]
fn summa_broadcasts_panels() {
    assert_eq!(patterns(&inside(plain(tiled(&mesh(8, 8), SIZE)))), ["broadcast(y)", "broadcast(x)", "local"]);
}

#[test]
fn pumma_shifts_one_operand() {
    assert_eq!(
        patterns(&inside(plain(tiled(&mesh(8, 8), SIZE).rotate("ko", ["no"])))),
        ["shift(y, 1)", "broadcast(x)", "local"]
    );
}

#[test]
fn cannon_shifts_both_from_either_home() {
    let rotated = || tiled(&mesh(8, 8), SIZE).rotate("ko", ["mo", "no"]);
    for schedule in [inside(skewed(rotated(), 8)), inside(plain(rotated()))] {
        assert_eq!(patterns(&schedule), ["shift(y, 1)", "shift(x, 1)", "local"]);
    }
}

#[test]
fn ragged_sizes_and_empty_tiles_keep_the_patterns() {
    for size in [[500, 1000, 2001], [5, 1000, 3], [1, 1, 1], [3, 2, 7]] {
        let program = lowered(&inside(skewed(tiled(&mesh(8, 8), size).rotate("ko", ["mo", "no"]), 8)));
        assert_eq!(program.pattern("A"), Some(Pattern::shift("y", 1)), "{size:?}");
        let program = lowered(&inside(plain(tiled(&mesh(8, 8), size))));
        assert_eq!(program.pattern("B"), Some(Pattern::broadcast(["x"])), "{size:?}");
    }
}

#[test]
fn panels_fetched_at_once_are_gathered() {
    let outside = plain(tiled(&mesh(8, 8), SIZE)).communicate("A", "mo").tensorize(["mi", "ni", "ki"]);
    assert_eq!(patterns(&outside), ["all_gather(y)", "all_gather(x)", "local"]);
}

/// Panels that do not fit the blocks have one owner in some steps and two in others.
#[test]
fn panels_that_cross_blocks_are_gathered() {
    for [m, n, k] in [[512, 1024, 2048], [513, 1021, 2047], [5, 7, 13]] {
        let mesh = mesh(2, 3);
        let crossed = Schedule::from_spec(example::matmul(m, n, k))
            .distribute(["m", "n"], ["mo", "no"], ["mi", "ni"], &mesh)
            .divide("k", "ko", "ki", 6)
            .reorder(["mo", "no", "ko", "mi", "ni", "ki"]);
        assert_eq!(patterns(&inside(plain(crossed))), ["all_gather(y)", "all_gather(x)", "local"]);
    }
}

/// `C[m, n] += A[m, k] * A[n, k]`, with `k` in panels.
fn syrk(n: usize, k: usize) -> KernelSpec {
    let mut spec = example::matmul(n, n, k);
    spec.inputs.truncate(1);
    let access = |row| Box::new(Value::Access(Access::plain("A", &[row, "k"])));
    spec.value = Value::Mul(access("m"), access("n"));
    spec
}

#[test]
fn accesses_of_one_tensor_have_a_route_each() {
    let mesh = mesh(4, 4);
    let [x, y] = mesh.axes();
    let schedule = Schedule::from_spec(syrk(512, 256))
        .distribute(["m", "n"], ["mo", "no"], ["mi", "ni"], &mesh)
        .divide("k", "ko", "ki", 4)
        .reorder(["mo", "no", "ko", "mi", "ni", "ki"])
        .shard("A", [M.at(x), dim(1).at(y)])
        .shard("C", [M.at(x), dim(1).at(y)])
        .communicate("A", "ko")
        .tensorize(["mi", "ni", "ki"]);
    let program = lowered(&schedule);
    expect![[r#"
        // matmul: C[m, n] += A[m, k] * A[n, k], f32
        // mesh(x: 4, y: 4), 16 ranks
        // A[512, 256]: m @ x, k @ y
        // C[512, 512]: m @ x, n @ y
        on each rank (x, y):
            for ko in 0..4:    // divide(k, ko, ki, 4)
                A_tile[128, 64] = A[128*x .. +128, 64*ko .. +64]: broadcast along y from y = ko
                A_tile_2[128, 64] = A[128*y .. +128, 64*ko .. +64]: permute: from rank (y, ko), to rank (x, x) of [128*y .. +128, 64*ko .. +64] when x < y + 1 and y < x + 1; then broadcast along x from x = y
                C[m, n] += A[m, k] * A[n, k]    // product (m=M, n=N, k=K)
                    over m: 128 from 128*x; n: 128 from 128*y; k: 64 from 64*ko
    "#]]
    .assert_eq(&program.to_string());
    assert_eq!(program.patterns("A").len(), 2);
    let heads: Vec<_> = program.explain().lines().filter(|line| line.starts_with('A')).map(str::to_owned).collect();
    expect![[r#"
        A[m, k]: broadcast(y), in each iteration of ko
        A[n, k]: permute, broadcast(x), in each iteration of ko"#]]
    .assert_eq(&heads.join("\n"));
    let error = schedule.expect("A", Pattern::broadcast([y])).lower().expect_err("one of two");
    expect!["the transfer of `A` is broadcast(y) and permute, broadcast(x), not broadcast(y); `explain()` prints the tests that led to it"].assert_eq(&error.kind().to_string());
}

#[test]
fn an_access_that_is_local_does_not_speak_for_another() {
    let mesh = Mesh::new([("x", 4)]);
    let [x] = mesh.axes();
    let schedule = Schedule::from_spec(syrk(512, 256))
        .distribute(["m"], ["mo"], ["mi"], &mesh)
        .shard("A", [M.at(x)])
        .shard("C", [M.at(x)])
        .tensorize(["mi", "n", "k"]);
    let program = lowered(&schedule.clone().expect("A", Pattern::all_gather([x])));
    assert_eq!(program.patterns("A"), [Pattern::Local, Pattern::all_gather([x])]);
    schedule.expect("A", Pattern::Local).lower().expect_err("one of them moves");
}

/// Elements that are fetched anyway are not fetched twice.
#[test]
fn a_region_inside_of_another_is_read_from_its_tile() {
    let mesh = Mesh::new([("x", 4)]);
    let [x] = mesh.axes();
    let schedule = Schedule::from_spec(syrk(512, 256))
        .distribute(["m"], ["mo"], ["mi"], &mesh)
        .shard("A", [dim(1).at(x)])
        .shard("C", [M.at(x)])
        .tensorize(["mi", "n", "k"]);
    assert_eq!(lowered(&schedule).patterns("A"), [Pattern::all_gather([x])]);
}

#[test]
fn a_pinned_operand_is_broadcast_over_both_axes() {
    let mesh = mesh(4, 2);
    let [x, y] = mesh.axes();
    let schedule = tiled(&mesh, SIZE)
        .shard("A", [pin(x, 1), pin(y, 0)])
        .shard("C", [M.at(x), dim(1).at(y)])
        .shard("B", [dim(1).at(y)]);
    assert_eq!(patterns(&schedule), ["exchange", "local", "local"]);
    // Not only a part of it for each row, but the same for all ranks.
    let whole = Schedule::from_spec(example::matmul(8, 8, 8))
        .distribute(["n", "m"], ["no", "mo"], ["ni", "mi"], &Mesh::new([("x", 4), ("y", 1)]))
        .shard("A", [pin(x, 1)])
        .shard("B", [dim(1).at(x)])
        .shard("C", [dim(1).at(x)]);
    assert_eq!(patterns(&whole), ["broadcast(x)", "local", "local"]);
}

#[test]
fn an_output_owned_elsewhere_is_permuted_or_exchanged() {
    let mesh = mesh(2, 2);
    let [x, y] = mesh.axes();
    let tiles = || tiled(&mesh, [8, 8, 8]).shard("A", [M.at(x)]).shard("B", [dim(1).at(y)]);
    assert_eq!(patterns(&tiles().shard("C", [M.at(y), dim(1).at(x)])), ["local", "local", "permute"]);
    assert_eq!(patterns(&tiles().shard("C", [M.at([x, y])])), ["local", "local", "exchange"]);
}

#[test]
fn a_program_shows_what_the_notebook_printed() {
    let pumma = inside(plain(tiled(&mesh(8, 8), SIZE).rotate("ko", ["no"])));
    expect![[r#"
        // matmul: C[m, n] += A[m, k] * B[k, n], f32
        // mesh(x: 8, y: 8), 64 ranks
        // A[512, 2048]: m @ x, k @ y
        // B[2048, 1024]: k @ x, n @ y
        // C[512, 1024]: m @ x, n @ y
        on each rank (x, y):
            for ko in 0..8:    // divide(k, ko, ki, 8), rotate(ko, [no])
                A_tile[64, 256] = A[64*x .. +64, 256*((y + ko) % 8) .. +256]: shift along y by 1: from y = y + 1; at ko = 0: own shard
                B_tile[256, 128] = B[256*((y + ko) % 8) .. +256, 128*y .. +128]: broadcast along x from x = (y + ko) % 8
                C[m, n] += A[m, k] * B[k, n]    // product (m=M, n=N, k=K)
                    over m: 64 from 64*x; n: 128 from 128*y; k: 256 from 256*((y + ko) % 8)
    "#]]
    .assert_eq(&lowered(&pumma).to_string());
}

#[test]
fn an_expected_pattern_is_asserted() {
    let pumma = || inside(plain(tiled(&mesh(8, 8), SIZE).rotate("ko", ["no"])));
    lowered(&pumma().expect("A", Pattern::shift("y", 1)).expect("B", Pattern::broadcast(["x"])));
    let error = pumma().expect("A", Pattern::broadcast(["y"])).lower().expect_err("A is shifted");
    assert_eq!(error.step(), Some(11));
    expect!["the transfer of `A` is shift(y, 1), not broadcast(y); `explain()` prints the tests that led to it"]
        .assert_eq(&error.kind().to_string());
}

/// Ranks are never enumerated: the texts given to isl differ in constants alone, so programs differ in them alone.
/// With two coordinates, one further and one back are the same neighbour.
#[test]
fn an_expected_shift_counts_modulo_the_axis() {
    let mesh = mesh(2, 2);
    let [x, y] = mesh.axes();
    let cannon = || inside(skewed(tiled(&mesh, [6, 4, 8]).rotate("ko", ["mo", "no"]), 2));
    for by in [1, -1, 3, i64::MIN + 1, i64::MAX] {
        lowered(&cannon().expect("A", Pattern::shift(y, by)).expect("B", Pattern::shift(x, by)));
    }
    let error = cannon().expect("A", Pattern::shift(y, 2)).lower().expect_err("to itself");
    assert!(error.to_string().contains("not shift(y, 2)"), "{error}");
    let axes = lowered(&inside(plain(tiled(&mesh, [6, 4, 8]))));
    assert_eq!(axes.pattern("A"), Some(Pattern::broadcast([y])));
}

#[test]
fn the_program_of_a_large_mesh_is_that_of_a_small_one_with_other_constants() {
    let shape = |extent: usize| {
        let size = [64 * extent, 128 * extent, 256 * extent];
        let schedule = inside(skewed(tiled(&mesh(extent, extent), size).rotate("ko", ["mo", "no"]), extent as i64));
        let program = lowered(&schedule);
        program.to_string().replace(|c: char| c.is_ascii_digit(), "").lines().skip(5).collect::<String>()
    };
    assert_eq!(shape(8), shape(1024));
}

/// C[m, n] += A[m, k] * B[k, n] with the rows over nodes, and those of a node over its ranks, all as `rows` says.
fn nested(rows: usize, [nodes, ranks]: [usize; 2], shards: impl Fn(Var) -> Clause) -> Schedule {
    let [m, k] = ["m", "k"].map(Var::new);
    Schedule::from_spec(example::matmul(rows, 6, rows))
        .distribute(["m"], ["mo"], ["ml"], &Mesh::new([("node", nodes)]))
        .distribute(["ml"], ["mr"], ["mi"], &Mesh::new([("rank", ranks)]))
        .shard("A", [shards(m)])
        .shard("B", [shards(k)])
        .shard("C", [shards(m)])
}

#[test]
fn blocks_of_blocks_are_where_nested_loops_want_them() {
    let (node, rank) = (AxisExpr::axis("node"), AxisExpr::axis("rank"));
    // Sizes that do not divide, and ranks without rows, are as local as any other.
    for (rows, mesh) in [(16, [2, 2]), (13, [2, 2]), (13, [2, 5]), (29, [3, 4]), (5, [3, 4])] {
        let found = patterns(&nested(rows, mesh, |dim| dim.at(node.clone()).at(rank.clone())));
        assert_eq!(found, ["local", "all_gather(node, rank)", "local"], "{rows} rows over {mesh:?}");
    }
    // A list of axes has equal blocks, which are the same only where they divide.
    let list = || AxisExpr::list(&["node", "rank"]);
    assert_eq!(patterns(&nested(16, [2, 2], |dim| dim.at(list()))), ["local", "all_gather(node, rank)", "local"]);
    assert_eq!(patterns(&nested(13, [2, 2], |dim| dim.at(list()))), ["exchange", "all_gather(node, rank)", "exchange"]);
}

#[test]
fn panels_of_blocks_of_blocks_are_broadcast() {
    let (node, rank) = (AxisExpr::axis("node"), AxisExpr::axis("rank"));
    for (rows, [nodes, ranks]) in [(16, [2, 2]), (13, [2, 2]), (29, [3, 4])] {
        let panels = nested(rows, [nodes, ranks], |dim| dim.at(node.clone()).at(rank.clone()))
            .divide("k", "ko", "kl", nodes)
            .divide("kl", "kr", "ki", ranks)
            .reorder(["ko", "kr", "mi", "n", "ki"]);
        assert_eq!(
            patterns(&panels.communicate("B", "kr").tensorize(["mi", "n", "ki"])),
            ["local", "broadcast(node, rank)", "local"]
        );
    }
}

#[test]
fn sums_of_a_block_are_scattered_in_blocks_of_it() {
    let [m, k] = ["m", "k"].map(Var::new);
    let (x, y) = (AxisExpr::axis("x"), AxisExpr::axis("y"));
    for rows in [16, 13, 29] {
        let summed = Schedule::from_spec(example::matmul(rows, 6, 11))
            .distribute(["m", "k"], ["mo", "ko"], ["mi", "ki"], &mesh(3, 2))
            .shard("A", [m.at(x.clone()), k.at(y.clone())])
            .shard("B", [k.at(y.clone()).at(x.clone())])
            .shard("C", [m.at(x.clone()).at(y.clone())]);
        assert_eq!(patterns(&summed), ["local", "all_gather(x)", "reduce_scatter(y)"]);
    }
}

#[test]
fn levels_that_are_none_are_refused_with_the_step() {
    let (node, rank) = (AxisExpr::axis("node"), AxisExpr::axis("rank"));
    let error = |clause: fn(Clause, AxisExpr) -> Clause, at: &AxisExpr| {
        nested(13, [2, 2], |dim| clause(dim.at(node.clone()), at.clone()))
            .lower()
            .expect_err("refused")
            .kind()
            .to_string()
    };
    assert!(error(Clause::at, &node).starts_with("axis `node` is used twice"));
    assert!(error(|clause, at| clause.cyclic(at, 0), &rank).starts_with("dimension 0 is block-cyclic in blocks of 0"));
    assert!(error(|clause, at| clause.at(at.clone()).at(at), &rank).contains("3 levels"));
}

#[test]
#[should_panic(
    expected = "`pin(node, 0)` places no dimension, so it has no blocks to divide; leave out the clauses after it"
)]
fn a_pin_has_no_blocks_to_divide() {
    let _ = pin(Axis { name: "node".into(), extent: 2 }, 0).at(AxisExpr::axis("rank"));
}
