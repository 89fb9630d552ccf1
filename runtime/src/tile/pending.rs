//! How an in-flight output tile completes.

use super::terms::Fold;
use super::under_way::Begun;
use crate::exchange::Exchange;
use crate::memory::Buffer;
use crate::subarray::Subarray;
use std::ops::Range;
use std::rc::Rc;

/// A tile in flight to its owners.
pub(super) struct Leaving<T> {
    /// This rank's own terms, unless the tile has been combined.
    pub(super) buffer: Buffer<T>,
    pub(super) end: Option<End>,
}

/// The posted transfer of a tile, and how the tile completes.
pub(super) type Pending = (Begun, End);

/// How a tile completes when its transfer is done.
pub(super) enum End {
    /// Terms are combined.
    Terms(Rc<Exchange>, Fold),
    /// This member has the sums of its own piece, and receives those of the others' pieces of the tile.
    Sums { own: Rc<Subarray>, mine: Range<usize>, others: Vec<Range<usize>> },
}
