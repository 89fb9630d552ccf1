//! Schedules of blocks: of several statements that run one after the other, in rounds or not.

use super::{Schedule, Subject};
use crate::error::{ErrorKind, LowerError};
use crate::passes::{Member, PANEL, Passes, Refused};
use crate::sequence::in_rounds;
use polyshard_dsl::{BlockKernel, BlockMistake, BlockSpec, Clause, Statement, Step};
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
pub struct Block {
    spec: Arc<BlockSpec>,
    /// The bytes of a panel of a pass.
    panel: usize,
}

impl super::sealed::Sealed for Block {}

impl Subject for Block {
    fn add(&mut self, _: &Step, _: StepId, _: &Location<'static>) {}

    fn lower(schedule: &Schedule<Self>) -> Result<Program, LowerError> {
        let (spec, inner) = (schedule.block(), &schedule.inner);
        let divided = schedule.checked(BlockSpec::divided)?;
        let numbers: Vec<Vec<Option<usize>>> =
            divided.iter().map(|steps| steps.iter().map(|(_, number)| *number).collect()).collect();
        let steps: Vec<Step> = schedule.steps().cloned().collect();
        let members = spec.kernels.iter().zip(divided).zip(spec.apart(&steps)).map(|((kernel, steps), apart)| {
            let at = |number: Option<usize>| number.map_or(inner.at, |number| inner.steps[number].1);
            let start = Schedule::from_spec_at(kernel.kernel.clone(), inner.at);
            Member {
                schedule: steps.into_iter().fold(start, |schedule, (step, number)| schedule.apply_at(step, at(number))),
                inputs: kernel.inputs.clone(),
                output: kernel.output,
                statement: Statement { block: Some(0), apart },
            }
        });
        let mut members: Vec<Member> = members.collect();
        let passes = Passes::planned(&mut members, &spec.rounds, inner.of.panel);
        let blamed = |numbers: &[Option<usize>], error: &LowerError| {
            let number = error.step().and_then(|number| numbers.get(number - 1).copied().flatten());
            schedule.blamed(number, error.kind().clone())
        };
        let own = members.iter().zip(&numbers);
        let lowered = own.map(|(own, numbers)| own.schedule.lower().map_err(|error| blamed(numbers, &error)));
        let programs = lowered.collect::<Result<Vec<_>, _>>()?;
        let append = |sequence: Sequence, number: usize| {
            let BlockKernel { inputs, output, previous, .. } = &spec.kernels[number];
            sequence.continued(&programs[number], inputs.iter().copied(), *output, *previous)
        };
        let sequence = in_rounds(append, 0..programs.len(), &spec.rounds);
        let sequence =
            spec.results.iter().fold(sequence, |sequence, (name, value)| sequence.keep(*value).call(*value, *name));
        let parameters = spec.arrays[..spec.parameters].iter().copied();
        let sequence = sequence.in_order(parameters, spec.results.iter().map(|(name, _)| *name));
        let program = sequence.build().map_err(|error| {
            schedule.blamed(None, ErrorKind::Sequence { block: spec.name, error: error.to_string() })
        })?;
        passes.run_together(&members, program).map_err(|refused| match refused {
            Refused::Isl(error) => blamed(&[], &error),
            Refused::Step { kernel, step, why } => {
                let help = Passes::HELP.to_owned();
                schedule.blamed(numbers[kernel][step.0 - 1], ErrorKind::Block { block: spec.name, message: why, help })
            }
        })
    }
}

impl Schedule<Block> {
    /// Returns the schedule without steps of a block given as data, such as by `kernel!`; an error in it is reported by
    /// [`lower`](Self::lower).
    #[track_caller]
    pub fn from_block(spec: BlockSpec) -> Self {
        let inner = super::Inner {
            steps: Vec::new(),
            at: *Location::caller(),
            of: Block { spec: Arc::new(spec), panel: PANEL },
        };
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

    /// Makes the statements that write these arrays, which follow each other, run together in each iteration of the loop `at` and of the
    /// loops around it.
    ///
    /// ```text
    /// for t { S = ..; }  for t { A += S .. }
    ///   =>  together([S, A], t)
    /// for t { S = ..; A += S .. }
    /// ```
    ///
    /// Without this step, statements whose loops the schedule leaves alone join passes: they run together in panels that fit in a cache.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let block = kernel! {
    ///     fn f(A: [f64; 8, 6], z: [f64; 6]) -> (y: [f64; 8], w: [f64; 8]) {
    ///         y[i] = A[i, j] * z[j];
    ///         w[i] = y[i] * y[i];
    ///     }
    /// };
    /// let mesh = Mesh::new([("x", 2)]);
    /// let block = block.distribute(["i"], ["io"], ["ii"], &mesh).split("ii", "it", "in", 2).together(["y", "w"], "it");
    /// assert!(block.lower()?.to_string().contains("together with w = "));
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`lower`](Self::lower) returns an error if a statement reads what another one completes after the loops, on another rank, or in
    /// another iteration, or if one has other loops.
    #[track_caller]
    pub fn together<N: Into<Name>>(self, tensors: impl IntoIterator<Item = N>, at: impl Into<Name>) -> Self {
        self.apply(Step::Together { tensors: tensors.into_iter().map(Into::into).collect(), at: at.into() })
    }

    /// Makes the statements that write this array run alone, in no pass over memory with others. The bits of the results do not change.
    ///
    /// # Errors
    /// [`lower`](Self::lower) returns an error if no statement writes such an array.
    #[track_caller]
    pub fn apart(self, tensor: impl Into<Name>) -> Self {
        self.apply(Step::Apart { tensor: tensor.into() })
    }

    /// Makes the panels of passes hold about this many bytes of all arrays of a pass, instead of 1 MiB: as much as a core's cache.
    /// Sums are added up panel by panel, so this changes their rounding.
    pub fn in_panels_of(self, bytes: usize) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.inner);
        inner.of.panel = bytes;
        Self { inner: Arc::new(inner) }
    }

    /// Returns the block.
    #[must_use]
    pub fn block(&self) -> &BlockSpec {
        &self.inner.of.spec
    }

    /// Returns the shardings that a search keeps: those of all steps, by the versions of arrays.
    ///
    /// # Errors
    /// A mistake in the block, or the first step that is not a `shard`.
    pub fn kept(&self) -> Result<Vec<(Name, Vec<Clause>)>, LowerError> {
        self.checked(BlockSpec::kept)
    }

    /// What the steps mean for the block, which is checked first.
    fn checked<T>(&self, of: impl Fn(&BlockSpec, &[Step]) -> Result<T, Vec<BlockMistake>>) -> Result<T, LowerError> {
        let spec = self.block();
        let mistake = |mistakes: Vec<BlockMistake>, is_of_step: bool| {
            let BlockMistake { of, message, help } =
                mistakes.into_iter().next().expect("there is one; this is a bug in polyshard");
            let of = of.filter(|_| is_of_step);
            self.blamed(of, ErrorKind::Block { block: spec.name, message, help })
        };
        spec.check().map_err(|mistakes| mistake(mistakes, false))?;
        let steps: Vec<Step> = self.steps().cloned().collect();
        of(spec, &steps).map_err(|mistakes| mistake(mistakes, true))
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
