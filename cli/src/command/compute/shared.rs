//! What is chosen, on all ranks: threads share it, and processes are told by the first.

use crate::error::{CliError, Result};
use polyshard::program::Program;
use polyshard::runtime::{Backend, World};
use std::sync::OnceLock;

/// What a search finds, once for all ranks of this process.
pub(crate) struct Shared<C> {
    once: OnceLock<Result<Origin<C>>>,
}

/// Where a program is from.
enum Origin<C> {
    /// It was found here.
    Found(C),
    /// Another process has found it.
    Told(Box<Program>),
}

impl<C> Shared<C> {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self { once: OnceLock::new() }
    }

    /// The program of what `find` finds: on the first process that searches, or on one thread. Collective.
    ///
    /// # Errors
    /// Why nothing is found.
    pub(crate) fn get<'s>(
        &'s self,
        world: &World,
        find: impl FnOnce() -> Result<C>,
        program: impl Fn(&C) -> &Program,
    ) -> Result<&'s Program>
    where
        C: 's,
    {
        let origin = match world.backend() {
            Backend::Threads => self.once.get_or_init(|| find().map(Origin::Found)),
            Backend::Mpi => {
                // All hear why nothing is found, too.
                let found = world.is_root().then(find);
                let told = found.as_ref().map(|found| found.as_ref().map(&program).map_err(ToString::to_string));
                let text = told.map(|told| serde_json::to_string(&told)).transpose().map_err(|why| bug(&why))?;
                let told = world.broadcast_text(&text.unwrap_or_default())?;
                self.once.get_or_init(|| match found {
                    Some(found) => found.map(Origin::Found),
                    None => match serde_json::from_str::<Result<Program, String>>(&told) {
                        Ok(Ok(program)) => Ok(Origin::Told(Box::new(program))),
                        Ok(Err(what)) => Err(CliError::Said { what }),
                        Err(why) => Err(bug(&why)),
                    },
                })
            }
        };
        match origin {
            Ok(Origin::Found(found)) => Ok(program(found)),
            Ok(Origin::Told(program)) => Ok(program),
            Err(error) => Err(CliError::Said { what: error.to_string() }),
        }
    }

    /// What was found here.
    pub(crate) fn found(&self) -> Option<&C> {
        match self.once.get()?.as_ref().ok()? {
            Origin::Found(found) => Some(found),
            Origin::Told(_) => None,
        }
    }
}

fn bug(why: &serde_json::Error) -> CliError {
    CliError::Bug { what: format!("a program cannot be told to another process: {why}") }
}
