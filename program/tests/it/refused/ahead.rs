//! Outputs that are sent while other iterations are computed, and are not awaited as they must be.

use super::*;
use polyshard_program::Iteration;

/// Each panel of an output that is sent while others are computed is awaited once.
#[test]
fn programs_that_do_not_await_what_leaves() {
    let (mesh, x) = mesh();
    let panels = Schedule::from_spec(example::matmul(4, 4, 4))
        .distribute(["k"], ["ko"], ["ki"], &mesh)
        .divide("m", "mo", "mi", 2)
        .reorder(["mo", "mi", "n", "ki"])
        .shard("C", [Var::new("m").at(x)])
        .communicate("C", "mo");
    let program = panels.pipeline("mo", 1).lower().expect("a program");
    let with = |change: &dyn Fn(&mut Vec<Statement>)| {
        let mut body = program.body().clone();
        change(&mut body.statements);
        Program::new(body)
    };
    assert_eq!(with(&|_| ()).expect("the program").to_string(), program.to_string());
    fn in_loop(statements: &mut [Statement]) -> &mut Vec<Statement> {
        let bodies = statements.iter_mut().filter_map(|statement| match statement {
            Statement::Loop(_, body) => Some(body),
            _ => None,
        });
        bodies.last().expect("a loop")
    }
    let changes: [fn(&mut Vec<Statement>); 4] = [
        |statements| drop(statements.pop()),
        |statements| statements.push(statements.last().expect("it awaits the last").clone()),
        |statements| drop(in_loop(statements).pop()),
        |statements| {
            let Some(Statement::End(_, At { iteration, .. })) = in_loop(statements).last_mut() else {
                panic!("it awaits")
            };
            *iteration = Iteration::Earlier(2);
        },
    ];
    let mut said = Vec::new();
    for change in changes {
        let refused = with(&change).expect_err("it is not a program").to_string();
        said.push(refused);
    }
    expect![[r#"
        statement 1: `matmul` does not end its transfer, number 2
        statement 1: `matmul` ends its transfer, number 2, which is not the first in flight there
        statement 1: `matmul` ends its transfer, number 2, which is not the first in flight there
        statement 1: `matmul` ends its transfer, number 2, which is not the first in flight there"#]]
    .assert_eq(&said.join("\n"));
}
