//! Kernels of a sequence, with the values that they read and write, and the rounds around them: how often each kernel
//! runs, and which values do not change.

use crate::SearchError;
use polyshard_dsl::{Rounds, Statement};
use polyshard_layout::Name;
use polyshard_machine::units::counted;
use polyshard_planner::Sequence;
use polyshard_polyhedral::{Schedule, in_rounds};
use polyshard_program::{Continued, Kernel, Program};
use std::ops::Range;

/// A kernel, perhaps with a schedule, and the names of the values that it reads and writes.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) schedule: Schedule,
    pub(crate) inputs: Vec<Name>,
    pub(crate) output: Name,
    pub(crate) continues: Option<Continued<Name>>,
    pub(crate) statement: Statement,
}

impl Stage {
    /// The values of the kernel's tensors, in the kernel's order.
    pub(crate) fn values(&self) -> impl Iterator<Item = Name> {
        self.inputs.iter().copied().chain([self.output])
    }

    /// The value of which the output has elements or adds to them, if any.
    pub(crate) fn continued(&self) -> Option<Name> {
        let is_whole = || self.schedule.kernel().is_ok_and(|kernel| kernel.written().is_none());
        self.continues.filter(|continues| continues.adds || !is_whole()).map(|continues| continues.array)
    }

    /// Whether the value must exist for it.
    pub(crate) fn reads(&self, value: Name) -> bool {
        self.inputs.contains(&value) || self.continued() == Some(value)
    }
}

/// The rounds around kernels of a sequence, and the carried values that are outputs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Around {
    pub(crate) rounds: Vec<Rounds>,
    pub(crate) kept: Vec<Name>,
    /// Outputs, and the names that they have in the program.
    pub(crate) called: Vec<(Name, Name)>,
    /// The order of inputs and that of outputs.
    pub(crate) order: [Vec<Name>; 2],
}

impl Around {
    /// The sequence of all stages, with these programs.
    pub(crate) fn sequence(&self, stages: &[Stage], programs: &[&Program]) -> Sequence {
        let append = |sequence: Sequence, nth: usize| {
            let Stage { inputs, output, continues, .. } = &stages[nth];
            sequence.continued(programs[nth], inputs.iter().copied(), *output, *continues)
        };
        let sequence = in_rounds(append, 0..programs.len(), &self.rounds);
        let sequence = self.kept.iter().fold(sequence, |sequence, value| sequence.keep(*value));
        let sequence = self.called.iter().fold(sequence, |sequence, (value, name)| sequence.call(*value, *name));
        let [inputs, outputs] = self.order.clone();
        sequence.in_order(inputs, outputs)
    }

    /// The name that a value has in the program as an output, unless another output has taken it.
    pub(crate) fn output_name(&self, value: Name) -> Option<Name> {
        let is_taken = self.called.iter().any(|(_, name)| *name == value);
        let called = self.called.iter().find(|(own, _)| *own == value).map(|(_, name)| *name);
        called.or_else(|| (!is_taken).then_some(value))
    }

    /// Whether a value is an input of the program.
    pub(crate) fn is_given(&self, stages: &[Stage], value: Name) -> bool {
        let mut carried = self.rounds.iter().flat_map(|rounds| &rounds.carried);
        let is_begun = carried.any(|carry| carry.value == value && carry.first != value);
        let reads = stages.iter().position(|stage| stage.reads(value));
        let writes = stages.iter().position(|stage| stage.output == value);
        !is_begun && reads.is_some_and(|reads| writes.is_none_or(|writes| reads <= writes))
    }

    /// Checks that the rounds contain some of this many kernels, and that overlapping rounds are nested, outer ones
    /// first.
    pub(crate) fn check(&self, kernels: usize) -> Result<(), SearchError> {
        for (nth, Rounds { kernels: own, .. }) in self.rounds.iter().enumerate() {
            let refused = |why: String| Err(SearchError::Rounds { first: own.start, end: own.end, why });
            if own.is_empty() {
                return refused("the range is empty; give the numbers of the kernels to repeat".to_owned());
            }
            if own.end > kernels {
                return refused(format!("the sequence has {}, numbered from 0", counted(kernels, "kernel")));
            }
            let apart = |other: &Range<usize>| other.end <= own.start || own.end <= other.start;
            let around = |other: &Range<usize>| other.start <= own.start && own.end <= other.end;
            let is_in_order = |other: &Range<usize>| around(other) || (apart(other) && other.start < own.start);
            if let Some(other) = self.rounds[..nth].iter().find(|other| !is_in_order(&other.kernels)) {
                let Range { start, end } = &other.kernels;
                let others = format!("{start}..{end} come before");
                return refused(format!("{others}; give rounds in the order of their kernels, outer ones first"));
            }
        }
        Ok(())
    }

    fn around(&self, nth: usize) -> impl Iterator<Item = &Rounds> {
        self.rounds.iter().filter(move |rounds| rounds.kernels.contains(&nth))
    }

    /// How often a stage runs at most.
    pub(crate) fn times(&self, nth: usize) -> f64 {
        self.around(nth).map(|rounds| rounds.times as f64).product()
    }

    /// How often a stage fetches data that does not change in its innermost rounds: once per run of those rounds.
    pub(crate) fn once(&self, nth: usize) -> f64 {
        let mut all: Vec<f64> = self.around(nth).map(|rounds| rounds.times as f64).collect();
        all.last_mut().into_iter().for_each(|innermost| *innermost = innermost.min(1.0));
        all.into_iter().product()
    }

    /// How often a value is moved for a stage that reads it: once in each of the rounds that change it.
    pub(crate) fn changes(&self, stages: &[Stage], nth: usize, value: Name) -> f64 {
        self.around(nth).filter(|rounds| changes(rounds, stages, value)).map(|rounds| rounds.times as f64).product()
    }

    /// The inputs of a stage's kernel that do not change in the innermost rounds around it.
    pub(crate) fn unchanged(&self, stages: &[Stage], nth: usize, kernel: &Kernel) -> Vec<Name> {
        let Some(innermost) = self.around(nth).last() else { return Vec::new() };
        let inputs = kernel.inputs().iter().zip(&stages[nth].inputs);
        inputs.filter(|(_, value)| !changes(innermost, stages, **value)).map(|(tensor, _)| tensor.name).collect()
    }

    /// The values that rounds ending with stage `last` carry to their next round, each with the value that replaces it,
    /// and how often.
    pub(crate) fn carried(&self, last: usize) -> impl Iterator<Item = (Name, Name, f64)> {
        let mut times = 1.0;
        let each = self.around(last).map(move |rounds| {
            times *= rounds.times as f64;
            (rounds, times)
        });
        let ended = each.filter(move |(rounds, _)| rounds.kernels.end == last + 1);
        ended.flat_map(|(rounds, times)| rounds.carried.iter().map(move |carry| (carry.value, carry.next, times)))
    }

    /// How often a stage certainly runs, since `until` may end rounds after the first, and how many of these runs may
    /// reuse unchanged data.
    pub(crate) fn least_times(&self, nth: usize) -> [f64; 2] {
        let times = |rounds: &Rounds| if rounds.until.is_some() { rounds.times.min(1) } else { rounds.times } as f64;
        let all: f64 = self.around(nth).map(times).product();
        [all, all - all.min(1.0)]
    }
}

/// Whether a value changes in each round.
fn changes(rounds: &Rounds, stages: &[Stage], value: Name) -> bool {
    let is_carried = rounds.carried.iter().any(|carry| carry.value == value);
    is_carried || stages[rounds.kernels.clone()].iter().any(|stage| stage.output == value)
}
