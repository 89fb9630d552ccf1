//! A choice shared by all ranks: in memory between threads, by broadcast between processes.

use crate::error::{CliError, Result};
use polyshard::program::Program;
use polyshard::runtime::World;
use std::sync::OnceLock;

/// The result of a search, which the first rank makes.
pub(crate) struct Shared<C> {
    /// In the process of the first rank.
    found: OnceLock<Result<C>>,
    /// In the other processes.
    received: OnceLock<Result<Program, String>>,
}

impl<C> Shared<C> {
    /// Returns one without a result yet.
    pub(crate) fn new() -> Self {
        Self { found: OnceLock::new(), received: OnceLock::new() }
    }

    /// Returns the program of the result of `find`, which runs on the first rank. Collective.
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
        let found = world.is_root().then(|| self.found.get_or_init(find));
        // Errors are broadcast as well.
        let sent = found.map(|found| found.as_ref().map(&program).map_err(ToString::to_string));
        let text = sent.map(|sent| serde_json::to_string(&sent)).transpose().map_err(|why| bug(&why))?;
        let text = world.broadcast_text(&text.unwrap_or_default())?;
        let program = match self.found.get() {
            Some(found) => found.as_ref().map(program).map_err(ToString::to_string),
            None => {
                let read = || serde_json::from_str(&text).unwrap_or_else(|why| Err(bug(&why).to_string()));
                self.received.get_or_init(read).as_ref().map_err(Clone::clone)
            }
        };
        program.map_err(|what| CliError::Said { what })
    }

    /// The result, if this process found it.
    pub(crate) fn found(&self) -> Option<&C> {
        self.found.get()?.as_ref().ok()
    }
}

fn bug(why: &serde_json::Error) -> CliError {
    CliError::Bug { what: format!("a program cannot be sent to another process: {why}") }
}
