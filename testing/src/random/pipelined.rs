//! Random schedules whose transfers pass while other iterations are computed.

use polyshard::{LowerError, Name, Program, Schedule, Step};

/// The schedule with each loop pipelined at which a tensor is communicated, as far ahead as that is legal and at most `depth`; none if there
/// is no such loop.
///
/// # Errors
/// If it cannot be lowered, though the schedule can.
pub fn pipelined(schedule: &Schedule, depth: usize) -> Result<Option<Program>, LowerError> {
    if schedule.kernel().is_err() {
        return Ok(None);
    }
    let mut loops: Vec<Name> = Vec::new();
    for step in schedule.steps() {
        match step {
            Step::Communicate { at, .. } if !loops.contains(at) => loops.push(*at),
            _ => {}
        }
    }
    let mut found = schedule.clone();
    for at in loops {
        let ahead =
            (1..=depth).rev().map(|depth| found.clone().pipeline(at, depth)).find(|ahead| ahead.lower().is_ok());
        found = ahead.unwrap_or(found);
    }
    let program = found.lower()?;
    let begins = program.nest().transfers.iter().any(|transfer| transfer.ahead > 0);
    Ok(begins.then_some(program))
}
