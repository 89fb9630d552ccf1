//! Arrays that ranks lend one another: while a program runs, nobody writes its inputs, so what ranks that share memory need of
//! them is read where it lies.
//!
//! ```text
//! all tell where their shards are  |  each reads what it needs, without a word to anybody  |  all are done
//! ```
//!
//! Ranks tell each other their handles once per run, and wait for each other once, at its end. In between nothing is sent within a
//! node, whatever the pattern is. If a run does not come to its end, a rank cannot know whether others still read its shards: then
//! their memory is stranded, which is what keeps the others safe (see [`Block`](crate::block::Block)).
#![expect(unsafe_code, reason = "reads the shards of other ranks where they are")]

mod among;

pub(crate) use among::{Met, among_members};

use crate::block::Block;
use crate::comm::{Header, Located, SharedMemory, Stranded};
use crate::layout::Sharding;
use crate::memory::Seen;
use crate::{DistArray, Element, Error, Result, RunError, Segment, Transport, World};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ops::Deref;

/// The handle of a shard that the others cannot see.
const HIDDEN: u64 = u64::MAX;

/// The handle of a shard without elements.
const EMPTY: u64 = u64::MAX - 1;

/// What ranks that wait for each other at either end of a run wait in.
const INPUTS: &str = "inputs that are read in place";

/// The arrays of one run, lent to the ranks that share memory with this one.
///
/// ```
/// use polyshard_runtime::layout::{Mesh, Placement, Sharding};
/// use polyshard_runtime::{DistArray, Error, Grid, Lent, Region, Tile, spmd};
/// let mesh = Mesh::new([("x", 2)]);
/// let halves = Sharding::new(&mesh, &[4], &[Placement::block(0, mesh.axes::<1>()[0])]).expect("a sharding");
/// spmd(2, |world| {
///     let row = Grid::new(world, &mesh)?.group(&[0])?;
///     let a = DistArray::from_fn(world, &halves, |index| index[0] as f64)?;
///     let mut tile = Tile::new("A", 2)?;
///     let lent = Lent::new(world, [&a])?;
///     let [a] = lent.shards();
///     let first_half = Region::new(std::iter::once(0..2));
///     tile.broadcast(&row, &[0], a, &first_half)?; // rank 1 reads it where rank 0 has it
///     lent.end()?;
///     assert_eq!(world.bytes_received(), [0, 16][world.rank()]); // counted as if it had been sent
///     Ok::<(), Error>(())
/// })?;
/// # Ok::<(), Error>(())
/// ```
pub struct Lent<'a, T> {
    world: &'a World,
    arrays: SmallVec<[&'a DistArray<T>; 4]>,
    /// None if nothing is lent: all that is needed of other ranks comes by messages.
    known: Option<Known>,
    /// What this rank must not write or give back before all are done.
    owners: SmallVec<[Stranded; 4]>,
}

/// What is known of the arrays of one run, for the next.
#[derive(Default)]
pub(crate) struct Known {
    lists: Vec<List>,
    /// Where short blocks, which are in no segment, are copied to for the others to see.
    desk: Option<Block<u64>>,
    /// What the ranks told last.
    told: Vec<Header>,
}

/// Where the shards of an array are, on all ranks of the world.
#[derive(Default)]
struct List {
    handles: Vec<u64>,
    /// What has been looked up, with the number of bytes.
    located: RefCell<Vec<Option<(Located, usize)>>>,
    /// Whether this rank sees all shards, and all others do.
    is_everywhere: bool,
}

/// An array whose shards this rank reads where they are, as far as it sees them.
///
/// It is made of a [`Lent`] array while a program runs, or of an array alone: then other shards come by messages.
pub struct Shards<'a, T> {
    array: &'a DistArray<T>,
    lent: Option<(&'a World, &'a List)>,
}

impl<'a, T: Element> Lent<'a, T> {
    /// Lends `arrays` to the ranks that share memory with this one, and borrows theirs; collective over the world.
    ///
    /// Nothing is lent if no ranks share memory, or [messages are asked for](World::set_transport).
    ///
    /// # Errors
    /// If another rank failed.
    pub fn new<const N: usize>(world: &'a World, arrays: [&'a DistArray<T>; N]) -> Result<Self> {
        match world.transport() {
            Transport::Messages => Ok(Self::nothing(world, &arrays)),
            transport => Self::again(world, &arrays, Known::default(), transport),
        }
    }

    /// Lends nothing of these arrays.
    pub(crate) fn nothing(world: &'a World, arrays: &[&'a DistArray<T>]) -> Self {
        Self { world, arrays: arrays.iter().copied().collect(), known: None, owners: SmallVec::new() }
    }

    /// As [`new`](Self::new), with what is known of arrays that are laid out as these.
    ///
    /// # Errors
    /// [`RunError::NotShared`] if all is to be [shared](Transport::Shared), and an array is not.
    pub(crate) fn again(
        world: &'a World,
        arrays: &[&'a DistArray<T>],
        known: Known,
        transport: Transport,
    ) -> Result<Self> {
        let mut lent = Self::nothing(world, arrays);
        let memory = if world.size() > 1 { Some(world.memory()?) } else { None };
        if let Some(memory) = memory.filter(|memory| memory.is_shared() && !arrays.is_empty()) {
            lent.owners = arrays.iter().map(|array| array.lend() as Stranded).collect();
            lent.known = Some(lent.told(known, &*memory)?);
        }
        let everywhere = |nth| lent.array(nth).are_everywhere() || world.size() == 1;
        match (0..arrays.len()).find(|&nth| !everywhere(nth)) {
            Some(nth) if transport == Transport::Shared => {
                Err(RunError::NotShared { sharding: Box::new(arrays[nth].sharding().clone()) }.into())
            }
            _ => Ok(lent),
        }
    }

    /// Tells the others where this rank's blocks are, and learns where theirs are.
    fn told(&mut self, mut known: Known, memory: &dyn SharedMemory) -> Result<Known> {
        known.lists.resize_with(self.arrays.len(), List::default);
        known.copy_short(self.world, &self.arrays)?;
        let desk = known.desk.as_ref();
        let segment = desk.and_then(Block::segment);
        if let Some(desk) = desk.filter(|_| segment.is_some()) {
            self.owners.push(desk.lend());
        }
        memory.sync();
        let mut offset = 0;
        for (arrays, lists) in self.arrays.chunks(WORDS).zip(known.lists.chunks_mut(WORDS)) {
            let mut header: Header = [EMPTY; WORDS];
            for (word, array) in header.iter_mut().zip(arrays) {
                let (block, segment) = array.place();
                let place = match segment {
                    Some(segment) => Some((segment, 0)),
                    None => segment.filter(|_| is_short(block)).map(|desk| (desk, offset)),
                };
                offset += if segment.is_none() && is_short(block) { on_desk(block) } else { 0 };
                *word = match block.is_empty() {
                    true => EMPTY,
                    false => memory.handle(block.as_ptr().cast(), place).unwrap_or(HIDDEN),
                };
            }
            let tell = |told: &mut _| self.world.comm().tell(INPUTS, header, Some(told));
            memory.gather(header, &mut known.told).unwrap_or_else(|| tell(&mut known.told))?;
            for (nth, list) in lists.iter_mut().enumerate() {
                list.update(known.told.iter().map(|header| header[nth]), memory);
            }
        }
        memory.sync();
        Ok(known)
    }

    /// Returns the arrays, in the order in which they were given.
    ///
    /// # Panics
    /// If they are not `N`.
    #[track_caller]
    #[must_use]
    pub fn shards<const N: usize>(&self) -> [Shards<'_, T>; N] {
        assert!(N == self.arrays.len(), "{N} of {} arrays are asked for: ask for all", self.arrays.len());
        std::array::from_fn(|nth| self.array(nth))
    }

    /// Returns the array number `nth`.
    pub(crate) fn array(&self, nth: usize) -> Shards<'_, T> {
        let list = self.known.as_ref().map(|known| (self.world, &known.lists[nth]));
        Shards { array: self.arrays[nth], lent: list }
    }

    /// Waits until all ranks are done, which may then write and drop their arrays; collective over the world.
    ///
    /// # Errors
    /// If another rank failed.
    pub fn end(self) -> Result<()> {
        self.give_back().map(drop)
    }

    /// As [`end`](Self::end), and returns what is known of the arrays.
    pub(crate) fn give_back(mut self) -> Result<Known> {
        let Some(known) = self.known.take() else { return Ok(Known::default()) };
        let memory = self.world.memory()?;
        memory.sync();
        memory.meet().unwrap_or_else(|| self.world.comm().tell(INPUTS, Header::default(), None))?;
        self.owners.clear();
        Ok(known)
    }
}

impl<T> Drop for Lent<'_, T> {
    fn drop(&mut self) {
        if let (false, Ok(memory)) = (self.owners.is_empty(), self.world.memory()) {
            self.owners.drain(..).for_each(|owner| memory.strand(owner));
        }
    }
}

/// The words of a header, each a handle.
const WORDS: usize = size_of::<Header>() / size_of::<u64>();

/// The most bytes of a block that is copied to the desk.
const SHORT: usize = 1 << 16;

fn is_short<T>(block: &[T]) -> bool {
    (1..=SHORT).contains(&size_of_val(block))
}

/// The bytes that a block takes on the desk, so that the next one starts where a handle can say.
fn on_desk<T>(block: &[T]) -> usize {
    size_of_val(block).next_multiple_of(Segment::LINE)
}

impl Known {
    /// Copies blocks that are in no segment, and short, to where the others see them; if segments are how ranks see each other.
    fn copy_short<T: Element>(&mut self, world: &World, arrays: &[&DistArray<T>]) -> Result<()> {
        if world.seen() == Seen::Here {
            return Ok(());
        }
        let short = || arrays.iter().map(|array| array.place()).filter(|place| place.1.is_none() && is_short(place.0));
        let words = short().map(|(block, _)| on_desk(block)).sum::<usize>() / size_of::<u64>();
        if self.desk.as_ref().map_or(0, |desk| desk.len()) < words {
            self.desk = Some(Block::in_segment(words, "short inputs that other ranks read")?);
        }
        let mut rest = self.desk.as_mut().map_or(&mut [][..], |desk| &mut desk[..]);
        for (block, _) in short() {
            let (place, others) = rest.split_at_mut(on_desk(block) / size_of::<u64>());
            bytemuck::cast_slice_mut(place)[..size_of_val(block)].copy_from_slice(bytemuck::cast_slice::<T, u8>(block));
            rest = others;
        }
        Ok(())
    }
}

impl List {
    /// Takes over what the ranks have told, and forgets where those shards were that are no longer there.
    fn update(&mut self, told: impl Iterator<Item = u64>, memory: &dyn SharedMemory) {
        let located = self.located.get_mut();
        self.is_everywhere = true;
        for (rank, handle) in told.enumerate() {
            self.is_everywhere &= handle != HIDDEN && memory.reaches(rank);
            if self.handles.len() == rank {
                self.handles.push(handle);
                located.push(None);
            } else if self.handles[rank] != handle {
                self.handles[rank] = handle;
                located[rank] = None;
            }
        }
    }
}

impl<T> Clone for Shards<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shards<'_, T> {}

impl<'a, T> From<&'a DistArray<T>> for Shards<'a, T> {
    fn from(array: &'a DistArray<T>) -> Self {
        Self { array, lent: None }
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
        self.lent.is_some_and(|(_, list)| list.is_everywhere)
    }

    /// Returns whether any shards are lent.
    pub(crate) fn are_lent(self) -> bool {
        self.lent.is_some()
    }

    /// Returns whether this rank sees the shard of the world's rank `rank`; that one then knows that it does.
    pub(crate) fn sees(self, rank: usize) -> bool {
        self.lent.is_some_and(|(world, list)| {
            list.handles[rank] != HIDDEN && world.memory().is_ok_and(|memory| memory.reaches(rank))
        })
    }

    /// Returns whether the world's rank `rank` sees this rank's shard.
    pub(crate) fn is_seen_by(self, rank: usize) -> bool {
        self.lent.is_some_and(|(world, list)| {
            list.handles[world.rank()] != HIDDEN && world.memory().is_ok_and(|memory| memory.reaches(rank))
        })
    }

    /// Counts what this rank has read in place of others' shards as what it would have received.
    pub(crate) fn count(self, elements: usize) {
        if let Some((world, _)) = self.lent {
            world.comm().count_received(elements * size_of::<T>());
        }
    }

    /// Returns the block of the world's rank `rank`, where that has it.
    ///
    /// # Errors
    /// If the system does not let this rank see it.
    ///
    /// # Panics
    /// If this rank does not [see](Self::sees) it: a bug of polyshard.
    pub(crate) fn block_of(self, rank: usize) -> Result<&'a [T]> {
        let Some((world, list)) = self.lent.filter(|(world, _)| world.rank() != rank) else {
            return Ok(self.array.block());
        };
        let handle = list.handles[rank];
        assert!(handle != HIDDEN, "a shard of rank {rank} that is not seen is read; this is a bug of polyshard");
        if handle == EMPTY {
            return Ok(&[]);
        }
        let mut located = list.located.borrow_mut();
        if located[rank].is_none() {
            let bytes = bytes_of::<T>(self.array.sharding(), rank);
            let found = world.memory()?.locate(rank, handle, bytes);
            let failed = |why| Error::Mapping { rank, bytes, why: format!("{why}").into() };
            located[rank] = Some((found.map_err(failed)?, bytes));
        }
        let (found, bytes) = located[rank].as_ref().expect("it was looked up");
        // SAFETY: the shard was there when its owner told the handle, and is until all ranks have come to the end of the run, or for
        // ever if one does not: the owner strands its memory then. Until that nobody writes to it, as the owner has borrowed the array.
        // The list keeps what is mapped as long as it is borrowed. It has `bytes` bytes of `T`, for which blocks are aligned.
        Ok(unsafe { std::slice::from_raw_parts(found.address.cast_const().cast(), bytes / size_of::<T>()) })
    }
}

/// The bytes of the block that a rank has by this sharding.
fn bytes_of<T>(sharding: &Sharding, rank: usize) -> usize {
    sharding.local_len(&sharding.mesh().coordinates(rank)) * size_of::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Mesh, Placement};
    use crate::{Grid, Region, Tile, spmd};

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

    #[test]
    fn what_one_rank_owns_is_read_where_it_has_it_and_counted_as_received() {
        let (mesh, sharding) = blocks(3);
        let seen = spmd(3, |world| -> Result<_> {
            let group = Grid::new(world, &mesh)?.group(&[0])?;
            let a = DistArray::from_fn(world, &sharding, |index| index[0] as f64)?;
            let owner = world.comm().gather_headers([a.block().as_ptr().addr() as u64, 0, 0, 0])?[1][0];
            let mut tile = Tile::new("A", 4)?;
            let lent = Lent::new(world, [&a])?;
            let [a] = lent.shards();
            tile.broadcast(&group, &[1], a, &region(5, 8))?;
            let view = tile.view(a).strided(&[5], &[&[1]]);
            let address = view.data.as_ptr().addr() + view.offset as usize * size_of::<f64>();
            assert_eq!(address, owner as usize + size_of::<f64>(), "rank {}", world.rank());
            assert_eq!(view.data[view.offset as usize..][..3], [5.0, 6.0, 7.0]);
            lent.end()?;
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
            let lent = Lent::new(world, [&a])?;
            let [a] = lent.shards();
            let mut tile = Tile::new("A", 12)?;
            tile.all_gather(&group, a, &region(2, 8))?;
            let view = tile.view(a).strided(&[2], &[&[1]]);
            assert_eq!(view.data, [2, 3, 4, 5, 6, 7]);
            lent.end()?;
            Ok(world.bytes_received() / 4)
        });
        assert_eq!(received.expect("all succeed"), [5, 3, 4, 6]);
    }

    #[test]
    fn by_messages_nothing_is_lent() {
        let (mesh, sharding) = blocks(2);
        let said = spmd(2, |world| -> Result<()> {
            let group = Grid::new(world, &mesh)?.group(&[0])?;
            let mut a = DistArray::from_fn(world, &sharding, |index| index[0] as f32)?;
            let address = a.block().as_ptr();
            world.set_transport(Transport::Messages);
            let lent = Lent::new(world, [&a])?;
            let [shards] = lent.shards();
            assert!(!shards.are_lent() && !shards.sees(1 - world.rank()));
            let mut tile = Tile::new("A", 6)?;
            tile.broadcast(&group, &[1], shards, &region(6, 9))?;
            assert_eq!(tile.view(shards).strided(&[6], &[&[1]]).data[..3], [6.0, 7.0, 8.0]);
            lent.end()?;
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
            Lent::new(world, [&a])?.end()?;
            a.block_mut()[0] = 4.0;
            assert_eq!(a.block().as_ptr(), address, "it came back");
            // As when a rank fails on the way.
            drop(Lent::new(world, [&a])?);
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
            let lent = Lent::new(world, [&a])?;
            assert!(world.rank() != 1, "a leaf that panics");
            lent.end()
        });
        assert_eq!(failed.expect_err("rank 1 fails").to_string(), "rank 1 panicked: a leaf that panics");
    }
}
