//! Exchanges of arrays in groups: ranks that exchange no elements are in different groups and never wait for each other; a rank that only
//! keeps its own elements is alone and does not communicate.

use crate::comm::{Communicator, SharedMemory, Stranded, exchange_words};
use crate::exchange::{Exchange, WithRank, total};
use crate::layout::{Mesh, Neighbours};
use crate::memory::{Buffer, Segment};
use crate::publish::{Block, Peers, Published, Publisher, Purpose, Round};
use crate::shared_inputs::ShardTable;
use crate::subarray::{Place, Subarray};
use crate::{DistArray, Element, Result, World};
use smallvec::smallvec;
use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

/// An exchange of one array for another, and the group of ranks that take part in it with this one.
pub(super) struct GroupExchange {
    /// The group; `None` for a rank that is alone.
    pub(super) comm: Option<Rc<dyn Communicator>>,
    /// World ranks of the members, ascending.
    pub(super) members: Vec<usize>,
    /// The pieces that this rank keeps, sends and receives, by member number.
    pub(super) part: Exchange,
    /// An empty piece, for members from which it gets none.
    nothing: Subarray,
    /// Whether the members are all ranks of the world.
    are_all: bool,
    /// The publisher through which the members publish their blocks, and where they were in the last run.
    publisher: Publisher,
    table: RefCell<ShardTable>,
}

impl GroupExchange {
    /// Returns the exchange in which rank `a` of the world sends `between(a, b)` to rank `b`, where that is in `reach`, in `mesh`;
    /// collective.
    ///
    /// Takes time in proportion to the number of ranks.
    pub(super) fn new(
        world: &World,
        mesh: &Mesh,
        reach: &Neighbours,
        between: impl Fn(usize, usize) -> Subarray,
    ) -> Result<Self> {
        let this = world.rank();
        let part = Exchange::between(mesh, this, reach, between);
        let peers = part.sends.iter().chain(&part.receives).map(|(rank, _)| *rank).collect();
        let labels = components(world, peers)?;
        let members: Vec<_> = (0..world.size()).filter(|&rank| labels[rank] == labels[this]).collect();
        let part = part.numbered(|rank| {
            members.binary_search(&rank).expect("a rank is in its own group; this is a bug in polyshard")
        });
        let comm = world.part(&labels)?;
        let (are_all, (nothing, publisher, table)) = (members.len() == world.size(), Default::default());
        Ok(Self { comm, members, part, nothing, are_all, publisher, table })
    }

    /// Reads the pieces from the blocks of the other members, which share memory and are those of `comm`; `number` is the redistribution's.
    /// Nothing has moved, on any member, if this returns a rank: the others cannot see its block.
    ///
    /// # Errors
    /// If the members run different redistributions, or another rank failed.
    pub(super) fn read_in_place<T: Element>(
        &self,
        comm: &dyn Communicator,
        memory: &dyn SharedMemory,
        number: u64,
        from: &Held<'_, T>,
        to: &mut [T],
    ) -> Result<Option<usize>> {
        let peers = Peers { comm, memory, members: (!self.are_all).then_some(&self.members) };
        let round = Round { purpose: Purpose::Redistribution, dtype: T::DTYPE, program: number as u32 };
        let published = Published::new(&self.publisher, peers, round, smallvec![from.lend()]);
        let table = &mut *self.table.borrow_mut();
        // If the headers differ, all members get the error, and none reads.
        table.update(&peers, &published.publish(&[Block::of(from.place())])?, 0);
        if let Some(member) = table.hidden() {
            published.withdraw();
            return Ok(Some(self.members[member]));
        }
        self.own().copy(Place::Block, from, Place::Region, to);
        // Each member starts with a different one, so that they do not all read from the same.
        let behind = self.part.receives.partition_point(|(member, _)| *member < self.part.me);
        let (before, after) = self.part.receives.split_at(behind);
        for (member, piece) in after.iter().chain(before) {
            let block = table.shard(&published, *member, || piece.extent(Place::Block) * size_of::<T>())?;
            piece.copy(Place::Block, block, Place::Region, to);
        }
        comm.count_in_place(self.received() * size_of::<T>());
        published.release()?;
        Ok(None)
    }

    /// Returns the piece that this rank keeps.
    pub(super) fn own(&self) -> &Subarray {
        self.part.kept().unwrap_or(&self.nothing)
    }

    /// Returns the piece that this rank gets from each member, itself included, by member number.
    pub(super) fn parts(&self) -> Vec<&Subarray> {
        let mut parts = vec![&self.nothing; self.members.len()];
        parts[self.part.me] = self.own();
        self.part.receives.iter().for_each(|(member, piece)| parts[*member] = piece);
        parts
    }

    /// Returns the first member, by world rank, that shares no memory with this rank.
    pub(super) fn apart(&self, memory: &dyn SharedMemory) -> Option<usize> {
        self.members.iter().copied().find(|&rank| !memory.reaches(rank))
    }

    /// Returns the number of elements that this rank gets, from itself too.
    pub(super) fn found(&self) -> usize {
        self.own().len() + self.received()
    }

    /// Returns the number of elements that this rank gets from others.
    pub(super) fn received(&self) -> usize {
        total(&self.part.receives)
    }

    /// Returns the largest number of elements of a scattered piece, on the sending and on the receiving side.
    pub(super) fn scattered(&self) -> [usize; 2] {
        let largest = |pieces: &[WithRank], place| {
            let scattered = pieces.iter().filter(|(_, piece)| piece.contiguous(place).is_none());
            scattered.map(|(_, piece)| piece.len()).max().unwrap_or(0)
        };
        [largest(&self.part.sends, Place::Block), largest(&self.part.receives, Place::Region)]
    }
}

/// This rank's part of an array, or of the sums of its terms.
pub(crate) enum Held<'r, T> {
    Array(&'r DistArray<T>),
    Sums(Arc<Buffer<T>>),
}

impl<T: Element> Held<'_, T> {
    /// What a rank holds that has no part.
    pub(super) fn nothing() -> Self {
        Self::Sums(Arc::default())
    }

    /// Returns the elements, and the segment that contains them, if any.
    fn place(&self) -> (&[T], Option<(&Segment, usize)>) {
        match self {
            Self::Array(array) => array.place(),
            Self::Sums(sums) => (sums, sums.segment()),
        }
    }

    /// Returns another owner of the memory, for other ranks to read.
    fn lend(&self) -> Stranded {
        match self {
            Self::Array(array) => array.lend(),
            Self::Sums(sums) => Arc::clone(sums) as Stranded,
        }
    }
}

impl<T: Element> Deref for Held<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.place().0
    }
}

/// Returns for each rank of the world the lowest rank that it is connected with; each rank knows its own `peers`, and the relation is
/// symmetric. Collective.
fn components(world: &World, peers: Vec<usize>) -> Result<Vec<usize>> {
    let mut labels: Vec<usize> = (0..world.size()).collect();
    loop {
        let least = peers.iter().map(|&peer| labels[peer]).fold(labels[world.rank()], usize::min);
        let told = exchange_words(world.comm(), "the groups of a redistribution", [least as u64])?;
        let told: Vec<_> = told.into_iter().map(|header| header[0] as usize).collect();
        // A label is a rank of the same component, so that rank's label is one too, and may be lower. That makes long chains short: each
        // round at least halves them.
        let next: Vec<_> = told.iter().map(|&label| told[label]).collect();
        // All ranks see the same labels, so all stop together.
        if next == labels {
            return Ok(labels);
        }
        labels = next;
    }
}
