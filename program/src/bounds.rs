//! One limit on the numbers of kernels and schedules, so that no arithmetic on indices overflows.
//!
//! isl counts without bounds; programs count in 64 bits. Closed forms are sums of products of extents,
//! tile sizes and coefficients, and every such product is at most the *reach* of the loop or index that
//! it belongs to: the number that it would count to if every loop ran to its end, short tiles included.
//! With all reaches within 2^60, sums and differences of several forms fit 64 bits. The other numbers
//! that meet them, digits of mesh coordinates and moduli of placements, fit 31 bits, as ranks do.

use crate::affine::Affine;
use crate::kernel::Kernel;
use crate::kernel_error::KernelError;
use crate::value::Access;

/// The greatest reach of a loop or an index.
pub const LIMIT: i128 = 1 << 60;

/// Checks that the kernel's own numbers are within the limit: the extents of its variables and its index
/// expressions.
pub(crate) fn kernel(kernel: &Kernel) -> Result<(), KernelError> {
    let extents: Vec<_> = kernel.vars().iter().map(|var| (var.extent as i128).max(1)).collect();
    if let Some((var, _)) = kernel.vars().iter().zip(&extents).find(|(_, extent)| **extent > LIMIT) {
        return Err(KernelError::OutOfReach { what: format!("index `{}`", var.name) });
    }
    match beyond(kernel, &extents) {
        Some(what) => Err(KernelError::OutOfReach { what }),
        None => Ok(()),
    }
}

/// Returns the first index expression beyond the limit, for variables with these reaches.
pub fn beyond(kernel: &Kernel, reaches: &[i128]) -> Option<String> {
    let is_beyond = |index: &Affine| {
        // Multiples of the modulus need not be counted.
        let index = index.unwrapped();
        let terms = kernel
            .vars()
            .iter()
            .zip(reaches)
            .map(|(var, reach)| i128::from(index.coefficient(var.name)).saturating_abs().saturating_mul(*reach));
        let constant = i128::from(index.constant).saturating_abs();
        terms.fold(constant, i128::saturating_add) > LIMIT
    };
    let of = |access: &Access| {
        let index = access.index.iter().find(|index| is_beyond(index))?;
        Some(format!("index `{index}` of `{}`", access.tensor))
    };
    let number = || kernel.value().indices().into_iter().find(|index| is_beyond(index));
    let found = [kernel.target()].into_iter().chain(kernel.value().accesses()).find_map(of);
    found.or_else(|| Some(format!("the number `{}`", number()?)))
}
