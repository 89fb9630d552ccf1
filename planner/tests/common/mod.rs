//! Random problems, and what types mean element by element.

use polyshard_layout::Mesh;
use polyshard_planner::{AxisPart, DistDim, DistType, Op, Plan, Step};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;

/// Two types of one array over one mesh of at most `ranks` ranks.
pub(crate) fn problems(
    extents: Range<usize>,
    ndim: Range<usize>,
    ranks: usize,
) -> impl Strategy<Value = (DistType, DistType)> {
    let meshes = prop::collection::vec(extents, 1..=3)
        .prop_map(move |extents| {
            // Axes that would be too many ranks are left out.
            let mut size = 1;
            let fits = |extent: &usize| {
                let fits = size * extent <= ranks;
                size *= if fits { *extent } else { 1 };
                fits
            };
            let axes: Vec<usize> = extents.into_iter().filter(fits).collect();
            Mesh::new(axes.into_iter().enumerate().map(|(nth, extent)| (["x", "y", "z"][nth], extent)))
        })
        .boxed();
    (meshes, ndim).prop_flat_map(|(mesh, ndim)| {
        let axes = mesh.ndim();
        // For each axis the dimension that it cuts, or none; and in which order axes cut.
        let placed =
            move || (prop::collection::vec(0..=ndim, axes), Just((0..axes).collect::<Vec<_>>()).prop_shuffle());
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
    })
}

fn lcm(left: usize, right: usize) -> usize {
    let (mut a, mut b) = (left, right);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    left / a * right
}

/// The elements of a rank's tile, each as its row-major number in the array.
pub(crate) fn tile(dist_type: &DistType, rank: usize) -> BTreeSet<usize> {
    let offset = dist_type.offset(&dist_type.mesh().coordinates(rank));
    let (shape, tile_shape) = (dist_type.shape(), dist_type.tile_shape());
    let mut elements = vec![0];
    for (dim, extent) in shape.into_iter().enumerate() {
        let indices = offset[dim]..offset[dim] + tile_shape[dim];
        elements = elements.iter().flat_map(|at| indices.clone().map(move |index| at * extent + index)).collect();
    }
    elements.into_iter().collect()
}

/// Checks that a step can be run: that each rank gets its new tile from the ranks of its group, each of which sends
/// it a part of its own, the same number of elements to each; and that it gets as much as the step says.
pub(crate) fn check_step(step: &Step) {
    let ranks = step.from().mesh().size();
    let before: Vec<_> = (0..ranks).map(|rank| tile(step.from(), rank)).collect();
    let after: Vec<_> = (0..ranks).map(|rank| tile(step.to(), rank)).collect();
    for rank in 0..ranks {
        let members = step.members(rank);
        assert!(members.contains(&rank) && members.is_sorted(), "{step}: {members:?}");
        let lacking = after[rank].difference(&before[rank]).count();
        match step.op() {
            Op::DynSlice => {
                assert_eq!(members, [rank]);
                assert_eq!(lacking, 0, "{step} of {} to {}", step.from(), step.to());
                assert_eq!(step.received(rank), 0);
            }
            Op::AllPermute => {
                assert_eq!(before[step.sender(rank)], after[rank], "{step} of {} to {}", step.from(), step.to());
                assert_eq!(step.receiver(step.sender(rank)), rank);
                assert_eq!(step.received(rank), if step.sender(rank) == rank { 0 } else { after[rank].len() });
            }
            Op::AllToAll | Op::AllGather => {
                assert_eq!(members.len(), step.group_size(), "{step}");
                members.iter().for_each(|&member| assert_eq!(step.members(member), members));
                let pieces = members.iter().map(|&member| before[member].intersection(&after[rank]).count());
                let even = after[rank].len() / members.len();
                pieces.for_each(|piece| assert_eq!(piece, even, "{step} of {} to {}", step.from(), step.to()));
                let union: BTreeSet<_> = members.iter().flat_map(|&member| &before[member]).copied().collect();
                assert!(after[rank].is_subset(&union), "{step} of {} to {}", step.from(), step.to());
                assert_eq!(step.received(rank), lacking);
            }
            Op::Exchange => {
                let union: BTreeSet<_> = members.iter().flat_map(|&member| &before[member]).copied().collect();
                assert!(after[rank].is_subset(&union), "{step} of {} to {}", step.from(), step.to());
                assert_eq!(step.received(rank), lacking);
            }
        }
    }
}

/// Checks that a plan's steps lead from its source to its target and can be run.
pub(crate) fn check_steps(plan: &Plan) {
    let mut at = plan.source();
    for step in plan.steps() {
        assert_eq!(step.from(), at);
        check_step(step);
        at = step.to();
    }
    let same = (0..at.mesh().size()).all(|rank| tile(at, rank) == tile(plan.target(), rank));
    assert!(same, "{plan:?} ends in {at}");
}
