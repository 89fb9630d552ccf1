//! Layouts as MPI's derived datatypes (MPI 3.1, section 4.1), which the library packs and unpacks on the way.
#![expect(unsafe_code, reason = "calls the MPI C library")]

use super::span::Span;
use super::status::checked;
use crate::comm::Layout;
use crate::{CommError, Result};
use mpi::ffi;
use std::ffi::c_int;

/// A datatype whose one element are the bytes of a layout; freed when dropped.
///
/// MPI keeps a freed datatype until the operations that use it are complete (MPI 3.1, section 4.1.9).
struct Datatype {
    raw: ffi::MPI_Datatype,
}

/// Layouts, one per rank, as Alltoallw wants them.
pub(super) struct LaidOut {
    pub(super) counts: Vec<c_int>,
    pub(super) starts: Vec<c_int>,
    pub(super) datatypes: Vec<ffi::MPI_Datatype>,
    /// Keeps the datatypes.
    _made: Vec<Datatype>,
}

impl LaidOut {
    /// Returns the layouts with no count above `limit`; of ranks that have none, nothing.
    pub(super) fn new(layouts: &[Option<Layout>], limit: usize) -> Result<Self> {
        // SAFETY: the constant is set once MPI is initialised.
        let byte = unsafe { ffi::RSMPI_UINT8_T };
        let size = layouts.len();
        let mut all =
            Self { counts: vec![0; size], starts: vec![0; size], datatypes: vec![byte; size], _made: Vec::new() };
        for (rank, layout) in layouts.iter().enumerate() {
            if let Some(layout) = layout.as_ref().filter(|layout| layout.bytes() > 0) {
                let made = Datatype::new(layout, limit)?;
                (all.counts[rank], all.datatypes[rank]) = (1, made.raw);
                all._made.push(made);
            }
        }
        Ok(all)
    }
}

impl Datatype {
    /// Returns the datatype of a layout of at least one byte, with no count above `limit`.
    fn new(layout: &Layout, limit: usize) -> Result<Self> {
        let innermost = layout.levels.last().map_or(0, |level| level.stride);
        let mut made = Self::bytes(innermost, limit)?;
        for (nth, level) in layout.levels.iter().enumerate().rev() {
            made = made.indexed(level.runs.iter().flat_map(|run| {
                let starts = run.clone().step_by(limit);
                starts.map(|start| (start * level.stride, limit.min(run.end - start)))
            }))?;
            if let Some(outer) = nth.checked_sub(1) {
                made = made.resized(layout.levels[outer].stride)?;
            }
        }
        // SAFETY: the datatype is live.
        checked("making a datatype", unsafe { ffi::MPI_Type_commit(&mut made.raw) })?;
        Ok(made)
    }

    /// So many bytes, one after the other.
    fn bytes(len: usize, limit: usize) -> Result<Self> {
        let span = Span::new(0, len, limit)?;
        let mut raw = null();
        // SAFETY: the span's datatype is live, and `raw` is a local.
        let code = unsafe { ffi::MPI_Type_contiguous(span.count, span.datatype, &mut raw) };
        checked("making a datatype", code).map(|()| Self { raw })
    }

    /// Elements of this one: so many from so many bytes on.
    fn indexed(self, runs: impl Iterator<Item = (usize, usize)>) -> Result<Self> {
        let (mut places, mut lengths) = (Vec::new(), Vec::new());
        for (place, len) in runs {
            let place = ffi::MPI_Aint::try_from(place).map_err(|_| CommError::Long { count: place })?;
            places.push(place);
            lengths.push(len as c_int);
        }
        let count = c_int::try_from(places.len()).map_err(|_| CommError::Long { count: places.len() })?;
        let mut raw = null();
        // SAFETY: the arrays have `count` entries, the datatype is live, and `raw` is a local.
        let code =
            unsafe { ffi::MPI_Type_create_hindexed(count, lengths.as_ptr(), places.as_ptr(), self.raw, &mut raw) };
        checked("making a datatype", code).map(|()| Self { raw })
    }

    /// This one, so that the next element starts so many bytes after it.
    fn resized(self, extent: usize) -> Result<Self> {
        let extent = ffi::MPI_Aint::try_from(extent).map_err(|_| CommError::Long { count: extent })?;
        let mut raw = null();
        // SAFETY: the datatype is live, and `raw` is a local.
        let code = unsafe { ffi::MPI_Type_create_resized(self.raw, 0, extent, &mut raw) };
        checked("making a datatype", code).map(|()| Self { raw })
    }
}

fn null() -> ffi::MPI_Datatype {
    // SAFETY: the constant is set once MPI is initialised.
    unsafe { ffi::RSMPI_DATATYPE_NULL }
}

impl Drop for Datatype {
    fn drop(&mut self) {
        // SAFETY: the datatype was made here and has no other owner. An error has nowhere to go.
        unsafe { ffi::MPI_Type_free(&mut self.raw) };
    }
}
