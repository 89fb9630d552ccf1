//! What a redistribution holds besides input and output: buffers of messages, and tiles between hops.
//!
//! All of it is made by the first run, and again only for larger elements. There are two tiles at most: a hop
//! reads one and writes the other.

use super::messages::Staging;
use crate::block::Block;
use crate::comm::{Room, SharedMemory};
use crate::{Result, memory};

/// The tiles and buffers of one rank.
#[derive(Default)]
pub(super) struct Work {
    pub(super) staging: Staging,
    /// After hops of even and of odd number; 8-byte words, so that every element type is aligned.
    tiles: [Block<u64>; 2],
    /// Bytes of the largest elements that there is room for.
    element: usize,
}

/// The tiles between hops, in elements.
#[derive(Debug, Default)]
pub(super) struct Between {
    /// This rank's tile after each hop but the last.
    pub(super) own: Vec<usize>,
    /// The most that any rank has, after hops of even and of odd number.
    pub(super) most: [usize; 2],
}

impl Between {
    /// Returns the bytes of both tiles, at most, on any rank.
    pub(super) fn bytes(&self, element: usize) -> usize {
        self.most.iter().map(|&most| bytes(most, element)).sum()
    }
}

impl Work {
    /// Makes room for elements of `element` bytes, in `memory` that the ranks share if it is given; collective over
    /// the world if there is too little.
    ///
    /// # Errors
    /// As [`SharedMemory::room`].
    pub(super) fn prepare(
        &mut self,
        between: &Between,
        element: usize,
        memory: Option<&dyn SharedMemory>,
    ) -> Result<()> {
        // All ranks have seen the same elements, so all allocate or none.
        if element <= self.element {
            return Ok(());
        }
        for (parity, tile) in self.tiles.iter_mut().enumerate() {
            if between.most[parity] == 0 {
                continue;
            }
            let own = between.own.iter().skip(parity).step_by(2).copied().max().unwrap_or(0);
            let bytes = bytes(own, element);
            // What there was is given back first.
            *tile = Block::default();
            let words = bytes / size_of::<u64>();
            *tile = match memory.map(|memory| memory.room(bytes)).transpose()? {
                Some(Room::In(segment)) => Block::shared(segment, words),
                // Without room to share, the hop finds the tile hidden, and does what the transport says.
                Some(Room::Anywhere | Room::Nowhere(_)) | None => {
                    memory::words::<u64>(words, "a tile between two steps of a redistribution")?.into()
                }
            };
        }
        self.element = element;
        Ok(())
    }

    /// Returns the bytes that are held now.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.staging.held() + self.tiles.iter().map(|tile| size_of_val(&tile[..])).sum::<usize>()
    }

    /// Returns the buffers, the tile that hop `nth` reads and the one that it writes.
    pub(super) fn parts(&mut self, nth: usize) -> (&mut Staging, &[u64], &mut Block<u64>) {
        let [even, odd] = &mut self.tiles;
        let (read, written) = if nth.is_multiple_of(2) { (odd, even) } else { (even, odd) };
        (&mut self.staging, read, written)
    }
}

/// The bytes of a tile of `elements` elements, in whole words.
fn bytes(elements: usize, element: usize) -> usize {
    (elements * element).next_multiple_of(size_of::<u64>())
}
