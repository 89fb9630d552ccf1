//! Schedules: an ordered list of steps, each checked when it is added.
//!
//! A schedule changes when and where statement instances run, never which ones run. The first step that
//! cannot be applied stops the chain; [`Schedule::lower`] reports it with its call site.

pub(crate) mod block;
mod data;
mod loops;

use crate::error::{ErrorKind, LowerError};
use crate::state::State;
use polyshard_dsl::{Clause, Scheduled, Stage, Step};
use polyshard_layout::{Mesh, Name};
use polyshard_program::{Kernel, KernelSpec, Program, StepId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// A kernel with the steps that lay it over a mesh; a value, cheap to clone and to fork.
///
/// Two schedules are equal if their kernels and steps are.
///
/// ```
/// use polyshard::prelude::*;
/// let matmul = kernel! {
///     fn matmul(A: [f64; 4, 6], B: [f64; 6, 8]) -> C: [f64; 4, 8] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// vars!(m, mo, mi);
/// let mesh = Mesh::new([("x", 2)]);
/// let rows = matmul.distribute([m], [mo], [mi], &mesh);
/// let steps: Vec<_> = rows.steps().map(Step::to_string).collect();
/// assert_eq!(steps, ["distribute([m], [mo], [mi], mesh(x: 2))"]);
/// assert_eq!(rows.lower()?.mesh(), &mesh);
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// A schedule of a [`Block`](crate::Block) has the same steps; each applies to all statements that have its loops.
#[derive(Clone, Debug)]
#[must_use = "a schedule is a value: use the one that the step returns"]
pub struct Schedule<S = OneKernel> {
    inner: Arc<Inner<S>>,
}

#[derive(Clone, Debug)]
struct Inner<S> {
    steps: Vec<(Step, Location<'static>)>,
    at: Location<'static>,
    of: S,
}

/// The subject of a schedule: [one kernel](OneKernel), or a [block](crate::Block) of several statements.
pub trait Subject: Clone + fmt::Debug + sealed::Sealed {
    /// Checks the step with this number, and notes its effect.
    #[doc(hidden)]
    fn add(&mut self, step: &Step, number: StepId, at: &Location<'static>);

    /// Lowers and proves a schedule.
    #[doc(hidden)]
    fn lower(schedule: &Schedule<Self>) -> Result<Program, LowerError>;
}

mod sealed {
    pub trait Sealed {}
}

impl sealed::Sealed for OneKernel {}

/// One kernel, whose steps are checked as they are added.
#[derive(Clone, Debug)]
pub struct OneKernel {
    state: Result<State, LowerError>,
    kernel: Option<Arc<Kernel>>,
}

impl OneKernel {
    /// Applies a step, unless an earlier one was wrong.
    pub(crate) fn apply(&mut self, step: &Step, number: StepId, at: &Location<'static>) {
        if let Ok(state) = &mut self.state
            && let Err(kind) = state.apply(step, number)
        {
            self.state = Err(LowerError::new(Some((number.0, step.to_string())), at, kind));
        }
    }
}

/// A schedule as plain data: it prints, serialises and replays.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::schedule::Trace;
/// let matmul = kernel! {
///     fn matmul(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// let schedule = matmul.split("k", "ko", "ki", 4).reorder(["ko", "m", "n", "ki"]);
/// let text = serde_json::to_string(&schedule.trace()?).unwrap();
/// let trace: Trace = serde_json::from_str(&text).unwrap();
/// assert_eq!(trace.replay(), schedule);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The kernel.
    pub kernel: Kernel,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

impl Trace {
    /// Returns the schedule that takes these steps.
    #[track_caller]
    pub fn replay(&self) -> Schedule {
        self.steps.iter().cloned().fold(Schedule::new(self.kernel.clone()), Schedule::apply)
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.kernel)?;
        self.steps.iter().enumerate().try_for_each(|(i, step)| writeln!(f, "{:>2}  {step}", i + 1))
    }
}

/// The kernel of a file's stage with the steps written after it; without steps if its schedule is still to be chosen.
impl From<&Stage> for Schedule {
    #[track_caller]
    fn from(stage: &Stage) -> Self {
        let schedule = Self::from_spec(stage.kernel.clone());
        match &stage.schedule {
            Scheduled::Auto(_) => schedule,
            Scheduled::Steps(steps) => steps.iter().fold(schedule, |schedule, (step, _)| schedule.apply(step.clone())),
        }
    }
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        let steps = |schedule: &Self| schedule.steps().cloned().collect::<Vec<_>>();
        self.inner.of.kernel == other.inner.of.kernel && steps(self) == steps(other)
    }
}

impl Schedule {
    /// Returns the schedule of `kernel` that has no steps: its loops in the order of its indices, on one rank.
    #[track_caller]
    pub fn new(kernel: Kernel) -> Self {
        let kernel = Arc::new(kernel);
        let of = OneKernel { state: Ok(State::new(kernel.clone())), kernel: Some(kernel) };
        Self { inner: Arc::new(Inner { steps: Vec::new(), at: *Location::caller(), of }) }
    }

    /// Returns the schedule without steps of a kernel given as data, such as by `kernel!`; an error in it is reported by
    /// [`lower`](Self::lower).
    #[track_caller]
    pub fn from_spec(spec: KernelSpec) -> Self {
        Self::from_spec_at(spec, *Location::caller())
    }

    /// As [`from_spec`](Self::from_spec), for a kernel that was written at a line.
    fn from_spec_at(spec: KernelSpec, at: Location<'static>) -> Self {
        let name = spec.name;
        match spec.check().map(Arc::new) {
            Ok(kernel) => {
                let of = OneKernel { state: Ok(State::new(kernel.clone())), kernel: Some(kernel) };
                Self { inner: Arc::new(Inner { steps: Vec::new(), at, of }) }
            }
            Err(error) => {
                let error = LowerError::new(None, &at, ErrorKind::Kernel { kernel: name, error: Box::new(error) });
                let of = OneKernel { state: Err(error), kernel: None };
                Self { inner: Arc::new(Inner { steps: Vec::new(), at, of }) }
            }
        }
    }

    /// Returns the kernel, or what is wrong with it.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn kernel(&self) -> Result<&Kernel, LowerError> {
        match (&self.inner.of.kernel, &self.inner.of.state) {
            (Some(kernel), _) => Ok(kernel),
            (None, Err(error)) => Err(error.clone()),
            (None, Ok(_)) => unreachable!("a schedule without kernel has an error; this is a bug in polyshard"),
        }
    }

    /// Returns the mesh of the steps so far.
    ///
    /// # Errors
    /// The first error of the kernel or of a step.
    pub fn mesh(&self) -> Result<&Mesh, LowerError> {
        self.state().map(|state| &state.mesh)
    }

    /// Returns the shardings that a search keeps: those of all steps.
    ///
    /// # Errors
    /// The first step that is not a `shard`.
    pub fn kept(&self) -> Result<Vec<(Name, Vec<Clause>)>, LowerError> {
        let kept = |(nth, step): (usize, &Step)| {
            step.sharding().ok_or_else(|| self.blame(Some(StepId(nth + 1)), ErrorKind::NotKept))
        };
        self.steps().enumerate().map(kept).collect()
    }

    /// Returns the kernel and the steps as plain data.
    ///
    /// # Errors
    /// The kernel's error. An illegal step is part of the trace.
    pub fn trace(&self) -> Result<Trace, LowerError> {
        Ok(Trace { kernel: self.kernel()?.clone(), steps: self.steps().cloned().collect() })
    }

    pub(crate) fn state(&self) -> Result<&State, LowerError> {
        self.inner.of.state.as_ref().map_err(LowerError::clone)
    }
}

impl<S: Subject> Schedule<S> {
    /// Returns the steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.inner.steps.iter().map(|(step, _)| step)
    }

    /// The error `kind`, blamed on the step with this number, or on the whole.
    pub(crate) fn blame(&self, number: Option<StepId>, kind: ErrorKind) -> LowerError {
        match number.and_then(|StepId(number)| Some((number, self.inner.steps.get(number - 1)?))) {
            Some((number, (step, at))) => LowerError::new(Some((number, step.to_string())), at, kind),
            None => LowerError::new(None, &self.inner.at, kind),
        }
    }

    /// Adds a step given as data; the methods named after steps do the same with typed arguments.
    #[track_caller]
    pub fn apply(self, step: Step) -> Self {
        self.apply_at(step, *Location::caller())
    }

    /// Adds a step that was written at a line.
    /// As [`apply`](Self::apply), for a step that follows from the kernel's place.
    pub(crate) fn apply_here(self, step: Step) -> Self {
        let at = self.inner.at;
        self.apply_at(step, at)
    }

    pub(crate) fn apply_at(self, step: Step, at: Location<'static>) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.inner);
        inner.steps.push((step, at));
        let number = inner.steps.len();
        inner.of.add(&inner.steps[number - 1].0, StepId(number), &at);
        Self { inner: Arc::new(inner) }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(kernel) = &self.inner.of.kernel {
            writeln!(f, "{kernel}")?;
        }
        self.steps().enumerate().try_for_each(|(i, step)| writeln!(f, "{:>2}  {step}", i + 1))
    }
}

/// The names that a step lists.
fn names<N: Into<Name>>(names: impl IntoIterator<Item = N>) -> Vec<Name> {
    names.into_iter().map(Into::into).collect()
}
