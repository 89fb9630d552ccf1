//! Layouts as MPI's derived datatypes (MPI 3.1, section 4.1), which the library packs and unpacks itself.
#![expect(unsafe_code, reason = "calls the MPI C library")]

use super::span::{Parts, Span};
use super::status::checked;
use crate::{CommError, Layout, Result};
use mpi::ffi;
use std::ffi::c_int;

impl Parts {
    /// Returns the layouts, one per rank, with no count above `limit`; ranks without a layout exchange no bytes.
    pub(super) fn laid_out(layouts: &[Option<Layout>], limit: usize) -> Result<Self> {
        let mut parts = Self::nothing(layouts.len());
        for (rank, layout) in layouts.iter().enumerate() {
            if let Some(layout) = layout.as_ref().filter(|layout| layout.bytes() > 0) {
                parts.put(rank, datatype_of(layout, limit)?);
            }
        }
        Ok(parts)
    }
}

/// Returns one element of the datatype of a layout of at least one byte, with no count above `limit`.
fn datatype_of(layout: &Layout, limit: usize) -> Result<Span> {
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

/// The datatype of `len` contiguous bytes.
fn contiguous(len: usize, limit: usize) -> Result<Span> {
    let span = Span::new(0, len, limit)?;
    // SAFETY: the span's datatype is live, and `made` is a local.
    made(|made| unsafe { ffi::MPI_Type_contiguous(span.count, span.datatype, made) })
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
    made(|made| unsafe { ffi::MPI_Type_create_hindexed(count, lengths, places, element.datatype, made) })
}

/// The same datatype, whose elements are `extent` bytes apart.
fn resized(element: &Span, extent: usize) -> Result<Span> {
    let extent = aint(extent)?;
    // SAFETY: the datatype is live, and `made` is a local.
    made(|made| unsafe { ffi::MPI_Type_create_resized(element.datatype, 0, extent, made) })
}

fn aint(bytes: usize) -> Result<ffi::MPI_Aint> {
    ffi::MPI_Aint::try_from(bytes).map_err(|_| CommError::Long { count: bytes }.into())
}

fn made(make: impl FnOnce(&mut ffi::MPI_Datatype) -> c_int) -> Result<Span> {
    // SAFETY: the constant is set once MPI is initialised.
    let mut datatype = unsafe { ffi::RSMPI_DATATYPE_NULL };
    checked("making a datatype", make(&mut datatype))?;
    Ok(Span::of(datatype))
}
