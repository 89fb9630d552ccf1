//! One rank's call of a collective, and whether the calls of a group match.

use super::words::{amount, sentence};
use crate::{DType, ReduceOp};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;
#[cfg(feature = "mpi")]
use std::mem::discriminant;

/// The bytes of each rank, or only their sum where they are not compared.
pub(super) type Counts = SmallVec<[usize; 2]>;

/// One rank's call of a collective, without the data. Roots are world ranks; lengths are bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Call {
    Barrier,
    Broadcast {
        root: usize,
        bytes: usize,
    },
    AllGather {
        counts: Counts,
    },
    AllToAll {
        send: Counts,
        receive: Counts,
    },
    Reduce {
        root: usize,
        bytes: usize,
        dtype: DType,
        op: ReduceOp,
    },
    AllReduce {
        bytes: usize,
        dtype: DType,
        op: ReduceOp,
    },
    ReduceScatter {
        counts: Counts,
        dtype: DType,
        op: ReduceOp,
    },
    /// An exchange of headers, and their subject.
    Headers {
        about: Cow<'static, str>,
    },
    Split {
        color: usize,
        key: usize,
    },
    #[cfg(feature = "mpi")]
    SharedMemory,
    /// This rank has reached the end of the program.
    #[cfg(feature = "mpi")]
    End,
    /// This rank's process ends.
    #[cfg(feature = "mpi")]
    Exit,
}

#[cfg(feature = "mpi")]
impl Call {
    /// Returns whether ranks that make the two calls do not wait for each other for ever: they are of one kind, and have one root,
    /// or are both ends.
    pub(super) fn meets(&self, other: &Self) -> bool {
        let root = |call: &Self| match *call {
            Self::Broadcast { root, .. } | Self::Reduce { root, .. } => Some(root),
            _ => None,
        };
        let is_end = |call: &Self| matches!(call, Self::End | Self::Exit);
        let is_same = discriminant(self) == discriminant(other) && root(self) == root(other);
        is_same || is_end(self) && is_end(other)
    }
}

/// Describes how the calls of the `members` (world ranks) of a group, one each, disagree, if they do.
pub(super) fn disagreement(members: &[usize], calls: &[Call]) -> Option<String> {
    let same = calls.windows(2).all(|pair| match (&pair[0], &pair[1]) {
        // These two take arguments that differ by rank.
        (Call::AllToAll { .. }, Call::AllToAll { .. }) | (Call::Split { .. }, Call::Split { .. }) => true,
        (left, right) => left == right,
    });
    if same {
        return unmatched(members, calls);
    }
    let clauses =
        members.iter().zip(calls).map(|(&rank, call)| (rank, [format!("calls {call}"), format!("call {call}")]));
    Some(format!("{}: ranks of one group must call the same", sentence(clauses, ", ")))
}

/// Describes the first pair of ranks with different counts for a message between them in an all-to-all.
fn unmatched(members: &[usize], calls: &[Call]) -> Option<String> {
    for (from, sender) in calls.iter().enumerate() {
        for (to, receiver) in calls.iter().enumerate() {
            let (Call::AllToAll { send, .. }, Call::AllToAll { receive, .. }) = (sender, receiver) else { return None };
            if send[to] != receive[from] {
                return Some(format!(
                    "in an all-to-all, rank {} sends {} to rank {}, which expects {}: both ranks must count the same",
                    members[from],
                    amount(send[to]),
                    members[to],
                    receive[from]
                ));
            }
        }
    }
    None
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Barrier => f.write_str("barrier"),
            Self::Broadcast { root, bytes } => write!(f, "broadcast from {root} of {}", amount(*bytes)),
            Self::AllGather { counts } => write!(f, "all-gather of {}", Parts(counts)),
            Self::AllToAll { .. } => f.write_str("all-to-all"),
            Self::Reduce { root, bytes, dtype, op } => {
                write!(f, "reduce to {root} of {} ({} of {})", amount(*bytes), verb(*op), dtype)
            }
            Self::AllReduce { bytes, dtype, op } => {
                write!(f, "all-reduce of {} ({} of {})", amount(*bytes), verb(*op), dtype)
            }
            Self::ReduceScatter { counts, dtype, op } => {
                write!(f, "reduce-scatter of {} ({} of {})", Parts(counts), verb(*op), dtype)
            }
            Self::Headers { about } => f.write_str(about),
            Self::Split { .. } => f.write_str("split"),
            #[cfg(feature = "mpi")]
            Self::SharedMemory => f.write_str("shared_memory"),
            #[cfg(feature = "mpi")]
            Self::End => f.write_str("the end of the program"),
            #[cfg(feature = "mpi")]
            Self::Exit => f.write_str("`exit`"),
        }
    }
}

/// Prints counts as their sum, and individually if they differ: equal texts mean equal counts.
struct Parts<'a>(&'a [usize]);

impl fmt::Display for Parts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&amount(self.0.iter().sum()))?;
        if self.0.windows(2).any(|pair| pair[0] != pair[1]) {
            write!(f, " in parts of {:?}", self.0)?;
        }
        Ok(())
    }
}

fn verb(op: ReduceOp) -> &'static str {
    match op {
        ReduceOp::Sum => "sum",
        ReduceOp::Product => "product",
        ReduceOp::Max => "max",
        ReduceOp::Min => "min",
        ReduceOp::Records(_) => "running reduction",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(counts: &[usize]) -> Call {
        Call::AllGather { counts: counts.into() }
    }

    #[test]
    fn different_calls_are_named_by_rank() {
        let calls = [Call::Broadcast { root: 0, bytes: 4096 }, gather(&[32, 32])];
        assert_eq!(
            disagreement(&[0, 1], &calls).unwrap(),
            "rank 0 calls broadcast from 0 of 4096 bytes, rank 1 calls all-gather of 64 bytes: \
             ranks of one group must call the same"
        );
    }

    #[test]
    fn different_arguments_show_in_the_message() {
        let shown = |calls: &[Call]| disagreement(&[4, 5], calls).unwrap();
        assert!(shown(&[gather(&[4, 8]), gather(&[8, 4])]).starts_with(
            "rank 4 calls all-gather of 12 bytes in parts of [4, 8], \
             rank 5 calls all-gather of 12 bytes in parts of [8, 4]"
        ));
        let reduce = |dtype, op| Call::AllReduce { bytes: 8, dtype, op };
        assert!(shown(&[reduce(DType::F32, ReduceOp::Sum), reduce(DType::I32, ReduceOp::Max)]).starts_with(
            "rank 4 calls all-reduce of 8 bytes (sum of f32), rank 5 calls all-reduce of 8 bytes (max of i32)"
        ));
    }

    #[cfg(feature = "mpi")]
    #[test]
    fn calls_meet_if_they_are_of_a_kind_with_one_root() {
        let broadcast = |root, bytes| Call::Broadcast { root, bytes };
        assert!(broadcast(1, 8).meets(&broadcast(1, 9)) && !broadcast(1, 8).meets(&broadcast(2, 8)));
        assert!(gather(&[1]).meets(&gather(&[2])) && !gather(&[1]).meets(&Call::Barrier));
        assert!(Call::End.meets(&Call::Exit) && !Call::Exit.meets(&Call::Barrier));
    }

    #[test]
    fn an_all_to_all_is_compared_pair_by_pair() {
        let call =
            |send: [usize; 2], receive: [usize; 2]| Call::AllToAll { send: send.into(), receive: receive.into() };
        assert_eq!(disagreement(&[0, 1], &[call([1, 2], [1, 3]), call([3, 4], [2, 4])]), None);
        assert_eq!(
            disagreement(&[6, 7], &[call([1, 2], [1, 3]), call([3, 4], [5, 4])]).unwrap(),
            "in an all-to-all, rank 6 sends 2 bytes to rank 7, which expects 5: both ranks must count the same"
        );
    }
}
