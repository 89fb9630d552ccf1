//! Errors of schedules and their lowering: which step, where it was written, what exists instead.
//! Tests: `tests/it/bad_input/schedules.rs`.

use polyshard_layout::{Mesh, Name, ShardingError, counted, did_you_mean, joined};
use polyshard_program::{KernelError, Pattern};
use std::fmt;
use std::panic::Location;

/// Why a schedule cannot be lowered: the step, its number and call site, and the kind of error.
///
/// `fn main() -> Result` prints `Debug`, so `Debug` is the message.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::schedule::ErrorKind;
/// let twice = kernel! { fn twice(A: [f32; 8]) -> B: [f32; 8] { B[i] = 2.0 * A[i] } };
/// let error = twice.split("i", "io", "ii", 4).split("i", "a", "b", 2).lower().unwrap_err();
/// assert_eq!(error.step(), Some(2));
/// assert!(matches!(error.kind(), ErrorKind::UnknownLoop { loops, .. } if loops.len() == 2));
/// assert_eq!(error.location().file(), file!());
/// ```
#[derive(Clone, PartialEq, thiserror::Error)]
#[error("{}{}\n  --> {at}", .step.as_ref().map(|(number, text)| format!("schedule step {number}, `{text}`: ")).unwrap_or_default(), .kind)]
pub struct LowerError {
    step: Option<(usize, String)>,
    at: Location<'static>,
    kind: Box<ErrorKind>,
}

impl LowerError {
    pub(crate) fn new(step: Option<(usize, String)>, at: &Location<'static>, kind: ErrorKind) -> Self {
        Self { step, at: *at, kind: Box::new(kind) }
    }

    /// Returns the number of the step that is wrong, counted from 1, if it is one step.
    #[must_use]
    pub fn step(&self) -> Option<usize> {
        self.step.as_ref().map(|step| step.0)
    }

    /// Returns the kind of error.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Returns the caller's line that wrote the step.
    #[must_use]
    pub fn location(&self) -> &Location<'static> {
        &self.at
    }

    /// Returns what is wrong, without step and call site.
    #[must_use]
    pub fn message(&self) -> String {
        self.kind.message()
    }

    /// Returns the valid names, or how to fix it.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        self.kind.help()
    }
}

impl fmt::Debug for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What is wrong with a schedule. In its text, help follows the first semicolon: the valid names, or what to do.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::schedule::ErrorKind;
/// let twice = kernel! { fn twice(A: [f32; 8]) -> B: [f32; 8] { B[i] = 2.0 * A[i] } };
/// let error = twice.split("i", "io", "ii", 0).lower().unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::BadCount { count: 0, .. }));
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ErrorKind {
    /// The kernel itself is wrong.
    #[error("kernel `{kernel}`: {error}")]
    Kernel { kernel: Name, error: Box<KernelError> },
    /// A block of several statements is wrong as a whole, or a step of its schedule is.
    #[error("block `{block}`: {message}; {help}")]
    Block { block: Name, message: String, help: String },
    /// A step of blocks on a kernel of one statement.
    #[error("`{step}` selects statements of a block, but this is a kernel of one statement; leave it out")]
    OneStatement { step: &'static str },
    /// A step that no search keeps.
    #[error("a search does not keep this step; leave it out, or write the whole schedule: `shard` alone is kept")]
    NotKept,
    /// The statements of a block do not fit together.
    #[error("block `{block}`: {error}")]
    Sequence { block: Name, error: String },
    /// There is no such loop; the loops, outermost first.
    #[error("no loop `{name}`; {}", known("loops", name, loops))]
    UnknownLoop { name: Name, loops: Vec<Name> },
    /// There is no such tensor.
    #[error("no tensor `{name}`; {}", known("tensors", name, tensors))]
    UnknownTensor { name: Name, tensors: Vec<Name> },
    /// There is no such axis.
    #[error("no axis `{name}`; {}", known("axes", name, axes))]
    UnknownAxis { name: Name, axes: Vec<Name> },
    /// A new loop has a name that is in use.
    #[error("the name `{name}` is taken by {by}; give the new loop another")]
    NameTaken { name: Name, by: &'static str },
    /// A name that cannot be written in a program.
    #[error("`{name}` is not a name for a {what}; names are letters, digits and `_`, and do not start with a digit")]
    BadName { name: Name, what: &'static str },
    /// A count of 0, or beyond 2^62.
    #[error("cannot use {what} {count}; give a number from 1 to 2^62")]
    BadCount { what: &'static str, count: usize },
    /// A pipeline of no iterations, or of too many.
    #[error(
        "transfers cannot begin {} ahead; give a number from 1 to {most}; 1 is enough where panels are equal",
        counted(*depth, "iteration")
    )]
    BadDepth { depth: usize, most: usize },
    /// A list names a loop twice.
    #[error("lists `{name}` twice; list each loop once")]
    ListedTwice { name: Name },
    /// The loop is bound to a mesh axis.
    #[error("loop `{name}` is bound to mesh axis `{axis}` and cannot be moved or changed; {instead}")]
    Distributed { name: Name, axis: Name, instead: &'static str },
    /// The loop is inside the leaf.
    #[error("loop `{name}` is tensorized, so it is inside the leaf; {instead}")]
    Tensorized { name: Name, instead: &'static str },
    /// The loop carries a `communicate`.
    #[error("`{tensor}` is communicated at loop `{name}`, which would be gone; {method} before `communicate`")]
    Communicated { name: Name, tensor: Name, method: &'static str },
    /// A loop of the leaf carries a `communicate`.
    #[error(
        "loop `{name}` cannot be tensorized, since `{tensor}` is communicated at it; \
         leave `{name}` out of `tensorize`, or communicate `{tensor}` at a loop outside the leaf"
    )]
    CommunicatedInLeaf { name: Name, tensor: Name },
    /// Two loops to fuse are not nested directly, `j` inside `i`; the loops, outermost first.
    #[error("loop `{j}` is not directly inside `{i}`; the loops are {loops}; reorder them first")]
    NotAdjacent { i: Name, j: Name, loops: String },
    /// Lists of a `distribute` have different lengths.
    #[error(
        "distributes {} into {outer} outer and {inner} inner over {} ({mesh}); {}",
        counted(*loops, "loop"), counted(mesh.ndim(), "axis"), lists([*loops, *outer, *inner], mesh.ndim())
    )]
    DistributeCounts { loops: usize, outer: usize, inner: usize, mesh: Mesh },
    /// Two steps use one axis.
    #[error(
        "axis `{axis}` is an axis of the mesh already; distribute over other axes, or give the inner mesh its own names"
    )]
    AxisDistributed { axis: Name },
    /// Ranks that compute copies of the output do not own them.
    #[error(
        "all ranks along `{axis}` compute `{tensor}`, but it is sharded {sharding}; each rank has to own its result: \
         leave `{axis}` out of the sharding of `{tensor}`, or distribute a loop over `{axis}` instead of `replicate`"
    )]
    CopiesApart { tensor: Name, axis: Name, sharding: String },
    /// An input of partial sums: along these axes each coordinate holds a term.
    #[error(
        "`{tensor}` would be read as partial sums along {axes}; `redistribute` it to a sharding without `partial` \
         first, and give that sharding here"
    )]
    PartialInput { tensor: Name, axes: String },
    /// Partial sums of an output that is not a sum: along these axes each coordinate would hold a term.
    #[error("`{tensor} {assign} ..` is not a sum, so it cannot hold partial sums along {axes}; leave `partial` out")]
    NoSum { tensor: Name, assign: String, axes: String },
    /// A step for the loop over the elements of records.
    #[error("`{name}` runs over the elements of a record, and stays whole; leave it out of the schedule")]
    RecordLoop { name: Name },
    /// A sharding that divides records.
    #[error("`{tensor}` holds records along its last dimension, which stays whole; shard another dimension")]
    RecordDivided { tensor: Name },
    /// Records are combined in rank order only.
    #[error("terms of `{tensor} {assign} ..` are combined in rank order; leave `reassociate` out")]
    RecordOrder { tensor: Name, assign: String },
    /// Nothing is communicated at a loop that is pipelined; where the tensors are communicated.
    #[error(
        "nothing is communicated at `{name}`, so there is nothing to pipeline; communicate a tensor at `{name}`; {tensors}"
    )]
    NothingAhead { name: Name, tensors: String },
    /// A transfer that cannot begin that many iterations ahead.
    #[error("the transfer of `{tensor}`, {pattern}, cannot be pipelined with depth {depth}: {why}; {help}")]
    NotAhead { tensor: Name, pattern: String, depth: usize, why: &'static str, help: &'static str },
    /// An input that cannot be in flight while the interior of the leaf is computed.
    #[error(
        "the interior cannot be computed before `{tensor}` has arrived: {why}; leave `interior_first` out, or \
         communicate `{tensor}` as a halo at the innermost loop around a nest"
    )]
    NoInterior { tensor: Name, why: &'static str },
    /// A kernel that cannot be applied several times between two transfers.
    #[error(
        "the kernel cannot be applied several times with one halo of `{tensor}`: {why}; apply it once, and `repeat` \
         that; or make it a stencil in blocks at least as wide as the halo"
    )]
    NoTimeSteps { tensor: Name, why: &'static str },
    /// A number of time steps that is 0 or too large.
    #[error("a halo cannot serve {}; give a number from 1 to {most}", counted(*steps, "time step"))]
    BadTimeSteps { steps: usize, most: usize },
    /// The sums of an input are to be reassociated.
    #[error("`{tensor}` is an input, so ranks do not sum it; reassociate the sums of the output, `{output}`")]
    NotSummed { tensor: Name, output: Name },
    /// A loop is rotated by one that is not outside it; the loops, outermost first.
    #[error(
        "cannot rotate `{name}` by `{by}`, which is not outside it; reorder it outside first: the loops are {loops}"
    )]
    NotOutside { name: Name, by: Name, loops: String },
    /// An invalid sharding.
    #[error("{0}")]
    Sharding(ShardingError),
    /// A step needs the mesh, which `distribute` has not defined yet.
    #[error("the mesh is not defined yet; call `distribute` first")]
    NoMesh,
    /// This variable indexes no dimension of the tensor alone, or several; the count is "no dimension" or "more than one dimension".
    #[error(
        "{count} of `{tensor}` is indexed by `{name}` alone; name it by number, as `dim(0)`; `{tensor}` is read or written \
         as {accesses}"
    )]
    AmbiguousDim { tensor: Name, name: Name, count: &'static str, accesses: String },
    /// A step that may occur once per tensor or schedule occurs twice; `first` is the number of the earlier one.
    #[error("{what} in step {first}; remove one of the two")]
    Twice { what: String, first: usize },
    /// A tensor without a sharding is communicated.
    #[error(
        "`{tensor}` has no sharding, so there is nothing to communicate; \
         `shard` it first (a tensor that no step shards is replicated)"
    )]
    NoSharding { tensor: Name },
    /// Tensorized loops are not the innermost ones.
    #[error("the loops {loops} are not the innermost ones: `{inside}` is inside; reorder it out, or tensorize it too")]
    NotInnermost { loops: String, inside: Name },
    /// The tensorized instances are not a box.
    #[error(
        "the instances that loops {loops} run for one tile are not a box in {vars}; leave out the fused or oddly split ones"
    )]
    NotABox { loops: String, vars: String },
    /// The leaf is of another kind than asserted.
    #[error("the leaf is a {found}, not a {asserted}: {why}")]
    OtherLeaf { found: String, asserted: String, why: String },
    /// A named leaf cannot take the operands as tiles.
    #[error("leaf `{leaf}` cannot run here: {why}; {help}")]
    NoTiles { leaf: Name, why: String, help: &'static str },
    /// A transfer has another pattern than expected.
    #[error("the transfer of `{tensor}` is {found}, not {expected}; `explain()` prints the tests that led to it")]
    Unexpected { tensor: Name, found: String, expected: Pattern },
    /// Less of a transfer can be hidden than expected.
    #[error(
        "at most {:.1} % of the transfer of `{tensor}`, {pattern}, can be hidden, not {:.1} %: {why}; {help}",
        100.0 * hidden, 100.0 * expected
    )]
    LittleOverlap { tensor: Name, pattern: String, hidden: f64, expected: f64, why: String, help: String },
    /// Overlap is expected of a tensor that is not moved.
    #[error("`{tensor}` is not moved, since each rank owns all that it uses of it; leave `expect_overlap` out")]
    NotMoved { tensor: Name },
    /// An expected share that is not from 0 to 1.
    #[error("{share} is not a share of a transfer; give a number from 0 to 1: 0.8 is four fifths")]
    BadShare { share: f64 },
    /// Tiles or iterations whose number does not fit in 63 bits.
    #[error("{what} has more elements than fit in 63 bits; use smaller tiles")]
    TooLarge { what: String },
    /// A loop, or an index expression with its tensor, is too large for sums of a few to fit 64 bits.
    #[error("{what} exceeds 2^60, so sums of indices might overflow; use smaller extents, tiles and parts")]
    OutOfReach { what: String },
    /// More ranks than MPI can number, over the mesh with the axes of all levels.
    #[error("the mesh ({mesh}) has more than 2^31 - 1 ranks, the most that MPI can number; use smaller extents")]
    TooManyRanks { mesh: String },
    /// isl failed or gave up.
    #[error("the polyhedral library failed while it decided {what}: {message}")]
    Isl { what: String, message: String },
    /// A proof failed: not the caller's fault.
    #[error(
        "cannot prove {what} of this schedule, so it is not run; this is a bug in polyshard, please report it with the trace:\n{trace}"
    )]
    Unproved { what: String, trace: String },
}

// The reasons of other libraries and rules may hold semicolons.
polyshard_layout::message_and_help!(ErrorKind, without help: Self::OtherLeaf { .. } | Self::Isl { .. });

/// The help for an unknown name.
fn known(many: &str, name: &Name, names: &[Name]) -> String {
    let meant = did_you_mean(name.as_str(), names.iter().copied().map(Name::as_str));
    format!("{meant}the {many} are {}", joined(names, ", "))
}

/// The help for a `distribute` with the wrong number of loops.
fn lists([loops, outer, inner]: [usize; 3], axes: usize) -> String {
    match axes.checked_sub(loops) {
        Some(more @ 1..) if [outer, inner] == [loops; 2] && loops > 0 => {
            let fitting = counted(loops, "axis");
            format!("list {more} more, so that each axis has a loop, or distribute over a mesh of {fitting}")
        }
        _ => "list one loop, one outer and one inner loop per axis".into(),
    }
}
