//! Reductions, with MPI's own datatypes and operations (MPI 3.1, sections 5.9 and 5.10).
//!
//! MPI does not define its maximum of a NaN and a number, so maxima and minima of floats are operations of our own.
//!
//! `MPI_IN_PLACE` is a C macro that the bindings cannot see, so results are written to a scratch buffer and
//! copied. Long reductions are divided into pieces, which bounds the scratch and keeps counts small; every rank
//! knows the length, so every rank divides it in the same way.
#![expect(unsafe_code, reason = "calls the MPI C library")]

use super::MpiCommunicator;
use super::span::{address, address_mut};
use super::status::checked;
use crate::{DType, ReduceOp, Result, combine};
use mpi::ffi;
use std::cell::{RefCell, RefMut};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

/// Maximum bytes of one call of `MPI_Reduce` or `MPI_Allreduce`, and of the scratch buffer: a multiple of every element's size.
const PIECE: usize = 1 << 25;

impl MpiCommunicator {
    /// Reduces `data` to the root, or to all ranks without a root.
    pub(super) fn reduce_pieces(&self, root: Option<usize>, data: &mut [u8], dtype: DType, op: ReduceOp) -> Result<()> {
        let is_wanted = root.is_none_or(|root| root == self.rank);
        for piece in data.chunks_mut(self.piece(dtype)) {
            let mut scratch = if is_wanted { Some(self.scratch(piece.len())) } else { None };
            // Of a reduction to a root, only the root has a result buffer (MPI 3.1, section 5.9.1).
            let to = scratch.as_mut().map_or(ptr::null_mut(), |scratch| scratch.as_mut_ptr().cast());
            let (from, count) = (piece.as_ptr().cast(), elements(piece.len(), dtype));
            let (datatype, op) = (datatype(dtype), operation(dtype, op)?);
            // SAFETY: `piece` has `count` elements, and so has the scratch, which does not overlap it.
            let (what, code) = unsafe {
                match root {
                    Some(root) => ("reduce", ffi::MPI_Reduce(from, to, count, datatype, op, root as c_int, self.raw())),
                    None => ("all-reduce", ffi::MPI_Allreduce(from, to, count, datatype, op, self.raw())),
                }
            };
            checked(what, code)?;
            if let Some(scratch) = scratch {
                piece.copy_from_slice(&bytemuck::cast_slice(&scratch)[..piece.len()]);
            }
        }
        Ok(())
    }

    /// Reduces `send` and gives each rank its part, in one call if the counts fit, otherwise part by part.
    pub(super) fn reduce_scatter_parts(
        &self,
        send: &[u8],
        into: &mut [u8],
        counts: &[usize],
        dtype: DType,
        op: ReduceOp,
    ) -> Result<()> {
        let per_element = dtype.size();
        if send.len() / per_element <= self.limit {
            let counts: Vec<c_int> = counts.iter().map(|&count| elements(count, dtype)).collect();
            // SAFETY: the counts sum to the elements of `send`, and `into` has this rank's count.
            let code = unsafe {
                let (from, to) = (address(send), address_mut(into));
                ffi::MPI_Reduce_scatter(from, to, counts.as_ptr(), datatype(dtype), operation(dtype, op)?, self.raw())
            };
            return checked("reduce-scatter", code);
        }
        for (root, (start, &count)) in crate::starts(counts).zip(counts).enumerate() {
            let piece = self.piece(dtype);
            for at in (0..count).step_by(piece) {
                let len = piece.min(count - at);
                let from = send[start + at..start + at + len].as_ptr().cast();
                let to = if root == self.rank { into[at..at + len].as_mut_ptr().cast() } else { ptr::null_mut() };
                // SAFETY: both slices have `len` bytes, and only the root has a result buffer.
                let code = unsafe {
                    let (datatype, op) = (datatype(dtype), operation(dtype, op)?);
                    ffi::MPI_Reduce(from, to, elements(len, dtype), datatype, op, root as c_int, self.raw())
                };
                checked("reduce-scatter", code)?;
            }
        }
        Ok(())
    }

    /// Returns the bytes to reduce in one call.
    fn piece(&self, dtype: DType) -> usize {
        PIECE.min(self.limit.saturating_mul(dtype.size()))
    }

    fn scratch(&self, bytes: usize) -> RefMut<'_, Vec<u64>> {
        let mut scratch = self.scratch.borrow_mut();
        let words = bytes.div_ceil(size_of::<u64>());
        if scratch.len() < words {
            scratch.resize(words, 0);
        }
        scratch
    }
}

/// Returns the elements in `bytes` bytes; pieces are small enough for a C int.
fn elements(bytes: usize, dtype: DType) -> c_int {
    (bytes / dtype.size()) as c_int
}

fn datatype(dtype: DType) -> ffi::MPI_Datatype {
    // SAFETY: the constants are set once MPI is initialised.
    unsafe {
        match dtype {
            DType::F32 => ffi::RSMPI_FLOAT,
            DType::F64 => ffi::RSMPI_DOUBLE,
            DType::I32 => ffi::RSMPI_INT32_T,
            DType::I64 => ffi::RSMPI_INT64_T,
            DType::I8 | DType::Bf16 => unreachable!("callers have checked that {dtype} is native"),
        }
    }
}

/// Returns the operation; MPI is initialised.
fn operation(dtype: DType, op: ReduceOp) -> Result<ffi::MPI_Op> {
    // SAFETY: the constants are set once MPI is initialised.
    Ok(unsafe {
        match (op, dtype) {
            (ReduceOp::Sum, _) => ffi::RSMPI_SUM,
            (ReduceOp::Product, _) => ffi::RSMPI_PROD,
            (ReduceOp::Max | ReduceOp::Min, DType::F32 | DType::F64) => extreme(dtype, op)?,
            (ReduceOp::Max, _) => ffi::RSMPI_MAX,
            (ReduceOp::Min, _) => ffi::RSMPI_MIN,
            (ReduceOp::Records(_), _) => unreachable!("records meet in rank order; this is a bug in polyshard"),
        }
    })
}

thread_local! {
    /// The operations created so far, which last as long as MPI does; one thread makes all calls of MPI.
    static EXTREMES: RefCell<Vec<((DType, ReduceOp), ffi::MPI_Op)>> = const { RefCell::new(Vec::new()) };
}

/// Returns the maximum or minimum of floats, created at its first use (MPI 3.1, section 5.9.5).
fn extreme(dtype: DType, op: ReduceOp) -> Result<ffi::MPI_Op> {
    EXTREMES.with_borrow_mut(|known| {
        if let Some((_, made)) = known.iter().find(|(of, _)| *of == (dtype, op)) {
            return Ok(*made);
        }
        let function: ffi::MPI_User_function = match (dtype, op) {
            (DType::F32, ReduceOp::Max) => Some(combined::<true, true>),
            (DType::F32, _) => Some(combined::<true, false>),
            (_, ReduceOp::Max) => Some(combined::<false, true>),
            _ => Some(combined::<false, false>),
        };
        let mut made = MaybeUninit::uninit();
        // SAFETY: `made` has room for the handle, and the function, which commutes, lives as long as the program.
        let code = unsafe { ffi::MPI_Op_create(function, 1, made.as_mut_ptr()) };
        checked("create an operation", code)?;
        // SAFETY: it has been created.
        let made = unsafe { made.assume_init() };
        known.push(((dtype, op), made));
        Ok(made)
    })
}

/// Combines `*len` elements of `from` into `into`.
///
/// # Safety
/// Both are arrays of `*len` elements of `f32`, or of `f64`, which is what MPI passes for a datatype of floats.
unsafe extern "C" fn combined<const SINGLE: bool, const GREATEST: bool>(
    from: *mut c_void,
    into: *mut c_void,
    len: *mut c_int,
    _: *mut ffi::MPI_Datatype,
) {
    let dtype = if SINGLE { DType::F32 } else { DType::F64 };
    let op = if GREATEST { ReduceOp::Max } else { ReduceOp::Min };
    // SAFETY: the caller promises the lengths, and MPI passes arrays that do not overlap.
    let (into, from) = unsafe {
        let bytes = *len as usize * dtype.size();
        (std::slice::from_raw_parts_mut(into.cast::<u8>(), bytes), std::slice::from_raw_parts(from.cast::<u8>(), bytes))
    };
    combine(dtype, op, into, from);
}
