//! Messages between ranks, each of them a subarray of some region and some block.

use super::{Place, Subarray};
use crate::comm::Communicator;
use crate::memory::{Buffer, split_mut};
use crate::{Element, Result};
use bytemuck::{cast_slice, cast_slice_mut};
use std::borrow::Borrow;
use std::ops::Range;

/// Sends subarrays of `data` and receives others into `into`, one message per pair of ranks (MPI 3.1, section
/// 3.7).
///
/// What is contiguous in `place` of `data` is sent from there, the rest packed into `outgoing` first. The
/// received subarrays are put into `into`, packed in the order given.
pub(crate) fn exchange<T: Element>(
    comm: &dyn Communicator,
    sends: &[(usize, Subarray)],
    place: Place,
    data: &[T],
    outgoing: &mut Buffer<T>,
    receives: &mut [(usize, &mut [T])],
) -> Result<()> {
    let room = |(_, part): &(usize, Subarray)| if part.contiguous(place).is_some() { 0 } else { part.len() };
    outgoing.grow(sends.iter().map(room).sum(), "what is packed to be sent")?;
    let rooms = split_mut(outgoing, sends.iter().map(room));
    let message = |((to, part), room): (&(usize, Subarray), _)| (*to, cast_slice(part.packed_in(place, data, room)));
    let messages: Vec<_> = sends.iter().zip(rooms).map(message).collect();
    let mut receives: Vec<(usize, &mut [u8])> =
        receives.iter_mut().map(|(from, into)| (*from, cast_slice_mut(into))).collect();
    if messages.is_empty() && receives.is_empty() {
        return Ok(());
    }
    comm.exchange(&messages, &mut receives)
}

/// Sends data to one rank and receives from another, where there are any and they are not empty (MPI 3.1, section 3.7).
pub(crate) fn pass_on<T: Element>(
    comm: &dyn Communicator,
    send: Option<(usize, &[T])>,
    receive: Option<(usize, &mut [T])>,
) -> Result<()> {
    let send = send.filter(|(_, data)| !data.is_empty()).map(|(to, data)| (to, cast_slice(data)));
    let mut receive = receive.filter(|(_, into)| !into.is_empty()).map(|(from, into)| (from, cast_slice_mut(into)));
    comm.exchange(send.as_slice(), receive.as_mut_slice())
}

/// Receives subarrays into a region by `carry`, which is given the rank and the room of each: in the region's `buffer` if
/// each is contiguous there, else in `incoming`, from where they are copied.
pub(crate) fn receive<T: Element>(
    receives: &[(usize, Subarray)],
    buffer: &mut [T],
    incoming: &mut Buffer<T>,
    carry: impl FnOnce(&mut [(usize, &mut [T])]) -> Result<()>,
) -> Result<()> {
    if let Some(mut places) = places(receives, buffer) {
        return carry(&mut places);
    }
    incoming.grow(total(receives), "what is received")?;
    let mut parts = parts(receives, incoming);
    carry(&mut parts)?;
    for ((_, part), (_, packed)) in receives.iter().zip(&parts) {
        part.copy(Place::Packed, packed, Place::Region, buffer);
    }
    Ok(())
}

/// The number of elements of all subarrays.
pub(crate) fn total(parts: &[(usize, impl Borrow<Subarray>)]) -> usize {
    parts.iter().map(|(_, part)| part.borrow().len()).sum()
}

/// Divides `buffer` into one part per subarray, in the order given.
pub(crate) fn parts<'a, T>(
    receives: &[(usize, impl Borrow<Subarray>)],
    buffer: &'a mut [T],
) -> Vec<(usize, &'a mut [T])> {
    let ranks = receives.iter().map(|(from, _)| *from);
    ranks.zip(split_mut(buffer, receives.iter().map(|(_, part)| part.borrow().len()))).collect()
}

/// Divides a region's buffer into the parts that the subarrays have in it, if each is contiguous there.
fn places<'a, T>(receives: &[(usize, Subarray)], mut buffer: &'a mut [T]) -> Option<Vec<(usize, &'a mut [T])>> {
    let range = |(from, part): &(usize, Subarray)| Some((*from, part.contiguous(Place::Region)?));
    let mut ranges = receives.iter().map(range).collect::<Option<Vec<_>>>()?;
    ranges.sort_by_key(|(_, range)| range.start);
    let mut next = 0;
    let mut part = |(from, range): (usize, Range<usize>)| {
        let _ = buffer.split_off_mut(..range.start - next);
        next = range.end;
        (from, buffer.split_off_mut(..range.len()).expect("a subarray is inside of its region"))
    };
    Some(ranges.into_iter().map(&mut part).collect())
}
