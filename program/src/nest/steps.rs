//! Checks that each rank has the elements that it reads and writes, in every step.
//!
//! For a schedule, isl proves this for all sizes at once. A nest that is read from a file has no such proof, so each rank and
//! step is checked if these are few: legs lead to ranks that own or hold the regions, the leaf stays inside the regions that were
//! fetched, and each instance of the statement is computed once. Tests: `program/tests/it/refused.rs`.

use super::{Direction, LeafAccess, Leg, NestView, Owners, Shift, Transfer, TransferView};
use crate::ids::{Depth, LegId, OperandId};
use crate::part::{around, holds, spans};
use crate::traffic::{Rank, in_all_steps};
use polyshard_layout::{Along, ends_of_walk};
use std::ops::Range;

/// Ranks times steps times accesses beyond which nothing is checked: some ten milliseconds.
const MOST: u64 = 1 << 15;

/// Boxes of instances beyond which they are not compared with each other.
const MOST_BOXES: usize = 1 << 11;

impl NestView<'_> {
    /// Checks the steps of all ranks, if they are few, and returns whether it did.
    ///
    /// # Errors
    /// The elements that a rank lacks, as a clause after the kernel's name.
    pub(crate) fn go_through(&self) -> Result<bool, String> {
        let extents = self.ranges().counters;
        let ranks = self.mesh.size() as u64;
        let steps = extents.iter().fold(1u64, |steps, &extent| steps.saturating_mul(extent.max(1) as u64));
        let partners = self.partners().max(1) as u64;
        // Owners are searched once per transfer, and if corners are left out once per operand, block by block.
        let stars = self.transfers.iter().filter(|transfer| transfer.route.star().is_some());
        let operands = stars.flat_map(|transfer| transfer.operands);
        let blocks = operands.map(|operand| self.most_blocks(&self.leaf.operands[operand.0]));
        let looked_for = blocks.fold(self.transfers.len() as u64, u64::saturating_add);
        let each = partners.saturating_mul(looked_for).saturating_add(self.leaf.operands.len() as u64);
        if ranks.saturating_mul(steps).saturating_mul(each) > MOST {
            return Ok(false);
        }
        let mut boxes = Vec::new();
        for rank in 0..self.mesh.size() {
            let rank = Rank::new(self, self.mesh.coordinates(rank));
            for (number, transfer) in
                self.transfers.iter().enumerate().filter(|(_, transfer)| transfer.reused.is_none())
            {
                in_all_steps(transfer.level, &extents, |counters| match self.is_covered(&rank, transfer, counters) {
                    true => Ok(()),
                    false => {
                        let name = self.tensor_name(transfer.tensor);
                        Err(format!(
                            "has a transfer, number {number}, whose legs do not lead to all of its part of `{name}`"
                        ))
                    }
                })?;
            }
            in_all_steps(Depth(self.loops.len()), &extents, |counters| {
                // Copies compute the same.
                if self.copies.iter().all(|&axis| rank.coordinates[axis] == 0) {
                    let values = self.leaf.loops.iter().map(|inner| {
                        let first = rank.value(&inner.low, counters);
                        first..first.saturating_add(rank.value(&inner.count, counters).saturating_mul(inner.stride))
                    });
                    boxes.push(values.collect());
                }
                self.leaf_stays_inside(&rank, counters)
            })?;
        }
        // Time steps compute elements of other ranks, too.
        match self.time_steps {
            None => self.is_every_instance_once(boxes),
            Some(_) => Ok(true),
        }
    }

    /// Checks that each instance of the statement is in one of the boxes of values of the leaf's loops, from which the loops take every
    /// value that their stride reaches; returns whether it did, which it does not if there are many boxes.
    fn is_every_instance_once(&self, mut boxes: Vec<Vec<Range<i64>>>) -> Result<bool, String> {
        boxes.retain(|values| values.iter().all(|values| !values.is_empty()));
        let stride = |nth: usize| self.leaf.loops[nth].stride;
        let count = |values: &Vec<Range<i64>>| {
            let counts =
                values.iter().enumerate().map(|(nth, values)| ((values.end - values.start) / stride(nth)) as u64);
            counts.fold(1, u64::saturating_mul)
        };
        let extents = || self.kernel.vars().iter().map(|var| var.extent as i64);
        let is_outside = |values: &Vec<Range<i64>>| {
            let mut all = values.iter().zip(extents()).enumerate();
            all.any(|(nth, (values, extent))| values.start < 0 || values.end - stride(nth) >= extent)
        };
        if boxes.iter().any(is_outside) {
            return Err("computes its statement for indices outside of their ranges".into());
        }
        let found = boxes.iter().map(count).fold(0, u64::saturating_add);
        let wanted = extents().fold(1, |all: u64, extent| all.saturating_mul(extent as u64));
        if found != wanted {
            return Err(format!("computes its statement {found} times on all ranks, not {wanted} times"));
        }
        if boxes.len() > MOST_BOXES {
            return Ok(false);
        }
        let meet = |one: &Vec<Range<i64>>, other: &Vec<Range<i64>>| {
            one.iter().zip(other).enumerate().all(|(nth, (one, other))| {
                one.start < other.end && other.start < one.end && (one.start - other.start) % stride(nth) == 0
            })
        };
        match boxes.iter().enumerate().any(|(nth, one)| boxes[..nth].iter().any(|other| meet(one, other))) {
            true => Err("computes its statement twice for some indices".into()),
            false => Ok(true),
        }
    }

    /// Whether the ranks at the owners' end of each leg have all of the region.
    fn is_covered(&self, rank: &Rank<'_>, transfer: &TransferView<'_>, counters: &[i64]) -> bool {
        let Transfer { route, direction, .. } = transfer.row;
        if let Some(Shift { counter, .. }) = route.shift()
            && counters[counter.0] != transfer.iteration_at_owners(self.loops[counter.0].extent)
        {
            return true;
        }
        // For a star, the elements that leaves read are checked instead.
        if route.star().is_some() {
            return true;
        }
        let sharding = self.shardings[transfer.tensor.0];
        let count = |region: &[Along]| match direction {
            Direction::In => region.iter().map(Along::distinct).fold(1, u64::saturating_mul),
            Direction::Out { .. } => region.iter().map(Along::count).fold(1, u64::saturating_mul),
        };
        transfer.at_owners().all(|(nth, leg, region)| {
            let Some(wanted) = rank.ranges(region, counters) else { return true };
            // The second of two legs reads from tiles.
            let passes_on = route.held.as_ref().filter(|_| nth == LegId(1));
            let has_all = |owner: Option<Vec<usize>>| {
                owner.is_some_and(|owner| match passes_on {
                    Some(held) => Rank::new(self, owner).ranges(held, counters).as_ref() == Some(&wanted),
                    None => Rank::new(self, owner).owned(sharding, &wanted) == count(&wanted),
                })
            };
            let parts = |owners: &mut dyn Iterator<Item = Vec<usize>>| -> u64 {
                let part = |owner: Vec<usize>| match direction {
                    Direction::In => rank.read_from(&Rank::new(self, owner), sharding, &wanted),
                    Direction::Out { .. } => Rank::new(self, owner).owned(sharding, &wanted),
                };
                owners.map(part).fold(0, u64::saturating_add)
            };
            match leg {
                Leg::InPlace | Leg::Copy | Leg::Collective { owners: Owners::All, .. } => {
                    has_all(Some(rank.coordinates.clone()))
                }
                Leg::Collective { axes, owners: Owners::One(root), .. } => {
                    has_all(rank.member_at(axes, root, counters))
                }
                Leg::Collective { axes, owners: Owners::Parts, .. } => {
                    parts(&mut self.mesh.members(&rank.coordinates, axes)) == count(&wanted)
                }
                Leg::Permute { owner, .. } => has_all(rank.rank_at(owner, counters)),
                Leg::Halo { reach } | Leg::Exchange { reach, .. } => {
                    // Each rank keeps its own term of a partial sum.
                    let own = |owner: &Vec<usize>| {
                        let term = |&axis: &usize| owner[axis] == rank.coordinates[axis];
                        *direction == Direction::In || sharding.partial().iter().all(term)
                    };
                    let found = parts(&mut self.mesh.in_reach(&rank.coordinates, reach).filter(own));
                    match direction {
                        Direction::In => found == count(&wanted),
                        Direction::Out { .. } => found >= count(&wanted),
                    }
                }
                Leg::Shift(_) => false,
            }
        })
    }

    /// Upper bound on the blocks, along all dimensions, that a leaf reads in a step by an access.
    fn most_blocks(&self, access: &LeafAccess) -> u64 {
        let along = access.strides.iter().zip(self.shardings[access.tensor.0].shape()).map(|(strides, &extent)| {
            let steps = strides.iter().map(|stride| stride.unsigned_abs()).filter(|&step| step > 1);
            steps.min().map_or(1, |step| extent as u64 / step + 1)
        });
        along.fold(0, u64::saturating_add)
    }

    /// Whether all elements that the leaf reads and writes in a step are in the regions of its transfers, and not in corners
    /// that are left out.
    fn leaf_stays_inside(&self, rank: &Rank<'_>, counters: &[i64]) -> Result<(), String> {
        let counts: Vec<_> = self.leaf.loops.iter().map(|inner| rank.value(&inner.count, counters)).collect();
        if counts.iter().any(|&count| count <= 0) {
            return Ok(());
        }
        let inside = |access: &LeafAccess, transfer: &TransferView<'_>, open: &[Option<i64>]| {
            let walks = access.base.iter().zip(&access.strides).zip(open);
            // Of a walk that leaves its array, the part inside counts, from its minimum to its maximum.
            let walks = walks.map(|((base, strides), extent)| {
                let (start, loops) = (rank.value(base, counters), strides.iter().copied().zip(counts.iter().copied()));
                let part = extent.map(|extent| {
                    let (least, most) = ends_of_walk(start.into(), loops.clone());
                    (least.max(0), most.min(i128::from(extent) - 1))
                });
                (start, loops, part)
            });
            if walks.clone().any(|(.., part)| part.is_some_and(|(least, most)| least > most)) {
                return true;
            }
            let (region, at) = self.surroundings(transfer, counters);
            rank.ranges(region, &at).is_some_and(|region| {
                walks.zip(&region).all(|((start, loops, part), along)| match part {
                    None => holds(along, start, loops),
                    Some((least, most)) => spans(along, least, most),
                })
            })
        };
        let of_operand = |(operand, access)| (access, self.transfers[self.transfer_of(OperandId(operand)).0]);
        let reads: Vec<(&LeafAccess, TransferView<'_>)> =
            self.leaf.operands.iter().enumerate().map(of_operand).collect();
        let open = self.kernel.value().accesses().into_iter().map(|read| self.kernel.open_extents(read));
        let target = vec![None; self.leaf.target.base.len()];
        let mut all = reads.iter().copied().zip(open).chain([((&self.leaf.target, self.output()), target)]);
        if let Some(((access, _), _)) = all.find(|((access, transfer), open)| !inside(access, transfer, open)) {
            return Err(format!("has a leaf that reaches outside its part of `{}`", self.tensor_name(access.tensor)));
        }
        match reads.into_iter().find(|(access, transfer)| !self.comes(rank, counters, &counts, access, transfer)) {
            None => Ok(()),
            Some((access, _)) => {
                let name = self.tensor_name(access.tensor);
                Err(format!("has a leaf that reads corners of its part of `{name}`, which are not fetched"))
            }
        }
    }

    /// Whether all elements that the leaf reads by an access in a step were fetched, if corners are left out.
    fn comes(
        &self,
        rank: &Rank<'_>,
        counters: &[i64],
        counts: &[i64],
        access: &LeafAccess,
        transfer: &TransferView<'_>,
    ) -> bool {
        let (Some(reach), Some(region)) = (transfer.route.star(), rank.ranges(&transfer.region, counters)) else {
            return true;
        };
        let sharding = self.shardings[access.tensor.0];
        let dims = access.base.iter().zip(&access.strides).zip(&region);
        let read = dims.map(|((base, strides), along)| {
            around(along, rank.value(base, counters), strides.iter().copied().zip(counts.iter().copied()))
        });
        let read: Vec<_> = read.collect();
        let elements = read
            .iter()
            .zip(sharding.shape())
            .map(|(along, &extent)| along.elements(extent).map(|run| run.len() as u64).fold(0, u64::saturating_add));
        let own = rank.read_from(rank, sharding, &read);
        let found = own.saturating_add(rank.read_from_others(reach, sharding, &read));
        found == elements.fold(1, u64::saturating_mul)
    }
}
