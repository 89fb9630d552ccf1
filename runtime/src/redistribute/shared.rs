//! Moving pieces through shared memory: each member writes its pieces straight into the others' tiles.
//!
//! ```text
//! all tell where their tiles are  |  each writes its pieces into all tiles  |  fence
//! ```
//!
//! One copy per element and no staging. A tile may be given up or read by its owner only when nobody writes
//! into it any more, whatever happens meanwhile. Therefore the group's members are let in all or none (whoever
//! learns where the tiles are knows that all others do), and whoever was let in comes to the fence, also when it panics.
#![expect(unsafe_code, reason = "writes into memory of other ranks")]

use super::hop::Hop;
use crate::comm::{Communicator, Header, Located, SharedMemory};
use crate::subarray::{Copier, Place, Row};
use crate::{Error, Result, Segment};

/// The handle of a tile that the others cannot see.
const HIDDEN: u64 = u64::MAX;

/// The handle of a tile of no bytes, which nobody writes to.
const EMPTY: u64 = u64::MAX - 1;

/// A tile that others write into. It is a pointer because a slice would say that nobody else does.
pub(super) struct Tile<'a> {
    address: *mut u8,
    bytes: usize,
    segment: Option<&'a Segment>,
}

impl<'a> Tile<'a> {
    /// Returns the tile that is `block`, which is in `segment` if it is in one.
    pub(super) fn new(block: &'a mut [u8], segment: Option<&'a Segment>) -> Self {
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

/// Moves the pieces of `hop` from the members' `source` tiles to their target tiles, of elements of
/// `element` bytes; `number` is the redistribution's.
///
/// # Errors
/// If the members run different redistributions, or another rank failed.
///
/// # Panics
/// If a tile is not of the length that the hop says: a bug of polyshard.
pub(super) fn run(
    hop: &Hop,
    memory: &dyn SharedMemory,
    number: u64,
    element: usize,
    source: &[u8],
    tile: Tile<'_>,
) -> Result<Outcome> {
    let Tile { address, bytes, segment } = tile;
    let Some(comm) = &hop.comm else {
        // SAFETY: `address` is that of a tile of `bytes` bytes, which nobody else sees.
        unsafe { hand_out(hop, element, source, &[(address, bytes)]) };
        return Ok(Outcome::Done);
    };
    // All members see the same nodes, so all leave here or none.
    if hop.apart(memory).is_some() {
        return Ok(Outcome::Apart);
    }
    let handle =
        if bytes == 0 { EMPTY } else { memory.handle(address, segment.map(|segment| (segment, 0))).unwrap_or(HIDDEN) };
    memory.sync();
    let headers = comm.gather_headers([handle, bytes as u64, number, element as u64])?;
    let fence = Fence { comm: &**comm };
    // From here on others may write into this rank's tile. All members have the same headers, and decide alike.
    let result = match decide(hop, &headers) {
        Ok(Outcome::Done) => {
            let tiles = locate(hop, memory, &headers);
            let addresses: Vec<_> = tiles.iter().map(|(tile, bytes)| (tile.address, *bytes)).collect();
            // SAFETY: the tiles are where their owners told, of the lengths that they told. Each owner has borrowed
            // its tile mutably until it returns from this function, which it does only after all members have
            // come to the fence: `gather_headers` has succeeded on all of them, since it does so for all or none, and each that it
            // succeeded for comes to the fence when `fence` is dropped, at the latest by unwinding. The ranks write to
            // different elements, because each element of a tile comes from one rank; nobody reads a tile before
            // all have passed the fence.
            unsafe { hand_out(hop, element, source, &addresses) };
            memory.sync();
            Ok(Outcome::Done)
        }
        other => other,
    };
    fence.now()?;
    let outcome = result?;
    if matches!(outcome, Outcome::Done) {
        memory.sync();
        comm.count_received(hop.received() * element);
    }
    Ok(outcome)
}

/// Makes this rank come to the fence with the others, at the latest when it is dropped.
struct Fence<'a> {
    comm: &'a dyn Communicator,
}

impl Fence<'_> {
    fn now(self) -> Result<()> {
        let comm = self.comm;
        std::mem::forget(self);
        comm.fence()
    }
}

impl Drop for Fence<'_> {
    fn drop(&mut self) {
        // This rank is unwinding; its own panic is what is told.
        let _ = self.comm.fence();
    }
}

/// Says what all members make of their headers.
fn decide(hop: &Hop, headers: &[Header]) -> Result<Outcome> {
    if let Some(other) = headers.iter().position(|header| header[2..] != headers[0][2..]) {
        return Err(Error::Mismatch(format!(
            "ranks {} and {} run different redistributions, numbers {} and {} of elements of {} and {} bytes: all ranks \
             must run the same, in the same order",
            hop.members[0], hop.members[other], headers[0][2], headers[other][2], headers[0][3], headers[other][3]
        )));
    }
    let hidden = headers.iter().position(|header| header[0] == HIDDEN);
    Ok(hidden.map_or(Outcome::Done, |member| Outcome::Hidden(hop.members[member])))
}

/// Returns where this rank sees each member's tile, and its length in bytes.
fn locate(hop: &Hop, memory: &dyn SharedMemory, headers: &[Header]) -> Vec<(Located, usize)> {
    let find = |(&rank, header): (&usize, &Header)| {
        let bytes = header[1] as usize;
        if bytes == 0 {
            return (Located { address: std::ptr::NonNull::dangling().as_ptr(), mapping: None }, 0);
        }
        // The others wait at the fence, and then learn that this rank has failed.
        let found = memory.locate(rank, header[0], bytes);
        (found.unwrap_or_else(|why| panic!("cannot map the tile of {bytes} bytes of rank {rank}: {why}")), bytes)
    };
    hop.members.iter().zip(headers).map(find).collect()
}

/// Copies each piece to where its member's tile is.
///
/// # Safety
/// The tiles can be written, and nobody else reads them, or writes to the elements of this rank's pieces.
unsafe fn hand_out(hop: &Hop, element: usize, source: &[u8], tiles: &[(*mut u8, usize)]) {
    // Each starts with another one, so that they do not all write to one tile at once.
    for nth in 0..tiles.len() {
        let member = (hop.me + nth) % tiles.len();
        let (piece, (address, bytes)) = (&hop.sends[member], tiles[member]);
        let copier = Copier::new(bytes);
        piece.rows(Place::Block, Place::Region).next(usize::MAX, |Row { from, to, len }| {
            let (from, to, len) = (from * element, to * element, len * element);
            assert!(to + len <= bytes, "a row ends outside of its tile; this is a bug of polyshard");
            // SAFETY: the row is inside of the tile; the rest is the caller's promise.
            unsafe { copier.copy(&source[from..from + len], address.add(to)) };
        });
        copier.finish();
    }
}
