//! Copying rows of a piece between tiles and messages.
//!
//! Positions of rows are in elements, tiles are bytes: one copy of this code serves all element types.

use super::piece::{Row, Rows};

/// Copies the next elements of `rows` out of `source`, until `packed` is full.
pub(super) fn pack(rows: &mut Rows<'_>, element: usize, source: &[u8], packed: &mut [u8]) {
    let mut rest = packed;
    while !rest.is_empty() {
        let Row { from, len, .. } = next(rows, rest.len() / element);
        let (into, tail) = rest.split_at_mut(len * element);
        row(&source[from * element..][..len * element], into);
        rest = tail;
    }
}

/// Copies all of `packed` to the next elements of `rows` in `target`.
pub(super) fn unpack(rows: &mut Rows<'_>, element: usize, packed: &[u8], target: &mut [u8]) {
    let mut rest = packed;
    while !rest.is_empty() {
        let Row { to, len, .. } = next(rows, rest.len() / element);
        let (from, tail) = rest.split_at(len * element);
        row(from, &mut target[to * element..][..len * element]);
        rest = tail;
    }
}

/// Copies all of `rows` from `source` to `target`.
pub(super) fn copy(rows: Rows<'_>, element: usize, source: &[u8], target: &mut [u8]) {
    for Row { from, to, len } in rows {
        row(&source[from * element..][..len * element], &mut target[to * element..][..len * element]);
    }
}

fn next(rows: &mut Rows<'_>, limit: usize) -> Row {
    rows.next_up_to(limit).expect("a message is as long as its piece: this is a bug of polyshard")
}

/// Copies one row; a row of one element, as dealt out arrays have, without a call.
fn row(from: &[u8], to: &mut [u8]) {
    match (<&[u8; 8]>::try_from(from), <&[u8; 4]>::try_from(from)) {
        (Ok(from), _) => to.copy_from_slice(from),
        (_, Ok(from)) => to.copy_from_slice(from),
        _ => to.copy_from_slice(from),
    }
}
