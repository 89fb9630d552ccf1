//! Types and steps, element by element.

use polyshard_planner::{Collective, DistType, Plan, PlanStep};
use std::collections::BTreeSet;

/// The elements of a rank's tile, each as its row-major number in the array.
pub fn tile(dist_type: &DistType, rank: usize) -> BTreeSet<usize> {
    let offset = dist_type.offset(&dist_type.mesh().coordinates(rank));
    let (shape, tile_shape) = (dist_type.shape(), dist_type.tile_shape());
    let mut elements = vec![0];
    for (dim, extent) in shape.into_iter().enumerate() {
        let indices = offset[dim]..offset[dim] + tile_shape[dim];
        elements = elements.iter().flat_map(|at| indices.clone().map(move |index| at * extent + index)).collect();
    }
    elements.into_iter().collect()
}

/// Checks that a step can be run: that each rank gets its new tile from the ranks of its group, each of which sends it
/// part of its own tile, the same number of elements to each; and that it receives as much as the step states.
pub fn check_step(step: &PlanStep) {
    let ranks = step.from().mesh().size();
    let before: Vec<_> = (0..ranks).map(|rank| tile(step.from(), rank)).collect();
    let after: Vec<_> = (0..ranks).map(|rank| tile(step.to(), rank)).collect();
    for rank in 0..ranks {
        let members = step.members(rank);
        assert!(members.contains(&rank) && members.is_sorted(), "{step}: {members:?}");
        let lacking = after[rank].difference(&before[rank]).count();
        match step.op() {
            Collective::Slice => {
                assert_eq!(members, [rank]);
                assert_eq!(lacking, 0, "{step} of {} to {}", step.from(), step.to());
                assert_eq!(step.received(rank), 0);
            }
            Collective::Permute => {
                assert_eq!(before[step.sender(rank)], after[rank], "{step} of {} to {}", step.from(), step.to());
                assert_eq!(step.receiver(step.sender(rank)), rank);
                assert_eq!(step.received(rank), lacking);
            }
            Collective::AllToAll | Collective::AllGather => {
                assert_eq!(members.len(), step.group_size(), "{step}");
                members.iter().for_each(|&member| assert_eq!(step.members(member), members));
                let pieces = members.iter().map(|&member| before[member].intersection(&after[rank]).count());
                let even = after[rank].len() / members.len();
                pieces.for_each(|piece| assert_eq!(piece, even, "{step} of {} to {}", step.from(), step.to()));
                let union: BTreeSet<_> = members.iter().flat_map(|&member| &before[member]).copied().collect();
                assert!(after[rank].is_subset(&union), "{step} of {} to {}", step.from(), step.to());
                assert_eq!(step.received(rank), lacking);
            }
            Collective::Exchange => {
                let union: BTreeSet<_> = members.iter().flat_map(|&member| &before[member]).copied().collect();
                assert!(after[rank].is_subset(&union), "{step} of {} to {}", step.from(), step.to());
                assert_eq!(step.received(rank), lacking);
            }
            other => panic!("{other} in a redistribution"),
        }
    }
}

/// Checks that a plan's steps lead from its source to its target and can be run.
pub fn check_steps(plan: &Plan) {
    let mut at = plan.source();
    for step in plan.steps() {
        assert_eq!(step.from(), at);
        check_step(step);
        at = step.to();
    }
    let same = (0..at.mesh().size()).all(|rank| tile(at, rank) == tile(plan.target(), rank));
    assert!(same, "{plan:?} ends in {at}");
}
