//! Moving pieces by messages: every member sends to and receives from every other, one pair at a time.
//!
//! In round `r` a member sends to the one `r` places after it and receives from the one `r` places before it,
//! so that no two send to the same one at once. What lies together on a side is sent or received in place. A
//! piece that is scattered on a side goes in chunks, so that its buffer stays in the cache: what is packed is
//! not written to memory and read again, and staging does not grow with the tiles.

use super::copy::{copy, pack, unpack};
use super::hop::Hop;
use super::piece::{Piece, Rows, Side};
use crate::Result;
use crate::memory::Buffer;
use bytemuck::cast_slice_mut;

/// Bytes of a message with a scattered side. Smaller ones make the ranks wait for each other more often, larger
/// ones leave the cache.
const CHUNK: usize = 1 << 20;

/// The buffers that messages are packed and unpacked in, made at the first run and kept.
#[derive(Debug, Default)]
pub(super) struct Staging {
    // 8-byte words, so that every element type is aligned.
    send: Buffer<u64>,
    receive: Buffer<u64>,
}

impl Staging {
    /// Returns the bytes that pieces with at most these numbers of scattered elements, one per side, are staged in.
    pub(super) fn bytes(elements: [usize; 2], element: usize) -> usize {
        elements.iter().map(|&elements| room(elements, element)).sum()
    }

    /// Returns the bytes that are held now.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        size_of_val(&self.send[..]) + size_of_val(&self.receive[..])
    }
}

/// Returns the largest number of elements of a piece that is scattered where it is sent from and where it is
/// received: what [`Staging::bytes`] takes.
pub(super) fn scattered(hop: &Hop) -> [usize; 2] {
    let largest = |pieces: &[Piece], side| {
        let others = pieces.iter().enumerate().filter(|(member, _)| *member != hop.me).map(|(_, piece)| piece);
        others.filter(|piece| piece.together(side).is_none()).map(Piece::len).max().unwrap_or(0)
    };
    [largest(&hop.sends, Side::Source), largest(&hop.receives, Side::Target)]
}

/// Moves the pieces of `hop` from the members' `source` tiles to their `target` tiles, of elements of `element`
/// bytes (MPI 3.1, section 3.10).
///
/// ```text
/// rows to columns       before         after
///             rank 0    a b | c d      a b
///             rank 1    e f | g h      e f         rank 1: c d
///                                                          g h
/// ```
///
/// # Errors
/// If another rank failed.
pub(super) fn run(hop: &Hop, element: usize, source: &[u8], target: &mut [u8], staging: &mut Staging) -> Result<()> {
    copy(hop.sends[hop.me].rows(), element, source, target);
    let Some(comm) = &hop.comm else { return Ok(()) };
    let [send, receive] = scattered(hop).map(|elements| room(elements, element) / size_of::<u64>());
    staging.send.grow(send, "pieces of a redistribution")?;
    staging.receive.grow(receive, "pieces of a redistribution")?;

    let size = hop.members.len();
    for round in 1..size {
        let (to, from) = ((hop.me + round) % size, (hop.me + size - round) % size);
        let mut send = Stream::new(&hop.sends[to], Side::Source, element);
        let mut receive = Stream::new(&hop.receives[from], Side::Target, element);
        // Every pair goes through its chunks in the same order and rounds, so nobody waits in a circle.
        loop {
            let (out, back) = (send.next(), receive.next());
            if out.is_none() && back.is_none() {
                break;
            }
            let message = out.map(|len| (to, send.message(len, source, cast_slice_mut(&mut staging.send))));
            let staged: &mut [u8] = cast_slice_mut(&mut staging.receive);
            let into = back.map(|len| match receive.place(len) {
                Some(range) => (from, &mut target[range]),
                None => (from, &mut staged[..len * element]),
            });
            comm.exchange(message.as_slice(), into.into_iter().collect::<Vec<_>>().as_mut_slice())?;
            if let Some(len) = back {
                receive.arrived(len, cast_slice_mut(&mut staging.receive), target);
            }
        }
    }
    Ok(())
}

/// The bytes of a buffer for chunks of a piece of `elements` elements, in whole words.
fn room(elements: usize, element: usize) -> usize {
    (elements * element).min(CHUNK).next_multiple_of(size_of::<u64>())
}

/// One side of a piece on its way: its chunks, one after the other.
struct Stream<'a> {
    rows: Rows<'a>,
    /// Where the piece is, if it lies together on this side.
    start: Option<usize>,
    /// Elements of a chunk.
    chunk: usize,
    /// Elements that have gone, and all of them.
    gone: usize,
    len: usize,
    element: usize,
}

impl<'a> Stream<'a> {
    fn new(piece: &'a Piece, side: Side, element: usize) -> Self {
        // Both ends know both sides, so they agree on the chunks.
        let whole = [Side::Source, Side::Target].iter().all(|&side| piece.together(side).is_some());
        let chunk = if whole { piece.len() } else { CHUNK / element };
        let start = piece.together(side).map(|range| range.start);
        Self { rows: piece.rows(), start, chunk, gone: 0, len: piece.len(), element }
    }

    /// Returns the elements of the next chunk, if there is one.
    fn next(&self) -> Option<usize> {
        Some(self.chunk.min(self.len - self.gone)).filter(|&len| len > 0)
    }

    /// Returns where the next chunk is in the tile, if it lies together there, and counts it as gone.
    fn place(&mut self, len: usize) -> Option<std::ops::Range<usize>> {
        let start = self.start? + self.gone;
        Some(start * self.element..(start + len) * self.element)
    }

    /// Returns the next chunk, of `len` elements of `tile`: in place, or packed into `staging`.
    fn message<'b>(&mut self, len: usize, tile: &'b [u8], staging: &'b mut [u8]) -> &'b [u8] {
        let place = self.place(len);
        self.gone += len;
        match place {
            Some(range) => &tile[range],
            None => {
                let packed = &mut staging[..len * self.element];
                pack(&mut self.rows, self.element, tile, packed);
                packed
            }
        }
    }

    /// Puts a chunk that has come into `staging` where it belongs, if it is not there.
    fn arrived(&mut self, len: usize, staging: &[u8], tile: &mut [u8]) {
        self.gone += len;
        if self.start.is_none() {
            unpack(&mut self.rows, self.element, &staging[..len * self.element], tile);
        }
    }
}
