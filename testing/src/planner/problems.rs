//! Random problems: two types of one array over one mesh.

use polyshard_layout::Mesh;
use polyshard_planner::{AxisPart, DistDim, DistType};
use proptest::prelude::*;
use std::ops::Range;

/// Two types of one array, of `ndim` dimensions, over a mesh of one to three axes and at most `ranks` ranks.
pub fn problems(
    extents: Range<usize>,
    ndim: Range<usize>,
    ranks: usize,
) -> impl Strategy<Value = (DistType, DistType)> {
    let meshes = prop::collection::vec(extents, 1..=3).prop_map(move |extents| {
        // Axes that would make too many ranks are left out.
        let mut size = 1;
        let fits = |extent: &usize| {
            let fits = size * extent <= ranks;
            size *= if fits { *extent } else { 1 };
            fits
        };
        mesh(extents.into_iter().filter(fits))
    });
    (meshes, ndim).prop_flat_map(|(mesh, ndim)| problems_over(mesh, ndim))
}

/// Returns the mesh of these extents.
pub fn mesh(extents: impl IntoIterator<Item = usize>) -> Mesh {
    Mesh::new(extents.into_iter().enumerate().map(|(nth, extent)| (format!("a{nth}"), extent)))
}

/// Two types of one array of `ndim` dimensions; each axis replicates or cuts one dimension, in any order.
pub fn problems_over(mesh: Mesh, ndim: usize) -> impl Strategy<Value = (DistType, DistType)> {
    let axes = mesh.ndim();
    // For each axis the dimension that it cuts, or none; and the order in which axes cut.
    let placed = move || (prop::collection::vec(0..=ndim, axes), Just((0..axes).collect::<Vec<_>>()).prop_shuffle());
    let factors = prop::collection::vec(1..4usize, ndim);
    (placed(), placed(), factors).prop_map(move |(source, target, factors)| {
        let parts = |(dims, order): &(Vec<usize>, Vec<usize>), dim: usize| -> Vec<AxisPart> {
            let here = order.iter().filter(|&&axis| dims[axis] == dim);
            here.map(|&axis| AxisPart::whole(&mesh, axis)).collect()
        };
        let pieces = |parts: &[AxisPart]| parts.iter().map(|part| part.extent).product::<usize>();
        let sizes: Vec<usize> = (0..ndim)
            .map(|dim| factors[dim] * lcm(pieces(&parts(&source, dim)), pieces(&parts(&target, dim))))
            .collect();
        let typed = |side: &(Vec<usize>, Vec<usize>)| {
            let dims = (0..ndim).map(|dim| {
                let parts = parts(side, dim);
                DistDim { tile: sizes[dim] / pieces(&parts), parts, size: sizes[dim] }
            });
            DistType::new(&mesh, dims.collect()).expect("a type")
        };
        (typed(&source), typed(&target))
    })
}

fn lcm(left: usize, right: usize) -> usize {
    let (mut a, mut b) = (left, right);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    left / a * right
}
