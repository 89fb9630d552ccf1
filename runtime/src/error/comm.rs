//! What can be wrong with the arguments of communicators and collectives.

use crate::comm::plural;
use crate::layout::{DType, NotNative};

/// Why a communicator or a collective refuses its arguments, before anything moves.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommError {
    /// The group has no such rank.
    #[error("no rank {rank}: the group has ranks 0..{size}")]
    NoRank {
        /// The rank that the group does not have.
        rank: usize,
        /// The number of ranks of the group.
        size: usize,
    },
    /// A rank sends a message to itself, or receives one from itself.
    #[error("rank {rank} sends to or receives from itself: `exchange` does that, `send` and `receive` do not")]
    Itself {
        /// The rank.
        rank: usize,
    },
    /// A rank receives a broadcast of which it is the root.
    #[error("rank {rank} is the root of the broadcast it receives: the root sends")]
    RootReceives {
        /// The rank.
        rank: usize,
    },
    /// A rank exchanges messages with itself that are sent and not received, or the other way round.
    #[error(
        "rank {rank} {}: each message has both sides",
        if sends > receives { "sends itself more messages than it receives" }
        else { "receives more messages from itself than it sends" }
    )]
    Unpaired {
        /// The rank.
        rank: usize,
        /// How many messages it sends itself.
        sends: usize,
        /// How many messages it receives from itself.
        receives: usize,
    },
    /// There is not one count for each rank of the group.
    #[error("{} for a group of {}: give one per rank", plural(*.counts, "count"), plural(*.size, "rank"))]
    Counts {
        /// How many counts are given.
        counts: usize,
        /// The number of ranks of the group.
        size: usize,
    },
    /// There is not one part for each rank of the group.
    #[error(
        "{} for a group of {}: give one per rank, which may be empty", plural(*.parts, "part"), plural(*.size, "rank")
    )]
    Parts {
        /// How many parts are given.
        parts: usize,
        /// The number of ranks of the group.
        size: usize,
    },
    /// The counts do not sum to the number of elements.
    #[error("the counts sum to {}, but the data have {len}: each element goes to one rank", plural(*.sum, "element"))]
    ElementCounts {
        /// The sum of the counts.
        sum: usize,
        /// The number of elements.
        len: usize,
    },
    /// The counts do not sum to the bytes of a buffer.
    #[error("the counts sum to {}, but `{buffer}` has {len}", plural(*.sum, "byte"))]
    ByteCounts {
        /// The sum of the counts.
        sum: usize,
        /// The name of the argument.
        buffer: &'static str,
        /// The bytes of the buffer.
        len: usize,
    },
    /// The count of this rank is not the number of bytes of its buffer.
    #[error("this rank's count is {}, but `{buffer}` has {len}", plural(*.count, "byte"))]
    OwnCount {
        /// The count.
        count: usize,
        /// The name of the argument.
        buffer: &'static str,
        /// The bytes of the buffer.
        len: usize,
    },
    /// The ranks do not compute in the element type.
    #[error(transparent)]
    NotNative(#[from] NotNative),
    /// Data end in the middle of an element.
    #[error("{} {} not a whole number of `{dtype}`", plural(*.bytes, "byte"), if *bytes == 1 { "is" } else { "are" })]
    PartialElement {
        /// The bytes of the data.
        bytes: usize,
        /// The element type.
        dtype: DType,
    },
    /// A count ends in the middle of an element.
    #[error("a count of {} is not a whole number of `{dtype}`", plural(*.bytes, "byte"))]
    PartialCount {
        /// The count, in bytes.
        bytes: usize,
        /// The element type.
        dtype: DType,
    },
    /// Data do not begin at an address at which an element can lie.
    #[error("data of `{dtype}` are not aligned to {} bytes: cast them from `[{dtype}]`", .dtype.size())]
    Unaligned {
        /// The element type.
        dtype: DType,
    },
    /// A color or a key of a split is too large for MPI.
    #[error("{argument} {value} of a split does not fit a C int")]
    Split {
        /// Which of the two, `color` or `key`.
        argument: &'static str,
        /// Its value.
        value: usize,
    },
    /// A message is spread over more bytes, or in more pieces, than MPI counts.
    #[error("{} of a message do not fit MPI's counts: send it in parts", plural(*.count, "byte or piece"))]
    Long {
        /// How many.
        count: usize,
    },
}
