//! Strided loop nests: any pointwise kernel, accumulated into an output.
//!
//! The innermost loop is evaluated in rows of 512 points, or of more if all operands are read in place, as those of unit stride are. Others
//! are gathered first, so that a kernel only ever sees rows and the compiler vectorises it. It is compiled for the vectors of several
//! generations of processors; those of the running processor are chosen, and results do not depend on them.

use super::fold::{Lanes, accumulate, store};
use super::gather::Gather;
use super::order::Order;
use super::packed::packed;
use super::records::combine_records;
use super::rows::CHUNK;
use super::scratch::Scratch;
use super::walk::{Loop, PerOperand, walk};
use super::{Pointwise, gather};
use crate::view::{Strides, moved};
use crate::{Element, ReduceOp, Strided, StridedMut};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// Combines into `c`, with `op`, the kernel's value at every point of the loops.
///
/// The order depends only on the counts and strides, never on the kernel, the processor or the communicator, so closures and expressions
/// agree to the last bit everywhere:
///
/// - The loop along which operands are closest together is innermost. The others keep their order around it, except one that moves an
///   operand with stride 1 where the innermost loop does not; it comes next.
/// - If the innermost loop moves `c`, values are combined into `c` point by point.
/// - If it does not, as in a sum along a row, 32 lanes combine the row's values first: lane `i` takes points `i`, `i + 32`, and so on. Then
///   lane `i` is combined with lane `i + 16`, the results `i` and `i + 8`, down to one, which is combined into `c`. A row of fewer points
///   is combined from first to last.
///
/// An operand that is read inside a shard is taken in the order of its tile, so that sums do not depend on its place.
///
/// An operand may be in two places, as the tile of a halo is: the part that its rank owns is read in place. And it may have a fixed value
/// where its index is outside of its array ([`View::outside`](crate::View::outside)).
///
/// # Panics
/// If an operand would be accessed outside its data: a bug in polyshard.
#[track_caller]
pub fn nest<T: Element>(
    counts: &[usize],
    c: StridedMut<'_, T>,
    op: ReduceOp,
    operands: &[Strided<'_, T>],
    kernel: &impl Pointwise<T>,
) {
    nest_with_numbers(counts, c, op, operands, &[], kernel);
}

/// As [`nest`], of a kernel with numbers as further operands.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::runtime::leaf::{Ramp, nest_with_numbers, pointwise};
/// use polyshard::runtime::{Strided, StridedMut};
/// let mut c = [0.0; 3];
/// let (a, i) = (Strided::new(&[0.5, 0.25, 2.0], 0, vec![1]), Ramp::new(10, vec![1]));
/// let kernel = pointwise(|[a, i]: [f64; 2]| a * i);
/// nest_with_numbers(&[3], StridedMut::new(&mut c, 0, vec![1]), ReduceOp::Sum, &[a], &[i], &kernel);
/// assert_eq!(c, [5.0, 2.75, 24.0]);
/// ```
///
/// # Panics
/// As [`nest`], and if a number does not fit the element type: a bug in polyshard.
#[track_caller]
pub fn nest_with_numbers<T: Element>(
    counts: &[usize],
    mut c: StridedMut<'_, T>,
    op: ReduceOp,
    operands: &[Strided<'_, T>],
    numbers: &[Ramp],
    kernel: &impl Pointwise<T>,
) {
    if let ReduceOp::Records(records) = op {
        // The element of a record chooses between its values, the last of which are those of the row.
        let row = |record: usize| {
            let mut found = None;
            while let Some((operand, bound, rest)) = found.map_or(kernel, |(_, rest)| rest).chosen() {
                let number = operand.checked_sub(operands.len()).and_then(|nth| numbers.get(nth));
                let is_element = |Ramp { base, strides }: &Ramp| {
                    let along = |(l, stride): (usize, &i64)| *stride == i64::from(l == record);
                    *base == 0 && strides.iter().enumerate().all(along)
                };
                if !number.is_some_and(is_element) {
                    break;
                }
                found = Some((bound, rest));
            }
            found
        };
        return combine_records(counts, c, records, operands, row, |part, counts, c, operands, of_row| {
            let numbers: Vec<_> = numbers.iter().map(|number| number.at(part.at, part.kept)).collect();
            nest_with_numbers(counts, c, ReduceOp::Sum, operands, &numbers, of_row.unwrap_or(kernel));
        });
    }
    let overwrites = c.is_overwritten();
    if !overwrites {
        c.set();
    }
    let kept: SmallVec<[Strided<'_, T>; 10]>;
    let operands = if operands.iter().any(|operand| operand.outside.is_some()) {
        kept = operands.iter().map(|operand| operand.of_loops(counts)).collect();
        &kept[..]
    } else {
        operands
    };
    let mut strides: SmallVec<[Strides; 40]> = smallvec![c.checked_strides("c", counts)];
    strides.extend(operands.iter().enumerate().map(|(i, operand)| operand.operand_strides(i, counts)));
    if counts.contains(&0) {
        return;
    }
    let mut offsets: PerOperand = smallvec![c.offset];
    offsets.extend(operands.iter().map(|operand| operand.offset));
    // Numbers grow along the loops too, but take no memory.
    for Ramp { base, strides: steps } in numbers {
        assert_eq!(steps.len(), counts.len(), "a number has one stride per loop; this is a bug in polyshard");
        offsets.push(*base);
        strides.push(steps.clone());
    }
    // If an operand is in two places, its indices decide which one to read, and move along too.
    for operand in operands {
        if let Some(interior) = &operand.interior {
            offsets.push(interior.offset);
            strides.push(interior.strides.clone());
        }
        for index in gather::indices(operand) {
            offsets.push(index.base);
            strides.push(index.steps.clone());
        }
    }
    let all = Loop::all(counts, &strides);
    let once = Loop::once(strides.len());
    let in_tiles;
    let sums = || T::DTYPE.is_float() && all.iter().any(|one| one.count > 1 && one.strides[0] == 0);
    let order = if operands.iter().any(|operand| operand.tile.is_some()) && sums() {
        let mut of_tiles = strides.clone();
        for (strides, tile) in
            of_tiles[1..].iter_mut().zip(operands).filter_map(|(to, of)| Some((to, of.tile.as_ref()?)))
        {
            strides.clone_from(tile);
        }
        in_tiles = Loop::all(counts, &of_tiles);
        let Ok(order) = Order::as_in_tiles::<T>(&in_tiles, &all, once.borrowed(), 1 + operands.len()) else {
            return packed(operands, counts, |operands| nest_with_numbers(counts, c, op, operands, numbers, kernel));
        };
        order
    } else {
        Order::new::<T>(&all, once.borrowed(), 1 + operands.len())
    };
    let (places, room) = gather::places(operands, numbers.len(), &order);
    let in_place = gather::are_in_place(operands, &places, &order);
    let longest = if in_place { kernel.points() } else { CHUNK };
    let mut kept = Scratch::of::<T>(room + (1 + kernel.scratch()) * longest);
    let (gathered, rest) = kept.split(room);
    let (values, scratch) = rest.split_at_mut(longest);
    let gather = Gather::new(operands, &order, places, gathered);
    let order = &order;
    let mut rows = RowsOf { c: c.data, overwrites, op, kernel, gather, in_place, longest, values, scratch, order };
    walk(&order.outer, &mut offsets, &mut |at| rows.visit(at));
}

/// Numbers that grow by a fixed step along each loop of a nest: the values of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ramp {
    base: i64,
    strides: Strides,
}

impl Ramp {
    /// The numbers of the loops `kept`, where the others are at these iterations.
    pub(super) fn at(&self, at: &[usize], kept: &[usize]) -> Self {
        Self { base: self.base + moved(&self.strides, at), strides: kept.iter().map(|&l| self.strides[l]).collect() }
    }

    /// Returns the numbers that start from `base` and grow by `strides[l]` along loop `l`.
    #[must_use]
    pub fn new(base: i64, strides: impl Into<Strides>) -> Self {
        Self { base, strides: strides.into() }
    }
}

/// The rows of the two inner loops, evaluated and accumulated.
struct RowsOf<'a, 'l, T, K> {
    c: &'a mut [T],
    /// Whether elements of `c` are not read, but replaced by the operation's identity.
    overwrites: bool,
    op: ReduceOp,
    kernel: &'a K,
    gather: Gather<'a, T>,
    /// Whether operands are gathered only in rows whose points are in two places.
    in_place: bool,
    /// The maximum number of points of a row.
    longest: usize,
    /// Room for the values of a row.
    values: &'a mut [T],
    /// The kernel's intermediate results.
    scratch: &'a mut [T],
    order: &'a Order<'l>,
}

impl<T: Element, K: Pointwise<T>> RowsOf<'_, '_, T, K> {
    /// All points of the two inner loops, where `at` are the offsets of the first one.
    fn visit(&mut self, at: &[i64]) {
        let (cross, inner) = (self.order.cross.count, self.order.inner.count);
        let blocks = || (0..cross).step_by(gather::ROWS).map(|first| first..cross.min(first + gather::ROWS));
        let size = self.longest.min(CHUNK);
        let chunks = || (0..inner).step_by(size).map(|start| start..inner.min(start + size));
        if self.order.inner.strides[0] == 0 {
            for block in blocks() {
                let mut lanes = SmallVec::<[Lanes<T>; gather::ROWS]>::new();
                lanes.resize(block.len(), Lanes::new());
                for chunk in chunks() {
                    self.gather.fill(at, &block, &chunk);
                    for (row, lanes) in block.clone().zip(&mut lanes) {
                        self.gather.begin(at, row);
                        let rows = self.gather.rows(at, row, block.start, &chunk);
                        let values = &mut self.values[..chunk.len()];
                        lanes.combine(self.kernel.values(&rows, self.scratch, values), self.op);
                    }
                }
                for (row, lanes) in block.zip(&lanes) {
                    let c = &mut self.c[(at[0] + row as i64 * self.order.cross.strides[0]) as usize];
                    let held = if self.overwrites { self.op.identity() } else { *c };
                    *c = self.op.combine(held, lanes.meet(self.op));
                }
            }
        } else if self.in_place {
            // If rows are combined into one row of the output, a piece of it that stays in the cache takes them all.
            let size = if self.order.meets() { self.longest } else { inner };
            for block in blocks() {
                (0..inner).step_by(size).for_each(|start| self.block(at, &block, &(start..inner.min(start + size))));
            }
        } else if self.order.apart() {
            // No two points are combined here, so any order is allowed; this one stays longer on the same pages of memory.
            for chunk in chunks() {
                blocks().for_each(|block| self.block(at, &block, &chunk));
            }
        } else {
            for block in blocks() {
                chunks().for_each(|chunk| self.block(at, &block, &chunk));
            }
        }
    }

    /// Whether rows of the output are written by the kernel itself.
    fn adds(&self) -> bool {
        self.order.inner.strides[0] == 1 && self.op == ReduceOp::Sum
    }

    /// Points whose rows move the output.
    fn block(&mut self, at: &[i64], block: &Range<usize>, chunk: &Range<usize>) {
        self.gather.fill(at, block, chunk);
        for row in block.clone() {
            self.gather.begin(at, row);
            let mut start = chunk.start;
            while start < chunk.end {
                let end = chunk.end.min(start + self.longest);
                let points = start..if self.in_place { self.gather.cut(start, end) } else { end };
                self.points(at, row, block.start, &points);
                start = points.end;
            }
        }
    }

    /// Points of a row in the block that starts with the row `first`.
    fn points(&mut self, at: &[i64], row: usize, first: usize, points: &Range<usize>) {
        let adds = self.adds();
        let rows = self.gather.rows(at, row, first, points);
        let [cross, inner] = [&self.order.cross, &self.order.inner].map(|one| one.strides[0]);
        let offset = at[0] + row as i64 * cross + points.start as i64 * inner;
        if adds {
            let c = &mut self.c[offset as usize..][..points.len()];
            return match self.overwrites {
                true => self.kernel.store(&rows, self.scratch, c),
                false => self.kernel.add_to(&rows, self.scratch, self.values, c),
            };
        }
        let values = self.kernel.values(&rows, self.scratch, &mut self.values[..points.len()]);
        match self.overwrites {
            true => store(self.c, offset, inner, values, self.op),
            false => accumulate(self.c, offset, inner, values, self.op),
        }
    }
}
