//! Kernels that write the next version of a value, and values that rounds begin as another one.

use super::element;
use super::rounds::run;
use expect_test::expect;
use ndarray::ArrayD;
use polyshard::machine::{Device, Interconnect, Level};
use polyshard::prelude::*;
use polyshard::program::ArrayKind;
use polyshard::runtime::spmd_emulated;
use polyshard::source::rust_main;
use polyshard_testing::filled::{self, whole};
use polyshard_testing::written::read_back;

/// Kernels on vectors of `n` elements: a step inside, a sum of products, and both ends.
struct Kernels {
    inside: Program,
    product: Program,
    greatest: Program,
    scaled: Program,
    end: Program,
}

fn kernels(ranks: usize, n: usize, layout: usize) -> Kernels {
    let mesh = Mesh::new([("x", ranks)]);
    let [x] = mesh.axes();
    vars!(i, k, io, ii, ko, ki);
    let inside = kernel! { fn inside(X: [i64; n]) -> Y: [i64; n] { Y[i] = X[i - 1] + X[i + 1] for i in 1..n - 1 } };
    let product = kernel! { fn product(A: [i64; n, n], X: [i64; n]) -> Y: [i64; n] { Y[i] += A[i, k] * X[k] } };
    let greatest = kernel! { fn greatest(A: [i64; n, n]) -> Y: [i64; n] { Y[i] max= A[k, i] } };
    let scaled = kernel! { fn scaled(X: [i64; n]) -> Y: [i64; n] { Y[i] *= X[i] for i in 0..n - 2 } };
    let end = kernel! { fn end(X: [i64; n]) -> Y: [i64; n] { Y[i] = 7 * X[i] for i in n - 1..n } };
    // Blocks, cyclic with sums over ranks, or everywhere.
    let home = |schedule: Schedule, names: &[&'static str]| {
        names.iter().fold(schedule, |schedule, name| match layout {
            0 => schedule.shard(*name, [dim(0).at(x)]),
            1 => schedule.shard(*name, [dim(0).cyclic(x, 1)]),
            _ => schedule,
        })
    };
    let rows = |schedule: Schedule| schedule.distribute([i], [io], [ii], &mesh);
    let columns = |schedule: Schedule| schedule.distribute([k], [ko], [ki], &mesh);
    let sums = if layout == 0 { rows(product) } else { columns(product) };
    Kernels {
        inside: home(rows(inside), &["X", "Y"]).lower().expect("a legal schedule"),
        product: home(sums, &["A", "Y"]).lower().expect("a legal schedule"),
        greatest: home(columns(greatest), &["A", "Y"]).lower().expect("a legal schedule"),
        scaled: home(rows(scaled), &["X"]).lower().expect("a legal schedule"),
        end: home(rows(end), &["Y"]).lower().expect("a legal schedule"),
    }
}

/// A block of statements: X inside, its last element, plus a product, times X, and the largest of that and A.
fn block(ranks: usize, n: usize, layouts: [usize; 5]) -> Sequence {
    let [inside, product, greatest, scaled, end] = layouts.map(|layout| kernels(ranks, n, layout));
    Sequence::new()
        .version(&inside.inside, ["X"], "X1", "X")
        .version(&end.end, ["X"], "X2", "X1")
        .accumulate(&product.product, ["A", "X2"], "X3", "X2")
        .accumulate(&scaled.scaled, ["X"], "X4", "X3")
        .accumulate(&greatest.greatest, ["A"], "X5", "X4")
}

fn computed(n: usize, a: &ArrayD<i64>, x: &[i64]) -> Vec<i64> {
    let mut next = x.to_vec();
    (1..n - 1).for_each(|i| next[i] = x[i - 1] + x[i + 1]);
    next[n - 1] = 7 * x[n - 1];
    let before = next.clone();
    (0..n).for_each(|i| next[i] += (0..n).map(|k| a[[i, k]] * before[k]).sum::<i64>());
    (0..n - 2).for_each(|i| next[i] *= x[i]);
    (0..n).for_each(|i| next[i] = (0..n).map(|k| a[[k, i]]).fold(next[i], i64::max));
    next
}

#[test]
fn statements_of_a_block_write_versions_on_every_mesh_and_in_every_layout() {
    for (ranks, n) in [(1, 4), (2, 5), (3, 7), (4, 6), (5, 3), (6, 4)] {
        for layouts in [[0; 5], [1; 5], [2; 5], [0, 1, 2, 0, 1], [2, 0, 1, 1, 0], [1, 2, 0, 2, 0]] {
            let program = block(ranks, n, layouts).call("X5", "X").build().expect("stages that fit");
            let names =
                |kind| program.of_kind(kind).iter().map(|&id| program.array(id).name.as_str()).collect::<Vec<_>>();
            assert_eq!((names(ArrayKind::Input), names(ArrayKind::Output)), (vec!["X", "A"], vec!["X"]));
            assert_eq!(
                program.hints().iter().filter(|hint| hint.is_of_statement()).count(),
                0,
                "{}",
                program.explain()
            );
            let (x, a) = (whole(&[n], |at| element(0, at)), whole(&[n, n], |at| element(1, at)));
            let expected = computed(n, &a, &x.iter().copied().collect::<Vec<_>>());
            let found = run(&program, element);
            assert_eq!(found[0].iter().copied().collect::<Vec<_>>(), expected, "{}", program.explain());
            checked(&program);
            // In rounds, of which each begins as the one before ends; X keeps its name and its elements.
            for times in 0..3 {
                let round =
                    [block(ranks, n, layouts).carry("X5", "X"), block(ranks, n, layouts).carry_from("X", "X5", "X")];
                for round in round {
                    let program = Sequence::new().repeat(times, round).build().expect("rounds");
                    let mut expected = x.iter().copied().collect::<Vec<_>>();
                    (0..times).for_each(|_| expected = computed(n, &a, &expected));
                    let found = run(&program, element);
                    assert_eq!(found[0].iter().copied().collect::<Vec<_>>(), expected, "{}", program.explain());
                    checked(&program);
                }
            }
        }
    }
}

/// Compares the results of a program with its sequential meaning, on threads and on an emulated machine.
fn checked(program: &Program) {
    let ranks = program.mesh().size();
    let run = |world: &World| {
        let inputs = filled::inputs(world, program, element)?;
        let inputs: Vec<_> = inputs.iter().collect();
        let found: Vec<_> = program.prepare(world)?.run_all(&inputs)?.into_iter().map(|(_, array)| array).collect();
        program.verify(world, &inputs, &found.iter().collect::<Vec<_>>(), 0.0)?;
        Ok(found.into_iter().map(|array| array.block().to_vec()).collect::<Vec<_>>())
    };
    let device = Device { memory_bandwidth: 1e12, memory_capacity: 1 << 30, ..Device::default() };
    let machine = Machine::new("a switch", vec![Level::new("node", ranks, Interconnect::Switch, 1e12, 1e-9)], device);
    let on_threads = polyshard::spmd(ranks, run).unwrap_or_else(|error| panic!("{error}\n{program}"));
    let emulated = spmd_emulated(&machine.expect("a machine"), 1e-9, run);
    assert_eq!(emulated.unwrap_or_else(|error| panic!("{error}\n{program}")), on_threads, "{program}");
}

#[test]
fn a_round_may_add_to_what_the_round_before_has_left_or_to_what_was_before_the_rounds() {
    let (n, ranks) = (5, 3);
    for layout in 0..3 {
        let Kernels { product, inside, .. } = kernels(ranks, n, layout);
        // S gathers A X of each round; T begins each time as B.
        let round = Sequence::new()
            .version(&inside, ["V"], "V1", "V")
            .accumulate(&product, ["A", "V1"], "S1", "S")
            .accumulate(&product, ["A", "V1"], "T", "B")
            .carry_from("X", "V1", "V")
            .carry_from("X", "S1", "S")
            .carry_from("B", "T", "last");
        let program = Sequence::new().repeat(3, round).keep("S").keep("last").keep("V").call("S", "sums").build();
        let program = read_back(&program.expect("rounds"));
        let names: Vec<_> = program.inputs().map(|array| array.name.as_str()).collect();
        let given = |name: &str| names.iter().position(|other| *other == name).expect("an input");
        let vector = |name: &str| (0..n).map(|i| element(given(name), &[i])).collect::<Vec<_>>();
        let a = |i, k| element(given("A"), &[i, k]);
        let (mut v, mut s, b) = (vector("X"), vector("X"), vector("B"));
        let mut last = b.clone();
        for _ in 0..3 {
            let before = v.clone();
            (1..n - 1).for_each(|i| v[i] = before[i - 1] + before[i + 1]);
            let terms: Vec<i64> = (0..n).map(|i| (0..n).map(|k| a(i, k) * v[k]).sum()).collect();
            (0..n).for_each(|i| (s[i], last[i]) = (s[i] + terms[i], b[i] + terms[i]));
        }
        let found = run(&program, element);
        for (output, found) in program.outputs().zip(found) {
            let expected = match output.name.as_str() {
                "sums" => &s,
                "last" => &last,
                "V" => &v,
                other => panic!("an output `{other}`\n{program}"),
            };
            assert_eq!(
                &found.iter().copied().collect::<Vec<_>>(),
                expected,
                "`{}`\n{}",
                output.name,
                program.explain()
            );
        }
        checked(&program);
    }
}

#[test]
fn versions_are_explained() {
    let program = block(2, 5, [0, 1, 0, 0, 0]).call("X5", "X").build().expect("stages that fit");
    expect![[r#"
        program over (x: 2), i64
            input         X[5]: [0 @ x]
            input         A[5, 5]: [0 @ cyclic(x, 1)]
         1  run           X1 = inside(X), Y[i] = X[i - 1] + X[i + 1] for i in 1..4
                          X1 keeps the elements of X that `inside` does not write
         2  move          X' = X: [0 @ x] to replicated, all_gather(x)
         3  run           X2 = end(X'), Y[i] = 7 * X[i] for i in 4..5
                          X2 keeps the elements of X1 that `end` does not write
         4  move          X2' = X2: [0 @ x] to replicated, all_gather(x)
         5  move          X2'' = X2: [0 @ x] to [0 @ cyclic(x, 1)], exchange
         6  run           X3 = product(A, X2'), Y[i] += A[i, k] * X[k]
                          X3 begins as X2'', and `product` adds to it
         7  move          X3' = X3: [0 @ cyclic(x, 1)] to replicated, exchange
         8  run           X4 = scaled(X), Y[i] *= X[i] for i in 0..3
                          X4 begins as X3', and `scaled` combines it with its terms, `*=`
         9  move          A' = A: [0 @ cyclic(x, 1)] to [0 @ x], exchange
        10  move          X4' = X4: replicated to [0 @ x], local
        11  run           X'' = greatest(A'), Y[i] max= A[k, i]
                          X'' begins as X4', and `greatest` combines it with its terms, `max=`
            output        X''[5]: [0 @ x]
    "#]]
    .assert_eq(&program.to_string());
    let text = program.explain();
    assert!(text.contains("    X3 begins as X2'', and `product` adds to it\n"), "{text}");
    // A program that is emitted with its kernels builds the same sequence.
    let rounds = Sequence::new().repeat(2, block(2, 5, [0; 5]).carry_from("X", "X5", "V")).call("V", "X");
    let mains = [&program, &rounds.build().expect("rounds")].map(|program| {
        let [_, (_, text)] = rust_main(program);
        let sequence = text.split_once("Sequence::new()").expect("a sequence").1;
        sequence.split_once(".build()").expect("its end").0.trim().to_owned()
    });
    expect![[r#"
        .version(&inside::schedule().lower()?, ["X"], "X1", "X")
                .version(&end::schedule().lower()?, ["X"], "X2", "X1")
                .accumulate(&product::schedule().lower()?, ["A", "X2"], "X3", "X2")
                .accumulate(&scaled::schedule().lower()?, ["X"], "X4", "X3")
                .accumulate(&greatest::schedule().lower()?, ["A"], "X_out", "X4")
                .call("X_out", "X")

        .repeat(2, Sequence::new()
                        .version(&inside::schedule().lower()?, ["X"], "X1", "X")
                        .version(&end::schedule().lower()?, ["X"], "X2", "X1")
                        .accumulate(&product::schedule().lower()?, ["A", "X2"], "X3", "X2")
                        .accumulate(&scaled::schedule().lower()?, ["X"], "X4", "X3")
                        .accumulate(&greatest::schedule().lower()?, ["A"], "X5", "X4")
                        .carry_from("X", "X5", "X_out"))
                .keep("X_out")
                .call("X_out", "X")
    "#]]
    .assert_eq(&(mains.join("\n\n") + "\n"));
}

#[test]
fn only_elements_that_no_version_has_written_are_hinted_at() {
    let Kernels { inside, product, scaled, end, .. } = kernels(2, 5, 0);
    let hints = |sequence: Sequence| {
        let program = sequence.build().expect("stages that fit");
        let hints = program.hints().iter().filter(|hint| hint.is_of_statement()).map(ToString::to_string);
        hints.collect::<Vec<_>>().join("\n")
    };
    let begun = || Sequence::new().stage(&inside, ["X"], "Y");
    // The first element is missing for the product, but not for the factors of the elements before the last two.
    let found = [
        hints(begun().version(&end, ["X"], "Y1", "Y").stage(&product, ["A", "Y1"], "Z")),
        hints(begun().accumulate(&product, ["A", "X"], "Z", "Y")),
        hints(Sequence::new().stage(&product, ["A", "X"], "Y").version(&end, ["X"], "Y1", "Y").accumulate(
            &scaled,
            ["Y1"],
            "Z",
            "Y1",
        )),
        hints(begun().version(&product, ["A", "Y"], "Y1", "Y").stage(&inside, ["Y1"], "Z")),
    ];
    expect![[r#"
        `product` reads [0..5] of `Y1`, of which `inside` writes [1..4]; the other elements hold 0: write all elements that are read, or read only those that are written
        --
        `product` reads [0..5] of `Y`, of which `inside` writes [1..4]; the other elements hold 0: write all elements that are read, or read only those that are written
        --

        --
        `product` reads [0..5] of `Y`, of which `inside` writes [1..4]; the other elements hold 0: write all elements that are read, or read only those that are written
    "#]].assert_eq(&(found.join("\n--\n") + "\n"));
}

#[test]
fn versions_that_do_not_fit_are_refused() {
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    vars!(k, ko, ki);
    let Kernels { inside, .. } = kernels(2, 5, 0);
    let other = kernels(2, 4, 0);
    let sums = kernel! { fn sums(A: [i64; 5, 5]) -> Y: [i64; 5] { Y[i] += A[i, k] } };
    let open = sums.distribute([k], [ko], [ki], &mesh).shard("A", [dim(1).at(x)]).shard("Y", [partial(x)]);
    let open = open.lower().expect("a legal schedule");
    let part = kernel! { fn part(A: [i64; 5, 5]) -> Y: [i64; 7] { Y[i] += A[i, k] for i in 0..5 } };
    let part = part.distribute([k], [ko], [ki], &mesh).shard("A", [dim(1).at(x)]).shard("Y", [partial(x)]);
    let part = part.lower().expect("a legal schedule");
    let refused =
        |sequence: Sequence| sequence.build().map_or_else(|error| error.to_string(), |program| program.to_string());
    let two = || Sequence::new().version(&inside, ["X"], "Y", "X").stage(&inside, ["Y"], "Z");
    let refusals = [
        refused(Sequence::new().accumulate(&inside, ["X"], "Y", "X")),
        refused(Sequence::new().accumulate(&open, ["A"], "Y", "X")),
        refused(Sequence::new().version(&part, ["A"], "Y", "X").input("X", &Sharding::replicated(&mesh, &[7]))),
        refused(Sequence::new().stage(&other.inside, ["V"], "W").version(&inside, ["X"], "Y", "W")),
        refused(Sequence::new().version(&inside, ["X"], "X", "X")),
        refused(two().call("X", "Y")),
        refused(two().call("Y", "X")),
        refused(two().keep("Y").call("Y", "Z")),
        refused(two().call("Z", "A").call("Z", "B")),
        refused(Sequence::new().repeat(2, two().carry("Z", "X").call("X", "Y"))),
        refused(Sequence::new().repeat(2, two().carry_from("Q", "Q", "X"))),
    ];
    expect![[r#"
        stage 1, `inside` cannot add to `X`: `Y[i] = X[i - 1] + X[i + 1] for i in 1..4` adds nothing; write `+=`, `*=`, `max=` or `min=`
        stage 1, `sums` cannot add to `X`: its sums are left open, [partial(x)], and each rank would add to the value; leave out `partial`
        cannot redistribute `X` from replicated to [partial(x)] for stage 1, `part`: dimension 0 of [partial(x)] cannot be written as a distributed type: it holds partial sums
        stage 2, `inside`: `Y` has shape [5], but `W` has [4], the output of stage 1, `inside`; make them match
        stage 1, `inside` writes `X`, which is an input that stage 1, `inside` reads first; the values before it are X; give it a name of its own
        `call` names `X`, which is not an output or has been named before; the outputs are Z
        `call` names `Y`, which is not an output or has been named before; the outputs are Z
        two outputs are called `Z`; give each a name of its own
        `call` names `Z`, which is not an output or has been named before; the outputs are Z
        `call` is for the whole, not for its rounds; call it on the sequence that repeats the rounds
        `Q` is carried to the next round, but no stage of the round writes it; its stages write Y, Z
    "#]].assert_eq(&(refusals.join("\n") + "\n"));
}
