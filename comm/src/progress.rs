//! Drives messages while a leaf computes: the rank polls between slices of the leaf, or a progress thread polls beside it.
//!
//! Most of the work of a message is done inside calls of its sender and receiver. While neither calls, arrived data stay in the
//! buffers of the system, and relays do not forward. Slices need no thread; a progress thread needs an idle core, and also works for
//! leaves that cannot be cut.
//!
//! ```text
//! rank               computes a leaf ------------------------------->  continues
//! progress thread    sleeps   polls   polls   all done: sleeps
//! ```
//!
//! In-flight transfers have one lock, and the thread polls only while a [`Polled`] exists. A rank that calls MPI meanwhile takes its
//! transfers back, so only one thread of a rank communicates at a time. Messages and their order are the same either way, and so is
//! every bit of the result.

use crate::{LaunchError, Result, checking};
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long the thread sleeps between two polls: the system's buffers have room for data that arrive meanwhile, and another thread that
/// shares the core gets most of it.
const INTERVAL: Duration = Duration::from_micros(50);

/// How messages progress while a rank computes a leaf: transfers that begin before their data are read, and sends that overlap the next
/// leaf.
///
/// ```
/// use polyshard::runtime::Progress;
/// polyshard::spmd(2, |world| {
///     world.set_progress(Progress::Thread)?;
///     assert_eq!(world.progress(), Progress::Thread);
///     Ok(())
/// })?;
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Progress {
    /// The rank cuts its leaves into slices while transfers are in flight, and polls between them.
    #[default]
    Slices,
    /// Each rank has a progress thread, and computes leaves as a whole: faster if each rank has a spare core for it, and slower if
    /// not. MPI must be initialised with at least `MPI_THREAD_SERIALIZED`, as this library does unless other code has initialised it.
    Thread,
}

impl Progress {
    /// Returns the value that the environment sets, `POLYSHARD_PROGRESS`.
    ///
    /// # Errors
    /// [`LaunchError::Variable`] if that is not a known name.
    #[doc(hidden)]
    pub fn of_environment() -> Result<Self> {
        Self::named(checking::variable("POLYSHARD_PROGRESS"))
    }

    /// Returns the value of this name, or the default without a name.
    fn named(name: Option<String>) -> Result<Self> {
        let choices = [("slices", Self::Slices), ("thread", Self::Thread)];
        checking::chosen("POLYSHARD_PROGRESS", name, Self::Slices, &choices)
    }
}

/// Something that can be polled to make progress.
pub trait Advance: Send {
    /// Makes progress without waiting; returns whether something is left.
    ///
    /// # Errors
    /// If a transfer fails, and then the same error again.
    fn advance(&mut self) -> Result<bool>;

    /// Returns whether all transfers that began have been waited for.
    fn is_idle(&self) -> bool;
}

/// In-flight transfers, for [`Poller::poll_meanwhile`].
pub type PollHandle = Arc<Mutex<dyn Advance>>;

fn lock<T: ?Sized>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the progress thread polling until dropped, if the rank has one; see [`Poller::poll_meanwhile`].
#[must_use = "the progress thread stops when this is dropped"]
pub struct Polled(Option<Rc<ProgressThread>>);

impl Drop for Polled {
    fn drop(&mut self) {
        if let Some(panic) = self.0.as_ref().and_then(|thread| thread.recall())
            && !thread::panicking()
        {
            // It ends the run as a panic of the rank does.
            resume_unwind(panic);
        }
    }
}

/// A rank's progress thread, if it has one.
#[derive(Default)]
pub struct Poller(RefCell<Option<Rc<ProgressThread>>>);

impl Poller {
    /// Returns whether the rank has a thread.
    #[must_use]
    pub fn progress(&self) -> Progress {
        progress(&self.0.borrow())
    }

    /// Starts the thread of `rank`, or ends it.
    ///
    /// # Errors
    /// [`LaunchError::ProgressThread`] if the system cannot start it.
    pub fn set(&self, progress: Progress, rank: usize) -> Result<()> {
        let mut thread = self.0.borrow_mut();
        // The old thread lives as long as a `Polled` exists, and no other thread may poll its transfers meanwhile.
        if self::progress(&thread) != progress {
            take_back();
        }
        match progress {
            Progress::Slices => *thread = None,
            Progress::Thread if thread.is_some() => {}
            Progress::Thread => *thread = Some(Rc::new(ProgressThread::start(rank)?)),
        }
        Ok(())
    }

    /// Has the thread poll these transfers until the returned guard is dropped.
    pub fn poll_meanwhile(&self, what: impl IntoIterator<Item = PollHandle>) -> Polled {
        let thread = self.0.borrow().clone();
        if let Some(thread) = &thread {
            thread.lend(what);
        }
        Polled(thread)
    }
}

fn progress(thread: &Option<Rc<ProgressThread>>) -> Progress {
    if thread.is_some() { Progress::Thread } else { Progress::Slices }
}

thread_local! {
    /// The desk that this rank has lent transfers to, until it takes them back.
    static LENT: RefCell<Option<Arc<Desk>>> = const { RefCell::new(None) };
}

/// Takes back the transfers that this thread's rank has lent to its progress thread, which does not communicate afterwards.
pub fn take_back() {
    // A thread that ends has lent nothing.
    let lent = LENT.try_with(RefCell::take).ok().flatten();
    if let Some(desk) = lent {
        desk.lock().lent.clear();
    }
}

struct ProgressThread {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by the rank and its progress thread. While transfers are lent, only the holder of the lock communicates.
#[derive(Default)]
struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The transfers to poll, which are not done.
    lent: Vec<PollHandle>,
    /// The payload of a poll's panic.
    panic: Option<Box<dyn Any + Send>>,
    is_over: bool,
}

impl ProgressThread {
    fn start(rank: usize) -> Result<Self> {
        let desk = Arc::<Desk>::default();
        let shared = Arc::clone(&desk);
        let thread = thread::Builder::new().name(format!("progress of rank {rank}")).spawn(move || shared.work());
        let thread = thread.map_err(|error| LaunchError::ProgressThread { why: error.to_string() })?;
        Ok(Self { desk, thread: Some(thread) })
    }

    fn lend(&self, what: impl IntoIterator<Item = PollHandle>) {
        let mut state = self.desk.lock();
        state.lent.extend(what.into_iter().filter(|one| !lock(one).is_idle()));
        if !state.lent.is_empty() {
            LENT.set(Some(Arc::clone(&self.desk)));
            self.desk.changed.notify_one();
        }
    }

    /// Takes back all lent transfers; returns the payload of the thread's panic.
    fn recall(&self) -> Option<Box<dyn Any + Send>> {
        // Transfers may have been lent to another thread since.
        LENT.with_borrow_mut(|lent| _ = lent.take_if(|desk| Arc::ptr_eq(desk, &self.desk)));
        // The lock is free between polls.
        let mut state = self.desk.lock();
        state.lent.clear();
        state.panic.take()
    }
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        self.desk.lock().is_over = true;
        self.desk.changed.notify_one();
        // Its panics are caught in `work`.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Polls lent transfers, and sleeps when nothing is lent.
    fn work(&self) {
        let mut state = self.lock();
        while !state.is_over {
            let State { lent, panic, .. } = &mut *state;
            lent.retain(|one| match catch_unwind(AssertUnwindSafe(|| lock(one).advance())) {
                Ok(Ok(is_under_way)) => is_under_way,
                // The rank gets the error when it polls or waits.
                Ok(Err(_)) => false,
                Err(payload) => {
                    panic.get_or_insert(payload);
                    false
                }
            });
            state = if state.lent.is_empty() {
                self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.changed.wait_timeout(state, INTERVAL).unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Reports on which thread it is polled, and calls the function.
    struct Watched(Sender<Option<String>>, fn() -> Result<bool>);

    impl Advance for Watched {
        fn advance(&mut self) -> Result<bool> {
            // The receiver may be gone when a test ends.
            let _ = self.0.send(thread::current().name().map(str::to_owned));
            self.1()
        }

        fn is_idle(&self) -> bool {
            false
        }
    }

    fn watched(does: fn() -> Result<bool>) -> (PollHandle, Receiver<Option<String>>) {
        let (sender, polls) = channel();
        (Arc::new(Mutex::new(Watched(sender, does))), polls)
    }

    fn poller() -> Poller {
        let poller = Poller::default();
        poller.set(Progress::Thread, 3).expect("a thread");
        poller
    }

    #[test]
    fn what_is_lent_is_polled_by_the_thread_until_it_is_taken_back() {
        let (poller, (what, polls)) = (poller(), watched(|| Ok(true)));
        for _ in 0..3 {
            let polled = poller.poll_meanwhile([what.clone()]);
            for _ in 0..5 {
                let by = polls.recv().expect("it is polled");
                assert_eq!(by.as_deref(), Some("progress of rank 3"));
            }
            drop(polled);
            while polls.try_recv().is_ok() {}
            thread::sleep(20 * INTERVAL);
            assert!(polls.try_recv().is_err(), "it is polled after it was taken back");
        }
    }

    #[test]
    fn a_rank_that_calls_mpi_takes_back_what_it_has_lent() {
        let (poller, (what, polls)) = (poller(), watched(|| Ok(true)));
        let polled = poller.poll_meanwhile([what.clone()]);
        polls.recv().expect("it is polled");
        take_back();
        while polls.try_recv().is_ok() {}
        thread::sleep(20 * INTERVAL);
        assert!(polls.try_recv().is_err(), "it is polled after it was taken back");
        drop(polled);
        // It may be lent again.
        let polled = poller.poll_meanwhile([what]);
        polls.recv().expect("it is polled");
        drop(polled);
    }

    #[test]
    fn a_thread_that_is_replaced_polls_no_more_and_the_next_is_taken_back() {
        let (poller, (what, polls)) = (poller(), watched(|| Ok(true)));
        let first = poller.poll_meanwhile([what.clone()]);
        polls.recv().expect("it is polled");
        poller.set(Progress::Slices, 3).expect("it ends");
        while polls.try_recv().is_ok() {}
        thread::sleep(20 * INTERVAL);
        assert!(polls.try_recv().is_err(), "it is polled after its thread was given up");
        poller.set(Progress::Thread, 4).expect("a thread");
        let second = poller.poll_meanwhile([what]);
        assert_eq!(polls.recv().expect("it is polled").as_deref(), Some("progress of rank 4"));
        drop(first);
        take_back();
        while polls.try_recv().is_ok() {}
        thread::sleep(20 * INTERVAL);
        assert!(polls.try_recv().is_err(), "it is polled after it was taken back");
        drop(second);
    }

    #[test]
    fn what_is_done_or_fails_is_polled_once() {
        let poller = poller();
        for does in [(|| Ok(false)) as fn() -> _, || Err(Error::Mismatch("it fails".into()))] {
            let (what, polls) = watched(does);
            let polled = poller.poll_meanwhile([what]);
            polls.recv().expect("it is polled");
            thread::sleep(20 * INTERVAL);
            assert!(polls.try_recv().is_err(), "it is polled again");
            drop(polled);
        }
    }

    #[test]
    fn without_a_thread_nothing_is_polled() {
        let (what, polls) = watched(|| Ok(true));
        let poller = poller();
        poller.set(Progress::Slices, 3).expect("it ends");
        assert_eq!(poller.progress(), Progress::Slices);
        let polled = poller.poll_meanwhile([what]);
        thread::sleep(20 * INTERVAL);
        assert!(polls.try_recv().is_err(), "who polls?");
        drop(polled);
    }

    #[test]
    fn names_of_nothing_are_refused_with_those_that_there_are() {
        let named = |name: &str| Progress::named(Some(name.into()));
        assert_eq!([named(" slices"), named("thread")], [Ok(Progress::Slices), Ok(Progress::Thread)]);
        assert_eq!(Progress::named(None), Ok(Progress::Slices));
        let said = named("threads").expect_err("it is misspelt").to_string();
        assert_eq!(said, "`POLYSHARD_PROGRESS` is `threads`: set it to slices or thread");
    }
}
