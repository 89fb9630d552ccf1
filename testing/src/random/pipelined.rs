//! Random schedules whose transfers overlap with other iterations, or with the interior of the same one.

use polyshard::layout::Name;
use polyshard::program::Program;
use polyshard::schedule::{LowerError, Schedule, Step};

/// The schedule with each loop pipelined at which a tensor is communicated, as far ahead as is legal and at most
/// `depth`; none without such a loop.
///
/// # Errors
/// If it cannot be lowered, although the schedule can.
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

/// The schedule with the interior of its leaf computed first, for each input for which that is legal; none without such
/// an input.
#[must_use]
pub fn interior_first(schedule: &Schedule) -> Option<Schedule> {
    let inputs: Vec<Name> = schedule.kernel().ok()?.inputs().iter().map(|input| input.name).collect();
    let mut found = None;
    for input in inputs {
        let first = found.as_ref().unwrap_or(schedule).clone().interior_first(input);
        let comes = |program: Program| program.nest().transfers.iter().any(|transfer| transfer.interior_first);
        if first.lower().is_ok_and(comes) {
            found = Some(first);
        }
    }
    found
}

/// The schedule with a halo for several applications of its kernel, for its input where that is legal.
#[must_use]
pub fn in_time_steps(schedule: &Schedule, steps: usize) -> Option<Schedule> {
    let inputs = schedule.kernel().ok()?.inputs();
    let stepped = schedule.clone().halo(inputs.first()?.name, steps);
    stepped.lower().is_ok_and(|program| program.nest().applications() == steps as u64).then_some(stepped)
}
