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

use super::Body;
use super::body::{Id, numbers};
use crate::ids::{ArrayId, KernelId};
use crate::nest::{LeafOp, NestView, Region, Tile, Transfer, TransferView};
use crate::proof::{Proof, Property};
use crate::statement::Statement;
use polyshard_layout::Name;
use std::collections::BTreeMap;

/// Maximum number of ranks whose regions are compared individually; with more, only regions with equal expressions are known to contain
/// each other.
const MOST_RANKS: usize = 1 << 12;

/// A transfer of an input, and the number of the tile by the kernel that uses it.
#[derive(Clone, Copy, PartialEq)]
struct Place {
    kernel: KernelId,
    tile: usize,
}

/// A tile that is fetched.
struct Filled {
    place: Place,
    /// The transfer that defines its region: its own, or that of a later kernel, which needs more.
    as_of: Place,
    /// Whether a kernel that reads it might round its sums differently if the tile held more.
    is_rounded: bool,
}

/// Changes to transfers.
#[derive(Default)]
struct Changes {
    /// Transfers that fetch nothing, and those whose tiles hold their regions.
    kept: Vec<(Place, Place)>,
    /// Transfers that fetch the region of a later kernel, which needs more, each with that kernel's transfer.
    wider: Vec<(Place, Place)>,
}

impl Body {
    /// Returns the body in which no kernel fetches a region of an array that another one has in its tile since a run in the same round:
    /// both use one transfer. If a later kernel needs more of the array, by messages of the same kind, the first kernel fetches all of
    /// that.
    ///
    /// Results are the same to the last bit, except that a sum over a part of an earlier kernel's tile may take its terms in another
    /// order.
    #[must_use]
    pub fn with_kept_tiles(mut self) -> Self {
        let mut changes = Changes::default();
        self.find_kept(&self.statements, &mut changes);
        if changes.kept.is_empty() {
            return self;
        }
        let mut claims = Vec::new();
        for &(place, from) in &changes.kept {
            let name = self.kernels[from.kernel.0].kernel.name();
            let claim = format!("`{name}` has it in a tile already, and nothing has written it since");
            claims.push((place, Property::Residency, claim, false));
        }
        for &(place, needing) in &changes.wider {
            let (other, wide) = self.at(needing);
            let name = other.kernel.name();
            let claim =
                format!("the region needed of it is inside the region that `{name}` needs, which is fetched whole");
            claims.push((place, Property::Residency, claim, false));
            // The claim about its senders, as proved for the other kernel, if it is clear to which transfer that belongs.
            let is_only = other.inputs().iter().filter(|transfer| transfer.tensor == wide.tensor).count() == 1;
            let tensor = other.tensor_name(wide.tensor);
            let of_route = |proof: &&Proof| {
                is_only && proof.property == Property::Matching && proof.of_route && proof.tensor == Some(tensor)
            };
            let proved = other.report.proofs.iter().filter(of_route);
            claims.extend(proved.map(|proof| (place, Property::Matching, proof.claim.clone(), true)));
            let (wide, id) = (wide.row.clone(), self.at(place).1.id);
            self.transfers[id.0].take_over(wide, name);
        }
        for &(Place { kernel, tile }, from) in &changes.kept {
            let id = self.at(from).1.id;
            self.kernels[kernel.0].uses[tile].transfer = id;
        }
        claims.sort_by_key(|(place, ..)| place.kernel);
        for here in claims.chunk_by(|(one, ..), (next, ..)| one.kernel == next.kernel) {
            let kernel = here[0].0.kernel;
            let nest = self.nest(kernel);
            let mut proofs = nest.still_proved();
            for &(place, property, ref claim, of_route) in here {
                let tensor = Some(nest.tensor_name(nest.transfers[place.tile].tensor));
                let proof = Proof { property, tensor, claim: claim.clone(), of_route };
                if !proofs.contains(&proof) {
                    proofs.push(proof);
                }
            }
            self.complete(kernel, proofs);
        }
        self.place();
        self.forget_unused();
        self
    }

    /// Whether a transfer is used by the kernel with whose tile it begins or ends.
    fn is_used(&self, number: usize) -> bool {
        let kernel = self.transfers[number].kernel();
        let used = |kernel: KernelId| self.kernels[kernel.0].uses.iter().any(|used| used.transfer.0 == number);
        kernel.is_none_or(used)
    }

    /// A transfer that its kernel does not use, and the kernel.
    pub(super) fn unused(&self) -> Option<(usize, KernelId)> {
        let number = (0..self.transfers.len()).find(|number| !self.is_used(*number))?;
        Some((number, self.transfers[number].kernel()?))
    }

    /// Removes transfers between arrays and tiles that their kernels do not use.
    pub fn forget_unused(&mut self) {
        let stays: Vec<_> = (0..self.transfers.len()).map(|number| self.is_used(number)).collect();
        let numbers = numbers(&stays);
        self.each_id(&mut |_, id| {
            if let Id::Transfer(id) = id {
                id.0 = numbers[id.0];
            }
        });
        let mut stays = stays.iter();
        self.transfers.retain(|_| stays.next().is_some_and(|stays| *stays));
    }

    /// Finds the changes to the transfers of the kernels among statements.
    fn find_kept(&self, statements: &[Statement], found: &mut Changes) {
        let mut tiles: Vec<Filled> = Vec::new();
        // Only tiles of the same array hold its elements.
        let mut of_array: BTreeMap<ArrayId, Vec<usize>> = BTreeMap::new();
        for span in self.spans(statements) {
            if let [Statement::Rounds(_, round)] = span.statements {
                self.find_kept(round, found);
            }
            for kernel in self.kernels_of(span) {
                let nest = self.nest(kernel);
                let (mut own, is_rounded) = (Vec::new(), nest.rounds_sums());
                for tile in 0..nest.inputs().len() {
                    let place = Place { kernel, tile };
                    if !nest.transfers[tile].can_stay() {
                        continue;
                    }
                    let array = nest.arrays[nest.transfers[tile].tensor.0];
                    let same = || of_array.get(&array).into_iter().flatten().copied();
                    let mut at = same().find(|at| self.is_in(place, &tiles[*at]));
                    if at.is_none() {
                        at = same().find(|at| self.may_fill(place, &tiles[*at]));
                        at.into_iter().for_each(|at| tiles[at].as_of = place);
                    }
                    let Some(filled) = at.map(|at| &mut tiles[at]) else {
                        own.push((array, Filled { place, as_of: place, is_rounded }));
                        continue;
                    };
                    filled.is_rounded |= is_rounded;
                    found.kept.push((place, filled.place));
                }
                for (array, filled) in own {
                    of_array.entry(array).or_default().push(tiles.len());
                    tiles.push(filled);
                }
            }
        }
        let wider = tiles.iter().filter(|filled| filled.as_of != filled.place);
        found.wider.extend(wider.map(|filled| (filled.place, filled.as_of)));
    }

    fn at(&self, Place { kernel, tile }: Place) -> (NestView<'_>, TransferView<'_>) {
        let nest = self.nest(kernel);
        let transfer = nest.transfers[tile];
        (nest, transfer)
    }

    /// Whether the region of a transfer is completely in a tile, where the transfer's leaf can read it.
    fn is_in(&self, place: Place, filled: &Filled) -> bool {
        let ((nest, transfer), (_, own)) = (self.at(place), self.at(filled.place));
        let (source, held) = self.at(filled.as_of);
        own.tile.is_read_by(&nest) && source.holds(&held, &nest, &transfer)
    }

    /// Whether a tile may be filled with the region of a later kernel's transfer, and that kernel's leaf can read it there.
    ///
    /// This requires that the region is larger, that its messages are of the same kind and no fewer, and that no kernel that reads the
    /// tile might round differently. A transfer that overlaps its own leaf is not moved to a kernel that would wait for it.
    fn may_fill(&self, place: Place, filled: &Filled) -> bool {
        let ((nest, wide), (_, own)) = (self.at(place), self.at(filled.place));
        let (source, now) = self.at(filled.as_of);
        !filled.is_rounded
            && (own.interior_first || !wide.interior_first)
            && wide.route.is_at_least(&now.route)
            && own.tile.is_read_by(&nest)
            && nest.holds(&wide, &source, &now)
    }
}

impl NestView<'_> {
    /// The proofs that still hold, without those of routes that are no longer taken, and new ones that ranks make the same calls.
    fn still_proved(&self) -> Vec<Proof> {
        let is_sent = |tensor: Name| {
            let of_tensor = |transfer: &&TransferView<'_>| self.tensor_name(transfer.tensor) == tensor;
            self.transfers.iter().filter(of_tensor).any(|transfer| transfer.reused.is_none())
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

    /// Whether the region of one of its transfers contains that of another kernel's transfer of the same array.
    fn holds(&self, kept: &TransferView<'_>, other: &Self, transfer: &TransferView<'_>) -> bool {
        let stays = kept.can_stay() && transfer.can_stay() && kept.reused.is_none();
        // Corners that one tile did not receive are missing in the other.
        let all_comes = kept.route.star().is_none_or(|star| match &transfer.route.legs[..] {
            [leg] => leg.reach(self.mesh).is_some_and(|reach| star.hold(&reach)),
            _ => false,
        });
        let is_once = self.time_steps.is_none() && other.time_steps.is_none();
        stays && is_once && all_comes && kept.from == transfer.from && self.is_inside(&transfer.region, &kept.region)
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
    pub(super) fn is_read_by(&self, nest: &NestView<'_>) -> bool {
        !self.own_in_place || nest.leaf.op == LeafOp::Nest
    }
}

impl Transfer {
    /// Makes it fetch the region of a later kernel's transfer of the same array.
    fn take_over(&mut self, wide: Self, kernel: Name) {
        self.region = wide.region;
        self.route = wide.route;
        self.tile.capacity = wide.tile.capacity;
        self.carried_out = wide.carried_out;
        let heading =
            format!("`{kernel}` needs more of it later and reuses this, so all that it needs is fetched here:");
        let tests = wide.tests.iter().map(|test| format!("  {test}"));
        self.tests = std::iter::once(heading).chain(tests).collect();
    }
}
