//! A group's messages: real ones between threads, each with its emulated arrival time.
//!
//! ```text
//! rank 0   reserves ports until 7.2, sends "data", "7.2"
//! rank 1   receives "data", "7.2", and sleeps until 7.2
//! ```
//!
//! The sender does not wait: a message is in flight as soon as it is sent, and only its ports delay it. The threads below
//! find deadlocks and lengths that differ, and name them in their messages. A message of a rank to itself passes no port.

use super::network::Network;
use crate::flight::{self, Transfer};
use crate::threads::{Shared, ThreadComm};
use crate::{Carrier, Communicator, Flight, Piece, Result, check};
use std::sync::Arc;

/// A group of ranks of an emulated machine, seen from one of them.
pub(super) struct Wire {
    comm: ThreadComm,
    /// World ranks of the members, which are devices of the machine.
    members: Arc<[usize]>,
    network: Arc<Network>,
    ranks: Arc<Shared>,
}

impl Wire {
    /// Returns the wire over `comm`, a group of threads with these world ranks.
    pub(super) fn new(comm: ThreadComm, members: Arc<[usize]>, network: Arc<Network>, ranks: Arc<Shared>) -> Self {
        Self { comm, members, network, ranks }
    }

    /// Returns another wire over a group of the same machine.
    pub(super) fn over(&self, comm: ThreadComm, members: Arc<[usize]>) -> Self {
        Self::new(comm, members, Arc::clone(&self.network), Arc::clone(&self.ranks))
    }

    /// Returns the threads' group, whose messages take no emulated time.
    pub(super) fn comm(&self) -> &ThreadComm {
        &self.comm
    }

    pub(super) fn rank(&self) -> usize {
        self.comm.rank()
    }

    pub(super) fn size(&self) -> usize {
        self.members.len()
    }

    /// Returns this rank's world rank.
    pub(super) fn world_rank(&self) -> usize {
        self.members[self.rank()]
    }

    /// Returns the rank `places` places after this one, cyclically.
    pub(super) fn after(&self, places: usize) -> usize {
        (self.rank() + places) % self.size()
    }

    /// Returns the rank `places` places before this one, cyclically.
    pub(super) fn before(&self, places: usize) -> usize {
        (self.rank() + self.size() - places % self.size()) % self.size()
    }

    /// Returns how much longer a message from one member to another takes per byte, in seconds.
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
        // The time follows its message, so that a rank found waiting is waiting for the message.
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

    /// Refuses any call once this rank has dropped a flight that was not done, or another has failed: a failure ends all polls,
    /// also of flights that are done.
    pub(super) fn check(&self) -> Result<()> {
        self.ranks.dropped(self.world_rank()).check(|| self.world_rank())?;
        self.ranks.check()
    }
}

impl Carrier for Wire {
    /// A message arrives at its emulated time; the next poll finds it.
    fn post(&self, sends: Vec<(usize, Arc<Piece>)>, receives: Vec<(usize, Piece)>) -> Result<Flight> {
        self.check()?;
        let (this, me) = (self.rank(), self.world_rank());
        flight::post([self.size(), this], self.ranks.dropped(me), sends, receives, |sends, receives| {
            let now = self.network.now();
            let (mut leaving, mut coming) = (Vec::new(), Vec::new());
            for (to, piece) in sends {
                let arrival = self.network.send(me, self.members[to], piece.len(), now);
                let time = Piece::copy_of(&arrival.to_ne_bytes(), "the time of a message")?;
                leaving.extend([(to, piece), (to, Arc::new(time))]);
            }
            for (from, piece) in receives {
                coming.extend([(from, piece), (from, Piece::new(size_of::<f64>(), "the time of a message")?)]);
            }
            let flight = Communicator::post(&self.comm, leaving, coming)?;
            Ok(TimedTransfer {
                flight,
                arrival: None,
                network: Arc::clone(&self.network),
                ranks: Arc::clone(&self.ranks),
            })
        })
    }

    fn poll(&self, flights: &mut [&mut Flight]) -> Result<usize> {
        self.check()?;
        flight::poll(flights, None)
    }

    fn wait(&self, flights: &mut [&mut Flight]) -> Result<()> {
        flights.iter_mut().try_for_each(|flight| flight.wait())?;
        self.poll(flights).map(drop)
    }
}

/// The messages of a flight, each followed by its arrival time.
struct TimedTransfer {
    /// The messages and times, between the threads.
    flight: Flight,
    /// When the last message arrives, once known.
    arrival: Option<f64>,
    network: Arc<Network>,
    ranks: Arc<Shared>,
}

impl TimedTransfer {
    /// Returns when the last message arrives, if all have been sent.
    fn arrival(&mut self) -> Result<Option<f64>> {
        if self.arrival.is_none() && self.flight.poll(None)? {
            let mut last = 0.0;
            self.flight.read(&mut |place, data| {
                if let (1, Ok(time)) = (place % 2, data.try_into()) {
                    last = f64::max(last, f64::from_ne_bytes(time));
                }
            });
            self.arrival = Some(last);
        }
        Ok(self.arrival)
    }
}

impl Transfer for TimedTransfer {
    fn poll(&mut self) -> Result<bool> {
        Ok(self.arrival()?.is_some_and(|arrival| arrival <= self.network.now()))
    }

    fn wait(&mut self) -> Result<()> {
        self.flight.wait()?;
        match self.arrival()? {
            Some(arrival) => self.network.sleep_until(arrival, &self.ranks),
            None => panic!("a flight was waited for and is not done: this is a bug in polyshard"),
        }
    }

    fn read(&self, read: &mut dyn FnMut(usize, &[u8])) {
        self.flight.read(&mut |place, data| {
            if place % 2 == 0 {
                read(place / 2, data);
            }
        });
    }

    fn take(&mut self) -> Vec<Piece> {
        self.flight.take().into_iter().step_by(2).collect()
    }
}
