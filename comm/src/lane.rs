//! Groups for the messages of a progress thread.

use super::Carrier;

/// A group for flights only, as [`Communicator::lane`](super::Communicator::lane) returns it. Only this library communicates over it: the
/// rank's own thread, or its progress thread while the rank computes.
pub struct Lane(Box<dyn Carrier + Send>);

impl Lane {
    pub(crate) fn new(carrier: impl Carrier + Send + 'static) -> Self {
        Self(Box::new(carrier))
    }

    /// Returns the posting and polling of its flights.
    #[must_use]
    #[doc(hidden)]
    pub fn carrier(&self) -> &dyn Carrier {
        &*self.0
    }
}
