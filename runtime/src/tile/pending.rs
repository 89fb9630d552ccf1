//! How an in-flight output tile completes.

use super::terms::Fold;
use super::under_way::Begun;
use crate::exchange::Exchange;
use crate::memory::Buffer;
use crate::subarray::Subarray;
use std::ops::Range;
use std::rc::Rc;

/// A tile that is on its way to its owners.
pub(super) struct Leaving<T> {
    /// This rank's own terms, unless the tile has been combined.
    pub(super) buffer: Buffer<T>,
    pub(super) end: Option<End>,
}

/// What has been posted of a tile, and what becomes of the tile then.
pub(super) type Pending = (Begun, End);

/// What becomes of a tile when what has been posted for it is there.
pub(super) enum End {
    /// Terms are combined.
    Terms(Rc<Exchange>, Fold),
    /// This member has summed up its piece, and has the sums of others, of these pieces of the tile.
    Sums { own: Rc<Subarray>, mine: Range<usize>, others: Vec<Range<usize>> },
}
