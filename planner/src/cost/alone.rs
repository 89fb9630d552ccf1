//! What is priced before there is a program of it, as it is in one: collectives by themselves, and procedures of several.

use super::Prices;
use super::legs::{self, Action};
use polyshard_layout::{Collective, Mesh};
use polyshard_machine::{Algorithm, GroupedCollective, MachineError, Seconds};
use polyshard_program::Program;
use polyshard_program::reduction::{LoweredStep, Procedure};

impl Prices<'_> {
    /// Returns the prices where all-reduces are carried out so.
    #[must_use]
    pub fn by(self, algorithm: Algorithm) -> Self {
        Self { algorithm, known: std::cell::RefCell::default(), ..self }
    }

    /// Returns what a collective takes: by messages, or where all members of its groups see one another's memory, as long as they read
    /// and write there. Ranks that are in no group are idle.
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

    /// Returns what one step takes of those by which ranks combine `bytes` bytes each.
    ///
    /// # Errors
    /// As [`collective`](Self::collective).
    pub fn step(&self, step: &LoweredStep, bytes: f64) -> Result<Seconds, MachineError> {
        let (operation, groups) = (step.collective, step.groups.to_vec());
        GroupedCollective { operation, groups, bytes }.check(self.machine)?;
        self.alone(&legs::of_step(1, step, bytes))
    }

    /// Returns what each step takes of a procedure by which ranks combine `bytes` bytes each: two where it is in the order of the ranks,
    /// in which each gets a piece of all, and hands its result on.
    ///
    /// # Errors
    /// As [`collective`](Self::collective).
    pub fn procedure(&self, procedure: &Procedure, bytes: f64) -> Result<Vec<Seconds>, MachineError> {
        let (operation, groups) = (Collective::AllReduce, procedure.groups().to_vec());
        GroupedCollective { operation, groups, bytes }.check(self.machine)?;
        legs::of_procedure(1, procedure, bytes).iter().map(|action| self.alone(action)).collect()
    }

    /// The seconds of a program of moves over the mesh that is placed.
    ///
    /// # Panics
    /// If there are fewer devices than ranks.
    pub(crate) fn moves(&self, program: &Program) -> f64 {
        match self.of(program) {
            Ok(cost) => cost.seconds(),
            Err(error) => panic!("moves over a placed mesh have no price: {error}; this is a bug in polyshard"),
        }
    }

    /// What is done once, while all devices are at work.
    fn alone(&self, action: &Action) -> Result<Seconds, MachineError> {
        // The groups are of ranks, whatever the mesh.
        Ok(self.once(&Mesh::new::<&str>([]), action, self.machine.devices())?.0)
    }
}
