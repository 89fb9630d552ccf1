//! One step of a reduction on one rank: a collective of its group on ranges of the data.
//!
//! The layout of the steps states which chunks a rank holds before and after each step, for all lengths; when a step runs, chunks become
//! ranges of the given array. Chunk `c` stays at its place in the data, so that the last step ends with the sum in place of the data.
//! Contiguous data is reduced, sent and received in place; only scattered data is packed.
//!
//! A rank that ends a step with nothing keeps its old data, which no later step reads.

use super::Comm;
use crate::comm::{Broadcast, Combining, SumAlgorithm};
use crate::memory::Buffer;
use crate::{Element, ReduceOp, ReductionRunError, Result, World};
use bytemuck::{cast_slice, cast_slice_mut};
use polyshard_program::reduction::{Collective, Lowered, chunk};
use std::ops::Range;
use std::rc::Rc;

/// A step that this rank takes part in.
pub(super) struct CollectiveStep {
    collective: Collective,
    /// How terms are combined.
    by: SumAlgorithm,
    comm: Comm,
    /// The number of chunks of the array.
    chunks: usize,
    /// By member, the chunks that a reduce-scatter leaves it or that it contributes to an all-gather; for other collectives, the chunks
    /// that the first member holds before. Concatenated they are the group's data.
    pieces: Vec<Vec<Range<usize>>>,
}

/// The buffers that steps copy to and from, allocated once.
#[derive(Default)]
pub(super) struct Staging {
    // 8-byte words, so that every element type is aligned.
    whole: Buffer<u64>,
    own: Buffer<u64>,
    /// The bytes of each member's piece.
    counts: Vec<usize>,
}

/// Returns the steps that have something to do for this rank; collective over the world, since groups become
/// communicators.
pub(super) fn steps(world: &World, lowered: &Lowered) -> Result<Vec<CollectiveStep>> {
    let layout = lowered.layout().map_err(|error| ReductionRunError::Steps(Box::new(error)))?;
    let mut steps = Vec::new();
    for (nth, step) in lowered.steps().iter().enumerate() {
        // All ranks request the groups, also those that are in none.
        let comm = world.ordered(&step.groups)?;
        let (Some(comm), Some(group)) = (comm, step.groups.iter().find(|group| group.contains(&world.rank()))) else {
            continue;
        };
        let at = nth + usize::from(step.collective == Collective::ReduceScatter);
        let holders = match step.collective {
            Collective::ReduceScatter | Collective::AllGather => &group[..],
            _ => &group[..1],
        };
        let pieces = holders.iter().map(|&rank| layout[at][rank].clone()).collect();
        let (collective, chunks) = (step.collective, lowered.chunks());
        steps.push(CollectiveStep { collective, by: SumAlgorithm::Library, comm, chunks, pieces });
    }
    Ok(steps)
}

/// Returns the steps of the reduction in one fixed order: the same bits wherever the ranks are.
///
/// A library adds in an order that depends on the length and on which ranks share a node, and so do steps that suit a machine. Here every
/// rank combines one piece of all data alone, in the order of the mesh's coordinates, and sends it on. Which rank combines which piece does
/// not affect the bits.
pub(super) fn in_order(world: &World, groups: &[Vec<usize>]) -> Result<Vec<CollectiveStep>> {
    let Some(comm) = world.ordered(groups)? else { return Ok(Vec::new()) };
    let (by, chunks) = (SumAlgorithm::ReduceScatterGather, comm.size());
    let step = |collective| {
        let pieces = (0..chunks).map(|chunk| std::iter::once(chunk..chunk + 1).collect()).collect();
        CollectiveStep { collective, by, comm: Rc::clone(&comm), chunks, pieces }
    };
    Ok(vec![step(Collective::ReduceScatter), step(Collective::AllGather)])
}

impl CollectiveStep {
    /// Performs the step on `data`.
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
    pub(super) fn run<T: Element>(&self, data: &mut [T], op: ReduceOp, staging: &mut Staging) -> Result<()> {
        let (len, comm, Staging { whole, own, counts }) = (data.len(), &self.comm, staging);
        let [whole, own]: [&mut [T]; 2] = [cast_slice_mut(whole), cast_slice_mut(own)];
        // Every member finds the same; a group may hold nothing, or empty chunks.
        if self.whole(len).next().is_none() {
            return Ok(());
        }
        self.count::<T>(len, counts);
        let own = match self.collective {
            Collective::AllGather => pack(self.piece(comm.rank(), len), data, own),
            Collective::ReduceScatter => &mut own[..counts[comm.rank()] / size_of::<T>()],
            _ => &mut [],
        };
        let together = contiguous(self.whole(len));
        let all = match together.clone() {
            Some(range) => &mut data[range],
            None if self.collective == Collective::AllGather => {
                &mut whole[..counts.iter().sum::<usize>() / size_of::<T>()]
            }
            None => pack(self.whole(len), data, whole),
        };
        let (bytes, combining) = (cast_slice_mut(all), Combining { dtype: T::DTYPE, op, by: self.by });
        match self.collective {
            Collective::AllReduce => comm.all_reduce(bytes, combining)?,
            Collective::Reduce => comm.reduce(0, bytes, combining)?,
            Collective::Broadcast if comm.rank() == 0 => comm.broadcast(Broadcast::Send(bytes))?,
            Collective::Broadcast => comm.broadcast(Broadcast::Receive { root: 0, into: bytes })?,
            Collective::ReduceScatter => {
                comm.reduce_scatter(bytes, cast_slice_mut(own), counts, combining)?;
                unpack(self.piece(comm.rank(), len), own, data);
                return Ok(());
            }
            Collective::AllGather => comm.all_gather(cast_slice(own), bytes, counts)?,
            other => unreachable!("{other} in proved steps of a reduction: this is a bug in polyshard"),
        }
        let is_changed = match self.collective {
            Collective::Reduce => comm.rank() == 0,
            Collective::Broadcast => comm.rank() != 0,
            _ => true,
        };
        if is_changed && together.is_none() {
            unpack(self.whole(len), whole, data);
        }
        Ok(())
    }

    /// Where a piece is in an array of `len` elements.
    fn piece(&self, member: usize, len: usize) -> impl Iterator<Item = Range<usize>> + '_ {
        let ranges = self.pieces[member].iter().filter(|range| !range.is_empty());
        let ranges = ranges.map(move |range| {
            let [first, last] = [range.start, range.end - 1].map(|at| chunk(len, self.chunks, at));
            first.start..last.end
        });
        ranges.filter(|range| !range.is_empty())
    }

    /// Where the group's data are in an array of `len` elements.
    fn whole(&self, len: usize) -> impl Iterator<Item = Range<usize>> + '_ {
        (0..self.pieces.len()).flat_map(move |member| self.piece(member, len))
    }

    /// Counts the bytes of the members' pieces of an array of `len` elements.
    fn count<T>(&self, len: usize, counts: &mut Vec<usize>) {
        counts.clear();
        let elements = |member| self.piece(member, len).map(|range| range.len()).sum::<usize>();
        counts.extend((0..self.pieces.len()).map(|member| elements(member) * size_of::<T>()));
    }

    /// The maximum number of elements of these pieces, in an array of at most `len` elements.
    fn most(&self, pieces: &[Vec<Range<usize>>], len: usize) -> usize {
        let most = |range: &Range<usize>| (range.len() as u128 * len as u128).div_ceil(self.chunks as u128);
        pieces.iter().flatten().map(most).sum::<u128>().min(len as u128) as usize
    }
}

/// The range that these ranges form, if they are contiguous.
fn contiguous(mut ranges: impl Iterator<Item = Range<usize>>) -> Option<Range<usize>> {
    let first = ranges.next().unwrap_or_default();
    ranges.try_fold(first, |all, next| (all.end == next.start).then_some(all.start..next.end))
}

/// Packs ranges of the data one after the other.
fn pack<'a, T: Element>(ranges: impl Iterator<Item = Range<usize>>, data: &[T], into: &'a mut [T]) -> &'a mut [T] {
    let mut packed = 0;
    for range in ranges {
        let len = range.len();
        into[packed..packed + len].copy_from_slice(&data[range]);
        packed += len;
    }
    &mut into[..packed]
}

/// Unpacks packed data to these ranges.
fn unpack<T: Element>(ranges: impl Iterator<Item = Range<usize>>, packed: &[T], data: &mut [T]) {
    let mut start = 0;
    for range in ranges {
        let len = range.len();
        data[range].copy_from_slice(&packed[start..start + len]);
        start += len;
    }
}

impl Staging {
    /// Makes room for the largest of these steps, with arrays of at most `elements` elements of `element` bytes; for the next runs, too.
    pub(super) fn grow(&mut self, steps: &[CollectiveStep], elements: usize, element: usize) -> Result<()> {
        let scattered = steps.iter().filter(|step| contiguous(step.pieces.iter().flatten().cloned()).is_none());
        let whole = scattered.map(|step| step.most(&step.pieces, elements)).max();
        let of_pieces =
            || steps.iter().filter(|step| matches!(step.collective, Collective::ReduceScatter | Collective::AllGather));
        let own = of_pieces().map(|step| step.most(&step.pieces[step.comm.rank()..=step.comm.rank()], elements)).max();
        for (buffer, most) in [(&mut self.whole, whole), (&mut self.own, own)] {
            buffer.grow((most.unwrap_or(0) * element).div_ceil(size_of::<u64>()), "the chunks of a reduction")?;
        }
        let members = steps.iter().map(|step| step.pieces.len()).max().unwrap_or(0);
        self.counts.reserve(members.saturating_sub(self.counts.len()));
        Ok(())
    }

    /// Returns the bytes of its buffers.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.whole[..]) + size_of_val(&self.own[..])
    }
}
