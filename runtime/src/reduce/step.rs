//! One step of a reduction, as one rank sees it: a collective of its group on ranges of the data.
//!
//! What a rank holds before and after each step is the layout of the steps, the same for all lengths; here it becomes
//! ranges of this array. Chunk `c` stays at its place in the data, so that the last step ends with the sum where the data
//! was. What lies together is reduced, sent and received there; only what is scattered is packed.
//!
//! A rank that ends a step with nothing keeps what it had in its data, which no later step reads.

use super::Comm;
use super::piece::{self, Ranges};
use crate::comm::Broadcast;
use crate::{Element, Error, ReduceOp, Result, World, memory};
use bytemuck::{cast_slice, cast_slice_mut};
use polyshard_program::reduction::{Collective, Lowered};
use std::ops::Range;

/// A step that this rank takes part in.
pub(super) struct Step {
    collective: Collective,
    comm: Comm,
    /// What the group's data is: of an all-reduce, reduce or broadcast, what the first holds before; else the pieces
    /// one after the other.
    whole: Ranges,
    /// By member, the piece that it is left with by a reduce-scatter or brings to an all-gather; else none.
    pieces: Vec<Ranges>,
    /// The bytes of each member's piece.
    counts: Vec<usize>,
}

/// What steps copy to and from, allocated once.
pub(super) struct Staging<T> {
    whole: Vec<T>,
    own: Vec<T>,
}

/// Returns the steps that have something to do for this rank; collective over the world, since groups become
/// communicators.
pub(super) fn steps<T: Element>(world: &World, lowered: &Lowered, elements: usize) -> Result<Vec<Step>> {
    let layout = lowered.layout().map_err(|error| Error::Usage(error.to_string()))?;
    let mut steps = Vec::new();
    for (nth, step) in lowered.steps().iter().enumerate() {
        // All ranks ask for the groups, also those that are in none.
        let comm = world.ordered(&step.groups)?;
        let (Some(comm), Some(group)) = (comm, step.groups.iter().find(|group| group.contains(&world.rank()))) else {
            continue;
        };
        let held = |at: usize, rank: usize| piece::elements_of(elements, lowered.chunks(), &layout[at][rank]);
        let pieces: Vec<Ranges> = match step.collective {
            Collective::ReduceScatter => group.iter().map(|&rank| held(nth + 1, rank)).collect(),
            Collective::AllGather => group.iter().map(|&rank| held(nth, rank)).collect(),
            _ => Vec::new(),
        };
        let whole = match pieces.is_empty() {
            true => held(nth, group[0]),
            false => piece::joined(pieces.iter().flatten().cloned()),
        };
        // Every member finds the same; a group may hold nothing, or chunks without elements.
        if !whole.is_empty() {
            let counts = pieces.iter().map(|ranges| piece::len(ranges) * size_of::<T>()).collect();
            steps.push(Step { collective: step.collective, comm, whole, pieces, counts });
        }
    }
    Ok(steps)
}

impl Step {
    /// Returns the elements that this rank receives, as communicators count them.
    pub(super) fn received(&self) -> usize {
        let (others, root, whole) = (self.comm.size() - 1, self.comm.rank() == 0, piece::len(&self.whole));
        match self.collective {
            Collective::AllReduce => others * whole,
            Collective::Reduce if root => others * whole,
            Collective::Broadcast if !root => whole,
            Collective::ReduceScatter => others * piece::len(self.own()),
            Collective::AllGather => whole - piece::len(self.own()),
            _ => 0,
        }
    }

    /// Does the step on `data`.
    ///
    /// ```text
    /// reduce-scatter, two ranks      before  rank 0: a0 a1   rank 1: b0 b1    after  rank 0: s0 --   rank 1: -- s1
    /// all-gather                     before  rank 0: s0 --   rank 1: -- s1    after  both:   s0 s1
    /// all-reduce                     before  rank 0: a0 a1   rank 1: b0 b1    after  both:   s0 s1
    /// reduce                         before  rank 0: a0 a1   rank 1: b0 b1    after  rank 0: s0 s1   rank 1: -- --
    /// broadcast                      before  rank 0: s0 s1   rank 1: -- --    after  both:   s0 s1
    /// ```
    ///
    /// MPI 3.1, sections 5.10, 5.7, 5.9.6, 5.9.1 and 5.4.
    pub(super) fn run<T: Element>(&self, data: &mut [T], op: ReduceOp, staging: &mut Staging<T>) -> Result<()> {
        match self.collective {
            Collective::AllReduce => {
                self.in_place(data, staging, true, |data| self.comm.all_reduce(cast_slice_mut(data), T::DTYPE, op))
            }
            Collective::Reduce => {
                let root = self.comm.rank() == 0;
                self.in_place(data, staging, root, |data| self.comm.reduce(0, cast_slice_mut(data), T::DTYPE, op))
            }
            Collective::Broadcast if self.comm.rank() == 0 => {
                self.in_place(data, staging, false, |data| self.comm.broadcast(Broadcast::Send(cast_slice(data))))
            }
            Collective::Broadcast => self.in_place(data, staging, true, |data| {
                self.comm.broadcast(Broadcast::Receive { root: 0, into: cast_slice_mut(data) })
            }),
            Collective::ReduceScatter => self.reduce_scatter(data, op, staging),
            Collective::AllGather => self.all_gather(data, staging),
            other => unreachable!("{other} in proved steps of a reduction: this is a bug of polyshard"),
        }
    }

    /// Does something to the group's data where they lie, or packs them before and unpacks them after if `changes`.
    fn in_place<T: Element>(
        &self,
        data: &mut [T],
        staging: &mut Staging<T>,
        changes: bool,
        collective: impl FnOnce(&mut [T]) -> Result<()>,
    ) -> Result<()> {
        if let [range] = &self.whole[..] {
            return collective(&mut data[range.clone()]);
        }
        let packed = &mut staging.whole[..piece::len(&self.whole)];
        piece::pack(data, &self.whole, packed);
        collective(packed)?;
        if changes {
            piece::unpack(packed, &self.whole, data);
        }
        Ok(())
    }

    fn reduce_scatter<T: Element>(&self, data: &mut [T], op: ReduceOp, staging: &mut Staging<T>) -> Result<()> {
        let Staging { whole, own } = staging;
        let send: &[T] = match &self.whole[..] {
            [range] => &data[range.clone()],
            ranges => {
                let packed = &mut whole[..piece::len(ranges)];
                piece::pack(data, ranges, packed);
                packed
            }
        };
        let own = &mut own[..piece::len(self.own())];
        self.comm.reduce_scatter(cast_slice(send), cast_slice_mut(own), &self.counts, T::DTYPE, op)?;
        piece::unpack(own, self.own(), data);
        Ok(())
    }

    fn all_gather<T: Element>(&self, data: &mut [T], staging: &mut Staging<T>) -> Result<()> {
        let Staging { whole, own } = staging;
        let own = &mut own[..piece::len(self.own())];
        piece::pack(data, self.own(), own);
        if let [range] = &self.whole[..] {
            return self.comm.all_gather(cast_slice(own), cast_slice_mut(&mut data[range.clone()]), &self.counts);
        }
        let packed = &mut whole[..piece::len(&self.whole)];
        self.comm.all_gather(cast_slice(own), cast_slice_mut(packed), &self.counts)?;
        piece::unpack(packed, &self.whole, data);
        Ok(())
    }

    /// This rank's piece.
    fn own(&self) -> &[Range<usize>] {
        &self.pieces[self.comm.rank()]
    }
}

impl<T: Element> Staging<T> {
    /// Returns room for `whole` elements of a group and `own` of this rank.
    pub(super) fn new(whole: usize, own: usize) -> Result<Self> {
        let room = |elements| memory::zeros(elements, "the chunks of a reduction");
        Ok(Self { whole: room(whole)?, own: room(own)? })
    }

    /// Returns the room that the neediest of these steps needs.
    pub(super) fn of_steps(steps: &[Step]) -> Result<Self> {
        let whole = steps.iter().filter(|step| step.whole.len() > 1).map(|step| piece::len(&step.whole));
        let own = steps.iter().filter(|step| !step.pieces.is_empty()).map(|step| piece::len(step.own()));
        Self::new(whole.max().unwrap_or(0), own.max().unwrap_or(0))
    }

    /// Returns the number of elements that there is room for.
    pub(super) fn len(&self) -> usize {
        self.whole.len() + self.own.len()
    }

    /// Returns the room for what a group has, and for what this rank has.
    pub(super) fn parts(&mut self) -> [&mut [T]; 2] {
        [&mut self.whole, &mut self.own]
    }
}

impl<T: Element> Default for Staging<T> {
    fn default() -> Self {
        Self { whole: Vec::new(), own: Vec::new() }
    }
}
