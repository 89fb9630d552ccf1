//! How the ranks of a checked program find out whether their calls match.
//!
//! Before each collective the members of the group gather the hashes of their calls; the calls follow only if hashes differ, or
//! if ranks call an all-to-all, whose counts differ by rank. Then the collective runs, and cannot hang any more. A rank that makes
//! no collective call, or one in another group, keeps the others waiting here, where the [watchdog](super::watchdog) finds them.

use super::header;
use crate::call::{Call, disagreement};
use crate::mpi::{MpiCommunicator, process};
use crate::words::{Operation, deadlock, within};
use crate::{Error, Header, Result};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Waits until all members of the group, of a world of `world` ranks, have made a call; collective.
///
/// # Errors
/// If the calls do not match, the same on all ranks.
pub(super) fn reach(comm: &MpiCommunicator, world: usize, call: &Call<'_>) -> Result<()> {
    if comm.size == 1 {
        return Ok(());
    }
    let bytes = match call {
        // Its arguments differ by rank.
        Call::Split { .. } => header::of_call(&Call::Split { color: 0, key: 0 }),
        call => header::of_call(call),
    };
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
    let calls = crate::starts(&counts).zip(&counts).map(|(start, count)| header::to_call(&all[start..start + count]));
    let Some(message) = judge(&comm.members, &calls.collect::<Result<Vec<_>>>()?, world) else { return Ok(()) };
    process::all_say(&message);
    Err(Error::Mismatch(message))
}

/// Describes how the calls of the members of a group disagree, if they do.
fn judge(members: &[usize], calls: &[Call<'_>], world: usize) -> Option<String> {
    let message = disagreement(members, calls)?;
    // A rank that has ended makes no call: the others wait for it.
    if !calls.contains(&Call::End) {
        return Some(message);
    }
    let operation = |call: &Call<'_>| match call {
        Call::End => Operation::Ended,
        call => Operation::Waits(within(&call.to_string(), members, world)),
    };
    Some(deadlock(members.iter().zip(calls).map(|(&rank, call)| (rank, operation(call)))))
}
