//! Messages that a rank polls for instead of blocking in MPI (MPI 3.1, sections 3.7 and 3.8).
//!
//! A rank uses these calls if it must do other work while it waits. The buffer of a message in flight belongs to
//! the message, or to the caller, who must not continue before [`all_done`].
#![expect(unsafe_code, reason = "calls the MPI C library")]

use super::status::{bytes, checked, empty};
use crate::Result;
use mpi::ffi;
use std::ffi::c_int;
use std::time::{Duration, Instant};
use std::{mem, thread};

/// A message in flight, with its bytes.
pub(super) struct Posted {
    request: ffi::MPI_Request,
    data: Vec<u8>,
}

/// Sends `data` to rank `to` without waiting (MPI 3.1, section 3.7.2).
pub(super) fn post(comm: ffi::MPI_Comm, to: usize, tag: c_int, data: Vec<u8>) -> Result<Posted> {
    // SAFETY: the constants are set once MPI is initialised.
    let (byte, null) = unsafe { (ffi::RSMPI_UINT8_T, ffi::RSMPI_REQUEST_NULL) };
    let mut posted = Posted { request: null, data };
    let (address, count) = (super::span::address(&posted.data), posted.data.len() as c_int);
    // SAFETY: the bytes stay at their address until the message is done: `Posted` owns them, does not change them,
    // and leaks them if it is dropped earlier.
    let code = unsafe { ffi::MPI_Isend(address, count, byte, to as c_int, tag, comm, &mut posted.request) };
    checked("starting a send", code).map(|()| posted)
}

impl Posted {
    /// Returns whether MPI no longer needs the buffer.
    pub(super) fn is_done(&mut self) -> Result<bool> {
        all_done(std::slice::from_mut(&mut self.request))
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        if !matches!(self.is_done(), Ok(true)) {
            mem::forget(mem::take(&mut self.data));
        }
    }
}

/// How long a rank that waits polls before it sleeps: most waits are short.
pub(super) const EAGER: Duration = Duration::from_micros(200);

/// Yields the core before a rank polls again in a wait that started at `began`: with more ranks than cores, a rank that polls
/// takes a core from the one that computes the data it waits for.
pub(super) fn pause(began: Instant) {
    match began.elapsed() < EAGER {
        true => thread::yield_now(),
        false => thread::sleep(Duration::from_micros(50)),
    }
}

/// Returns whether all requests are done, and then sets them to null (MPI 3.1, section 3.7.5).
pub(super) fn all_done(requests: &mut [ffi::MPI_Request]) -> Result<bool> {
    let (code, done) = test_all(requests, &mut vec![empty(); requests.len()]);
    checked("send", code)?;
    Ok(done)
}

/// Waits until all requests are done, as `MPI_Waitall` does, but with [pauses](pause). Returns the library's code.
pub(super) fn wait_all(requests: &mut [ffi::MPI_Request], statuses: &mut [ffi::MPI_Status]) -> c_int {
    let began = Instant::now();
    loop {
        let (code, done) = test_all(requests, statuses);
        if done || code != ffi::MPI_SUCCESS as c_int {
            return code;
        }
        pause(began);
    }
}

/// Returns the library's code, and whether all requests are done.
fn test_all(requests: &mut [ffi::MPI_Request], statuses: &mut [ffi::MPI_Status]) -> (c_int, bool) {
    assert_eq!(requests.len(), statuses.len(), "a request has one status; this is a bug in polyshard");
    let mut done = 0;
    // SAFETY: both arrays have the length given, and `done` is a local.
    let code =
        unsafe { ffi::MPI_Testall(requests.len() as c_int, requests.as_mut_ptr(), &mut done, statuses.as_mut_ptr()) };
    (code, done != 0)
}

/// Returns the sender and the bytes of the next message with this tag, from one rank or from any, if one has
/// arrived (MPI 3.1, section 3.8.1).
pub(super) fn probe(comm: ffi::MPI_Comm, from: Option<usize>, tag: c_int) -> Result<Option<(usize, usize)>> {
    let (mut there, mut status) = (0, empty());
    // SAFETY: the communicator is live, the constant is set once MPI is initialised, and the pointers are to locals.
    let code = unsafe {
        let from = from.map_or(ffi::RSMPI_ANY_SOURCE, |from| from as c_int);
        ffi::MPI_Iprobe(from, tag, comm, &mut there, &mut status)
    };
    checked("probe", code)?;
    let message = (status.MPI_SOURCE as usize, bytes(&status).unwrap_or(0));
    Ok((there != 0).then_some(message))
}

/// Receives the next message with this tag, from one rank or from any, if one has arrived.
pub(super) fn take(comm: ffi::MPI_Comm, from: Option<usize>, tag: c_int) -> Result<Option<(usize, Vec<u8>)>> {
    let Some((from, len)) = probe(comm, from, tag)? else { return Ok(None) };
    let (mut data, mut status) = (vec![0; len], empty());
    // SAFETY: `data` has `len` bytes, as many as the message that was found, and only one thread receives.
    let code = unsafe {
        let into = super::span::address_mut(&mut data);
        ffi::MPI_Recv(into, len as c_int, ffi::RSMPI_UINT8_T, from as c_int, tag, comm, &mut status)
    };
    checked("receive", code)?;
    Ok(Some((from, data)))
}
