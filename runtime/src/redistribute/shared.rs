//! Moving pieces through shared memory: each member writes its pieces straight into the others' tiles.
//!
//! ```text
//! all publish their tiles  |  each writes its pieces into all tiles  |  fence
//! ```
//!
//! One copy per element and no staging. The owner of a tile may read it or free it only when no other member can write into it any more,
//! even if one of them fails. Two rules ensure this. Publishing succeeds on all members or on none, so a member that has the addresses
//! knows that the others have them too. And each member for which it has succeeded calls the fence, in `Drop` if it panics; the fence
//! returns when all have called it: so no owner waits for a member that never calls it, and none continues while another writes.
#![expect(unsafe_code, reason = "writes into memory of other ranks")]

use super::group_exchange::GroupExchange;
use crate::comm::{Communicator, Header, Located, SharedMemory};
use crate::publish::{Block, EMPTY, HIDDEN, Peers, Purpose, Round, published};
use crate::subarray::{Copier, Place, Row};
use crate::{DType, Result, Segment};

/// A tile that other ranks write into. It is a pointer because a slice would claim that no other rank does.
pub(super) struct Tile<'a> {
    address: *mut u8,
    bytes: usize,
    segment: Option<(&'a Segment, usize)>,
}

impl<'a> Tile<'a> {
    /// Returns the tile in `block`, which is in `segment` if one is given.
    pub(super) fn new(block: &'a mut [u8], segment: Option<(&'a Segment, usize)>) -> Self {
        Self { address: block.as_mut_ptr(), bytes: block.len(), segment }
    }
}

/// How a run through shared memory ended.
pub(super) enum Outcome {
    /// All members have their elements.
    Done,
    /// Nothing has moved, on any member: they do not all share memory.
    Apart,
    /// Nothing has moved, on any member: the others cannot see the tile of this rank of the world.
    Hidden(usize),
}

/// Moves the pieces of `exchange` from the members' `source` tiles to their target tiles, of elements of `dtype`; `number` is the
/// redistribution's.
///
/// # Errors
/// If the members run different redistributions, or another rank failed.
///
/// # Panics
/// If the length of a tile is not that of the exchange: a bug in polyshard.
pub(super) fn run(
    exchange: &GroupExchange,
    memory: &dyn SharedMemory,
    number: u64,
    dtype: DType,
    source: &[u8],
    tile: Tile<'_>,
) -> Result<Outcome> {
    let Tile { address, bytes, segment } = tile;
    let element = dtype.size();
    let Some(comm) = &exchange.comm else {
        // SAFETY: `address` is that of a tile of `bytes` bytes, which no other rank sees.
        unsafe { hand_out(exchange, element, source, &[(address, bytes)]) };
        return Ok(Outcome::Done);
    };
    // All members see the same nodes, so either all return here or none.
    if exchange.apart(memory).is_some() {
        return Ok(Outcome::Apart);
    }
    let rank = |member: usize| exchange.members[member];
    let peers = Peers { comm: &**comm, memory, rank: &rank, are_all: false };
    let round = Round { purpose: Purpose::Redistribution, dtype, program: number as u32 };
    // If the headers differ, all members get the error, and none writes.
    let headers = exchange.publisher.publish(&peers, &round, &[Block { address, bytes, place: segment }])?;
    let fence = Fence { comm: &**comm };
    // Others may write into this rank's tile now. All members have the same headers, and make the same decision.
    let outcome = match headers.iter().position(|header| published(header, 0).0 == HIDDEN) {
        Some(member) => Outcome::Hidden(exchange.members[member]),
        None => {
            let tiles = locate(exchange, memory, &headers);
            let addresses: Vec<_> = tiles.iter().map(|(tile, bytes)| (tile.address, *bytes)).collect();
            // SAFETY: the tiles are at the addresses, and of the lengths, that their owners have published. Each owner has borrowed its
            // tile mutably until it returns from this function, which it does only after all members have called the fence: `publish`
            // succeeds on all of them or on none, and each member calls the fence when `fence` is dropped, at the latest by unwinding. The
            // ranks write to different elements, because each element of a tile is sent by one rank; no rank reads a tile before all have
            // passed the fence.
            unsafe { hand_out(exchange, element, source, &addresses) };
            memory.sync();
            Outcome::Done
        }
    };
    drop(headers);
    fence.now()?;
    if matches!(outcome, Outcome::Done) {
        memory.sync();
        comm.count_in_place(exchange.received() * element);
    }
    Ok(outcome)
}

/// Calls the fence with the others, at the latest when dropped.
struct Fence<'a> {
    comm: &'a dyn Communicator,
}

impl Fence<'_> {
    fn now(self) -> Result<()> {
        let comm = self.comm;
        std::mem::forget(self);
        Ok(comm.fence()?)
    }
}

impl Drop for Fence<'_> {
    fn drop(&mut self) {
        // This rank is unwinding; its own panic is the one to report.
        let _ = self.comm.fence();
    }
}

/// Returns where this rank sees each member's tile, and its length in bytes.
fn locate(exchange: &GroupExchange, memory: &dyn SharedMemory, headers: &[Header]) -> Vec<(Located, usize)> {
    let find = |(&rank, header): (&usize, &Header)| {
        let (handle, bytes) = published(header, 0);
        if handle == EMPTY {
            return (Located { address: std::ptr::NonNull::dangling().as_ptr(), mapping: None }, 0);
        }
        // The others wait at the fence, and then learn that this rank has failed.
        let found = memory.locate(rank, handle, bytes);
        (found.unwrap_or_else(|why| panic!("cannot map the tile of {bytes} bytes of rank {rank}: {why}")), bytes)
    };
    exchange.members.iter().zip(headers).map(find).collect()
}

/// Copies each piece into the tile of its member.
///
/// # Safety
/// The tiles can be written, and no other rank reads them, or writes to the elements of this rank's pieces.
unsafe fn hand_out(exchange: &GroupExchange, element: usize, source: &[u8], tiles: &[(*mut u8, usize)]) {
    let behind = exchange.part.sends.partition_point(|(member, _)| *member < exchange.part.me);
    let (before, after) = exchange.part.sends.split_at(behind);
    // Each member starts with a different peer, so that they do not all write to the same tile.
    let pieces = std::iter::once((exchange.part.me, exchange.own()))
        .chain(after.iter().chain(before).map(|(to, piece)| (*to, &**piece)));
    for (member, piece) in pieces {
        let (address, bytes) = tiles[member];
        let copier = Copier::new(bytes);
        piece.rows(Place::Block, Place::Region).next(usize::MAX, |Row { from, to, len }| {
            let (from, to, len) = (from * element, to * element, len * element);
            assert!(to + len <= bytes, "a row ends outside of its tile; this is a bug in polyshard");
            // SAFETY: the row is inside of the tile; the rest is the caller's promise.
            unsafe { copier.copy(&source[from..from + len], address.add(to)) };
        });
        copier.finish();
    }
}
