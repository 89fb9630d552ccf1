//! Redistribution of partial sums: they are closed on the way.
//!
//! Where the target keeps the axes of the terms out of its dimensions, the terms of an element are on the ranks of one
//! group, which sum them up by one reduction: to all, or to the one to which the target pins them. Where it places
//! dimensions over these axes, each rank needs a part of every term. If all of them are in its group, each member gets its
//! part of the others' tiles; else each layer of terms is redistributed by itself, as if the others were not there, and the
//! parts are added up. All sum in the order of the coordinates, so that the bits are the same everywhere, and each rank
//! receives what a reduction or a reduce-scatter has to move.

use super::{Redistribution, Transport};
use crate::layout::Sharding;
use crate::tile::Overlap;
use crate::{DistArray, Element, Error, Group, OutTile, ReduceOp, Region, Result, World, memory};
use bytemuck::cast_slice_mut;
use std::rc::Rc;

/// How the sums of an array are closed.
pub(super) enum Sums {
    /// The terms are summed up in a group, at all of its members or at the one with this rank; then the sums go on.
    Group { group: Rc<Group>, root: Option<usize>, then: Box<Redistribution> },
    /// Each member of a group gets its part of the others' terms, which are tiles of one shape.
    Scatter(Box<Scatter>),
    /// Each layer of terms goes to the target, and is added there.
    Layers { mine: usize, layers: Vec<Redistribution> },
}

impl Sums {
    /// Works out how to close the sums of `source` along the axes that `target` does not keep open.
    ///
    /// # Errors
    /// If the target would open sums. As [`Redistribution::new`].
    pub(super) fn new(world: &World, source: &Sharding, target: &Sharding) -> Result<Option<Self>> {
        if let Some(axis) = target.partial().iter().find(|axis| !source.partial().contains(axis)) {
            return Err(Error::Usage(format!(
                "an array sharded {source} cannot be redistributed to {target}: its elements are no sums along {}, and \
                 a redistribution opens none; leave that `partial` out",
                source.mesh().as_slice()[*axis].name
            )));
        }
        let axes: Vec<usize> =
            source.partial().iter().copied().filter(|axis| !target.partial().contains(axis)).collect();
        if axes.is_empty() {
            return Ok(None);
        }
        let mesh = source.mesh();
        if axes.iter().all(|&axis| !target.places(axis)) {
            let pins: Vec<(usize, usize)> =
                target.pins().iter().copied().filter(|(axis, _)| axes.contains(axis)).collect();
            let group = world.group(mesh, &axes)?;
            // One of several axes pinned: all get the sums, and those that the target does not want drop them.
            let pinned = pins.len() == axes.len();
            let root = pinned.then(|| {
                let along = |axis: &usize| pins.iter().find(|pin| pin.0 == *axis).map_or(0, |pin| pin.1);
                group.rank_of(&axes.iter().map(along).collect::<Vec<_>>())
            });
            let summed = if pinned { source.pinned(&pins) } else { source.closed_along(&axes) };
            let then = Box::new(Redistribution::new(world, &summed, target)?);
            return Ok(Some(Self::Group { group, root, then }));
        }
        if let Some(scatter) = Scatter::new(world, &axes, source, target)? {
            return Ok(Some(Self::Scatter(Box::new(scatter))));
        }
        let extents = mesh.extents();
        let count = axes.iter().map(|&axis| extents[axis]).product();
        let coordinates_of = |layer: usize| {
            let mut rest = layer;
            let digits = axes.iter().rev().map(|&axis| {
                let coordinate = rest % extents[axis];
                rest /= extents[axis];
                (axis, coordinate)
            });
            digits.collect::<Vec<_>>()
        };
        let at = mesh.coordinates(world.rank());
        let mine = axes.iter().fold(0, |layer, &axis| layer * extents[axis] + at[axis]);
        let layer = |layer| Redistribution::new(world, &source.pinned(&coordinates_of(layer)), target);
        Ok(Some(Self::Layers { mine, layers: (0..count).map(layer).collect::<Result<_>>()? }))
    }

    /// Sets the transport of what moves the sums or the terms.
    pub(super) fn over(self, transport: Transport) -> Self {
        match self {
            Self::Group { group, root, then } => Self::Group { group, root, then: Box::new(then.over(transport)) },
            Self::Scatter(scatter) => Self::Scatter(scatter),
            Self::Layers { mine, layers } => {
                // A term is received beside the sums, in memory that nobody shares.
                let transport = if transport == Transport::Shared { Transport::Auto } else { transport };
                Self::Layers { mine, layers: layers.into_iter().map(|layer| layer.over(transport)).collect() }
            }
        }
    }

    /// The bytes held besides input and output, at most.
    pub(super) fn staging_bytes(&self, source: &Sharding, target: &Sharding, element: usize) -> usize {
        let ranks = 0..source.mesh().size();
        let most = |sharding: &Sharding| {
            ranks.clone().map(|rank| sharding.local_len(&sharding.mesh().coordinates(rank))).max().unwrap_or(0)
        };
        match self {
            // A copy of the terms, the others' terms of a piece, and the piece.
            Self::Group { then, .. } => 3 * most(source) * element + then.staging_bytes(element),
            // A copy of the terms, what is packed of it, and the others' terms of a part.
            Self::Scatter(scatter) => (2 * most(source) + (scatter.parts.len() - 1) * most(target)) * element,
            Self::Layers { layers, .. } => {
                let staging = layers.iter().map(|layer| layer.staging_bytes(element)).max().unwrap_or(0);
                most(target) * element + staging
            }
        }
    }

    /// Writes the sums of the terms in `source` to `target`.
    pub(super) fn run<T: Element>(&self, source: &[T], target: &mut DistArray<T>) -> Result<()> {
        match self {
            Self::Group { group, root, then } => {
                let mut sums = memory::room(source.len(), "partial sums")?;
                sums.extend_from_slice(source);
                let bytes = cast_slice_mut(&mut sums);
                match root {
                    None => group.comm().all_reduce_in_order(bytes, T::DTYPE, ReduceOp::Sum)?,
                    Some(root) => group.comm().reduce_in_order(*root, bytes, T::DTYPE, ReduceOp::Sum)?,
                }
                let kept = root.is_none_or(|root| root == group.rank());
                then.run_blocks(if kept { &sums } else { &[] }, target)
            }
            Self::Scatter(scatter) => scatter.run(source, target),
            Self::Layers { mine, layers } => {
                let block = |layer: usize| if layer == *mine { source } else { &[] };
                let [first, others @ ..] = &layers[..] else { return Ok(()) };
                first.run_blocks(block(0), target)?;
                let mut term = target.clone();
                for (number, layer) in (1..).zip(others) {
                    layer.run_blocks(block(number), &mut term)?;
                    let sums = target.block_mut().iter_mut().zip(term.block());
                    sums.for_each(|(sum, &term)| *sum = sum.plus(term));
                }
                Ok(())
            }
        }
    }
}

/// A sum of which each member of a group gets the part that it owns.
///
/// ```text
/// before   rank 0: a0 a1    rank 1: b0 b1
/// after    rank 0: a0+b0    rank 1: a1+b1
/// ```
pub(super) struct Scatter {
    group: Rc<Group>,
    /// This rank's term.
    tile: Region,
    /// By member, its part of the tile.
    parts: Vec<Overlap>,
}

impl Scatter {
    /// The sum along `axes`, if every rank's term is one box of which the members of its group own all; decided alike on all
    /// ranks, and collective if it is.
    fn new(world: &World, axes: &[usize], source: &Sharding, target: &Sharding) -> Result<Option<Self>> {
        let mesh = source.mesh();
        let members = |at: &[usize]| {
            let along = |members: Vec<Vec<usize>>, &axis: &usize| -> Vec<Vec<usize>> {
                let moved = |at: &Vec<usize>| {
                    let at = at.clone();
                    (0..mesh.as_slice()[axis].extent).map(move |coordinate| {
                        let mut at = at.clone();
                        at[axis] = coordinate;
                        at
                    })
                };
                members.iter().flat_map(moved).collect()
            };
            axes.iter().fold(vec![at.to_vec()], along)
        };
        let covered = |rank: usize| {
            let at = mesh.coordinates(rank);
            let Some(tile) = tile_of(source, &at) else { return false };
            let parts = members(&at).iter().map(|member| Overlap::of(target, member, &tile).len()).sum::<usize>();
            parts == tile.len()
        };
        if !(0..mesh.size()).all(covered) {
            return Ok(None);
        }
        let group = world.group(mesh, axes)?;
        let tile = tile_of(source, &mesh.coordinates(world.rank()));
        let tile = tile.expect("this rank's tile is a box, as all are; this is a bug of polyshard");
        let parts = (0..group.size()).map(|member| Overlap::of(target, &group.coordinates(member), &tile)).collect();
        Ok(Some(Self { group, tile, parts }))
    }

    fn run<T: Element>(&self, source: &[T], target: &mut DistArray<T>) -> Result<()> {
        target.block_mut().fill(T::ZERO);
        OutTile::scatter(&self.group, &self.tile, source, self.parts.clone(), target)
    }
}

/// The box of global indices that a rank owns, if it is one.
fn tile_of(sharding: &Sharding, at: &[usize]) -> Option<Region> {
    let ranges = sharding.shape().iter().enumerate().map(|(dim, &extent)| {
        let mut pieces = sharding.pieces(dim, at, 0..extent);
        let first = pieces.next().map_or(0..0, |(range, _)| range);
        pieces.next().is_none().then_some(first.start as i64..first.end as i64)
    });
    let ranges: Option<Vec<_>> = ranges.collect();
    ranges.map(Region::new)
}
