//! What is pending of output tiles that are on their way: messages, and what becomes of a tile when they are there.

use super::ahead::{flight, room_for};
use super::terms::{Terms, pieces};
use crate::comm::{CHUNK, Communicator, Flight, Piece, combine_in_chunks};
use crate::memory::Buffer;
use crate::subarray::Subarray;
use crate::{Element, ReduceOp, Result};
use bytemuck::{cast_slice, cast_slice_mut};
use std::iter::once;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// A tile that is on its way to its owners.
pub(super) struct Leaving<T> {
    /// This rank's own terms, unless the tile has been combined.
    pub(super) buffer: Buffer<T>,
    pub(super) pending: Option<Pending>,
}

/// What this rank has posted of a tile, and what becomes of it.
pub(super) struct Pending {
    pub(super) flight: Option<Flight>,
    pub(super) end: End,
}

/// What becomes of a tile when what has been posted for it is there.
pub(super) enum End {
    /// Terms are combined.
    Terms(Rc<Terms>),
    /// This member sums up its piece of a tile of `len` elements, and passes the sums on to the root, or to all.
    Piece { own: Rc<Subarray>, len: usize, root: Option<usize>, op: ReduceOp },
    /// The sums of others' pieces come, and belong at these places of the tile.
    Sums { own: Rc<Subarray>, places: Vec<Range<usize>> },
}

impl Pending {
    /// Goes on without waiting; returns whether all is there. Sums are handed on in the order in which tiles began to leave: `is_next` says
    /// whether all before have been.
    pub(super) fn poll<T: Element>(
        &mut self,
        tile: &mut [T],
        comm: &dyn Communicator,
        lane: Option<&dyn Communicator>,
        is_next: &mut bool,
    ) -> Result<bool> {
        if self.is_here(comm)? && *is_next {
            self.pass_on(tile, lane)?;
        }
        *is_next &= !matches!(self.end, End::Piece { .. });
        Ok(*is_next && self.is_here(comm)?)
    }

    fn is_here(&mut self, comm: &dyn Communicator) -> Result<bool> {
        match self.flight.as_mut().filter(|flight| !flight.is_done()) {
            None => Ok(true),
            Some(flight) => Ok(comm.poll(&mut [flight])? > 0),
        }
    }

    pub(super) fn wait(&mut self, comm: &dyn Communicator) -> Result<()> {
        self.flight.as_mut().map_or(Ok(()), |flight| comm.wait(&mut [flight]))
    }

    /// What has come.
    pub(super) fn received(&mut self) -> Vec<Piece> {
        self.flight.take().map(|flight| flight.into_pieces().1).unwrap_or_default()
    }

    /// Where this rank sums up a piece of a tile, of which all terms are there: does so, and hands it on.
    pub(super) fn pass_on<T: Element>(&mut self, tile: &mut [T], lane: Option<&dyn Communicator>) -> Result<()> {
        let End::Piece { own, len, root, op } = &self.end else { return Ok(()) };
        let (own, len, root, op) = (Rc::clone(own), *len, *root, *op);
        let lane = lane.expect("sums in pieces have a communicator; this is a bug of polyshard");
        let (me, pieces) = (lane.rank(), pieces(0..len, lane.size()));
        let received = self.received();
        let mut sum = room_for::<T>(pieces[me].len())?;
        let others = |range: Range<usize>| received[range].iter().map(|message| cast_slice::<u8, T>(message));
        let terms = |chunk: Range<usize>| {
            let terms = others(0..me).chain(once(&tile[pieces[me].clone()])).chain(others(me..received.len()));
            terms.map(move |term| &term[chunk.clone()])
        };
        let put = |chunk: Range<usize>, sums: &[T]| cast_slice_mut(&mut sum)[chunk].copy_from_slice(sums);
        combine_in_chunks(op, pieces[me].len(), &mut [T::ZERO; CHUNK], terms, put);
        tile[pieces[me].clone()].copy_from_slice(cast_slice(&sum));
        let is_wanted = |member: usize| root.is_none_or(|root| root == member);
        let others = || (0..lane.size()).filter(|&member| member != me);
        let sum = Arc::new(sum);
        let sends = others().filter(|&to| is_wanted(to) && !sum.is_empty()).map(|to| (to, Arc::clone(&sum)));
        let from: Vec<_> = others().filter(|&from| is_wanted(me) && !pieces[from].is_empty()).collect();
        let receives = from.iter().map(|&from| Ok((from, room_for::<T>(pieces[from].len())?)));
        self.flight = flight(lane, sends.collect(), receives.collect::<Result<_>>()?)?;
        self.end = End::Sums { own, places: from.into_iter().map(|from| pieces[from].clone()).collect() };
        Ok(())
    }
}
