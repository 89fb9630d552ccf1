//! The calls of programs on MPI: each is recorded, so that a rank that waits long can report where, and compared with
//! those of the others in checked programs.
//!
//! Recording a call costs a lock that is free ([`watch`]). A thread of each process reads the records, and finds out with those of
//! the other processes which ranks are missing ([`watchdog`], [`verdict`]). In a checked program all members of a group agree
//! on their calls before each collective ([`agreement`]).

mod agreement;
mod report;
mod verdict;
pub(super) mod watch;
pub(super) mod watchdog;

use super::{MpiCommunicator, process};
use crate::Result;
use crate::call::Call;
use std::sync::Arc;
use watch::{Group, Waiting, Watch};

/// The ids of groups that all programs have: all ranks in a program, all ranks at its end, and all ranks at the mailbox of a node.
pub(super) const WORLD: u64 = 0;
pub(super) const ENDS: u64 = 1;
pub(super) const BOARD: u64 = 2;

/// How the calls of a group are watched.
pub(super) struct Watching {
    pub(super) watch: &'static Watch,
    pub(super) group: Group,
    /// Whether the ranks compare their calls, in a checked program.
    pub(super) is_checked: bool,
}

impl Watching {
    /// Begins to watch the group with this id, and these world ranks as members.
    pub(super) fn new(watch: &'static Watch, id: u64, members: &Arc<[usize]>) -> Self {
        Self::of(watch, Group::new(id, Arc::clone(members)), false)
    }

    /// Begins to watch the part of the group whose `members` gave `which` in the split that has just begun.
    pub(super) fn divided(&self, which: usize, members: &Arc<[usize]>) -> Self {
        Self::of(self.watch, self.group.divided(which, Arc::clone(members)), self.is_checked)
    }

    fn of(watch: &'static Watch, group: Group, is_checked: bool) -> Self {
        watch.add(&group);
        Self { watch, group, is_checked }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.watch.remove(&self.group);
    }
}

impl MpiCommunicator {
    /// Records this rank's call if the group is watched, and in a checked program agrees on it with the others.
    pub(super) fn meets(&self, call: Call) -> Result<Option<Waiting<'static>>> {
        process::check_flights()?;
        let Some(watching) = &self.watching else { return Ok(None) };
        let compared = watching.is_checked.then(|| call.clone());
        let waiting = watching.watch.meets(&watching.group, call);
        if let (Some(_), Some(call)) = (&waiting, compared) {
            agreement::reach(self, watching.watch.size, &call)?;
        }
        Ok(waiting)
    }

    /// Records that this rank waits for messages if the group is watched: the senders and receivers, and the lengths.
    pub(super) fn waits(
        &self,
        from: impl Iterator<Item = (usize, usize)>,
        to: impl Iterator<Item = (usize, usize)>,
    ) -> Option<Waiting<'static>> {
        let in_world = |(rank, bytes): (usize, usize)| (self.members[rank], bytes);
        self.watching.as_ref()?.watch.messages(from.map(in_world), to.map(in_world))
    }
}
