//! The body of a nest: where transfers, the leaf and the output go among the loops.

use super::{Direction, NestStatement, Transfer, TransferId};

/// The statements inside the first `level` of `depth` serial loops, with these transfers.
pub(super) fn body(level: usize, depth: usize, transfers: &[Transfer]) -> Vec<NestStatement> {
    let here = (0..).map(TransferId).zip(transfers).filter(|(_, transfer)| transfer.level == level);
    let (fetched, sent): (Vec<_>, Vec<_>) = here.partition(|(_, transfer)| transfer.direction == Direction::In);
    let sent: Vec<_> = sent.into_iter().filter(|(_, transfer)| !transfer.route.is_in_place()).collect();
    let moved = |&(id, _): &(TransferId, &Transfer)| [NestStatement::Begin(id), NestStatement::Await(id)];
    let mut statements: Vec<_> = fetched.iter().flat_map(moved).collect();
    statements.extend(sent.iter().map(|&(id, _)| NestStatement::Fill(id)));
    statements.push(if level == depth {
        NestStatement::Compute
    } else {
        NestStatement::Loop { counter: level, body: body(level + 1, depth, transfers) }
    });
    statements.extend(sent.iter().flat_map(moved));
    statements
}
