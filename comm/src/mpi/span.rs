//! Lengths and layouts in MPI's form: a count, which is a C `int`, and a datatype.
//!
//! A length that fits is a count of bytes. A longer one is one element of a datatype made for it: runs of the maximum
//! count, and the rest. The bytes sent are the same, so the two sides of a message need not describe it in the same way.
//! A layout is one element of a derived datatype (MPI 3.1, section 4.1), which the library packs and unpacks itself.
//!
//! ```text
//! limit 4:   len 3   => 3 x byte
//!            len 11  => 1 x { 4 x byte, 4 x byte, 3 x byte }
//! ```
#![expect(unsafe_code, reason = "calls the MPI C library")]

use super::status::checked;
use crate::{CommError, Layout, LayoutLevel, Result};
use mpi::ffi;
use std::ffi::{c_int, c_void};
use std::{iter, ptr};

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
        if start == 0 && len <= limit {
            // SAFETY: the constant is set once MPI is initialised.
            return Ok(Self { count: len as c_int, datatype: unsafe { ffi::RSMPI_UINT8_T }, owned: false });
        }
        let bytes = LayoutLevel { runs: iter::once(start..start + len).collect(), stride: 1 };
        Self::laid_out(&Layout { levels: vec![bytes] }, limit)
    }

    /// Returns one element of the datatype of a layout of at least one byte, with no count above `limit`.
    fn laid_out(layout: &Layout, limit: usize) -> Result<Self> {
        let innermost = layout.levels.last().map_or(0, |level| level.stride);
        let mut made = contiguous(innermost, limit)?;
        for (nth, level) in layout.levels.iter().enumerate().rev() {
            let runs = level.runs.iter().flat_map(|run| {
                let starts = run.clone().step_by(limit);
                starts.map(|start| (start * level.stride, limit.min(run.end - start)))
            });
            made = indexed(&made, runs)?;
            if let Some(outer) = nth.checked_sub(1) {
                made = resized(&made, layout.levels[outer].stride)?;
            }
        }
        // SAFETY: the datatype is live.
        checked("making a datatype", unsafe { ffi::MPI_Type_commit(&mut made.datatype) })?;
        Ok(made)
    }

    fn made(make: impl FnOnce(&mut ffi::MPI_Datatype) -> c_int) -> Result<Self> {
        // SAFETY: the constant is set once MPI is initialised.
        let mut datatype = unsafe { ffi::RSMPI_DATATYPE_NULL };
        checked("making a datatype", make(&mut datatype))?;
        Ok(Self { count: 1, datatype, owned: true })
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: the datatype was made for this span and has no other owner. An error cannot be reported here.
            unsafe { ffi::MPI_Type_free(&mut self.datatype) };
        }
    }
}

/// The datatype of `len` contiguous bytes.
fn contiguous(len: usize, limit: usize) -> Result<Span> {
    let span = Span::new(0, len, limit)?;
    // SAFETY: the span's datatype is live, and `made` is a local.
    Span::made(|made| unsafe { ffi::MPI_Type_contiguous(span.count, span.datatype, made) })
}

/// The datatype of runs of elements of another one: the start of each run, in bytes, and its number of elements.
fn indexed(element: &Span, runs: impl Iterator<Item = (usize, usize)>) -> Result<Span> {
    let (mut places, mut lengths) = (Vec::new(), Vec::new());
    for (place, len) in runs {
        places.push(aint(place)?);
        lengths.push(len as c_int);
    }
    let count = c_int::try_from(places.len()).map_err(|_| CommError::Long { count: places.len() })?;
    let (lengths, places) = (lengths.as_ptr(), places.as_ptr());
    // SAFETY: the arrays have `count` entries, the datatype is live, and `made` is a local.
    Span::made(|made| unsafe { ffi::MPI_Type_create_hindexed(count, lengths, places, element.datatype, made) })
}

/// The same datatype, whose elements are `extent` bytes apart.
fn resized(element: &Span, extent: usize) -> Result<Span> {
    let extent = aint(extent)?;
    // SAFETY: the datatype is live, and `made` is a local.
    Span::made(|made| unsafe { ffi::MPI_Type_create_resized(element.datatype, 0, extent, made) })
}

fn aint(bytes: usize) -> Result<ffi::MPI_Aint> {
    ffi::MPI_Aint::try_from(bytes).map_err(|_| CommError::Long { count: bytes }.into())
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

    /// Returns the layouts, one per rank, with no count above `limit`; ranks without a layout exchange no bytes.
    pub(super) fn laid_out(layouts: &[Option<Layout>], limit: usize) -> Result<Self> {
        let mut parts = Self::nothing(layouts.len());
        for (rank, layout) in layouts.iter().enumerate() {
            if let Some(layout) = layout.as_ref().filter(|layout| layout.bytes() > 0) {
                parts.put(rank, Span::laid_out(layout, limit)?);
            }
        }
        Ok(parts)
    }

    /// No bytes for any of this many ranks.
    fn nothing(size: usize) -> Self {
        // SAFETY: the constant is set once MPI is initialised.
        let byte = unsafe { ffi::RSMPI_UINT8_T };
        Self { counts: vec![0; size], starts: vec![0; size], datatypes: vec![byte; size], made: Vec::new() }
    }

    /// Sets a rank's part to this span, whose datatype holds its start in the buffer.
    fn put(&mut self, rank: usize, span: Span) {
        (self.counts[rank], self.datatypes[rank]) = (span.count, span.datatype);
        self.made.push(span);
    }
}
