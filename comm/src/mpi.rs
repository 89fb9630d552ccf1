//! The communicator whose ranks are MPI processes.
//!
//! Buffers are passed to MPI directly: messages and broadcasts are not copied, and a call allocates only arrays
//! of one entry per rank or message. Lengths that a C `int` cannot hold are sent as one element of a derived
//! datatype (`span`). Reductions use a scratch buffer that the group reuses (`reduction`).
//!
//! Errors are returned, not fatal: each communicator has `MPI_ERRORS_RETURN`, and each code becomes an
//! [`Error::Mpi`](crate::Error::Mpi) with MPI's own text and the operation (`status`). MPI does not detect that ranks wait for
//! each other, or call different collectives; in programs, whose groups are `watched`, this communicator does.
//!
//! Only this file and its submodules call MPI, and only they are unsafe. They rely on four facts: MPI is initialised and not
//! finalised while a communicator is used (`process`), no call leaves a request behind except in a flight, which owns its
//! buffers (`flight`), other buffers are Rust slices that outlive the call, and no two threads call MPI at the same time
//! (`Handed`). Tests: `runtime/tests/it/comm_mpi.rs`.
#![expect(unsafe_code, reason = "calls the MPI C library")]

mod board;
mod exchange;
mod flight;
mod memory;
mod poll;
pub mod process;
mod reduction;
mod span;
pub mod start;
mod status;
mod watched;

use super::received::Counter;
use super::{
    Broadcast, Carrier, CollectiveCall, Communicator, Flight, Header, Lane, Layout, Piece, Received, SharedMemory,
    Work, alone, check, in_order,
};
use crate::call::{Call, Counts};
use crate::progress::take_back;
use crate::{CommError, Result};
use mpi::ffi;
use span::{Parts, Span, address, address_mut};
use status::checked;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use watched::Watching;

/// All blocking messages have one tag: they match in order, by group and rank.
const TAG: c_int = 0;

/// The carrier of a [`Lane`].
struct Handed(MpiCommunicator);

// SAFETY: only this library communicates over a lane. No two threads call MPI at the same time: all calls are made by the thread that MPI
// belongs to, or, while it computes, by its progress thread, which `process::check_progress` allows if the library does. Before each call
// the former takes back the work that it has lent to the latter (`take_back`), which holds a lock while it calls.
unsafe impl Send for Handed {}

impl Carrier for Handed {
    fn post(&self, sends: Vec<(usize, Arc<Piece>)>, receives: Vec<(usize, Piece)>) -> Result<Flight> {
        Communicator::post(&self.0, sends, receives)
    }

    fn poll(&self, flights: &mut [&mut Flight]) -> Result<usize> {
        Communicator::poll(&self.0, flights)
    }

    fn wait(&self, flights: &mut [&mut Flight]) -> Result<()> {
        Communicator::wait(&self.0, flights)
    }
}

/// One process' view of a group of MPI processes.
pub struct MpiCommunicator {
    handle: ffi::MPI_Comm,
    /// It stays on the thread that MPI belongs to, whatever type a handle is.
    _stays: PhantomData<*const ()>,
    rank: usize,
    size: usize,
    /// Whether the group was split off, and is freed when dropped.
    owned: bool,
    /// The largest count to pass to MPI.
    limit: usize,
    /// Shared by all groups of this process.
    received: Arc<Counter>,
    /// The world ranks of all ranks.
    members: Arc<[usize]>,
    /// How its calls are recorded and compared, in a program.
    watching: Option<Watching>,
    /// Result buffer of reductions; 8-byte words, so that every element type is aligned.
    scratch: RefCell<Vec<u64>>,
}

impl MpiCommunicator {
    /// Sends each rank its parts of `data`, and receives parts of `into` from each (MPI 3.1, section 5.8).
    ///
    /// # Safety
    /// The parts, one per rank, must be inside their buffers.
    unsafe fn all_to_all_parts(&self, data: &[u8], sends: &Parts, into: &mut [u8], receives: &Parts) -> Result<()> {
        // SAFETY: there is one count, start and datatype for each rank, and they describe bytes inside the slices, as the
        // caller promises; these do not overlap, because one is borrowed mutably.
        let code = unsafe {
            ffi::MPI_Alltoallw(
                address(data),
                sends.counts.as_ptr(),
                sends.starts.as_ptr(),
                sends.datatypes.as_ptr(),
                address_mut(into),
                receives.counts.as_ptr(),
                receives.starts.as_ptr(),
                receives.datatypes.as_ptr(),
                self.raw(),
            )
        };
        checked("all-to-all", code)
    }

    /// Returns the group of all processes that the launcher started, and initialises MPI if necessary.
    ///
    /// MPI is then finalised when the process ends. The group is a duplicate of `MPI_COMM_WORLD` (MPI 3.1,
    /// section 6.4.2), so its messages do not match those of other users of MPI in this process.
    ///
    /// # Errors
    /// If MPI has been finalised, was initialised on another thread, or fails.
    pub fn world() -> Result<Self> {
        let raw = process::world()?;
        Self::new(raw, false, c_int::MAX as usize, Arc::default())
    }

    /// Sets the largest count to pass to MPI, at least 1: `i32::MAX`, unless a test wants to exercise longer
    /// messages without gigabytes of data. All ranks must set the same.
    ///
    /// # Panics
    /// If `limit` is 0 or does not fit a C `int`.
    #[track_caller]
    #[must_use]
    pub fn with_count_limit(mut self, limit: usize) -> Self {
        assert!((1..=c_int::MAX as usize).contains(&limit), "a count limit of {limit} does not fit a C int");
        self.limit = limit;
        self
    }

    fn new(raw: ffi::MPI_Comm, owned: bool, limit: usize, received: Arc<Counter>) -> Result<Self> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: `raw` is a live communicator, and the pointers are to locals.
        unsafe {
            checked("setting the error handler", ffi::MPI_Comm_set_errhandler(raw, ffi::RSMPI_ERRORS_RETURN))?;
            checked("asking for the rank", ffi::MPI_Comm_rank(raw, &mut rank))?;
            checked("asking for the size", ffi::MPI_Comm_size(raw, &mut size))?;
        }
        let (rank, size, members) = (rank as usize, size as usize, process::world_ranks(raw, size).into());
        let (_stays, scratch, watching) = (PhantomData, RefCell::default(), None);
        Ok(Self { handle: raw, _stays, rank, size, owned, limit, received, members, watching, scratch })
    }

    fn broadcast_part(&self, part: Broadcast<'_>) -> Result<()> {
        let (root, buffer, len): (usize, *mut c_void, usize) = match part {
            // MPI takes a mutable pointer on all ranks, but writes on the receiving ones only.
            Broadcast::Send(data) => (self.rank, address(data).cast_mut(), data.len()),
            Broadcast::Receive { root, into } => (root, address_mut(into), into.len()),
        };
        let span = self.span(len)?;
        // SAFETY: `buffer` and `len` are those of one slice, borrowed until the end of this call: shared on the
        // root, where MPI reads it (MPI 3.1, section 5.4), and mutable elsewhere, where MPI writes it.
        let code = unsafe { ffi::MPI_Bcast(buffer, span.count, span.datatype, root as c_int, self.raw()) };
        checked("broadcast", code)
    }

    fn all_gather_parts(&self, send: &[u8], into: &mut [u8], counts: &[usize]) -> Result<()> {
        // Every rank has the same counts, so every rank takes the same branch.
        if counts.iter().all(|&count| count == counts[0]) {
            return self.all_gather_equal("all-gather", send, into);
        }
        let int_counts: Vec<c_int> = counts.iter().map(|&count| count as c_int).collect();
        let starts: Vec<c_int> = crate::starts(counts).map(|start| start as c_int).collect();
        // SAFETY: the counts and starts cover `into` exactly and fit a C int, and `send` has this rank's count.
        let code = unsafe {
            ffi::MPI_Allgatherv(
                address(send),
                send.len() as c_int,
                ffi::RSMPI_UINT8_T,
                address_mut(into),
                int_counts.as_ptr(),
                starts.as_ptr(),
                ffi::RSMPI_UINT8_T,
                self.raw(),
            )
        };
        checked("all-gather", code)
    }

    /// Gathers parts that are as long as `send` on all ranks.
    fn all_gather_equal(&self, operation: &str, send: &[u8], into: &mut [u8]) -> Result<()> {
        let span = self.span(send.len())?;
        // SAFETY: `send` has one span, and `into` one span per rank.
        let code = unsafe {
            let (from, to) = (address(send), address_mut(into));
            ffi::MPI_Allgather(from, span.count, span.datatype, to, span.count, span.datatype, self.raw())
        };
        checked(operation, code)
    }

    fn all_gather_headers(&self, header: Header, into: &mut Vec<Header>) -> Result<()> {
        into.clear();
        into.resize(self.size, Header::default());
        self.all_gather_equal("an exchange of headers", bytemuck::bytes_of(&header), bytemuck::cast_slice_mut(into))
    }

    fn raw(&self) -> ffi::MPI_Comm {
        take_back();
        self.handle
    }

    fn span(&self, len: usize) -> Result<Span> {
        Span::new(0, len, self.limit)
    }

    fn count(&self, bytes: usize) {
        self.received.message(bytes);
    }

    /// Returns this rank's part of the group, watched as the group is; see [`Communicator::split`].
    fn divided(&self, color: usize, key: usize) -> Result<Self> {
        let _waiting = self.meets(Call::Split { color, key })?;
        let int = |value, argument| c_int::try_from(value).map_err(|_| CommError::Split { argument, value });
        let (which, key) = (int(color, "color")?, int(key, "key")?);
        // SAFETY: a null handle is a value like any other; MPI overwrites it.
        let mut raw = unsafe { ffi::RSMPI_COMM_NULL };
        // SAFETY: the communicator is live, and `raw` is a local.
        checked("split", unsafe { ffi::MPI_Comm_split(self.raw(), which, key, &mut raw) })?;
        let mut part = Self::new(raw, true, self.limit, Arc::clone(&self.received))?;
        part.watching = self.watching.as_ref().map(|watching| watching.divided(color, &part.members));
        Ok(part)
    }
}

impl Communicator for MpiCommunicator {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn world_rank(&self, rank: usize) -> usize {
        assert!(rank < self.size, "no rank {rank}: the group has ranks 0..{}", self.size);
        self.members[rank]
    }

    fn exchange(&self, sends: &[(usize, &[u8])], receives: &mut [(usize, &mut [u8])]) -> Result<()> {
        process::check_flights()?;
        check::exchange(self.size, self.rank, sends, receives)?;
        let from = receives.iter().map(|(from, into)| (*from, into.len()));
        let _waiting = self.waits(from, sends.iter().map(|(to, data)| (*to, data.len())));
        match (sends, &mut *receives) {
            (&[(to, data)], [(from, into)]) if to != self.rank => self.send_receive(to, data, *from, into),
            (sends, receives) => self.send_receive_all(sends, receives),
        }
    }

    fn post(&self, sends: Vec<(usize, Arc<Piece>)>, receives: Vec<(usize, Piece)>) -> Result<Flight> {
        process::check_flights()?;
        let start = |sends, receives| self.start(sends, receives);
        let mut flight = super::flight::post([self.size, self.rank], &process::dropped(), sends, receives, start)?;
        if let Some(watching) = &self.watching {
            flight.noted = watching.group.note(flight.messages());
        }
        Ok(flight)
    }

    // A rank that polls is not recorded: between two polls it computes, and may still do anything. If it polls for ever for a
    // message that cannot arrive, it hangs like a rank that computes for ever; `wait` is for ranks that have nothing else to do.
    fn poll(&self, flights: &mut [&mut Flight]) -> Result<usize> {
        process::check_flights()?;
        super::flight::poll(flights, &self.received)
    }

    fn wait(&self, flights: &mut [&mut Flight]) -> Result<()> {
        for flight in &mut *flights {
            if Communicator::poll(self, &mut [flight])? == 0 {
                let _waiting = self.watching.as_ref().and_then(|watching| watching.watch.flies(&flight.noted));
                flight.wait()?;
            }
        }
        Communicator::poll(self, flights).map(drop)
    }

    fn collective(&self, collective: CollectiveCall<'_>) -> Result<()> {
        collective.check(self.size, self.rank)?;
        let keep = |counts: &[usize]| match self.is_checked() {
            true => counts.into(),
            false => [counts.iter().sum()].into_iter().collect(),
        };
        let waiting = self.meets(collective.call(self.rank, &|rank| self.members[rank], keep))?;
        if self.size == 1 {
            return alone::carry_out(collective);
        }
        if collective.is_in_order() {
            return in_order::carry_out(self, collective);
        }
        let received = collective.received(self.size, self.rank);
        match collective {
            // Ranks that have agreed have already waited for each other.
            CollectiveCall::Barrier if self.is_checked() && waiting.is_some() => {}
            CollectiveCall::Barrier => {
                // SAFETY: the communicator is live.
                checked("barrier", unsafe { ffi::MPI_Barrier(self.raw()) })?;
            }
            CollectiveCall::Broadcast(part) => self.broadcast_part(part)?,
            // Every rank has the same counts, so every rank takes the same branch.
            CollectiveCall::AllGather { send, into, counts }
                if into.len() > self.limit && counts.iter().any(|&count| count != counts[0]) =>
            {
                return self.all_gather_by_messages(send, into, counts);
            }
            CollectiveCall::AllGather { send, into, counts } => self.all_gather_parts(send, into, counts)?,
            CollectiveCall::AllToAll { send, send_counts, into, receive_counts } => {
                // Alltoallv cannot describe long buffers, and a rank cannot know whether the others' are long. In
                // Alltoallw each rank describes its own as it likes, as long as the bytes agree.
                let from = Parts::new(send_counts, self.limit)?;
                let to = Parts::new(receive_counts, self.limit)?;
                // SAFETY: the parts cover `send` and `into` exactly.
                unsafe { self.all_to_all_parts(send, &from, into, &to) }?;
            }
            CollectiveCall::Reduce { root, data, combining } => {
                self.reduce_pieces(Some(root), data, combining.dtype, combining.op)?
            }
            CollectiveCall::AllReduce { data, combining } => {
                self.reduce_pieces(None, data, combining.dtype, combining.op)?
            }
            CollectiveCall::ReduceScatter { send, into, counts, combining } => {
                self.reduce_scatter_parts(send, into, counts, combining.dtype, combining.op)?;
            }
            CollectiveCall::Headers { header, into, .. } => self.all_gather_headers(header, into)?,
        }
        self.count(received);
        Ok(())
    }

    fn all_to_all_laid_out(
        &self,
        sends: &[Option<Layout>],
        data: &[u8],
        receives: &[Option<Layout>],
        into: &mut [u8],
    ) -> Result<bool> {
        if self.is_checked() {
            // The counts that are compared are those of contiguous buffers.
            return Ok(false);
        }
        let _waiting = self.meets(Call::AllToAll { send: Counts::new(), receive: Counts::new() })?;
        let [out, back] = [(sends, data.len()), (receives, into.len())].map(|(layouts, len)| {
            let ends = layouts.iter().flatten().map(Layout::end);
            assert!(
                ends.max().unwrap_or(0) <= len,
                "a layout leaves a buffer of {len} bytes; this is a bug in polyshard"
            );
            Parts::laid_out(layouts, self.limit)
        });
        // SAFETY: no layout exceeds its slice, as has just been checked.
        unsafe { self.all_to_all_parts(data, &out?, into, &back?) }?;
        self.count(receives.iter().flatten().map(Layout::bytes).sum());
        Ok(true)
    }

    fn split(&self, color: usize, key: usize) -> Result<Box<dyn Communicator>> {
        Ok(Box::new(self.divided(color, key)?))
    }

    fn alone(&self) -> Result<Box<dyn Communicator>> {
        process::check_flights()?;
        take_back();
        // SAFETY: the constant is set once MPI is initialised.
        let raw = process::duplicate(unsafe { ffi::RSMPI_COMM_SELF })?;
        Ok(Box::new(Self::new(raw, true, self.limit, Arc::clone(&self.received))?))
    }

    fn lane(&self) -> Result<Lane> {
        Ok(Lane::new(Handed(self.divided(0, self.rank)?)))
    }

    fn note(&self, work: Option<Work>) {
        if let Some(watching) = &self.watching {
            watching.watch.works(work);
        }
    }

    fn is_checked(&self) -> bool {
        self.watching.as_ref().is_some_and(|watching| watching.is_checked)
    }

    fn count_in_place(&self, bytes: usize) {
        self.received.in_place(bytes);
    }

    fn shared_memory(&self) -> Result<Rc<dyn SharedMemory>> {
        let _waiting = self.meets(Call::SharedMemory)?;
        Ok(Rc::new(memory::NodeMemory::new(self)?))
    }

    fn received(&self) -> Received {
        self.received.get()
    }

    fn abort(&self, message: &str) {
        process::fail(message);
    }
}

impl Drop for MpiCommunicator {
    fn drop(&mut self) {
        if self.owned && process::is_running() {
            take_back();
            // SAFETY: the communicator is live and this was its owner. An error cannot be reported here.
            unsafe { ffi::MPI_Comm_free(ptr::from_mut(&mut self.handle)) };
        }
    }
}
