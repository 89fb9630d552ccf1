//! Instructions: slice, form and collective; and programs, which are lists of them.
//!
//! The slice divides the devices: those inside one member of its level are together. The form selects the groups:
//!
//! ```text
//!                 node 0: a0 a1     node 1: b0 b1           slice node
//! InsideGroup     {a0 a1} {b0 b1}                           all of a member
//! Parallel(root)  {a0 b0} {a1 b1}                           the first of each, the second of each, ..
//! Master(root)    {a0 b0}                                   only the first of each
//! ```
//!
//! `Parallel(e)` and `Master(e)` stay inside one member of `e`, which is outside the slice.
//!
//! A program contains no sizes, so it serves every placement whose hierarchy has the same number of levels.
//! `synthesize` makes valid programs only; `proof` checks any program once it is lowered.

use super::{Hierarchy, ReduceError};
use polyshard_program::reduction::Collective;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which devices form a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Form {
    /// All devices inside each member of the slice.
    InsideGroup,
    /// The first devices of the slice's members inside one member of this level, the second devices, and so on.
    Parallel(usize),
    /// Only the first devices of the slice's members inside one member of this level.
    Master(usize),
}

/// One step of a reduction program. Levels are positions in its [`Hierarchy`].
///
/// ```
/// use polyshard::planner::reduce::{Form, Hierarchy, Instruction};
/// use polyshard::program::reduction::Collective;
/// let hierarchy = Hierarchy::new([("node", 2), ("gpu", 2)])?;
/// let across = Instruction { collective: Collective::AllReduce, slice: 1, form: Form::Parallel(0) };
/// assert_eq!(across.groups(&hierarchy)?, [[0, 2], [1, 3]]);
/// assert_eq!(across.describe(&hierarchy), "AllReduce(node, Parallel(root))");
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Instruction {
    /// The operation.
    pub collective: Collective,
    /// The level whose members divide the devices.
    pub slice: usize,
    /// Which devices form a group.
    pub form: Form,
}

impl Instruction {
    /// Returns the groups of devices, outer levels first; each is ascending.
    ///
    /// Inside the innermost level's members every group has one device.
    ///
    /// # Errors
    /// If a level does not exist, or the form's is not outside the slice.
    pub fn groups(&self, hierarchy: &Hierarchy) -> Result<Vec<Vec<usize>>, ReduceError> {
        let counts = hierarchy.counts();
        let levels = counts.len();
        let no_level = |level| ReduceError::NoLevel { level, hierarchy: hierarchy.to_string(), levels };
        if self.slice >= levels {
            return Err(no_level(self.slice));
        }
        // The devices of a group differ in the levels of `varied` only.
        let varied = match self.form {
            Form::InsideGroup => self.slice + 1..levels,
            Form::Parallel(ancestor) | Form::Master(ancestor) => {
                if ancestor >= levels {
                    return Err(no_level(ancestor));
                }
                if ancestor >= self.slice {
                    return Err(ReduceError::NoAncestor { ancestor, slice: self.slice });
                }
                ancestor + 1..self.slice + 1
            }
        };
        let product = |levels: &[usize]| levels.iter().product::<usize>();
        let outer = product(&counts[..varied.start]);
        let inner = product(&counts[varied.end..]);
        let size = product(&counts[varied]);
        let places = if matches!(self.form, Form::Master(_)) { 1 } else { inner };
        let group = |outer: usize, place: usize| (0..size).map(|at| (outer * size + at) * inner + place).collect();
        Ok((0..outer)
            .flat_map(|outer| (0..places).map(move |place| (outer, place)))
            .map(|(o, p)| group(o, p))
            .collect())
    }

    /// Returns the instruction with the names of a hierarchy's levels.
    ///
    /// # Panics
    /// If a level does not exist.
    #[must_use]
    pub fn describe(&self, hierarchy: &Hierarchy) -> String {
        let name = |level: usize| &hierarchy.names()[level];
        let form = match self.form {
            Form::InsideGroup => "InsideGroup".into(),
            Form::Parallel(ancestor) => format!("Parallel({})", name(ancestor)),
            Form::Master(ancestor) => format!("Master({})", name(ancestor)),
        };
        format!("{}({}, {form})", self.collective, name(self.slice))
    }
}

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
