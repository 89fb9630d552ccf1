//! Memory that MPI processes of one node share: windows (MPI 3.1, section 11.2.3), kept in a pool.
//!
//! Allocating and freeing a window is collective, but ranks drop their arrays when they like. So a window is
//! lent as a [`Segment`] and comes back when the segment is dropped; it is lent again once it is back on all
//! ranks, and freed by the next collective call that finds it too small, or at the end of the world. After a
//! failure nothing is freed at all, since somebody would wait for it: the processes end.
//!
//! Every window is in a passive target epoch from its birth to its end (`MPI_Win_lock_all`), in which loads,
//! stores and `MPI_Win_sync` are what there is to use (MPI 3.1, section 11.7).
#![expect(unsafe_code, reason = "calls the MPI C library")]

use super::MpiCommunicator;
use super::status::checked;
use crate::comm::{Allocation, Communicator, SharedMemory};
use crate::{CommError, Error, Result, Segment};
use mpi::ffi;
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::Arc;

/// Segments start at multiples of a cache line, which are multiples of every element's size.
const ALIGN: usize = 64;

/// Where Open MPI and MPICH put windows on Linux.
const SHM: &str = "/dev/shm";

/// Bytes that a window has besides each rank's part, generously.
const PAGE: usize = 8 << 10;

/// Windows that one agreement can speak of, a bit each.
const AGREED: usize = u64::BITS as usize;

thread_local! {
    /// The number of the next window. All ranks count alike, and never anew, because an array may outlive the
    /// world that it was made in.
    static NEXT: Cell<u64> = const { Cell::new(1) };
}

/// The memory that a process shares with the other processes of its node.
pub(super) struct NodeMemory {
    /// All processes that allocate together, of any node.
    origin: Box<dyn Communicator>,
    /// Those of this node.
    node: MpiCommunicator,
    /// For each rank of the origin, its rank in the node if it is of this one.
    places: Vec<Option<usize>>,
    /// Oldest first; the same windows on all ranks.
    windows: RefCell<Vec<Window>>,
}

struct Window {
    raw: ffi::MPI_Win,
    id: u64,
    /// Where this process sees each process' part, by rank in the node, and how many bytes it has.
    parts: Vec<(NonNull<u8>, usize)>,
    /// The bytes of all ranks together.
    total: u64,
    lease: Arc<()>,
}

impl NodeMemory {
    /// Returns the memory that the processes of `comm` share; collective over it (MPI 3.1, section 6.4.2). Of `origin`,
    /// the same processes in the same order, this is the only user.
    pub(super) fn new(comm: &MpiCommunicator, origin: Box<dyn Communicator>) -> Result<Self> {
        // SAFETY: the communicator is live, the constants are set once MPI is initialised, and `raw` is a local.
        let (code, raw) = unsafe {
            let mut raw = ffi::RSMPI_COMM_NULL;
            let (dtype, info) = (ffi::RSMPI_COMM_TYPE_SHARED, ffi::RSMPI_INFO_NULL);
            (ffi::MPI_Comm_split_type(comm.raw, dtype, comm.rank as c_int, info, &mut raw), raw)
        };
        checked("splitting by node", code)?;
        let node = MpiCommunicator::new(raw, true, comm.limit, Rc::clone(&comm.received))?;
        // The least rank of a node is the node's name.
        let leader = node.gather_headers([comm.rank as u64, 0, 0, 0])?[0][0];
        let told = origin.gather_headers([leader, node.rank as u64, 0, 0])?;
        let places = told.iter().map(|header| (header[0] == leader).then_some(header[1] as usize)).collect();
        Ok(Self { origin, node, places, windows: RefCell::default() })
    }

    /// Returns a bit for each window that is back on all ranks, and one for each that also has room for the
    /// `bytes` that each rank wants; collective.
    fn agree(&self, windows: &[Window], bytes: usize) -> Result<[u64; 2]> {
        let mut header = [0; 4];
        for (nth, window) in windows.iter().enumerate().take(AGREED) {
            let back = Arc::strong_count(&window.lease) == 1;
            header[0] |= u64::from(back) << nth;
            header[1] |= u64::from(back && window.parts[self.node.rank].1 >= bytes) << nth;
        }
        let told = self.origin.gather_headers(header)?;
        Ok([0, 1].map(|word| told.iter().fold(u64::MAX, |all, header| all & header[word])))
    }

    /// Frees the windows whose bit is set, oldest first; collective.
    fn free(windows: &mut Vec<Window>, back: u64) -> Result<()> {
        let mut kept = Vec::new();
        let mut freed = Ok(());
        for (nth, mut window) in windows.drain(..).enumerate() {
            if freed.is_err() || nth >= AGREED || back >> nth & 1 == 0 {
                kept.push(window);
                continue;
            }
            // SAFETY: the window is live and no segment of it is left on any rank. It is freed by all ranks of
            // the node in this order.
            freed = unsafe {
                checked("unlocking a window", ffi::MPI_Win_unlock_all(window.raw))
                    .and_then(|()| checked("freeing a window", ffi::MPI_Win_free(&mut window.raw)))
            };
        }
        *windows = kept;
        freed
    }

    /// Allocates a window in which this rank has `bytes` bytes, or says on all ranks why there is none; collective.
    ///
    /// Whether there is enough memory is asked first, since a failure of MPI's ends the program.
    fn allocate(&self, bytes: usize) -> Result<Result<Window, String>> {
        let node = self.node.gather_headers([bytes.saturating_add(PAGE) as u64, 0, 0, 0])?;
        let needed = node.iter().fold(PAGE as u64, |sum, header| sum.saturating_add(header[0]));
        let short = available().is_some_and(|available| available < needed);
        let told = self.origin.gather_headers([bytes as u64, u64::from(short), needed, 0])?;
        if let Some(rank) = told.iter().position(|header| header[1] != 0) {
            let needed = told[rank][2];
            return Ok(Err(format!("{SHM} of rank {rank}'s node has no room for {needed} bytes; make it larger")));
        }
        let total = told.iter().map(|header| header[0]).sum();
        let length =
            ffi::MPI_Aint::try_from(bytes.saturating_add(ALIGN)).map_err(|_| CommError::SharedMemory { bytes })?;
        let mut base: *mut c_void = ptr::null_mut();
        // SAFETY: the communicator is live, its members share memory, and the pointers are to locals.
        let (code, raw) = unsafe {
            let mut raw = ffi::RSMPI_WIN_NULL;
            let address = ptr::from_mut(&mut base).cast();
            let code = ffi::MPI_Win_allocate_shared(length, 1, ffi::RSMPI_INFO_NULL, self.node.raw, address, &mut raw);
            (code, raw)
        };
        // The others of the node may be stuck in the call (Open MPI 4.1 does that), so there is nothing to agree on.
        checked("allocating a window", code).map_err(|error| {
            Error::Mpi(format!(
                "{error}: there is no room for {bytes} bytes of shared memory, redistribute by messages"
            ))
        })?;
        // SAFETY: the window is live.
        unsafe {
            checked("setting the error handler", ffi::MPI_Win_set_errhandler(raw, ffi::RSMPI_ERRORS_RETURN))?;
            checked("locking a window", ffi::MPI_Win_lock_all(ffi::MPI_MODE_NOCHECK as c_int, raw))?;
        }
        let shift = base.cast::<u8>().align_offset(ALIGN);
        let told = self.node.gather_headers([shift as u64, bytes as u64, 0, 0])?;
        let mut parts = Vec::with_capacity(told.len());
        for (rank, &[shift, bytes, ..]) in told.iter().enumerate() {
            let (mut size, mut unit, mut start): (ffi::MPI_Aint, c_int, *mut c_void) = (0, 0, ptr::null_mut());
            // SAFETY: the window is live, `rank` is in its group, and the pointers are to locals.
            let code = unsafe {
                let address = ptr::from_mut(&mut start).cast();
                ffi::MPI_Win_shared_query(raw, rank as c_int, &mut size, &mut unit, address)
            };
            checked("asking for a window's address", code)?;
            // A part is as long as its rank wants, and `ALIGN` more, which is more than any shift.
            let part = NonNull::new(start.cast::<u8>().wrapping_add(shift as usize));
            let part = part.ok_or_else(|| Error::Mpi("a window has no address".into()))?;
            parts.push((part, bytes as usize));
        }
        Ok(Ok(Window { raw, id: NEXT.replace(NEXT.get() + 1), parts, total, lease: Arc::default() }))
    }
}

/// Returns the bytes that are free where MPI libraries put windows on Linux, if that is known.
fn available() -> Option<u64> {
    let path = std::ffi::CString::new(SHM).ok()?;
    // SAFETY: the structure is one of integers, for which zero is a value; the path ends with a zero, and the
    // pointers are to locals.
    let (code, space) = unsafe {
        let mut space: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut space), space)
    };
    #[allow(clippy::useless_conversion, reason = "the fields' types differ by platform")]
    let bytes = || u64::from(space.f_bavail).saturating_mul(u64::from(space.f_frsize));
    (code == 0).then(bytes)
}

impl SharedMemory for NodeMemory {
    fn reaches(&self, rank: usize) -> bool {
        self.places[rank].is_some()
    }

    fn allocate(&self, bytes: usize) -> Result<Allocation> {
        let windows = &mut *self.windows.borrow_mut();
        let [back, room] = self.agree(windows, bytes)?;
        let fit = (0..windows.len().min(AGREED)).filter(|nth| room >> nth & 1 == 1);
        let nth = match fit.min_by_key(|&nth| windows[nth].total) {
            Some(nth) => nth,
            None => {
                Self::free(windows, back)?;
                match self.allocate(bytes)? {
                    Ok(window) => windows.push(window),
                    Err(why) => return Ok(Allocation::Unavailable(why)),
                }
                windows.len() - 1
            }
        };
        let window = &windows[nth];
        let (address, room) = window.parts[self.node.rank];
        // SAFETY: MPI has mapped the part, which the operating system has filled with zeros or another segment
        // with elements, until the window is freed; `free` waits for the lease. No segment of this rank's part
        // lives, since the lease had one owner.
        Ok(Allocation::Shared(unsafe { Segment::new(address, room, window.id, Arc::clone(&window.lease)) }))
    }

    fn handle(&self, _address: *mut u8, segment: Option<&Segment>) -> Option<u64> {
        let id = segment?.id();
        self.windows.borrow().iter().any(|window| window.id == id).then_some(id)
    }

    fn locate(&self, rank: usize, handle: u64, bytes: usize) -> Option<*mut u8> {
        let place = self.places[rank]?;
        let windows = self.windows.borrow();
        let (address, room) = windows.iter().find(|window| window.id == handle)?.parts[place];
        (room >= bytes).then_some(address.as_ptr())
    }

    fn sync(&self) -> Result<()> {
        for window in &*self.windows.borrow() {
            // SAFETY: the window is live and locked.
            checked("synchronising a window", unsafe { ffi::MPI_Win_sync(window.raw) })?;
        }
        Ok(())
    }

    fn close(&self) -> Result<()> {
        let windows = &mut *self.windows.borrow_mut();
        // What an array that outlives the world is in stays until the process ends.
        let [back, _] = self.agree(windows, 0)?;
        Self::free(windows, back)
    }
}
