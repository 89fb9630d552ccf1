//! A group of processes for flights, under watch: a part of a program's communicator, or a lane, which another thread of the rank may use.

use super::watch::{Group, Watch};
use crate::mpi::MpiCommunicator;
use crate::{Carrier, Communicator, Flight, Piece, Result};
use std::sync::Arc;

/// One process' view of a group, in which it posts flights.
pub(super) struct WatchedLane {
    pub(super) inner: MpiCommunicator,
    pub(super) group: Group,
    pub(super) watch: &'static Watch,
}

impl WatchedLane {
    /// Returns the group, and begins to count its collectives.
    pub(super) fn new(inner: MpiCommunicator, group: Group, watch: &'static Watch) -> Self {
        watch.add(&group);
        Self { inner, group, watch }
    }
}

impl Drop for WatchedLane {
    fn drop(&mut self) {
        self.watch.remove(&self.group);
    }
}

impl Carrier for WatchedLane {
    fn post(&self, sends: Vec<(usize, Arc<Piece>)>, receives: Vec<(usize, Piece)>) -> Result<Flight> {
        let mut flight = Communicator::post(&self.inner, sends, receives)?;
        flight.noted = self.group.note(flight.messages());
        Ok(flight)
    }

    // A rank that polls is not recorded: between two polls it computes, and may still do anything. If it polls for ever for a
    // message that cannot arrive, it hangs like a rank that computes for ever; `wait` is for ranks that have nothing else to do.
    fn poll(&self, flights: &mut [&mut Flight]) -> Result<usize> {
        Communicator::poll(&self.inner, flights)
    }

    fn wait(&self, flights: &mut [&mut Flight]) -> Result<()> {
        for flight in &mut *flights {
            if self.poll(&mut [flight])? == 0 {
                let _waiting = self.watch.flies(&flight.noted);
                flight.wait()?;
            }
        }
        self.poll(flights).map(drop)
    }
}
