//! Redistribution of partial sums: they are closed on the way.
//!
//! Where the target keeps the axes of the terms out of its dimensions, the terms of an element are on the ranks of one
//! group, which sum them up by one reduction: to all, or to the one to which the target pins them. Where it places
//! dimensions over these axes, each rank needs a part of every term. If all of them are in its group, each member gets its
//! part of the others' tiles; else each layer of terms is redistributed by itself, as if the others were not there, and the
//! parts are added up. Which of these it is, the [`Way`] says. All sum in the order of the coordinates, so that the bits are the same everywhere, and each rank
//! receives what a reduction or a reduce-scatter has to move.

use super::{Redistribution, Transport};
use crate::comm::Combining;
use crate::layout::{Reach, Sharding};
use crate::subarray::Subarray;
use crate::{DistArray, Element, Group, OutTile, RedistributionError, ReduceOp, Region, Result, World, memory};
use bytemuck::cast_slice_mut;
use polyshard_program::{Leg, Owners, Way, summed_up};
use std::rc::Rc;

/// How the sums of an array are closed.
pub(super) enum Sums {
    /// The terms are summed up in a group, at all of its members or at the one with this rank; then the sums go on.
    Group { group: Rc<Group>, root: Option<usize>, in_pieces: bool, then: Box<Redistribution> },
    /// Each member of a group gets its part of the others' terms, which are tiles of one shape: `parts`, by member.
    ///
    /// ```text
    /// before   rank 0: a0 a1    rank 1: b0 b1
    /// after    rank 0: a0+b0    rank 1: a1+b1
    /// ```
    Parts { group: Rc<Group>, by_messages: bool, tile: Box<Region>, parts: Vec<Subarray> },
    /// Each layer of terms goes to the target, and is added there.
    Layers { mine: usize, layers: Vec<Redistribution> },
}

impl Sums {
    /// Works out how to close the sums of `source` along the axes that `target` does not keep open; none if there are none.
    ///
    /// # Errors
    /// As [`Redistribution::new`].
    pub(super) fn new(world: &World, source: &Sharding, target: &Sharding, way: &Way) -> Result<Option<Self>> {
        if !way.closes_sums() {
            return Ok(None);
        }
        let mesh = source.mesh();
        // What moves on, or the terms of one layer, is exchanged; sums that stay where they are, with nobody.
        let exchanged = way.legs.iter().find(|leg| matches!(leg, Leg::Exchange { .. })).cloned();
        let exchange = exchanged.unwrap_or_else(|| Leg::exchange(vec![Reach::OWN; mesh.ndim()]));
        let exchange = Way { packing: way.packing, ..Way::new([exchange]) };
        Ok(Some(match &way.legs[..] {
            [Leg::Collective { axes, owners: Owners::Parts, .. }] => {
                let group = world.group(mesh, axes)?;
                let own = Subarray::of(source, &mesh.coordinates(world.rank()), &Region::whole(source.shape()));
                let tile = own.region().expect("a term is one block, as its way says; this is a bug of polyshard");
                let part = |member| Subarray::of(target, &group.coordinates(member), &tile);
                let parts = (0..group.size()).map(part).collect();
                Self::Parts { group, by_messages: false, tile: Box::new(tile), parts }
            }
            [.., Leg::Collective { axes, owners, .. }] => {
                let group = world.group(mesh, axes)?;
                let root = match owners {
                    Owners::One(root) => {
                        Some(group.rank_of(&root.iter().map(|at| at.offset() as usize).collect::<Vec<_>>()))
                    }
                    Owners::All | Owners::Parts => None,
                };
                let summed = summed_up(source, target, axes);
                let then = Box::new(Redistribution::going(world, &summed, None, target, &exchange)?);
                Self::Group { group, root, in_pieces: way.in_pieces, then }
            }
            _ => {
                let axes = source.closed_axes(target).map_err(RedistributionError::from)?;
                let at = mesh.coordinates(world.rank());
                let members: Vec<_> = mesh.members(&at, &axes).collect();
                let mine = members.iter().position(|member| *member == at).expect("a rank is in its own group");
                let layer = |member: &Vec<usize>| {
                    let coordinates: Vec<_> = axes.iter().map(|&axis| (axis, member[axis])).collect();
                    Redistribution::going(world, &source.pinned(&coordinates), None, target, &exchange)
                };
                Self::Layers { mine, layers: members.iter().map(layer).collect::<Result<_>>()? }
            }
        }))
    }

    /// Sets the transport of what moves the sums or the terms.
    pub(super) fn set_transport(&mut self, transport: Transport) {
        match self {
            Self::Group { then, .. } => then.set_transport(transport),
            Self::Parts { by_messages, .. } => *by_messages = transport == Transport::Messages,
            Self::Layers { layers, .. } => {
                // A term is received beside the sums, in memory that nobody shares.
                let transport = if transport == Transport::Shared { Transport::Auto } else { transport };
                layers.iter_mut().for_each(|layer| layer.set_transport(transport));
            }
        }
    }

    /// Writes the sums of the terms in `source` to `target`.
    pub(super) fn run<T: Element>(&self, source: &[T], target: &mut DistArray<T>) -> Result<()> {
        match self {
            Self::Group { group, root, in_pieces, then } => {
                let mut sums = memory::room(source.len(), "partial sums")?;
                sums.extend_from_slice(source);
                let bytes = cast_slice_mut(&mut sums);
                let combining = Combining::in_order(T::DTYPE, ReduceOp::Sum, *in_pieces);
                match root {
                    None => group.comm().all_reduce(bytes, combining)?,
                    Some(root) => group.comm().reduce(*root, bytes, combining)?,
                }
                let kept = root.is_none_or(|root| root == group.rank());
                then.run_blocks(if kept { &sums } else { &[] }, target)
            }
            Self::Parts { group, by_messages, tile, parts } => {
                target.block_mut().fill(T::ZERO);
                OutTile::scatter(group, *by_messages, tile, source, parts.clone(), target)
            }
            Self::Layers { mine, layers } => {
                let block = |layer: usize| if layer == *mine { source } else { &[] };
                let [first, others @ ..] = &layers[..] else { return Ok(()) };
                first.run_blocks(block(0), target)?;
                let mut term = target.clone();
                for (number, layer) in (1..).zip(others) {
                    layer.run_blocks(block(number), &mut term)?;
                    let sums = target.block_mut().iter_mut().zip(term.block());
                    sums.for_each(|(sum, &term)| *sum = sum.add(term));
                }
                Ok(())
            }
        }
    }
}
