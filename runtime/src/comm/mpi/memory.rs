//! Memory that MPI processes of one node share: the segments that each of them has made, mapped by the others when they
//! are told of them.
#![expect(unsafe_code, reason = "calls the MPI C library")]

use super::MpiCommunicator;
use super::board::Board;
use super::status::{checked, empty};
use crate::comm::{Communicator, Header, Located, SharedMemory, Stranded};
use crate::memory::{Handle, ranks_share, share_none};
use crate::{Result, Segment};
use memmap2::MmapRaw;
use mpi::ffi;
use std::cell::RefCell;
use std::ffi::c_int;
use std::io;
use std::rc::Rc;

/// Mappings that a process keeps for when it is told of the segment again; with more of them, those are given up that were
/// used longest ago. Linux lets a process have 65530 in all.
const KEPT: usize = 8192;

/// The memory that a process shares with the other processes of its node.
pub(super) struct NodeMemory {
    /// For each rank of the group that this was made for, its process, if it shares memory with this one.
    processes: Vec<Option<u32>>,
    is_shared: bool,
    /// Where all ranks meet, if all share memory.
    board: Option<Board>,
    comm: ffi::MPI_Comm,
    /// The segments that have been mapped, with the ranks that own them and their numbers there, those used last at the end.
    mapped: RefCell<Vec<(usize, u64, Rc<MmapRaw>)>>,
}

impl NodeMemory {
    /// Returns the memory that the processes of `comm` share; collective over it (MPI 3.1, section 6.4.2).
    ///
    /// Each process maps memory of the next one of its node. If one cannot, none of that node shares memory, and that is said
    /// once.
    pub(super) fn new(comm: &MpiCommunicator, has_board: bool) -> Result<Self> {
        // SAFETY: the communicator is live, the constants are set once MPI is initialised, and `raw` is a local.
        let (code, raw) = unsafe {
            let mut raw = ffi::RSMPI_COMM_NULL;
            let (dtype, info) = (ffi::RSMPI_COMM_TYPE_SHARED, ffi::RSMPI_INFO_NULL);
            (ffi::MPI_Comm_split_type(comm.raw, dtype, comm.rank as c_int, info, &mut raw), raw)
        };
        checked("splitting by node", code)?;
        let node = MpiCommunicator::new(raw, true, comm.limit, Rc::clone(&comm.received))?;
        let refused = if node.size > 1 { refused(&node)? } else { None };
        // The least rank of a node is the node's name.
        let leader = node.gather_headers([comm.rank as u64, 0, 0, 0])?[0][0];
        let process = u64::from(std::process::id());
        let told = comm.gather_headers([leader, process, u64::from(refused.is_some()), 0])?;
        let apart = |leader: u64| told.iter().any(|header| header[0] == leader && header[2] != 0);
        if apart(leader) {
            share_none();
        }
        if let Some(rank) = told.iter().position(|header| header[2] != 0)
            && rank == comm.rank
        {
            let why = refused.map_or_else(String::new, |why| why.to_string());
            eprintln!(
                "polyshard: rank {rank} cannot map memory of another process of its node ({why}), so ranks of that node \
                 communicate by messages"
            );
        }
        let near = |(rank, header): (usize, &[u64; 4])| {
            let same = header[0] == leader && (rank == comm.rank || !apart(leader));
            same.then_some(header[1] as u32)
        };
        let processes = told.iter().enumerate().map(near).collect();
        let shares = |(rank, header): (usize, &[u64; 4])| header[0] != rank as u64 && !apart(header[0]);
        let is_shared = told.iter().enumerate().any(shares);
        let all = is_shared && told.iter().all(|header| header[0] == told[0][0]);
        if is_shared && !apart(leader) {
            ranks_share();
        }
        let board = if has_board && all { board(comm, told[0][1] as u32)? } else { None };
        Ok(Self { processes, is_shared, board, comm: comm.raw, mapped: RefCell::default() })
    }
}

/// Returns the board of all ranks, the first of which is this process, if all see it; collective.
fn board(comm: &MpiCommunicator, first: u32) -> Result<Option<Board>> {
    let made = if comm.rank == 0 { Board::make(0, comm.size).ok() } else { None };
    let (board, handle) = made.map_or((None, None), |(board, handle)| (Some(board), Some(handle)));
    let told = comm.gather_headers([u64::from(handle.is_some()), handle.unwrap_or(0), 0, 0])?;
    let [has, handle, ..] = told[0];
    let board = match board {
        None if has == 1 && comm.rank > 0 => Board::find(first, handle, comm.rank, comm.size).ok(),
        board => board,
    };
    let seen = comm.gather_headers([u64::from(board.is_some()), 0, 0, 0])?;
    Ok(board.filter(|_| seen.iter().all(|header| header[0] == 1)))
}

/// Returns why this process cannot map memory of the next one of its node, or make some itself; collective over the node.
fn refused(node: &MpiCommunicator) -> Result<Option<io::Error>> {
    /// What each writes into its own.
    const MARK: u8 = 0x5a;
    let made = Segment::new(1).map(|(segment, mut pages)| {
        pages[0] = MARK;
        (segment.handle(0), segment)
    });
    let handle = made.as_ref().ok().and_then(|(handle, _)| *handle);
    let own = [u64::from(std::process::id()), u64::from(handle.is_some()), handle.unwrap_or(0), 0];
    let told = node.gather_headers(own)?;
    let [process, has, handle, _] = told[(node.rank + 1) % node.size];
    let seen = match has {
        0 => Err(io::Error::other("it has none to share")),
        // SAFETY: what is mapped has a byte, which the owner has written before it told the handle.
        _ => Handle::read(handle).map(process as u32).and_then(|pages| match unsafe { pages.as_ptr().read() } {
            MARK => Ok(()),
            _ => Err(io::Error::other("it is another process' memory")),
        }),
    };
    // The segment stays until the other has mapped it.
    node.barrier()?;
    Ok(made.map(drop).and(seen).err())
}

impl NodeMemory {
    /// Lets the library go on with messages that other ranks may wait for (MPI 3.1, section 3.8.1).
    fn progress(&self) -> Result<()> {
        let (mut is_there, mut status) = (0, empty());
        // SAFETY: the communicator is live as long as the world whose memory this is, and the pointers are to locals.
        let code = unsafe {
            ffi::MPI_Iprobe(ffi::RSMPI_ANY_SOURCE, ffi::RSMPI_ANY_TAG, self.comm, &mut is_there, &mut status)
        };
        checked("making progress", code)
    }
}

impl SharedMemory for NodeMemory {
    fn reaches(&self, rank: usize) -> bool {
        self.processes[rank].is_some()
    }

    fn handle(&self, _address: *const u8, segment: Option<(&Segment, usize)>) -> Option<u64> {
        let (segment, offset) = segment?;
        segment.handle(offset)
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn gather(&self, notice: Header, told: &mut Vec<Header>) -> Option<Result<()>> {
        self.board.as_ref().map(|board| board.gather(notice, told, || self.progress()))
    }

    fn meet(&self) -> Option<Result<()>> {
        self.board.as_ref().map(|board| board.meet(|| self.progress()))
    }

    fn locate(&self, rank: usize, handle: u64, bytes: usize) -> io::Result<Located> {
        let handle = Handle::read(handle);
        let mut mapped = self.mapped.borrow_mut();
        let known = mapped.iter().rposition(|(owner, id, _)| (*owner, *id) == (rank, handle.id));
        let pages = match known {
            Some(at) => mapped.remove(at).2,
            None => {
                let process = self.processes[rank];
                let process = process.ok_or_else(|| io::Error::other("it is on another node"))?;
                if mapped.len() == KEPT {
                    mapped.remove(0);
                }
                Rc::new(handle.map(process)?)
            }
        };
        if handle.offset.checked_add(bytes).is_none_or(|end| end > pages.len()) {
            return Err(io::Error::other(format!("it has {} bytes", pages.len())));
        }
        let address = pages.as_mut_ptr().wrapping_add(handle.offset);
        mapped.push((rank, handle.id, Rc::clone(&pages)));
        Ok(Located { address, mapping: Some(pages) })
    }

    fn strand(&self, memory: Stranded) {
        // The process ends soon, and what others have mapped stays theirs.
        std::mem::forget(memory);
    }
}
