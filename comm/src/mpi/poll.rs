//! Waits of a rank that polls instead of blocking in MPI, and leaves its core to others meanwhile.
#![expect(unsafe_code, reason = "calls the MPI C library")]

use mpi::ffi;
use std::ffi::c_int;
use std::thread;
use std::time::{Duration, Instant};

/// How long a rank that waits polls before it sleeps: most waits are short.
const EAGER: Duration = Duration::from_micros(200);

/// Yields the core before a rank polls again in a wait that started at `began`: with more ranks than cores, a rank that polls
/// takes a core from the one that computes the data it waits for.
pub(super) fn pause(began: Instant) {
    match began.elapsed() < EAGER {
        true => thread::yield_now(),
        false => thread::sleep(Duration::from_micros(50)),
    }
}

/// Waits until all requests are done, as `MPI_Waitall` does (MPI 3.1, section 3.7.5), which in Open MPI 4.1 may never return for a message
/// that is too long; with [pauses](pause) if the wait may be long. Returns the library's code.
pub(super) fn wait_all(requests: &mut [ffi::MPI_Request], statuses: &mut [ffi::MPI_Status], is_long: bool) -> c_int {
    assert_eq!(requests.len(), statuses.len(), "a request has one status; this is a bug in polyshard");
    let (began, mut done) = (Instant::now(), 0);
    loop {
        // SAFETY: both arrays have the length given, and `done` is a local.
        let code = unsafe {
            ffi::MPI_Testall(requests.len() as c_int, requests.as_mut_ptr(), &mut done, statuses.as_mut_ptr())
        };
        if done != 0 || code != ffi::MPI_SUCCESS as c_int {
            return code;
        }
        if is_long {
            pause(began);
        }
    }
}
