//! Shared inputs: no rank writes the inputs of a program or of a redistribution while it runs, so ranks that share memory read each
//! other's shards in place.
//!
//! ```text
//! all publish their shards  |  each reads what it needs, without communication  |  all release them
//! ```
//!
//! Ranks publish handles once per run ([`publish`]), and wait for each other once, at its end. In between nothing is sent within a node,
//! whatever the pattern. If a run does not reach its end, a rank cannot know whether others still read its shards: then it strands their
//! memory, which keeps the others safe (see [`Block`](crate::block::Block)).
#![expect(unsafe_code, reason = "reads the shards of other ranks where they are")]

use crate::comm::{Header, Located, SharedMemory, Stranded};
use crate::layout::Sharding;
use crate::memory::Visibility;
use crate::publish::{self, BLOCKS, HIDDEN, Owners, Peers, Published, Purpose, Round, fingerprint, published};
use crate::{DistArray, Element, Result, RunError, Transport, World};
use polyshard_program::InPlace;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::hash::Hash;
use std::ops::Deref;
use std::rc::Rc;

/// The input arrays of one run, published for the ranks that share memory with this one.
pub(crate) struct SharedInputs<'a, T> {
    arrays: SmallVec<[&'a DistArray<T>; 4]>,
    /// The memory that this rank must not write or free before all ranks are done, and where the others have theirs; `None` if nothing is
    /// published: then all data of other ranks is received in messages.
    published: Option<(Published<'a, Owners>, Rc<Vec<ShardTable>>)>,
}

/// Cached locations of the inputs of a run, for the next one: where other ranks had them is not looked up again.
#[derive(Default)]
pub(crate) struct InputTable {
    /// By array; a run that has published them owns them, too.
    tables: Rc<Vec<ShardTable>>,
    /// A number for the program and the shardings of its inputs, on which all ranks must agree.
    program: Option<u32>,
}

/// The locations of an array's shards, on all members.
#[derive(Default)]
pub(crate) struct ShardTable {
    /// The handle of each shard, and its bytes.
    handles: Vec<(u64, usize)>,
    /// The shards that have been located.
    located: RefCell<Vec<Option<Located>>>,
    /// Whether all members see all shards.
    is_everywhere: bool,
}

/// An array whose shards this rank reads in place, as far as it sees them.
///
/// It is made from [`SharedInputs`] while a program runs, or from an array alone: then other shards are received in messages.
#[derive(Clone, Copy)]
pub(crate) struct Shards<'a, T> {
    array: &'a DistArray<T>,
    table: Option<(&'a Published<'a, Owners>, &'a ShardTable)>,
}

impl<'a, T: Element> SharedInputs<'a, T> {
    /// Publishes none of these arrays.
    pub(crate) fn none(arrays: &[&'a DistArray<T>]) -> Self {
        Self { arrays: arrays.iter().copied().collect(), published: None }
    }

    /// Publishes `arrays` to the ranks that share memory with this one; collective over the world.
    ///
    /// Nothing is published if no ranks share memory, none of those that do read inputs in place, or messages are requested. The table is that of earlier runs on arrays with the same
    /// shardings, or a new one.
    ///
    /// # Errors
    /// If the ranks publish different inputs, which is an error on all of them, or another rank failed. [`RunError::NotShared`] if the transport is [`Shared`](Transport::Shared), and an array is not seen by all ranks.
    pub(crate) fn publish(
        world: &'a World,
        arrays: &[&'a DistArray<T>],
        known: &mut InputTable,
        transport: Transport,
        in_place: InPlace,
    ) -> Result<Self> {
        let mut inputs = Self::none(arrays);
        if transport == Transport::Messages {
            return Ok(inputs);
        }
        let memory = if world.size() > 1 { Some(&**world.memory()?) } else { None };
        let is_in_place = |memory: &&dyn SharedMemory| {
            transport == Transport::Shared
                || world.visibility() == Visibility::Process
                || match in_place {
                    InPlace::Threads => false,
                    InPlace::WithCores => memory.has_core_each(),
                    InPlace::Always => true,
                }
        };
        if let Some(memory) = memory.filter(|memory| memory.is_shared() && !arrays.is_empty() && is_in_place(memory)) {
            let owners = arrays.iter().map(|array| array.lend() as Stranded).collect();
            let peers = Peers { comm: world.comm(), memory, members: None };
            let published = Published::new(world.publisher(), peers, known.round(arrays), owners);
            known.update(&published, arrays)?;
            inputs.published = Some((published, Rc::clone(&known.tables)));
        }
        if transport == Transport::Shared
            && world.size() > 1
            && let Some(nth) = (0..arrays.len()).find(|&nth| !inputs.array(nth).are_everywhere())
        {
            return Err(RunError::NotShared { sharding: Box::new(arrays[nth].sharding().clone()) }.into());
        }
        Ok(inputs)
    }

    /// Returns the array number `nth`.
    pub(crate) fn array(&self, nth: usize) -> Shards<'_, T> {
        let table = self.published.as_ref().map(|(published, tables)| (published, &tables[nth]));
        Shards { array: self.arrays[nth], table }
    }

    /// Waits until all ranks are done; they may then write and drop their arrays. Collective over the world.
    pub(crate) fn release(&mut self) -> Result<()> {
        self.published.take().map_or(Ok(()), |(published, _)| published.release())
    }
}

impl InputTable {
    /// Returns the table before the first run of `program`, which is the same on all ranks.
    pub(crate) fn of(program: &(impl Hash + ?Sized)) -> Self {
        Self { program: Some(fingerprint(program)), ..Self::default() }
    }

    /// The round that all ranks publish, with equal contents.
    fn round<T: Element>(&mut self, arrays: &[&DistArray<T>]) -> Round {
        let shardings = || fingerprint(&arrays.iter().map(|array| array.sharding()).collect::<SmallVec<[_; 4]>>()[..]);
        Round { purpose: Purpose::Inputs, dtype: T::DTYPE, program: *self.program.get_or_insert_with(shardings) }
    }

    /// Publishes this rank's blocks, and gets the handles of the others'.
    fn update<T: Element>(&mut self, published: &Published<'_, Owners>, arrays: &[&DistArray<T>]) -> Result<()> {
        // A run that was neither finished nor dropped keeps its tables.
        if Rc::get_mut(&mut self.tables).is_none() {
            self.tables = Rc::default();
        }
        let tables = Rc::get_mut(&mut self.tables).expect("they have one owner now; this is a bug in polyshard");
        tables.resize_with(arrays.len(), ShardTable::default);
        for (arrays, tables) in arrays.chunks(BLOCKS).zip(tables.chunks_mut(BLOCKS)) {
            let blocks: SmallVec<[_; BLOCKS]> = arrays.iter().map(|array| publish::Block::of(array.place())).collect();
            let headers = published.publish(&blocks)?;
            tables.iter_mut().enumerate().for_each(|(nth, table)| table.update(published.peers(), &headers, nth));
        }
        Ok(())
    }
}

impl ShardTable {
    /// Stores the handles of the block number `nth` that the members have published, and forgets the locations of shards that have moved.
    pub(crate) fn update(&mut self, peers: &Peers<'_>, headers: &[Header], nth: usize) {
        let located = self.located.get_mut();
        self.is_everywhere = true;
        for (member, header) in headers.iter().enumerate() {
            let handle = published(header, nth);
            self.is_everywhere &= handle.0 != HIDDEN && peers.reaches(member);
            if self.handles.len() == member {
                self.handles.push(handle);
                located.push(None);
            } else if self.handles[member] != handle {
                self.handles[member] = handle;
                located[member] = None;
            }
        }
    }

    /// Returns the first member whose shard the others do not see.
    pub(crate) fn hidden(&self) -> Option<usize> {
        self.handles.iter().position(|(handle, _)| *handle == HIDDEN)
    }

    /// Returns the shard of a member, which is to have as many bytes as `expected` returns, in place; the handles are those of `of`.
    pub(crate) fn shard<'s, T: Element>(
        &'s self,
        of: &'s Published<'_, Owners>,
        member: usize,
        expected: impl FnOnce() -> usize,
    ) -> Result<&'s [T]> {
        let (handle, bytes) = self.handles[member];
        let mut located = self.located.borrow_mut();
        if located[member].is_none() {
            assert!(handle != HIDDEN, "a shard that is not seen is read; this is a bug in polyshard");
            located[member] = Some(of.peers().locate(member, (handle, bytes), expected())?);
        }
        let found = located[member].as_ref().expect("it was looked up");
        // SAFETY: the shard existed when its owner published the handle, and does until all members have released theirs, or for ever if one
        // does not: the owner strands its memory then. Until then no rank writes to it, as the owner has borrowed the array. The table keeps
        // mappings as long as it is borrowed. The shard has `bytes` bytes, as its owner has published, of `T`, which is the type that all
        // members have published, and for which blocks are aligned.
        Ok(unsafe { std::slice::from_raw_parts(found.address.cast_const().cast(), bytes / size_of::<T>()) })
    }
}

impl<'a, T> From<&'a DistArray<T>> for Shards<'a, T> {
    fn from(array: &'a DistArray<T>) -> Self {
        Self { array, table: None }
    }
}

impl<T> Deref for Shards<'_, T> {
    type Target = DistArray<T>;

    fn deref(&self) -> &DistArray<T> {
        self.array
    }
}

impl<'a, T: Element> Shards<'a, T> {
    /// Returns the array.
    pub(crate) fn array(self) -> &'a DistArray<T> {
        self.array
    }

    /// Returns whether every rank of the world sees every shard.
    pub(crate) fn are_everywhere(self) -> bool {
        self.table.is_some_and(|(_, table)| table.is_everywhere)
    }

    /// Returns whether any shards are published.
    pub(crate) fn are_shared(self) -> bool {
        self.table.is_some()
    }

    /// Returns whether this rank sees the shard of the world's rank `rank`; the owner then knows that it does.
    pub(crate) fn sees(self, rank: usize) -> bool {
        self.table.is_some_and(|(of, table)| table.handles[rank].0 != HIDDEN && of.peers().reaches(rank))
    }

    /// Returns whether the world's rank `rank` sees this rank's shard.
    pub(crate) fn is_seen_by(self, rank: usize) -> bool {
        self.table
            .is_some_and(|(of, table)| table.handles[of.peers().comm.rank()].0 != HIDDEN && of.peers().reaches(rank))
    }

    /// Counts elements that this rank has read in place in others' shards as received.
    pub(crate) fn count(self, elements: usize) {
        if let Some((of, _)) = self.table {
            of.peers().comm.count_in_place(elements * size_of::<T>());
        }
    }

    /// Returns the block of the world's rank `rank`, in place.
    pub(crate) fn block_of(self, rank: usize) -> Result<&'a [T]> {
        match self.table.filter(|(of, _)| of.peers().comm.rank() != rank) {
            None => Ok(self.array.block()),
            Some((of, table)) => table.shard(of, rank, || bytes_of::<T>(self.array.sharding(), rank)),
        }
    }
}

/// The bytes of a rank's block by this sharding.
fn bytes_of<T>(sharding: &Sharding, rank: usize) -> usize {
    sharding.local_len(&sharding.mesh().coordinates(rank)) * size_of::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::exchange_words;
    use crate::layout::{Mesh, Placement};
    use crate::tile::{Link, now};
    use crate::{Grid, Region, spmd};

    /// A vector of 12 elements in blocks over `ranks` ranks.
    fn blocks(ranks: usize) -> (Mesh, Sharding) {
        let mesh = Mesh::new([("x", ranks)]);
        let [x] = mesh.axes();
        let sharding = Sharding::new(&mesh, &[12], &[Placement::block(0, x)]).expect("a sharding");
        (mesh, sharding)
    }

    fn region(from: i64, to: i64) -> Region {
        Region::new(std::iter::once(from..to))
    }

    fn publish<'a, T: Element>(
        world: &'a World,
        array: &'a DistArray<T>,
        known: &'a mut InputTable,
    ) -> Result<SharedInputs<'a, T>> {
        SharedInputs::publish(world, &[array], known, world.transport(), InPlace::Always)
    }

    #[test]
    fn what_one_rank_owns_is_read_where_it_has_it_and_counted_as_received() {
        let (mesh, sharding) = blocks(3);
        let seen = spmd(3, |world| -> Result<_> {
            let group = Grid::new(world, &mesh)?.group(&[0])?;
            let a = DistArray::from_fn(world, &sharding, |index| index[0] as f64)?;
            let owner = exchange_words(world.comm(), "addresses", [a.block().as_ptr().addr() as u64])?[1][0];
            let mut tile = Link::to_fetch(4)?;
            let mut known = InputTable::default();
            let mut inputs = publish(world, &a, &mut known)?;
            let a = inputs.array(0);
            tile.broadcast(&group, &[1], now(a, &region(5, 8)))?;
            let view = tile.view(a).strided(&[5], &[&[1]]);
            let address = view.data.as_ptr().addr() + view.offset as usize * size_of::<f64>();
            assert_eq!(address, owner as usize + size_of::<f64>(), "rank {}", world.rank());
            assert_eq!(view.data[view.offset as usize..][..3], [5.0, 6.0, 7.0]);
            inputs.release()?;
            Ok(world.bytes_received())
        });
        assert_eq!(seen.expect("all succeed"), [24, 0, 24]);
    }

    #[test]
    fn what_several_ranks_own_is_copied_from_each() {
        let (mesh, sharding) = blocks(4);
        let received = spmd(4, |world| -> Result<_> {
            let group = Grid::new(world, &mesh)?.group(&[0])?;
            let a = DistArray::from_fn(world, &sharding, |index| index[0] as i32)?;
            let mut known = InputTable::default();
            let mut inputs = publish(world, &a, &mut known)?;
            let a = inputs.array(0);
            let mut tile = Link::to_fetch(12)?;
            tile.all_gather(&group, now(a, &region(2, 8)))?;
            let view = tile.view(a).strided(&[2], &[&[1]]);
            assert_eq!(view.data, [2, 3, 4, 5, 6, 7]);
            inputs.release()?;
            Ok(world.bytes_received() / 4)
        });
        assert_eq!(received.expect("all succeed"), [5, 3, 4, 6]);
    }

    #[test]
    fn by_messages_nothing_is_published() {
        let (mesh, sharding) = blocks(2);
        let said = spmd(2, |world| -> Result<()> {
            let group = Grid::new(world, &mesh)?.group(&[0])?;
            let mut a = DistArray::from_fn(world, &sharding, |index| index[0] as f32)?;
            let address = a.block().as_ptr();
            world.set_transport(Transport::Messages);
            let mut known = InputTable::default();
            let mut inputs = publish(world, &a, &mut known)?;
            let shards = inputs.array(0);
            assert!(!shards.are_shared() && !shards.sees(1 - world.rank()));
            let mut tile = Link::to_fetch(6)?;
            tile.broadcast(&group, &[1], now(shards, &region(6, 9)))?;
            assert_eq!(tile.view(shards).strided(&[6], &[&[1]]).data[..3], [6.0, 7.0, 8.0]);
            inputs.release()?;
            drop(inputs);
            a.block_mut()[0] = 1.0;
            assert_eq!(a.block().as_ptr(), address);
            Ok(())
        });
        said.expect("all succeed");
    }

    #[test]
    fn what_was_not_seen_to_its_end_is_never_written_where_it_is() {
        let (_, sharding) = blocks(2);
        let done = spmd(2, |world| -> Result<()> {
            let mut a = DistArray::filled(world, &sharding, 3.0_f32)?;
            let address = a.block().as_ptr();
            publish(world, &a, &mut InputTable::default())?.release()?;
            a.block_mut()[0] = 4.0;
            assert_eq!(a.block().as_ptr(), address, "it came back");
            // As if a rank failed during the run.
            drop(publish(world, &a, &mut InputTable::default())?);
            a.block_mut()[1] = 5.0;
            assert_ne!(a.block().as_ptr(), address, "others may be reading it");
            assert_eq!(a.block()[..3], [4.0, 5.0, 3.0]);
            Ok(())
        });
        done.expect("all succeed");
    }

    #[test]
    fn a_rank_that_fails_in_between_ends_all() {
        let (_, sharding) = blocks(3);
        let failed = spmd(3, |world| -> Result<()> {
            let a = DistArray::filled(world, &sharding, 3.0_f32)?;
            let mut known = InputTable::default();
            let mut inputs = publish(world, &a, &mut known)?;
            assert!(world.rank() != 1, "a leaf that panics");
            inputs.release()
        });
        assert_eq!(failed.expect_err("rank 1 fails").to_string(), "rank 1 panicked: a leaf that panics");
    }
}
