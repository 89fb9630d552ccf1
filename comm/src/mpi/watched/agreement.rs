//! How the ranks of a checked program find out whether their calls match.
//!
//! Before each collective the members of the group gather the hashes of their calls; the calls follow only if hashes differ, or
//! if ranks call an all-to-all, whose counts differ by rank. Then the collective runs, and cannot hang any more. A rank that makes
//! no collective call, or one in another group, keeps the others waiting here, where the [watchdog](super::watchdog) finds them.

use crate::call::{Call, disagreement};
use crate::mpi::{MpiCommunicator, process};
use crate::words::{Operation, deadlock, within};
use crate::{Error, Header, Result};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Waits until all members of the group, of a world of `world` ranks, have made a call; collective.
///
/// # Errors
/// If the calls do not match, the same on all ranks.
pub(super) fn reach(comm: &MpiCommunicator, world: usize, call: &Call) -> Result<()> {
    if comm.size == 1 {
        return Ok(());
    }
    let bytes = bytes_of(match call {
        // Its arguments differ by rank.
        Call::Split { .. } => &Call::Split { color: 0, key: 0 },
        call => call,
    });
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let mut header = Header::default();
    header[..2].copy_from_slice(&[bytes.len() as u64, hasher.finish()]);
    let mut told = Vec::new();
    comm.all_gather_headers(header, &mut told)?;
    if told.iter().all(|other| *other == header) && !matches!(call, Call::AllToAll { .. }) {
        return Ok(());
    }
    let counts: Vec<usize> = told.iter().map(|header| header[0] as usize).collect();
    let mut all = vec![0; counts.iter().sum()];
    comm.all_gather_parts(&bytes, &mut all, &counts)?;
    let parts = crate::starts(&counts).zip(&counts).map(|(start, count)| &all[start..start + count]);
    let Some(message) = judge(&comm.members, &parts.map(call_of).collect::<Result<Vec<_>>>()?, world) else {
        return Ok(());
    };
    process::all_say(&message);
    Err(Error::Mismatch(message))
}

fn bytes_of(call: &Call) -> Vec<u8> {
    serde_json::to_vec(call).expect("a call is plain data: this is a bug in polyshard")
}

fn call_of(bytes: &[u8]) -> Result<Call> {
    let unreadable = "ranks exchanged headers that do not match: they must run the same program";
    serde_json::from_slice(bytes).map_err(|_| Error::Mpi(unreadable.into()))
}

/// Describes how the calls of the members of a group disagree, if they do.
fn judge(members: &[usize], calls: &[Call], world: usize) -> Option<String> {
    let message = disagreement(members, calls)?;
    // A rank that has ended makes no call: the others wait for it.
    if !calls.contains(&Call::End) {
        return Some(message);
    }
    let operation = |call: &Call| match call {
        Call::End => Operation::Ended,
        call => Operation::Waits(within(&call.to_string(), members, world)),
    };
    Some(deadlock(members.iter().zip(calls).map(|(&rank, call)| (rank, operation(call)))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, ReduceOp};

    #[test]
    fn calls_come_back_as_they_were() {
        let (dtype, op) = (DType::I32, ReduceOp::Min);
        let calls = [
            Call::Barrier,
            Call::Broadcast { root: 3, bytes: 1 << 40 },
            Call::AllGather { counts: vec![4, 0, 9].into() },
            Call::AllToAll { send: vec![1, 2].into(), receive: vec![3, 4].into() },
            Call::Reduce { root: 1, bytes: 8, dtype, op },
            Call::AllReduce { bytes: 12, dtype: DType::F32, op: ReduceOp::Sum },
            Call::ReduceScatter { counts: vec![8, 16].into(), dtype, op },
            Call::Headers { about: "gather to 2 of f64, ä".into() },
            Call::Split { color: 7, key: 1 },
            Call::SharedMemory,
            Call::End,
            Call::Exit,
        ];
        for call in calls {
            assert_eq!(call_of(&bytes_of(&call)), Ok(call));
        }
    }

    #[test]
    fn what_is_no_call_is_an_error() {
        for bytes in [&b""[..], b"[]", br#""Barter""#, &bytes_of(&Call::Split { color: 7, key: 1 })[1..]] {
            assert!(call_of(bytes).unwrap_err().to_string().contains("headers that do not match"));
        }
    }
}
