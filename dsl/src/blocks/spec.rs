//! A block of several statements as data: its kernels in order, and their rounds, results and versions.

use crate::rounds::Rounds;
use crate::step::Step;
use polyshard_layout::Name;
use polyshard_program::{Continued, KernelSpec};
use std::fmt;

/// A block of several statements, as `kernel!` and files give it.
///
/// Each statement is a kernel that writes a new version of an array.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockSpec {
    /// Its name.
    pub name: Name,
    /// The kernels, in order.
    pub kernels: Vec<BlockKernel>,
    /// The rounds around kernels, outer ones before inner ones.
    pub rounds: Vec<Rounds>,
    /// Its results, and the versions that they are.
    pub results: Vec<(Name, Name)>,
    /// Its arrays, of which the first ones are the parameters.
    pub arrays: Vec<Name>,
    /// The number of parameters.
    pub parameters: usize,
    /// The extents of indices where they stand alone in accesses; those of one name must agree.
    pub indices: Vec<IndexExtent>,
    /// The rounds, by number, without which an array has no value.
    pub unset: Vec<(usize, Name)>,
    /// The arrays of records, each with those that a running reduction writes: steps name these.
    pub records: Vec<(Name, Vec<Name>)>,
}

/// A kernel of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockKernel {
    /// The kernel.
    pub kernel: KernelSpec,
    /// The versions of its inputs, which are the [arrays](Name::array) of the block.
    pub inputs: Vec<Name>,
    /// The version that it writes.
    pub output: Name,
    /// The version that it continues.
    pub previous: Option<Continued<Name>>,
}

/// The extent of an index in an access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexExtent {
    /// The index.
    pub index: Name,
    /// The array.
    pub array: Name,
    /// The number of the dimension.
    pub dim: usize,
    /// Its extent there.
    pub extent: i128,
    /// The access, as text.
    pub access: String,
}

/// The place of a kernel among the blocks of a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// The block of several statements of which it is one; kernels of other blocks, or of none, do not run together with it.
    pub block: Option<usize>,
    /// Whether it runs apart from the others, by a step `apart`.
    pub apart: bool,
}

/// The steps of a kernel, each with the number of the block's step that it is a part of, counted from 0; `None` for a sharding that follows
/// from others.
pub type KernelSteps = Vec<(Step, Option<usize>)>;

/// A mistake in a block that is not one of a single statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMistake {
    /// The number of the step or the index, counted from 0.
    pub of: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl BlockSpec {
    /// Whether a step that names an array is about the kernel that writes this one.
    pub(super) fn is_of(&self, written: Name, named: Name) -> bool {
        let of_records = |(array, targets): &(Name, Vec<Name>)| *array == written && targets.contains(&named);
        written == named || self.records.iter().any(of_records)
    }

    /// Checks that each index has one extent, and that all arrays have values. A mistake is of the [index](Self::indices) with that number.
    ///
    /// # Errors
    /// All mistakes.
    pub fn check(&self) -> Result<(), Vec<BlockMistake>> {
        let mut mistakes = Vec::new();
        let mut known: Vec<&IndexExtent> = Vec::new();
        for (number, here) in self.indices.iter().enumerate() {
            let IndexExtent { index, extent, access, .. } = here;
            match known.iter().find(|other| other.index == *index) {
                None => known.push(here),
                Some(other) if other.extent == *extent => {}
                Some(IndexExtent { extent: first, access: there, .. }) => {
                    let message =
                        format!("index `{index}` has extent {extent} in `{access}`, but {first} in `{there}`");
                    let fits = extent.min(first);
                    let help = format!("use two indices, or state the range that fits: `for {index} in 0..{fits}`");
                    if mistakes.iter().all(|other: &BlockMistake| other.message != message) {
                        mistakes.push(BlockMistake { of: Some(number), message, help });
                    }
                }
            }
        }
        for (_, array) in
            self.unset.iter().filter(|(rounds, _)| self.rounds.get(*rounds).is_some_and(|one| one.times == 0))
        {
            let (message, help) = without_value(array);
            mistakes.push(BlockMistake { of: None, message, help: help.to_owned() });
        }
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
    }
}

/// The message and the help for an array that rounds alone write, of which there are none.
pub(crate) fn without_value(array: impl fmt::Display) -> (String, &'static str) {
    let message =
        format!("`{array}` has no value: the only statements that write it are in rounds, of which there are 0");
    (message, "write it before the rounds")
}
