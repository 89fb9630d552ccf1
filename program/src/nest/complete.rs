//! The derived parts of a nest: its tiles and its report.

use super::{Algorithm, Buffers, Direction, Interior, LeafOp, NestView, Owners, Tile, Transfer, TransferView};
use crate::expr::Symbol;
use crate::ids::{Axes, CounterId, KernelId, LegId};
use crate::kernel::Assign;
use crate::program::Body;
use crate::proof::Proof;
use crate::report::report;
use crate::traffic;
use polyshard_layout::SumAlgorithm;

/// What follows from the transfers and the leaf of a kernel.
struct Derived {
    /// By transfer, its tile and the algorithms of its collectives; none if another kernel fetches it.
    transfers: Vec<Option<(Tile, Vec<Algorithm>)>>,
    overwrites: bool,
    interior: Option<Interior>,
}

impl Body {
    /// Sets the parts of a kernel that follow from its transfers and its leaf, and its report, with these proofs.
    ///
    /// # Panics
    /// If there is no such kernel.
    pub fn complete(&mut self, id: KernelId, proofs: Vec<Proof>) {
        self.derive(id);
        let nest = self.nest(id);
        self.kernels[id.0].report = report(&nest, traffic::of_busiest(&nest).as_ref(), proofs);
    }

    /// The same without proofs, and with a bound on its traffic instead of a count, which takes longer than everything else.
    ///
    /// # Panics
    /// If there is no such kernel.
    pub fn sketch(&mut self, id: KernelId) {
        self.derive(id);
        self.kernels[id.0].report = report(&self.nest(id), None, Vec::new());
    }

    fn derive(&mut self, id: KernelId) {
        let Derived { transfers, overwrites, interior } = self.nest(id).derived();
        let row = &mut self.kernels[id.0];
        (row.leaf.overwrites, row.leaf.interior) = (overwrites, interior);
        for (used, derived) in row.uses.iter().zip(transfers) {
            let Some((tile, algorithms)) = derived else { continue };
            let transfer = &mut self.transfers[used.transfer.0];
            transfer.tile = tile;
            transfer.route.algorithms_mut().zip(algorithms).for_each(|((_, by), algorithm)| *by = algorithm);
        }
    }
}

impl NestView<'_> {
    fn derived(&self) -> Derived {
        let transfer = |transfer: &TransferView<'_>| (self.tile(transfer), self.algorithms(transfer));
        let own = |one: &TransferView<'_>| one.reused.is_none().then(|| transfer(one));
        Derived {
            transfers: self.transfers.iter().map(own).collect(),
            overwrites: self.overwrites(),
            // If the interior cannot be determined, the checks refuse the kernel.
            interior: self.interior().unwrap_or_default(),
        }
    }

    /// Whether all parts that follow from others, and the report, are as [`Body::complete`] sets them.
    pub(super) fn is_complete(&self) -> bool {
        let Derived { transfers, overwrites, interior } = self.derived();
        let is_as = |(transfer, derived): (&TransferView<'_>, Option<(Tile, Vec<Algorithm>)>)| {
            derived.is_none_or(|(tile, algorithms)| {
                transfer.tile == tile && transfer.route.collectives().map(|(.., by)| by).eq(&algorithms)
            })
        };
        (self.leaf.overwrites, &self.leaf.interior) == (overwrites, &interior)
            && self.transfers.iter().zip(transfers).all(is_as)
            && self.report == report(self, traffic::of_busiest(self).as_ref(), self.report.proofs.clone())
    }

    /// The tile of a transfer, with the capacity that it has.
    fn tile(&self, transfer: &Transfer) -> Tile {
        let Transfer { route, region, direction, tile, ahead, .. } = transfer;
        let buffers = match direction {
            Direction::Out { .. } if self.in_panels => Buffers::One,
            _ if route.is_in_place() => Buffers::Shard,
            _ if *ahead > 0 => Buffers::Ahead(*ahead),
            // A forwarded tile is still being sent while the next one is received.
            Direction::In if route.forwards() => Buffers::Relay,
            _ => Buffers::One,
        };
        let varies = || (0..self.loops.len()).any(|number| region.mentions(Symbol::Counter(CounterId(number))));
        let is_fixed = route.among().is_some() && route.shift().is_none() && !varies();
        let is_halo = route.halo().is_some() && *direction == Direction::In && *ahead == 0;
        let own_in_place = is_halo && !region.has_blocks() && self.leaf.op == LeafOp::Nest;
        Tile { buffers, is_fixed, own_in_place, ..*tile }
    }

    /// By collective, how it is carried out.
    fn algorithms(&self, transfer: &TransferView<'_>) -> Vec<Algorithm> {
        let of_leg = |(leg, axes, owners, by): (LegId, &Axes, &Owners, &Algorithm)| {
            let members = self.mesh.group_size(axes);
            let bytes = self.bytes_of(transfer.tile.capacity);
            match (by, transfer.direction, owners) {
                (Algorithm::Stages(_) | Algorithm::Procedure(_), ..) => by.clone(),
                (_, Direction::In, Owners::One(_)) if transfer.ahead > 0 && leg == LegId(0) => {
                    Algorithm::of_broadcast(members, bytes)
                }
                (_, Direction::In, Owners::Parts) if transfer.ahead > 0 => Algorithm::Direct,
                (_, Direction::In, Owners::Parts) if leg == LegId(0) && self.is_owned_by_few(transfer, axes) => {
                    Algorithm::EachPart
                }
                (_, Direction::In | Direction::Out { any_order: true }, _) => Algorithm::Library,
                // Pieces of a sum could end inside a record.
                (_, Direction::Out { any_order: false }, _) if self.kernel.record_index().is_some() => {
                    Algorithm::GatherTerms
                }
                (_, Direction::Out { any_order: false }, Owners::Parts) => Algorithm::GatherTerms,
                (_, Direction::Out { any_order: false }, _) => SumAlgorithm::in_order(bytes, members).into(),
            }
        };
        transfer.route.collectives().map(of_leg).collect()
    }

    fn bytes_of(&self, elements: usize) -> u64 {
        (elements as u64).saturating_mul(self.kernel.dtype().size() as u64)
    }

    /// Whether at most half of the members of a group that gathers parts of a region own one: an all-gather handles parts of equal size
    /// well, and others badly.
    fn is_owned_by_few(&self, transfer: &TransferView<'_>, axes: &[usize]) -> bool {
        let (tensor, region) = (transfer.tensor, &transfer.row.region);
        let dims = self.shardings[tensor.0].dims().iter().zip(region.max_extents(&self.ranges()));
        let owners = dims.map(|(layout, extent)| layout.most_owners(extent.unsigned_abs() as usize, axes) as u64);
        let owners = owners.fold(1, u64::saturating_mul);
        owners <= self.mesh.group_size(axes) / 2 && !region.has_blocks()
    }

    /// Whether the leaf overwrites the output in place: with `=`, in a nest that gives each element one value. Not for partial sums, of
    /// which a rank holds more than it computes.
    fn overwrites(&self) -> bool {
        let is_partial = self.shardings.last().is_some_and(|sharding| !sharding.partial().is_empty());
        let in_place = self.output().route.is_in_place() && self.leaf.op == LeafOp::Nest && !is_partial;
        self.kernel.assign() == Assign::Set && in_place && self.kernel.writes_once()
    }
}
