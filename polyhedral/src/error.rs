//! Errors of schedules and their lowering: which step, where it was written, what exists instead.

use polyshard_layout::{Name, ShardingError};
use polyshard_program::{KernelError, Pattern};
use std::fmt;
use std::panic::Location;

/// Why a schedule has no program: the step, its number and call site, and what is wrong.
///
/// `fn main() -> Result` prints `Debug`, so `Debug` is the message.
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

    /// Returns the number of the step that is wrong, from 1, if it is one step.
    #[must_use]
    pub fn step(&self) -> Option<usize> {
        self.step.as_ref().map(|step| step.0)
    }

    /// Returns what is wrong, as a value.
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
        self.kind.to_string()
    }
}

impl fmt::Debug for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The kernel itself is wrong.
    #[error("kernel `{kernel}`: {error}")]
    Kernel {
        /// The kernel.
        kernel: Name,
        /// What is wrong with it.
        error: Box<KernelError>,
    },
    /// There is no such loop.
    #[error("no loop `{name}`; the loops are {loops}")]
    UnknownLoop {
        /// The name asked for.
        name: Name,
        /// The loops, outermost first.
        loops: String,
    },
    /// There is no such tensor.
    #[error("no tensor `{name}`; the tensors are {tensors}")]
    UnknownTensor {
        /// The name asked for.
        name: Name,
        /// The kernel's tensors.
        tensors: String,
    },
    /// There is no such axis.
    #[error("no axis `{name}`; the axes are {axes}")]
    UnknownAxis {
        /// The name asked for.
        name: Name,
        /// The mesh's axes.
        axes: String,
    },
    /// A new loop has a name that is in use.
    #[error("the name `{name}` is taken by {by}; give the new loop another")]
    NameTaken {
        /// The name.
        name: Name,
        /// What has it.
        by: &'static str,
    },
    /// A name that cannot be written in a program.
    #[error("`{name}` is not a name for a {what}; names are letters, digits and `_`, and do not start with a digit")]
    BadName {
        /// The name.
        name: Name,
        /// What it was given to.
        what: &'static str,
    },
    /// A count of 0, or beyond 63 bits.
    #[error("cannot use {what} {count}; give a number from 1 to 2^62")]
    BadCount {
        /// What the count is of.
        what: &'static str,
        /// The count.
        count: usize,
    },
    /// A list names a loop twice.
    #[error("lists `{name}` twice; list each loop once")]
    ListedTwice {
        /// The loop.
        name: Name,
    },
    /// The loop is bound to a mesh axis.
    #[error("loop `{name}` is bound to mesh axis `{axis}` and cannot be moved or changed; {instead}")]
    Distributed {
        /// The loop.
        name: Name,
        /// The axis it is bound to.
        axis: Name,
        /// What to do.
        instead: &'static str,
    },
    /// The loop is inside the leaf.
    #[error("loop `{name}` is tensorized, so it is inside the leaf; {instead}")]
    Tensorized {
        /// The loop.
        name: Name,
        /// What to do.
        instead: &'static str,
    },
    /// The loop carries a `communicate`.
    #[error("`{tensor}` is communicated at loop `{name}`, which would be gone; {method} before `communicate`")]
    Communicated {
        /// The loop.
        name: Name,
        /// The tensor.
        tensor: Name,
        /// The step's method.
        method: &'static str,
    },
    /// A loop of the leaf carries a `communicate`.
    #[error(
        "loop `{name}` cannot be tensorized, since `{tensor}` is communicated at it; leave `{name}` out of `tensorize`, or communicate `{tensor}` at a loop outside the leaf"
    )]
    CommunicatedInLeaf {
        /// The loop.
        name: Name,
        /// The tensor.
        tensor: Name,
    },
    /// Two loops to fuse are not nested directly.
    #[error("loop `{j}` is not directly inside `{i}`; the loops are {loops}; reorder them first")]
    NotAdjacent {
        /// The outer loop.
        i: Name,
        /// The inner loop.
        j: Name,
        /// The loops, outermost first.
        loops: String,
    },
    /// Lists of a `distribute` have different lengths.
    #[error(
        "distributes {loops} loops into {outer} outer and {inner} inner ones over {axes} axes; give one of each per axis"
    )]
    DistributeCounts {
        /// Loops listed.
        loops: usize,
        /// Outer loops listed.
        outer: usize,
        /// Inner loops listed.
        inner: usize,
        /// Axes of the mesh.
        axes: usize,
    },
    /// Two `distribute` steps use one axis.
    #[error(
        "axis `{axis}` already has a distributed loop; distribute over other axes, or give the inner mesh its own names"
    )]
    AxisDistributed {
        /// The axis.
        axis: Name,
    },
    /// An input whose sums are still open.
    #[error(
        "`{tensor}` would be read while its sums are open along {axes}; close them first: `redistribute` it to a \
         sharding without `partial`, and shard it so here"
    )]
    PartialInput {
        /// The tensor.
        tensor: Name,
        /// The axes along which each coordinate holds a term.
        axes: String,
    },
    /// An output that is no sum, and is to hold partial sums.
    #[error("`{tensor} {assign} ..` is no sum, so it cannot hold partial sums along {axes}; leave `partial` out")]
    NoSum {
        /// The tensor.
        tensor: Name,
        /// The kernel's assignment.
        assign: String,
        /// The axes along which each coordinate would hold a term.
        axes: String,
    },
    /// The sums of an input are to be reassociated.
    #[error("`{tensor}` is an input, so ranks do not sum it; reassociate the sums of the output, `{output}`")]
    NotSummed {
        /// The tensor.
        tensor: Name,
        /// The kernel's output.
        output: Name,
    },
    /// A loop is rotated by one that is not outside it.
    #[error(
        "cannot rotate `{name}` by `{by}`, which is not outside it; reorder it outside first: the loops are {loops}"
    )]
    NotOutside {
        /// The loop to rotate.
        name: Name,
        /// The loop to rotate by.
        by: Name,
        /// The loops, outermost first.
        loops: String,
    },
    /// An invalid sharding.
    #[error("{0}")]
    Sharding(ShardingError),
    /// There is no mesh yet.
    #[error("there is no mesh yet; call `distribute` first: it defines the mesh")]
    NoMesh,
    /// No dimension of the tensor, or several, go by this variable.
    #[error(
        "{count} of `{tensor}` is indexed by `{name}` alone; name it by number, `dim(0).at(..)`; `{tensor}` is read or written as {accesses}"
    )]
    AmbiguousDim {
        /// The tensor.
        tensor: Name,
        /// The variable.
        name: Name,
        /// "no dimension" or "more than one dimension".
        count: &'static str,
        /// Its accesses.
        accesses: String,
    },
    /// A step that may occur once per tensor or schedule occurs twice.
    #[error("{what} in step {first}; remove one of the two")]
    Twice {
        /// What was said already.
        what: String,
        /// The earlier step's number.
        first: usize,
    },
    /// A tensor without a sharding is communicated.
    #[error(
        "`{tensor}` has no sharding, so there is nothing to communicate; `shard` it first (a tensor that no step shards is replicated)"
    )]
    NoSharding {
        /// The tensor.
        tensor: Name,
    },
    /// Tensorized loops are not the innermost ones.
    #[error("the loops {loops} are not the innermost ones: `{inside}` is inside; reorder it out, or tensorize it too")]
    NotInnermost {
        /// The tensorized loops.
        loops: String,
        /// A loop that is inside and not listed.
        inside: Name,
    },
    /// The tensorized instances are not a box.
    #[error(
        "the instances that loops {loops} run for one tile are not a box in {vars}; leave out the fused or oddly split ones"
    )]
    NotABox {
        /// The tensorized loops.
        loops: String,
        /// The kernel's index variables.
        vars: String,
    },
    /// The leaf is of another kind than asserted.
    #[error("the leaf is a {found}, not a {asserted}: {why}")]
    OtherLeaf {
        /// What it is.
        found: String,
        /// What was asserted.
        asserted: String,
        /// Why.
        why: String,
    },
    /// A leaf with a name cannot take the operands as tiles.
    #[error("leaf `{leaf}` cannot run here: {why}")]
    NoTiles {
        /// The leaf.
        leaf: Name,
        /// Why, and what to do.
        why: String,
    },
    /// A transfer has another pattern than expected.
    #[error("the transfer of `{tensor}` is {found}, not {expected}; `explain()` prints the tests that led to it")]
    Unexpected {
        /// The tensor.
        tensor: Name,
        /// The pattern found.
        found: String,
        /// The pattern expected.
        expected: Pattern,
    },
    /// Tiles or iterations that cannot be counted.
    #[error("{what} needs more elements than 63 bits count; use smaller tiles")]
    TooLarge {
        /// What is too large.
        what: String,
    },
    /// A loop or an index is too large for sums of a few to fit 64 bits.
    #[error("{what} goes beyond 2^60, so that sums of indices might overflow; use smaller extents, tiles and parts")]
    OutOfReach {
        /// The loop, or the index expression with its tensor.
        what: String,
    },
    /// More ranks than can be numbered.
    #[error("the mesh ({mesh}) has more than 2^31 - 1 ranks, the most that MPI can number; use smaller extents")]
    TooManyRanks {
        /// The mesh, with the axes of all levels.
        mesh: String,
    },
    /// isl failed or gave up.
    #[error("the polyhedral library failed while it decided {what}: {message}")]
    Isl {
        /// What was being decided.
        what: String,
        /// The library's message.
        message: String,
    },
    /// A proof failed: not the caller's fault.
    #[error(
        "cannot prove {what} of this schedule, so it is not run; this is a bug of polyshard, please report it with the trace:\n{trace}"
    )]
    Unproved {
        /// The property.
        what: String,
        /// The schedule's trace.
        trace: String,
    },
}
