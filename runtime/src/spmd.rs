//! Running one function on every rank, on MPI processes or on threads.
//!
//! The launcher provides the ranks, so one binary runs under `mpirun` and without it. A failure of one rank ends all of them: threads get
//! an error from the call in which they wait, MPI processes are aborted. No panic hook is installed; panics are caught and reported with
//! their message.

mod exit;
mod threads;

use crate::comm::{Communicator, exchange_words};
use crate::leaf::Vectors;
use crate::{Backend, Error, LaunchError, Progress, Result, Transport, World};
pub use exit::exit;
use polyshard_comm::checking;
use polyshard_comm::launcher::{Launcher, launcher};
use polyshard_comm::threads::{Failure, Shared, ThreadComm};
use std::any::Any;
use std::cell::Cell;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

/// Bytes of a rank's stack. The address space is reserved, the memory is not.
const STACK: usize = 8 << 20;

thread_local! {
    /// Whether this thread is a rank.
    static IS_RANK: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` once per rank, on `ranks` ranks, and returns the results of this process' ranks in rank order.
///
/// If the process was started by an MPI launcher, each process is one rank and gets one result; there must be `ranks` processes, or only
/// one, which runs the ranks as threads. Otherwise the ranks are threads of this process, and all results are returned.
///
/// ```
/// # use polyshard::runtime::{Error, spmd};
/// let squares = spmd(4, |world| -> Result<_, Error> { Ok(world.rank() * world.rank()) })?;
/// assert_eq!(squares, [0, 1, 4, 9]);
/// # Ok::<(), Error>(())
/// ```
///
/// `E` is the caller's error type: any type that can be made from [`Error`] and printed, such as [`Error`] itself or
/// `Box<dyn std::error::Error>`.
///
/// # Errors
/// On threads, the first failure of a rank, as `rank 3: message` or `rank 3 panicked: message`, after all
/// ranks have ended; of ranks with the same message, the lowest is named. If ranks disagreed or deadlocked,
/// the message that names each of them. [`LaunchError`] if `ranks` is 0 or more than a process can have threads, this
/// is called inside of `f`, the process was started by an MPI launcher but the crate was built without the feature
/// `mpi`, or a variable `POLYSHARD_..` in the environment has an invalid value.
///
/// # Aborts
/// On MPI, any of these failures, or a number of processes other than `ranks`, is printed once on standard error, after `error: `, and ends
/// all processes with exit code 1 (MPI 3.1, section 8.7): this function does not return.
///
/// # Ranks out of step
/// Ranks that wait for each other, or for one that has returned from `f` or whose process has ended, get an error on threads. On MPI a rank
/// that has waited for 10 s asks the others for their state. If all ranks that it waits for are waiting too or have ended, the program ends
/// with exit code 1:
///
/// ```text
/// error: the ranks wait for each other: ranks 0 and 2 wait in barrier; rank 1 waits to receive 8 bytes from rank 0; rank 3
/// has ended
/// ```
///
/// For a rank that computes, the others wait as long as it takes, and one of them prints where all ranks are, once for each such wait.
/// `POLYSHARD_WAIT_SECONDS` in the environment sets another time. Ranks ask by UDP datagrams, within a host by its loopback interface; if
/// none get through, a rank prints where it waits itself, and keeps waiting. Calls cost the same as without. Different collectives that
/// complete in MPI anyway are found in [checked programs](spmd_checked) only.
pub fn spmd<R, E, F>(ranks: usize, f: F) -> Result<Vec<R>, E>
where
    R: Send,
    E: From<Error> + Display,
    F: Fn(&World) -> Result<R, E> + Sync,
{
    start(ranks, false, f)
}

/// As [`spmd`](spmd()), and on MPI every call of a communicator is checked: ranks that call different collectives, or pass different roots,
/// counts or scalars of a run, get an error that names the call of each of them, immediately. Threads are always checked. Results have the
/// same bits.
///
/// Checked collectives take several times as long, because the group's first rank receives a message from all others before each. In a
/// program that calls [`spmd`](spmd()), `POLYSHARD_CHECK=1` in the environment of one of the processes does the same.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::runtime::{Error, spmd_checked};
/// let result = spmd_checked(2, |world| {
///     let mut data = [0.0; 3];
///     // Every rank passes itself as root.
///     world.broadcast(&mut data, world.rank())?;
///     Ok::<_, Error>(data)
/// });
/// assert_eq!(
///     result.unwrap_err().to_string(),
///     "rank 0 calls broadcast from 0 of 24 bytes, rank 1 calls broadcast from 1 of 24 bytes: ranks of one group must \
///      call the same"
/// );
/// ```
///
/// # Errors
/// As [`spmd`](spmd()).
///
/// # Aborts
/// As [`spmd`](spmd()).
pub fn spmd_checked<R, E, F>(ranks: usize, f: F) -> Result<Vec<R>, E>
where
    R: Send,
    E: From<Error> + Display,
    F: Fn(&World) -> Result<R, E> + Sync,
{
    start(ranks, true, f)
}

fn start<R, E, F>(ranks: usize, checked: bool, f: F) -> Result<Vec<R>, E>
where
    R: Send,
    E: From<Error> + Display,
    F: Fn(&World) -> Result<R, E> + Sync,
{
    check_outside()?;
    // A single process started by a launcher has no other to wait for, and may have threads.
    let is_alone = |launcher: &Launcher| launcher.size == Some(1) && (ranks > 1 || cfg!(not(feature = "mpi")));
    match launcher().filter(|launcher| !is_alone(launcher)) {
        Some(launcher) => on_mpi(&launcher, ranks, checked, f),
        None => on_threads(ranks, |comm| Ok(Rc::new(comm)), f),
    }
}

/// Returns the number of ranks that an MPI launcher started, if one started this process and states it.
///
/// Does not initialise MPI: launchers pass it to their processes in the environment.
///
/// ```
/// assert_eq!(polyshard::launched_ranks(), None); // not under `mpirun`
/// ```
#[must_use]
pub fn launched_ranks() -> Option<usize> {
    launcher()?.size
}

/// Returns the rank that this process will have, if an MPI launcher started it and states it.
///
/// Does not initialise MPI: a program that ends before MPI starts can let one process print for all of them. Under a launcher that states
/// no rank, each process has to print for itself.
#[must_use]
pub fn launched_rank() -> Option<usize> {
    launcher()?.rank
}

/// Returns an error if ranks would start ranks.
pub(crate) fn check_outside() -> Result<()> {
    if IS_RANK.get() { Err(LaunchError::Nested.into()) } else { Ok(()) }
}

fn check_ranks(ranks: usize) -> Result<()> {
    if ranks == 0 { Err(LaunchError::NoRanks.into()) } else { Ok(()) }
}

/// Runs `f` on `ranks` threads, in the world that `world` makes from a thread's communicator, on that thread.
pub(crate) fn on_threads<R, E, F, W>(ranks: usize, world: W, f: F) -> Result<Vec<R>, E>
where
    R: Send,
    E: From<Error> + Display,
    F: Fn(&World) -> Result<R, E> + Sync,
    W: Fn(ThreadComm) -> Result<Rc<dyn Communicator>> + Sync,
{
    check_ranks(ranks)?;
    threads::check(ranks)?;
    let shared = Arc::new(Shared::new(ranks));
    let results: Vec<Option<R>> = thread::scope(|scope| {
        let mut threads = Vec::with_capacity(ranks);
        for rank in 0..ranks {
            let (shared, world, f) = (&shared, &world, &f);
            let builder = thread::Builder::new().name(format!("rank {rank}")).stack_size(STACK);
            match builder.spawn_scoped(scope, move || run_thread(shared, rank, world, f)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    let message =
                        format!("cannot start a thread: {error}; use fewer ranks, or processes under `mpirun`");
                    shared.fail(Failure::Error { rank, message });
                    break;
                }
            }
        }
        // A rank's panics are caught on its thread, so a panic here is one of dropping them.
        threads.into_iter().map(|thread| thread.join().unwrap_or(None)).collect()
    });
    // Ranks may handle a disagreement and continue; then it is not a failure of the program.
    let failure = shared.failure();
    let results: Option<Vec<R>> = results.into_iter().collect();
    match (results, failure) {
        (Some(results), None | Some(Failure::Mismatch(_))) => Ok(results),
        (_, Some(failure)) => Err(told(failure).into()),
        (None, None) => panic!("a rank ended without a result and without a failure: this is a bug in polyshard"),
    }
}

/// Runs `f` as one rank, on its thread; `None` means that the world has failed.
fn run_thread<R, E, F, W>(shared: &Arc<Shared>, rank: usize, world: W, f: F) -> Option<R>
where
    E: Display,
    F: Fn(&World) -> Result<R, E>,
    W: Fn(ThreadComm) -> Result<Rc<dyn Communicator>>,
{
    IS_RANK.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| {
        let comm = world(ThreadComm::world(Arc::clone(shared), rank)).map_err(|error| error.to_string())?;
        let world = World::new(comm, Backend::Threads);
        set_up(&world).map_err(|error| error.to_string())?;
        f(&world).map_err(|error| error.to_string())
    }));
    // The first failure counts: a rank that failed because of another's adds nothing.
    let result = match result {
        Ok(Ok(result)) => Some(result),
        Ok(Err(message)) => {
            shared.fail(Failure::Error { rank, message });
            None
        }
        Err(payload) => {
            shared.fail(Failure::Panic { rank, message: panic_message(&*payload) });
            None
        }
    };
    shared.end(rank);
    result
}

/// Applies the environment's settings of communication and matrix products.
fn set_up(world: &World) -> Result<()> {
    // Threads are always checked, so there is only a mistake to report.
    checking::settings(true)?;
    decide_vectors(world)?;
    world.set_transport(Transport::of_environment()?);
    world.set_progress(Progress::of_environment()?)
}

/// Decides which vectors products use, the best that all ranks have; collective if ranks are processes.
fn decide_vectors(world: &World) -> Result<()> {
    let mine = Vectors::of_environment().map_err(|value| {
        let name = "POLYSHARD_AVX512";
        LaunchError::Variable { name, value: value.into(), expected: "1 or 0".into() }
    })?;
    let least = match world.backend() {
        Backend::Threads => None,
        Backend::Mpi => {
            let all = exchange_words(world.comm(), "which vectors products use", [mine as u64])?;
            all.iter().map(|&[word]| Vectors::of(word)).min()
        }
    };
    least.unwrap_or(mine).put_to_use();
    Ok(())
}

fn told(failure: Failure) -> Error {
    match failure {
        Failure::Mismatch(message) => Error::Mismatch(message),
        Failure::Error { rank, message } => Error::Failed { rank, message },
        Failure::Panic { rank, message } => Error::Failed { rank, message: format!("rank {rank} panicked: {message}") },
    }
}

#[cfg(not(feature = "mpi"))]
fn on_mpi<R, E: From<Error>, F>(launcher: &Launcher, _ranks: usize, _checked: bool, _f: F) -> Result<Vec<R>, E> {
    let Launcher { name: launcher, variable, .. } = *launcher;
    Err(Error::from(LaunchError::WithoutMpi { launcher, variable }).into())
}

#[cfg(feature = "mpi")]
fn on_mpi<R, E, F>(launcher: &Launcher, ranks: usize, checked: bool, f: F) -> Result<Vec<R>, E>
where
    E: From<Error> + Display,
    F: Fn(&World) -> Result<R, E>,
{
    use polyshard_comm::mpi::{MpiCommunicator, process::fail, start::Start};
    let size = MpiCommunicator::world().map_err(Error::from)?.size();
    let start = check_ranks(ranks).and_then(|()| check_processes(launcher, ranks, size));
    let start = start.and_then(|()| Ok(Start::new(checked)?)).unwrap_or_else(|error| fail(&error.to_string()));
    let comm = start.comm();
    let rank = comm.rank();
    IS_RANK.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| {
        let world = World::new(Rc::clone(&comm), Backend::Mpi);
        set_up(&world).map_err(|error| error.to_string())?;
        // Whether arrays are shared is known before the first of them is made.
        world.memory().map_err(|error| error.to_string())?;
        let result = f(&world).map_err(|error| error.to_string());
        // No rank returns before all have succeeded, as on threads.
        result.and_then(|result| start.end().map(|()| result).map_err(|error| error.to_string()))
    }));
    IS_RANK.set(false);
    match result {
        Ok(Ok(result)) => Ok(vec![result]),
        Ok(Err(message)) => fail(&message),
        Err(payload) => fail(&format!("rank {rank} panicked: {}", panic_message(&*payload))),
    }
}

#[cfg(feature = "mpi")]
fn check_processes(launcher: &Launcher, ranks: usize, size: usize) -> Result<()> {
    match launcher.size {
        // Each process is then a world by itself, and would run the whole program alone.
        Some(started) if started != size => {
            Err(LaunchError::OtherMpi { launcher: launcher.name, started, size }.into())
        }
        _ if size != ranks => Err(LaunchError::Processes { ranks, size }.into()),
        _ => Ok(()),
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("the payload is not text").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::Combining;
    use crate::{DType, ReduceOp};

    #[track_caller]
    fn check<R: Send>(expected: &str, f: impl Fn(&World) -> Result<R, Box<dyn std::error::Error>> + Sync) {
        let error = spmd(4, f).err().expect("a rank should fail");
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn results_are_in_rank_order_each_time() {
        for ranks in [1, 5, 2] {
            let ranks_seen = spmd(ranks, |world| -> Result<_> {
                assert_eq!((world.size(), world.backend()), (ranks, Backend::Threads));
                assert_eq!(thread::current().name(), Some(&*format!("rank {}", world.rank())));
                Ok(world.rank())
            });
            assert_eq!(ranks_seen.unwrap(), (0..ranks).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_first_failure_is_told_and_not_what_the_others_got() {
        check("rank 3: invalid digit found in string", |world| {
            if world.rank() == 3 {
                "seven".parse::<i32>()?;
            }
            Ok(world.comm().barrier()?)
        });
        check("rank 2: no rank 7: the group has ranks 0..4", |world| {
            if world.rank() == 2 { Ok(world.comm().send(7, &[])?) } else { Ok(world.comm().receive(2, &mut [0])?) }
        });
        check("rank 1 panicked: 3 is too many", |world| {
            assert!(world.rank() != 1, "{} is too many", 3);
            // A rank that panics because of another's failure is not the first.
            world.comm().barrier().unwrap();
            Ok(())
        });
        check("rank 0 panicked: the payload is not text", |world| {
            if world.rank() == 0 {
                std::panic::panic_any(7);
            }
            Ok(world
                .comm()
                .all_reduce(&mut [0; 4], Combining::any_order(DType::F32, ReduceOp::Sum))
                .map_err(|_| "told")?)
        });
    }

    #[test]
    fn a_disagreement_is_told_without_a_rank_before_it() {
        check("the ranks wait for each other: ranks 0 to 2 wait in barrier; rank 3 has ended", |world| {
            if world.rank() == 3 { Ok(()) } else { Ok(world.comm().barrier()?) }
        });
    }

    #[test]
    fn no_ranks_and_ranks_that_start_ranks_are_refused() {
        let error = spmd(0, |_| -> Result<()> { Ok(()) }).unwrap_err();
        assert_eq!(error, Error::Launch(LaunchError::NoRanks));
        assert_eq!(error.to_string(), "`spmd` was asked for 0 ranks: it takes at least 1");
        let error = spmd(1, |_| spmd(1, |_| -> Result<()> { Ok(()) })).unwrap_err();
        assert!(error.to_string().starts_with("rank 0: `spmd` was called inside of `spmd`"), "{error}");
    }
}
