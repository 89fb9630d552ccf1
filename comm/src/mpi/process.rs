//! MPI in this process: initialisation, finalisation and abort.
//!
//! MPI is initialised once, by the first thread that asks, and stays for the life of the process
//! (MPI 3.1, section 8.7). It is finalised when the process ends normally, after the function given to `before_the_end`. A process that
//! ends with an error code aborts the others too, because `MPI_Finalize` waits for them and they might wait for it.
#![expect(unsafe_code, reason = "calls the MPI C library")]

use super::status::checked;
use crate::flight::Dropped;
use crate::progress::take_back;
use crate::{LaunchError, Result};
use mpi::ffi;
use std::cell::Cell;
use std::ffi::c_int;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;
use std::{io, process, ptr, thread};

thread_local! {
    /// The group of all processes, on the thread that initialised MPI.
    static WORLD: Cell<Option<ffi::MPI_Comm>> = const { Cell::new(None) };
    /// The function to call before MPI is finalised, on the thread that MPI belongs to.
    static LAST: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// Whether this rank has dropped a flight that was not done. Exit handlers check it, too.
static DROPPED: LazyLock<Arc<Dropped>> = LazyLock::new(Arc::default);

/// Whether some thread has a world.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether this process is being aborted, so that its exit handlers must not call MPI.
static ABORTING: AtomicBool = AtomicBool::new(false);

/// Whether several threads may call MPI, one at a time.
static TAKES_TURNS: AtomicBool = AtomicBool::new(false);

/// The last error that all ranks of a group found together.
static TOGETHER: Mutex<Option<String>> = Mutex::new(None);

/// Returns a duplicate of `MPI_COMM_WORLD`, the same one each time.
pub(super) fn world() -> Result<ffi::MPI_Comm> {
    if let Some(world) = WORLD.get() {
        return Ok(world);
    }
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Err(LaunchError::OtherThread.into());
    }
    if flag(ffi::MPI_Finalized) {
        return Err(LaunchError::Finalized.into());
    }
    // Code that initialised MPI before this call also finalises it.
    if !flag(ffi::MPI_Initialized) {
        initialize()?;
    }
    // SAFETY: MPI is initialised.
    let (all, in_turns) = unsafe {
        checked(
            "setting the error handler",
            ffi::MPI_Comm_set_errhandler(ffi::RSMPI_COMM_WORLD, ffi::RSMPI_ERRORS_RETURN),
        )?;
        (ffi::RSMPI_COMM_WORLD, ffi::RSMPI_THREAD_SERIALIZED)
    };
    // Thread levels are ordered by the calls that they allow (MPI 3.1, section 12.4.3).
    TAKES_TURNS.store(answer(ffi::MPI_Query_thread) >= in_turns, Ordering::Relaxed);
    let world = duplicate(all)?;
    WORLD.set(Some(world));
    Ok(world)
}

/// Checks that a progress thread may call MPI while this one does not.
///
/// # Errors
/// [`LaunchError::ThreadLevel`] if other code has initialised MPI for calls of one thread only.
pub fn check_progress() -> Result<()> {
    if TAKES_TURNS.load(Ordering::Relaxed) { Ok(()) } else { Err(LaunchError::ThreadLevel.into()) }
}

/// Has `last` called before MPI is finalised, to notify the others that this process ends.
pub(super) fn before_the_end(last: fn()) {
    LAST.set(Some(last));
}

/// Returns a group of the same processes whose messages match no others; collective (MPI 3.1, section 6.4.2).
pub(super) fn duplicate(comm: ffi::MPI_Comm) -> Result<ffi::MPI_Comm> {
    // SAFETY: a null handle is a value like any other; MPI overwrites it.
    let mut copy = unsafe { ffi::RSMPI_COMM_NULL };
    // SAFETY: MPI is initialised, `comm` is live and `copy` is a local. It inherits the error handler.
    checked("duplicating the world", unsafe { ffi::MPI_Comm_dup(comm, &mut copy) })?;
    Ok(copy)
}

/// Returns whether MPI is initialised and not finalised.
pub(super) fn is_running() -> bool {
    flag(ffi::MPI_Initialized) && !flag(ffi::MPI_Finalized)
}

/// Returns the world ranks of all `size` ranks of a group.
pub(super) fn world_ranks(group: ffi::MPI_Comm, size: c_int) -> Vec<usize> {
    let ranks: Vec<c_int> = (0..size).collect();
    let mut to = ranks.clone();
    // SAFETY: both communicators are live, the groups are freed, and the arrays have the length given. An error
    // leaves the ranks unchanged.
    unsafe {
        let (mut here, mut world) = (ffi::RSMPI_GROUP_NULL, ffi::RSMPI_GROUP_NULL);
        if ffi::MPI_Comm_group(group, &mut here) == 0 {
            if ffi::MPI_Comm_group(ffi::RSMPI_COMM_WORLD, &mut world) == 0 {
                ffi::MPI_Group_translate_ranks(here, size, ranks.as_ptr(), world, to.as_mut_ptr());
                ffi::MPI_Group_free(&mut world);
            }
            ffi::MPI_Group_free(&mut here);
        }
    }
    to.into_iter().map(|rank| rank as usize).collect()
}

/// Returns this process' rank in the world.
fn rank() -> usize {
    let mut rank = 0;
    // SAFETY: MPI is initialised: the caller has a communicator.
    unsafe { ffi::MPI_Comm_rank(ffi::RSMPI_COMM_WORLD, &mut rank) };
    rank as usize
}

/// Returns whether this rank has dropped a flight that was not done.
pub(super) fn dropped() -> Arc<Dropped> {
    Arc::clone(&DROPPED)
}

/// Refuses any call once this rank has dropped a flight that was not done. Afterwards only this thread calls MPI.
pub(super) fn check_flights() -> Result<()> {
    take_back();
    DROPPED.check(rank)
}

/// Records an error that all ranks of a group have found together, so that none of them prints it as its own.
pub(super) fn all_say(message: &str) {
    *TOGETHER.lock().unwrap_or_else(PoisonError::into_inner) = Some(message.into());
}

/// Prints once why the program ends, and ends all its processes with exit code 1.
///
/// Often many ranks fail for the same reason. Rank 0 prints at once, the others wait, higher ranks longer, so that the
/// abort of a lower rank ends them before they print the same: it may take a second with fewer cores than processes.
pub fn fail(message: &str) -> ! {
    take_back();
    let rank = rank();
    if rank > 0 {
        let delay = 1500 + 100 * rank as u64;
        thread::sleep(Duration::from_millis(delay.min(5000)));
    }
    let is_shared = TOGETHER.lock().unwrap_or_else(PoisonError::into_inner).as_deref() == Some(message);
    let text = if is_shared { message.into() } else { crate::named(rank, message) };
    say(&text);
    abort(1)
}

/// As [`fail`], with a message that is not about this rank, on any thread, even while another one is inside MPI.
pub(super) fn fail_for_all(message: &str) -> ! {
    say(message);
    // If the library does not accept the call from this thread, launchers end the others when one process fails.
    let _ = thread::Builder::new().spawn(|| {
        thread::sleep(Duration::from_secs(5));
        // SAFETY: ends the process without its exit handlers, which could wait for the others.
        unsafe { libc::_exit(1) }
    });
    abort(1)
}

/// Prints why the program ends, with the prefix of a program's last line.
fn say(message: &str) {
    // One write, so that lines of different ranks do not mix. A failure to write cannot be reported.
    let _ = io::stderr().write_all(format!("error: {message}\n").as_bytes());
}

fn abort(code: c_int) -> ! {
    ABORTING.store(true, Ordering::SeqCst);
    // SAFETY: MPI is initialised. The call does not return in practice (MPI 3.1, section 8.7).
    unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, code) };
    process::abort()
}

fn initialize() -> Result<()> {
    let mut provided = 0;
    // SAFETY: MPI has not been initialised, and takes null for the arguments of main (MPI 3.1, section 8.7). The thread level provided
    // matters to progress threads only. Libraries take no locks at this level, since threads call them one at a time.
    let code =
        unsafe { ffi::MPI_Init_thread(ptr::null_mut(), ptr::null_mut(), ffi::RSMPI_THREAD_SERIALIZED, &mut provided) };
    checked("initialising MPI", code)?;
    register();
    Ok(())
}

/// Finalises MPI when the process ends with code 0, and aborts all when it ends with another.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn register() {
    unsafe extern "C" {
        /// As `atexit`, but the function receives the exit code.
        fn on_exit(function: extern "C" fn(c_int, *mut std::ffi::c_void), argument: *mut std::ffi::c_void) -> c_int;
    }
    extern "C" fn ending(code: c_int, _argument: *mut std::ffi::c_void) {
        if code != 0 && is_running() && !ABORTING.load(Ordering::SeqCst) {
            abort(code);
        }
        finalize();
    }
    // SAFETY: `ending` takes the arguments that `on_exit` passes. If it cannot be registered, MPI is not finalised.
    unsafe { on_exit(ending, ptr::null_mut()) };
}

/// Finalises MPI when the process ends.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn register() {
    // SAFETY: `finalize` takes and returns nothing. If it cannot be registered, MPI is not finalised.
    unsafe { libc::atexit(finalize) };
}

extern "C" fn finalize() {
    if is_running() && !ABORTING.load(Ordering::SeqCst) {
        if let Some(last) = LAST.get() {
            last();
        }
        // SAFETY: MPI is running, and the process ends. An error cannot be reported here.
        unsafe { ffi::MPI_Finalize() };
    }
}

fn flag(ask: unsafe extern "C" fn(*mut c_int) -> c_int) -> bool {
    answer(ask) != 0
}

/// Returns the number that a call of MPI returns.
fn answer(ask: unsafe extern "C" fn(*mut c_int) -> c_int) -> c_int {
    let mut said = 0;
    // SAFETY: `ask` is MPI_Initialized or MPI_Finalized, which may be called at any time, or MPI_Query_thread, while MPI is initialised.
    unsafe { ask(&mut said) };
    said
}
