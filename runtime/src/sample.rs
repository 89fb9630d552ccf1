//! Meshes, shardings and regions for tests.

use crate::layout::{AxisExpr, Division, Mesh, Name, Placement, Sharding};
use crate::leaf::{nest, pointwise};
use crate::region::strides;
use crate::{DistArray, Element, ReduceOp, Region, Result, StridedMut, View, World, spmd};
use proptest::prelude::*;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// Runs `f` on the ranks of the sharding's mesh, as threads.
pub(crate) fn on_ranks(ranks: usize, f: impl Fn(&World) -> Result<()> + Sync) {
    spmd(ranks, f).unwrap_or_else(|error| panic!("{error}"));
}

/// Shardings of every kind over meshes of 1 to 3 axes and at most 12 ranks.
pub(crate) fn shardings() -> impl Strategy<Value = Sharding> {
    let mesh = prop::collection::vec(1usize..5, 1..4).prop_filter("few ranks", |e| e.iter().product::<usize>() <= 12);
    let dims = prop::collection::vec((0usize..9, 0u8..11, 1usize..4), 0..4);
    (mesh, dims, 0usize..6).prop_filter_map("a legal sharding", |(extents, dims, pin)| {
        let mesh = Mesh::new(["x", "y", "z"].into_iter().zip(extents));
        let shape: Vec<_> = dims.iter().map(|dim| dim.0).collect();
        let kinds: Vec<_> = dims.iter().map(|dim| (dim.1, dim.2)).collect();
        sharding(&mesh, &shape, &kinds, pin)
    })
}

/// Pairs of shardings of every kind of one shape, over a mesh of 1 to 3 axes of 1 to 5 and at most 30 ranks.
pub(crate) fn sharding_pairs() -> impl Strategy<Value = [Sharding; 2]> {
    let mesh = prop::collection::vec(1usize..6, 1..4).prop_filter("few ranks", |e| e.iter().product::<usize>() <= 30);
    let dims = prop::collection::vec((0usize..14, [(0u8..11, 1usize..4), (0u8..11, 1usize..4)]), 0..4);
    (mesh, dims, [0usize..9, 0usize..9]).prop_filter_map("legal shardings", |(extents, dims, pins)| {
        let mesh = Mesh::new(["x", "y", "z"].into_iter().zip(extents));
        let shape: Vec<_> = dims.iter().map(|dim| dim.0).collect();
        let kinds = |side: usize| dims.iter().map(|dim| dim.1[side]).collect::<Vec<_>>();
        Some([sharding(&mesh, &shape, &kinds(0), pins[0])?, sharding(&mesh, &shape, &kinds(1), pins[1])?])
    })
}

/// The sharding with a kind and a block size per dimension, pinned along axis `pin` if it exists.
fn sharding(mesh: &Mesh, shape: &[usize], kinds: &[(u8, usize)], pin: usize) -> Option<Sharding> {
    let axes: Vec<Name> = mesh.as_slice().iter().map(|axis| axis.name).collect();
    let last = || AxisExpr::Axis(axes[axes.len() - 1]);
    let parts = mesh.extents()[axes.len() - 1] as i64;
    let mut placements = Vec::new();
    for (dim, &(kind, block)) in kinds.iter().enumerate() {
        let axis = |number: usize| AxisExpr::Axis(axes[(kind as usize + dim + number) % axes.len()]);
        placements.push(match kind {
            0 => continue,
            1 | 2 => Placement::block(dim, axis(0)),
            3 => Placement::block_cyclic(dim, axis(0), block),
            4 => Placement::block(dim, (AxisExpr::Axis(axes[0]) * 2 + last()) % parts),
            5 => Placement::block_cyclic(dim, (AxisExpr::Axis(axes[0]) - last()) % parts, block),
            6 => Placement::block(dim, AxisExpr::List(axes.clone())),
            7 => Placement::block(dim, axis(0)).at(axis(1)),
            8 => Placement::block(dim, axis(0)).cyclic(axis(1), block),
            9 => Placement::block_cyclic(dim, axis(0), block + 2).at(axis(1)),
            _ => {
                let levels = axes.iter().map(|&axis| Division::Block { at: AxisExpr::Axis(axis) }).collect();
                Placement::Divided { dim, levels }
            }
        });
    }
    if let Some(&axis) = axes.get(pin) {
        placements.push(Placement::Pin { axis, coordinate: mesh.extents()[pin] - 1 });
    }
    Sharding::new(mesh, shape, &placements).ok()
}

/// A number in `0..bound` that is a function of its arguments, the same on all ranks.
pub(crate) fn pick(seed: u64, salt: impl Hash, bound: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    (seed, salt).hash(&mut hasher);
    (hasher.finish() % bound.max(1) as u64) as usize
}

/// A range inside of `within`, often empty, often all of it.
pub(crate) fn range(seed: u64, salt: impl Hash, within: Range<usize>) -> Range<i64> {
    let salt = pick(seed, salt, usize::MAX) as u64;
    let len = within.len();
    let (start, end) = match pick(salt, 0, 4) {
        0 => (0, len),
        _ => (pick(salt, 1, len + 1), pick(salt, 2, len + 1)),
    };
    (within.start + start.min(end)) as i64..(within.start + start.max(end)) as i64
}

/// A box of an array of `shape`.
pub(crate) fn region(seed: u64, salt: impl Hash + Copy, shape: &[usize]) -> Region {
    Region::new(shape.iter().enumerate().map(|(dim, &extent)| range(seed, (salt, dim), 0..extent)))
}

/// A box that the rank at `coordinates` owns completely.
pub(crate) fn owned_region(seed: u64, sharding: &Sharding, coordinates: &[usize]) -> Region {
    let ndim = sharding.shape().len();
    if !sharding.keeps(coordinates) {
        return Region::empty(ndim);
    }
    let mut ranges = Vec::new();
    for dim in 0..ndim {
        let pieces: Vec<_> = sharding.pieces(dim, coordinates, 0..sharding.shape()[dim]).collect();
        if pieces.is_empty() {
            return Region::empty(ndim);
        }
        let (piece, _) = &pieces[pick(seed, (coordinates, dim), pieces.len())];
        ranges.push(range(seed, (coordinates, dim), piece.clone()));
    }
    Region::new(ranges)
}

/// A region with blocks along most dimensions.
pub(crate) fn blocks(seed: u64, salt: usize, shape: &[usize]) -> Region {
    let region = region(seed, salt, shape);
    let dims = (0..shape.len()).filter(|dim| pick(seed, ("blocks", dim), 4) > 0);
    dims.fold(region, |region, dim| {
        let step = 1 + pick(seed, ("step", dim), 5);
        region.in_blocks(dim, pick(seed, ("size", dim), step + 2) as i64, step as i64)
    })
}

/// A box that wraps along most dimensions: before the start, beyond the end, several times, or not at all.
pub(crate) fn around(seed: u64, salt: usize, shape: &[usize]) -> Region {
    let period = |dim: usize| match pick(seed, ("period", dim), 4) {
        0 => None,
        1 => Some(1 + pick(seed, ("shorter", dim), shape[dim])),
        _ => Some(shape[dim]),
    };
    // An empty dimension cannot wrap.
    let periods: Vec<_> = (0..shape.len()).map(|dim| period(dim).filter(|_| shape[dim] > 0)).collect();
    let ranges = periods.iter().zip(shape).enumerate().map(|(dim, (period, &extent))| match period {
        None => range(seed, (salt, dim), 0..extent),
        Some(period) => {
            let start = pick(seed, (salt, "start", dim), 3 * period) as i64 - 2 * *period as i64;
            start..start + pick(seed, (salt, "length", dim), (2 * period + 2).min(9)) as i64
        }
    });
    let region = Region::new(ranges);
    let periods = periods.iter().enumerate().filter_map(|(dim, period)| Some((dim, (*period)?)));
    periods.fold(region, |region, (dim, period)| region.periodic(dim, period as i64))
}

/// The indices of a region, row-major.
pub(crate) fn indices(region: &Region) -> Vec<Vec<usize>> {
    if region.is_empty() {
        return Vec::new();
    }
    (0..region.ndim()).fold(vec![vec![]], |all, dim| {
        let along = || region.runs(dim).flat_map(|(run, _)| run);
        all.iter().flat_map(|head: &Vec<usize>| along().map(move |i| [&head[..], &[i as usize]].concat())).collect()
    })
}

/// The element of the tests' arrays at an index, distinct everywhere.
pub(crate) fn element(index: &[usize]) -> i32 {
    index.iter().fold(7, |value, &i| value * 16 + i as i32)
}

pub(crate) fn array(world: &World, sharding: &Sharding) -> Result<DistArray<i32>> {
    DistArray::from_fn(world, sharding, element)
}

/// The elements of a view at the indices of a region.
pub(crate) fn contents<T: Element>(view: View<'_, T>, region: &Region) -> Vec<T> {
    let ndim = region.ndim();
    let steps: Vec<Vec<i64>> = (0..ndim).map(|dim| (0..ndim).map(|l| i64::from(l == dim)).collect()).collect();
    let steps: Vec<&[i64]> = steps.iter().map(Vec::as_slice).collect();
    let shape = region.shape();
    let mut found = vec![T::ZERO; region.len()];
    if region.is_empty() {
        return found;
    }
    if region.has_blocks() {
        // A leaf can walk through several blocks only by one index of each.
        let none = vec![&[][..]; ndim];
        for (found, index) in found.iter_mut().zip(indices(region)) {
            let index: Vec<_> = index.into_iter().map(|i| i as i64).collect();
            let one = view.clone().strided(&index, &none);
            *found = one.data[one.offset as usize];
        }
        return found;
    }
    // As a nest reads it, in one place or in two.
    let into = StridedMut::new(&mut found, 0, strides(&shape).to_vec());
    nest(
        &shape,
        into,
        ReduceOp::Sum,
        &[view.strided(&region.start(), &steps)],
        &pointwise(|[element]: [T; 1]| element),
    );
    found
}
