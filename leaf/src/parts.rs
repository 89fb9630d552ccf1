//! Parts of a leaf: its interior, and the rims around it.

use super::{Slices, SlicesOf};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// A range of the iterations of each loop of a leaf: all of them, or a part that is computed separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafBox(SmallVec<[Range<usize>; 6]>);

impl LeafBox {
    /// The number of iterations of each loop.
    pub fn counts(&self) -> SmallVec<[usize; 6]> {
        self.0.iter().map(Range::len).collect()
    }

    /// The iterations of the whole leaf, whose loops have these numbers of iterations.
    pub fn whole(counts: &[usize]) -> Self {
        Self(counts.iter().map(|&count| 0..count).collect())
    }

    /// The first index of an access whose first index in the leaf is `base`.
    pub fn moved_all(&self, base: &[i64], steps: &[&[i64]]) -> SmallVec<[i64; 6]> {
        if self.0.iter().all(|range| range.start == 0) {
            return base.into();
        }
        base.iter().zip(steps).map(|(base, steps)| base + self.moved(steps)).collect()
    }

    /// The iterations of a slice along one loop, of loops with these numbers of iterations.
    pub fn slice(counts: &[usize], along: usize, slice: Range<usize>) -> Self {
        let mut all = Self::whole(counts);
        all.0[along] = slice;
        all
    }

    /// The distance of its first iteration from that of the leaf, in the units of the strides.
    pub fn moved(&self, strides: &[i64]) -> i64 {
        self.0.iter().zip(strides).map(|(range, stride)| stride * range.start as i64).sum()
    }

    fn is_empty(&self) -> bool {
        self.0.iter().any(Range::is_empty)
    }
}

/// A box, and the loop along which it is cut, if any.
type Left = (LeafBox, Option<(usize, Slices)>);

/// The boxes of a part of a leaf, one after the other: its interior, which is cut into slices while transfers are in flight, or the rims
/// around it.
#[derive(Clone, Debug)]
pub struct LeafBoxes {
    /// The boxes that are left, the next one last, each with the loop along which it is cut, if any.
    left: SmallVec<[Left; 8]>,
}

impl LeafBoxes {
    /// Returns the interior of a leaf with these numbers of iterations: of each loop the iterations at or above the first number and below
    /// the second. It is cut along one loop. It is empty if one of its ranges is.
    ///
    /// # Panics
    /// If there is not a range for each loop, or a range exceeds its loop: a bug in polyshard.
    pub fn interior(counts: &[usize], interior: &[(i64, i64)], along: usize) -> Self {
        let inner = inside(counts, interior);
        if inner.is_empty() {
            return Self { left: SmallVec::new() };
        }
        let counts: SmallVec<[usize; 6]> = inner.0.iter().map(Range::len).collect();
        let slices = Slices::new(&counts, along, SlicesOf::Values);
        Self { left: smallvec![(inner, Some((along, slices)))] }
    }

    /// Returns the rest of the leaf: the rims before and after the interior along each loop, without those of earlier loops. All of the
    /// leaf if the interior is empty.
    ///
    /// # Panics
    /// As for [`interior`](Self::interior).
    pub fn rims(counts: &[usize], interior: &[(i64, i64)]) -> Self {
        let mut rest = LeafBox::whole(counts);
        let inner = inside(counts, interior);
        let mut left: SmallVec<[Left; 8]> = SmallVec::new();
        if inner.is_empty() {
            left.push((rest, None));
        } else {
            for (number, Range { start, end }) in inner.0.into_iter().enumerate() {
                for rim in [0..start, end..counts[number]] {
                    let mut cut = rest.clone();
                    cut.0[number] = rim;
                    left.push((cut, None));
                }
                rest.0[number] = start..end;
            }
        }
        left.retain(|(rim, _)| !rim.is_empty());
        left.reverse();
        Self { left }
    }

    /// Returns the next box; `None` at the end. Of an interior, the next slice, or all that is left if nothing is in flight.
    pub fn next(&mut self, is_coming: bool) -> Option<LeafBox> {
        let (next, cut) = self.left.last_mut()?;
        let Some((along, slices)) = cut else {
            return self.left.pop().map(|(next, _)| next);
        };
        let Some(slice) = slices.next(is_coming) else {
            self.left.pop();
            return self.next(is_coming);
        };
        let mut part = next.clone();
        let start = part.0[*along].start;
        part.0[*along] = start + slice.start..start + slice.end;
        Some(part)
    }
}

/// The box of these ranges, each of which is inside its loop; with an empty range if one of them is.
fn inside(counts: &[usize], interior: &[(i64, i64)]) -> LeafBox {
    assert_eq!(
        counts.len(),
        interior.len(),
        "the interior of a leaf has a range for each loop; this is a bug in polyshard"
    );
    let range = |(&count, &(low, high)): (&usize, &(i64, i64))| {
        if low >= high {
            return 0..0;
        }
        let range = low.max(0) as usize..high.max(0) as usize;
        assert!(
            low >= 0 && range.end <= count,
            "iterations {low}..{high} of a loop of {count} are in the interior; this is a bug in polyshard"
        );
        range
    };
    LeafBox(counts.iter().zip(interior).map(range).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn points(boxes: &mut LeafBoxes, is_coming: bool) -> Vec<[usize; 3]> {
        let mut all = Vec::new();
        while let Some(part) = boxes.next(is_coming) {
            let [a, b, c] = [0, 1, 2].map(|l| part.0[l].clone());
            for i in a {
                for j in b.clone() {
                    all.extend(c.clone().map(|k| [i, j, k]));
                }
            }
        }
        all
    }

    #[test]
    fn the_interior_comes_first_and_then_the_rims_around_it() {
        let (counts, interior) = ([8, 6], [(1, 7), (0, 6)]);
        let mut boxes = LeafBoxes::interior(&counts, &interior, 0);
        let inner = boxes.next(false).expect("it is not empty");
        assert_eq!((inner.counts()[..].to_vec(), inner.moved(&[10, 1])), (vec![6, 6], 10));
        assert!(boxes.next(false).is_none());
        let mut rims = LeafBoxes::rims(&counts, &interior);
        let first = [(); 2].map(|()| rims.next(false).expect("there are two").moved(&[1, 0]));
        assert_eq!(first, [0, 7]);
        assert!(rims.next(false).is_none());
    }

    proptest! {
        /// The interior holds its iterations, the rims all others, and none is in two boxes.
        #[test]
        fn interior_and_rims_are_the_leaf(
            counts in [0usize..6, 0usize..6, 0usize..6], cuts in prop::collection::vec((0i64..7, 0i64..7), 3), along in 0usize..3, is_coming: bool,
        ) {
            let interior: Vec<_> = cuts.iter().zip(counts).map(|(&(low, high), count)| (low, high.min(count as i64))).collect();
            let inner = points(&mut LeafBoxes::interior(&counts, &interior, along), is_coming);
            let rims = points(&mut LeafBoxes::rims(&counts, &interior), is_coming);
            let is_inner = |at: &[usize; 3]| at.iter().zip(&interior).all(|(&at, (low, high))| (*low..*high).contains(&(at as i64)));
            prop_assert!(inner.iter().all(is_inner) && !rims.iter().any(is_inner));
            let all: BTreeSet<_> = inner.iter().chain(&rims).copied().collect();
            prop_assert_eq!(all.len(), inner.len() + rims.len());
            prop_assert_eq!(all.len(), counts.iter().product::<usize>());
        }
    }
}
