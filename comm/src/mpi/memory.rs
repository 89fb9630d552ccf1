//! Memory that MPI processes of one node share: each process maps the segments that the others have published.
#![expect(unsafe_code, reason = "calls the MPI C library")]

use super::MpiCommunicator;
use super::board::Board;
use super::status::{checked, empty};
use super::watched::{BOARD, Watching};
use crate::call::Call;
use crate::{Communicator, Header, Located, Result, SharedMemory, Stranded, exchange_words};
use memmap2::MmapRaw;
use mpi::ffi;
use polyshard_memory::{Handle, Segment, ranks_share, share_none};
use std::cell::{RefCell, RefMut};
use std::collections::{HashMap, HashSet};
use std::ffi::c_int;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::available_parallelism;

/// Maximum number of mappings of other processes' segments that a process keeps for reuse; beyond it, the least recently
/// used is dropped. Linux limits a process to 65530 mappings by default.
const KEPT: usize = 8192;

/// The memory that a process shares with the other processes of its node.
pub(super) struct NodeMemory {
    /// The process of each rank of the group that this was made for, if it shares memory with this one.
    processes: Vec<Option<u32>>,
    is_shared: bool,
    has_core_each: bool,
    /// The mailbox of all ranks, if all share memory.
    board: Option<Board>,
    /// How waits at the mailbox are recorded.
    watching: Option<Watching>,
    comm: ffi::MPI_Comm,
    /// The mapped segments, each with its owner's rank and its id there, the last used at the end.
    mapped: RefCell<Vec<Mapped>>,
}

/// A segment of another process that this one has mapped.
struct Mapped {
    /// The rank that owns it, and its id there.
    owner: (usize, u64),
    pages: Rc<MmapRaw>,
    /// Which parts of it, each of [`PART`] bytes, have been touched.
    touched: Vec<bool>,
}

/// Granularity in bytes at which a segment is touched: page by page takes far longer.
const PART: usize = 1 << 16;

impl Mapped {
    /// Has the system map the pages of this range in advance, unless it has; for ranges shorter than [`PART`] that saves no time.
    fn touch(&mut self, start: usize, bytes: usize) {
        let parts = &mut self.touched[start / PART..(start + bytes).div_ceil(PART)];
        if bytes < PART || parts.iter().all(|touched| *touched) {
            return;
        }
        parts.fill(true);
        // Where the system does not support this, pages are mapped when they are read.
        #[cfg(target_os = "linux")]
        let _ = self.pages.advise_range(memmap2::Advice::PopulateRead, start, bytes);
    }
}

impl NodeMemory {
    /// Returns the memory that the processes of `comm` share; collective over it (MPI 3.1, section 6.4.2).
    ///
    /// Each process maps memory of the next one of its node. If one cannot, no ranks of that node share memory, and one
    /// rank prints a warning.
    pub(super) fn new(comm: &MpiCommunicator) -> Result<Self> {
        // SAFETY: the communicator is live, the constants are set once MPI is initialised, and `raw` is a local.
        let (code, raw) = unsafe {
            let mut raw = ffi::RSMPI_COMM_NULL;
            let (dtype, info) = (ffi::RSMPI_COMM_TYPE_SHARED, ffi::RSMPI_INFO_NULL);
            (ffi::MPI_Comm_split_type(comm.raw(), dtype, comm.rank as c_int, info, &mut raw), raw)
        };
        checked("splitting by node", code)?;
        let node = MpiCommunicator::new(raw, true, comm.limit, Arc::clone(&comm.received))?;
        let refused = if node.size > 1 { refused(&node)? } else { None };
        // The lowest rank of a node names the node.
        let leader = exchange_words(&node, "the leader of a node", [comm.rank as u64])?[0][0];
        let process = u64::from(std::process::id());
        let [first, count] = own_cores();
        let told = exchange_words(comm, "the nodes", [leader, process, u64::from(refused.is_some()), first, count])?;
        let apart = |leader: u64| told.iter().any(|header| header[0] == leader && header[2] != 0);
        if apart(leader) {
            share_none();
        }
        if let Some(rank) = told.iter().position(|header| header[2] != 0)
            && rank == comm.rank
        {
            let why = refused.map_or_else(String::new, |why| why.to_string());
            eprintln!(
                "polyshard: rank {rank} cannot map memory of another process of its node ({why}), so ranks of that \
                 node communicate in messages"
            );
        }
        let near = |(rank, header): (usize, &[u64; 5])| {
            let same = header[0] == leader && (rank == comm.rank || !apart(leader));
            same.then_some(header[1] as u32)
        };
        let processes = told.iter().enumerate().map(near).collect();
        let shares = |(rank, header): (usize, &[u64; 5])| header[0] != rank as u64 && !apart(header[0]);
        let is_shared = told.iter().enumerate().any(shares);
        let all = is_shared && told.iter().all(|header| header[0] == told[0][0]);
        if is_shared && !apart(leader) {
            ranks_share();
        }
        // Calls at a mailbox are not compared.
        let board = if all && !comm.is_checked() { board(comm, told[0][1] as u32)? } else { None };
        let has_core_each = have_cores(told.iter().map(|&[node, _, _, first, count]| [node, first, count]));
        let board = if has_core_each { board.map(Board::looked_at) } else { board };
        let watching = comm.watching.as_ref().map(|it| Watching::new(it.watch, BOARD, &comm.members));
        let (comm, mapped) = (comm.raw(), RefCell::default());
        Ok(Self { processes, is_shared, has_core_each, board, watching, comm, mapped })
    }
}

/// Returns the mailbox of all ranks, made by process `first`, that of rank 0, if all ranks can map it; collective.
fn board(comm: &MpiCommunicator, first: u32) -> Result<Option<Board>> {
    let made = if comm.rank == 0 { Board::make(0, comm.size).ok() } else { None };
    let (board, handle) = made.map_or((None, None), |(board, handle)| (Some(board), Some(handle)));
    let told = exchange_words(comm, "a board", [u64::from(handle.is_some()), handle.unwrap_or(0)])?;
    let [has, handle] = told[0];
    let board = match board {
        None if has == 1 && comm.rank > 0 => Board::find(first, handle, comm.rank, comm.size).ok(),
        board => board,
    };
    let seen = exchange_words(comm, "who sees the board", [u64::from(board.is_some())])?;
    Ok(board.filter(|_| seen.iter().all(|header| header[0] == 1)))
}

/// Returns whether every node has a core for each of its ranks; each rank gives its node, its first core and the number of
/// its cores. A launcher may have bound ranks to cores, each to its own or several to the same.
fn have_cores(ranks: impl Iterator<Item = [u64; 3]>) -> bool {
    // By node, its ranks and the sets of cores that they may run on.
    let mut nodes: HashMap<u64, (u64, HashSet<[u64; 2]>)> = HashMap::new();
    for [node, first, count] in ranks {
        let (ranks, cores) = nodes.entry(node).or_default();
        *ranks += 1;
        cores.insert([first, count]);
    }
    nodes.into_values().all(|(ranks, cores)| ranks <= cores.into_iter().map(|[_, count]| count).sum())
}

/// The first core on which this process may run, and the number of its cores.
fn own_cores() -> [u64; 2] {
    #[cfg(target_os = "linux")]
    if let Ok(cores) = rustix::thread::sched_getaffinity(None) {
        let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|&core| cores.is_set(core));
        return [first.unwrap_or(0) as u64, u64::from(cores.count())];
    }
    [0, available_parallelism().map_or(1, std::num::NonZero::get) as u64]
}

/// Returns why this process cannot map memory of the next one of its node, or make its own; collective over the node.
fn refused(node: &MpiCommunicator) -> Result<Option<io::Error>> {
    /// The byte that each process writes into its own segment.
    const MARK: u8 = 0x5a;
    let made = Segment::new(1).map(|(segment, mut pages)| {
        pages[0] = MARK;
        (segment.handle(0), segment)
    });
    let handle = made.as_ref().ok().and_then(|(handle, _)| *handle);
    let own = [u64::from(std::process::id()), u64::from(handle.is_some()), handle.unwrap_or(0)];
    let told = exchange_words(node, "a first segment", own)?;
    let [process, has, handle] = told[(node.rank + 1) % node.size];
    let seen = match has {
        0 => Err(io::Error::other("it has none to share")),
        // SAFETY: the mapping has a byte, which the owner has written before it published the handle.
        _ => Handle::read(handle).map(process as u32).and_then(|pages| match unsafe { pages.as_ptr().read() } {
            MARK => Ok(()),
            _ => Err(io::Error::other("it is another process' memory")),
        }),
    };
    // The segment is kept until the other process has mapped it.
    node.barrier()?;
    Ok(made.map(drop).and(seen).err())
}

impl NodeMemory {
    /// Lets the library progress messages that other ranks may wait for (MPI 3.1, section 3.8.1).
    fn progress(&self) -> Result<()> {
        let (mut is_there, mut status) = (0, empty());
        // SAFETY: the communicator is live as long as the world whose memory this is, and the pointers are to locals.
        let code = unsafe {
            ffi::MPI_Iprobe(ffi::RSMPI_ANY_SOURCE, ffi::RSMPI_ANY_TAG, self.comm, &mut is_there, &mut status)
        };
        checked("making progress", code)
    }
}

impl NodeMemory {
    /// Returns the mapping of the segment of `rank` that the handle names, made if necessary.
    fn mapping(&self, rank: usize, handle: Handle) -> io::Result<RefMut<'_, Mapped>> {
        let mut mapped = self.mapped.borrow_mut();
        let owner = (rank, handle.id);
        let used = match mapped.iter().rposition(|mapped| mapped.owner == owner) {
            Some(at) => mapped.remove(at),
            None => {
                let process = self.processes[rank];
                let process = process.ok_or_else(|| io::Error::other("it is on another node"))?;
                if mapped.len() == KEPT {
                    mapped.remove(0);
                }
                let pages = Rc::new(handle.map(process)?);
                Mapped { owner, touched: vec![false; pages.len().div_ceil(PART)], pages }
            }
        };
        mapped.push(used);
        Ok(RefMut::map(mapped, |mapped| mapped.last_mut().expect("it has just been put there")))
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

    fn has_core_each(&self) -> bool {
        self.has_core_each
    }

    fn gather(&self, header: Header, into: &mut Vec<Header>) -> Option<Result<()>> {
        let board = self.board.as_ref()?;
        let call = Call::Headers { about: "the inputs of a run".into() };
        let _waiting = self.watching.as_ref().and_then(|watching| watching.watch.meets(&watching.group, call));
        Some(board.gather(header, into, || self.progress()))
    }

    fn segment(&self, handle: u64) -> Option<u64> {
        Some(Handle::read(handle).id)
    }

    fn map(&self, rank: usize, handle: u64) -> io::Result<()> {
        self.mapping(rank, Handle::read(handle)).map(drop)
    }

    fn locate(&self, rank: usize, handle: u64, bytes: usize) -> io::Result<Located> {
        let handle = Handle::read(handle);
        let mut mapped = self.mapping(rank, handle)?;
        let pages = Rc::clone(&mapped.pages);
        if handle.offset.checked_add(bytes).is_none_or(|end| end > pages.len()) {
            return Err(io::Error::other(format!("it has {} bytes", pages.len())));
        }
        mapped.touch(handle.offset, bytes);
        let address = pages.as_mut_ptr().wrapping_add(handle.offset);
        Ok(Located { address, mapping: Some(pages) })
    }

    fn strand(&self, memory: Stranded) {
        // The process ends soon, and mappings in other processes stay valid.
        std::mem::forget(memory);
    }
}

#[cfg(test)]
mod tests {
    use super::have_cores;

    #[test]
    fn ranks_have_a_core_each_if_those_of_each_node_are_no_more_than_its_cores() {
        let have_cores = |ranks: &[[u64; 3]]| have_cores(ranks.iter().copied());
        assert!(have_cores(&[[0, 0, 2], [0, 0, 2]]), "two cores for both");
        assert!(have_cores(&[[0, 0, 1], [0, 1, 1]]), "each bound to its own");
        assert!(!have_cores(&[[0, 0, 1], [0, 0, 1]]), "both bound to the same");
        assert!(!have_cores(&[[0, 0, 2]; 3]), "three on two cores");
        assert!(have_cores(&[[0, 0, 1], [1, 0, 1]]), "a node each");
        assert!(!have_cores(&[[0, 0, 4], [1, 0, 1], [1, 0, 1]]), "the second node has one core for two ranks");
    }
}
