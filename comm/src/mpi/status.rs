//! MPI's return codes and statuses, as this crate's errors.
#![expect(unsafe_code, reason = "calls the MPI C library")]

use super::MpiCommunicator;
use crate::{Error, Result};
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
        match arrival(code, status, expected)? {
            Arrival::Whole => self.count(expected),
            Arrival::OtherLength(sent) => return Err(self.length(from, expected, sent)),
        }
        Ok(())
    }
}

/// The outcome of a receive.
pub(super) enum Arrival {
    /// As long as its buffer.
    Whole,
    /// With this many bytes, if known.
    OtherLength(Option<usize>),
}

/// Returns the outcome of a receive of `expected` bytes.
pub(super) fn arrival(code: c_int, status: &ffi::MPI_Status, expected: usize) -> Result<Arrival> {
    // Open MPI reports the length of a message that was too long; other libraries report the size of the buffer.
    let sent = bytes(status);
    if class(code) == ffi::MPI_ERR_TRUNCATE as c_int {
        return Ok(Arrival::OtherLength(sent.filter(|&sent| sent > expected)));
    }
    checked("receive", code)?;
    Ok(if sent == Some(expected) { Arrival::Whole } else { Arrival::OtherLength(sent) })
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
