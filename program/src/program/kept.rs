//! Tiles that kernels keep for others: what has come to a rank and has not been written since need not come again.
//!
//! ```text
//! Q = X * Wq       X is gathered
//! K = X * Wk       X is in the tile of the first kernel
//! ```
//!
//! A transfer brings what is needed less what the rank owns or has received since that was last written. Where the region that a kernel
//! needs of an array is inside of what another one of the same round has read before, nothing is left to bring, and the leaf reads
//! that one's tile. Arrays are written once, so what lies in between does not matter.

use super::{Body, Part};
use crate::ids::{NestId, TileId};
use crate::nest::{Brought, LeafOp, Nest, Region, Transfer};
use crate::proof::{Proof, Property};
use crate::statement::Statement;
use polyshard_layout::Name;

/// The most ranks whose regions are compared one by one; of more, only those are known to be inside of others that are written alike.
const MOST_RANKS: usize = 1 << 12;

/// A transfer that brings nothing, and the tile of another nest that its region is read from.
type Kept = (TileId, (NestId, TileId));

impl Body {
    /// Returns the body in which no kernel is brought what it needs of an array if another one has it in its tile since a run in the
    /// same round. Results are the same to the last bit where both need the same region; a sum over a part of another's may take its terms
    /// in another order.
    #[must_use]
    pub fn with_kept_tiles(self) -> Self {
        let mut found = Vec::new();
        self.find_kept(&self.statements, &mut found);
        if found.is_empty() {
            return self;
        }
        let mut body = self;
        let names: Vec<_> = body.nests.iter().map(|nest| nest.kernel.name()).collect();
        for (NestId(id), kept) in found {
            let mut nest = body.nests[id].clone();
            let mut claims = Vec::new();
            for (tile, from) in kept {
                let transfer = &mut nest.transfers[tile.0];
                transfer.brought = Brought::For { nest: from.0, tile: from.1 };
                transfer.interior_first = false;
                let tensor = transfer.tensor;
                let claim = format!("`{}` has it in a tile already, and nothing has written it since", names[from.0.0]);
                let tensor = Some(nest.tensor_name(tensor));
                claims.push(Proof { property: Property::Residency, tensor, claim, of_route: false });
            }
            let proofs = nest.still_proved().chain(claims).collect();
            body.nests[id] = nest.completed(proofs);
        }
        body.with_derived_statements()
    }

    /// What is kept for the nests among statements: by nest, its transfers that bring nothing, and those whose tiles they are read from.
    fn find_kept(&self, statements: &[Statement], found: &mut Vec<(NestId, Vec<Kept>)>) {
        let mut tiles: Vec<(NestId, TileId)> = Vec::new();
        for part in Self::parts_of(statements) {
            match part {
                Part::Nest(id, _) => {
                    let nest = &self.nests[id.0];
                    let (mut kept, mut own) = (Vec::new(), Vec::new());
                    for (number, transfer) in nest.inputs().iter().enumerate() {
                        let keeps = |&(other, tile): &(NestId, TileId)| self.nests[other.0].keeps(tile, nest, transfer);
                        match tiles.iter().copied().find(keeps) {
                            Some(from) => kept.push((TileId(number), from)),
                            None => own.push((id, TileId(number))),
                        }
                    }
                    tiles.extend(own);
                    if !kept.is_empty() {
                        found.push((id, kept));
                    }
                }
                Part::Repeat(_, round) => self.find_kept(round, found),
                Part::Begin(_) | Part::Await(_) | Part::Free(_) => {}
            }
        }
    }
}

impl Nest {
    /// What holds of it besides what was proved of routes that nothing takes any more, and whether ranks make the same calls.
    fn still_proved(&self) -> impl Iterator<Item = Proof> {
        let is_sent = |tensor: Name| {
            let of_tensor = |transfer: &&Transfer| self.tensor_name(transfer.tensor) == tensor;
            self.transfers.iter().filter(of_tensor).any(|transfer| transfer.kept_by().is_none())
        };
        let holds = |proof: &&Proof| {
            proof.property != Property::Matching && (!proof.of_route || proof.tensor.is_none_or(is_sent))
        };
        let proved: Vec<_> = self.report.proofs.iter().filter(holds).cloned().collect();
        let matching = self
            .matches()
            .unwrap_or_else(|why| panic!("ranks differ with less to send: {why}; this is a bug of polyshard"));
        proved.into_iter().chain(matching)
    }

    /// Whether the tile of one of its transfers, after a run, holds what a transfer of another nest is to bring of the same array.
    pub(super) fn keeps(&self, tile: TileId, other: &Self, transfer: &Transfer) -> bool {
        let Some(kept) = self.transfers.get(tile.0) else { return false };
        // Where a rank's own part is not in the tile but in its shard, a nest of loops alone reads both.
        let is_read = !kept.tile.own_in_place || other.leaf.op == LeafOp::Nest;
        let id = |nest: &Self, of: &Transfer| nest.arrays.get(of.tensor.0).copied();
        let stays = kept.can_stay() && transfer.can_stay() && kept.kept_by().is_none();
        // Corners that have not come to one tile are missing in the other.
        let all_comes = match kept.route.star() {
            None => true,
            Some(star) => transfer.route.star() == Some(star) && transfer.region == kept.region,
        };
        let is_once = self.time_steps.is_none() && other.time_steps.is_none();
        stays
            && is_read
            && all_comes
            && is_once
            && self.mesh == other.mesh
            && id(self, kept) == id(other, transfer)
            && self.is_inside(&transfer.region, &kept.region)
    }

    /// Whether one region is inside of another on each rank, neither of which depends on loops.
    fn is_inside(&self, inner: &Region, outer: &Region) -> bool {
        if inner == outer {
            return true;
        }
        if self.mesh.size() > MOST_RANKS || [inner, outer].iter().any(|region| region.has_blocks() || region.wraps()) {
            return false;
        }
        (0..self.mesh.size()).all(|rank| {
            let at: Vec<_> = self.mesh.coordinates(rank).into_iter().map(|at| at as i64).collect();
            let Some(inner) = inner.at(&at, &[]) else { return true };
            let Some(outer) = outer.at(&at, &[]) else { return false };
            inner.iter().zip(&outer).all(|(inner, outer)| {
                let (inner, outer) = (inner.range(), outer.range());
                outer.start <= inner.start && inner.end <= outer.end
            })
        })
    }
}
