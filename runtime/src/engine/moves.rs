//! Transfers between two arrays: at once, or in flight while kernels compute.
//!
//! Tests: `tests/it/sequence/in_flight.rs`.

use super::Engine;
use crate::instances::Instances;
use crate::tile::{Flights, Posted, When};
use crate::{DistArray, Element, Redistribution, Result, Transport, World};

/// A transfer between two arrays, and its messages in flight.
pub(super) struct Move {
    there: Redistribution,
    pub(super) flights: Flights,
}

impl<'w, T: Element> Engine<'w, T> {
    /// Returns the engine with transfers between arrays, numbered from 0 in this order.
    #[must_use]
    pub fn with_moves(mut self, moves: impl IntoIterator<Item = Redistribution>) -> Self {
        self.add_moves(moves);
        self
    }

    /// Begins a run of all statements, and returns the world. What a failed run left in flight is forgotten.
    pub fn restart(&mut self) -> &'w World {
        self.start();
        // A move may be left without a kernel having failed. The runs of kernels that follow keep what is in flight.
        self.restart_moves();
        self.end();
        self.world
    }

    /// Returns an array for the move number `number` to write; collective over the world.
    ///
    /// # Errors
    /// If there is too little memory, or another rank failed.
    ///
    /// # Panics
    /// If there is no such move.
    pub fn target_of_move(&self, number: usize) -> Result<DistArray<T>> {
        T::target_of_move(self, number)
    }

    /// Begins a transfer between arrays, which is in flight until it is [ended](Self::end_move). Neither array may be written meanwhile.
    ///
    /// # Errors
    /// If there is too little memory, or another rank failed.
    ///
    /// # Panics
    /// If there is no such move, or an array is not sharded as it says.
    pub fn begin_move(&mut self, number: usize, source: &DistArray<T>, target: &mut DistArray<T>) -> Result<()> {
        T::begin_move(self, number, source, target, When::Later)
    }

    /// Waits until a transfer between arrays has ended.
    ///
    /// # Errors
    /// As for [`begin_move`](Self::begin_move).
    ///
    /// # Panics
    /// As for [`begin_move`](Self::begin_move), or if it has not begun.
    pub fn end_move(&mut self, number: usize, source: &DistArray<T>, target: &mut DistArray<T>) -> Result<()> {
        T::end_move(self, number, source, target)
    }

    /// As [`begin_move`](Self::begin_move) and [`end_move`](Self::end_move).
    ///
    /// # Errors
    /// As for [`begin_move`](Self::begin_move).
    ///
    /// # Panics
    /// As for [`begin_move`](Self::begin_move).
    pub fn run_move(&mut self, number: usize, source: &DistArray<T>, target: &mut DistArray<T>) -> Result<()> {
        T::begin_move(self, number, source, target, When::Now)
    }

    /// Adds transfers between arrays, numbered from 0 in this order.
    pub(crate) fn add_moves(&mut self, moves: impl IntoIterator<Item = Redistribution>) {
        let made = moves.into_iter().map(|there| Move { there, flights: Flights::default() });
        self.moves.extend(made);
    }

    pub(crate) fn made_target(&self, number: usize) -> Result<DistArray<T>> {
        DistArray::with_any_elements(self.world, self.moves[number].there.target())
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
    pub(crate) fn begun_move(
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
    pub(crate) fn ended_move(&mut self, number: usize, source: &DistArray<T>, target: &mut DistArray<T>) -> Result<()> {
        let Move { there, flights } = &self.moves[number];
        if !there.can_be_in_flight() {
            return there.run_blocks(source, target);
        }
        let received = flights.finish(self.world.comm())?.received;
        there.unpack(&received, source, target)
    }
}
