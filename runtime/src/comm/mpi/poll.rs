//! Messages that nobody waits for: sent in passing, and received once they are there (MPI 3.1, sections 3.7 and 3.8).
//!
//! This is what a rank needs that must see to other things while it waits. The buffer of a message that is on its
//! way belongs to it, or is the caller's, who must not go on before [`all_done`].
#![expect(unsafe_code, reason = "calls the MPI C library")]

use super::status::{bytes, checked, empty};
use crate::Result;
use mpi::ffi;
use std::ffi::c_int;
use std::mem;

/// A message on its way, with what it consists of.
pub(super) struct Posted {
    request: ffi::MPI_Request,
    data: Vec<u8>,
}

/// Sends `data` to rank `to`, without waiting for anything (MPI 3.1, section 3.7.2).
pub(super) fn post(comm: ffi::MPI_Comm, to: usize, tag: c_int, data: Vec<u8>) -> Result<Posted> {
    // SAFETY: the constants are set once MPI is initialised.
    let (byte, null) = unsafe { (ffi::RSMPI_UINT8_T, ffi::RSMPI_REQUEST_NULL) };
    let mut posted = Posted { request: null, data };
    let (address, count) = (super::span::address(&posted.data), posted.data.len() as c_int);
    // SAFETY: the bytes stay where they are until the message is done: `Posted` owns them, does not change them, and
    // gives them up without freeing them if it is dropped before.
    let code = unsafe { ffi::MPI_Isend(address, count, byte, to as c_int, tag, comm, &mut posted.request) };
    checked("starting a send", code).map(|()| posted)
}

impl Posted {
    /// Returns whether the message is on its way without our help.
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

/// Returns whether all requests are done, which are then none any more (MPI 3.1, section 3.7.5).
pub(super) fn all_done(requests: &mut [ffi::MPI_Request]) -> Result<bool> {
    let mut done = 0;
    let mut statuses = vec![empty(); requests.len()];
    // SAFETY: both arrays have the length given, and `done` is a local.
    let code =
        unsafe { ffi::MPI_Testall(requests.len() as c_int, requests.as_mut_ptr(), &mut done, statuses.as_mut_ptr()) };
    checked("send", code)?;
    Ok(done != 0)
}

/// Returns the sender and the bytes of the next message with this tag, from one rank or from any, if it is there
/// (MPI 3.1, section 3.8.1).
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

/// Receives the next message with this tag, from one rank or from any, if it is there.
pub(super) fn take(comm: ffi::MPI_Comm, from: Option<usize>, tag: c_int) -> Result<Option<(usize, Vec<u8>)>> {
    let Some((from, len)) = probe(comm, from, tag)? else { return Ok(None) };
    let (mut data, mut status) = (vec![0; len], empty());
    // SAFETY: `data` has `len` bytes, as many as the message that was found, and one thread alone receives.
    let code = unsafe {
        let into = super::span::address_mut(&mut data);
        ffi::MPI_Recv(into, len as c_int, ffi::RSMPI_UINT8_T, from as c_int, tag, comm, &mut status)
    };
    checked("receive", code)?;
    Ok(Some((from, data)))
}
