//! Messages between pairs of ranks, each of them an overlap of some region and some shard.

use super::{Overlap, Place};
use crate::comm::Communicator;
use crate::memory::Buffer;
use crate::{Element, Result};
use bytemuck::{cast_slice, cast_slice_mut};

/// Sends overlaps of `data` and receives others into `into`, one message per pair of ranks (MPI 3.1, section
/// 3.7).
///
/// What lies together in `place` of `data` is sent from there, the rest packed into `outgoing` first. The
/// received overlaps are put into `into`, packed in the order given.
pub(super) fn exchange<T: Element>(
    comm: &dyn Communicator,
    sends: &[(usize, Overlap)],
    place: Place,
    data: &[T],
    outgoing: &mut Buffer<T>,
    receives: &mut [(usize, &mut [T])],
) -> Result<()> {
    let scattered = |(_, overlap): &&(usize, Overlap)| overlap.contiguous(place).is_none();
    let total: usize = sends.iter().filter(scattered).map(|(_, overlap)| overlap.len()).sum();
    outgoing.grow(total, "what is packed to be sent")?;
    let mut rest = &mut outgoing[..];
    let mut messages: Vec<(usize, &[u8])> = Vec::with_capacity(sends.len());
    for (to, overlap) in sends {
        let message: &[T] = match overlap.contiguous(place) {
            Some(range) => &data[range],
            None => {
                let packed = rest.split_off_mut(..overlap.len()).expect("the sizes were added up");
                overlap.copy(place, data, Place::Packed, packed);
                packed
            }
        };
        messages.push((*to, cast_slice(message)));
    }
    let mut receives: Vec<(usize, &mut [u8])> =
        receives.iter_mut().map(|(from, into)| (*from, cast_slice_mut(into))).collect();
    if messages.is_empty() && receives.is_empty() {
        return Ok(());
    }
    comm.exchange(&messages, &mut receives)
}

/// Divides `buffer` into one part per overlap, in the order given.
pub(super) fn parts<'a, T>(receives: &[(usize, Overlap)], mut buffer: &'a mut [T]) -> Vec<(usize, &'a mut [T])> {
    let part = |(from, overlap): &(usize, Overlap)| {
        (*from, buffer.split_off_mut(..overlap.len()).expect("the buffer has room for all parts"))
    };
    receives.iter().map(part).collect()
}

/// Divides `region`'s buffer into the parts that the overlaps have in it, if each lies together there.
pub(super) fn places<'a, T>(
    receives: &[(usize, Overlap)],
    mut buffer: &'a mut [T],
) -> Option<Vec<(usize, &'a mut [T])>> {
    let mut ranges = Vec::with_capacity(receives.len());
    for (from, overlap) in receives {
        ranges.push((*from, overlap.contiguous(Place::Region)?));
    }
    ranges.sort_by_key(|(_, range)| range.start);
    let mut next = 0;
    let mut part = |(from, range): (usize, std::ops::Range<usize>)| {
        let _ = buffer.split_off_mut(..range.start - next);
        next = range.end;
        (from, buffer.split_off_mut(..range.len()).expect("an overlap is inside of its region"))
    };
    Some(ranges.into_iter().map(&mut part).collect())
}
