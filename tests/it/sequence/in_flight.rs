//! Moves between arrays that are in flight while kernels compute.

use super::{inputs, product, two_products};
use expect_test::expect;
use polyshard::prelude::*;
use polyshard::program::Statement;
use polyshard::runtime::Transport;
use polyshard::source::{SourceOptions, rust_source};

/// Y = A·B, and then Z = X'·Y with X by columns, of which X has rows.
fn chain(ranks: usize, kept: bool) -> Program {
    let mesh = Mesh::new([("x", ranks), ("y", 1)]);
    let [x, _] = mesh.axes();
    vars!(m, k);
    let first = product(&mesh, [7, 5, 9], [vec![m.at(x)], vec![], vec![m.at(x)]]);
    let second = product(&mesh, [6, 7, 9], [vec![k.at(x)], vec![k.at(x)], vec![m.at(x)]]);
    let rows = Sharding::new(&mesh, &[6, 7], &[Placement::block(0, x)]).expect("a sharding");
    let chain = Sequence::new().stage(&first, ["A", "B"], "Y").stage(&second, ["X", "Y"], "Z").input("X", &rows);
    let chain = if kept { chain.keep("Y") } else { chain };
    chain.build().expect("stages that fit")
}

/// The same with its move begun first of all, and awaited where it was.
fn begun_first(program: &Program) -> Program {
    let mut body = program.body().clone();
    body.statements.retain(|statement| !matches!(statement, Statement::Free(_)));
    let is_begin =
        |statement: &Statement| matches!(statement, Statement::Begin(id, _) if program.body().moved(*id).is_some());
    let begin = body.statements.iter().position(is_begin).expect("a move");
    let begin = body.statements.remove(begin);
    body.statements.insert(0, begin);
    Program::new(body).expect("it is awaited once")
}

/// The same program with each move begun as soon as its source is written, and ended at its previous place.
pub(crate) fn begun_early(program: &Program) -> Program {
    let mut body = program.body().clone();
    let mut spans: Vec<&[Statement]> = Vec::new();
    for span in program.body().spans(&program.body().statements) {
        match span.statements {
            [Statement::Begin(id, _)] if span.kernel.is_none() => {
                let source = body.moved(*id).expect("a move").source;
                let writes = |statements: &&[Statement]| match statements {
                    [Statement::End(id, _)] => body.moved(*id).is_some_and(|moved| moved.target == source),
                    [Statement::Begin(..)] => false,
                    _ => body.spans(statements).any(|span| body.writes(span).contains(&source)),
                };
                let there = spans.iter().rposition(writes).map_or(0, |last| last + 1);
                spans.insert(there, span.statements);
            }
            // They are freed again after their new last use.
            [Statement::Free(_)] => {}
            [Statement::Rounds(..)] => unreachable!("these sequences repeat nothing"),
            together => spans.push(together),
        }
    }
    body.statements = spans.concat();
    Program::new(body).unwrap_or_else(|why| panic!("{why}\n{program}"))
}

#[test]
fn moves_begin_before_the_kernels_that_do_not_need_them() {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let [first, second] = two_products(&mesh);
    let sequence = Sequence::new().stage(&first, ["A", "B"], "C").stage(&second, ["C", "D"], "E");
    let columns = Sharding::new(&mesh, &[7, 4], &[Placement::block(1, "x")]).expect("a sharding");
    let program = begun_early(&sequence.input("D", &columns).build().expect("stages that fit"));
    expect![[r#"
        program over (x: 2, y: 2), i64
            input         A[6, 5]: [0 @ x]
            input         B[5, 7]: [0 @ y]
            input         D[7, 4]: [1 @ x]
         1  begin move    D' = D: [1 @ x] to [0 @ y], all_to_all(x)
         2  run           C = product(A, B), C[m, n] += A[m, k] * B[k, n]
         3  move          C' = C: [0 @ x, 1 @ y] to [0 @ [x, y]], exchange
            await         D'
         4  run           E = product(C', D'), C[m, n] += A[m, k] * B[k, n]
            output        E[6, 4]: [0 @ x, 1 @ y]
    "#]]
    .assert_eq(&program.to_string());
    let source = rust_source(&program, &SourceOptions::default());
    let at = |text: &str| source.find(text).unwrap_or_else(|| panic!("no `{text}` in\n{source}"));
    let order = ["self.engine.begin_move(", "self.product_1(a,", "self.engine.end_move(", "self.product_2("].map(at);
    assert!(order.is_sorted(), "{source}");
    let read: Program = serde_json::from_str(&serde_json::to_string(&program).expect("written")).expect("read");
    assert_eq!(read, program);
}

#[test]
fn a_move_in_flight_while_a_kernel_computes_leaves_the_same_bits() {
    for (ranks, kept) in [(2, false), (3, true), (4, false)] {
        let program = chain(ranks, kept);
        let apart = begun_first(&program);
        let first = apart.body().spans(&apart.body().statements).next();
        assert!(first.and_then(|first| first.moved()).is_some(), "{apart}");
        assert!(apart.explain().contains("begin move") && apart.explain().contains("await"), "{apart}");
        for transport in [Transport::Auto, Transport::Messages, Transport::Shared] {
            let run = |program: &Program| {
                let ran = polyshard::spmd(ranks, |world| {
                    let inputs = inputs(world, program)?;
                    let inputs: Vec<_> = inputs.iter().collect();
                    let mut prepared = program.prepare(world)?.with_transport(transport);
                    let before = world.bytes_received();
                    let once = prepared.run_all(&inputs)?;
                    let received = world.bytes_received() - before;
                    let again = prepared.run_all(&inputs)?;
                    let blocks = [once, again].map(|outputs| {
                        outputs.into_iter().map(|(name, array)| (name, array.block().to_vec())).collect::<Vec<_>>()
                    });
                    assert_eq!(blocks[0], blocks[1], "a second run");
                    Ok((blocks, received))
                });
                ran.expect("the program runs")
            };
            assert_eq!(run(&apart), run(&program), "{transport:?} on {ranks} ranks\n{apart}");
        }
        let wrong = polyshard::spmd(ranks, |world| {
            let inputs = inputs(world, &apart)?;
            let inputs: Vec<_> = inputs.iter().collect();
            let outputs = apart.run_all(world, &inputs)?;
            let outputs: Vec<_> = outputs.iter().map(|(_, array)| array).collect();
            Ok(apart.verify(world, &inputs, &outputs, 0.0)?)
        });
        assert!(wrong.expect("it agrees with the reference").iter().all(|error| *error == 0.0));
    }
}
