//! Collectives as rounds: which segments a rank receives and sends in each round, and its peers.
//!
//! [`Rounds`] are data, made by functions of sizes and ranks alone, so that a collective can be tested without running it: the
//! tests replay the rounds of all ranks on values. One small state machine, [`Running`], runs them over non-blocking messages.
//!
//! | file | holds |
//! | --- | --- |
//! | `chain` | broadcasts and reductions from neighbour to neighbour, also by two chains at once, and sums in order |
//! | `circulant` | broadcasts in the minimum number of rounds |
//! | `links` | which ranks send to which, to connect them in advance |
//! | `ring` | all-gather and reduce-scatter, in both directions |
//! | `running` | the state machine |
//!
//! Segments are ranges of one buffer. In every algorithm, a rank receives a segment in its final place, and forwards it from there.

mod chain;
mod circulant;
mod links;
#[cfg(test)]
#[path = "rounds/tests/replay.rs"]
mod replay;
mod ring;
mod running;

pub use chain::Chain;
pub use links::{Links, connect, connect_with};
pub use running::{Carrier, Running};

use std::ops::Range;

/// One rank's part in a collective, as a list of rounds.
///
/// In a round, the rank first sends segments that it holds and then receives; the next round begins when it has received. It need
/// not wait until its sends are done.
///
/// ```
/// use polyshard::runtime::comm::{Communicator, Piece, Rounds};
/// use polyshard::prelude::*;
/// // A broadcast of 1000 bytes in 4 segments, from rank 2, which computes meanwhile.
/// spmd(5, |world| {
///     let rounds = Rounds::circulant(world.size(), world.rank(), 2, Rounds::segments(1000, 4, 1));
///     let mut data = Piece::new(1000, "what is broadcast")?;
///     if world.rank() == 2 {
///         data.fill(7);
///     }
///     let mut broadcast = rounds.start(data, None);
///     while !broadcast.poll(world.comm())? {
///         std::thread::yield_now();
///     }
///     assert_eq!(*broadcast.wait(world.comm())?, [7; 1000]);
///     Ok(())
/// })?;
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// The start of each segment, and the end of the last, in bytes.
    bounds: Vec<usize>,
    rounds: Vec<Round>,
}

/// One round of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// The rank to send to, and the segments, which the rank holds before the round.
    pub send: Option<(usize, Range<usize>)>,
    /// The receive of the round, if any.
    pub receive: Option<Receive>,
}

/// One receive of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receive {
    /// The rank that sends.
    pub from: usize,
    /// The segments.
    pub segments: Range<usize>,
    /// How they are combined with the rank's own.
    pub arrival: Arrival,
}

/// How a received segment is combined with the one that the rank has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It replaces it.
    Replace,
    /// The two are combined, element by element. The operations of reductions give the same bits in either order of operands,
    /// so a sum that passes ranks in order is a sum in that order.
    Combine,
}

impl Round {
    /// A round in which a rank receives, and sends nothing.
    fn receive(from: usize, segments: Range<usize>, arrival: Arrival) -> Self {
        Self { send: None, receive: Some(Receive { from, segments, arrival }) }
    }
}

impl Rounds {
    /// Returns the bounds of `count` segments of `bytes` bytes, as equal as whole elements of `unit` bytes allow.
    ///
    /// ```
    /// use polyshard::runtime::comm::Rounds;
    /// assert_eq!(Rounds::segments(40, 3, 8), [0, 8, 24, 40]);
    /// ```
    ///
    /// # Panics
    /// If `count` is 0.
    #[track_caller]
    #[must_use]
    pub fn segments(bytes: usize, count: usize, unit: usize) -> Vec<usize> {
        assert!(count > 0, "a buffer has at least one segment");
        (0..=count).map(|nth| if nth == count { bytes } else { bytes / unit * nth / count * unit }).collect()
    }

    /// Returns these rounds followed by others on the same segments: they begin, segment by segment, as soon as these allow.
    ///
    /// # Panics
    /// If the segments differ.
    #[track_caller]
    #[must_use]
    pub fn then(mut self, next: Self) -> Self {
        assert_eq!(self.bounds, next.bounds, "rounds that follow one another have the same segments");
        self.rounds.extend(next.rounds);
        self
    }
}
