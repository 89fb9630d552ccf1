//! Sums of terms that the ranks of a group hold: each rank gets its part, or all of it.
//!
//! All members have a term of one and the same tile. A sum that all are to have is made in two steps, as R. Rabenseifner,
//! "Optimization of Collective Reduction Operations", ICCS 2004, does with long vectors: every element is summed by one
//! rank, so that all get the same bits, and a rank receives what the planner counts, two tiles less a share of each.

use super::tile::{Held, len};
use crate::layout::Mesh;
use crate::region::row_major;
use crate::{Element, Group, ReduceOp, Result, World, memory};
use bytemuck::{cast_slice, cast_slice_mut};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// Sums terms so that every rank of a group gets its part of the tile (MPI 3.1, section 5.10).
///
/// ```text
/// before   rank 0: a0 a1    rank 1: b0 b1    C[I, K] {U_X}
/// after    rank 0: a0+b0    rank 1: a1+b1    C[I_X, K]
/// ```
pub(super) struct Scatter<T> {
    group: Rc<Group>,
    /// The shape of this rank's tile before.
    shape: Vec<usize>,
    /// Each member's part of it, as a box inside.
    parts: Vec<Vec<Range<usize>>>,
    counts: Vec<usize>,
    /// The parts one after the other; empty if they lie so already.
    packed: RefCell<Vec<T>>,
}

impl<T: Element> Scatter<T> {
    /// Prepares the sum of terms that lie as `from`, along `axes`, to what lies as `to`; collective.
    pub(super) fn new(world: &World, axes: &[usize], from: &Held, to: &Held) -> Result<Self> {
        let group = world.group(from.mesh(), axes)?;
        let tile = from.tile(&from.mesh().coordinates(world.rank()));
        let inside = |member| {
            let part = to.tile(&group.coordinates(member)).into_iter().zip(&tile);
            // An empty part may be anywhere; it is moved to where it does no harm.
            let part = part.map(|(part, tile)| part.start.clamp(tile.start, tile.end)..part.end.min(tile.end));
            part.zip(&tile).map(|(part, tile)| part.start - tile.start..part.end.max(part.start) - tile.start).collect()
        };
        let parts: Vec<Vec<_>> = (0..group.size()).map(inside).collect();
        let counts: Vec<usize> = parts.iter().map(|part| len(part) * size_of::<T>()).collect();
        let elements = len(&tile);
        assert_eq!(
            counts.iter().sum::<usize>(),
            elements * size_of::<T>(),
            "the parts of {} are not those of {}; this is a bug of polyshard",
            to.array,
            from.array
        );
        let shape = tile.iter().map(Range::len).collect();
        let mut scatter = Self { group, shape, parts, counts, packed: RefCell::default() };
        if !scatter.follow_one_another() {
            scatter.packed = RefCell::new(memory::zeros(elements, "the parts of a sum")?);
        }
        Ok(scatter)
    }

    /// Writes this rank's part of the sum of all members' `terms`; collective over the group.
    pub(super) fn run(&self, terms: &[T], part: &mut [T]) -> Result<()> {
        let packed = &mut *self.packed.borrow_mut();
        let send = if packed.is_empty() {
            terms
        } else {
            let mut at = 0;
            self.rows(|row| {
                packed[at..at + row.len()].copy_from_slice(&terms[row.clone()]);
                at += row.len();
            });
            &packed[..]
        };
        self.group.comm().reduce_scatter(cast_slice(send), cast_slice_mut(part), &self.counts, T::KIND, ReduceOp::Sum)
    }

    /// Returns the bytes that are held.
    pub(super) fn staging_bytes(&self) -> usize {
        size_of_val(&self.packed.borrow()[..])
    }

    /// Whether the parts are in the tile as they are sent.
    fn follow_one_another(&self) -> bool {
        let (mut at, mut follow) = (0, true);
        self.rows(|row| {
            follow &= row.start == at;
            at = row.end;
        });
        follow
    }

    /// Visits the rows of each part, in the members' order, as positions in the tile.
    fn rows(&self, mut visit: impl FnMut(Range<usize>)) {
        let strides = row_major(&self.shape);
        for part in self.parts.iter().filter(|part| len(part) > 0) {
            rows(part, &strides, 0, &mut visit);
        }
    }
}

fn rows(part: &[Range<usize>], strides: &[usize], at: usize, visit: &mut impl FnMut(Range<usize>)) {
    match (part, strides) {
        ([], _) => visit(at..at + 1),
        ([row], _) => visit(at + row.start..at + row.end),
        ([outer, inner @ ..], [stride, strides @ ..]) => {
            outer.clone().for_each(|index| rows(inner, strides, at + index * stride, visit));
        }
        _ => unreachable!("a box has one stride per dimension; this is a bug of polyshard"),
    }
}

/// Sums terms so that every rank of a group gets the whole sum (MPI 3.1, sections 5.10 and 5.7).
///
/// ```text
/// before     rank 0: a0 a1          rank 1: b0 b1          C[I, K] {U_X}
/// between    rank 0: a0+b0          rank 1: a1+b1
/// after      rank 0: a0+b0 a1+b1    rank 1: a0+b0 a1+b1    C[I, K]
/// ```
pub(super) struct AllReduce<T> {
    group: Rc<Group>,
    /// Bytes that each member sums.
    counts: Vec<usize>,
    share: RefCell<Vec<T>>,
}

impl<T: Element> AllReduce<T> {
    /// Prepares the sum along `axes` of terms of `elements` elements; collective.
    pub(super) fn new(world: &World, mesh: &Mesh, axes: &[usize], elements: usize) -> Result<Self> {
        let group = world.group(mesh, axes)?;
        let size = group.size();
        // As even as can be: the first ones sum one more.
        let share = |member| elements / size + usize::from(member < elements % size);
        let counts = (0..size).map(|member| share(member) * size_of::<T>()).collect();
        let own = memory::zeros(share(group.rank()), "this rank's share of a sum")?;
        Ok(Self { group, counts, share: RefCell::new(own) })
    }

    /// Writes the sum of all members' `terms` to `sum`; collective over the group.
    pub(super) fn run(&self, terms: &[T], sum: &mut [T]) -> Result<()> {
        let share = &mut *self.share.borrow_mut();
        let comm = self.group.comm();
        comm.reduce_scatter(cast_slice(terms), cast_slice_mut(share), &self.counts, T::KIND, ReduceOp::Sum)?;
        comm.all_gather(cast_slice(share), cast_slice_mut(sum), &self.counts)
    }

    /// As [`run`](Self::run), with the sum in place of this rank's term.
    pub(super) fn run_in_place(&self, terms: &mut [T]) -> Result<()> {
        let share = &mut *self.share.borrow_mut();
        let comm = self.group.comm();
        comm.reduce_scatter(cast_slice(terms), cast_slice_mut(share), &self.counts, T::KIND, ReduceOp::Sum)?;
        comm.all_gather(cast_slice(share), cast_slice_mut(terms), &self.counts)
    }

    /// Returns the bytes that are held.
    pub(super) fn staging_bytes(&self) -> usize {
        size_of_val(&self.share.borrow()[..])
    }
}
