//! MPI's return codes and statuses, as this crate's errors.
#![expect(unsafe_code, reason = "calls the MPI C library")]

use super::MpiCommunicator;
use crate::{Error, Result, check};
use mpi::ffi;
use std::ffi::{c_char, c_int};
use std::mem;

/// Turns the code that `operation` returned into a result.
pub(super) fn checked(operation: &str, code: c_int) -> Result<()> {
    if code == ffi::MPI_SUCCESS as c_int { Ok(()) } else { Err(Error::Mpi(format!("{operation}: {}", text(code)))) }
}

/// Returns a status for MPI to fill.
pub(super) fn empty() -> ffi::MPI_Status {
    // SAFETY: a status is a C struct of integers, for which zero is a value.
    unsafe { mem::zeroed() }
}

impl MpiCommunicator {
    /// Checks the end of a receive of `expected` bytes from `from`, and counts the bytes.
    pub(super) fn arrived(&self, code: c_int, status: &ffi::MPI_Status, from: usize, expected: usize) -> Result<()> {
        arrived(code, status, [self.members[self.rank], self.members[from]], expected)?;
        self.count(expected);
        Ok(())
    }
}

/// Checks the end of a receive of `expected` bytes on `this` rank from another, both world ranks.
pub(super) fn arrived(code: c_int, status: &ffi::MPI_Status, [this, from]: [usize; 2], expected: usize) -> Result<()> {
    let sent = bytes(status);
    if class(code) == ffi::MPI_ERR_TRUNCATE as c_int {
        // Open MPI reports the length of a message that was too long; other libraries report the size of the buffer.
        return Err(check::length(this, from, expected, sent.filter(|&sent| sent > expected)));
    }
    checked("receive", code)?;
    if sent == Some(expected) { Ok(()) } else { Err(check::length(this, from, expected, sent)) }
}

/// Checks messages that `operation` has completed with this code: their statuses, and of receives the sender and the bytes
/// expected, for which `arrived` checks the message's own code and status.
pub(super) fn completed<'s>(
    operation: &str,
    code: c_int,
    messages: impl Iterator<Item = (&'s ffi::MPI_Status, Option<(usize, usize)>)>,
    arrived: impl Fn(c_int, &ffi::MPI_Status, usize, usize) -> Result<()>,
) -> Result<()> {
    let in_status = class(code) == ffi::MPI_ERR_IN_STATUS as c_int;
    if !in_status {
        checked(operation, code)?;
    }
    let mut pending = Ok(());
    for (status, receive) in messages {
        // The field is set only if the code says so (MPI 3.1, section 3.7.5).
        let code = if in_status { status.MPI_ERROR } else { code };
        match receive {
            // A message that is merely pending is not the cause, so its error is returned last.
            _ if class(code) == ffi::MPI_ERR_PENDING as c_int => pending = pending.and(checked(operation, code)),
            Some((from, expected)) => arrived(code, status, from, expected)?,
            None => checked("send", code)?,
        }
    }
    pending.and(checked(operation, code))
}

/// Returns the bytes of the message of this status.
pub(super) fn bytes(status: &ffi::MPI_Status) -> Option<usize> {
    let mut count = 0;
    // SAFETY: `status` was filled by MPI, and `count` is a local. Every datatype in use here is made of bytes.
    unsafe { ffi::MPI_Get_elements_x(status, ffi::RSMPI_UINT8_T, &mut count) };
    // A negative count is MPI_UNDEFINED.
    usize::try_from(count).ok()
}

/// Returns the class of an error: codes are the library's own, classes are the standard's.
pub(super) fn class(code: c_int) -> c_int {
    let mut class = code;
    // SAFETY: `class` is a local, and is left unchanged if MPI does not know the code.
    unsafe { ffi::MPI_Error_class(code, &mut class) };
    class
}

fn text(code: c_int) -> String {
    let mut buffer: [c_char; ffi::MPI_MAX_ERROR_STRING as usize] = [0; _];
    let mut len = 0;
    // SAFETY: the buffer has the length that the standard asks for (MPI 3.1, section 8.4).
    unsafe { ffi::MPI_Error_string(code, buffer.as_mut_ptr(), &mut len) };
    let bytes: Vec<u8> = buffer.iter().take(len as usize).map(|&byte| byte as u8).collect();
    if bytes.is_empty() { format!("error code {code}") } else { String::from_utf8_lossy(&bytes).into_owned() }
}
