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

/// Checks that a body has the statements of the derived one in its order, but for where it awaits what it has begun: once, in the
/// same loop, and before anything inside reads it.
///
/// # Errors
/// What it has otherwise, as a clause after the kernel's name.
pub(super) fn awaits_fit(derived: &[NestStatement], body: &[NestStatement]) -> Result<(), String> {
    fn others(body: &[NestStatement]) -> impl Iterator<Item = &NestStatement> {
        body.iter().filter(|statement| !matches!(statement, NestStatement::Await(_)))
    }
    let differs = || Err("has statements that do not follow from its transfers".into());
    if others(derived).count() != others(body).count() {
        return differs();
    }
    for pair in others(derived).zip(others(body)) {
        match pair {
            (NestStatement::Loop { counter, body }, NestStatement::Loop { counter: other, body: inner })
                if counter == other =>
            {
                awaits_fit(body, inner)?;
            }
            (wanted, found) if wanted == found => {}
            _ => return differs(),
        }
    }
    let is_inner = |statement: &NestStatement| matches!(statement, NestStatement::Loop { .. } | NestStatement::Compute);
    let inner = body.iter().position(is_inner).unwrap_or(body.len());
    let mut begun = 0;
    for (began, statement) in body.iter().enumerate() {
        let NestStatement::Begin(transfer) = *statement else { continue };
        begun += 1;
        let awaited: Vec<_> = (0..body.len()).filter(|&at| body[at] == NestStatement::Await(transfer)).collect();
        if !matches!(awaited[..], [at] if began < at && (inner < began || at < inner)) {
            let number = transfer.0;
            return Err(format!("does not await its transfer, number {number}, once between its begin and its use"));
        }
    }
    match body.len() - others(body).count() == begun {
        true => Ok(()),
        false => Err("awaits a transfer that it has not begun in the same loop".into()),
    }
}
