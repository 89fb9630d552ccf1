//! Statements that begin, await, read or overwrite in another order than was proved.

use super::*;
use polyshard_program::{Iteration, KernelSpec};

/// A product whose panels are fetched `depth` iterations ahead.
fn ahead(depth: usize) -> Program {
    let (mesh, x) = mesh();
    let panels = Schedule::from_spec(example::matmul(8, 8, 8))
        .distribute(["m"], ["mo"], ["mi"], &mesh)
        .divide("k", "ko", "ki", 4)
        .reorder(["mo", "ko", "mi", "n", "ki"])
        .shard("A", [Var::new("k").at(x)])
        .shard("B", [Var::new("k").at(x)])
        .communicate("A", "ko")
        .communicate("B", "ko");
    panels.pipeline("ko", depth).lower().expect("a program")
}

/// A stencil that does not write the ends of its output.
pub(super) fn near() -> KernelSpec {
    let near = |by| Value::Access(Access::new(Name::new("u"), vec![Affine::new([(Name::new("i"), 1)], by)]));
    KernelSpec {
        name: Name::new("near"),
        dtype: DType::F64,
        inputs: vec![(Name::new("u"), vec![12])],
        output: (Name::new("v"), vec![12]),
        ranges: vec![(Name::new("i"), 1..11)],
        scalars: vec![],
        moduli: Vec::new(),
        target: Access::plain("v", &["i"]),
        assign: Assign::Set,
        value: Value::Add(Box::new(near(-1)), Box::new(near(1))),
    }
}

/// The stencil, whose interior is computed while the halo is in flight.
fn interior_first() -> Program {
    let (mesh, x) = mesh();
    let halo = Schedule::from_spec(near())
        .distribute(["i"], ["io"], ["ii"], &mesh)
        .shard("u", [polyshard_dsl::dim(0).at(x)])
        .shard("v", [polyshard_dsl::dim(0).at(x)]);
    halo.interior_first("u").lower().expect("a program")
}

/// Two moves, one after the other.
fn moved() -> Program {
    let mut arrays = arrays();
    arrays.push(array("T", by_columns(), ArrayKind::Temporary));
    let mut body = moves([(0, 2)]);
    body.transfer(Move::direct([2, 1].map(ArrayId), [&by_columns(), &by_columns()], DType::F64, Vec::new()));
    Program::new(&mesh().0, DType::F64, arrays, body).expect("a program")
}

/// The program with other statements, by way of a file.
fn with(program: &Program, statements: &[Statement]) -> Result<Program, String> {
    let mut file = serde_json::to_value(program).expect("it is written");
    file["body"]["statements"] = serde_json::to_value(statements).expect("it is written");
    serde_json::from_value(file).map_err(|error| error.to_string())
}

/// All ways to leave out one statement, to repeat it, or to swap it with the next one.
fn changed(statements: &[Statement]) -> Vec<Vec<Statement>> {
    let mut all = Vec::new();
    for at in 0..statements.len() {
        let mut edit = |change: &dyn Fn(&mut Vec<Statement>)| {
            let mut statements = statements.to_vec();
            change(&mut statements);
            all.push(statements);
        };
        edit(&|statements| drop(statements.remove(at)));
        edit(&|statements| statements.insert(at, statements[at].clone()));
        if at + 1 < statements.len() {
            edit(&|statements| statements.swap(at, at + 1));
        }
        let Statement::Loop { nest, counter, body } = &statements[at] else { continue };
        for body in changed(body) {
            edit(&|statements| statements[at] = Statement::Loop { nest: *nest, counter: *counter, body: body.clone() });
        }
    }
    all
}

/// Statements without those that await a transfer that begins in the same place: these may be anywhere between that and its
/// reader.
fn without_awaits(statements: &[Statement]) -> Vec<Statement> {
    let others = statements.iter().filter(|statement| !matches!(statement, Statement::Await(_) | Statement::Free(_)));
    let inner = |statement: &Statement| match statement {
        Statement::Loop { nest, counter, body } => {
            Statement::Loop { nest: *nest, counter: *counter, body: without_awaits(body) }
        }
        other => other.clone(),
    };
    others.map(inner).collect()
}

/// Every begin is awaited once, on all ranks, in the order that was proved.
#[test]
fn statements_in_another_order_are_refused() {
    for program in [ahead(1), ahead(3), interior_first(), moved()] {
        let statements = &program.body().statements;
        assert_eq!(with(&program, statements).as_ref(), Ok(&program));
        let (mut refused, mut later) = (0, 0);
        for other in changed(statements) {
            match with(&program, &other) {
                Err(_) => refused += 1,
                // Statements that free arrays follow from the rest.
                Ok(read) if read == program => {}
                Ok(read) => {
                    later += 1;
                    assert_eq!(
                        without_awaits(&other),
                        without_awaits(statements),
                        "accepted as\n{read}\nof\n{program}"
                    );
                }
            }
        }
        assert!(refused >= 3 * later && refused > 8, "{refused} refused, {later} accepted\n{program}");
    }
}

/// The iteration for which a transfer begins is the one that was proved: another one would be overwritten while it is read.
#[test]
fn what_begins_further_ahead_than_there_are_buffers_is_refused() {
    let program = ahead(2);
    let refused = |change: &dyn Fn(&mut Iteration)| {
        fn visit(statements: &mut [Statement], change: &dyn Fn(&mut Iteration)) {
            for statement in statements {
                match statement {
                    Statement::Loop { body, .. } => visit(body, change),
                    Statement::BeginFor { iteration, .. } => change(iteration),
                    _ => {}
                }
            }
        }
        let mut statements = program.body().statements.clone();
        visit(&mut statements, change);
        with(&program, &statements).expect_err("it is no program")
    };
    let changes: [&dyn Fn(&mut Iteration); 3] = [
        &|iteration| match iteration {
            Iteration::Later(by) => *by += 1,
            Iteration::At(_) | Iteration::Earlier(_) => {}
        },
        &|iteration| match iteration {
            Iteration::At(at) => *at = 0,
            Iteration::Later(_) | Iteration::Earlier(_) => {}
        },
        &|iteration| *iteration = Iteration::Earlier(1),
    ];
    for change in changes {
        let said = refused(change);
        assert_eq!(said, "statement 1: `matmul` has statements that do not follow from its transfers");
    }
    let mut file = serde_json::to_value(&program).expect("it is written");
    file["body"]["nests"][0]["transfers"][0]["tile"]["buffers"] = serde_json::json!({ "Ahead": 1 });
    let said = serde_json::from_value::<Program>(file).expect_err("it is no program").to_string();
    assert_eq!(said, "statement 1: `matmul` has tiles or bounds that do not follow from its transfers");
}
