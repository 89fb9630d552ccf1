//! Groups by which a progress thread communicates.

use super::Carrier;

/// A group for flights alone, as [`Communicator::lane`](super::Communicator::lane) returns it. Only this library communicates by it: the rank's own thread,
/// or its progress thread while that one computes.
pub struct Lane(Box<dyn Carrier + Send>);

impl Lane {
    pub(crate) fn new(carrier: impl Carrier + Send + 'static) -> Self {
        Self(Box::new(carrier))
    }

    pub(crate) fn carrier(&self) -> &dyn Carrier {
        &*self.0
    }
}
