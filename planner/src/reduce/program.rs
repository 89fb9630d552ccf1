//! Programs: lists of instructions.
//!
//! A program contains no sizes, so it serves every placement whose hierarchy has the same number of levels.
//! `synthesize` makes valid programs only; `proof` checks any program once it is lowered.

use super::{Form, Hierarchy, Instruction};
use polyshard_program::reduction::Collective;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A reduction as a list of instructions, carried out in order.
///
/// Prints as its collectives; [`describe`](Self::describe) adds levels and forms.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReductionProgram {
    /// The instructions, first to last.
    pub instructions: Vec<Instruction>,
}

impl ReductionProgram {
    /// Returns the instructions with the names of a hierarchy's levels.
    ///
    /// ```
    /// use polyshard::planner::reduce::{AllowedMasters, Hierarchy, synthesize};
    /// let hierarchy = Hierarchy::new([("node", 4), ("gpu", 16)])?;
    /// let programs = synthesize(&hierarchy, 3, AllowedMasters::OthersIdle);
    /// let written: Vec<_> = programs.iter().map(|program| program.describe(&hierarchy)).collect();
    /// assert!(written.contains(
    ///     &"ReduceScatter(node, InsideGroup); AllReduce(node, Parallel(root)); AllGather(node, InsideGroup)".into()
    /// ));
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Panics
    /// If an instruction names a level that the hierarchy lacks.
    #[must_use]
    pub fn describe(&self, hierarchy: &Hierarchy) -> String {
        self.instructions.iter().map(|step| step.describe(hierarchy)).collect::<Vec<_>>().join("; ")
    }

    /// Returns whether it is one all-reduce of all ranks that hold a part of the sum.
    ///
    /// ```
    /// use polyshard::planner::reduce::{AllowedMasters, Hierarchy, synthesize};
    /// let programs = synthesize(&Hierarchy::new([("gpu", 16)])?, 2, AllowedMasters::OthersIdle);
    /// let direct: Vec<_> = programs.iter().filter(|program| program.is_direct()).collect();
    /// assert_eq!(direct[0].to_string(), "AllReduce");
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn is_direct(&self) -> bool {
        match self.instructions[..] {
            [step] => step.collective == Collective::AllReduce && !matches!(step.form, Form::Master(_)),
            _ => false,
        }
    }
}

impl fmt::Display for ReductionProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.instructions.is_empty() {
            return f.write_str("nothing");
        }
        let names: Vec<_> = self.instructions.iter().map(|step| step.collective.to_string()).collect();
        f.write_str(&names.join("-"))
    }
}
