//! Schedules of blocks: of several statements that run one after the other, in rounds or not.

use super::{Schedule, Subject};
use crate::error::{ErrorKind, LowerError};
use crate::sequence::in_rounds;
use polyshard_dsl::{BlockKernel, BlockMistake, BlockSpec, Step};
use polyshard_layout::Name;
use polyshard_planner::Sequence;
use polyshard_program::{Program, StepId};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// A block of several statements, whose [schedule](Schedule) is divided into those of its statements when it is lowered.
///
/// ```
/// use polyshard::prelude::*;
/// let steps = 3;
/// let power = kernel! {
///     fn power(M: [f64; 8, 8], v: [f64; 8]) -> v {
///         repeat(steps) {
///             let y[i] = M[i, j] * v[j];
///             let s = y[i] * y[i];
///             v[i] = y[i] / sqrt(s);
///         }
///     }
/// };
/// vars!(i, io, ii);
/// let mesh = Mesh::new([("x", 2)]);
/// let [x] = mesh.axes();
/// let program = power.distribute([i], [io], [ii], &mesh).shard("M", [i.at(x)]).shard("v", [i.at(x)]).lower()?;
/// let found = polyshard::spmd(2, |world| {
///     let m = DistArray::from_fn(world, program.sharding("M"), |at| if at[0] == at[1] { 2.0 } else { 0.0 })?;
///     let v = DistArray::filled(world, program.sharding("v"), 1.0)?;
///     Ok(program.run(world, &[&m, &v])?.block().to_vec())
/// })?;
/// assert!(found.concat().iter().all(|element| (element - 1.0 / 8f64.sqrt()).abs() < 1e-15));
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Block(Arc<BlockSpec>);

impl super::sealed::Sealed for Block {}

impl Subject for Block {
    fn add(&mut self, _: &Step, _: StepId, _: &Location<'static>) {}

    fn lower(schedule: &Schedule<Self>) -> Result<Program, LowerError> {
        let (spec, inner) = (schedule.block(), &schedule.inner);
        let mistake = |mistakes: Vec<BlockMistake>, is_of_step: bool| {
            let BlockMistake { of, message, help } =
                mistakes.into_iter().next().expect("there is one; this is a bug in polyshard");
            let of = of.filter(|_| is_of_step);
            schedule.blamed(of, ErrorKind::Block { block: spec.name, message, help })
        };
        spec.check().map_err(|mistakes| mistake(mistakes, false))?;
        let steps: Vec<Step> = schedule.steps().cloned().collect();
        let divided = spec.divided(&steps).map_err(|mistakes| mistake(mistakes, true))?;
        let lowered = spec.kernels.iter().zip(divided).map(|(BlockKernel { kernel, .. }, steps)| {
            let at = |number: Option<usize>| number.map_or(inner.at, |number| inner.steps[number].1);
            let numbers: Vec<Option<usize>> = steps.iter().map(|(_, number)| *number).collect();
            let start = Schedule::from_spec_at(kernel.clone(), inner.at);
            let own = steps.into_iter().fold(start, |schedule, (step, number)| schedule.apply_at(step, at(number)));
            own.lower().map_err(|error| {
                let number = error.step().and_then(|number| numbers[number - 1]);
                schedule.blamed(number, error.kind().clone())
            })
        });
        let programs = lowered.collect::<Result<Vec<_>, _>>()?;
        let append = |sequence: Sequence, number: usize| {
            let BlockKernel { inputs, output, previous, .. } = &spec.kernels[number];
            sequence.continued(&programs[number], inputs.iter().copied(), *output, *previous)
        };
        let sequence = in_rounds(append, 0..programs.len(), &spec.rounds);
        let sequence =
            spec.results.iter().fold(sequence, |sequence, (name, value)| sequence.keep(*value).call(*value, *name));
        sequence
            .build()
            .map_err(|error| schedule.blamed(None, ErrorKind::Sequence { block: spec.name, error: error.to_string() }))
    }
}

impl Schedule<Block> {
    /// Returns the schedule without steps of a block given as data, such as by `kernel!`; an error in it is reported by
    /// [`lower`](Self::lower).
    #[track_caller]
    pub fn from_block(spec: BlockSpec) -> Self {
        let inner = super::Inner { steps: Vec::new(), at: *Location::caller(), of: Block(Arc::new(spec)) };
        Self { inner: Arc::new(inner) }
    }

    /// Narrows the steps after it, up to [`of_all`](Self::of_all), to the statements that write this array. A `shard` always applies to all.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let block = kernel! {
    ///     fn f(A: [f64; 8, 6], z: [f64; 6]) -> (y: [f64; 8], s: f64) {
    ///         y[i] = A[i, j] * z[j];
    ///         s = y[i] * y[i];
    ///     }
    /// };
    /// let mesh = Mesh::new([("x", 2)]);
    /// let block = block.distribute(["i"], ["io"], ["ii"], &mesh).of("y").split("j", "jo", "ji", 2).of_all();
    /// assert_eq!(block.lower()?.nests().next().unwrap().row.steps[1], "split(j, jo, ji, 2)");
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`lower`](Self::lower) returns an error if no statement writes such an array.
    #[track_caller]
    pub fn of(self, tensor: impl Into<Name>) -> Self {
        self.apply(Step::Of { tensor: tensor.into() })
    }

    /// Ends [`of`](Self::of): the steps after it apply to all statements that have their loops.
    #[track_caller]
    pub fn of_all(self) -> Self {
        self.apply(Step::OfAll)
    }

    /// Returns the block.
    #[must_use]
    pub fn block(&self) -> &BlockSpec {
        &self.inner.of.0
    }

    /// The error `kind`, blamed on the step with this number, counted from 0, or on the whole.
    fn blamed(&self, step: Option<usize>, kind: ErrorKind) -> LowerError {
        self.blame(step.map(|step| StepId(step + 1)), kind)
    }
}

impl fmt::Display for Schedule<Block> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "block {}", self.block().name)?;
        self.steps().enumerate().try_for_each(|(i, step)| writeln!(f, "{:>2}  {step}", i + 1))
    }
}
