//! `--why`: explains why a schedule was not chosen.

use crate::error::{CliError, Result};
use polyshard::layout::{Name, joined};
use polyshard::machine::Machine;
use polyshard::machine::units::{counted, scaled, seconds};
use polyshard::planner::cost::cost;
use polyshard::schedule::{Schedule, Step};
use polyshard::search::Choice;
use polyshard::text::{Definitions, Given, Scheduled, parse_chain};

/// The name of the option, where mistakes are shown.
const OPTION: &str = "--why";

/// Explains why the schedule in `text` was not chosen: a chain for the kernel of `schedule`, with or without a dot before its first step, or
/// the kernel with its chain.
///
/// # Errors
/// Syntax errors, shown in place, or a machine that lacks a figure that is needed.
pub(super) fn why_not(
    text: &str,
    schedule: &Schedule,
    choice: &Choice,
    machine: &Machine,
    memory: Option<u64>,
) -> Result<String> {
    let other = steps(text, schedule)?.into_iter().fold(schedule.clone(), Schedule::apply);
    let program = match other.lower() {
        Ok(program) => program,
        Err(error) => {
            let why = joined([Some(error.message()), error.help()].into_iter().flatten(), "; ");
            let step = error.step().and_then(|number| Some((number, other.steps().nth(number - 1)?)));
            return Ok(match step {
                Some((number, step)) => format!("not possible because of step {number}, `{step}`: {why}\n"),
                None => format!("not possible because the schedule is not legal: {why}\n"),
            });
        }
    };
    let (needed, there) = (program.mesh().size(), choice.ranks());
    if needed > there {
        let needed = counted(needed, "rank");
        return Ok(format!(
            "not possible because its mesh, ({}), has {needed}, more than the {there} available\n",
            program.mesh()
        ));
    }
    let (own, others) = (choice.cost(), cost(&program, machine)?);
    if own.seconds() == others.seconds() && memory.is_none_or(|memory| others.memory <= memory) {
        let [held, other_held] = [own, &others].map(|cost| scaled(cost.memory as f64, "B"));
        let [received, other_received] = [own, &others].map(|cost| scaled(cost.received as f64, "B"));
        return Ok(format!(
            "a tie: both take {}; the chosen one holds {held} a rank and receives {received}, the other {other_held} and {other_received}; \
             ties go to the schedule with the least memory, then to the first by the text of its chain\n",
            seconds(own.seconds())
        ));
    }
    Ok(choice.why_not(&[other])?)
}

/// Parses the steps of a text.
fn steps(text: &str, schedule: &Schedule) -> Result<Vec<Step>> {
    // The output of `--print chain` begins with a comment.
    let mut rest = text.trim_start();
    while rest.starts_with("//") {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
    }
    let start = text.len() - rest.len();
    match text[start..].split(|letter| !Name::is_part(letter)).next().unwrap_or_default() {
        "fn" | "pub" => of_kernel(text, schedule),
        "auto" => Err(CliError::refused("`--why auto` does not name a schedule", "write the steps to compare")),
        "" | "mesh" => parse_chain(text, None).map_err(|error| CliError::mistaken(OPTION, text, error, |at| at)),
        _ => {
            let dotted = format!("{}.{}", &text[..start], &text[start..]);
            parse_chain(&dotted, None)
                .map_err(|error| CliError::mistaken(OPTION, text, error, |at| at - usize::from(at > start)))
        }
    }
}

/// The steps after a kernel, which must be that of the schedule.
fn of_kernel(text: &str, schedule: &Schedule) -> Result<Vec<Step>> {
    let said = |error| CliError::mistaken(OPTION, text, error, |at| at);
    let mut stages = Definitions::parse(text).and_then(|file| file.bind(&Given::default())).map_err(said)?;
    let stage = stages.pop().filter(|_| stages.is_empty()).ok_or_else(|| {
        CliError::refused("`--why` has several kernels, but compares schedules of one", "give one, or its chain alone")
    })?;
    let other = stage
        .kernel
        .check()
        .map_err(|why| CliError::Bug { what: format!("a kernel was read that cannot be: {why}") })?;
    let kernel = schedule.kernel()?;
    if other.spec() != kernel.spec() {
        let what = format!("`--why` is about `{}`, but the einsum is `{}`", other.definition(), kernel.definition());
        return Err(CliError::refused(what, "give the chain alone"));
    }
    match stage.schedule {
        Scheduled::Steps(steps) => Ok(steps.into_iter().map(|(step, _)| step).collect()),
        Scheduled::Auto(_) => {
            Err(CliError::refused("`--why` has `auto` instead of a schedule", "write the steps to compare"))
        }
    }
}
