//! Transfers between two arrays: at once, or in flight while kernels compute.
//!
//! Tests: `tests/it/sequence/in_flight.rs`.

use super::Engine;
use crate::tile::{Flights, Posted, When};
use crate::{DistArray, Element, Redistribution, Result, Transport};

/// A transfer between two arrays, and its messages in flight.
pub(super) struct Move {
    there: Redistribution,
    pub(super) flights: Flights,
}

impl<T: Element> Engine<'_, T> {
    /// Adds transfers between arrays, numbered from 0 in this order.
    pub(crate) fn add_moves(&mut self, moves: impl IntoIterator<Item = Redistribution>) {
        let made = moves.into_iter().map(|there| Move { there, flights: Flights::default() });
        self.moves.extend(made);
    }

    /// Returns the transfers between arrays.
    pub(crate) fn moves(&self) -> impl Iterator<Item = &Redistribution> {
        self.moves.iter().map(|one| &one.there)
    }

    pub(super) fn set_transport_of_moves(&mut self, transport: Transport) {
        self.moves.iter_mut().for_each(|one| one.there.set_transport(transport));
    }

    /// Forgets the transfers that a failed run left in flight; dropping them makes every later call of this rank an error.
    pub(crate) fn restart_moves(&self) {
        self.moves.iter().for_each(|one| one.flights.clear());
    }

    /// Begins a transfer between arrays; unless it is to end later, it is complete when this returns.
    ///
    /// # Errors
    /// As [`Redistribution::run_into`].
    pub(crate) fn begin_move(
        &mut self,
        number: usize,
        source: &DistArray<T>,
        target: &mut DistArray<T>,
        when: When,
    ) -> Result<()> {
        let Move { there, flights } = &self.moves[number];
        match when {
            When::Now => there.run_blocks(source, target),
            When::Later if there.can_be_in_flight() => {
                flights.begin(Posted::Messages(there.post(source.block())?));
                Ok(())
            }
            // Where ranks share memory, and where sums are closed, all of it is done when it ends.
            When::Later => Ok(()),
        }
    }

    /// Completes a transfer between arrays that has begun to end later.
    ///
    /// # Errors
    /// As [`Redistribution::run_into`].
    pub(crate) fn end_move(&mut self, number: usize, source: &DistArray<T>, target: &mut DistArray<T>) -> Result<()> {
        let Move { there, flights } = &self.moves[number];
        if !there.can_be_in_flight() {
            return there.run_blocks(source, target);
        }
        let received = flights.finish(self.world.comm())?.received;
        there.unpack(&received, source, target)
    }
}
