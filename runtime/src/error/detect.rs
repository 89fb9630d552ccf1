//! Errors of detecting the machine.

use polyshard_machine::MachineError;

/// Why the machine that ranks run on cannot be detected or measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum DetectError {
    /// The system does not report the cores and the memory of a node.
    #[error("this system does not report the cores and the memory of a node; write the machine's TOML by hand")]
    Unknown,
    /// The ranks of a node are not consecutive: `between` is on another one.
    #[error(
        "ranks {rank} and {other} are on one node, but rank {between} between them is on another: the ranks of a node \
         must be consecutive; start them node by node, with `mpirun --map-by slot`"
    )]
    Interleaved { rank: usize, other: usize, between: usize },
    /// Nodes have different numbers of ranks: `first` on node 0, `ranks` on `node`, and `fewest` on some node.
    #[error(
        "node 0 has {first} of the ranks and node {node} has {ranks}: all nodes must have the same number; start \
         {fewest} on each, with `mpirun --map-by ppr:{fewest}:node`"
    )]
    Uneven { first: usize, node: usize, ranks: usize, fewest: usize },
    /// Measuring messages on one rank.
    #[error("measuring messages needs at least 2 ranks")]
    OneRank,
    /// A size to measure has less than an element for each rank.
    #[error("size {size} does not have an element for each of {ranks} ranks; give sizes of {min} bytes or more")]
    SizeTooSmall { size: usize, ranks: usize, min: usize },
    /// There are fewer than two sizes to measure that differ by `unit` bytes or more.
    #[error("{sizes:?} are too few sizes to tell latency from bandwidth; give at least two, {unit} bytes apart")]
    TooFewSizes { sizes: Vec<usize>, unit: usize },
    /// A size to measure is more than an eighth of `memory`, the bytes of a rank's share of its node.
    #[error(
        "buffers of {size} bytes do not fit into a rank's share of the memory, {memory} bytes; give sizes up to {}", .memory / 8
    )]
    SizeTooLarge { size: usize, memory: u64 },
    /// The measured times fit no machine model.
    #[error("the measured times fit no machine model: {0}")]
    Times(Box<MachineError>),
}
