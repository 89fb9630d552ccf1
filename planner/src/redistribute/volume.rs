//! The elements that ranks need and lack: a lower bound for any redistribution.
//!
//! Dimensions whose tiles are numbered by different axes are independent, so their overlaps multiply, and for each such
//! set of dimensions only the ranks that differ in its axes are examined.

use super::problem::Cost;
use crate::DistType;

/// Returns the elements that `rank` needs by `to` and lacks by `from`.
pub(super) fn received(from: &DistType, to: &DistType, rank: usize) -> usize {
    let coordinates = from.mesh().coordinates(rank);
    let common = (0..from.ndim()).map(|dim| overlap(from, to, dim, &coordinates));
    to.tile_len() - common.product::<usize>()
}

/// Returns the maximum, over ranks, of the elements that a rank needs and lacks.
pub(super) fn most_received(from: &DistType, to: &DistType) -> Cost {
    let least: usize = overlaps(from, to).into_iter().map(|set| set.least).product();
    (to.tile_len() - least) as Cost
}

/// Returns the elements that ranks need and lack, summed over all ranks.
pub(super) fn total_received(from: &DistType, to: &DistType) -> Cost {
    let ranks = from.mesh().size() as Cost;
    let sets = overlaps(from, to);
    let looked_at: Cost = sets.iter().map(|set| set.ranks as Cost).product();
    let common: Cost = sets.iter().map(|set| set.sum).product();
    ranks * to.tile_len() as Cost - common * (ranks / looked_at)
}

/// The part of their target tiles that ranks already have, along a set of dimensions.
struct Overlaps {
    /// The number of ranks that differ in the axes of these dimensions.
    ranks: usize,
    sum: Cost,
    least: usize,
}

fn overlaps(from: &DistType, to: &DistType) -> Vec<Overlaps> {
    let axes_of = |dim: usize| {
        let parts = from.dims()[dim].parts.iter().chain(&to.dims()[dim].parts);
        parts.map(|part| part.axis).collect::<Vec<_>>()
    };
    // Sets of dimensions that share axes.
    let mut sets: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for dim in 0..from.ndim() {
        let mut joined = (vec![dim], axes_of(dim));
        sets.retain(|(dims, axes)| {
            let apart = axes.iter().all(|axis| !joined.1.contains(axis));
            if !apart {
                joined.0.extend(dims);
                joined.1.extend(axes);
            }
            apart
        });
        joined.1.sort_unstable();
        joined.1.dedup();
        sets.push(joined);
    }
    let mesh = from.mesh();
    let overlaps = sets.into_iter().map(|(dims, axes)| {
        let mut overlaps = Overlaps { ranks: 0, sum: 0, least: usize::MAX };
        for coordinates in mesh.members(&vec![0; mesh.ndim()], &axes) {
            let common: usize = dims.iter().map(|&dim| overlap(from, to, dim, &coordinates)).product();
            overlaps.ranks += 1;
            overlaps.sum += common as Cost;
            overlaps.least = overlaps.least.min(common);
        }
        overlaps
    });
    overlaps.collect()
}

fn overlap(from: &DistType, to: &DistType, dim: usize, coordinates: &[usize]) -> usize {
    let range = |dist_type: &DistType| {
        let tile = dist_type.dims()[dim].tile;
        let start = tile * dist_type.tile_number(dim, coordinates);
        start..start + tile
    };
    let (before, after) = (range(from), range(to));
    before.end.min(after.end).saturating_sub(before.start.max(after.start))
}
