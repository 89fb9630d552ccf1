//! How the ranks of a checked program find out whether their calls match.
//!
//! Before each collective every member sends its call to the group's first rank, which replies whether all calls
//! match; then the collective runs, and cannot hang any more.
//!
//! ```text
//! rank 0     "barrier"   receives both, sends "same" to both     MPI_Barrier
//! rank 1     "barrier"   sends to 0, waits for 0                 MPI_Barrier
//! rank 2     "barrier"   sends to 0, waits for 0                 MPI_Barrier
//! ```
//!
//! These messages have tags of their own, so they match no message of the program.

use super::header;
use crate::call::{Call, disagreement};
use crate::mpi::poll::{Posted, pause, post, take};
use crate::mpi::{MpiCommunicator, process};
use crate::words::{Operation, deadlock, within};
use crate::{Error, Result};
use std::cell::RefCell;
use std::ffi::c_int;
use std::mem;
use std::time::Instant;

const CALL: c_int = 1;
const VERDICT: c_int = 2;

/// Messages of agreements in flight.
#[derive(Default)]
pub(super) struct Agreement {
    outbox: RefCell<Vec<Posted>>,
}

impl Agreement {
    /// Sends this rank's call to the group's first rank, and waits until all `members`, given as world ranks, have made the
    /// same call; collective.
    pub(super) fn reach(&self, comm: &MpiCommunicator, members: &[usize], world: usize, call: &Call<'_>) -> Result<()> {
        let (raw, size) = (comm.raw(), members.len());
        if size == 1 {
            return Ok(());
        }
        let bytes = header::of_call(call);
        let verdict = if comm.rank > 0 {
            self.post(comm, 0, CALL, bytes)?;
            String::from_utf8_lossy(&wait(|| take(raw, Some(0), VERDICT))?.1).into_owned()
        } else {
            let mut calls = vec![None; size];
            calls[0] = Some(header::to_call(&bytes)?);
            wait(|| {
                for (rank, call) in calls.iter_mut().enumerate().filter(|(_, call)| call.is_none()) {
                    *call = take(raw, Some(rank), CALL)?.map(|(_, header)| header::to_call(&header)).transpose()?;
                }
                Ok(calls.iter().all(Option::is_some).then_some(()))
            })?;
            let calls: Vec<Call<'_>> = calls.into_iter().flatten().collect();
            let verdict = judge(members, &calls, world).unwrap_or_default();
            (1..size).try_for_each(|rank| self.post(comm, rank, VERDICT, verdict.clone().into_bytes()))?;
            verdict
        };
        if verdict.is_empty() {
            return Ok(());
        }
        process::all_say(&verdict);
        Err(Error::Mismatch(verdict))
    }

    /// Sends a small message without waiting, and drops those that are done.
    fn post(&self, comm: &MpiCommunicator, to: usize, tag: c_int, data: Vec<u8>) -> Result<()> {
        let posted = post(comm.raw(), to, tag, data)?;
        let outbox = mem::take(&mut *self.outbox.borrow_mut());
        for mut posted in outbox.into_iter().chain([posted]) {
            if !posted.is_done()? {
                self.outbox.borrow_mut().push(posted);
            }
        }
        Ok(())
    }
}

fn wait<T>(mut ready: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let began = Instant::now();
    loop {
        if let Some(found) = ready()? {
            return Ok(found);
        }
        pause(began);
    }
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
