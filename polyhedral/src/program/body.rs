//! The body of a program: where transfers, the leaf and the output go among the loops.

use super::{Output, OutputRoute, Statement, Transfer};

/// The statements inside the first `level` serial loops.
pub(crate) fn body(level: usize, depth: usize, transfers: &[Transfer], output: &Output) -> Vec<Statement> {
    let tiled = output.level == level && output.route != OutputRoute::InPlace;
    let mut statements = Vec::new();
    let here = transfers.iter().enumerate().filter(|(_, transfer)| transfer.level == level);
    statements.extend(here.map(|(number, _)| Statement::Fetch(number)));
    if tiled {
        statements.push(Statement::Start);
    }
    statements.push(if level == depth {
        Statement::Leaf
    } else {
        Statement::Loop { counter: level, body: body(level + 1, depth, transfers, output) }
    });
    if tiled {
        statements.push(Statement::Finish);
    }
    statements
}
