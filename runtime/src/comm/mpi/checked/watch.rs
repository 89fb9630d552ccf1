//! Who waits for what, on ranks that share no memory: each says so when it is asked.
//!
//! A rank that waits does so by polling, and answers whoever asks where it is. One that has waited long asks all the
//! others. Whoever does not answer is in none of our calls: it runs. If nobody runs, and a second question finds all
//! where the first has found them, nothing can come any more: that is a deadlock, which ends all ranks. If a rank runs,
//! its work may just take long, so the others say once in a while where all are, and wait on.
//!
//! Questions and answers are messages, since a rank that computes makes no progress with anything that MPI would do on
//! its behalf, on whatever node it is.

use super::header::Reply;
use crate::Result;
use crate::comm::mpi::poll::{EAGER, Posted, pause, post, take};
use crate::comm::mpi::process;
use crate::comm::words::{Doing, deadlock, whereabouts};
use mpi::ffi;
use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::io::Write;
use std::time::{Duration, Instant};
use std::{io, mem};

const QUESTION: c_int = 3;
const ANSWER: c_int = 4;

/// How long a rank has to answer before it is taken to run.
const PATIENCE: Duration = Duration::from_secs(1);

/// The time between two questions that must find the same.
const BETWEEN: Duration = Duration::from_millis(500);

/// What a process knows of its own waits and asks of the others'.
pub(super) struct Watch {
    /// A communicator of all processes for this alone.
    comm: ffi::MPI_Comm,
    pub(super) rank: usize,
    pub(super) size: usize,
    /// How long a rank waits before it asks where the others are.
    limit: Duration,
    doing: RefCell<Doing>,
    /// How often this rank has waited for something that then came.
    waits: Cell<usize>,
    /// The number of the last question of this rank, and what each rank has answered.
    question: Cell<usize>,
    answers: RefCell<Vec<Option<Reply>>>,
    /// Small messages on their way.
    outbox: RefCell<Vec<Posted>>,
}

/// What a rank that has waited long has done about it.
struct Inquiry {
    began: Instant,
    next: Instant,
    /// When the answers to the last question are counted, if that is still to come.
    counting: Option<Instant>,
    /// What the last question found, if nobody ran.
    before: Option<Vec<Reply>>,
}

impl Watch {
    pub(super) fn new(comm: ffi::MPI_Comm, rank: usize, size: usize, limit: Duration) -> Self {
        let doing = RefCell::new(Doing::Runs);
        let (waits, question) = (Cell::new(0), Cell::new(0));
        Self {
            comm,
            rank,
            size,
            limit,
            doing,
            waits,
            question,
            answers: RefCell::default(),
            outbox: RefCell::default(),
        }
    }

    /// Waits until `ready` returns something, and says meanwhile that this rank does `doing`.
    pub(super) fn wait<T>(&self, doing: Doing, mut ready: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        self.doing.replace(doing);
        let found = self.poll(&mut ready);
        self.doing.replace(Doing::Runs);
        self.waits.set(self.waits.get() + 1);
        found
    }

    /// Sends a small message, without waiting for anything.
    pub(super) fn post(&self, comm: ffi::MPI_Comm, to: usize, tag: c_int, data: Vec<u8>) -> Result<()> {
        let posted = post(comm, to, tag, data)?;
        self.outbox.borrow_mut().push(posted);
        self.tidy()
    }

    fn poll<T>(&self, ready: &mut impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let began = Instant::now();
        let mut inquiry = Inquiry { began, next: began + self.limit, counting: None, before: None };
        loop {
            if let Some(found) = ready()? {
                return Ok(found);
            }
            if began.elapsed() >= EAGER {
                self.answer()?;
                self.inquire(&mut inquiry)?;
            }
            pause(began);
        }
    }

    /// Answers those who ask where this rank is, and takes what others have answered.
    fn answer(&self) -> Result<()> {
        while let Some((from, question)) = take(self.comm, None, QUESTION)? {
            let question = Reply::from_bytes(&question)?.question;
            let reply = Reply { question, waits: self.waits.get(), doing: self.doing.borrow().clone() };
            self.post(self.comm, from, ANSWER, reply.to_bytes())?;
        }
        while let Some((from, reply)) = take(self.comm, None, ANSWER)? {
            let reply = Reply::from_bytes(&reply)?;
            // A rank that ran when it was asked answers later.
            if reply.question == self.question.get() {
                self.answers.borrow_mut()[from] = Some(reply);
            }
        }
        self.tidy()
    }

    /// Forgets messages that have gone.
    fn tidy(&self) -> Result<()> {
        let outbox = mem::take(&mut *self.outbox.borrow_mut());
        for mut posted in outbox {
            if !posted.is_done()? {
                self.outbox.borrow_mut().push(posted);
            }
        }
        Ok(())
    }

    /// Asks, counts the answers, and says what they mean, each when its time has come.
    fn inquire(&self, inquiry: &mut Inquiry) -> Result<()> {
        let now = Instant::now();
        let Some(counting) = inquiry.counting else {
            if now >= inquiry.next {
                self.ask()?;
                inquiry.counting = Some(now + PATIENCE);
            }
            return Ok(());
        };
        if now < counting && self.answers.borrow().iter().any(Option::is_none) {
            return Ok(());
        }
        inquiry.counting = None;
        let question = self.question.get();
        let silent = || Reply { question, waits: 0, doing: Doing::Runs };
        let found: Vec<Reply> =
            self.answers.borrow().iter().map(|reply| reply.clone().unwrap_or_else(silent)).collect();
        let doing = || found.iter().map(|reply| reply.doing.clone()).enumerate();
        if found.iter().any(|reply| reply.doing == Doing::Runs) {
            inquiry.before = None;
            // As long again as it took until now.
            inquiry.next = now + (now - inquiry.began);
            let first = found.iter().position(|reply| matches!(reply.doing, Doing::Waits(_)));
            if first == Some(self.rank) {
                say(&format!("after {} s, {}", (now - inquiry.began).as_secs(), whereabouts(doing())));
            }
            return Ok(());
        }
        inquiry.next = now + BETWEEN;
        let same = |before: &Vec<Reply>| {
            before.iter().zip(&found).all(|(before, now)| (before.waits, &before.doing) == (now.waits, &now.doing))
        };
        if inquiry.before.as_ref().is_some_and(same) {
            process::fail_together(&deadlock(doing()));
        }
        inquiry.before = Some(found);
        Ok(())
    }

    fn ask(&self) -> Result<()> {
        let question = self.question.get() + 1;
        self.question.set(question);
        let mine = Reply { question, waits: self.waits.get(), doing: self.doing.borrow().clone() };
        let answers = (0..self.size).map(|rank| (rank == self.rank).then(|| mine.clone()));
        self.answers.replace(answers.collect());
        (0..self.size)
            .filter(|&rank| rank != self.rank)
            .try_for_each(|rank| self.post(self.comm, rank, QUESTION, mine.to_bytes()))
    }
}

/// Says something while the program goes on.
fn say(message: &str) {
    // There is nobody left to tell if it fails.
    let _ = io::stderr().write_all(format!("{message}\n").as_bytes());
}
