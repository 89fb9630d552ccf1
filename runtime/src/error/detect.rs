//! What can go wrong when the machine of a program is detected.

use polyshard_machine::MachineError;

/// Why the machine that ranks run on cannot be detected: counted, or measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields of variants are named by what they are; the messages say it in full")]
pub enum DetectError {
    /// The system does not say how many cores or how much memory a node has.
    #[error("this system does not say how many cores or how much memory a node has; write the machine's TOML by hand")]
    Unknown,
    /// The ranks of a node do not follow one another.
    #[error(
        "ranks {rank} and {other} are on one node, but rank {between} between them is on another: levels nest only if \
         the ranks of a node follow one another; start them node by node, with `mpirun --map-by slot`"
    )]
    Interleaved { rank: usize, other: usize, between: usize },
    /// Nodes have different numbers of ranks.
    #[error(
        "node 0 has {first} of the ranks and node {node} has {ranks}: levels nest only if all nodes have as many; start \
         as many on each, with `mpirun --map-by ppr:{fewest}:node`"
    )]
    Uneven { first: usize, node: usize, ranks: usize, fewest: usize },
    /// Messages are to be measured on one rank.
    #[error("measuring messages needs at least 2 ranks")]
    OneRank,
    /// A size to measure is less than an element for each rank.
    #[error("size {size} does not have an element for each of {ranks} ranks; give sizes of {min} bytes or more")]
    SizeTooSmall { size: usize, ranks: usize, min: usize },
    /// There are fewer than two different sizes to measure.
    #[error("{sizes:?} are too few sizes to tell latency from bandwidth; give at least two, {unit} bytes apart")]
    TooFewSizes { sizes: Vec<usize>, unit: usize },
    /// A size to measure is more than an eighth of a rank's memory.
    #[error(
        "buffers of {size} bytes do not fit a rank's part of the memory, {memory} bytes; give sizes up to {}", .memory / 8
    )]
    SizeTooLarge { size: usize, memory: u64 },
    /// The measured times fit no machine model.
    #[error("the measured times fit no machine model: {0}")]
    Times(Box<MachineError>),
}
