//! How far owners are from readers: stencils communicate with neighbours, whatever the mesh.

use crate::lowered;
use expect_test::expect;
use polyshard_dsl::{dim, pin};
use polyshard_layout::{Mesh, Neighbours, Reach, Stencil};
use polyshard_polyhedral::Schedule;
use polyshard_program::{
    Access, Affine, Assign, DType, KernelId, KernelSpec, Leg, Modulus, Offsets, Pattern, Program, Value,
};
use polyshard_testing::program::IsAs;

/// `C[i, j] = A[i + a, j + b] + ..` over the offsets, of square tensors: of the elements that have all their
/// neighbours, or periodic.
fn stencil(extent: usize, offsets: &[[i64; 2]], periodic: bool) -> KernelSpec {
    let of = |name: &str, by: i64| {
        let index = Affine::new([(name.into(), 1)], by);
        if periodic { index.modulo(Modulus::Number(extent as i64)) } else { index }
    };
    let access = |tensor: &str, [i, j]: [Affine; 2]| Access::new(tensor.into(), vec![i, j]);
    let reads = offsets.iter().map(|&[a, b]| Value::Access(access("A", [of("i", a), of("j", b)])));
    let rim = if periodic { 0 } else { 1 };
    let extent = extent as i128;
    KernelSpec {
        name: "stencil".into(),
        dtype: DType::F64,
        inputs: vec![("A".into(), vec![extent; 2])],
        output: ("C".into(), vec![extent; 2]),
        ranges: ["i", "j"].map(|name| (name.into(), rim..extent - rim)).to_vec(),
        scalars: Vec::new(),
        moduli: Vec::new(),
        target: access("C", ["i", "j"].map(|name| Affine::new([(name.into(), 1)], 0))),
        assign: Assign::Set,
        value: reads.reduce(|sum, next| Value::Add(Box::new(sum), Box::new(next))).expect("an offset"),
    }
}

const FIVE: [[i64; 2]; 5] = [[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]];
const NINE: [[i64; 2]; 9] = [[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1], [-1, -1], [-1, 1], [1, -1], [1, 1]];

fn tiled(spec: KernelSpec, mesh: [usize; 2]) -> Schedule {
    let mesh = Mesh::new([("x", mesh[0]), ("y", mesh[1])]);
    let [x, y] = mesh.axes();
    Schedule::from_spec(spec)
        .distribute(["i", "j"], ["io", "jo"], ["ii", "ji"], &mesh)
        .shard("A", [dim(0).at(x), dim(1).at(y)])
        .shard("C", [dim(0).at(x), dim(1).at(y)])
}

fn pattern(schedule: &Schedule) -> String {
    lowered(schedule).pattern("A").expect("a tensor").to_string()
}

#[test]
fn a_stencil_talks_to_its_neighbours_whatever_the_mesh() {
    for periodic in [true, false] {
        for mesh in [[4, 4], [32, 32], [256, 256]] {
            let program = lowered(&tiled(stencil(100 * mesh[0], &FIVE, periodic), mesh));
            assert_eq!(program.pattern("A"), Some(Pattern::halo([("x", -1..=1), ("y", -1..=1)])), "{mesh:?}");
            assert_eq!(program.nest().partners(), 4, "{mesh:?}");
            let program = lowered(&tiled(stencil(100 * mesh[0], &NINE, periodic), mesh));
            assert_eq!(program.pattern("A"), Some(Pattern::halo([("x", -1..=1), ("y", -1..=1)])), "{mesh:?}");
            assert_eq!(program.nest().partners(), 8, "{mesh:?}");
        }
    }
}

/// The maximum number of ranks that a rank exchanges messages with, if a stencil reads corners and if it does not.
#[test]
fn corners_that_are_not_read_are_left_out() {
    let star = |extent: usize, offsets: &[[i64; 2]], periodic: bool, mesh: [usize; 2]| {
        let schedule = tiled(stencil(extent, offsets, periodic), mesh);
        let program = lowered(&schedule);
        let unproved = schedule.unproved().unwrap_or_else(|error| panic!("{error}"));
        assert!(unproved.is_as(&program), "{program}\n{}", unproved.explain());
        let route = &program.nest().transfers[0].route;
        let is_proved =
            program.explain().contains("all elements read are owned by ranks that differ along one axis only\n");
        assert_eq!(route.star().is_some(), is_proved, "{}", program.explain());
        (route.star().is_some(), route.partners(program.mesh()))
    };
    for periodic in [true, false] {
        // A diagonal is a corner, and so is what two of several accesses read together.
        assert_eq!(star(80, &[[0, 0], [1, 1]], periodic, [8, 4]), (false, 3));
        assert_eq!(star(80, &[[0, 0], [1, 0], [0, 1], [1, 1]], periodic, [8, 4]), (false, 3));
        assert_eq!(star(80, &[[0, 0], [1, 0], [0, 1]], periodic, [8, 4]), (true, 2));
        assert_eq!(star(80, &[[1, 0], [0, 1]], periodic, [8, 4]), (true, 2));
        // With ranks two away.
        if periodic {
            assert_eq!(star(80, &[[0, 0], [-17, 0], [0, 3]], periodic, [8, 8]), (true, 3));
            assert_eq!(star(80, &[[0, 0], [-17, 0], [0, 3], [-1, 3]], periodic, [8, 8]), (false, 5));
            // Half of the array away, which is not a halo any more.
            assert!(star(80, &[[0, 0], [-40, 0], [0, 40]], periodic, [8, 4]).0);
        }
        // Short tiles, and empty ones: 7 rows are 2, 2, 2, 1 and of 5 on 4 ranks the last has none.
        assert!(star(7, &FIVE, periodic, [4, 2]).0);
        assert!(star(5, &FIVE, periodic, [4, 2]).0);
        // On one row of ranks, owners are along one axis anyway.
        assert!(!star(80, &FIVE, periodic, [8, 1]).0);
        assert!(!star(80, &FIVE, periodic, [1, 8]).0);
    }
}

/// A program from a file is rejected if its leaf reads elements that are not fetched.
#[test]
fn a_file_that_leaves_out_corners_that_are_read_is_refused() {
    let read = |offsets: &[[i64; 2]], periodic| {
        let mut body = lowered(&tiled(stencil(12, offsets, periodic), [3, 2])).body().clone();
        let [Leg::Halo { reach }] = &mut body.transfers[0].route.legs[..] else { panic!("a halo") };
        reach.stencil = Stencil::Star;
        let proofs = body.kernels[0].report.proofs.clone();
        body.complete(KernelId(0), proofs);
        let program = Program::lowered(body);
        serde_json::from_str::<Program>(&serde_json::to_string(&program).expect("it is written"))
    };
    for periodic in [true, false] {
        let program = read(&FIVE, periodic).expect("it is as it was derived");
        assert!(program.explain().contains("in every step, each rank receives"), "{}", program.explain());
        let error = read(&NINE, periodic).expect_err("corners are read").to_string();
        expect!["statement 1: `stencil` has a leaf that reads corners of its part of `A`, which are not fetched"]
            .assert_eq(&error);
    }
}

#[test]
fn small_and_ragged_meshes_have_halos_too() {
    for periodic in [false, true] {
        for (extent, mesh) in [(40, [2, 2]), (41, [3, 2]), (13, [2, 5]), (7, [3, 3])] {
            let schedule = tiled(stencil(extent, &FIVE, periodic), mesh);
            let Some(Pattern::Halo { reach }) = lowered(&schedule).pattern("A") else {
                panic!("{extent} on {mesh:?}, periodic: {periodic}: {}", pattern(&schedule))
            };
            let near = |offsets: &Offsets| offsets.low >= -1 && offsets.high <= 1;
            assert!(reach.len() == 2 && reach.iter().all(near), "{extent} on {mesh:?}: {reach:?}");
        }
    }
    assert_eq!(pattern(&tiled(stencil(40, &FIVE, true), [4, 1])), "halo(x: -1..=1)");
    assert_eq!(pattern(&tiled(stencil(40, &[[0, 0], [-7, 0]], true), [8, 2])), "halo(x: -2..=0)");
}

/// Rows over nodes, and those of a node over its ranks: the neighbour of a node's last rank is another node's first.
#[test]
fn blocks_of_blocks_have_neighbours() {
    // 30 rows are 3 blocks of 10, which are 3 blocks of 3 and a row; of 29, the last rank has none.
    let near = "halo(node: -1..=1, rank: -1..=1)";
    for (extent, ranks, found) in [(32, [2, 4], near), (30, [3, 4], near), (30, [2, 4], near), (29, [3, 4], "exchange")]
    {
        let [node, rank] = [("node", ranks[0]), ("rank", ranks[1])].map(|axis| Mesh::new([axis]));
        let placed = || dim(0).at(node.axes::<1>()[0]).at(rank.axes::<1>()[0]);
        let schedule = Schedule::from_spec(stencil(extent, &[[-1, 0], [0, 0], [1, 0]], true))
            .distribute(["i"], ["io"], ["il"], &node)
            .distribute(["il"], ["ir"], ["ii"], &rank)
            .shard("A", [placed()])
            .shard("C", [placed()]);
        assert_eq!(pattern(&schedule), found, "{extent} rows over {ranks:?}");
    }
}

/// The cost of a halo is stated without a run.
#[test]
fn an_explanation_says_whom_a_rank_looks_at() {
    let text = lowered(&tiled(stencil(100, &[[0, 0], [1, 0], [0, -1]], true), [4, 5])).explain();
    let text: String =
        text.lines().take_while(|line| !line.starts_with("C:")).map(|line| format!("{line}\n")).collect();
    expect![[r#"
        A: halo(x: 0..=1, y: -1..=0), once, outside all serial loops
            halo from x..=x + 1 around the axis, y - 1..=y around the axis, along one axis alone
            tile [26, 21] of A[(25*x .. +26) % 100, (20*y - 1 .. +21) % 100]
            at most 360 bytes received per rank and step
            messages with at most 2 other ranks
            a rank's own elements are read in place
            the same in all iterations: messages are planned once
            read in place where ranks share memory, if they are threads or have a core each, else sent in messages
            - the needed region wraps around the end of the tensor
            - axis x: neither aligned, nor the same region for all x
            - owners of the elements read are at the offsets x: 0..=1, y: -1..=0 from the rank
            - all elements read are owned by ranks that differ along one axis only, so corners are left out
            - a few neighbours own it, around the rank's own elements: halo
    "#]]
    .assert_eq(&text);
}

#[test]
fn replicated_axes_are_the_readers_own_and_far_owners_are_anywhere() {
    let mesh = Mesh::new([("x", 8), ("y", 8)]);
    let [x, y] = mesh.axes();
    let tiles =
        || Schedule::from_spec(stencil(64, &FIVE, true)).distribute(["i", "j"], ["io", "jo"], ["ii", "ji"], &mesh);
    let lies = |schedule: Schedule| lowered(&schedule.shard("C", [dim(0).at(x), dim(1).at(y)]));
    let reach = |schedule: Schedule| match &lies(schedule).nest().transfers[0].route.legs[..] {
        [Leg::Halo { reach } | Leg::Exchange { reach, .. }] => reach.clone(),
        other => panic!("{other:?}"),
    };
    let (near, own) = (Reach::Around { low: -1, high: 1 }, Reach::OWN);
    assert_eq!(reach(tiles().shard("A", [dim(0).at(x)])), Neighbours::in_box([near, own]));
    assert_eq!(reach(tiles().shard("A", [dim(0).at(x), pin(y, 3)])), Neighbours::in_box([near, Reach::All]));
    assert_eq!(reach(tiles().shard("A", [dim(0).at(y), dim(1).at(x)])), Neighbours::in_box([Reach::All; 2]));
    // The rows of a skewed home are turned, so that neighbours are the next ranks but one along the other axis.
    let skewed = tiles().shard("A", [dim(0).at(x), dim(1).at((x + y) % 8)]);
    assert_eq!(reach(skewed), Neighbours::in_box([near, Reach::All]));
}

/// Both axes number the rows, the second one faster.
#[test]
fn a_halo_of_rows_goes_round_the_inner_axis() {
    let mesh = Mesh::new([("x", 8), ("y", 8)]);
    let [x, y] = mesh.axes();
    let schedule = Schedule::from_spec(stencil(640, &FIVE, true))
        .divide("i", "io", "ii", 8)
        .distribute(["io", "ii"], ["xo", "yo"], ["xi", "yi"], &mesh)
        .shard("A", [dim(0).at([x, y])])
        .shard("C", [dim(0).at([x, y])]);
    let program = lowered(&schedule);
    assert_eq!(program.pattern("A"), Some(Pattern::halo([("x", -1..=1), ("y", -1..=1)])), "{}", program.explain());
}

#[test]
fn an_expected_halo_is_asserted() {
    let schedule = tiled(stencil(40, &FIVE, true), [2, 2]);
    lowered(&schedule.clone().expect("A", Pattern::halo([("x", -1..=1), ("y", -1..=1)])));
    let error = schedule.expect("A", Pattern::halo([("x", -1..=1)])).lower().expect_err("y has neighbours too");
    expect!["the transfer of `A` is halo(x: -1..=1, y: -1..=1), not halo(x: -1..=1); `explain()` prints the tests that led to it"]
        .assert_eq(&error.kind().to_string());
}
