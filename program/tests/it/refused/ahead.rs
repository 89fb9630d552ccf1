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
        Program::new(program.mesh(), program.dtype(), program.arrays().to_vec(), body)
    };
    assert_eq!(with(&|_| ()).expect("the program").to_string(), program.to_string());
    fn in_loop(statements: &mut [Statement]) -> &mut Vec<Statement> {
        let bodies = statements.iter_mut().filter_map(|statement| match statement {
            Statement::Loop { body, .. } => Some(body),
            _ => None,
        });
        bodies.last().expect("a loop")
    }
    let changes: [fn(&mut Vec<Statement>); 4] = [
        |statements| drop(statements.pop()),
        |statements| statements.push(statements.last().expect("it awaits the last").clone()),
        |statements| drop(in_loop(statements).pop()),
        |statements| {
            let Some(Statement::AwaitFor { iteration, .. }) = in_loop(statements).last_mut() else {
                panic!("it awaits")
            };
            *iteration = Iteration::Earlier(2);
        },
    ];
    for change in changes {
        let refused = with(&change).expect_err("it is no program").to_string();
        assert_eq!(refused, "statement 1: `matmul` has statements that do not follow from its transfers");
    }
}
