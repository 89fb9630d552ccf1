//! Schedules: an ordered list of steps, each checked when it is added.
//!
//! A schedule changes when and where statement instances run, never which ones run. The first step that
//! cannot be applied stops the chain; [`Schedule::lower`] reports it with its call site.

use crate::error::{ErrorKind, LowerError};
use crate::kernel::{Kernel, KernelSpec};
use crate::program::Program;
use crate::state::State;
use crate::step::{Clause, LeafKind, Pattern, Step};
use polyshard_layout::{Mesh, Name};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// A kernel with the steps that lay it over a mesh; a value, cheap to clone and to fork.
///
/// Two schedules are equal if their kernels and steps are.
#[derive(Clone, Debug)]
pub struct Schedule {
    inner: Arc<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    steps: Vec<(Step, Location<'static>)>,
    at: Location<'static>,
    state: Result<State, LowerError>,
    kernel: Option<Arc<Kernel>>,
}

/// A schedule as plain data: it prints, serialises and replays.
///
/// ```
/// # use polyshard_polyhedral::*;
/// # use polyshard_layout::{Mesh, Name};
/// # let spec = example::matmul(8, 8, 8);
/// let schedule = Schedule::from_spec(spec).split("k", "ko", "ki", 4).reorder(["ko", "m", "n", "ki"]);
/// let text = serde_json::to_string(&schedule.trace()?).unwrap();
/// let trace: Trace = serde_json::from_str(&text).unwrap();
/// assert_eq!(trace.replay(), schedule);
/// # Ok::<(), LowerError>(())
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
    #[must_use]
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

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        let steps = |schedule: &Self| schedule.steps().cloned().collect::<Vec<_>>();
        self.inner.kernel == other.inner.kernel && steps(self) == steps(other)
    }
}

impl Schedule {
    /// Returns the schedule of `kernel` that has no steps: its loops in the order of its indices, on one rank.
    #[track_caller]
    #[must_use]
    pub fn new(kernel: Kernel) -> Self {
        let kernel = Arc::new(kernel);
        let state = Ok(State::new(kernel.clone()));
        Self { inner: Arc::new(Inner { steps: Vec::new(), at: *Location::caller(), state, kernel: Some(kernel) }) }
    }

    /// Returns the schedule without steps of what `kernel!` wrote; an error in it is reported by [`lower`](Self::lower).
    #[track_caller]
    #[must_use]
    pub fn from_spec(spec: KernelSpec) -> Self {
        let name = spec.name;
        match spec.check() {
            Ok(kernel) => Self::new(kernel),
            Err(error) => {
                let at = *Location::caller();
                let error = LowerError::new(None, &at, ErrorKind::Kernel { kernel: name, error: Box::new(error) });
                Self { inner: Arc::new(Inner { steps: Vec::new(), at, state: Err(error), kernel: None }) }
            }
        }
    }

    /// Returns the kernel, or what is wrong with it.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn kernel(&self) -> Result<&Kernel, LowerError> {
        match (&self.inner.kernel, &self.inner.state) {
            (Some(kernel), _) => Ok(kernel),
            (None, Err(error)) => Err(error.clone()),
            (None, Ok(_)) => unreachable!("a schedule without kernel has an error; this is a bug of polyshard"),
        }
    }

    /// Returns the steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.inner.steps.iter().map(|(step, _)| step)
    }

    /// Returns the mesh of the steps so far.
    ///
    /// # Errors
    /// The first error of the kernel or of a step.
    pub fn mesh(&self) -> Result<&Mesh, LowerError> {
        self.state().map(|state| &state.mesh)
    }

    /// Returns the kernel and the steps as plain data.
    ///
    /// # Errors
    /// The kernel's error. An illegal step is part of the trace.
    pub fn trace(&self) -> Result<Trace, LowerError> {
        Ok(Trace { kernel: self.kernel()?.clone(), steps: self.steps().cloned().collect() })
    }

    /// Checks the schedule, derives and classifies its communication, proves it, and returns the program.
    ///
    /// # Errors
    /// The first step that cannot be applied, with its number and call site; or what makes the whole
    /// illegal, with the step that is to blame.
    pub fn lower(&self) -> Result<Program, LowerError> {
        crate::lower::lower(self)
    }

    pub(crate) fn state(&self) -> Result<&State, LowerError> {
        self.inner.state.as_ref().map_err(LowerError::clone)
    }

    /// The error `kind`, blamed on the step with this number, or on the whole.
    pub(crate) fn blame(&self, number: Option<usize>, kind: ErrorKind) -> LowerError {
        match number.and_then(|number| Some((number, self.inner.steps.get(number - 1)?))) {
            Some((number, (step, at))) => LowerError::new(Some((number, step.to_string())), at, kind),
            None => LowerError::new(None, &self.inner.at, kind),
        }
    }

    /// Adds a step given as data; the methods below are the same with types.
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn apply(self, step: Step) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.inner);
        let at = *Location::caller();
        inner.steps.push((step, at));
        let number = inner.steps.len();
        let step = &inner.steps[number - 1].0;
        if let Ok(state) = &mut inner.state
            && let Err(kind) = state.apply(step, number)
        {
            inner.state = Err(LowerError::new(Some((number, step.to_string())), &at, kind));
        }
        Self { inner: Arc::new(inner) }
    }

    /// Replaces loop `i` by `outer` and `inner`, where `inner` runs over at most `size` iterations.
    ///
    /// ```text
    /// for i in 0..n { S(i) }
    ///   =>
    /// for outer in 0..ceil(n / size) {
    ///     for inner in 0..min(size, n - outer*size) { S(outer*size + inner) }
    /// }
    /// ```
    ///
    /// Halide and TACO call this `split`, Exo `divide_loop`. To fix the number of pieces instead of their
    /// size, use [`divide`](Self::divide).
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn split(self, i: impl Into<Name>, outer: impl Into<Name>, inner: impl Into<Name>, size: usize) -> Self {
        self.apply(Step::Split { i: i.into(), outer: outer.into(), inner: inner.into(), size })
    }

    /// Replaces loop `i` by `outer` and `inner`, where `outer` has `parts` iterations.
    ///
    /// ```text
    /// for i in 0..n { S(i) }
    ///   =>                              b = ceil(n / parts)
    /// for outer in 0..parts {
    ///     for inner in 0..min(b, n - outer*b) { S(outer*b + inner) }
    /// }
    /// ```
    ///
    /// The last tiles may be short or empty: 5 iterations in 4 parts are 2, 2, 1 and 0. TACO and DISTAL
    /// call this `divide`.
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn divide(self, i: impl Into<Name>, outer: impl Into<Name>, inner: impl Into<Name>, parts: usize) -> Self {
        self.apply(Step::Divide { i: i.into(), outer: outer.into(), inner: inner.into(), parts })
    }

    /// Puts the listed loops, among the places they hold, into the order given.
    ///
    /// ```text
    /// for i { for j { for k { S } } }
    ///   =>  reorder([k, i])
    /// for k { for j { for i { S } } }
    /// ```
    ///
    /// A distributed loop may be listed where it stands, but keeps its place.
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn reorder<N: Into<Name>>(self, order: impl IntoIterator<Item = N>) -> Self {
        self.apply(Step::Reorder { order: names(order) })
    }

    /// Replaces loop `i` and loop `j` directly inside it by one.
    ///
    /// ```text
    /// for i in 0..m { for j in 0..n { S(i, j) } }
    ///   =>
    /// for fused in 0..m*n { S(fused / n, fused % n) }
    /// ```
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn fuse(self, i: impl Into<Name>, j: impl Into<Name>, fused: impl Into<Name>) -> Self {
        self.apply(Step::Fuse { i: i.into(), j: j.into(), fused: fused.into() })
    }

    /// Divides each loop by its mesh axis and binds the outer loops, outermost and in mesh order, to the axes.
    ///
    /// ```text
    /// for i in 0..m { for j in 0..n { S(i, j) } }
    ///   =>  distribute([i, j], [io, jo], [ii, ji], mesh(x, y)), on the rank at (x, y)
    /// for ii in 0..ceil(m / x) { for ji in 0..ceil(n / y) { S(x*ceil(m / x) + ii, y*ceil(n / y) + ji) } }
    /// ```
    ///
    /// May be used again, over an inner mesh with axes of its own. After DISTAL's `distribute`.
    ///
    /// Each rank gets one block of iterations. Two splits before make it block-cyclic, ScaLAPACK's distribution: below, rank
    /// `x` has the blocks `x`, `x + 4`, .. of 16 rows. A transfer outside of the loop over rounds, `mt`, takes all blocks of
    /// a rank at once, without what is between them.
    ///
    /// ```
    /// use polyshard_layout::Mesh;
    /// use polyshard_polyhedral::{Schedule, example};
    /// let rows = Schedule::from_spec(example::matmul(200, 30, 40))
    ///     .split("m", "mb", "mi", 16) // blocks of 16 rows
    ///     .split("mb", "mt", "mp", 4) // rounds of a block for each rank
    ///     .distribute(["mp"], ["mo"], ["ml"], &Mesh::new([("x", 4)]))
    ///     .lower()?;
    /// let tile = "tile [56, 40] of A[16*x..min(200, 16*x + 208) by blocks of 16 every 64, 0..40]";
    /// assert!(rows.explain().contains(tile), "{}", rows.explain());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn distribute<A: Into<Name>, B: Into<Name>, C: Into<Name>>(
        self,
        loops: impl IntoIterator<Item = A>,
        outer: impl IntoIterator<Item = B>,
        inner: impl IntoIterator<Item = C>,
        mesh: &Mesh,
    ) -> Self {
        let (loops, outer, inner) = (names(loops), names(outer), names(inner));
        self.apply(Step::Distribute { loops, outer, inner, mesh: mesh.clone() })
    }

    /// Lets loop `t` start elsewhere on each rank: it visits `(t + sum of by) % extent`.
    ///
    /// ```text
    /// for p { for t in 0..n { S(p, t) } }
    ///   =>  rotate(t, [p])
    /// for p { for t in 0..n { S(p, (t + p) % n) } }
    /// ```
    ///
    /// A permutation of the loop's iterations, for all operands alike; `by` are loops outside it. DISTAL's
    /// code calls this `stagger`.
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn rotate<N: Into<Name>>(self, t: impl Into<Name>, by: impl IntoIterator<Item = N>) -> Self {
        self.apply(Step::Rotate { t: t.into(), by: names(by) })
    }

    /// Says which ranks own which elements of `tensor` before the program starts, or after it ends for the output.
    ///
    /// ```text
    /// shard("A", [m.at(x), k.at(y)])                block (x, y) of A
    /// shard("A", [m.at([x, y])])                    block x*|y| + y of rows
    /// shard("A", [m.at(x), k.at((x + y) % 8)])      skewed, as Cannon's algorithm starts
    /// shard("A", [m.cyclic(x, 4)])                  block-cyclic, in blocks of 4 rows
    /// shard("A", [m.at(x), pin(z, 0)])              on the face z = 0 alone
    /// ```
    ///
    /// An axis that is not named replicates. Placement, or tensor distribution notation, in DISTAL.
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn shard(self, tensor: impl Into<Name>, clauses: impl IntoIterator<Item = Clause>) -> Self {
        self.apply(Step::Shard { tensor: tensor.into(), clauses: clauses.into_iter().collect() })
    }

    /// Fetches what one iteration of loop `at` reads of `tensor` at the iteration's head; writes the output back at its tail.
    ///
    /// ```text
    /// for at { S(A) }
    ///   =>
    /// for at { tile = what S reads of A; S(tile) }
    /// ```
    ///
    /// Chooses granularity, never correctness: a tensor without this step is fetched before the first
    /// serial loop, as it is at a distributed loop. A loop that does not change what is read is skipped.
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn communicate(self, tensor: impl Into<Name>, at: impl Into<Name>) -> Self {
        self.apply(Step::Communicate { tensor: tensor.into(), at: at.into() })
    }

    /// Makes the listed loops, the innermost ones, one leaf operation on tiles.
    ///
    /// ```text
    /// for mi { for ni { for ki { C[..] += A[..] * B[..] } } }
    ///   =>
    /// C_tile += A_tile @ B_tile
    /// ```
    ///
    /// The operation is recognised from the accesses, in any transposition. Exo calls this `replace`. Sums of products of
    /// three tensors or more become a sequence of products of two, in the order that is estimated to be fastest, with
    /// intermediate results of at most 1 MiB, unless one nest is faster.
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn tensorize<N: Into<Name>>(self, loops: impl IntoIterator<Item = N>) -> Self {
        self.apply(Step::Tensorize { loops: names(loops), kind: None })
    }

    /// As [`tensorize`](Self::tensorize), and refuses a leaf of another kind.
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn tensorize_as<N: Into<Name>>(self, loops: impl IntoIterator<Item = N>, kind: LeafKind) -> Self {
        self.apply(Step::Tensorize { loops: names(loops), kind: Some(kind) })
    }

    /// Refuses the schedule unless the transfer of `tensor` has this pattern. An input whose accesses touch several
    /// regions has a transfer for each: then all of them have it, but for those that are local.
    #[track_caller]
    #[must_use = "a schedule is a value: use what the step returns"]
    pub fn expect(self, tensor: impl Into<Name>, pattern: Pattern) -> Self {
        self.apply(Step::Expect { tensor: tensor.into(), pattern })
    }
}

fn names<N: Into<Name>>(names: impl IntoIterator<Item = N>) -> Vec<Name> {
    names.into_iter().map(Into::into).collect()
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(kernel) = &self.inner.kernel {
            writeln!(f, "{kernel}")?;
        }
        self.steps().enumerate().try_for_each(|(i, step)| writeln!(f, "{:>2}  {step}", i + 1))
    }
}
