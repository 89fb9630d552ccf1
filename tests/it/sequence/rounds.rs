//! Rounds give the same result as their stages in sequence, on every mesh and with every kind of transfer.

use super::{element, product, two_products, ways};
use expect_test::expect;
use ndarray::ArrayD;
use polyshard::prelude::*;
use polyshard::program::{Array, ArrayId, ArrayKind, Body, Carried, Rounds, Transfer};
use polyshard::runtime::{Transport, reference};
use polyshard_testing::filled::{self, whole};
use polyshard_testing::written::read_back;
use proptest::prelude::*;

/// A step of the heat equation on a torus, on a mesh of two axes.
fn heat(mesh: &Mesh, [rows, columns]: [usize; 2]) -> Program {
    let [x, y] = mesh.axes();
    vars!(i, j, io, ii, jo, ji);
    let step = kernel! {
        fn heat(A: [f64; rows, columns]) -> B: [f64; rows, columns] {
            B[i, j] = 0.5 * A[i, j]
                + 0.125 * (A[(i - 1) % rows, j] + A[(i + 1) % rows, j] + A[i, (j - 1) % columns] + A[i, (j + 1) % columns])
        }
    };
    let step = step.distribute([i, j], [io, jo], [ii, ji], mesh);
    step.shard("A", [dim(0).at(x), dim(1).at(y)]).shard("B", [i.at(x), j.at(y)]).lower().expect("a legal schedule")
}

/// A step of the wave equation on a ring, from its current and its previous values.
fn wave(mesh: &Mesh, points: usize) -> Program {
    let [x] = mesh.axes();
    vars!(i, io, ii);
    let step = kernel! {
        fn wave(U: [i64; points], P: [i64; points]) -> N: [i64; points] {
            N[i] = 2 * U[i] - P[i] + (U[(i - 1) % points] - 2 * U[i] + U[(i + 1) % points])
        }
    };
    let step = step.distribute([i], [io], [ii], mesh).shard("U", [dim(0).at(x)]);
    step.shard("P", [i.at(x)]).shard("N", [i.at(x)]).lower().expect("a legal schedule")
}

/// The outputs of a program on rank 0: run twice, into an array and read back from a file, in place and by messages.
pub(super) fn run<T: Element>(program: &Program, fill: impl Fn(usize, &[usize]) -> T + Sync) -> Vec<ArrayD<T>> {
    let read = read_back(program);
    let mut found = [Transport::Auto, Transport::Messages].map(|transport| {
        let found = polyshard::spmd(program.mesh().size(), |world| {
            let arrays = filled::inputs(world, program, &fill)?;
            let inputs: Vec<_> = arrays.iter().collect();
            let mut prepared = read.prepare(world)?.with_transport(transport);
            let first = prepared.run_all(&inputs)?;
            for (array, (_, first)) in prepared.run_all(&inputs)?.iter().zip(&first) {
                assert_eq!(array.1.block(), first.block(), "a second run differs\n{program}");
            }
            if let [(_, first)] = &first[..] {
                let mut into = prepared.output()?;
                prepared.run_into(&inputs, &mut into)?;
                assert_eq!(into.block(), first.block(), "into an array it differs\n{program}");
            }
            first.into_iter().map(|(_, array)| Ok(array.gather(world)?)).collect::<polyshard::Result<Vec<_>>>()
        });
        let found = found.unwrap_or_else(|error| panic!("{error}\n{program}")).swap_remove(0);
        found.into_iter().flatten().collect::<Vec<_>>()
    });
    assert_eq!(found[0], found[1], "by messages it differs\n{program}");
    std::mem::take(&mut found[0])
}

#[test]
fn a_stencil_in_rounds_is_the_stencil_again_and_again() {
    for (extents, size) in [([1, 1], [5, 4]), ([2, 2], [7, 6]), ([3, 2], [8, 5]), ([2, 3], [2, 9]), ([1, 4], [3, 2])] {
        let mesh = Mesh::new([("x", extents[0]), ("y", extents[1])]);
        let step = heat(&mesh, size);
        let mut expected = whole(&size, |at| f64::random(1, at));
        for times in 0..6 {
            let round = Sequence::new().stage(&step, ["A"], "B").carry("B", "A");
            let program = Sequence::new().repeat(times, round).build().expect("rounds");
            assert_eq!(run(&program, |_, at| f64::random(1, at)), [expected.clone()], "{times} rounds, {program}");
            expected = reference(step.kernel(), &[&expected], None).expect("a step");
        }
    }
}

#[test]
fn arrays_take_one_anothers_names() {
    let mesh = Mesh::new([("x", 3)]);
    let step = wave(&mesh, 11);
    for times in 0..6 {
        let round = || Sequence::new().stage(&step, ["U", "P"], "N").carry("U", "P").carry("N", "U");
        let both = Sequence::new().repeat(times, round()).build().expect("rounds");
        let last = Sequence::new().repeat(times, round()).keep("U").build().expect("rounds");
        let [mut now, mut before] = [0, 1].map(|nth| whole(&[11], |at| element(nth, at)));
        for _ in 0..times {
            let next = reference(step.kernel(), &[&now, &before], None).expect("a step");
            (now, before) = (next, now);
        }
        assert_eq!(run(&both, element), [before, now.clone()], "{times} rounds, {both}");
        assert_eq!(run(&last, element), [now], "{times} rounds, {last}");
        let names: Vec<_> = last.outputs().map(|output| output.name.to_string()).collect();
        assert_eq!(names, ["U"]);
    }
    // Two values that are only swapped.
    for times in 0..4 {
        let round = Sequence::new().stage(&step, ["U", "P"], "N").carry("U", "P").carry("P", "U");
        let program = Sequence::new().repeat(times, round).build().expect("rounds");
        let [one, other] = [0, 1].map(|nth| whole(&[11], |at| element(nth, at)));
        let expected = if times % 2 == 0 { [other, one] } else { [one, other] };
        assert_eq!(run(&program, element), expected, "{times} rounds, {program}");
    }
}

#[test]
fn what_no_round_writes_is_moved_before_them_and_brought_once() {
    let mesh = Mesh::new([("x", 4)]);
    let [x] = mesh.axes();
    vars!(i, io, ii);
    let rows = 10usize;
    let step = kernel! {
        fn step(A: [i64; rows], K: [i64; rows]) -> B: [i64; rows] {
            B[i] = A[(i - 1) % rows] * K[(i - 1) % rows] + A[(i + 1) % rows] * K[(i + 1) % rows]
        }
    };
    let step = step.distribute([i], [io], [ii], &mesh).shard("A", [dim(0).at(x)]).shard("K", [dim(0).at(x)]);
    let step = step.shard("B", [i.at(x)]).lower().expect("a legal schedule");
    let elsewhere = Sharding::new(&mesh, &[rows], &[Placement::block_cyclic(0, x, 1)]).expect("a sharding");
    let program = |times| {
        let round = Sequence::new().stage(&step, ["A", "K"], "B").carry("B", "A");
        Sequence::new().repeat(times, round).input("K", &elsewhere).build().expect("rounds")
    };
    expect![[r#"
        program over (x: 4), i64
            input         A[10]: [0 @ x]
            input         K[10]: [0 @ cyclic(x, 1)]
         1  move          K' = K: [0 @ cyclic(x, 1)] to [0 @ x], exchange
         2  repeat        4 rounds
                          A' is first A, then B of the round before
         3    run           B = step(A', K'), B[i] = A[(i - 1) % 10] * K[(i - 1) % 10] + A[(i + 1) % 10] * K[(i + 1) % 10]
            output        A'[10]: [0 @ x]
    "#]].assert_eq(&program(4).to_string());
    let received = |times: u64| {
        let program = program(times);
        let most = filled::run(&program, element).1.into_iter().max().expect("ranks");
        assert_eq!(program.report().traffic_bytes, most, "{}", program.explain());
        most
    };
    let each = received(3) - received(2);
    assert_eq!(each, received(2) - received(1), "each further round receives as much");
    assert!(received(1) > 2 * each, "the first one receives K, too: {} and {each}", received(1));
    let mut expected = whole(&[rows], |at| element(0, at));
    for _ in 0..4 {
        expected = reference(step.kernel(), &[&expected, &whole(&[rows], |at| element(1, at))], None).expect("a step");
    }
    assert_eq!(run(&program(4), element), [expected]);
}

#[test]
fn what_a_rank_receives_in_each_round_is_stated_though_another_one_receives_what_comes_once() {
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    vars!(i, io, ii);
    // Rank 1 needs elements of A that rank 0 owns, and rank 0 elements of K that rank 1 owns.
    let step = kernel! {
        fn step(A: [i64; 6], K: [i64; 6]) -> B: [i64; 6] { B[i] = (A[i - 1] else 0) + (K[i + 1] else 0) }
    };
    let step = step.distribute([i], [io], [ii], &mesh).shard("A", [dim(0).at(x)]).shard("K", [dim(0).at(x)]);
    let step = step.shard("B", [i.at(x)]).lower().expect("a legal schedule");
    let round = Sequence::new().stage(&step, ["A", "K"], "B").carry("B", "A");
    let program = Sequence::new().repeat(5, round).build().expect("rounds");
    assert_eq!(filled::run(&program, element).1, [8, 5 * 8], "{}", program.explain());
    assert_eq!(program.report().traffic_bytes, 5 * 8, "{}", program.explain());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Rounds of any two products, whatever the shardings, repeat these products; with carried and constant values, and
    /// nested rounds.
    #[test]
    fn rounds_are_their_stages_one_after_the_other(
        extents in (1..4usize, 1..4usize),
        size in 0..7usize,
        way in prop::array::uniform6(0..12usize),
        times in 0..5u64,
        inner in 0..3u64,
        carries in 0..3usize,
    ) {
        let mesh = Mesh::new([("x", extents.0), ("y", extents.1)]);
        vars!(m, n, k);
        let clauses = |way: &[usize]| {
            [ways(&mesh, m, k, way[0]), ways(&mesh, k, n, way[1]), ways(&mesh, m, n, way[2])]
        };
        let [first, second] = [&way[..3], &way[3..]].map(|way| product(&mesh, [size; 3], clauses(way)));
        // Y = A V, Z = Y A; Z is carried as A, or both are swapped, or Y is carried as A in nested rounds.
        let stages = |sequence: Sequence| sequence.stage(&first, ["A", "V"], "Y").stage(&second, ["Y", "A"], "Z");
        let round = match carries {
            0 => stages(Sequence::new()).carry("Z", "A"),
            1 => stages(Sequence::new()).carry("A", "V").carry("Z", "A"),
            _ => {
                let inside = Sequence::new().stage(&first, ["A", "V"], "Y").carry("Y", "A");
                Sequence::new().repeat(inner, inside).stage(&second, ["V", "A"], "Z").carry("Z", "A")
            }
        };
        let program = Sequence::new().repeat(times, round).keep("A").build().expect("rounds");
        let product = |a: &ArrayD<i64>, b: &ArrayD<i64>| reference(first.kernel(), &[a, b], None).expect("shapes fit");
        let names: Vec<_> = program.inputs().map(|input| input.name.to_string()).collect();
        let given = |name: &str| {
            let nth = names.iter().position(|other| other == name).expect("an input");
            whole(&[size, size], |at| element(nth, at))
        };
        let (mut a, mut v) = (given("A"), given("V"));
        for _ in 0..times {
            let z = match carries {
                0 | 1 => product(&product(&a, &v), &a),
                _ => {
                    for _ in 0..inner {
                        a = product(&a, &v);
                    }
                    product(&v, &a)
                }
            };
            if carries == 1 {
                v = a;
            }
            a = z;
        }
        prop_assert_eq!(run(&program, element), [a], "{}", program.explain());
    }
}

/// Conjugate gradients on the Laplacian of a rectangle, whose edges are 0, until the square of the residual is below a bound.
fn conjugate_gradients(mesh: &Mesh, [rows, columns]: [usize; 2], below: f64) -> Program {
    let [x, y] = mesh.axes();
    vars!(i, j, io, ii, jo, ji, b);
    let laplace = kernel! {
        fn laplace(D: [f64; rows, columns]) -> Q: [f64; rows, columns] {
            Q[i, j] = 4.0 * D[i, j] - (D[i - 1, j] else 0.0) - (D[i + 1, j] else 0.0)
                - (D[i, j - 1] else 0.0) - (D[i, j + 1] else 0.0)
        }
    };
    // Sums of parts of rows that are the same on every mesh, each in one order, and the sum of these.
    let across = columns.div_ceil(4);
    let parts = kernel! {
        fn parts(A: [f64; rows, columns], B: [f64; rows, columns]) -> P: [f64; rows, across] {
            P[i, b] += (A[i, 4 * b + j] else 0.0) * (B[i, 4 * b + j] else 0.0) for j in 0..4
        }
    };
    let sum = kernel! { fn sum(P: [f64; rows, across]) -> s: f64 { s[] += P[i, b] } };
    let onward = kernel! {
        fn onward(A: [f64; rows, columns], p: f64, q: f64, B: [f64; rows, columns]) -> C: [f64; rows, columns] {
            C[i, j] = A[i, j] + p[] / q[] * B[i, j]
        }
    };
    let back = kernel! {
        fn back(A: [f64; rows, columns], p: f64, q: f64, B: [f64; rows, columns]) -> C: [f64; rows, columns] {
            C[i, j] = A[i, j] - p[] / q[] * B[i, j]
        }
    };
    let over = |schedule: Schedule, indices: [Var; 2], tensors: &[&'static str]| {
        let schedule = schedule.distribute(indices, [io, jo], [ii, ji], mesh);
        tensors.iter().fold(schedule, |schedule, name| schedule.shard(*name, [dim(0).at(x), dim(1).at(y)]))
    };
    let lowered = |schedule: Schedule| schedule.lower().expect("a legal schedule");
    let laplace = lowered(over(laplace, [i, j], &["D", "Q"]));
    let parts = lowered(over(parts, [i, b], &["A", "B", "P"]));
    let sum = lowered(sum.replicate(mesh));
    let [onward, back] = [onward, back].map(|schedule| lowered(over(schedule, [i, j], &["A", "B", "C"])));
    let round = Sequence::new()
        .stage(&laplace, ["D"], "Q")
        .stage(&parts, ["D", "Q"], "curvatures")
        .stage(&sum, ["curvatures"], "dq")
        .stage(&onward, ["X", "rr", "dq", "D"], "X2")
        .stage(&back, ["R", "rr", "dq", "Q"], "R2")
        .stage(&parts, ["R2", "R2"], "squares")
        .stage(&sum, ["squares"], "rr2")
        .stage(&onward, ["R2", "rr2", "rr", "D"], "D2")
        .carry("X2", "X")
        .carry("R2", "R")
        .carry("D2", "D")
        .carry("rr2", "rr")
        .until("rr2", below);
    // It begins at 0, where the residual is the right-hand side.
    let start = Sequence::new().stage(&parts, ["R", "R"], "first").stage(&sum, ["first"], "rr");
    start.repeat(1000, round).keep("X").build().expect("rounds")
}

/// Solves the system on a mesh: returns the number of rounds and the solution that rank 0 gathers.
fn solved(extents: [usize; 2], size: [usize; 2]) -> (u64, ArrayD<f64>) {
    let mesh = Mesh::new([("x", extents[0]), ("y", extents[1])]);
    let program = conjugate_gradients(&mesh, size, 1e-20);
    let found = polyshard::spmd(mesh.size(), |world| {
        let arrays = program.inputs().map(|input| {
            let is_start = input.name.as_str() == "X";
            DistArray::from_fn(world, &input.sharding, |at| if is_start { 0.0 } else { f64::random(7, at) })
        });
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        let mut prepared = program.prepare(world)?;
        let solved = prepared.run(&arrays.iter().collect::<Vec<_>>())?;
        let rounds = prepared.rounds().to_vec();
        Ok((rounds, solved.gather(world)?))
    });
    let mut found = found.expect("it ends");
    let rounds = found[0].0[0];
    assert!(found.iter().all(|rank| rank.0 == [rounds]) && rounds > 3 && rounds < 100, "{rounds} rounds");
    (rounds, found.swap_remove(0).1.expect("rank 0 gathers"))
}

#[test]
fn conjugate_gradients_end_on_all_ranks_after_the_same_round() {
    for (extents, size) in [([1, 1], [6, 5]), ([2, 2], [7, 6]), ([3, 1], [8, 5]), ([2, 3], [4, 9])] {
        let (rounds, solved) = solved(extents, size);
        let at = |i: usize, j: usize| solved.get([i, j].as_slice()).copied().unwrap_or(0.0);
        for i in 0..size[0] {
            for j in 0..size[1] {
                let around = at(i.wrapping_sub(1), j) + at(i + 1, j) + at(i, j.wrapping_sub(1)) + at(i, j + 1);
                let residual = 4.0 * at(i, j) - around - f64::random(7, &[i, j]);
                assert!(residual.abs() < 1e-9, "{extents:?}: {residual:e} at {i}, {j} after {rounds} rounds");
            }
        }
    }
}

#[test]
fn conjugate_gradients_have_the_same_bits_on_every_mesh() {
    for size in [[12, 9], [21, 8]] {
        let alone = solved([1, 1], size);
        for extents in [[2, 1], [1, 3], [2, 2], [4, 1], [3, 2], [5, 1]] {
            assert_eq!(solved(extents, size), alone, "{size:?} on {extents:?}");
        }
    }
}

#[test]
fn rounds_may_begin_with_the_output_that_a_run_is_given() {
    let mesh = Mesh::new([("x", 2)]);
    let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, "x")]).expect("a sharding");
    let (rows, columns) = (by(0), by(1));
    let array = |name: &str, sharding: &Sharding, kind| Array { name: name.into(), sharding: sharding.clone(), kind };
    let arrays = vec![
        array("A", &rows, ArrayKind::Input),
        array("B", &columns, ArrayKind::Output),
        array("V", &columns, ArrayKind::Temporary),
        array("T", &rows, ArrayKind::Temporary),
        array("N", &columns, ArrayKind::Temporary),
    ];
    for times in 0..3 {
        let mut body = Body { arrays: arrays.clone(), ..Body::new(&mesh, polyshard::layout::DType::I64) };
        let moved = |from, to, shardings| {
            Transfer::between([from, to].map(ArrayId), shardings, polyshard::layout::DType::I64, Vec::new())
        };
        body.transfer(moved(2, 3, [&columns, &rows]));
        body.transfer(moved(3, 4, [&rows, &columns]));
        let round = std::mem::take(&mut body.statements);
        body.transfer(moved(0, 1, [&rows, &columns]));
        let carried = vec![Carried { first: ArrayId(1), value: ArrayId(2), next: ArrayId(4) }];
        body.repeat(Rounds { times, until: None, carried }, round);
        let program = Program::new(body).expect("rounds");
        assert_eq!(run(&program, element), [whole(&[4, 6], |at| element(0, at))], "{times} rounds, {program}");
    }
}

#[test]
fn what_are_no_rounds_is_refused() {
    let mesh = Mesh::new([("x", 2), ("y", 1)]);
    let [first, _] = two_products(&mesh);
    let square = product(&mesh, [4, 4, 4], [vec![], vec![], vec![]]);
    let refused = |sequence: Sequence| sequence.build().expect_err("it should be refused").to_string();
    let round = || Sequence::new().stage(&square, ["A", "B"], "C");
    let repeated = |round: Sequence| refused(Sequence::new().repeat(3, round));
    let wide = Sequence::new().stage(&first, ["P", "Q"], "A").repeat(2, round().carry("C", "A"));
    let refusals = [
        refused(round().carry("C", "A")),
        repeated(round().carry("C", "A").keep("C")),
        repeated(Sequence::new()),
        repeated(round()),
        repeated(round().carry("Q", "A")),
        repeated(round().carry("B", "A")),
        repeated(round().carry("C", "A").carry("C", "B")),
        repeated(round().carry("C", "A").until("C", 1.0)),
        repeated(round().carry("C", "A").until("s", 1.0)),
        refused(wide),
        refused(Sequence::new().repeat(u64::MAX, round().carry("C", "A"))),
        refused(Sequence::new().repeat(2, round().carry("C", "A")).keep("C")),
    ];
    expect![[r#"
        `carry` is for rounds; pass the sequence that has it to `repeat` of another
        `keep` is for the whole, not for its rounds; call it on the sequence that repeats the rounds
        the sequence has no stage; add one with `stage`
        rounds carry nothing, so each repeats the first; `carry` a value that a round writes: C
        `Q` is carried to the next round, but no stage of the round writes it; its stages write C
        `B` is carried to the next round, but no stage of the round writes it; its stages write C
        `C` is carried twice; give each value one name for the next round
        `C` has shape [4, 4], and its bound is 1; rounds end when a scalar, of no dimensions, is below a number
        `s` is the value that ends the rounds, but no stage of the round writes it; its stages write C
        `C` has shape [4, 4], but becomes `A`, which has [6, 7]; make them match
        18446744073709551615 rounds are too many; give at most 1099511627776
        no stage writes the output `C`; the stages write A
    "#]]
    .assert_eq(&(refusals.join("\n") + "\n"));
    let taken = repeated(round().stage(&square, ["A", "B"], "A").carry("C", "A"));
    assert!(taken.starts_with("stage 2, `product` writes `A`, which is carried from round to round"), "{taken}");
}

#[test]
fn rounds_do_not_end_by_sums_in_any_order() {
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    vars!(i, io, ii);
    let half = kernel! { fn half(A: [f64; 8]) -> B: [f64; 8] { B[i] = 0.5 * A[i] } };
    let half = half.distribute([i], [io], [ii], &mesh).shard("A", [i.at(x)]).shard("B", [i.at(x)]).lower();
    let half = half.expect("a legal schedule");
    let square = kernel! { fn square(B: [f64; 8]) -> s: f64 { s[] += B[i] * B[i] } };
    let square = square.distribute([i], [io], [ii], &mesh).shard("B", [i.at(x)]);
    let largest = kernel! { fn largest(B: [f64; 8]) -> s: f64 { s[] max= B[i] } };
    let largest = largest.distribute([i], [io], [ii], &mesh).shard("B", [i.at(x)]);
    let rounds = |last: Schedule| {
        let last = last.lower().expect("a legal schedule");
        let round = Sequence::new().stage(&half, ["A"], "B").stage(&last, ["B"], "s").carry("B", "A").until("s", 0.01);
        Sequence::new().repeat(100, round).build()
    };
    assert!(rounds(square.clone()).is_ok());
    // The maximum is the same in any order.
    assert!(rounds(largest.reassociate("s")).is_ok());
    expect![["rounds end by `s`, but the terms of `s` are added in any order, so ranks might end after different rounds; leave `reassociate(s)` out of the schedule"]].assert_eq(&rounds(square.reassociate("s")).expect_err("it is refused").to_string());
}
