//! Ranks of unit tests: threads, each with its communicator.

use crate::threads::{Failure, Shared, ThreadComm};
use crate::{Result, named};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

/// Runs `f` once per rank, and returns the results in rank order, or the message of the first failure.
pub(crate) fn on_threads<R: Send>(ranks: usize, f: impl Fn(ThreadComm) -> Result<R> + Sync) -> Result<Vec<R>, String> {
    let shared = Arc::new(Shared::new(ranks));
    let run = |rank| {
        let comm = ThreadComm::world(Arc::clone(&shared), rank);
        let result = catch_unwind(AssertUnwindSafe(|| f(comm)));
        match &result {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => shared.fail(Failure::Error { rank, message: error.to_string() }),
            Err(_) => shared.fail(Failure::Panic { rank, message: "a test failed".into() }),
        }
        shared.end(rank);
        result.unwrap_or_else(|payload| resume_unwind(payload)).ok()
    };
    let results: Option<Vec<R>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                let run = &run;
                scope.spawn(move || run(rank))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|payload| resume_unwind(payload))).collect()
    });
    results.ok_or_else(|| match shared.failure() {
        Some(Failure::Error { rank, message } | Failure::Panic { rank, message }) => named(rank, &message),
        Some(Failure::Mismatch(message)) => message,
        None => unreachable!("a rank that fails says so"),
    })
}
