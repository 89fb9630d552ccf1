//! Errors in the arguments of communicators and collectives.

use polyshard_layout::{DType, NotNative, are, counted};

/// Why a communicator or a collective refuses its arguments, before anything is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum CommError {
    /// The group has no such rank.
    #[error("no rank {rank}: the group has ranks 0..{size}")]
    NoRank { rank: usize, size: usize },
    /// A rank sends a message to itself, or receives one from itself.
    #[error("rank {rank} sends to or receives from itself: use `exchange` for that")]
    Itself { rank: usize },
    /// The root of a broadcast calls the receiving side.
    #[error("rank {rank} is the root of the broadcast it receives: call the sending side on the root")]
    RootReceives { rank: usize },
    /// A rank sends itself more messages than it receives from itself, or fewer.
    #[error(
        "rank {rank} {}: post both sides of each message",
        if sends > receives { "sends itself more messages than it receives" }
        else { "receives more messages from itself than it sends" }
    )]
    Unpaired { rank: usize, sends: usize, receives: usize },
    /// A rank dropped a flight in progress.
    #[error("rank {rank} dropped a flight before it completed: `poll` it until it has, or `wait` for it")]
    DroppedFlight { rank: usize },
    /// The number of counts differs from the number of ranks.
    #[error("{} for a group of {}: give one per rank", counted(*.counts, "count"), counted(*.size, "rank"))]
    Counts { counts: usize, size: usize },
    /// The number of parts differs from the number of ranks.
    #[error(
        "{} for a group of {}: give one per rank, which may be empty", counted(*.parts, "part"), counted(*.size, "rank")
    )]
    Parts { parts: usize, size: usize },
    /// The counts do not sum to the number of elements.
    #[error("the counts sum to {}, but the data have {len}: send each element to one rank", counted(*.sum, "element"))]
    ElementCounts { sum: usize, len: usize },
    /// The counts do not sum to the bytes of a buffer.
    #[error("the counts sum to {}, but `{buffer}` has {len}", counted(*.sum, "byte"))]
    ByteCounts { sum: usize, buffer: &'static str, len: usize },
    /// The count of this rank is not the number of bytes of its buffer.
    #[error("this rank's count is {}, but `{buffer}` has {len}", counted(*.count, "byte"))]
    OwnCount { count: usize, buffer: &'static str, len: usize },
    /// The ranks do not compute in the element type.
    #[error(transparent)]
    NotNative(#[from] NotNative),
    /// Data end in the middle of an element.
    #[error("{} {} not a whole number of `{dtype}`", counted(*.bytes, "byte"), are(*.bytes))]
    PartialElement { bytes: usize, dtype: DType },
    /// A count ends in the middle of an element.
    #[error("a count of {} is not a whole number of `{dtype}`", counted(*.bytes, "byte"))]
    PartialCount { bytes: usize, dtype: DType },
    /// Data are not aligned to their element type.
    #[error("data of `{dtype}` are not aligned to {} bytes: cast them from `[{dtype}]`", .dtype.size())]
    Unaligned { dtype: DType },
    /// An `argument` of a split, color or key, is too large for MPI.
    #[error("{argument} {value} of a split does not fit a C int")]
    Split { argument: &'static str, value: usize },
    /// A message has more bytes or pieces, `count`, than MPI can count.
    #[error("a message of {count} bytes or pieces is too large for MPI's counts: send it in parts")]
    Long { count: usize },
}
