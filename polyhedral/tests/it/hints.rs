//! Hints on slow schedules, each with its cure, and the proofs in a report.

use crate::lowered;
use expect_test::{Expect, expect};
use polyshard_dsl::{Var, parse_kernel, pin};
use polyshard_layout::{AxisExpr, Mesh};
use polyshard_polyhedral::Schedule;
use polyshard_program::{Access, Affine, Hint, KernelSpec, LeafKind, Program, Property, Value};
use polyshard_testing::example;
use polyshard_testing::program::ByExchange;

fn mesh() -> Mesh {
    Mesh::new([("x", 2), ("y", 3)])
}

fn matmul(m: usize, n: usize, k: usize) -> Schedule {
    Schedule::from_spec(example::matmul(m, n, k)).distribute(["m", "n"], ["mo", "no"], ["mi", "ni"], &mesh())
}

fn sharded(schedule: Schedule) -> Schedule {
    let [m, n, k] = ["m", "n", "k"].map(Var::new);
    schedule.shard("A", [m.at("x"), k.at("y")]).shard("B", [k.at("x"), n.at("y")]).shard("C", [m.at("x"), n.at("y")])
}

fn panels(schedule: Schedule, parts: usize) -> Schedule {
    schedule
        .divide("k", "ko", "ki", parts)
        .reorder(["mo", "no", "ko", "mi", "ni", "ki"])
        .communicate("A", "ko")
        .communicate("B", "ko")
}

fn check(schedule: Schedule, expect: Expect) {
    let hints: String = lowered(&schedule).hints().iter().map(|hint| format!("{hint}\n")).collect();
    expect.assert_eq(&hints);
}

#[test]
fn a_good_schedule_gets_no_hint() {
    check(panels(sharded(matmul(60, 60, 60)), 6).tensorize(["mi", "ni", "ki"]), expect![""]);
}

#[test]
fn a_product_wants_a_leaf() {
    let schedule = panels(sharded(matmul(60, 60, 60)), 6);
    check(schedule.clone(), expect![""]);
    // The cure that the hint suggests is legal, and works.
    assert_eq!(lowered(&schedule.tensorize(["mi", "ni", "ki"])).hints(), []);
}

#[test]
fn empty_iterations_are_pointed_out() {
    check(
        panels(sharded(matmul(60, 4, 5)), 4).tensorize(["mi", "ni", "ki"]),
        expect![[r#"
            ranks at y = 2 have nothing to compute, after `distribute([m, n], [mo, no], [mi, ni], mesh(x: 2, y: 3))`: 2 along y are enough
            iterations 3..4 of loop `ko` are always empty, after `divide(k, ko, ki, 4)`: 3 parts are enough
        "#]],
    );
}

#[test]
fn panels_that_cross_blocks_are_cured_by_cyclic_ones() {
    let [m, n, k] = ["m", "n", "k"].map(Var::new);
    let crossed = |hint: &&Hint| matches!(hint, Hint::CrossedBlocks { .. });
    let crossings = |schedule: Schedule| {
        let program = lowered(&schedule.tensorize(["mi", "ni", "ki"]));
        program.hints().iter().filter(crossed).count()
    };
    // Where all ranks along an axis read one panel, its owners send it to all of them.
    assert_eq!(crossings(panels(sharded(matmul(60, 60, 2048)), 6)), 0);
    assert_eq!(crossings(panels(sharded(matmul(60, 60, 2048)), 6).rotate("ko", ["mo", "no"])), 2);
    let cyclic = matmul(60, 60, 2048)
        .shard("A", [m.at("x"), k.cyclic("y", 342)])
        .shard("B", [k.cyclic("x", 342), n.at("y")])
        .shard("C", [m.at("x"), n.at("y")]);
    let cured = lowered(&panels(cyclic, 6).tensorize(["mi", "ni", "ki"]));
    assert_eq!(cured.hints(), []);
    assert_eq!(cured.pattern("A").expect("a tensor").to_string(), "broadcast(y)");
}

#[test]
fn single_elements_and_single_instances_are_pointed_out() {
    let schedule = sharded(matmul(2, 3, 6));
    check(
        schedule.reorder(["mo", "no", "k", "mi", "ni"]).communicate("A", "ni").communicate("B", "ni"),
        expect![[r#"
            `A` moves one element at a time, in each iteration of `k`: communicate it at an outer loop, or divide into larger panels
            `B` moves one element at a time, in each iteration of `k`: communicate it at an outer loop, or divide into larger panels
            the leaf computes one element at a time inside loops k, mi, ni: communicate at an outer loop, and do not `fuse` loops that the leaf could run
        "#]],
    );
}

#[test]
fn panels_that_take_less_time_than_their_messages_are_pointed_out() {
    let pipelined = |m, n, k| panels(sharded(matmul(m, n, k)), 6).tensorize(["mi", "ni", "ki"]).pipeline("ko", 1);
    // A rank computes 8 x 5 elements of C, in panels of 8 terms; or 32 x 21 in panels of 16.
    check(
        pipelined(16, 15, 48),
        expect![[r#"
            an iteration of `ko` takes at most 640 operations, less time than the latency of a message of `A`: divide it into fewer iterations, or leave out `pipeline`
            an iteration of `ko` takes at most 640 operations, less time than the latency of a message of `B`: divide it into fewer iterations, or leave out `pipeline`
        "#]],
    );
    check(pipelined(64, 63, 96), expect![""]);
}

#[test]
fn an_output_without_shard_is_everywhere() {
    let [m, k] = ["m", "k"].map(Var::new);
    let schedule = matmul(60, 60, 60).shard("A", [m.at("x"), k.at("y")]).tensorize(["mi", "ni", "k"]);
    check(
        schedule,
        expect![[r#"
            `C` has no `shard`, so each rank receives and holds all 14400 bytes of it: shard it
        "#]],
    );
}

/// `C[m, n] += A[m, k] * A[n, k]`: each rank needs two panels of rows.
fn syrk(n: usize, k: usize) -> KernelSpec {
    let mut spec = example::matmul(n, n, k);
    spec.inputs.truncate(1);
    spec.value = Value::Mul(
        Box::new(Value::Access(Access::plain("A", &["m", "k"]))),
        Box::new(Value::Access(Access::plain("A", &["n", "k"]))),
    );
    spec
}

#[test]
fn a_box_around_strides_may_be_loose() {
    let mesh = Mesh::new([("x", 8), ("y", 8)]);
    let schedule = Schedule::from_spec(syrk(64, 16))
        .distribute(["m", "n"], ["mo", "no"], ["mi", "ni"], &mesh)
        .shard("A", [polyshard_dsl::dim(0).at(AxisExpr::list(&["x", "y"]))])
        .shard("C", [Var::new("m").at("x"), Var::new("n").at("y")])
        .tensorize(["mi", "ni", "k"]);
    // Two accesses are two tiles, and each is tight.
    check(schedule, expect![""]);
    let mut spec = example::matmul(4, 4, 4);
    spec.inputs[0].1 = vec![4, 13];
    spec.value = Value::Mul(
        Box::new(Value::Access(Access::new(
            "A".into(),
            vec![Affine::new([("m".into(), 1)], 0), Affine::new([("k".into(), 4)], 0)],
        ))),
        Box::new(Value::Access(Access::plain("B", &["k", "n"]))),
    );
    let schedule = Schedule::from_spec(spec).distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", 2)]));
    let schedule = schedule.shard("A", [pin(Mesh::new([("x", 2)]).axes::<1>()[0], 0)]);
    let program = lowered(&schedule.shard("C", [Var::new("m").at("x")]).tensorize(["mi", "n", "k"]));
    let loose = Hint::LooseTile { tensor: "A".into(), tile: 26, read: 8 };
    assert_eq!(program.hints(), [loose]);
}

#[test]
fn empty_kernels_get_no_hint() {
    check(panels(sharded(matmul(0, 4, 5)), 9), expect![""]);
}

/// The lines of the report on one property.
fn claims(program: &Program, property: Property) -> String {
    let lines = program.report().proofs.iter().filter(|proof| proof.property == property);
    let line = |tensor: String, claim: &str| format!("{tensor}: {claim}\n");
    lines.map(|proof| line(proof.tensor.map_or("all".into(), |tensor| tensor.to_string()), &proof.claim)).collect()
}

#[test]
fn a_report_says_what_was_asked_of_each_tensor() {
    let program = lowered(&panels(sharded(matmul(60, 60, 60)), 6).tensorize(["mi", "ni", "ki"]));
    let [residency, matching] = [Property::Residency, Property::Matching];
    expect![[r#"
        A: the rank that an element is read from owns it
        B: the rank that an element is read from owns it
        A: what the leaf reads is in the tile
        A: the tile is inside A
        A: rank (x, (10*ko) / 20) owns the tile
        B: what the leaf reads is in the tile
        B: the tile is inside B
        B: rank ((10*ko) / 30, y) owns the tile
    "#]]
    .assert_eq(&claims(&program, residency));
    expect![[r#"
        all: every loop around a call has the same number of iterations on all ranks
        A: its extent and root are independent of y
        B: its extent and root are independent of x
    "#]]
    .assert_eq(&claims(&program, matching));

    let exchanged = program.by_exchange();
    expect![[r#"
        A: the rank that an element is read from owns it
        B: the rank that an element is read from owns it
        A: what the leaf reads is in the tile
        A: the tile is inside A
        B: what the leaf reads is in the tile
        B: the tile is inside B
    "#]]
    .assert_eq(&claims(&exchanged, residency));
    expect![[r#"
        all: every loop around a call has the same number of iterations on all ranks
        A: sender and receiver work out the same pieces
        B: sender and receiver work out the same pieces
        C: sender and receiver work out the same pieces
    "#]]
    .assert_eq(&claims(&exchanged, matching));
    assert!(exchanged.report().tile_bytes > program.report().tile_bytes, "an exchange stages what it sends");
}

#[test]
fn nothing_is_said_of_what_was_not_asked() {
    // With one rank nothing is communicated, so nothing has to match.
    let alone = lowered(&Schedule::from_spec(example::matmul(4, 4, 4)));
    assert_eq!(claims(&alone, Property::Matching), "");
    // Nothing is sharded, so no element is read from another rank.
    assert_eq!(
        claims(&alone, Property::Residency).lines().filter(|line| line.contains("read from")).count(),
        0,
        "no claim is made about a sharding"
    );
}

/// A kernel of elements of `f64`, as text.
fn kernel(text: &str) -> Schedule {
    Schedule::from_spec(parse_kernel(text).unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn a_term_without_the_index_of_a_sum_is_added_for_each_of_its_values() {
    check(
        kernel("fn f(A: [f64; 6, 7], B: [f64; 7], D: [f64; 6]) -> C: [f64; 6] { C[i] = A[i, k] * B[k] - 2 * D[i] }"),
        expect![[r#"
            `2 * D[i]` is added 7 times to each element, once for each value of k, since the sum is of the whole right-hand side: to add it once, let `C` hold it before and add to that with `+=`
        "#]],
    );
    for fine in [
        "fn f(A: [f64; 6, 7], D: [f64; 6, 7]) -> C: [f64; 6] { C[i] += A[i, k] + D[i, k] - 1 }",
        "fn f(A: [f64; 6, 7], D: [f64; 6]) -> C: [f64; 6] { C[i] max= A[i, k] + D[i] }",
        "fn f(A: [f64; 6, 1], D: [f64; 6]) -> C: [f64; 6] { C[i] += A[i, k] + D[i] }",
        "fn f(A: [f64; 6, 7], D: [f64; 6]) -> C: [f64; 6] { C[i] += (A[i, k] + D[i]) * A[i, k] }",
        "fn f(A: [f64; 6, 7], D: [f64; 6]) -> C: [f64; 6, 7] { C[i, k] = A[i, k] + D[i] }",
    ] {
        check(kernel(fine), expect![""]);
    }
}

#[test]
fn one_element_is_not_to_be_sharded() {
    let mesh = Mesh::new([("x", 4)]);
    let sum = kernel("fn f(A: [f64; 64]) -> s: [f64;] { s[] += A[i] }").distribute(["i"], ["io"], ["ii"], &mesh);
    check(sum.shard("A", [Var::new("i").at("x")]), expect![""]);
}

#[test]
fn an_output_that_another_division_would_not_move_says_so() {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let scaled = || kernel("fn f(A: [f64; 64, 64]) -> C: [f64; 64, 64] { C[i, j] = 2 * A[i, j] }");
    let [i, j] = ["i", "j"].map(Var::new);
    let across = scaled().distribute(["i", "j"], ["io", "jo"], ["ii", "ji"], &mesh);
    check(
        across.shard("A", [i.at("x"), j.at("y")]).shard("C", [i.at("y"), j.at("x")]),
        expect![[r#"
            `C` is moved to its owners, since `i` is sharded over y and distributed over x: do both over one axis
        "#]],
    );
    let halves = scaled()
        .split("i", "ib", "il", 16)
        .distribute(["il", "j"], ["io", "jo"], ["ii", "ji"], &mesh)
        .shard("A", [i.at("x"), j.at("y")])
        .shard("C", [i.at("x"), j.at("y")]);
    check(
        halves,
        expect![[r#"
            `C` is moved to its owners, since loop `i` is not divided as `C` is along x: distribute `i` itself over x, before other steps divide it
        "#]],
    );
}

#[test]
fn a_short_range_leaves_ranks_without_work() {
    let mesh = Mesh::new([("x", 4)]);
    let part = kernel("fn f(A: [f64; 64]) -> B: [f64; 64] { B[i] = 2 * A[i] for i in 40..56 }");
    let part = part.distribute(["i"], ["io"], ["ii"], &mesh);
    let i = Var::new("i");
    check(
        part.shard("A", [i.at("x")]).shard("B", [i.at("x")]),
        expect![[r#"
            ranks at x = 0 to 1 have nothing to compute, since `i` is divided like the 64 indices of `B` that it writes, but covers only `for i in 40..56`: to divide that range instead, `divide` it into 4 first and distribute the outer loop, which moves `B` to its owners
        "#]],
    );
    let interior = kernel("fn f(A: [f64; 64]) -> B: [f64; 64] { B[i] = A[i - 1] + A[i + 1] for i in 1..63 }");
    let interior = interior.distribute(["i"], ["io"], ["ii"], &mesh);
    check(interior.shard("A", [i.at("x")]).shard("B", [i.at("x")]), expect![""]);
}

#[test]
fn pipelines_that_hide_nothing_are_pointed_out() {
    let in_panels = |parts| panels(sharded(matmul(60, 60, 60)), parts).pipeline("ko", 1).tensorize(["mi", "ni", "ki"]);
    check(in_panels(6), expect![""]);
    check(
        in_panels(1),
        expect![[r#"
        the transfer of `A` overlaps no computation, since `ko` has one iteration: divide it into more, or leave out `pipeline`
        the transfer of `B` overlaps no computation, since `ko` has one iteration: divide it into more, or leave out `pipeline`
    "#]],
    );
    let [k, n] = ["k", "n"].map(Var::new);
    let chain = parse_kernel(
        "fn chain(A: [f64; 24, 24], B: [f64; 24, 24], C: [f64; 24, 24]) -> D: [f64; 24, 24] {
            D[m, n] += A[m, k] * B[k, l] * C[l, n]
        }",
    );
    let mesh = Mesh::new([("x", 3)]);
    let chain = Schedule::from_spec(chain.expect("a kernel"))
        .distribute(["m"], ["mo"], ["mi"], &mesh)
        .divide("k", "ko", "ki", 3)
        .reorder(["mo", "ko", "mi", "n", "ki", "l"])
        .shard("A", [Var::new("m").at("x")])
        .shard("B", [k.at("x")])
        .shard("C", [n.at("x")])
        .shard("D", [Var::new("m").at("x")])
        .communicate("B", "ko")
        .pipeline("ko", 1)
        .tensorize(["mi", "n", "ki", "l"]);
    check(
        chain,
        expect![[r#"
            panels of `B` make progress only between leaves, since this leaf cannot be cut into slices: divide the loop of `pipeline` into more panels
        "#]],
    );
}

#[test]
fn blocks_without_an_interior_are_pointed_out() {
    let in_rows = |rows: usize| {
        let text = format!(
            "fn blur(u: [f32; {rows}, 6]) -> v: [f32; {rows}, 6] {{ v[i, j] = u[i - 1, j] else 0 + u[i + 1, j] else 0 }}"
        );
        let (mesh, i) = (Mesh::new([("x", 4)]), Var::new("i"));
        let at = || i.at("x");
        Schedule::from_spec(parse_kernel(&text).expect("a kernel"))
            .distribute(["i"], ["io"], ["ii"], &mesh)
            .shard("u", [at()])
            .shard("v", [at()])
            .interior_first("u")
    };
    check(
        in_rows(8),
        expect![[r#"
            nothing is computed while the halo of `u` is in flight, since all that a rank computes reads some of it: distribute over fewer ranks, or leave out `interior_first`
        "#]],
    );
    check(in_rows(12), expect![""]);
}

#[test]
fn an_index_that_occurs_once_is_pointed_out() {
    check(
        kernel("fn f(A: [f64; 6, 7], x: [f64; 7]) -> y: [f64; 6] { y[i] = A[i, j] * x[k] }"),
        expect![[r#"
            `j` occurs only in `A[i, j]`, so `A[i, j]` is summed over `j` again for each value of k: if you meant another index, write that one; else sum first, in a kernel of its own
            `k` occurs only in `x[k]`, so `x[k]` is summed over `k` again for each value of i, j: if you meant another index, write that one; else sum first, in a kernel of its own
        "#]],
    );
    for fine in [
        // The sum over rows is all that is computed.
        "fn f(A: [f64; 6, 7]) -> C: [f64; 6] { C[i] = 2 * A[i, j] }",
        // Nothing is added up twice.
        "fn f(A: [f64; 6, 7], B: [f64; 6]) -> C: [f64; 6] { C[i] = A[i, j] * B[i] }",
        "fn f(A: [f64; 6, 1], x: [f64; 7]) -> C: [f64; 6, 7] { C[i, k] = A[i, j] * x[k] }",
        "fn f(A: [f64; 6], B: [f64; 7]) -> C: [f64; 6, 7] { C[i, j] = A[i] * B[j] }",
        "fn f(A: [f64; 6, 7], B: [f64; 6]) -> C: [f64; 6] { C[i] max= A[i, j] * B[i] }",
        "fn f(A: [f64; 6, 7], B: [f64; 6]) -> C: [f64; 6] { C[i] += A[i, j] * B[i] * j }",
    ] {
        check(kernel(fine), expect![""]);
    }
}

#[test]
fn a_factor_that_keeps_a_matrix_product_away_is_pointed_out() {
    let statement = |value: &str| {
        let text = format!("fn f(A: [f64; 60, 61], B: [f64; 61, 62]) -> C: [f64; 60, 62] {{ C[i, j] += {value} }}");
        kernel(&text)
    };
    let product = |value: &str| statement(value).tensorize(["i", "j", "l"]);
    check(
        product("max(A[i, l], 0.0) * B[l, j]"),
        expect![[r#"
            the statement runs element by element, and would be a matrix product but for the factor `max(A[i, l], 0.0)`: compute it in a kernel of its own before, `T[i, l] = max(A[i, l], 0.0)`, and write `T[i, l]` here
        "#]],
    );
    check(
        product("2 * (A[i, l] + 1) * exp(-B[l, j])"),
        expect![[r#"
            the statement runs element by element, and would be a matrix product but for the factors `A[i, l] + 1` and `exp(-B[l, j])`: compute them in kernels of their own before, `T[i, l] = A[i, l] + 1` and `T2[l, j] = exp(-B[l, j])`, and write `T[i, l]` and `T2[l, j]` here
        "#]],
    );
    // Products, and factors that an earlier kernel would have to store for each instance of the statement.
    for fine in ["A[i, l] * B[l, j]", "max(A[i, l], B[l, j]) * B[l, j]", "max(A[i, l], B[l, j])"] {
        check(product(fine), expect![""]);
    }
    check(statement("max(A[i, l], 0.0) * B[l, j]").tensorize_as(["i", "j", "l"], LeafKind::Nest), expect![""]);
}

#[test]
fn what_is_not_moved_hides_nothing() {
    let scaled = |ranks| {
        let mesh = Mesh::new([("x", ranks)]);
        let [i, x] = [Var::new("i").at("x"), Var::new("i").at("x")];
        let kernel = kernel("fn f(A: [f64; 64]) -> B: [f64; 64] { B[i] = 2 * A[i] }");
        kernel.distribute(["i"], ["io"], ["ii"], &mesh).shard("A", [i]).shard("B", [x])
    };
    check(
        scaled(4).interior_first("A"),
        expect![[r#"
            `interior_first(A)` has no effect, since each rank owns all that it reads of `A`: leave it out
        "#]],
    );
    let error = scaled(4).expect_overlap("A", 0.5).lower().expect_err("nothing moves");
    assert_eq!(error.message(), "`A` is not moved, since each rank owns all that it uses of it");
    assert_eq!(error.help().as_deref(), Some("leave `expect_overlap` out"));
    // One program is written for several numbers of ranks, and 1 may be among them.
    check(scaled(1).interior_first("A").expect_overlap("A", 0.5), expect![""]);
}
