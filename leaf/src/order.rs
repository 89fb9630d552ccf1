//! The order in which a nest visits its points: which loop is innermost, and which one is walked together with it.

use super::walk::{self, Loops};
use crate::Element;
use smallvec::{SmallVec, smallvec};

/// Bytes of a cache line.
const LINE: u64 = 64;
/// The cost of a row besides its elements, as bytes of memory traffic.
const ROW: u64 = 512;

/// A loop whose strides are elsewhere: with those of many operands it would be large to move.
pub(super) type Loop<'l> = walk::Loop<&'l [i64]>;

/// The loops of a nest in the order in which they run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Order<'l> {
    /// The outer loops, outermost first.
    pub(super) outer: SmallVec<[Loop<'l>; 6]>,
    /// A loop directly around the innermost one that moves some operand by one element, where `inner` moves the same operand by more, as in
    /// a transpose. Or the next loop around it whose rows are all combined into one row of the output, as in sums of columns. Otherwise a
    /// loop of one iteration.
    pub(super) cross: Loop<'l>,
    /// The innermost loop.
    pub(super) inner: Loop<'l>,
}

/// A loop, or neighbouring loops that are merged.
struct Joined<'l> {
    one: Loop<'l>,
    /// Their numbers among all loops, outermost first.
    parts: SmallVec<[usize; 6]>,
}

type AllJoined<'l> = SmallVec<[Joined<'l>; 6]>;

/// The error if operands in place do not allow an order: the rows that it combines to one value each are not rows in place.
#[derive(Debug)]
pub(super) struct Apart;

impl<'l> Order<'l> {
    /// The order for loops whose strides are those of the output, then of the operands.
    ///
    /// Loops of one iteration are dropped, and neighbours that continue each other are merged. The loop whose iterations touch the fewest
    /// bytes of memory becomes the innermost one, the last of those that are equally good. Of the strides, only the first `operands` are
    /// of memory. Where a loop is missing, `once` stands for it, the loop of one iteration.
    pub(super) fn new<T: Element>(loops: &'l Loops, once: Loop<'l>, operands: usize) -> Self {
        let (outer, cross, inner) = chosen::<T>(loops, operands);
        let [cross, inner] = [cross, inner].map(|found| found.map_or(once, |found| found.one));
        Self { outer: ones(outer), cross, inner }
    }

    /// The order that suits operands in `tiles`, for operands in other `places`: the terms of each element of the output are taken in the
    /// same order, and the same rows are combined.
    pub(super) fn as_in_tiles<T: Element>(
        tiles: &'l Loops,
        places: &'l Loops,
        once: Loop<'l>,
        operands: usize,
    ) -> Result<Self, Apart> {
        let (outer, cross, inner) = chosen::<T>(tiles, operands);
        let mut all: SmallVec<[_; 6]> = outer.iter().flat_map(|found| in_places(found, places)).collect();
        let mut innermost = |found: Option<Joined<'l>>, is_one: bool| {
            let Some(found) = found else { return Ok(once) };
            let mut loops = ones(merged(in_places(&found, places)));
            let last = loops.pop().unwrap_or(once);
            if is_one && !loops.is_empty() {
                return Err(Apart);
            }
            // The loops around it may stay separate, since they do not change which values are combined.
            all.extend(loops);
            Ok(last)
        };
        let is_sum = inner.as_ref().is_some_and(|found| found.one.strides[0] == 0);
        let cross = innermost(cross, false)?;
        let inner = innermost(inner, is_sum)?;
        Ok(Self { outer: ones(merged(all)), cross, inner })
    }

    /// Whether all rows of the cross loop are combined into one row of the output.
    pub(super) fn meets(&self) -> bool {
        self.cross.count > 1 && self.cross.strides[0] == 0
    }

    /// Whether no two points of the two inner loops write one element of the output.
    pub(super) fn apart(&self) -> bool {
        let (cross, inner) = (self.cross.strides[0].abs(), self.inner.strides[0].abs());
        let reach = |stride: i64, count: usize| stride.saturating_mul(count as i64);
        (inner > 0 && cross >= reach(inner, self.inner.count)) || (cross > 0 && inner >= reach(cross, self.cross.count))
    }
}

/// The outer loops, and the cross loop and the innermost loop, if they exist.
fn chosen<T: Element>(loops: &Loops, operands: usize) -> (AllJoined<'_>, Option<Joined<'_>>, Option<Joined<'_>>) {
    let mut loops = merged(loops.iter().map(walk::Loop::borrowed));
    let traffic = |one: &Loop<'_>| traffic::<T>(&one.strides[..operands], one.count);
    let Some(inner) = (0..loops.len()).min_by_key(|&l| (traffic(&loops[l].one), loops.len() - l)) else {
        return (SmallVec::new(), None, None);
    };
    let inner = loops.remove(inner);
    let crossings = |outer: &Joined<'_>| crossings(&outer.one.strides[..operands], &inner.one.strides[..operands]);
    let cross = (0..loops.len()).max_by_key(|&l| (crossings(&loops[l]), l));
    let cross = cross.filter(|&l| crossings(&loops[l]) > 0).map(|l| loops.remove(l));
    if cross.is_some() {
        return (joined(loops), cross, Some(inner));
    }
    loops.push(inner);
    let mut outer = joined(loops);
    let inner = outer.pop();
    let in_rows = inner.iter().all(|found| found.one.strides[..operands].iter().all(|&stride| stride == 1));
    let meets = in_rows && outer.last().is_some_and(|next| next.one.strides[0] == 0);
    let cross = if meets { outer.pop() } else { None };
    (outer, cross, inner)
}

/// The loops, [`joined`].
fn merged<'l>(loops: impl IntoIterator<Item = Loop<'l>>) -> AllJoined<'l> {
    joined(loops.into_iter().enumerate().map(|(l, one)| Joined { one, parts: smallvec![l] }))
}

/// Drops loops of one iteration and merges neighbours that continue each other, which keeps the order.
fn joined<'l>(loops: impl IntoIterator<Item = Joined<'l>>) -> AllJoined<'l> {
    let mut joined = AllJoined::new();
    for mut found in loops.into_iter().filter(|found| found.one.count > 1) {
        while joined.last().is_some_and(|outer| outer.one.continues(&found.one))
            && let Some(outer) = joined.pop()
        {
            found.one.count *= outer.one.count;
            found.parts.insert_many(0, outer.parts);
        }
        joined.push(found);
    }
    joined
}

/// The loops that others have been merged to.
fn ones(loops: AllJoined<'_>) -> SmallVec<[Loop<'_>; 6]> {
    loops.into_iter().map(|found| found.one).collect()
}

/// The merged loops, as they are in these places.
fn in_places<'a, 'l>(found: &'a Joined<'_>, places: &'l Loops) -> impl Iterator<Item = Loop<'l>> + use<'a, 'l> {
    found.parts.iter().map(|&l| places[l].borrowed())
}

/// Bytes of memory that one iteration of the loop touches if it is innermost.
fn traffic<T: Element>(strides: &[i64], count: usize) -> u64 {
    let bytes = |stride: i64| stride.unsigned_abs().saturating_mul(T::DTYPE.size() as u64).min(LINE);
    // The output is read and written.
    let elements = bytes(strides[0]) + strides.iter().map(|&stride| bytes(stride)).sum::<u64>();
    elements + ROW / count as u64
}

/// The operands that the outer loop walks with stride 1 and the inner one does not.
fn crossings(outer: &[i64], inner: &[i64]) -> usize {
    let strides = outer.iter().zip(inner).skip(1);
    strides.filter(|&(&outer, &inner)| outer == 1 && inner.abs() > 1).count()
}
