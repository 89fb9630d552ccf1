//! Collectives around a ring: each block takes the shorter way, in both directions at once.
//!
//! ```text
//! all-gather of 5, seen from rank 0      step 1   4 -> 0 <- 1      the blocks of 4 and 1 arrive
//!                                        step 2   4 -> 0 <- 1      the blocks of 3 and 2
//! ```
//!
//! With an even number of ranks the block opposite comes half from each side, in the last step. A reduce-scatter runs
//! the same steps backwards: sums on their way to rank 0 begin opposite, and every rank that they pass adds its own. So
//! between neighbours pass `(n - 1) / 2` blocks in each direction, in `n / 2` steps; an all-reduce is both, one after
//! the other. This is the order in which floats are added, the same on every run.

use super::wire::Wire;
use crate::comm::combine;
use crate::{DType, ReduceOp, Result};
use std::ops::Range;

/// Blocks of bytes, one per rank.
pub(super) struct Blocks {
    /// Where each begins, and where the last ends.
    bounds: Vec<usize>,
    /// Blocks are cut at multiples of this many bytes only.
    unit: usize,
}

impl Blocks {
    /// Returns blocks of these lengths, one after the other.
    pub(super) fn of(counts: &[usize], unit: usize) -> Self {
        let mut bounds = vec![0];
        bounds.extend(counts.iter().scan(0, |end, count| {
            *end += count;
            Some(*end)
        }));
        Self { bounds, unit }
    }

    /// Returns blocks of `bytes` for `n` ranks, as equal as units allow.
    pub(super) fn even(bytes: usize, n: usize, unit: usize) -> Self {
        let bounds = (0..=n).map(|rank| bytes / unit * rank / n * unit).collect();
        Self { bounds, unit }
    }

    /// Returns the block of a rank.
    pub(super) fn of_rank(&self, rank: usize) -> Range<usize> {
        self.bounds[rank]..self.bounds[rank + 1]
    }

    /// Returns the part of a rank's block that comes from behind it (side 0) or from ahead (side 1), where it comes
    /// `far` places: all of it, but for the block opposite, which comes half from each.
    fn side_of(&self, rank: usize, side: usize, far: usize) -> Range<usize> {
        let Range { start, end } = self.of_rank(rank);
        let middle = start + (end - start) / self.unit / 2 * self.unit;
        match (2 * far == self.bounds.len() - 1, side) {
            (false, _) => start..end,
            (true, 0) => start..middle,
            (true, _) => middle..end,
        }
    }
}

/// Gives every rank the blocks of all; this rank's own is in its place.
///
/// ```text
/// before   rank 0: a . .    rank 1: . b .    rank 2: . . c
/// after    each rank: a b c
/// ```
pub(super) fn all_gather(wire: &Wire, data: &mut [u8], blocks: &Blocks) -> Result<()> {
    for far in 1..=wire.size() / 2 {
        // The rank behind hands on what it got in the last step: the block of the rank `far` places before this one.
        let sent = [blocks.side_of(wire.before(far - 1), 0, far), blocks.side_of(wire.after(far - 1), 1, far)];
        let places = [blocks.side_of(wire.before(far), 0, far), blocks.side_of(wire.after(far), 1, far)];
        let received = step(wire, [&data[sent[0].clone()], &data[sent[1].clone()]], [&places[0], &places[1]])?;
        for (place, received) in places.into_iter().zip(received) {
            data[place].copy_from_slice(&received);
        }
    }
    Ok(())
}

/// Puts the sum of all ranks' blocks for this rank into its place in `data`; the rest of `data` stays.
///
/// ```text
/// before   rank 0: a0 a1 a2     rank 1: b0 b1 b2     rank 2: c0 c1 c2
/// after    rank 0: a0+b0+c0     rank 1: a1+b1+c1     rank 2: a2+b2+c2
/// ```
pub(super) fn reduce_scatter(wire: &Wire, data: &mut [u8], blocks: &Blocks, dtype: DType, op: ReduceOp) -> Result<()> {
    for far in (1..=wire.size() / 2).rev() {
        // Sums for the rank `far` places ahead go there from behind it, so they leave this rank ahead.
        let sent = [blocks.side_of(wire.after(far), 0, far), blocks.side_of(wire.before(far), 1, far)];
        let places = [blocks.side_of(wire.after(far - 1), 0, far), blocks.side_of(wire.before(far - 1), 1, far)];
        let received = step(wire, [&data[sent[0].clone()], &data[sent[1].clone()]], [&places[0], &places[1]])?;
        for (place, received) in places.into_iter().zip(received) {
            combine::combine(dtype, op, &mut data[place], &received);
        }
    }
    Ok(())
}

/// Sends the first ahead and the second back; returns what comes from behind and from ahead, of these lengths.
fn step(wire: &Wire, sent: [&[u8]; 2], wanted: [&Range<usize>; 2]) -> Result<[Vec<u8>; 2]> {
    let (ahead, behind) = (wire.after(1), wire.before(1));
    let [mut first, mut second] = wanted.map(|range| vec![0; range.len()]);
    wire.exchange(&[(ahead, sent[0]), (behind, sent[1])], &mut [(behind, &mut first), (ahead, &mut second)])?;
    Ok([first, second])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cut_nothing_inside_an_element() {
        let blocks = Blocks::even(40, 3, 8);
        assert_eq!([0, 1, 2].map(|rank| blocks.of_rank(rank)), [0..8, 8..24, 24..40]);
        let blocks = Blocks::of(&[24, 0, 8, 4], 4);
        assert_eq!([0, 1, 2, 3].map(|rank| blocks.of_rank(rank)), [0..24, 24..24, 24..32, 32..36]);
        assert_eq!([0, 1].map(|side| blocks.side_of(0, side, 2)), [0..12, 12..24]);
        assert_eq!([0, 1].map(|side| blocks.side_of(3, side, 2)), [32..32, 32..36]);
        assert_eq!([0, 1].map(|side| blocks.side_of(0, side, 1)), [0..24, 0..24]);
    }
}
