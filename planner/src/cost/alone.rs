//! Prices of actions outside a program, the same as inside one: single collectives, and procedures of several.

use super::Prices;
use super::legs::{self, Action};
use polyshard_layout::{Collective, Mesh};
use polyshard_machine::{Algorithm, GroupedCollective, MachineError, Seconds};
use polyshard_program::Program;
use polyshard_program::reduction::{LoweredStep, Procedure};

impl Prices<'_> {
    /// Returns the prices with all-reduces carried out by this algorithm.
    #[must_use]
    pub fn by(self, algorithm: Algorithm) -> Self {
        Self { algorithm, known: std::cell::RefCell::default(), ..self }
    }

    /// Returns the time of a collective: by messages, or where all members of its groups share memory, by reading and
    /// writing there. Ranks in no group are idle.
    ///
    /// ```
    /// use polyshard::layout::Collective;
    /// use polyshard::machine::GroupedCollective;
    /// use polyshard::planner::cost::Prices;
    /// use polyshard::prelude::*;
    /// let machine = Machine::preset("a100")?;
    /// let collective = GroupedCollective { operation: Collective::AllReduce, groups: vec![vec![0, 16]], bytes: 8e9 };
    /// assert_eq!(Prices::new(&machine).collective(&collective)?.transfer, 1.0);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`seconds`](polyshard_machine::seconds).
    pub fn collective(&self, collective: &GroupedCollective) -> Result<Seconds, MachineError> {
        collective.check(self.machine)?;
        self.alone(&legs::of_collective(1, collective.clone()))
    }

    /// Returns the time of one step of several by which ranks combine `bytes` bytes each.
    ///
    /// # Errors
    /// As [`collective`](Self::collective).
    pub fn step(&self, step: &LoweredStep, bytes: f64) -> Result<Seconds, MachineError> {
        let (operation, groups) = (step.collective, step.groups.to_vec());
        GroupedCollective { operation, groups, bytes }.check(self.machine)?;
        self.alone(&legs::of_step(1, step, bytes))
    }

    /// Returns the time of each step of a procedure by which ranks combine `bytes` bytes each. In rank order there are
    /// two steps: each rank receives its piece of all terms, then sends its result to the others.
    ///
    /// # Errors
    /// As [`collective`](Self::collective).
    pub fn procedure(&self, procedure: &Procedure, bytes: f64) -> Result<Vec<Seconds>, MachineError> {
        let (operation, groups) = (Collective::AllReduce, procedure.groups().to_vec());
        GroupedCollective { operation, groups, bytes }.check(self.machine)?;
        legs::of_procedure(1, procedure, bytes).iter().map(|action| self.alone(action)).collect()
    }

    /// The seconds of a program of moves over the placed mesh.
    ///
    /// # Panics
    /// If there are fewer devices than ranks.
    pub(crate) fn moves(&self, program: &Program) -> f64 {
        match self.of(program) {
            Ok(cost) => cost.seconds(),
            Err(error) => panic!("moves over a placed mesh have no price: {error}; this is a bug in polyshard"),
        }
    }

    /// The seconds of an action, carried out once while all devices are at work.
    fn alone(&self, action: &Action) -> Result<Seconds, MachineError> {
        // The groups list ranks, so any mesh does.
        Ok(self.once(&Mesh::new::<&str>([]), action, self.machine.devices())?.0)
    }
}
