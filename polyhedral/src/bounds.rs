//! Checks that the numbers of a schedule are within the limit of [`polyshard_program::bounds`].

use crate::error::ErrorKind;
use crate::nest::{Definition, Nest, NodeId};
use polyshard_layout::Mesh;
use polyshard_program::{
    Kernel,
    bounds::{LIMIT, beyond},
};

/// MPI numbers ranks with C integers.
const RANKS: usize = i32::MAX as usize;

/// Checks that the values of all loops, and of the indices of accesses, are within the limit.
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

/// Checks that MPI can number the ranks.
pub(crate) fn mesh(mesh: &Mesh) -> Result<(), ErrorKind> {
    if mesh.size() <= RANKS { Ok(()) } else { Err(ErrorKind::TooManyRanks { mesh: mesh.to_string() }) }
}

/// One more than the largest value of a node, and at least its coefficients: those of a loop of no or one
/// iteration count, too.
fn reach(nest: &Nest, id: NodeId, known: &mut [Option<i128>]) -> i128 {
    if let Some(reach) = known[id.0] {
        return reach;
    }
    let node = nest.node(id);
    let extent = i128::from(node.extent).max(1);
    let found = match &node.definition {
        Definition::Loop => extent,
        // The offset is smaller than the range divided, so subtracting it does not increase the reach.
        Definition::Split { outer, inner, factor, .. } => {
            let outer = reach(nest, *outer, known).saturating_mul(i128::from(*factor));
            outer.saturating_add(reach(nest, *inner, known)).max(extent)
        }
        // Quotient and remainder are smaller than the dividend.
        Definition::FusedOuter { fused, .. } | Definition::FusedInner { fused, .. } => {
            reach(nest, *fused, known).max(extent)
        }
        Definition::Rotated { rotated, by } => {
            [rotated].into_iter().chain(by).fold(extent, |sum, &other| sum.saturating_add(reach(nest, other, known)))
        }
    };
    known[id.0] = Some(found);
    found
}

#[cfg(test)]
mod tests;
