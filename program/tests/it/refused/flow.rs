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
fn moved_twice() -> Program {
    let mut arrays = arrays();
    arrays.push(array("T", by_columns(), ArrayKind::Temporary));
    let mut body = moves([(0, 2)]);
    body.transfer(Transfer::between([2, 1].map(ArrayId), [&by_columns(), &by_columns()], DType::F64, Vec::new()));
    program(DType::F64, arrays, body).expect("a program")
}

/// The program with other statements, by way of a file.
fn with(program: &Program, statements: &[Statement]) -> Result<Program, String> {
    let mut file = serde_json::to_value(program).expect("it is written");
    file["statements"] = serde_json::to_value(statements).expect("it is written");
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
        let Statement::Loop(id, body) = &statements[at] else { continue };
        for body in changed(body) {
            edit(&|statements| statements[at] = Statement::Loop(*id, body.clone()));
        }
    }
    all
}

/// The statements of each loop, in an order of their own: a legal order has the same ones.
fn sorted(statements: &[Statement]) -> Vec<String> {
    let others = statements.iter().filter(|statement| !matches!(statement, Statement::Free(_)));
    let shown = others.map(|statement| match statement {
        Statement::Loop(id, body) => format!("{id:?} {:?}", sorted(body)),
        other => format!("{other:?}"),
    });
    let mut shown: Vec<_> = shown.collect();
    shown.sort();
    shown
}

/// Every begin has one end, and nothing is read before it; `tests/it/orders.rs` runs programs in other orders.
#[test]
fn statements_in_an_illegal_order_are_refused() {
    for program in [ahead(1), ahead(3), interior_first(), moved_twice()] {
        let statements = &program.body().statements;
        assert_eq!(with(&program, statements).as_ref(), Ok(&program));
        let (mut refused, mut others) = (0, 0);
        for other in changed(statements) {
            match with(&program, &other) {
                Err(_) => refused += 1,
                // Statements that free arrays follow from the rest.
                Ok(read) if read == program => {}
                Ok(read) => {
                    others += 1;
                    assert_eq!(sorted(&other), sorted(statements), "accepted as\n{read}\nof\n{program}");
                }
            }
        }
        assert!(refused > 2 * others && refused > 8, "{refused} refused, {others} accepted\n{program}");
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
                    Statement::Loop(_, body) => visit(body, change),
                    Statement::Begin(_, at) if at.iteration != Iteration::Now => change(&mut at.iteration),
                    _ => {}
                }
            }
        }
        let mut statements = program.body().statements.clone();
        visit(&mut statements, change);
        with(&program, &statements).expect_err("it is not a program")
    };
    let changes: [&dyn Fn(&mut Iteration); 3] = [
        &|iteration| {
            if let Iteration::Later(by) = iteration {
                *by += 1
            }
        },
        &|iteration| {
            if let Iteration::At(at) = iteration {
                *at = 0
            }
        },
        &|iteration| *iteration = Iteration::Earlier(1),
    ];
    let said: Vec<_> = changes.into_iter().map(refused).collect();
    expect![[r#"
        statement 1: `matmul` ends its transfer, number 0, which is not the first in flight there
        statement 1: `matmul` ends its transfer, number 0, which is not the first in flight there
        statement 1: `matmul` begins its transfer, number 0, inside other loops than its own"#]]
    .assert_eq(&said.join("\n"));
    let mut file = serde_json::to_value(&program).expect("it is written");
    file["transfers"][0]["tile"]["buffers"] = serde_json::json!({ "Ahead": 1 });
    let said = serde_json::from_value::<Program>(file).expect_err("it is not a program").to_string();
    assert_eq!(said, "statement 1: `matmul` has tiles or bounds that do not follow from its transfers");
}
