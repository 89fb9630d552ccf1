//! Collectives with a root: two chains around the group, one in each direction, each with half of the data in pieces.
//!
//! ```text
//! broadcast from 0     first half  0 -> 1 -> 2 -> 3      second half  0 -> 3 -> 2 -> 1
//! reduce to 0                      1 -> 2 -> 3 -> 0                   3 -> 2 -> 1 -> 0
//! ```
//!
//! A rank hands a piece on while the next is on its way to it. It deals with the pieces of both chains in the order in
//! which they would come if nothing else were on the way. Every piece leaves a rank earlier in that order than it
//! comes to the next, so the chains cannot wait for each other in a circle; and neither holds the other up by much.

use super::wire::Wire;
use crate::comm::combine;
use crate::{DType, ReduceOp, Result};
use std::ops::Range;

/// Pieces of each half, where there is someone to hand them on.
const PIECES: usize = 16;
/// Pieces are not cut smaller than this many bytes.
const LEAST: usize = 512;

/// Gives every rank the root's data.
///
/// ```text
/// before   rank 0: a (root)    rank 1: .    rank 2: .
/// after    each rank: a
/// ```
pub(super) fn broadcast(wire: &Wire, root: usize, mut data: Outgoing<'_>) -> Result<()> {
    let (n, places) = (wire.size(), wire.before(root));
    // The root is the first of both chains.
    run(wire, data.len(), 1, [places, (n - places) % n], &mut data)
}

/// Leaves the sum of all ranks' data with the root; elsewhere `data` is as before.
///
/// ```text
/// before   rank 0: a (root)    rank 1: b    rank 2: c
/// after    rank 0: a+b+c
/// ```
pub(super) fn reduce(wire: &Wire, root: usize, data: &mut [u8], dtype: DType, op: ReduceOp) -> Result<()> {
    let (n, places) = (wire.size(), wire.before(root));
    // The root is the last of both.
    let chains = [(places + n - 1) % n, (2 * n - 1 - places) % n];
    let mut sum = Sum { data, dtype, op, kept: places == 0 };
    run(wire, sum.data.len(), dtype.size(), chains, &mut sum)
}

/// What a rank does with the pieces that pass it.
trait Passing {
    /// Takes a piece that has come, if this rank is not the first, and returns what goes on in its place.
    fn pass(&mut self, place: Range<usize>, come: Option<Vec<u8>>) -> Vec<u8>;
}

/// The buffer of a broadcast.
pub(super) enum Outgoing<'a> {
    /// The root's.
    Root(&'a [u8]),
    /// Any other rank's.
    Other(&'a mut [u8]),
}

impl Outgoing<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Root(data) => data.len(),
            Self::Other(data) => data.len(),
        }
    }
}

impl Passing for Outgoing<'_> {
    fn pass(&mut self, place: Range<usize>, come: Option<Vec<u8>>) -> Vec<u8> {
        match (self, come) {
            (Self::Root(data), None) => data[place].to_vec(),
            (Self::Other(data), Some(come)) => {
                data[place].copy_from_slice(&come);
                come
            }
            _ => panic!("a broadcast reached its root, or began elsewhere: this is a bug of polyshard"),
        }
    }
}

struct Sum<'a> {
    data: &'a mut [u8],
    dtype: DType,
    op: ReduceOp,
    /// Whether sums stay here.
    kept: bool,
}

impl Passing for Sum<'_> {
    fn pass(&mut self, place: Range<usize>, come: Option<Vec<u8>>) -> Vec<u8> {
        let own = &mut self.data[place];
        let Some(mut come) = come else { return own.to_vec() };
        combine::combine(self.dtype, self.op, &mut come, own);
        if self.kept {
            own.copy_from_slice(&come);
        }
        come
    }
}

/// Lets `bytes` bytes pass in both directions; `places` are this rank's in the chain ahead and in the one back.
fn run(wire: &Wire, bytes: usize, unit: usize, places: [usize; 2], passing: &mut dyn Passing) -> Result<()> {
    let last = wire.size() - 1;
    if last == 0 {
        return Ok(());
    }
    let middle = bytes / unit / 2 * unit;
    let halves = [pieces(0..middle, unit, last), pieces(middle..bytes, unit, last)];
    let neighbours = [(wire.before(1), wire.after(1)), (wire.after(1), wire.before(1))];
    let mut events = Vec::new();
    for (chain, half) in halves.iter().enumerate() {
        let (first, slowest) = way(wire, chain, places[chain]);
        events.extend((0..half.len()).map(|nth| (first + nth as f64 * slowest, nth, chain)));
    }
    // All pieces may leave where a chain begins; those of both chains by turns.
    events.sort_by(|left, right| left.0.total_cmp(&right.0).then((left.1, left.2).cmp(&(right.1, right.2))));
    for (_, nth, chain) in events {
        let (place, piece, (from, to)) = (places[chain], &halves[chain][nth], neighbours[chain]);
        let mut come = None;
        if place > 0 {
            let mut into = vec![0; piece.len()];
            wire.exchange(&[], &mut [(from, &mut into)])?;
            come = Some(into);
        }
        let on = passing.pass(piece.clone(), come);
        if place < last {
            wire.exchange(&[(to, &on)], &mut [])?;
        }
    }
    Ok(())
}

/// The seconds per byte of a piece after which the first comes to this rank, and with which the others follow.
///
/// The same on all ranks for the hops that they have in common, to the last bit: sums begin where the chain does.
fn way(wire: &Wire, chain: usize, place: usize) -> (f64, f64) {
    let at = |places_back: usize| if chain == 0 { wire.before(places_back) } else { wire.after(places_back) };
    let hops = (1..=place).rev().map(|back| wire.seconds_per_byte(at(back), at(back - 1)));
    hops.fold((0.0, 0.0), |(sum, most), hop| (sum + hop, f64::max(most, hop)))
}

/// Cuts a half into pieces of whole units, for so many hops: without anyone to hand them on, one will do. There is
/// one even if it is empty, so that the ranks meet.
fn pieces(half: Range<usize>, unit: usize, hops: usize) -> Vec<Range<usize>> {
    let count = if hops == 1 { 1 } else { half.len().div_ceil(LEAST).clamp(1, PIECES) };
    let at = |nth: usize| half.start + half.len() / unit * nth / count * unit;
    (0..count).map(|nth| at(nth)..at(nth + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_units_and_make_up_the_half() {
        for (half, unit, hops, count) in
            [(8..8, 8, 3, 1), (0..4000, 8, 3, 8), (16..100_016, 8, 2, 16), (3..9000, 1, 1, 1), (4..516, 4, 9, 1)]
        {
            let pieces = pieces(half.clone(), unit, hops);
            assert_eq!(pieces.len(), count, "{half:?}");
            assert_eq!((pieces[0].start, pieces[count - 1].end), (half.start, half.end));
            assert!(pieces.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].len() % unit == 0));
        }
    }
}
