//! The body of a nest: where transfers, the leaf and the output go among the loops.

use super::{Nest, NestStatement, Output, OutputRoute, Transfer, TransferId};

impl Nest {
    /// Returns the statements of a nest of `depth` loops with these transfers.
    #[must_use]
    pub fn body_of(depth: usize, transfers: &[Transfer], output: &Output) -> Vec<NestStatement> {
        body(0, depth, transfers, output)
    }
}

/// The statements inside the first `level` serial loops.
fn body(level: usize, depth: usize, transfers: &[Transfer], output: &Output) -> Vec<NestStatement> {
    let tiled = output.level == level && output.route != OutputRoute::InPlace;
    let mut statements = Vec::new();
    let here = transfers.iter().enumerate().filter(|(_, transfer)| transfer.level == level);
    statements.extend(here.map(|(number, _)| NestStatement::Fetch(TransferId(number))));
    if tiled {
        statements.push(NestStatement::Start);
    }
    statements.push(if level == depth {
        NestStatement::Leaf
    } else {
        NestStatement::Loop { counter: level, body: body(level + 1, depth, transfers, output) }
    });
    if tiled {
        statements.push(NestStatement::Finish);
    }
    statements
}
