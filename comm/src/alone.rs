//! Collectives of a group of one rank, which copy.
//!
//! A mesh axis of extent 1 needs no communication, but a program that names it must still run.

use super::{CollectiveCall, check};
use crate::Result;

/// Carries out a collective whose arguments have been [checked](CollectiveCall::check).
pub(super) fn carry_out(collective: CollectiveCall<'_>) -> Result<()> {
    match collective {
        CollectiveCall::AllGather { send, into, .. } | CollectiveCall::ReduceScatter { send, into, .. } => {
            into.copy_from_slice(send);
        }
        CollectiveCall::AllToAll { send, into, receive_counts, .. } => {
            check::own_count(receive_counts[0], "send", send.len())?;
            into.copy_from_slice(send);
        }
        CollectiveCall::Headers { header, into, .. } => {
            into.clear();
            into.push(header);
        }
        _ => {}
    }
    Ok(())
}
