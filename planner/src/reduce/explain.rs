//! The steps of a planned reduction and their times by the machine's model, as text.

use super::hierarchy::Hierarchy;
use super::instruction::Instruction;
use super::plan::{ReductionPlan, Strategy};
use polyshard_machine::Collective;
use polyshard_program::reduction::listed;
use std::fmt;

impl ReductionPlan {
    /// Returns the steps with their groups of devices and simulated seconds, and a comparison of the whole with one
    /// all-reduce.
    #[must_use]
    pub fn explain(&self) -> String {
        self.to_string()
    }

    /// The lines of the steps: the operations and their groups.
    fn steps(&self) -> Vec<[String; 2]> {
        let Some(lowered) = self.procedure.steps() else {
            let operations = [Collective::AllToAll, Collective::AllGather].into_iter().zip(&self.simulation.steps);
            return operations.map(|(operation, _)| [operation.to_string(), listed(self.procedure.groups())]).collect();
        };
        let names = self.instructions.as_ref().map(|program| {
            let (machine, matrix) = (self.placed.machine(), self.placed.matrix());
            let hierarchy = Hierarchy::on_machine(machine, matrix, &self.axes)
                .unwrap_or_else(|error| panic!("a program has no hierarchy: {error}; this is a bug in polyshard"));
            let described = |step: &Instruction| step.describe(&hierarchy);
            program.instructions.iter().map(described).collect::<Vec<_>>()
        });
        let lines = lowered.steps().iter().enumerate().map(|(nth, step)| {
            let name = names.as_ref().map_or_else(|| step.collective.to_string(), |names| names[nth].clone());
            [name, listed(&step.groups)]
        });
        lines.collect()
    }
}

impl fmt::Display for ReductionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match &self.strategy {
            Strategy::Direct => "in one all-reduce",
            Strategy::Best => "by the fastest program",
            Strategy::Program(_) => "by the given program",
            Strategy::Lowered(_) => "by the given steps",
            Strategy::Deterministic => "in the order of the mesh",
        };
        writeln!(f, "{} elements of {} over {}, {how}", self.elements, self.dtype, self.axis_names())?;
        writeln!(f, "{}", self.placed)?;
        let steps = self.steps();
        let width = |column: usize| steps.iter().map(|step| step[column].len()).max().unwrap_or(0);
        let [names, groups] = [width(0), width(1)];
        for (nth, ([name, members], seconds)) in steps.iter().zip(&self.simulation.steps).enumerate() {
            writeln!(f, "  {}. {name:names$}  {members:groups$}  {seconds}", nth + 1)?;
        }
        let [total, of_direct] = [self.simulation.total(), self.direct.total()];
        write!(f, "simulated: {total:.3e} s")?;
        match self.strategy {
            Strategy::Direct => Ok(()),
            _ if total > 0.0 => {
                write!(f, ", {:.2} times as fast as one all-reduce, {of_direct:.3e} s", of_direct / total)
            }
            _ => Ok(()),
        }
    }
}
