//! The derived parts of a nest: its tiles and its report.

use super::{Algorithm, Buffers, Direction, LeafOp, Leg, Nest, Owners, Tile, Transfer};
use crate::expr::Symbol;
use crate::ids::LoopId;
use crate::kernel::Assign;
use crate::proof::Proof;
use crate::report::report;
use crate::traffic;
use polyshard_layout::SumAlgorithm;

impl Nest {
    /// Returns the nest with the parts derived from its transfers and its leaf, and with these proofs in its report.
    #[must_use]
    pub fn completed(self, proofs: Vec<Proof>) -> Self {
        let nest = self.with_tiles();
        Self { report: report(&nest, traffic::of_busiest(&nest).as_ref(), proofs), ..nest }
    }

    /// Returns the same without proofs, and with a bound on its traffic instead of a count, which takes longer than everything else.
    #[must_use]
    pub fn sketched(self) -> Self {
        let nest = self.with_tiles();
        Self { report: report(&nest, None, Vec::new()), ..nest }
    }

    fn with_tiles(mut self) -> Self {
        let derived: Vec<_> =
            self.transfers.iter().map(|transfer| (self.tile(transfer), self.algorithms(transfer))).collect();
        for (transfer, (tile, algorithms)) in self.transfers.iter_mut().zip(derived) {
            transfer.tile = tile;
            let collectives = transfer.route.legs.iter_mut().filter_map(|leg| match leg {
                Leg::Collective { by, .. } => Some(by),
                _ => None,
            });
            collectives.zip(algorithms).for_each(|(by, algorithm)| *by = algorithm);
        }
        self.leaf.overwrites = self.overwrites();
        // If the interior cannot be determined, the checks refuse the nest.
        self.leaf.interior = self.interior().unwrap_or_default();
        self
    }

    /// The tile of a transfer, with the capacity that it has.
    fn tile(&self, transfer: &Transfer) -> Tile {
        let Transfer { route, region, direction, tile, ahead, .. } = transfer;
        let buffers = match (direction, &route.legs[..]) {
            (_, [Leg::InPlace]) => Buffers::Shard,
            _ if *ahead > 0 => Buffers::Ahead(*ahead),
            // A forwarded tile is still being sent while the next one is received.
            (Direction::In, [.., Leg::Shift(_)] | [_, Leg::Permute { .. }]) => Buffers::Relay,
            _ => Buffers::One,
        };
        let varies = || (0..self.loops.len()).any(|number| region.mentions(Symbol::Counter(LoopId(number))));
        let is_fixed = matches!(route.legs[..], [Leg::Halo { .. } | Leg::Exchange { .. }]) && !varies();
        let is_halo = matches!(route.legs[..], [Leg::Halo { .. }]) && *direction == Direction::In && *ahead == 0;
        let own_in_place = is_halo && !region.has_blocks() && self.leaf.op == LeafOp::Nest;
        Tile { buffers, is_fixed, own_in_place, ..*tile }
    }

    /// By collective, how it is carried out.
    fn algorithms(&self, transfer: &Transfer) -> Vec<Algorithm> {
        let of_leg = |(nth, leg): (usize, &Leg)| {
            let Leg::Collective { axes, owners, by } = leg else { return None };
            let members = self.mesh.group_size(axes);
            let bytes = self.bytes_of(transfer.tile.capacity);
            Some(match (by, transfer.direction, owners) {
                (Algorithm::Stages(_) | Algorithm::Procedure(_), ..) => by.clone(),
                (_, Direction::In, Owners::One(_)) if transfer.ahead > 0 && nth == 0 => {
                    Algorithm::of_broadcast(members, bytes)
                }
                (_, Direction::In, Owners::Parts) if transfer.ahead > 0 => Algorithm::Direct,
                (_, Direction::In, Owners::Parts) if nth == 0 && self.is_owned_by_few(transfer, axes) => {
                    Algorithm::EachPart
                }
                (_, Direction::In | Direction::Out { any_order: true }, _) => Algorithm::Library,
                (_, Direction::Out { any_order: false }, Owners::Parts) => Algorithm::GatherTerms,
                (_, Direction::Out { any_order: false }, _) => SumAlgorithm::in_order(bytes, members).into(),
            })
        };
        transfer.route.legs.iter().enumerate().filter_map(of_leg).collect()
    }

    fn bytes_of(&self, elements: usize) -> u64 {
        (elements as u64).saturating_mul(self.kernel.dtype().size() as u64)
    }

    /// Whether at most half of the members of a group that gathers parts of a region own one: an all-gather handles parts of equal size
    /// well, and others badly.
    fn is_owned_by_few(&self, Transfer { tensor, region, .. }: &Transfer, axes: &[usize]) -> bool {
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
