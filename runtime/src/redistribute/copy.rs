//! Copying rows of a piece between tiles and messages.
//!
//! Positions of rows are in elements, tiles are bytes: one copy of this code serves all element types. What is
//! packed is sent at once and stays in the cache; what is unpacked goes past it, if the tile is large.

use super::piece::{Row, Rows};
use super::stream::Copier;

/// Into a message: past the cache would be to memory and back.
const PACKED: Copier = Copier::ORDINARY;

/// Copies the next elements of `rows` out of `source`, until `packed` is full.
pub(super) fn pack(rows: &mut Rows<'_>, element: usize, source: &[u8], packed: &mut [u8]) {
    let mut at = 0;
    rows.next(packed.len() / element, |Row { from, len, .. }| {
        let len = len * element;
        PACKED.put(&source[from * element..][..len], &mut packed[at..at + len]);
        at += len;
    });
    assert_eq!(at, packed.len(), "a message is as long as its piece: this is a bug of polyshard");
}

/// Copies all of `packed` to the next elements of `rows` in `target`.
pub(super) fn unpack(rows: &mut Rows<'_>, element: usize, packed: &[u8], target: &mut [u8]) {
    let copier = Copier::new(target.len());
    let mut at = 0;
    rows.next(packed.len() / element, |Row { to, len, .. }| {
        let len = len * element;
        copier.put(&packed[at..at + len], &mut target[to * element..][..len]);
        at += len;
    });
    copier.finish();
    assert_eq!(at, packed.len(), "a message is as long as its piece: this is a bug of polyshard");
}

/// Copies all of `rows` from `source` to `target`.
pub(super) fn copy(mut rows: Rows<'_>, element: usize, source: &[u8], target: &mut [u8]) {
    let copier = Copier::new(target.len());
    rows.next(usize::MAX, |Row { from, to, len }| {
        copier.put(&source[from * element..][..len * element], &mut target[to * element..][..len * element]);
    });
    copier.finish();
}
