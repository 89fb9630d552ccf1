//! Programs whose statements are in another order than the derived one, or in which statements of two kernels stand in one loop: any
//! order that the check accepts gives the same bits.

use super::rounds::run;
use super::{element, two_products};
use expect_test::expect;
use polyshard::prelude::*;
use polyshard::program::{ArrayId, ArrayKind, Body, KernelId, Statement, TransferId};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::cell::Cell;

/// A product in panels over `k`, on a grid, `depth` panels ahead.
fn panels(mesh: &Mesh, [rows, columns, inner]: [usize; 3], panels: usize, depth: usize) -> Program {
    let [x, y] = mesh.axes();
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let product = kernel! {
        fn product(A: [i64; rows, inner], B: [i64; inner, columns]) -> C: [i64; rows, columns] { C[m, n] += A[m, k] * B[k, n] }
    };
    let product = product.distribute([m, n], [mo, no], [mi, ni], mesh).divide(k, ko, ki, panels);
    let product = product.reorder([ko, mi, ni, ki]).shard("A", [m.at(x), k.at(y)]).shard("B", [k.at(x), n.at(y)]);
    let product = product.shard("C", [m.at(x), n.at(y)]).communicate("A", ko).communicate("B", ko);
    let product = if depth > 0 { product.pipeline("ko", depth) } else { product };
    product.lower().expect("a legal schedule")
}

/// A product whose output leaves in panels, each in flight while the next one is computed, or whose sums travel from rank to rank.
fn sums(mesh: &Mesh, depth: usize) -> Program {
    let [x] = mesh.axes();
    vars!(m, n, k, mo, mi, ko, ki);
    let product = kernel! {
        fn product(A: [i64; 7, 9], B: [i64; 9, 5]) -> C: [i64; 7, 5] { C[m, n] += A[m, k] * B[k, n] }
    };
    let product = product.distribute([k], [ko], [ki], mesh).divide(m, mo, mi, 3).reorder([mo, mi, n, ki]);
    let product = product.shard("A", [k.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]).communicate("C", mo);
    let product = if depth > 0 { product.pipeline("mo", depth) } else { product };
    product.lower().expect("a legal schedule")
}

/// A stencil whose interior is computed while its halo is in flight.
fn interior_first(mesh: &Mesh) -> Program {
    vars!(i, io, ii);
    let near = kernel! { fn near(U: [i64; 13]) -> V: [i64; 13] { V[i] = U[i - 1] else 0 + 2 * U[i + 1] else 5 } };
    let near = near.distribute([i], [io], [ii], mesh).shard("U", [dim(0).at("x")]).shard("V", [dim(0).at("x")]);
    near.interior_first("U").lower().expect("a legal schedule")
}

/// Programs with every kind of transfer: by groups, ahead, of sums, of halos, of a reused tile, in rounds, and between arrays.
fn programs() -> Vec<Program> {
    let (grid, line) = (Mesh::new([("x", 2), ("y", 2)]), Mesh::new([("x", 3)]));
    let [first, second] = two_products(&grid);
    let moved = Sequence::new().stage(&first, ["A", "B"], "C").stage(&second, ["C", "D"], "E");
    let (near, hidden) = (interior_first(&line), interior_first(&line));
    let round = Sequence::new().stage(&near, ["U"], "V").stage(&hidden, ["U"], "W").carry("V", "U");
    let twice = Sequence::new().stage(&near, ["U"], "V").stage(&near, ["U"], "W").keep("V");
    vec![
        panels(&grid, [5, 7, 9], 4, 0),
        panels(&grid, [5, 7, 9], 4, 1),
        panels(&grid, [5, 7, 9], 5, 2),
        sums(&line, 0),
        sums(&line, 1),
        interior_first(&line),
        moved.build().expect("stages that fit"),
        twice.build().expect("stages that fit"),
        Sequence::new().repeat(2, round).build().expect("rounds that fit"),
    ]
}

/// Takes the statement at a position of those at some depth, and puts it elsewhere among them; a number chooses each.
fn moved(statements: &mut Vec<Statement>, choices: &mut impl Iterator<Item = usize>) {
    let mut next = |below: usize| choices.next().unwrap_or(0) % below.max(1);
    let at = next(statements.len());
    if let Some(Statement::Loop(_, body) | Statement::Rounds(_, body)) = statements.get_mut(at)
        && next(4) > 0
    {
        return moved(body, choices);
    }
    let to = next(statements.len());
    let taken = statements.remove(at);
    statements.insert(to, taken);
}

#[test]
fn any_order_that_is_accepted_gives_the_same_bits() {
    let programs: Vec<_> = programs().into_iter().map(|program| (run(&program, element), program)).collect();
    let config = Config { cases: 600, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let [accepted, refused] = [Cell::new(0), Cell::new(0)];
    let problem = (0..programs.len(), prop::collection::vec(any::<usize>(), 24));
    let law = |(number, choices): (usize, Vec<usize>)| {
        let (expected, program) = &programs[number];
        let mut body = program.body().clone();
        body.statements.retain(|statement| !matches!(statement, Statement::Free(_)));
        let mut choices = choices.into_iter();
        for _ in 0..1 + choices.next().unwrap_or(0) % 3 {
            moved(&mut body.statements, &mut choices);
        }
        match Program::new(body) {
            Ok(other) if other == *program => {}
            Ok(other) => {
                accepted.set(accepted.get() + 1);
                prop_assert_eq!(&run(&other, element), expected, "{}", other);
            }
            Err(_) => refused.set(refused.get() + 1),
        }
        Ok(())
    };
    runner.run(&problem, law).unwrap_or_else(|error| panic!("{error}"));
    println!("{accepted:?} other orders accepted, {refused:?} refused");
    assert!(accepted.get() > 60 && refused.get() > 300, "{accepted:?} {refused:?}");
}

/// `C = A B` and `D = E B` in one loop over panels, in which the panel of `B` is fetched once, and both leaves read it.
pub(crate) fn two_in_one_loop(mesh: &Mesh, depth: usize) -> Body {
    let one = panels(mesh, [5, 7, 9], 4, depth);
    let mut body = Body::new(mesh, one.dtype());
    let named = |name: &str, of: usize, kind| {
        let array = one.array(ArrayId(of)).clone();
        polyshard::program::Array { name: name.into(), kind, ..array }
    };
    body.arrays = vec![
        named("A", 0, ArrayKind::Input),
        named("B", 1, ArrayKind::Input),
        named("C", 2, ArrayKind::Output),
        named("E", 0, ArrayKind::Input),
        named("D", 2, ArrayKind::Output),
    ];
    body.run(one.body(), &[0, 1, 2].map(ArrayId));
    body.run(one.body(), &[3, 1, 4].map(ArrayId));
    let split = |statements: &[Statement]| {
        let at = statements.iter().position(|statement| matches!(statement, Statement::Loop(..))).expect("a loop");
        let Statement::Loop(id, inside) = &statements[at] else { unreachable!("a loop") };
        (statements[..at].to_vec(), *id, inside.clone(), statements[at + 1..].to_vec())
    };
    let mut is_first = true;
    let (firsts, seconds): (Vec<_>, Vec<_>) = body.statements.drain(..).partition(|statement| {
        let was_first = is_first;
        is_first &= !matches!(statement, Statement::Loop(..));
        was_first
    });
    let ((before, shared, inside, after), second) = (split(&firsts), split(&seconds));
    // The second kernel reads the tile of the first.
    let (own, reused) = (body.kernels[1].uses[1].transfer, body.kernels[0].uses[1].transfer);
    body.kernels[1].uses[1].transfer = reused;
    body.kernels[1].loops = vec![shared];
    body.loops.pop();
    let without = |statements: Vec<Statement>| {
        let is_own = |statement: &Statement| match *statement {
            Statement::Begin(id, _) | Statement::End(id, _) | Statement::Fill(id) => id == own,
            _ => false,
        };
        statements.into_iter().filter(|statement| !is_own(statement)).collect::<Vec<_>>()
    };
    let together = [inside, without(second.2)].concat();
    body.statements = [before, without(second.0), vec![Statement::Loop(shared, together)], after, second.3].concat();
    body.forget_unused();
    for kernel in [0, 1].map(KernelId) {
        let proofs = body.kernels[kernel.0].report.proofs.clone();
        body.complete(kernel, proofs);
    }
    body
}

#[test]
fn statements_of_two_kernels_stand_in_one_loop() {
    for (ranks, depth) in [([2, 2], 0), ([2, 2], 1), ([3, 2], 0), ([1, 3], 2), ([1, 1], 0)] {
        let mesh = Mesh::new(["x", "y"].into_iter().zip(ranks));
        let one = panels(&mesh, [5, 7, 9], 4, depth);
        let apart = Sequence::new().stage(&one, ["A", "B"], "C").stage(&one, ["E", "B"], "D").keep("C");
        let apart = apart.build().expect("stages that fit");
        let together = Program::new(two_in_one_loop(&mesh, depth)).expect("it is legal");
        // Inputs in the order A, B, E; outputs in the order C, D.
        assert_eq!(run(&together, element), run(&apart, element), "{together}");
        // The second kernel fetches its other input alone.
        let second = together.nests().nth(1).expect("two kernels").report.traffic_bytes;
        assert_eq!(second, one.volume(TransferId(0)).received, "{}", together.explain());
    }
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let together = Program::new(two_in_one_loop(&mesh, 0)).expect("it is legal");
    expect![[r#"
        program over (x: 2, y: 2), i64
            input         A[5, 9]: [0 @ x, 1 @ y]
            input         B[9, 7]: [0 @ x, 1 @ y]
            input         E[5, 9]: [0 @ x, 1 @ y]
         1  run           C = product(A, B), C[m, n] += A[m, k] * B[k, n]
            together with D = product(E, B), C[m, n] += A[m, k] * B[k, n]
            output        C[5, 7]: [0 @ x, 1 @ y]
            output        D[5, 7]: [0 @ x, 1 @ y]
    "#]]
    .assert_eq(&together.to_string());
    // The second leaf may not run before the panel that it shares has arrived.
    let mut early = two_in_one_loop(&mesh, 0);
    for statement in &mut early.statements {
        if let Statement::Loop(_, inside) = statement {
            let compute = inside.pop().expect("the second leaf");
            inside.insert(0, compute);
        }
    }
    expect!["statement 1: `product` runs its leaf before its transfer, number 0, has ended"]
        .assert_eq(&Program::new(early).expect_err("it is illegal").to_string());
    // Between the two runs nothing may be left in flight.
    let mut lost = two_in_one_loop(&mesh, 1);
    lost.statements.remove(0);
    expect!["statement 1: `product` ends its transfer, number 0, which is not the first in flight there"]
        .assert_eq(&Program::new(lost).expect_err("it is illegal").to_string());
    // A kernel cannot read what another one writes in the same loop.
    let mut cyclic = two_in_one_loop(&mesh, 0);
    cyclic.kernels[1].arrays[0] = ArrayId(2);
    expect!["statement 1: `product` takes `A` with shape [5, 9] on the mesh (x: 2, y: 2), but its array has shape [5, 7] on (x: 2, y: 2)"]
        .assert_eq(&Program::new(cyclic).expect_err("it is illegal").to_string());
}

#[test]
fn files_of_an_older_form_are_refused_by_name() {
    let program = sums(&Mesh::new([("x", 2)]), 0);
    let file = serde_json::to_value(&program).expect("it is written");
    assert_eq!(file["version"], 1);
    let refused = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut file = file.clone();
        change(&mut file);
        serde_json::from_value::<Program>(file).expect_err("it is refused").to_string()
    };
    let without = refused(&|file| drop(file.as_object_mut().expect("a map").remove("version")));
    expect!["the program is stored without a version, as by an earlier release, but this release reads version 1 alone; lower its schedules again"].assert_eq(&without);
    assert_eq!(refused(&|file| file["body"] = serde_json::json!({ "nests": [] })), without);
    expect!["the program is stored in version 2, but this release reads version 1 alone; lower its schedules again"]
        .assert_eq(&refused(&|file| file["version"] = 2.into()));
}
