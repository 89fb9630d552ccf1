//! Reuse of tiles: data that a rank still holds is not fetched again.
//!
//! ```text
//! Q = X * Wq            X is gathered
//! K = X * Wk            X is in the tile of the first kernel
//!
//! V = near(U)           U is fetched with the wide halo that `far` needs
//! W = far(U)            U is in the tile of `near`
//! ```
//!
//! A transfer fetches the needed region without the elements that the rank owns or has received since they were last written. Where the
//! region is inside one that another kernel of the same round has read before, nothing is fetched, and the leaf reads that kernel's
//! tile. Where it contains that region, by messages of the same kind, the first kernel fetches all of it. So only the largest region
//! takes messages. Arrays are written once, so statements in between do not matter.
//! Tests: `program/tests/it/refused/kept.rs`.

use super::{Body, Part};
use crate::ids::{NestId, TileId};
use crate::nest::{Brought, LeafOp, Leg, Nest, Region, Route, Tile, Transfer};
use crate::proof::{Proof, Property};
use crate::statement::Statement;
use polyshard_layout::Name;

/// Maximum number of ranks whose regions are compared individually; with more, only regions with equal expressions are known to contain
/// each other.
const MOST_RANKS: usize = 1 << 12;

/// A transfer of a nest.
type Place = (NestId, TileId);

/// Changes to the transfers of a nest.
#[derive(Clone, Default)]
struct Changes {
    /// Transfers that fetch nothing, and the tiles from which their regions are read.
    kept: Vec<(TileId, Place)>,
    /// Transfers that fetch the region of a later kernel, which needs more, each with that kernel's transfer.
    wider: Vec<(TileId, Place)>,
}

/// A tile that is fetched.
struct Filled {
    place: Place,
    /// The transfer that defines its region: its own, or that of a later kernel, which needs more.
    as_of: Place,
    /// Whether a kernel that reads it might round its sums differently if the tile held more.
    is_rounded: bool,
}

impl Body {
    /// Returns the body in which no kernel fetches a region of an array that another one has in its tile since a run in the same round.
    /// If a later kernel needs more of the array, by messages of the same kind, the first kernel fetches all of that.
    ///
    /// Results are the same to the last bit, except that a sum over a part of an earlier kernel's tile may take its terms in another
    /// order.
    #[must_use]
    pub fn with_kept_tiles(self) -> Self {
        let mut found = vec![Changes::default(); self.nests.len()];
        self.find_kept(&self.statements, &mut found);
        let changed = |(id, changes): (usize, &Changes)| self.changed(&self.nests[id], changes).map(|nest| (id, nest));
        let changed: Vec<_> = found.iter().enumerate().filter_map(changed).collect();
        if changed.is_empty() {
            return self;
        }
        let mut body = self;
        changed.into_iter().for_each(|(id, nest)| body.nests[id] = nest);
        body.with_derived_statements()
    }

    /// The nest with these changes to its transfers; none if it is unchanged.
    fn changed(&self, nest: &Nest, Changes { kept, wider }: &Changes) -> Option<Nest> {
        if kept.is_empty() && wider.is_empty() {
            return None;
        }
        let (mut nest, mut claims) = (nest.clone(), Vec::new());
        for &(tile, (from, of)) in kept {
            let transfer = &mut nest.transfers[tile.0];
            transfer.brought = Brought::For { nest: from, tile: of };
            transfer.interior_first = false;
            let name = self.nests[from.0].kernel.name();
            let claim = format!("`{name}` has it in a tile already, and nothing has written it since");
            claims.push((tile, Property::Residency, claim, false));
        }
        for &(tile, (needing, of)) in wider {
            let (other, name) = (&self.nests[needing.0], self.nests[needing.0].kernel.name());
            let wide = &other.transfers[of.0];
            nest.transfers[tile.0].take_over(wide, name);
            let claim =
                format!("the region needed of it is inside the region that `{name}` needs, which is fetched whole");
            claims.push((tile, Property::Residency, claim, false));
            // The claim about its senders, as proved for the other kernel, if it is clear to which transfer that belongs.
            let is_only = other.inputs().iter().filter(|transfer| transfer.tensor == wide.tensor).count() == 1;
            let tensor = other.tensor_name(wide.tensor);
            let of_route = |proof: &&Proof| {
                is_only && proof.property == Property::Matching && proof.of_route && proof.tensor == Some(tensor)
            };
            let proved = other.report.proofs.iter().filter(of_route);
            claims.extend(proved.map(|proof| (tile, Property::Matching, proof.claim.clone(), true)));
        }
        let mut proofs = nest.still_proved();
        for (tile, property, claim, of_route) in claims {
            let tensor = Some(nest.tensor_name(nest.transfers[tile.0].tensor));
            let proof = Proof { property, tensor, claim, of_route };
            if !proofs.contains(&proof) {
                proofs.push(proof);
            }
        }
        Some(nest.completed(proofs))
    }

    /// Finds the changes to the transfers of the nests among statements.
    fn find_kept(&self, statements: &[Statement], found: &mut [Changes]) {
        let mut tiles: Vec<Filled> = Vec::new();
        for part in Self::parts_of(statements) {
            match part {
                Part::Nest(id, _) => {
                    let nest = &self.nests[id.0];
                    let (mut own, is_rounded) = (Vec::new(), nest.rounds_sums());
                    for tile in (0..nest.inputs().len()).map(TileId) {
                        let place = (id, tile);
                        let mut at = tiles.iter().position(|filled| self.is_in(place, filled));
                        if at.is_none() {
                            at = tiles.iter().position(|filled| self.may_fill(place, filled));
                            at.into_iter().for_each(|at| tiles[at].as_of = place);
                        }
                        let Some(filled) = at.map(|at| &mut tiles[at]) else {
                            own.push(Filled { place, as_of: place, is_rounded });
                            continue;
                        };
                        filled.is_rounded |= is_rounded;
                        found[id.0].kept.push((tile, filled.place));
                    }
                    tiles.extend(own);
                }
                Part::Repeat(_, round) => self.find_kept(round, found),
                Part::Begin(_) | Part::Await(_) | Part::Free(_) => {}
            }
        }
        for Filled { place, as_of, .. } in tiles.iter().filter(|filled| filled.as_of != filled.place) {
            found[place.0.0].wider.push((place.1, *as_of));
        }
    }

    fn at(&self, (nest, tile): Place) -> (&Nest, &Transfer) {
        (&self.nests[nest.0], &self.nests[nest.0].transfers[tile.0])
    }

    /// Whether the region of a transfer is completely in a tile, where the transfer's leaf can read it.
    fn is_in(&self, place: Place, filled: &Filled) -> bool {
        let ((nest, transfer), (_, own)) = (self.at(place), self.at(filled.place));
        let (source, tile) = filled.as_of;
        own.tile.is_read_by(nest) && self.nests[source.0].holds(tile, nest, transfer)
    }

    /// Whether a tile may be filled with the region of a later nest's transfer, and that nest's leaf can read it there.
    ///
    /// This requires that the region is larger, that its messages are of the same kind and no fewer, and that no kernel that reads the
    /// tile might round differently. A transfer that overlaps its own leaf is not moved to a kernel that would wait for it.
    fn may_fill(&self, place: Place, filled: &Filled) -> bool {
        let ((nest, wide), (_, own)) = (self.at(place), self.at(filled.place));
        let (source, now) = self.at(filled.as_of);
        !filled.is_rounded
            && (own.interior_first || !wide.interior_first)
            && wide.route.is_at_least(&now.route)
            && own.tile.is_read_by(nest)
            && nest.holds(place.1, source, now)
    }
}

impl Nest {
    /// The proofs that still hold, without those of routes that are no longer taken, and new ones that ranks make the same calls.
    fn still_proved(&self) -> Vec<Proof> {
        let is_sent = |tensor: Name| {
            let of_tensor = |transfer: &&Transfer| self.tensor_name(transfer.tensor) == tensor;
            self.transfers.iter().filter(of_tensor).any(|transfer| transfer.kept_by().is_none())
        };
        let holds = |proof: &&Proof| {
            proof.property != Property::Matching && (!proof.of_route || proof.tensor.is_none_or(is_sent))
        };
        let proved = self.report.proofs.iter().filter(holds).cloned();
        let matching = self
            .matches()
            .unwrap_or_else(|why| panic!("ranks differ with less to send: {why}; this is a bug in polyshard"));
        proved.chain(matching).collect()
    }

    /// Whether its sums may be rounded differently if their terms are laid out differently in tiles.
    fn rounds_sums(&self) -> bool {
        !self.kernel.writes_once() && self.kernel.assign().depends_on_order(self.kernel.dtype())
    }

    /// Whether another nest can read the region of its transfer, after a run, in the tile of one of this nest's transfers.
    pub(super) fn keeps(&self, tile: TileId, other: &Self, transfer: &Transfer) -> bool {
        let is_read = self.transfers.get(tile.0).is_some_and(|kept| kept.tile.is_read_by(other));
        is_read && self.holds(tile, other, transfer)
    }

    /// Whether the region of one of its transfers contains that of another nest's transfer of the same array.
    fn holds(&self, tile: TileId, other: &Self, transfer: &Transfer) -> bool {
        let Some(kept) = self.transfers.get(tile.0) else { return false };
        let id = |nest: &Self, of: &Transfer| nest.arrays.get(of.tensor.0).copied();
        let stays = kept.can_stay() && transfer.can_stay() && kept.kept_by().is_none();
        // Corners that one tile did not receive are missing in the other.
        let all_comes = kept.route.star().is_none_or(|star| match &transfer.route.legs[..] {
            [leg] => leg.reach(&self.mesh).is_some_and(|reach| star.hold(&reach)),
            _ => false,
        });
        let is_once = self.time_steps.is_none() && other.time_steps.is_none();
        stays
            && is_once
            && self.mesh == other.mesh
            && all_comes
            && id(self, kept) == id(other, transfer)
            && self.is_inside(&transfer.region, &kept.region)
    }

    /// Whether one region is inside another on each rank, where neither depends on loops.
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

impl Tile {
    /// Whether the leaf of a nest can read it: if a rank's own part is not in the tile but in its shard, only a nest of loops can.
    fn is_read_by(&self, nest: &Nest) -> bool {
        !self.own_in_place || nest.leaf.op == LeafOp::Nest
    }
}

impl Transfer {
    /// Makes it fetch the region of a later kernel's transfer of the same array.
    fn take_over(&mut self, wide: &Self, kernel: Name) {
        self.region = wide.region.clone();
        self.route = wide.route.clone();
        self.tile.capacity = wide.tile.capacity;
        self.carried_out = wide.carried_out.clone();
        let heading =
            format!("`{kernel}` needs more of it later and reuses this, so all that it needs is fetched here:");
        let tests = wide.tests.iter().map(|test| format!("  {test}"));
        self.tests = std::iter::once(heading).chain(tests).collect();
    }
}

impl Route {
    /// Whether it uses messages of the same kind as another route, from no fewer ranks.
    fn is_at_least(&self, other: &Self) -> bool {
        match (&self.legs[..], &other.legs[..]) {
            ([Leg::Halo { reach }], [Leg::Halo { reach: other }])
            | ([Leg::Exchange { reach, .. }], [Leg::Exchange { reach: other, .. }]) => reach.hold(other),
            _ => self == other,
        }
    }
}
