//! One limit on the numbers of kernels and schedules, so that no arithmetic on indices overflows.
//!
//! isl counts without bounds; programs count in 64 bits. Closed forms are sums of products of extents,
//! tile sizes and coefficients, and every such product is at most the *reach* of the loop or index that
//! it belongs to: the number that it would count to if every loop ran to its end, short tiles included.
//! With all reaches within 2^60, sums and differences of several forms fit 64 bits. The other numbers
//! that meet them, digits of mesh coordinates and moduli of placements, fit 31 bits, as ranks do.

use crate::access::Access;
use crate::error::ErrorKind;
use crate::kernel::Kernel;
use crate::kernel_error::KernelError;
use crate::nest::{Made, Nest, NodeId};
use polyshard_layout::Mesh;

/// The greatest reach of a loop or an index.
const LIMIT: i128 = 1 << 60;

/// MPI numbers ranks by C integers.
const RANKS: usize = i32::MAX as usize;

/// The kernel's own numbers are within the limit: what its indices count to, and what of them is added up.
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

/// What the loops of a schedule count to is within the limit, and so is what accesses make of it.
pub(crate) fn nest(kernel: &Kernel, nest: &Nest) -> Result<(), ErrorKind> {
    let mut reaches = vec![None; nest.nodes.len()];
    for id in 0..nest.nodes.len() {
        if reach(nest, NodeId(id), &mut reaches) > LIMIT {
            return Err(ErrorKind::OutOfReach { what: format!("loop `{}`", nest.node(NodeId(id)).name) });
        }
    }
    let vars: Vec<_> = (0..kernel.vars().len()).map(|var| reach(nest, NodeId(var), &mut reaches)).collect();
    match beyond(kernel, &vars) {
        Some(what) => Err(ErrorKind::OutOfReach { what }),
        None => Ok(()),
    }
}

/// The ranks can be numbered.
pub(crate) fn mesh(mesh: &Mesh) -> Result<(), ErrorKind> {
    if mesh.size() <= RANKS { Ok(()) } else { Err(ErrorKind::TooManyRanks { mesh: mesh.to_string() }) }
}

/// The first index expression that goes beyond the limit, if the variables reach this far.
fn beyond(kernel: &Kernel, reaches: &[i128]) -> Option<String> {
    let of = |access: &Access| {
        let index = access.index.iter().find(|index| {
            // What a modulus takes away need not be counted to.
            let index = index.unwrapped();
            let terms =
                kernel.vars().iter().zip(reaches).map(|(var, reach)| {
                    i128::from(index.coefficient(var.name)).saturating_abs().saturating_mul(*reach)
                });
            let constant = i128::from(index.constant).saturating_abs();
            terms.fold(constant, i128::saturating_add) > LIMIT
        })?;
        Some(format!("index `{index}` of `{}`", access.tensor))
    };
    [kernel.target()].into_iter().chain(kernel.value().accesses()).find_map(of)
}

/// One more than what a node counts to, at least its coefficients: those of an empty or single loop count, too.
fn reach(nest: &Nest, id: NodeId, known: &mut [Option<i128>]) -> i128 {
    if let Some(reach) = known[id.0] {
        return reach;
    }
    let node = nest.node(id);
    let extent = i128::from(node.extent).max(1);
    let found = match &node.made {
        Made::Loop => extent,
        Made::Split { outer, inner, factor } => {
            let outer = reach(nest, *outer, known).saturating_mul(i128::from(*factor));
            outer.saturating_add(reach(nest, *inner, known)).max(extent)
        }
        // Quotient and remainder are below what is divided.
        Made::FusedOuter { fused, .. } | Made::FusedInner { fused, .. } => reach(nest, *fused, known).max(extent),
        Made::Rotated { rotated, by } => {
            [rotated].into_iter().chain(by).fold(extent, |sum, &other| sum.saturating_add(reach(nest, other, known)))
        }
    };
    known[id.0] = Some(found);
    found
}

#[cfg(test)]
mod tests;
