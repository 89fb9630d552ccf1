//! Messages between ranks, each of them a subarray of some region and some block.
//!
//! A contiguous piece is sent or received in place. A non-contiguous piece is sent in chunks, so that its buffer stays in the cache:
//! packed data are not written to memory and read again, and staging does not grow with the pieces.

use super::{Place, Rows, Subarray, in_order};
use crate::comm::Communicator;
use crate::exchange::Exchange;
use crate::memory::{Buffer, split_mut};
use crate::{Element, Group, Result};
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use polyshard_program::CHUNK;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::mem::swap;
use std::ops::Range;

/// Maximum bytes of a non-contiguous piece in one message; tests have few elements.
const LONGEST: usize = if cfg!(test) { 24 } else { CHUNK as usize };

/// The order in which pairs of ranks exchange their pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turns {
    /// All at once.
    Together,
    /// In turn `t` a rank sends to the rank `t` places after it and receives from the one `t` places before it, so that no two ranks
    /// send to the same one at once.
    ByDistance,
}

/// The buffers that pieces are sent from and received into, and the form of each: a block, a region, or packed, one piece after the other.
pub(crate) struct Ends<'a> {
    /// The bytes of an element.
    pub(crate) element: usize,
    pub(crate) source: (Place, &'a [u8]),
    pub(crate) target: (Place, &'a mut [u8]),
}

/// Sends and receives the pieces of an exchange (MPI 3.1, sections 3.7 and 3.10). They are packed and unpacked in
/// `staging`, which grows if it is too short.
///
/// ```text
/// rows to columns       before         after
///             rank 0    a b | c d      a b
///             rank 1    e f | g h      e f         rank 1: c d
///                                                          g h
/// ```
pub(crate) fn exchange<S: Pod>(
    comm: &dyn Communicator,
    turns: Turns,
    exchange: &Exchange,
    Ends { element, source: (from, source), target: (to, target) }: Ends<'_>,
    staging: [&mut Buffer<S>; 2],
) -> Result<()> {
    let (me, size) = (comm.rank(), comm.size());
    let distance = |distance: usize| if turns == Turns::Together { 0 } else { distance % size };
    let mut rounds: BTreeMap<usize, [Vec<Stream<'_>>; 2]> = BTreeMap::new();
    let mut packed = 0;
    for (other, piece) in &exchange.sends {
        let stream = Stream::new(*other, piece, [from, Place::Packed], element, 0);
        rounds.entry(distance(other + size - me)).or_default()[0].push(stream);
    }
    for (other, piece) in &exchange.receives {
        let before = if to == Place::Packed { packed } else { 0 };
        packed += piece.len();
        let stream = Stream::new(*other, piece, [Place::Packed, to], element, before);
        rounds.entry(distance(me + size - other)).or_default()[1].push(stream);
    }
    let [outgoing, incoming] = staging;
    // Every pair handles its chunks in the same order and turns, so no ranks wait in a circle.
    rounds.into_values().try_for_each(|streams| carry(comm, streams, source, target, [outgoing, incoming]))
}

/// Sends and receives pieces, one chunk of each per round.
fn carry<S: Pod>(
    comm: &dyn Communicator,
    [mut sends, mut receives]: [Vec<Stream<'_>>; 2],
    source: &[u8],
    target: &mut [u8],
    [outgoing, incoming]: [&mut Buffer<S>; 2],
) -> Result<()> {
    loop {
        sends.retain(|stream| stream.left > 0);
        receives.retain(|stream| stream.left > 0);
        if sends.is_empty() && receives.is_empty() {
            return Ok(());
        }
        let staged = |streams: &[Stream<'_>]| streams.iter().map(Stream::staged).sum::<usize>();
        outgoing.grow(staged(&sends).div_ceil(size_of::<S>()), "packed messages")?;
        incoming.grow(staged(&receives).div_ceil(size_of::<S>()), "what is received")?;
        let rooms = split_mut(cast_slice_mut(outgoing), sends.iter().map(Stream::staged).collect::<Vec<_>>());
        let messages = sends.iter_mut().zip(rooms).map(|(stream, room)| (stream.rank, stream.message(source, room)));
        let messages: Vec<_> = messages.collect();
        comm.exchange(&messages, &mut places(&receives, target, cast_slice_mut(incoming)))?;
        let rooms = split_mut(cast_slice_mut(incoming), receives.iter().map(Stream::staged).collect::<Vec<_>>());
        receives.iter_mut().zip(rooms).for_each(|(stream, room)| stream.arrived(room, target));
    }
}

/// Returns the receive buffers of the next chunks, by rank: in the target if they are contiguous there, otherwise in `staging`,
/// one after the other.
fn places<'a>(streams: &[Stream<'_>], mut target: &'a mut [u8], staging: &'a mut [u8]) -> Vec<(usize, &'a mut [u8])> {
    let staged = streams.iter().filter(|stream| stream.place.is_none());
    let rooms = split_mut(staging, staged.clone().map(Stream::staged));
    let rooms = staged.map(|stream| stream.rank).zip(rooms);
    let mut there: Vec<_> = streams.iter().filter_map(|stream| Some((stream.rank, stream.next_in_place()?))).collect();
    there.sort_by_key(|(_, range)| range.start);
    let mut passed = 0;
    let there = there.into_iter().map(|(rank, range)| {
        let _ = target.split_off_mut(..range.start - passed);
        passed = range.end;
        (
            rank,
            target.split_off_mut(..range.len()).expect("a piece is inside of its region; this is a bug in polyshard"),
        )
    });
    there.chain(rooms).collect()
}

/// One side of a piece in flight: its chunks, one after the other.
struct Stream<'a> {
    /// The other rank.
    rank: usize,
    rows: Rows<'a>,
    /// The range of the piece, if it is contiguous on this side.
    place: Option<Range<usize>>,
    /// Elements of a chunk, and elements not yet sent or received.
    chunk: usize,
    left: usize,
    element: usize,
}

impl<'a> Stream<'a> {
    /// One side of a piece. If pieces are packed one after the other, those before it have `before` elements.
    fn new(rank: usize, piece: &'a Subarray, [from, to]: [Place; 2], element: usize, before: usize) -> Self {
        let side = if from == Place::Packed { to } else { from };
        // Both ends know both sides, so they agree on the chunks.
        let lies_together = [Place::Block, Place::Region].iter().all(|&side| piece.contiguous(side).is_some());
        let is_whole = lies_together || piece.repeats();
        let chunk = if is_whole { piece.len() } else { (LONGEST / element).max(1) };
        let place = piece.contiguous(side).map(|range| range.start + before..range.end + before);
        Self { rank, rows: piece.rows(from, to), place, chunk, left: piece.len(), element }
    }

    /// The elements of the next chunk.
    fn next(&self) -> usize {
        self.chunk.min(self.left)
    }

    /// The bytes of staging for the next chunk.
    fn staged(&self) -> usize {
        if self.place.is_some() { 0 } else { self.next() * self.element }
    }

    /// The bytes of the next chunk in place, if the piece is contiguous.
    fn next_in_place(&self) -> Option<Range<usize>> {
        let start = self.place.as_ref()?.end - self.left;
        Some(start * self.element..(start + self.next()) * self.element)
    }

    /// Returns the next chunk of `source`: in place, or packed into `staging`.
    fn message<'b>(&mut self, source: &'b [u8], staging: &'b mut [u8]) -> &'b [u8] {
        let (place, len) = (self.next_in_place(), self.next());
        self.left -= len;
        match place {
            Some(range) => &source[range],
            None => {
                self.rows.copy(len, self.element, source, staging);
                staging
            }
        }
    }

    /// Unpacks a received chunk from `staging`, unless it was received in place.
    fn arrived(&mut self, staging: &[u8], target: &mut [u8]) {
        let len = self.next();
        self.left -= len;
        if self.place.is_none() {
            // With the last chunk, all remaining rows are copied, also those of elements that have several places.
            self.rows.copy(if self.left == 0 { usize::MAX } else { len }, self.element, staging, target);
        }
    }
}

/// Sends data to one rank and receives from another, if given and not empty (MPI 3.1, section 3.7).
pub(crate) fn pass_on<T: Element>(
    comm: &dyn Communicator,
    send: Option<(usize, &[T])>,
    receive: Option<(usize, &mut [T])>,
) -> Result<()> {
    let send = send.filter(|(_, data)| !data.is_empty()).map(|(to, data)| (to, cast_slice(data)));
    let mut receive = receive.filter(|(_, into)| !into.is_empty()).map(|(from, into)| (from, cast_slice_mut(into)));
    Ok(comm.exchange(send.as_slice(), receive.as_mut_slice())?)
}

/// Gathers the parts of a region, which all members of a group know, in one stage after the other, or over the group itself if it has no
/// stages (MPI 3.1, section 5.7). The last stage receives them in place if they are in order in the region; otherwise they are staged.
///
/// ```text
/// before   member 0: a    member 1: b    member 2: c
/// after    each member: a b c
/// ```
pub(crate) fn all_gather<S: Pod>(
    group: &Group,
    parts: &[impl Borrow<Subarray>],
    element: usize,
    source: &[u8],
    target: &mut [u8],
    [outgoing, incoming]: [&mut Buffer<S>; 2],
) -> Result<()> {
    let (stages, members) = (group.stages(), group.gathered());
    let part = |member: usize| parts[member].borrow();
    let gathered = || members.iter().map(|&member| part(member));
    let is_in_order = in_order(gathered(), Place::Region);
    let own = part(group.rank());
    let mut held = own.len() * element;
    for (stage, along) in stages.iter().enumerate() {
        let bytes = group.counts_in(stage, |member| part(member).len() * element);
        let send = match (stage, own.contiguous(Place::Block)) {
            (0, Some(range)) => &source[range.start * element..range.end * element],
            (0, None) => {
                outgoing.grow(held.div_ceil(size_of::<S>()), "packed messages")?;
                let packed = &mut cast_slice_mut(outgoing)[..held];
                own.rows(Place::Block, Place::Packed).copy(usize::MAX, element, source, packed);
                packed
            }
            _ => {
                swap(outgoing, incoming);
                &cast_slice(outgoing)[..held]
            }
        };
        if is_in_order && stage + 1 == stages.len() {
            return Ok(along.comm().all_gather(send, target, &bytes)?);
        }
        held = bytes.iter().sum();
        incoming.grow(held.div_ceil(size_of::<S>()), "what is received")?;
        along.comm().all_gather(send, &mut cast_slice_mut(incoming)[..held], &bytes)?;
    }
    for (part, packed) in
        gathered().zip(split_mut(cast_slice_mut(incoming), gathered().map(|part| part.len() * element)))
    {
        part.rows(Place::Packed, Place::Region).copy(usize::MAX, element, packed, target);
    }
    Ok(())
}

/// Receives a part of a region by `carry`, which gets the receive buffer: its place in `region` if it is contiguous there, otherwise
/// `staging`, which grows if it is too short and from which the part is then copied to its places.
pub(crate) fn receive<T: Element>(
    part: &Subarray,
    region: &mut [T],
    staging: &mut Buffer<T>,
    carry: impl FnOnce(&mut [u8]) -> Result<()>,
) -> Result<()> {
    if let Some(place) = part.contiguous(Place::Region) {
        return carry(cast_slice_mut(&mut region[place]));
    }
    staging.grow(part.len(), "what is received")?;
    let packed = &mut staging[..part.len()];
    carry(cast_slice_mut(packed))?;
    part.copy(Place::Packed, packed, Place::Region, region);
    Ok(())
}
