//! One step of a reduction, as one rank sees it: a collective of its group on ranges of the data.
//!
//! What a rank holds before and after each step is the layout of the steps, the same for all lengths; here it becomes
//! ranges of this array. Chunk `c` stays at its place in the data, so that the last step ends with the sum where the data
//! was. What lies together is reduced, sent and received there; only what is scattered is packed.
//!
//! A rank that ends a step with nothing keeps what it had in its data, which no later step reads.

use super::Comm;
use crate::comm::{Broadcast, Combining, Order};
use crate::subarray::{Place, Subarray};
use crate::{Element, ReduceOp, ReductionRunError, Result, World, memory};
use bytemuck::{cast_slice, cast_slice_mut};
use polyshard_program::reduction::{Collective, Lowered, chunk};
use std::ops::Range;

/// A step that this rank takes part in.
pub(super) struct CollectiveStep {
    collective: Collective,
    /// Whether a reduce-scatter combines in the order of the group's ranks, whatever the communicator likes.
    order: Order,
    comm: Comm,
    /// What the group's data is: of an all-reduce, reduce or broadcast, what the first holds before; else the pieces
    /// one after the other.
    whole: Subarray,
    /// By member, the piece that it is left with by a reduce-scatter or brings to an all-gather; else none.
    pieces: Vec<Subarray>,
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
pub(super) fn steps<T: Element>(world: &World, lowered: &Lowered, elements: usize) -> Result<Vec<CollectiveStep>> {
    let layout = lowered.layout().map_err(|error| ReductionRunError::Steps(Box::new(error)))?;
    let mut steps = Vec::new();
    for (nth, step) in lowered.steps().iter().enumerate() {
        // All ranks ask for the groups, also those that are in none.
        let comm = world.ordered(&step.groups)?;
        let (Some(comm), Some(group)) = (comm, step.groups.iter().find(|group| group.contains(&world.rank()))) else {
            continue;
        };
        let chunks = |range: &Range<usize>| {
            let [first, last] = [range.start, range.end - 1].map(|at| chunk(elements, lowered.chunks(), at));
            first.start..last.end
        };
        let held = |rank: usize| {
            let at = nth + usize::from(step.collective == Collective::ReduceScatter);
            layout[at][rank].iter().filter(|range| !range.is_empty()).map(chunks)
        };
        let (holders, in_pieces) = match step.collective {
            Collective::ReduceScatter | Collective::AllGather => (&group[..], true),
            _ => (&group[..1], false),
        };
        let whole = Subarray::of_ranges(elements, holders.iter().flat_map(|&rank| held(rank)));
        let pieces = holders.iter().filter(|_| in_pieces).map(|&rank| Subarray::of_ranges(elements, held(rank)));
        steps.push(CollectiveStep::new::<T>(step.collective, Order::Any, comm, whole, pieces.collect()));
    }
    // Every member finds the same; a group may hold nothing, or chunks without elements.
    steps.retain(|step| step.whole.len() > 0);
    Ok(steps)
}

/// Returns the steps of the reduction in one fixed order: the same bits wherever the ranks are.
///
/// A library adds in an order that depends on the length and on which ranks share a node, and so do steps that suit a
/// machine. Here every rank combines one piece of all by itself, in the order of the mesh's coordinates, and hands it on.
/// Which rank combines which piece has no influence on the bits.
pub(super) fn in_order<T: Element>(
    world: &World,
    groups: &[Vec<usize>],
    elements: usize,
) -> Result<Vec<CollectiveStep>> {
    let Some(comm) = world.ordered(groups)?.filter(|_| elements > 0) else { return Ok(Vec::new()) };
    let ranges: Vec<_> = (0..comm.size()).map(|member| chunk(elements, comm.size(), member)).collect();
    let pieces = || ranges.iter().map(|range| Subarray::of_ranges(elements, [range.clone()])).collect();
    let step = |collective| {
        CollectiveStep::new::<T>(
            collective,
            Order::RanksInPieces,
            comm.clone(),
            Subarray::of_ranges(elements, ranges.iter().cloned()),
            pieces(),
        )
    };
    Ok(vec![step(Collective::ReduceScatter), step(Collective::AllGather)])
}

impl CollectiveStep {
    fn new<T: Element>(
        collective: Collective,
        order: Order,
        comm: Comm,
        whole: Subarray,
        pieces: Vec<Subarray>,
    ) -> Self {
        let counts = pieces.iter().map(|piece| piece.len() * size_of::<T>()).collect();
        Self { collective, order, comm, whole, pieces, counts }
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
            Collective::AllReduce => self.in_place(data, staging, true, |data| {
                self.comm.all_reduce(cast_slice_mut(data), Combining::any_order(T::DTYPE, op))
            }),
            Collective::Reduce => {
                let root = self.comm.rank() == 0;
                self.in_place(data, staging, root, |data| {
                    self.comm.reduce(0, cast_slice_mut(data), Combining::any_order(T::DTYPE, op))
                })
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
        if let Some(range) = self.whole.contiguous(Place::Block) {
            return collective(&mut data[range]);
        }
        let packed = &mut staging.whole[..self.whole.len()];
        self.whole.copy(Place::Block, data, Place::Packed, packed);
        collective(packed)?;
        if changes {
            self.whole.copy(Place::Packed, packed, Place::Block, data);
        }
        Ok(())
    }

    fn reduce_scatter<T: Element>(&self, data: &mut [T], op: ReduceOp, staging: &mut Staging<T>) -> Result<()> {
        let Staging { whole, own } = staging;
        let send = self.whole.packed_in(Place::Block, data, whole);
        let own = &mut own[..self.own().len()];
        let into = cast_slice_mut(own);
        let combining = Combining { dtype: T::DTYPE, op, order: self.order };
        self.comm.reduce_scatter(cast_slice(send), into, &self.counts, combining)?;
        self.own().copy(Place::Packed, own, Place::Block, data);
        Ok(())
    }

    fn all_gather<T: Element>(&self, data: &mut [T], staging: &mut Staging<T>) -> Result<()> {
        let own = &mut staging.own[..self.own().len()];
        self.own().copy(Place::Block, data, Place::Packed, own);
        if let Some(range) = self.whole.contiguous(Place::Block) {
            return self.comm.all_gather(cast_slice(own), cast_slice_mut(&mut data[range]), &self.counts);
        }
        let packed = &mut staging.whole[..self.whole.len()];
        self.comm.all_gather(cast_slice(own), cast_slice_mut(packed), &self.counts)?;
        self.whole.copy(Place::Packed, packed, Place::Block, data);
        Ok(())
    }

    /// This rank's piece.
    fn own(&self) -> &Subarray {
        &self.pieces[self.comm.rank()]
    }
}

impl<T: Element> Staging<T> {
    /// Returns the room that the neediest of these steps needs.
    pub(super) fn new(steps: &[CollectiveStep]) -> Result<Self> {
        let whole = steps.iter().filter(|step| step.whole.contiguous(Place::Block).is_none());
        let whole = whole.map(|step| step.whole.len()).max();
        let own = steps.iter().filter(|step| !step.pieces.is_empty()).map(|step| step.own().len()).max();
        let room = |elements: Option<usize>| memory::zeros(elements.unwrap_or(0), "the chunks of a reduction");
        Ok(Self { whole: room(whole)?, own: room(own)? })
    }

    /// Returns the number of elements that there is room for.
    pub(super) fn len(&self) -> usize {
        self.whole.len() + self.own.len()
    }
}
