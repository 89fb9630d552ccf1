//! Ending a program that may be many processes: what is said, is said once.
//!
//! Under an MPI launcher every process reads the same command line and finds the same mistake in it. Each
//! joins the world before it speaks, so that one of them can speak for all.

use clap::Parser;
use polyshard::cli::say::{complain, say};
use std::process::ExitCode;

/// Reads the command line and does what it asks for.
pub fn main<A: Parser>(run: impl FnOnce(A) -> Result<(), Stop>) -> ExitCode {
    finish(A::try_parse().map_err(Stop::from).and_then(run))
}

/// Why a program ends before it runs, or without running to its end.
pub enum Stop {
    /// It was asked for a text, and this is it.
    Said(String),
    /// It cannot run.
    Failed(String),
    /// It ran and failed. Under MPI it has been said already.
    Ran(polyshard::Error),
}

impl From<String> for Stop {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

impl From<clap::Error> for Stop {
    fn from(error: clap::Error) -> Self {
        let text = error.to_string();
        if error.use_stderr() {
            Self::Failed(text.trim_start_matches("error: ").trim_end().into())
        } else {
            Self::Said(text)
        }
    }
}

impl From<Box<polyshard::PipelineError>> for Stop {
    fn from(error: Box<polyshard::PipelineError>) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<polyshard::LowerError> for Stop {
    fn from(error: polyshard::LowerError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<polyshard::Error> for Stop {
    fn from(error: polyshard::Error) -> Self {
        Self::Ran(error)
    }
}

/// Turns the outcome into an exit code, and says on one rank what there is to say.
pub fn finish(outcome: Result<(), Stop>) -> ExitCode {
    let ranks = polyshard::runtime::launched_ranks();
    let done = match (outcome, ranks) {
        (Ok(()), _) => Ok(()),
        (Err(Stop::Said(text)), None) => say(&text).map_err(|why| why.to_string()),
        (Err(Stop::Said(text)), Some(ranks)) => {
            let said =
                polyshard::spmd(ranks, |world| if world.is_root() { say(&text).map_err(failure) } else { Ok(()) });
            said.map(drop).map_err(|error| error.to_string())
        }
        (Err(Stop::Failed(message)), None) => Err(message),
        (Err(Stop::Failed(message)), Some(ranks)) => {
            let failed = polyshard::spmd(ranks, |_| Err::<(), _>(failure(message.clone())));
            failed.map(drop).map_err(|error| error.to_string())
        }
        (Err(Stop::Ran(error)), _) => Err(error.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            complain(&message);
            ExitCode::FAILURE
        }
    }
}

/// Returns an error with this message.
pub fn failure(message: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> polyshard::Error {
    polyshard::Error::Other(message.into())
}
