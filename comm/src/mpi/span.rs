//! Lengths in MPI's form: a count, which is a C `int`, and a datatype.
//!
//! A length that fits is a count of bytes. A longer one is one element of a datatype made for it: chunks of the maximum
//! count, and the rest. The bytes sent are the same, so the two sides of a message need not describe it in the same way.
//!
//! ```text
//! limit 4:   len 3   => 3 x byte
//!            len 11  => 1 x { 2 x [byte; 4], 3 x byte }
//! ```
#![expect(unsafe_code, reason = "calls the MPI C library")]

use super::status::checked;
use crate::Result;
use mpi::ffi;
use std::ffi::{c_int, c_void};
use std::ptr;

/// A count and a datatype, which is freed when dropped if it was made for this span.
///
/// MPI keeps a freed datatype until the operations that use it are complete (MPI 3.1, section 4.1.9).
pub(super) struct Span {
    pub(super) count: c_int,
    pub(super) datatype: ffi::MPI_Datatype,
    owned: bool,
}

impl Span {
    /// Returns the span of `len` bytes at offset `start` of a buffer, with no count above `limit`.
    ///
    /// A span that does not start at 0 is always one element of a datatype of its own.
    pub(super) fn new(start: usize, len: usize, limit: usize) -> Result<Self> {
        // SAFETY: the constants are set once MPI is initialised.
        let (byte, null) = unsafe { (ffi::RSMPI_UINT8_T, ffi::RSMPI_DATATYPE_NULL) };
        if start == 0 && len <= limit {
            return Ok(Self { count: len as c_int, datatype: byte, owned: false });
        }
        let (chunks, rest) = (len / limit, len % limit);
        let mut chunk = null;
        let mut datatype = null;
        let lengths = [chunks as c_int, rest as c_int];
        let places = [start as ffi::MPI_Aint, (start + chunks * limit) as ffi::MPI_Aint];
        // SAFETY: the arrays have the two entries that the count says, and the datatypes are locals.
        unsafe {
            checked("making a datatype", ffi::MPI_Type_contiguous(limit as c_int, byte, &mut chunk))?;
            let types = [chunk, byte];
            let (lengths, places) = (lengths.as_ptr(), places.as_ptr());
            let code = ffi::MPI_Type_create_struct(2, lengths, places, types.as_ptr(), &mut datatype);
            checked("freeing a datatype", ffi::MPI_Type_free(&mut chunk))?;
            checked("making a datatype", code)?;
            checked("making a datatype", ffi::MPI_Type_commit(&mut datatype))?;
        }
        Ok(Self::of(datatype))
    }

    /// One element of a datatype that was made for it.
    pub(super) fn of(datatype: ffi::MPI_Datatype) -> Self {
        Self { count: 1, datatype, owned: true }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: the datatype was made by `new` and has no other owner. An error cannot be reported here.
            unsafe { ffi::MPI_Type_free(&mut self.datatype) };
        }
    }
}

/// Returns the address at which MPI is to read `data`.
///
/// An empty slice may point to address 1, which is how Open MPI writes `MPI_IN_PLACE`, so it becomes null.
pub(super) fn address(data: &[u8]) -> *const c_void {
    if data.is_empty() { ptr::null() } else { data.as_ptr().cast() }
}

/// Returns the address at which MPI is to write `into`; see [`address`].
pub(super) fn address_mut(into: &mut [u8]) -> *mut c_void {
    if into.is_empty() { ptr::null_mut() } else { into.as_mut_ptr().cast() }
}

/// The parts of a buffer to send to each rank or to receive from it, in Alltoallw's form.
pub(super) struct Parts {
    pub(super) counts: Vec<c_int>,
    /// In bytes.
    pub(super) starts: Vec<c_int>,
    pub(super) datatypes: Vec<ffi::MPI_Datatype>,
    /// Keeps the datatypes alive.
    made: Vec<Span>,
}

impl Parts {
    /// Returns the parts of these lengths in bytes, one after the other, with no count or start above `limit`.
    pub(super) fn new(lengths: &[usize], limit: usize) -> Result<Self> {
        let mut parts = Self::nothing(lengths.len());
        for (rank, (start, &len)) in crate::starts(lengths).zip(lengths).enumerate().filter(|(_, part)| *part.1 > 0) {
            if start + len <= limit {
                (parts.counts[rank], parts.starts[rank]) = (len as c_int, start as c_int);
            } else {
                // The datatype holds the start, because an entry of the array of starts is too small for it.
                parts.put(rank, Span::new(start, len, limit)?);
            }
        }
        Ok(parts)
    }

    /// No bytes for any of this many ranks.
    pub(super) fn nothing(size: usize) -> Self {
        // SAFETY: the constant is set once MPI is initialised.
        let byte = unsafe { ffi::RSMPI_UINT8_T };
        Self { counts: vec![0; size], starts: vec![0; size], datatypes: vec![byte; size], made: Vec::new() }
    }

    /// Sets a rank's part to this span, whose datatype holds its start in the buffer.
    pub(super) fn put(&mut self, rank: usize, span: Span) {
        (self.counts[rank], self.datatypes[rank]) = (span.count, span.datatype);
        self.made.push(span);
    }
}
