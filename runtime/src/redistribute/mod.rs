//! Redistribution: from the sharding that an array has to any other, over messages or shared memory.
//!
//! A [`Redistribution`] is worked out once and run many times. It moves the elements that a rank needs and
//! lacks, each once, and nothing else: what a rank has already, it copies. Two transports do the same:
//!
//! | transport | how | copies of an element | staging |
//! | --- | --- | --- | --- |
//! | [`Messages`](Transport::Messages) | pairs of ranks in turn | pack, send, unpack, as far as it is scattered | two buffers of the cache's size |
//! | [`Shared`](Transport::Shared) | each rank writes into the others' outputs | one | none |
//!
//! | module | what |
//! | --- | --- |
//! | `piece` | what one rank hands to another, as rows of both tiles |
//! | `hop` | who takes part, and the pieces |
//! | `messages`, `shared` | the transports |
//! | `copy`, `stream` | rows from here to there |
//!
//! Nothing here decides what the shardings should be, and the source is never written.

mod copy;
mod hop;
mod messages;
mod piece;
mod shared;
mod stream;
#[cfg(test)]
mod tests;

use crate::array::same_owners;
use crate::comm::SharedMemory;
use crate::layout::Sharding;
use crate::{DistArray, Element, Error, Result, World};
use bytemuck::{cast_slice, cast_slice_mut};
use hop::Hop;
use messages::Staging;
use piece::Piece;
use shared::{Outcome, Tile};
use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

/// How a redistribution moves what ranks hand to one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Through shared memory where all ranks of a group share it and the outputs are in it, else by messages.
    #[default]
    Auto,
    /// By messages, always.
    Messages,
    /// Through shared memory; an error where that is impossible.
    Shared,
}

/// A redistribution between two shardings of one shape and mesh, made once and run many times.
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
    hop: Hop,
    /// The largest scattered piece on each side, on any rank.
    scattered: [usize; 2],
    staging: RefCell<Staging>,
}

impl Redistribution {
    /// Works out how to get from `source` to `target`; collective over the world.
    ///
    /// The ranks that have something for each other become a group (MPI 3.1, section 6.4.2), which the world
    /// keeps. Takes time in proportion to the number of ranks.
    ///
    /// # Errors
    /// If the shapes or the meshes differ, the mesh has not as many ranks as the world, the ranks give
    /// different shardings, or another rank failed.
    pub fn new(world: &World, source: &Sharding, target: &Sharding) -> Result<Self> {
        world.check_mesh(source.mesh())?;
        if source.shape() != target.shape() {
            return Err(Error::Usage(format!(
                "an array of shape {:?} cannot be redistributed to a sharding of shape {:?}; a redistribution keeps \
                 the shape",
                source.shape(),
                target.shape()
            )));
        }
        if source.mesh() != target.mesh() {
            return Err(Error::Usage(format!(
                "an array on the mesh ({}) cannot be redistributed to the mesh ({}); write both shardings over one mesh",
                source.mesh(),
                target.mesh()
            )));
        }
        let number = world.number_redistribution();
        agree(world, number, source, target)?;
        let mesh = source.mesh();
        let hop = Hop::new(world, |owner, reader| {
            Piece::between(source, &mesh.coordinates(owner), target, &mesh.coordinates(reader))
        })?;
        let [send, receive] = messages::scattered(&hop);
        let told = world.comm().tell([send as u64, receive as u64, 0, 0])?;
        let scattered = [0, 1].map(|side| told.iter().map(|note| note[side] as usize).max().unwrap_or(0));
        Ok(Self {
            source: source.clone(),
            target: target.clone(),
            transport: Transport::Auto,
            memory: world.memory()?,
            number,
            hop,
            scattered,
            staging: RefCell::default(),
        })
    }

    /// Sets the transport, which is [`Auto`](Transport::Auto) otherwise. All ranks must set the same.
    #[must_use]
    pub fn over(self, transport: Transport) -> Self {
        Self { transport, ..self }
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

    /// Returns the bytes that a run holds besides input and output, at most, on any rank, for elements of so
    /// many bytes.
    #[must_use]
    pub fn staging_bytes(&self, element_bytes: usize) -> usize {
        Staging::bytes(self.scattered, element_bytes)
    }

    /// Returns an array of zeros that is laid out by the target, in shared memory where that is possible;
    /// collective over the world.
    ///
    /// # Errors
    /// If another rank failed.
    pub fn output<T: Element>(&self, world: &World) -> Result<DistArray<T>> {
        let mut array = self.room(world)?;
        if array.segment().is_some() {
            array.block_mut().fill(T::ZERO);
        }
        Ok(array)
    }

    /// As [`output`](Self::output), with anything in it where it is in shared memory.
    fn room<T: Element>(&self, world: &World) -> Result<DistArray<T>> {
        world.check_mesh(self.target.mesh())?;
        if self.transport != Transport::Messages && self.hop.talks {
            let len = self.target.local_len(&self.target.mesh().coordinates(world.rank()));
            if let Some(segment) = self.memory.segment(len * size_of::<T>())? {
                return DistArray::in_segment(world, &self.target, segment);
            }
        }
        DistArray::filled(world, &self.target, T::ZERO)
    }

    /// Returns `source` laid out by the target; collective over the world.
    ///
    /// # Errors
    /// As [`run_into`](Self::run_into).
    pub fn run<T: Element>(&self, world: &World, source: &DistArray<T>) -> Result<DistArray<T>> {
        self.check(source, &self.source, "takes", "make one for this array's sharding")?;
        let mut target = self.room(world)?;
        self.run_into(world, source, &mut target)?;
        Ok(target)
    }

    /// Writes `source` to `target`, laid out by the source and by the target; collective over the groups of
    /// ranks that have something for each other.
    ///
    /// Allocates no tile: buffers are made by the first run and kept.
    ///
    /// # Errors
    /// If an array is not laid out as the redistribution says, the transport is [`Shared`](Transport::Shared)
    /// and cannot be used, or another rank failed.
    pub fn run_into<T: Element>(&self, world: &World, source: &DistArray<T>, target: &mut DistArray<T>) -> Result<()> {
        world.check_mesh(self.source.mesh())?;
        self.check(source, &self.source, "takes", "make one for this array's sharding")?;
        self.check(target, &self.target, "makes", "get the array from `output`")?;
        if self.transport != Transport::Messages && self.run_shared(source, target)? {
            return Ok(());
        }
        let staging = &mut self.staging.borrow_mut();
        messages::run(
            &self.hop,
            size_of::<T>(),
            cast_slice(source.block()),
            cast_slice_mut(target.block_mut()),
            staging,
        )
    }

    /// Runs through shared memory, if that is possible; returns whether it was.
    fn run_shared<T: Element>(&self, source: &DistArray<T>, target: &mut DistArray<T>) -> Result<bool> {
        let (block, segment) = target.lent();
        let tile = Tile::new(cast_slice_mut(block), segment);
        let element = size_of::<T>();
        let outcome = shared::run(&self.hop, &*self.memory, self.number, element, cast_slice(source.block()), tile)?;
        let why = match outcome {
            Outcome::Done => return Ok(true),
            _ if self.transport == Transport::Auto => return Ok(false),
            Outcome::Apart(rank, other) => format!("ranks {rank} and {other} are on different nodes"),
            Outcome::Hidden(rank) => {
                format!("the output of rank {rank} is its own; get it from `Redistribution::output`")
            }
        };
        Err(Error::Usage(format!("cannot redistribute through shared memory: {why}, or use `Transport::Auto`")))
    }

    fn check<T>(&self, array: &DistArray<T>, wanted: &Sharding, what: &str, cure: &str) -> Result<()> {
        let held = array.sharding();
        if held.shape() == wanted.shape() && held.mesh() == wanted.mesh() && same_owners(held, wanted) {
            return Ok(());
        }
        let [held, wanted] = [held, wanted]
            .map(|sharding| format!("of shape {:?} over ({}), sharded {sharding}", sharding.shape(), sharding.mesh()));
        Err(Error::Usage(format!("an array {held}, is given to a redistribution that {what} arrays {wanted}; {cure}")))
    }
}

impl<T: Element> DistArray<T> {
    /// Returns the array laid out by `target`, a sharding of the same shape and mesh; collective over the world.
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
    pub fn redistribute(&self, world: &World, target: &Sharding) -> Result<DistArray<T>> {
        Redistribution::new(world, self.sharding(), target)?.run(world, self)
    }
}

/// Checks that all ranks mean the same shardings.
fn agree(world: &World, number: u64, source: &Sharding, target: &Sharding) -> Result<()> {
    let mut hasher = DefaultHasher::new();
    (source, target).hash(&mut hasher);
    let told = world.comm().tell([hasher.finish(), number, 0, 0])?;
    match told.iter().position(|note| *note != told[0]) {
        Some(other) => Err(Error::Mismatch(format!(
            "ranks 0 and {other} redistribute between different shardings, rank {} from {source} to {target}: all \
             ranks must give the same",
            world.rank()
        ))),
        None => Ok(()),
    }
}
