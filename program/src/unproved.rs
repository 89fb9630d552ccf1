//! Programs without proofs.

use crate::program::Program;
use polyshard_layout::Sharding;

/// A program as it would be if the guesses about its communication are right: it can be priced and read, and nothing else.
///
/// It is made by `Schedule::unproved`, by going through ranks and steps; `Schedule::lower` proves it and returns the
/// [`Program`].
#[derive(Clone, Debug)]
pub struct Unproved(Program);

impl Unproved {
    /// Returns this program, to be treated as unproved.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self(program)
    }

    /// Returns the shardings: of the inputs, then of the outputs.
    pub fn shardings(&self) -> impl Iterator<Item = &Sharding> {
        self.0.shardings()
    }

    /// Explains it, as [`Program::explain`] does.
    #[must_use]
    pub fn explain(&self) -> String {
        self.0.explain()
    }
}

/// A program that can be priced, proved or not.
pub trait Priced {
    /// Returns it, for its price alone.
    #[doc(hidden)]
    fn priced(&self) -> &Program;
}

impl Priced for Program {
    fn priced(&self) -> &Program {
        self
    }
}

impl Priced for Unproved {
    fn priced(&self) -> &Program {
        &self.0
    }
}
