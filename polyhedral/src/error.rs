//! Errors of schedules and their lowering: which step, where it was written, what exists instead.

use polyshard_dsl::errors::count;
use polyshard_layout::{Mesh, Name, ShardingError, did_you_mean};
use polyshard_program::{KernelError, Pattern, list};
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
        self.kind.message()
    }

    /// Returns what is there instead, or what to do.
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

/// What is wrong with a schedule.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields of variants are named by what they are; the messages say it in full")]
pub enum ErrorKind {
    /// The kernel itself is wrong.
    Kernel { kernel: Name, error: Box<KernelError> },
    /// There is no such loop.
    UnknownLoop {
        name: Name,
        /// The loops, outermost first.
        loops: Vec<Name>,
    },
    /// There is no such tensor.
    UnknownTensor { name: Name, tensors: Vec<Name> },
    /// There is no such axis.
    UnknownAxis { name: Name, axes: Vec<Name> },
    /// A new loop has a name that is in use.
    NameTaken { name: Name, by: &'static str },
    /// A name that cannot be written in a program.
    BadName { name: Name, what: &'static str },
    /// A count of 0, or beyond 63 bits.
    BadCount { what: &'static str, count: usize },
    /// A pipeline of no iterations, or of too many.
    BadDepth { depth: usize, most: usize },
    /// A list names a loop twice.
    ListedTwice { name: Name },
    /// The loop is bound to a mesh axis.
    Distributed { name: Name, axis: Name, instead: &'static str },
    /// The loop is inside the leaf.
    Tensorized { name: Name, instead: &'static str },
    /// The loop carries a `communicate`.
    Communicated { name: Name, tensor: Name, method: &'static str },
    /// A loop of the leaf carries a `communicate`.
    CommunicatedInLeaf { name: Name, tensor: Name },
    /// Two loops to fuse are not nested directly.
    NotAdjacent {
        /// The outer loop.
        i: Name,
        /// The inner loop.
        j: Name,
        /// The loops, outermost first.
        loops: String,
    },
    /// Lists of a `distribute` have different lengths.
    DistributeCounts { loops: usize, outer: usize, inner: usize, mesh: Mesh },
    /// Two steps use one axis.
    AxisDistributed { axis: Name },
    /// The output of copies that are not owned by the ranks that make them.
    CopiesApart { tensor: Name, axis: Name, sharding: String },
    /// An input whose sums are still open.
    PartialInput {
        tensor: Name,
        /// The axes along which each coordinate holds a term.
        axes: String,
    },
    /// An output that is no sum, and is to hold partial sums.
    NoSum {
        tensor: Name,
        assign: String,
        /// The axes along which each coordinate would hold a term.
        axes: String,
    },
    /// Nothing is communicated at a loop that is pipelined.
    NothingAhead {
        name: Name,
        /// The tensors, and where each is communicated.
        tensors: String,
    },
    /// A transfer between whose beginning and end there cannot be that number of iterations.
    NotAhead { tensor: Name, pattern: String, depth: usize, why: &'static str, help: &'static str },
    /// An input that cannot come while the interior of the leaf is computed.
    NoInterior { tensor: Name, why: &'static str },
    /// A kernel that cannot be applied several times between two transfers.
    NoTimeSteps { tensor: Name, why: &'static str },
    /// A number of time steps that is 0 or too large.
    BadTimeSteps { steps: usize, most: usize },
    /// The sums of an input are to be reassociated.
    NotSummed { tensor: Name, output: Name },
    /// A loop is rotated by one that is not outside it.
    NotOutside {
        name: Name,
        by: Name,
        /// The loops, outermost first.
        loops: String,
    },
    /// An invalid sharding.
    Sharding(ShardingError),
    /// There is no mesh yet.
    NoMesh,
    /// No dimension of the tensor, or several, go by this variable.
    AmbiguousDim {
        tensor: Name,
        name: Name,
        /// "no dimension" or "more than one dimension".
        count: &'static str,
        accesses: String,
    },
    /// A step that may occur once per tensor or schedule occurs twice.
    Twice {
        /// What was said already.
        what: String,
        /// The earlier step's number.
        first: usize,
    },
    /// A tensor without a sharding is communicated.
    NoSharding { tensor: Name },
    /// Tensorized loops are not the innermost ones.
    NotInnermost { loops: String, inside: Name },
    /// The tensorized instances are not a box.
    NotABox { loops: String, vars: String },
    /// The leaf is of another kind than asserted.
    OtherLeaf { found: String, asserted: String, why: String },
    /// A leaf with a name cannot take the operands as tiles.
    NoTiles { leaf: Name, why: String, help: &'static str },
    /// A transfer has another pattern than expected.
    Unexpected { tensor: Name, found: String, expected: Pattern },
    /// Less of a transfer can be hidden than expected.
    LittleOverlap { tensor: Name, pattern: String, hidden: f64, expected: f64, why: String, help: String },
    /// A share of a transfer is expected to be hidden, but there is none.
    NotMoved { tensor: Name },
    /// An expected share that is not from 0 to 1.
    BadShare { share: f64 },
    /// Tiles or iterations that cannot be counted.
    TooLarge { what: String },
    /// A loop or an index is too large for sums of a few to fit 64 bits.
    OutOfReach {
        /// The loop, or the index expression with its tensor.
        what: String,
    },
    /// More ranks than can be numbered.
    TooManyRanks {
        /// The mesh, with the axes of all levels.
        mesh: String,
    },
    /// isl failed or gave up.
    Isl { what: String, message: String },
    /// A proof failed: not the caller's fault.
    Unproved { what: String, trace: String },
}

impl ErrorKind {
    fn parts(&self) -> (String, Option<String>) {
        match self {
            Self::Kernel { kernel, error } => (format!("kernel `{kernel}`: {}", error.message()), error.help()),
            Self::UnknownLoop { name, loops } => unknown("loop", "loops", name, loops),
            Self::UnknownTensor { name, tensors } => unknown("tensor", "tensors", name, tensors),
            Self::UnknownAxis { name, axes } => unknown("axis", "axes", name, axes),
            Self::NameTaken { name, by } => {
                (format!("the name `{name}` is taken by {by}"), Some("give the new loop another".into()))
            }
            Self::BadName { name, what } => (
                format!("`{name}` is not a name for a {what}"),
                Some("names are letters, digits and `_`, and do not start with a digit".into()),
            ),
            Self::BadCount { what, count } => {
                (format!("cannot use {what} {count}"), Some("give a number from 1 to 2^62".into()))
            }
            Self::BadDepth { depth, most } => (
                format!("transfers cannot begin {} ahead", count(*depth, "iteration", "iterations")),
                Some(format!("give a number from 1 to {most}; 1 is enough where panels are equal")),
            ),
            Self::ListedTwice { name } => (format!("lists `{name}` twice"), Some("list each loop once".into())),
            Self::Distributed { name, axis, instead } => (
                format!("loop `{name}` is bound to mesh axis `{axis}` and cannot be moved or changed"),
                Some((*instead).into()),
            ),
            Self::Tensorized { name, instead } => {
                (format!("loop `{name}` is tensorized, so it is inside the leaf"), Some((*instead).into()))
            }
            Self::Communicated { name, tensor, method } => (
                format!("`{tensor}` is communicated at loop `{name}`, which would be gone"),
                Some(format!("{method} before `communicate`")),
            ),
            Self::CommunicatedInLeaf { name, tensor } => (
                format!("loop `{name}` cannot be tensorized, since `{tensor}` is communicated at it"),
                Some(format!(
                    "leave `{name}` out of `tensorize`, or communicate `{tensor}` at a loop outside the leaf"
                )),
            ),
            Self::NotAdjacent { i, j, loops } => (
                format!("loop `{j}` is not directly inside `{i}`"),
                Some(format!("the loops are {loops}; reorder them first")),
            ),
            Self::DistributeCounts { loops, outer, inner, mesh } => {
                let axes = mesh.ndim();
                let help = match axes.checked_sub(*loops) {
                    Some(more @ 1..) if [outer, inner] == [loops; 2] && *loops > 0 => format!(
                        "list {more} more, so that each axis has a loop, or distribute over a mesh of {}",
                        count(*loops, "axis", "axes")
                    ),
                    _ => "list one loop, one outer and one inner loop per axis".into(),
                };
                let (loops, axes) = (count(*loops, "loop", "loops"), count(axes, "axis", "axes"));
                (format!("distributes {loops} into {outer} outer and {inner} inner over {axes} ({mesh})"), Some(help))
            }
            Self::AxisDistributed { axis } => (
                format!("axis `{axis}` is an axis of the mesh already"),
                Some("distribute over other axes, or give the inner mesh its own names".into()),
            ),
            Self::CopiesApart { tensor, axis, sharding } => (
                format!("all ranks along `{axis}` compute `{tensor}`, but it is sharded {sharding}"),
                Some(format!(
                    "each has to own what it computes: leave `{axis}` out of the sharding of `{tensor}`, or distribute a loop over \
                     `{axis}` in place of `replicate`"
                )),
            ),
            Self::PartialInput { tensor, axes } => (
                format!("`{tensor}` would be read while its sums are open along {axes}"),
                Some(
                    "close them first: `redistribute` it to a sharding without `partial`, and shard it so here".into(),
                ),
            ),
            Self::NoSum { tensor, assign, axes } => (
                format!("`{tensor} {assign} ..` is no sum, so it cannot hold partial sums along {axes}"),
                Some("leave `partial` out".into()),
            ),
            Self::NothingAhead { name, tensors } => (
                format!("nothing is communicated at `{name}`, so there is nothing to pipeline"),
                Some(format!("communicate a tensor at `{name}`; {tensors}")),
            ),
            Self::NotAhead { tensor, pattern, depth, why, help } => (
                format!("the transfer of `{tensor}`, {pattern}, cannot be pipelined with depth {depth}: {why}"),
                Some((*help).into()),
            ),
            Self::NoInterior { tensor, why } => (
                format!("the interior cannot be computed before `{tensor}` is there: {why}"),
                Some(
                    "leave `interior_first` out, or have it come as a halo at the innermost loop around a nest".into(),
                ),
            ),
            Self::NoTimeSteps { tensor, why } => (
                format!("the kernel cannot be applied several times with one halo of `{tensor}`: {why}"),
                Some(
                    "apply it once, and `repeat` that; or make it a stencil in blocks that are as wide as the halo"
                        .into(),
                ),
            ),
            Self::BadTimeSteps { steps, most } => (
                format!("a halo cannot be for {}", count(*steps, "time step", "time steps")),
                Some(format!("give a number from 1 to {most}")),
            ),
            Self::NotSummed { tensor, output } => (
                format!("`{tensor}` is an input, so ranks do not sum it"),
                Some(format!("reassociate the sums of the output, `{output}`")),
            ),
            Self::NotOutside { name, by, loops } => (
                format!("cannot rotate `{name}` by `{by}`, which is not outside it"),
                Some(format!("reorder it outside first: the loops are {loops}")),
            ),
            Self::Sharding(error) => (error.message(), error.help()),
            Self::NoMesh => {
                ("there is no mesh yet".into(), Some("call `distribute` first: it defines the mesh".into()))
            }
            Self::AmbiguousDim { tensor, name, count, accesses } => (
                format!("{count} of `{tensor}` is indexed by `{name}` alone"),
                Some(format!("name it by number, `dim(0).at(..)`; `{tensor}` is read or written as {accesses}")),
            ),
            Self::Twice { what, first } => (format!("{what} in step {first}"), Some("remove one of the two".into())),
            Self::NoSharding { tensor } => (
                format!("`{tensor}` has no sharding, so there is nothing to communicate"),
                Some("`shard` it first (a tensor that no step shards is replicated)".into()),
            ),
            Self::NotInnermost { loops, inside } => (
                format!("the loops {loops} are not the innermost ones: `{inside}` is inside"),
                Some("reorder it out, or tensorize it too".into()),
            ),
            Self::NotABox { loops, vars } => (
                format!("the instances that loops {loops} run for one tile are not a box in {vars}"),
                Some("leave out the fused or oddly split ones".into()),
            ),
            Self::OtherLeaf { found, asserted, why } => {
                (format!("the leaf is a {found}, not a {asserted}: {why}"), None)
            }
            Self::NoTiles { leaf, why, help } => {
                (format!("leaf `{leaf}` cannot run here: {why}"), Some((*help).into()))
            }
            Self::Unexpected { tensor, found, expected } => (
                format!("the transfer of `{tensor}` is {found}, not {expected}"),
                Some("`explain()` prints the tests that led to it".into()),
            ),
            Self::LittleOverlap { tensor, pattern, hidden, expected, why, help } => (
                format!(
                    "at most {:.1} % of the transfer of `{tensor}`, {pattern}, can be hidden, not {:.1} %: {why}",
                    100.0 * hidden,
                    100.0 * expected
                ),
                Some(help.clone()),
            ),
            Self::NotMoved { tensor } => (
                format!("`{tensor}` is not moved, since each rank owns all that it uses of it"),
                Some("leave `expect_overlap` out".into()),
            ),
            Self::BadShare { share } => (
                format!("{share} is no share of a transfer"),
                Some("give a number from 0 to 1: 0.8 is four fifths".into()),
            ),
            Self::TooLarge { what } => {
                (format!("{what} needs more elements than 63 bits count"), Some("use smaller tiles".into()))
            }
            Self::OutOfReach { what } => (
                format!("{what} goes beyond 2^60, so that sums of indices might overflow"),
                Some("use smaller extents, tiles and parts".into()),
            ),
            Self::TooManyRanks { mesh } => (
                format!("the mesh ({mesh}) has more than 2^31 - 1 ranks, the most that MPI can number"),
                Some("use smaller extents".into()),
            ),
            Self::Isl { what, message } => {
                (format!("the polyhedral library failed while it decided {what}: {message}"), None)
            }
            Self::Unproved { what, trace } => (
                format!("cannot prove {what} of this schedule, so it is not run"),
                Some(format!("this is a bug of polyshard, please report it with the trace:\n{trace}")),
            ),
        }
    }
}

/// What is said of a name that nothing has; `names` are those that there are.
fn unknown(one: &str, many: &str, name: &Name, names: &[Name]) -> (String, Option<String>) {
    let meant = did_you_mean(name.as_str(), names.iter().copied().map(Name::as_str));
    (format!("no {one} `{name}`"), Some(format!("{meant}the {many} are {}", list(names))))
}

polyshard_layout::message_and_help!(ErrorKind);
