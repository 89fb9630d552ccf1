//! What a reduction does and what the machine's model expects of it, in words.

use super::words::{listed, over};
use super::{Course, Reduction, Strategy};
use crate::Element;
use polyshard_machine::Operation;
use polyshard_planner::reduce::Hierarchy;
use std::fmt;

impl<T: Element> Reduction<T> {
    /// Returns the steps with their groups of devices and simulated seconds, and how the whole compares with one
    /// all-reduce. The same on all ranks.
    ///
    /// ```
    /// use polyshard_machine::Machine;
    /// use polyshard_planner::placement::{ParallelismMatrix, Place};
    /// use polyshard_runtime::layout::Mesh;
    /// use polyshard_runtime::{Error, Reduction, Strategy, spmd};
    /// let machine = Machine::preset("a100").and_then(|machine| machine.with_counts(&[2, 2])).expect("a machine");
    /// let matrix = ParallelismMatrix::new(vec![vec![2, 2]]).expect("a matrix");
    /// let placed = Mesh::new([("data", 4)]).placed(&machine, &matrix).expect("the matrix is for both");
    /// let text = spmd(4, |world| {
    ///     let sum = Reduction::<f32>::new(world, &placed, &["data"], 1 << 20, Strategy::Best)?;
    ///     Ok::<_, Error>(sum.explain())
    /// })?;
    /// assert!(text[3].contains("ReduceScatter(node, InsideGroup)"), "{}", text[3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn explain(&self) -> String {
        self.to_string()
    }

    /// The lines of the steps: what is done, and in which groups.
    fn steps(&self) -> Vec<[String; 2]> {
        match &self.choice.course {
            Course::Program { program, lowered } => {
                let names = program.as_ref().map(|program| {
                    let (machine, matrix) = (self.placed.machine(), self.placed.matrix());
                    let hierarchy = Hierarchy::on(machine, matrix, &self.axes).unwrap_or_else(|error| {
                        panic!("a program has no hierarchy: {error}; this is a bug of polyshard")
                    });
                    let described = |step: &polyshard_planner::reduce::Instruction| step.describe(&hierarchy);
                    program.instructions.iter().map(described).collect::<Vec<_>>()
                });
                let lines = lowered.steps().iter().enumerate().map(|(nth, step)| {
                    let name = names.as_ref().map_or_else(|| step.collective.to_string(), |names| names[nth].clone());
                    [name, listed(&step.groups)]
                });
                lines.collect()
            }
            Course::InOrder { groups } => {
                let operations =
                    [Operation::AllToAll, Operation::AllGather].into_iter().zip(&self.choice.simulation.steps);
                operations.map(|(operation, _)| [operation.to_string(), listed(groups)]).collect()
            }
        }
    }
}

impl<T: Element> fmt::Display for Reduction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (elements, simulation, direct) = (self.elements, &self.choice.simulation, &self.choice.direct);
        let over = over(&self.placed, &self.axes);
        let how = match &self.choice.strategy {
            Strategy::Direct => "in one all-reduce",
            Strategy::Best => "by the fastest program",
            Strategy::Program(_) => "by a program given",
            Strategy::Lowered(_) => "by steps given",
            Strategy::Deterministic => "in the order of the mesh",
        };
        writeln!(f, "{elements} elements of {} over {over}, {how}", T::NAME)?;
        writeln!(f, "{}", self.placed)?;
        let steps = self.steps();
        let width = |column: usize| steps.iter().map(|step| step[column].len()).max().unwrap_or(0);
        let [names, groups] = [width(0), width(1)];
        for (nth, ([name, members], seconds)) in steps.iter().zip(&simulation.steps).enumerate() {
            writeln!(f, "  {}. {name:names$}  {members:groups$}  {seconds}", nth + 1)?;
        }
        let [total, of_direct] = [simulation.total(), direct.total()];
        write!(f, "simulated: {total:.3e} s")?;
        match self.choice.strategy {
            Strategy::Direct => Ok(()),
            _ if total > 0.0 => {
                write!(f, ", {:.2} times as fast as one all-reduce, {of_direct:.3e} s", of_direct / total)
            }
            _ => Ok(()),
        }
    }
}
