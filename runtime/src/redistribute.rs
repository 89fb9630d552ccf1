//! Redistribution: from the sharding that an array has to any other, over messages or shared memory.
//!
//! A [`Redistribution`] is worked out once and run many times. It moves the elements that a rank needs and does not have, each once, and
//! nothing else; elements that the rank has, it copies. Two transports give the same result:
//!
//! | transport | how | copies of an element | staging |
//! | --- | --- | --- | --- |
//! | [`Messages`](Transport::Messages) | pairs of ranks in turn, or an all-gather | pack, send, unpack, where it is scattered | two buffers of the cache's size |
//! | [`Shared`](Transport::Shared) | each rank reads the others' inputs in place | one | none |
//!
//! | module | holds |
//! | --- | --- |
//! | `group_exchange` | the ranks that take part, and the pieces that they exchange or read in place |
//! | `legs` | the legs, by messages unless elements are read in place |
//! | `check` | checks of arguments |
//!
//! Nothing here chooses shardings, and the source is never written.

mod check;
mod group_exchange;
pub(crate) mod legs;
#[cfg(test)]
mod tests;

use crate::comm::SharedMemory;
use crate::engine::{At, Coordinates};
use crate::groups::Groups;
use crate::instances::Instances;
use crate::layout::Sharding;
use crate::memory::Buffer;
use crate::reduce::Steps;
use crate::subarray::Subarray;
use crate::{DistArray, Element, RedistributionError, ReduceOp, Region, Result, Transport, World, at_caller};
use group_exchange::{GroupExchange, Held};
use legs::Arrays;
use polyshard_program::{Direction, Leg, Route};
use std::cell::RefCell;
use std::rc::Rc;

/// A redistribution between two shardings of one shape over the same ranks, made once and run many times.
///
/// ```
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2)]);
/// let [x] = mesh.axes();
/// let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, x)]).expect("a sharding");
/// let (rows, columns) = (by(0), by(1));
/// spmd(2, |world| {
///     let there = Redistribution::new(world, &rows, &columns)?;
///     let a = DistArray::from_fn(world, &rows, |index| (10 * index[0] + index[1]) as f64)?;
///     let b = there.run(world, &a)?;
///     assert_eq!(b.get(&[3, 3 * world.rank()]), Some(30.0 + 3.0 * world.rank() as f64));
///     Ok(())
/// })?;
/// # Ok::<(), polyshard::Error>(())
/// ```
pub struct Redistribution {
    source: Sharding,
    target: Sharding,
    transport: Transport,
    /// How terms are combined.
    op: ReduceOp,
    route: Route,
    /// The legs in the order in which they are taken, each with its direction.
    legs: Vec<(Leg<Coordinates<'static>>, Direction)>,
    groups: Groups,
    /// The exchange that moves elements, or sums that are closed, to the target.
    exchange: Option<GroupExchange>,
    /// The region of a term, and the part of it that each member of its group gets.
    parts: Option<(Region, Vec<Subarray>)>,
    /// The exchanges that move the terms to where the target has the sums, one per coordinate, and the number of the one with this rank's
    /// terms.
    layers: Vec<GroupExchange>,
    mine: usize,
    /// The steps of the procedure that closes sums, if they are given.
    steps: Option<Steps>,
    memory: Rc<dyn SharedMemory>,
    /// Its number: the same on all ranks, and unique in the world.
    number: u64,
    /// The first rank that exchanges elements with a rank on a different node, and that rank; the same on all ranks.
    apart: Option<(usize, usize)>,
    /// The largest scattered piece on each side, on any rank.
    scattered: [usize; 2],
    /// The buffers in which messages are packed and unpacked, allocated in the first run and reused: 8-byte words, so that every element
    /// type is aligned.
    staging: RefCell<[Buffer<u64>; 2]>,
}

impl Redistribution {
    /// Works out how to get from `source` to `target` directly, each element by one message or copy, by the [route](Route::between) that suits
    /// elements of 8 bytes; collective over the world.
    ///
    /// Partial sums that the target does not keep open are closed on the way, in the order of their coordinates: at all
    /// ranks along their axes, at the one to which the target pins them, or scattered.
    ///
    /// The ranks that exchange elements become a group (MPI 3.1, section 6.4.2), which the world keeps. Takes time in proportion to the
    /// number of ranks.
    ///
    /// # Errors
    /// [`RedistributionError`] if the shapes differ, or the partial sums of the source cannot become those of the target, as
    /// [`Sharding::closed_axes`] says. If the number of ranks of a mesh is not the world's, the ranks give different shardings, or another
    /// rank failed.
    #[track_caller]
    pub fn new(world: &World, source: &Sharding, target: &Sharding) -> Result<Self> {
        at_caller(Self::between(world, source, target, size_of::<u64>()))
    }

    /// As [`new`](Self::new), by the route that suits elements of `element` bytes.
    fn between(world: &World, source: &Sharding, target: &Sharding, element: usize) -> Result<Self> {
        check::shardings(world, source, target)?;
        Self::made(world, source, None, target, &Route::between(source, target, element))
    }

    /// As [`new`](Self::new), by this route. If `kept` is given, each rank sends only the elements that it owns by that sharding, a part of
    /// those that it holds of the source.
    ///
    /// ```text
    /// two ranks hold a b c d, and keep a b and c d     rank 0: [a b] c d     rank 1: a b [c d]
    /// to odd and even columns                          rank 0: a c           rank 1: b d
    /// ```
    ///
    /// # Errors
    /// [`RedistributionError`] if the route is invalid for the array, a rank does not hold the elements that it is to keep, or one of the
    /// three has partial sums and a part is kept. As [`new`](Self::new).
    #[track_caller]
    pub fn by(
        world: &World,
        source: &Sharding,
        kept: Option<&Sharding>,
        target: &Sharding,
        route: &Route,
    ) -> Result<Self> {
        let checked = || {
            if let Some(kept) = kept {
                check::shardings(world, source, kept)?;
            }
            check::shardings(world, source, target)?;
            if let Some(kept) = kept {
                check::holds(world, source, kept, target)?;
            }
            route.check_between(kept.unwrap_or(source), target).map_err(RedistributionError::from)?;
            Self::made(world, source, kept, target, route)
        };
        at_caller(checked())
    }

    /// Sets the transport; the default is [that of the world](World::transport). All ranks must set the same.
    #[must_use]
    pub fn with_transport(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }

    pub(crate) fn set_transport(&mut self, transport: Transport) {
        self.transport = transport;
    }

    /// Sets the operation that combines terms; the default is their sum, and others need a route by a
    /// [procedure](polyshard_program::Algorithm::Procedure). All ranks must set the same.
    #[must_use]
    pub fn with_op(self, op: ReduceOp) -> Self {
        Self { op, ..self }
    }

    /// Returns the sharding of the input arrays.
    #[must_use]
    pub fn source(&self) -> &Sharding {
        &self.source
    }

    /// Returns the sharding of the output arrays.
    #[must_use]
    pub fn target(&self) -> &Sharding {
        &self.target
    }

    /// Returns the maximum bytes that a run holds on any rank besides input and output, for elements of `element_bytes` bytes.
    #[must_use]
    pub fn staging_bytes(&self, element_bytes: usize) -> usize {
        if Direction::between(&self.source, &self.target) != Direction::In {
            let staged = self.route.staged_between(&self.source, &self.target, element_bytes);
            return usize::try_from(staged).unwrap_or(usize::MAX);
        }
        self.packed_bytes(element_bytes)
    }

    /// Returns an array of zeros with the target's sharding. Does not communicate.
    ///
    /// # Errors
    /// If this rank's block does not fit in free memory.
    #[track_caller]
    pub fn output<T: Element>(&self, world: &World) -> Result<DistArray<T>> {
        at_caller(DistArray::filled_with(world, &self.target, T::ZERO))
    }

    /// Returns `source` with the target's sharding; collective over the world.
    ///
    /// # Errors
    /// As [`run_into`](Self::run_into).
    ///
    /// # Panics
    /// If the run does not make an array: a bug in polyshard.
    #[track_caller]
    pub fn run<T: Element>(&self, world: &World, source: &DistArray<T>) -> Result<DistArray<T>> {
        let made = at_caller(T::redistribute(self, world, source, None))?;
        Ok(made.expect("it makes what it is not given; this is a bug in polyshard"))
    }

    /// Writes `source`, which has the source's sharding, to `target`, which has the target's; collective over the world.
    ///
    /// Allocates no tile: the first run allocates all other memory, and later runs reuse it.
    ///
    /// # Errors
    /// [`RedistributionError`] if an array does not have the redistribution's sharding, or the transport is [`Shared`](Transport::Shared)
    /// and cannot be used. If the ranks run different redistributions, or another rank failed.
    #[track_caller]
    pub fn run_into<T: Element>(&self, world: &World, source: &DistArray<T>, target: &mut DistArray<T>) -> Result<()> {
        at_caller(T::redistribute(self, world, source, Some(target)).map(drop))
    }

    /// Writes `source` to the target, or to an array that it makes and returns.
    pub(crate) fn run_checked<T: Element>(
        &self,
        world: &World,
        source: &DistArray<T>,
        target: Option<&mut DistArray<T>>,
    ) -> Result<Option<DistArray<T>>> {
        world.check_mesh(self.source.mesh())?;
        check::laid_out(source, &self.source, |given, wanted| RedistributionError::Input { given, wanted })?;
        let Some(target) = target else {
            let mut made = DistArray::with_any_elements(world, &self.target)?;
            self.run_blocks(source, &mut made)?;
            return Ok(Some(made));
        };
        check::laid_out(target, &self.target, |given, wanted| RedistributionError::Output { given, wanted })?;
        self.run_blocks(source, target)?;
        Ok(None)
    }

    /// Writes an array with the source's layout to one with the target's, however their shardings are written.
    pub(crate) fn run_blocks<T: Element>(&self, source: &DistArray<T>, target: &mut DistArray<T>) -> Result<()> {
        let (mut held, mut is_there) = (Held::Array(source), false);
        let at = At { groups: &self.groups, coordinates: &[], counters: &[] };
        for (leg, direction) in &self.legs {
            let (held, is_there, closes_sums) = (&mut held, &mut is_there, *direction != Direction::In);
            Arrays { of: self, held, target, closes_sums, is_there }.carry_out(leg, &at)?;
        }
        if !is_there {
            target.block_mut().copy_from_slice(&held);
        }
        Ok(())
    }
}

impl<T: Element> DistArray<T> {
    /// Returns the array with the sharding `target`, of the same shape and mesh; collective over the world.
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
        let there = Redistribution::between(world, self.sharding(), target, size_of::<T>());
        let moved = there.and_then(|there| there.run(world, self));
        at_caller(moved)
    }
}
