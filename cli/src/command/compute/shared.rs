//! A choice shared by all ranks: in memory between threads, by broadcast between processes.

use crate::error::{CliError, Result};
use polyshard::program::Program;
use polyshard::runtime::{Backend, World};
use std::sync::OnceLock;

/// The result of a search, found once for all ranks of this process.
pub(crate) struct Shared<C> {
    once: OnceLock<Result<Origin<C>>>,
}

/// The origin of a program.
enum Origin<C> {
    /// This process found it.
    Found(C),
    /// The first process found it and sent it.
    Received(Box<Program>),
}

impl<C> Shared<C> {
    /// Returns one without a result yet.
    pub(crate) fn new() -> Self {
        Self { once: OnceLock::new() }
    }

    /// Returns the program of the result of `find`, which runs on the first process, or on one thread. Collective.
    ///
    /// # Errors
    /// The error of `find`, on all ranks.
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
                // Errors are broadcast as well.
                let found = world.is_root().then(find);
                let sent = found.as_ref().map(|found| found.as_ref().map(&program).map_err(ToString::to_string));
                let text = sent.map(|sent| serde_json::to_string(&sent)).transpose().map_err(|why| bug(&why))?;
                let received = world.broadcast_text(&text.unwrap_or_default())?;
                self.once.get_or_init(|| match found {
                    Some(found) => found.map(Origin::Found),
                    None => match serde_json::from_str::<Result<Program, String>>(&received) {
                        Ok(Ok(program)) => Ok(Origin::Received(Box::new(program))),
                        Ok(Err(what)) => Err(CliError::Said { what }),
                        Err(why) => Err(bug(&why)),
                    },
                })
            }
        };
        match origin {
            Ok(Origin::Found(found)) => Ok(program(found)),
            Ok(Origin::Received(program)) => Ok(program),
            Err(error) => Err(CliError::Said { what: error.to_string() }),
        }
    }

    /// The result, if this process found it.
    pub(crate) fn found(&self) -> Option<&C> {
        match self.once.get()?.as_ref().ok()? {
            Origin::Found(found) => Some(found),
            Origin::Received(_) => None,
        }
    }
}

fn bug(why: &serde_json::Error) -> CliError {
    CliError::Bug { what: format!("a program cannot be sent to another process: {why}") }
}
