//! Redistribution: from the sharding that an array has to any other, over messages or shared memory.
//!
//! A [`Redistribution`] is worked out once and run many times. It moves the elements that a rank needs and
//! lacks, each once, and nothing else: what a rank has already, it copies. Two transports do the same:
//!
//! | transport | how | copies of an element | staging |
//! | --- | --- | --- | --- |
//! | [`Messages`](Transport::Messages) | pairs of ranks in turn, or an all-gather | pack, send, unpack, as far as it is scattered | two buffers of the cache's size |
//! | [`Shared`](Transport::Shared) | each rank writes into the others' outputs | one | none |
//!
//! | module | what |
//! | --- | --- |
//! | `hop` | who takes part, and the [pieces](Subarray) that they hand to one another |
//! | `messages`, `shared` | the transports |
//! | `sums` | partial sums, closed on the way |
//! | `check` | what is refused |
//!
//! Nothing here decides what the shardings should be, and the source is never written.

mod check;
mod hop;
mod messages;
mod shared;
mod sums;
#[cfg(test)]
mod tests;

use crate::comm::{SharedMemory, exchange_words};
use crate::layout::Sharding;
use crate::subarray::Subarray;
use crate::{DType, DistArray, Element, RedistributionError, Result, Segment, Transport, World};
use bytemuck::{cast_slice, cast_slice_mut};
use hop::Hop;
use messages::Staging;
use polyshard_program::{Leg, Packing, Way};
use shared::{Outcome, Tile};
use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;
use sums::Sums;

/// A redistribution between two shardings of one shape over the same ranks, made once and run many times.
///
/// ```
/// use polyshard_runtime::layout::{Mesh, Placement, Sharding};
/// use polyshard_runtime::{DistArray, Error, Redistribution, spmd};
/// let mesh = Mesh::new([("x", 2)]);
/// let [x] = mesh.axes();
/// let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, x)]).expect("a sharding");
/// let (rows, columns) = (by(0), by(1));
/// spmd(2, |world| {
///     let there = Redistribution::new(world, &rows, &columns)?;
///     let a = DistArray::from_fn(world, &rows, |index| (10 * index[0] + index[1]) as f64)?;
///     let b = there.run(world, &a)?;
///     assert_eq!(b.get(&[3, 3 * world.rank()]), Some(30.0 + 3.0 * world.rank() as f64));
///     Ok::<(), Error>(())
/// })?;
/// # Ok::<(), Error>(())
/// ```
pub struct Redistribution {
    source: Sharding,
    target: Sharding,
    transport: Transport,
    memory: Rc<dyn SharedMemory>,
    /// The same on all ranks, and of no other redistribution of the world.
    number: u64,
    /// How partial sums are closed, if they are; then there is no hop here.
    sums: Option<Sums>,
    hop: Option<Hop>,
    /// The first rank that has elements for another one on a different node, or gets some from there, and that one; the
    /// same on all ranks.
    apart: Option<(usize, usize)>,
    /// The largest scattered piece on each side, on any rank.
    scattered: [usize; 2],
    way: Way,
    staging: RefCell<Staging>,
}

impl Redistribution {
    /// Works out how to get from `source` to `target` directly, each element by one message or copy, the [way](Way::between)
    /// that suits elements of 8 bytes; collective over the world.
    ///
    /// Partial sums that the target does not keep open are closed on the way, in the order of their coordinates: at all
    /// ranks along their axes, at the one to which the target pins them, or scattered.
    ///
    /// The ranks that have something for each other become a group (MPI 3.1, section 6.4.2), which the world
    /// keeps. Takes time in proportion to the number of ranks.
    ///
    /// # Errors
    /// [`RedistributionError`] if the shapes differ, or the partial sums of the source cannot become those of the target, as
    /// [`Sharding::closed_axes`] says. If a mesh has not as many ranks as the world, the ranks give
    /// different shardings, or another rank failed.
    #[track_caller]
    pub fn new(world: &World, source: &Sharding, target: &Sharding) -> Result<Self> {
        let at = Location::caller();
        Self::between(world, source, target, size_of::<u64>()).map_err(|error| error.at(at))
    }

    /// As [`new`](Self::new), the way that suits elements of `element` bytes.
    fn between(world: &World, source: &Sharding, target: &Sharding, element: usize) -> Result<Self> {
        check::shardings(world, source, target)?;
        Self::going(world, source, None, target, &Way::between(source, target, element))
    }

    /// As [`new`](Self::new), this way. Where ranks keep part of what they hold of the source, by a sharding by which each owns that part,
    /// only that is handed out.
    ///
    /// ```text
    /// two ranks hold a b c d, and keep a b and c d     rank 0: [a b] c d     rank 1: a b [c d]
    /// to odd and even columns                          rank 0: a c           rank 1: b d
    /// ```
    ///
    /// # Errors
    /// [`RedistributionError`] if the array cannot go this way, a rank does not hold what it is to keep, or one of the three has partial sums
    /// and a part is kept. As [`new`](Self::new).
    #[track_caller]
    pub fn by(world: &World, source: &Sharding, kept: Option<&Sharding>, target: &Sharding, way: &Way) -> Result<Self> {
        let at = Location::caller();
        let checked = || {
            if let Some(kept) = kept {
                check::shardings(world, source, kept)?;
            }
            check::shardings(world, source, target)?;
            if let Some(kept) = kept {
                check::holds(world, source, kept, target)?;
            }
            way.check(kept.unwrap_or(source), target).map_err(RedistributionError::from)?;
            Self::going(world, source, kept, target, way)
        };
        checked().map_err(|error| error.at(at))
    }

    /// As [`by`](Self::by), where all that it checks holds.
    fn going(world: &World, source: &Sharding, kept: Option<&Sharding>, target: &Sharding, way: &Way) -> Result<Self> {
        let number = world.number_redistribution();
        check::agree(world, number, source, kept, target, way)?;
        let sums = Sums::new(world, source, target, way)?;
        let kept = kept.unwrap_or(source);
        let hop = match sums {
            Some(_) => None,
            None => {
                let between = |owner, reader| Subarray::between(source, kept, owner, target, reader);
                let mesh = Way::mesh(kept, target);
                let hop = Hop::new(world, &mesh, &way.reach(&mesh), between)?;
                let at = target.mesh().coordinates(world.rank());
                let (found, wanted) = (hop.found(), target.local_len(&at));
                assert_eq!(found, wanted, "{source} to {target} by {way:?}; this is a bug of polyshard");
                Some(hop)
            }
        };
        let memory = world.memory()?;
        let own = hop.as_ref().map_or([0; 2], messages::scattered).map(|elements| elements as u64);
        // A rank that reaches its whole group names itself.
        let other = hop.as_ref().and_then(|hop| hop.apart(&*memory)).unwrap_or(world.rank());
        let told = exchange_words(world.comm(), "the pieces of a redistribution", [own[0], own[1], other as u64])?;
        let scattered = [0, 1].map(|side| told.iter().map(|header| header[side] as usize).max().unwrap_or(0));
        let mut others = told.iter().map(|header| header[2] as usize).enumerate();
        Ok(Self {
            source: source.clone(),
            target: target.clone(),
            transport: world.transport(),
            memory,
            number,
            sums,
            hop,
            apart: others.find(|(rank, other)| rank != other),
            scattered,
            way: way.clone(),
            staging: RefCell::default(),
        })
    }

    /// Sets the transport, which is [that of the world](World::transport) otherwise. All ranks must set the same.
    #[must_use]
    pub fn with_transport(mut self, transport: Transport) -> Self {
        self.set_transport(transport);
        self
    }

    fn set_transport(&mut self, transport: Transport) {
        self.transport = transport;
        self.sums.iter_mut().for_each(|sums| sums.set_transport(transport));
    }

    /// Returns the sharding of the arrays that it takes.
    #[must_use]
    pub fn source(&self) -> &Sharding {
        &self.source
    }

    /// Returns the sharding of the arrays that it makes.
    #[must_use]
    pub fn target(&self) -> &Sharding {
        &self.target
    }

    /// Returns the most bytes that a run holds on any rank besides input and output, for elements of `element_bytes` bytes.
    #[must_use]
    pub fn staging_bytes(&self, element_bytes: usize) -> usize {
        if self.hop.is_none() {
            let staged = self.way.staged(&self.source, &self.target, element_bytes);
            return usize::try_from(staged).unwrap_or(usize::MAX);
        }
        match self.gathers() {
            true => (self.scattered[0] * element_bytes).next_multiple_of(size_of::<u64>()),
            false => Staging::bytes(self.scattered, element_bytes),
        }
    }

    /// Returns an array of zeros that is laid out by the target, where other ranks can write into it if that is possible. Does
    /// not communicate.
    ///
    /// # Errors
    /// If this rank's block does not fit the memory that is free.
    #[track_caller]
    pub fn output<T: Element>(&self, world: &World) -> Result<DistArray<T>> {
        let at = Location::caller();
        let mut array: DistArray<T> = self.allocate(world).map_err(|error| error.at(at))?;
        if self.is_shared() {
            array.block_mut().fill(T::ZERO);
        }
        Ok(array)
    }

    /// As [`output`](Self::output), with anything in it.
    pub(crate) fn allocate<T: Element>(&self, world: &World) -> Result<DistArray<T>> {
        world.check_mesh(self.target.mesh())?;
        if self.is_shared() {
            DistArray::with_any_elements(world, &self.target)
        } else {
            DistArray::filled_with(world, &self.target, T::ZERO)
        }
    }

    /// Whether shards are gathered, where no sums are closed; else pairs of ranks exchange pieces.
    fn gathers(&self) -> bool {
        matches!(self.way.legs[..], [Leg::Collective { .. }])
    }

    /// Whether outputs are to be where other ranks can write into them; the same on all ranks.
    fn is_shared(&self) -> bool {
        self.hop.as_ref().is_some_and(|hop| hop.talks) && self.transport != Transport::Messages
    }

    /// Returns `source` laid out by the target; collective over the world.
    ///
    /// # Errors
    /// As [`run_into`](Self::run_into).
    ///
    /// # Panics
    /// If no array is made: a bug of polyshard.
    #[track_caller]
    pub fn run<T: Element>(&self, world: &World, source: &DistArray<T>) -> Result<DistArray<T>> {
        let at = Location::caller();
        let made = T::redistribute(self, world, source, None).map_err(|error| error.at(at))?;
        Ok(made.expect("it makes what it is not given; this is a bug of polyshard"))
    }

    /// Writes `source` to `target`, laid out by the source and by the target; collective over the world.
    ///
    /// Allocates no tile: what it takes besides the two, the first run makes and later ones find.
    ///
    /// # Errors
    /// [`RedistributionError`] if an array is not laid out as the redistribution says, or the transport is
    /// [`Shared`](Transport::Shared) and cannot be used. If the ranks run different redistributions, or another rank
    /// failed.
    #[track_caller]
    pub fn run_into<T: Element>(&self, world: &World, source: &DistArray<T>, target: &mut DistArray<T>) -> Result<()> {
        let at = Location::caller();
        T::redistribute(self, world, source, Some(target)).map(drop).map_err(|error| error.at(at))
    }

    /// Writes `source` to the target, or to one that it makes and returns.
    pub(crate) fn run_checked<T: Element>(
        &self,
        world: &World,
        source: &DistArray<T>,
        target: Option<&mut DistArray<T>>,
    ) -> Result<Option<DistArray<T>>> {
        world.check_mesh(self.source.mesh())?;
        check::laid_out(source, &self.source, |given, wanted| RedistributionError::Input { given, wanted })?;
        let Some(target) = target else {
            let mut made = self.allocate(world)?;
            self.run_blocks(source.block(), &mut made)?;
            return Ok(Some(made));
        };
        check::laid_out(target, &self.target, |given, wanted| RedistributionError::Output { given, wanted })?;
        self.run_blocks(source.block(), target)?;
        Ok(None)
    }

    /// Writes the blocks of an array that is laid out as the source says to one as the target says, however their
    /// shardings are written.
    pub(crate) fn run_blocks<T: Element>(&self, source: &[T], target: &mut DistArray<T>) -> Result<()> {
        if let Some(sums) = &self.sums {
            return sums.run(source, target);
        }
        let Some(hop) = &self.hop else { return Ok(()) };
        let (block, segment) = target.slice_and_segment();
        let (from, to) = (cast_slice(source), cast_slice_mut(block));
        self.hand_out(hop, T::DTYPE, from, to, segment, &mut self.staging.borrow_mut())
    }

    /// Moves the pieces, through shared memory if that is wanted and possible.
    fn hand_out(
        &self,
        hop: &Hop,
        dtype: DType,
        from: &[u8],
        to: &mut [u8],
        segment: Option<(&Segment, usize)>,
        staging: &mut Staging,
    ) -> Result<()> {
        let element = dtype.size();
        let is_laid_out = self.way.packing == Packing::LaidOut;
        let by_messages = |to: &mut [u8], staging: &mut Staging| match self.gathers() {
            true => messages::gather(hop, element, from, to, staging),
            false => messages::run(hop, element, from, to, is_laid_out, staging),
        };
        if self.transport == Transport::Messages {
            return by_messages(to, staging);
        }
        // Groups differ in whether they lie inside of a node, but ranks are refused together.
        if let (Transport::Shared, Some((rank, other))) = (self.transport, self.apart) {
            return Err(RedistributionError::Apart { rank, other }.into());
        }
        match shared::run(hop, &*self.memory, self.number, dtype, from, Tile::new(to, segment))? {
            Outcome::Done => Ok(()),
            Outcome::Hidden(rank) if self.transport == Transport::Shared => {
                Err(RedistributionError::PrivateOutput { rank }.into())
            }
            Outcome::Hidden(_) | Outcome::Apart => by_messages(to, staging),
        }
    }
}

impl<T: Element> DistArray<T> {
    /// Returns the array laid out by `target`, a sharding of the same shape and mesh; collective over the world.
    /// Partial sums that the target does not keep open are closed.
    ///
    /// To do the same many times, make one [`Redistribution`].
    ///
    /// ```text
    /// rows to columns      before                  after
    ///                      rank 0: a b c d         rank 0: a b     rank 1: c d
    ///                      rank 1: e f g h                 e f             g h
    /// ```
    ///
    /// # Errors
    /// As [`Redistribution::new`] and [`Redistribution::run`].
    #[track_caller]
    pub fn redistribute(&self, world: &World, target: &Sharding) -> Result<DistArray<T>> {
        let at = Location::caller();
        let there = Redistribution::between(world, self.sharding(), target, size_of::<T>());
        let moved = there.and_then(|there| there.run(world, self));
        moved.map_err(|error| error.at(at))
    }
}
