//! A group's messages: real ones between threads, each with the time at which it arrives.
//!
//! ```text
//! rank 0   takes ports until 7.2, sends "data", "7.2"
//! rank 1   receives "data", "7.2", and sleeps until 7.2
//! ```
//!
//! The sender does not wait: a message is on its way as soon as it is sent, and its ports are what delays it. Deadlocks
//! and lengths that differ are found by the threads below, and named as they name them. A message to oneself passes
//! no port.

use super::network::Network;
use crate::Result;
use crate::comm::threads::Shared;
use crate::comm::{Communicator, check};
use std::rc::Rc;
use std::sync::Arc;

/// A group of ranks of an emulated machine, seen from one of them.
pub(super) struct Wire {
    comm: Box<dyn Communicator>,
    /// World ranks of the members, which are devices of the machine.
    members: Rc<[usize]>,
    network: Arc<Network>,
    ranks: Arc<Shared>,
}

impl Wire {
    /// Returns the wire over `comm`, a group of threads with these world ranks.
    pub(super) fn new(
        comm: Box<dyn Communicator>,
        members: Rc<[usize]>,
        network: Arc<Network>,
        ranks: Arc<Shared>,
    ) -> Self {
        Self { comm, members, network, ranks }
    }

    /// Returns another wire over a group of the same machine.
    pub(super) fn over(&self, comm: Box<dyn Communicator>, members: Rc<[usize]>) -> Self {
        Self::new(comm, members, Arc::clone(&self.network), Arc::clone(&self.ranks))
    }

    /// Returns the threads' group, whose messages take no time.
    pub(super) fn comm(&self) -> &dyn Communicator {
        &*self.comm
    }

    pub(super) fn rank(&self) -> usize {
        self.comm.rank()
    }

    pub(super) fn size(&self) -> usize {
        self.members.len()
    }

    /// Returns this rank's number in the world.
    pub(super) fn world_rank(&self) -> usize {
        self.members[self.rank()]
    }

    /// Returns the rank `places` places after this one, around the end.
    pub(super) fn after(&self, places: usize) -> usize {
        (self.rank() + places) % self.size()
    }

    /// Returns the rank `places` places before this one, around the end.
    pub(super) fn before(&self, places: usize) -> usize {
        (self.rank() + self.size() - places % self.size()) % self.size()
    }

    /// Returns how much longer a message from one member to another takes for each byte, in seconds.
    pub(super) fn seconds_per_byte(&self, from: usize, to: usize) -> f64 {
        self.network.seconds_per_byte(self.members[from], self.members[to])
    }

    /// Sends and receives as [`Communicator::exchange`]; returns when the last message has arrived.
    pub(super) fn exchange(&self, sends: &[(usize, &[u8])], receives: &mut [(usize, &mut [u8])]) -> Result<()> {
        let (this, me) = (self.rank(), self.world_rank());
        let others = sends.iter().map(|send| send.0).chain(receives.iter().map(|receive| receive.0));
        others.into_iter().try_for_each(|rank| check::member(self.size(), rank))?;
        let now = self.network.now();
        let arrival = |&(to, data): &(usize, &[u8])| match to == this {
            true => now.to_ne_bytes(),
            false => self.network.send(me, self.members[to], data.len(), now).to_ne_bytes(),
        };
        let leaving: Vec<[u8; 8]> = sends.iter().map(arrival).collect();
        let mut coming = vec![[0; 8]; receives.len()];
        // The time follows its message, so that what a rank is found waiting for is the message.
        let stamped = sends.iter().zip(&leaving).flat_map(|(&(to, data), time)| [(to, data), (to, &time[..])]);
        let (own, others): (Vec<_>, Vec<_>) = stamped.partition(|(to, _)| *to == this);
        others.into_iter().try_for_each(|(to, data)| self.comm.send(to, data))?;
        let mut wanted: Vec<(usize, &mut [u8])> = Vec::with_capacity(2 * receives.len());
        for ((from, into), time) in receives.iter_mut().zip(&mut coming) {
            wanted.push((*from, into));
            wanted.push((*from, time));
        }
        self.comm.exchange(&own, &mut wanted)?;
        let last = coming.into_iter().map(f64::from_ne_bytes).fold(0.0, f64::max);
        self.network.sleep_until(last, &self.ranks)
    }
}
