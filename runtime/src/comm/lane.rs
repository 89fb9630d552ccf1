//! Groups by which a progress thread communicates.

use super::Carrier;

/// A group for flights alone, as [`Communicator::lane`](super::Communicator::lane) returns it. Only this library communicates by it: the rank's own thread,
/// or its progress thread while that one computes.
pub struct Lane(Box<dyn Carrier + Send>);

impl Lane {
    /// Returns the lane that posts and polls by this.
    ///
    /// ```
    /// # use polyshard_runtime::comm::{Carrier, Flight, Lane, Piece};
    /// # use polyshard_runtime::Result;
    /// # use std::sync::Arc;
    /// struct Wire;
    /// # impl Carrier for Wire {
    /// #     fn post(&self, _: Vec<(usize, Arc<Piece>)>, _: Vec<(usize, Piece)>) -> Result<Flight> { unimplemented!() }
    /// #     fn poll(&self, _: &mut [&mut Flight]) -> Result<usize> { unimplemented!() }
    /// #     fn wait(&self, _: &mut [&mut Flight]) -> Result<()> { unimplemented!() }
    /// # }
    /// // Of a communicator of one's own, whose wires are `Carrier`s.
    /// let lane = Lane::new(Wire);
    /// ```
    #[must_use]
    pub fn new(carrier: impl Carrier + Send + 'static) -> Self {
        Self(Box::new(carrier))
    }

    pub(crate) fn carrier(&self) -> &dyn Carrier {
        &*self.0
    }
}
