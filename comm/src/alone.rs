//! A group of one rank.
//!
//! A mesh axis of extent 1 needs no communication, but a program that names it must still run, so the group
//! exists, and copies. It uses its origin only for state that the ranks share: the count of bytes received,
//! flights, and the abort of all ranks.

use super::flight::{self, Dropped, Transfer};
use super::shared::OneProcess;
use super::{Carrier, CollectiveCall, Communicator, Flight, Lane, Piece, Received, SharedMemory, check};
use crate::Result;
use std::rc::Rc;
use std::sync::Arc;

/// The group of one rank, split off from `origin` without communication.
pub struct Alone {
    origin: Rc<dyn Communicator>,
}

impl Alone {
    /// Returns the group that holds this rank of `origin` alone.
    pub fn new(origin: Rc<dyn Communicator>) -> Self {
        Self { origin }
    }
}

impl Communicator for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn world_rank(&self, rank: usize) -> usize {
        assert_eq!(rank, 0, "the group has rank 0 alone");
        self.origin.world_rank(self.origin.rank())
    }

    fn send(&self, to: usize, _data: &[u8]) -> Result<()> {
        check::peer(1, 0, to)
    }

    fn receive(&self, from: usize, _into: &mut [u8]) -> Result<()> {
        check::peer(1, 0, from)
    }

    fn exchange(&self, sends: &[(usize, &[u8])], receives: &mut [(usize, &mut [u8])]) -> Result<()> {
        check::exchange(1, 0, sends, receives)
    }

    fn post(&self, mut sends: Vec<(usize, Arc<Piece>)>, mut receives: Vec<(usize, Piece)>) -> Result<Flight> {
        // The origin delivers messages of a rank to itself.
        let ranks = sends.iter_mut().map(|send| &mut send.0).chain(receives.iter_mut().map(|receive| &mut receive.0));
        for rank in ranks {
            check::member(1, *rank)?;
            *rank = self.origin.rank();
        }
        self.origin.post(sends, receives)
    }

    fn poll(&self, flights: &mut [&mut Flight]) -> Result<usize> {
        self.origin.poll(flights)
    }

    fn collective(&self, collective: CollectiveCall<'_>) -> Result<()> {
        collective.check(1, 0)?;
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

    fn split(&self, _color: usize, _key: usize) -> Result<Box<dyn Communicator>> {
        Ok(Box::new(Self::new(Rc::clone(&self.origin))))
    }

    fn lane(&self) -> Result<Lane> {
        Ok(Lane::new(Itself::default()))
    }

    fn count_in_place(&self, bytes: usize) {
        self.origin.count_in_place(bytes);
    }

    fn shared_memory(&self) -> Result<Rc<dyn SharedMemory>> {
        Ok(Rc::new(OneProcess::default()))
    }

    fn received(&self) -> Received {
        self.origin.received()
    }

    fn abort(&self, message: &str) {
        self.origin.abort(message);
    }
}

/// The messages of a rank to itself, which are delivered when they are posted.
#[derive(Default)]
struct Itself {
    dropped: Arc<Dropped>,
}

impl Carrier for Itself {
    fn post(&self, sends: Vec<(usize, Arc<Piece>)>, receives: Vec<(usize, Piece)>) -> Result<Flight> {
        flight::post([1, 0], &self.dropped, sends, receives, |_, _| Ok(Nothing))
    }

    fn poll(&self, flights: &mut [&mut Flight]) -> Result<usize> {
        flight::poll(flights, None)
    }

    fn wait(&self, flights: &mut [&mut Flight]) -> Result<()> {
        flight::poll(flights, None).map(drop)
    }
}

/// No messages to or from other ranks.
struct Nothing;

impl Transfer for Nothing {
    fn poll(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    fn read(&self, _read: &mut dyn FnMut(usize, &[u8])) {}

    fn take(&mut self) -> Vec<Piece> {
        Vec::new()
    }
}
