//! What can be wrong with the arguments of communicators and collectives.

use crate::comm::plural;
use crate::layout::{DType, NotNative};

/// Why a communicator or a collective refuses its arguments, before anything moves.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields of variants are named by what they are; the messages say it in full")]
pub enum CommError {
    /// The group has no such rank.
    #[error("no rank {rank}: the group has ranks 0..{size}")]
    NoRank { rank: usize, size: usize },
    /// A rank sends a message to itself, or receives one from itself.
    #[error("rank {rank} sends to or receives from itself: `exchange` does that, `send` and `receive` do not")]
    Itself { rank: usize },
    /// A rank receives a broadcast of which it is the root.
    #[error("rank {rank} is the root of the broadcast it receives: the root sends")]
    RootReceives { rank: usize },
    /// A rank exchanges messages with itself that are sent and not received, or the other way round.
    #[error(
        "rank {rank} {}: each message has both sides",
        if sends > receives { "sends itself more messages than it receives" }
        else { "receives more messages from itself than it sends" }
    )]
    Unpaired { rank: usize, sends: usize, receives: usize },
    /// A rank has dropped a flight before it was done.
    #[error(
        "rank {rank} dropped a flight before it was done: `poll` until it is, or `wait` for it, before it is dropped"
    )]
    DroppedFlight { rank: usize },
    /// There is not one count for each rank of the group.
    #[error("{} for a group of {}: give one per rank", plural(*.counts, "count"), plural(*.size, "rank"))]
    Counts { counts: usize, size: usize },
    /// There is not one part for each rank of the group.
    #[error(
        "{} for a group of {}: give one per rank, which may be empty", plural(*.parts, "part"), plural(*.size, "rank")
    )]
    Parts { parts: usize, size: usize },
    /// The counts do not sum to the number of elements.
    #[error("the counts sum to {}, but the data have {len}: each element goes to one rank", plural(*.sum, "element"))]
    ElementCounts { sum: usize, len: usize },
    /// The counts do not sum to the bytes of a buffer.
    #[error("the counts sum to {}, but `{buffer}` has {len}", plural(*.sum, "byte"))]
    ByteCounts { sum: usize, buffer: &'static str, len: usize },
    /// The count of this rank is not the number of bytes of its buffer.
    #[error("this rank's count is {}, but `{buffer}` has {len}", plural(*.count, "byte"))]
    OwnCount { count: usize, buffer: &'static str, len: usize },
    /// The ranks do not compute in the element type.
    #[error(transparent)]
    NotNative(#[from] NotNative),
    /// Data end in the middle of an element.
    #[error("{} {} not a whole number of `{dtype}`", plural(*.bytes, "byte"), if *bytes == 1 { "is" } else { "are" })]
    PartialElement { bytes: usize, dtype: DType },
    /// A count ends in the middle of an element.
    #[error("a count of {} is not a whole number of `{dtype}`", plural(*.bytes, "byte"))]
    PartialCount { bytes: usize, dtype: DType },
    /// Data do not begin at an address at which an element can lie.
    #[error("data of `{dtype}` are not aligned to {} bytes: cast them from `[{dtype}]`", .dtype.size())]
    Unaligned { dtype: DType },
    /// A color or a key of a split is too large for MPI.
    #[error("{argument} {value} of a split does not fit a C int")]
    Split { argument: &'static str, value: usize },
    /// A message is spread over more bytes, or in more pieces, than MPI counts.
    #[error("{} of a message do not fit MPI's counts: send it in parts", plural(*.count, "byte or piece"))]
    Long { count: usize },
}
