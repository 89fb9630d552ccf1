//! Moving pieces by messages: every member sends to and receives from every other.
//!
//! Where rows are laid out and the library has derived datatypes, it moves all pieces at once. Else members exchange pieces one
//! pair at a time: in round `r` a member sends to the one `r` places after it and receives from the one `r` places before it, so
//! that no two send to the same one at once. What lies together on a side is sent or received in place. A
//! piece that is scattered on a side goes in chunks, so that its buffer stays in the cache: what is packed is
//! not written to memory and read again, and staging does not grow with the tiles.

use super::hop::Hop;
use crate::Result;
use crate::memory::Buffer;
use crate::subarray::{Place, Rows, Subarray, in_order};
use bytemuck::cast_slice_mut;
use std::ops::Range;

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
    let largest = |pieces: &[Subarray], place| {
        let others = pieces.iter().enumerate().filter(|(member, _)| *member != hop.me).map(|(_, piece)| piece);
        others.filter(|piece| piece.contiguous(place).is_none()).map(Subarray::len).max().unwrap_or(0)
    };
    [largest(&hop.sends, Place::Block), largest(&hop.receives, Place::Region)]
}

/// Moves the pieces of `hop` from the members' `source` tiles to their `target` tiles, of elements of `element`
/// bytes (MPI 3.1, sections 3.10 and 5.8).
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
pub(super) fn run(
    hop: &Hop,
    element: usize,
    source: &[u8],
    target: &mut [u8],
    is_laid_out: bool,
    staging: &mut Staging,
) -> Result<()> {
    hop.sends[hop.me].rows(Place::Block, Place::Region).copy(usize::MAX, element, source, target);
    let Some(comm) = &hop.comm else { return Ok(()) };
    if is_laid_out {
        let layouts = |pieces: &[Subarray], places: [Place; 2], side: usize| -> Vec<_> {
            let layout = |(member, piece): (usize, &Subarray)| {
                let moves = member != hop.me && piece.len() > 0;
                moves.then(|| piece.rows(places[0], places[1]).layout(side, element))
            };
            pieces.iter().enumerate().map(layout).collect()
        };
        let sends = layouts(&hop.sends, [Place::Block, Place::Packed], 0);
        let receives = layouts(&hop.receives, [Place::Packed, Place::Region], 1);
        if comm.all_to_all_laid_out(&sends, source, &receives, target)? {
            return Ok(());
        }
    }
    let [send, receive] = scattered(hop).map(|elements| room(elements, element) / size_of::<u64>());
    staging.send.grow(send, "pieces of a redistribution")?;
    staging.receive.grow(receive, "pieces of a redistribution")?;

    let size = hop.members.len();
    for round in 1..size {
        let (to, from) = ((hop.me + round) % size, (hop.me + size - round) % size);
        let mut send = Stream::new(&hop.sends[to], [Place::Block, Place::Packed], element);
        let mut receive = Stream::new(&hop.receives[from], [Place::Packed, Place::Region], element);
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

/// Gathers the shards of the members of `hop`, which are one after the other what each of them gets, of elements of `element` bytes
/// (MPI 3.1, section 5.7).
///
/// ```text
/// before   rank 0: a    rank 1: b    rank 2: c
/// after    each rank: a b c
/// ```
///
/// # Errors
/// If another rank failed.
pub(super) fn gather(hop: &Hop, element: usize, source: &[u8], target: &mut [u8], staging: &mut Staging) -> Result<()> {
    let own = &hop.sends[hop.me];
    let Some(comm) = &hop.comm else {
        own.rows(Place::Block, Place::Region).copy(usize::MAX, element, source, target);
        return Ok(());
    };
    assert!(in_order(&hop.receives, Place::Region), "shards are gathered that lie apart; this is a bug of polyshard");
    let bytes = own.len() * element;
    let send = match own.contiguous(Place::Block) {
        Some(range) => &source[range.start * element..range.end * element],
        None => {
            staging.send.grow(bytes.div_ceil(size_of::<u64>()), "what is kept of a shard")?;
            let packed: &mut [u8] = cast_slice_mut(&mut staging.send);
            own.rows(Place::Block, Place::Packed).copy(usize::MAX, element, source, &mut packed[..bytes]);
            &packed[..bytes]
        }
    };
    let counts: Vec<_> = hop.receives.iter().map(|piece| piece.len() * element).collect();
    comm.all_gather(send, target, &counts)
}

/// The bytes of a buffer for chunks of a piece of `elements` elements, in whole words.
fn room(elements: usize, element: usize) -> usize {
    (elements * element).min(CHUNK).next_multiple_of(size_of::<u64>())
}

/// One side of a piece on its way: its chunks, one after the other.
struct Stream<'a> {
    rows: Rows<'a>,
    /// Where the piece is, if it is contiguous on this side.
    place: Option<Range<usize>>,
    /// Elements of a chunk, and those that have not gone yet.
    chunk: usize,
    left: usize,
    element: usize,
}

impl<'a> Stream<'a> {
    fn new(piece: &'a Subarray, [from, to]: [Place; 2], element: usize) -> Self {
        let side = if from == Place::Packed { to } else { from };
        let [block, region] = [Place::Block, Place::Region].map(|side| piece.contiguous(side));
        // Both ends know both sides, so they agree on the chunks.
        let chunk = if block.is_some() && region.is_some() { piece.len() } else { CHUNK / element };
        let place = if side == Place::Block { block } else { region };
        Self { rows: piece.rows(from, to), place, chunk, left: piece.len(), element }
    }

    /// Returns the elements of the next chunk, if there is one.
    fn next(&self) -> Option<usize> {
        Some(self.chunk.min(self.left)).filter(|&len| len > 0)
    }

    /// Returns where the next `len` elements are in the tile, if they are contiguous there.
    fn place(&self, len: usize) -> Option<Range<usize>> {
        self.place
            .as_ref()
            .map(|rest| rest.end - self.left)
            .map(|start| start * self.element..(start + len) * self.element)
    }

    /// Returns the next chunk, of `len` elements of `tile`: in place, or packed into `staging`.
    fn message<'b>(&mut self, len: usize, tile: &'b [u8], staging: &'b mut [u8]) -> &'b [u8] {
        let place = self.place(len);
        self.left -= len;
        match place {
            Some(range) => &tile[range],
            None => {
                let packed = &mut staging[..len * self.element];
                self.rows.copy(len, self.element, tile, packed);
                packed
            }
        }
    }

    /// Puts a chunk that has come into `staging` where it belongs, if it is not there.
    fn arrived(&mut self, len: usize, staging: &[u8], tile: &mut [u8]) {
        self.left -= len;
        if self.place.is_none() {
            self.rows.copy(len, self.element, staging, tile);
        }
    }
}
