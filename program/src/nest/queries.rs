//! Queries about a nest.

use super::{Algorithm, Direction, LoweredKernel, NestView, Owners, Transfer, TransferView};
use crate::expr::{Ranges, Symbol};
use crate::ids::{ArrayId, AxisId, KernelId, OperandId, TensorId, TileId};
use crate::pattern::Pattern;
use polyshard_layout::{Name, Sharding, SumAlgorithm, SumKind};

impl LoweredKernel {
    /// Returns the array that it writes.
    ///
    /// # Panics
    /// If it is missing: a bug in polyshard.
    #[must_use]
    pub fn writes(&self) -> ArrayId {
        *self.arrays.last().expect("a kernel has an output; this is a bug in polyshard")
    }

    /// Returns the arrays that it reads, in the kernel's order.
    #[must_use]
    pub fn reads(&self) -> &[ArrayId] {
        self.arrays.split_last().map_or(&[], |(_, inputs)| inputs)
    }

    /// Returns the arrays that must be written before it runs: those that it reads, and the one that its output continues.
    pub fn needs(&self) -> impl Iterator<Item = ArrayId> {
        self.reads().iter().copied().chain(self.continues.map(|continued| continued.array))
    }

    /// Returns whether its terms are combined with the elements of the array that its output continues.
    #[must_use]
    pub fn adds(&self) -> bool {
        self.continues.is_some_and(|continued| continued.adds)
    }
}

impl<'a> NestView<'a> {
    /// Returns the transfer of the output.
    ///
    /// # Panics
    /// If it has none: a bug in polyshard.
    #[must_use]
    pub fn output(&self) -> TransferView<'a> {
        *self.transfers.last().expect("a kernel has an output; this is a bug in polyshard")
    }

    /// Returns the transfers of inputs.
    #[must_use]
    pub fn inputs(&self) -> &[TransferView<'a>] {
        &self.transfers[..self.transfers.len() - 1]
    }

    /// Returns its transfers that fetch nothing, each with the kernel and the tile that it reuses.
    pub fn kept(&self) -> impl Iterator<Item = (TileId, (KernelId, TileId))> {
        (0..).map(TileId).zip(&self.transfers).filter_map(|(tile, transfer)| Some((tile, transfer.reused?)))
    }

    /// Returns the sharding of the output.
    ///
    /// # Panics
    /// If it is missing: a bug in polyshard.
    #[must_use]
    pub fn output_sharding(&self) -> &'a Sharding {
        self.shardings.last().expect("a kernel has an output; this is a bug in polyshard")
    }

    /// The type and the order of the nest's sums.
    pub(crate) fn sum_kind(&self) -> SumKind {
        let output = self.output();
        let Transfer { route, ahead, direction, .. } = output.row;
        let by =
            route.algorithm().filter(|_| *direction == (Direction::Out { any_order: false })).map(Algorithm::of_sums);
        let by = by.unwrap_or(SumAlgorithm::Library);
        let kind = SumKind::new(self.kernel.dtype(), by);
        // A library never computes sums that are in flight during computation.
        if *ahead > 0 { SumKind { by, ..kind } } else { kind }
    }

    /// Returns the maximum number of other ranks that a rank examines in one step, over all transfers: planning its messages takes
    /// time for each. See [`Route::partners`](super::Route::partners).
    #[must_use]
    pub fn partners(&self) -> usize {
        self.transfers.iter().map(|transfer| transfer.route.partners(self.mesh)).max().unwrap_or(0)
    }

    /// Returns the ranges of coordinates and counters.
    #[must_use]
    pub fn ranges(&self) -> Ranges {
        Ranges {
            coordinates: self.mesh.extents().into_iter().map(|extent| extent as i64).collect(),
            counters: self.loops.iter().map(|l| l.extent).collect(),
        }
    }

    /// Returns a bound on how often one rank computes the statement.
    #[must_use]
    pub fn iterations(&self) -> u64 {
        let ranges = self.ranges();
        let counts = self.leaf.loops.iter().map(|inner| inner.count.bounds(&ranges).1);
        let extents = self.loops.iter().map(|outer| outer.extent).chain(counts);
        extents.fold(1, |all, extent| all.saturating_mul(extent.max(0) as u64))
    }

    /// Returns the name of a coordinate or counter.
    #[must_use]
    pub fn symbol_name(&self, symbol: Symbol) -> Name {
        match symbol {
            Symbol::Coordinate(AxisId(axis)) => self.mesh.as_slice()[axis].name,
            Symbol::Counter(number) => self.loops[number.0].name,
        }
    }

    /// Returns the patterns of all transfers of a tensor, in the order in which its accesses are written; none if there
    /// is no such tensor.
    #[must_use]
    pub fn patterns(&self, tensor: &str) -> Vec<Pattern> {
        let Some(position) = self.kernel.tensors().position(|other| other.name == *tensor) else { return Vec::new() };
        let transfers = self.transfers.iter().filter(|transfer| transfer.tensor == TensorId(position));
        let patterns: Vec<_> = transfers.map(|transfer| self.pattern_of(transfer)).collect();
        // A tensor that the value does not read is not moved.
        if patterns.is_empty() { vec![Pattern::Local] } else { patterns }
    }

    /// Returns the pattern of a transfer of this nest.
    #[must_use]
    pub fn pattern_of(&self, transfer: &Transfer) -> Pattern {
        transfer.route.pattern(transfer.direction, self.mesh)
    }

    /// Returns whether the communication library chooses the order in which collectives add up partial sums; else it is the order
    /// of the ranks.
    #[must_use]
    pub fn any_order(&self) -> bool {
        self.output().direction == Direction::Out { any_order: true }
    }

    /// Returns whether ranks that each have a sum may round it differently: the communication library adds up the terms on each of
    /// them in any order, and does not promise the same bits.
    #[must_use]
    pub fn sums_may_differ(&self) -> bool {
        let route = &self.output().row.route;
        let is_of_all = route.collectives().any(|(_, _, owners, _)| *owners == Owners::All);
        let is_by_library = self.any_order() || route.procedure().is_some_and(|procedure| procedure.steps().is_some());
        let depends_on_order = self.kernel.assign().depends_on_order(self.kernel.dtype());
        depends_on_order && is_by_library && is_of_all
    }

    /// Returns the number of the transfer that fetches the data of an operand of the leaf.
    ///
    /// # Panics
    /// If the leaf has no such operand.
    #[must_use]
    pub fn transfer_of(&self, operand: OperandId) -> TileId {
        let found = self.transfers.iter().position(|transfer| transfer.operands.contains(&operand));
        found
            .map(TileId)
            .unwrap_or_else(|| panic!("no operand {}; the leaf has {}", operand.0, self.leaf.operands.len()))
    }

    /// Returns the name of a tensor.
    ///
    /// # Panics
    /// If there is no such tensor.
    #[must_use]
    pub fn tensor_name(&self, tensor: TensorId) -> Name {
        self.kernel.tensors().nth(tensor.0).expect("a tensor of the kernel; this is a bug in polyshard").name
    }

    /// Returns the name of a transfer's tile: `A_tile`, and `A_tile_2` if it is the second one of its tensor.
    ///
    /// # Panics
    /// If there is no such transfer.
    #[must_use]
    pub fn tile_name(&self, tile: TileId) -> String {
        let tensor = self.transfers[tile.0].tensor;
        let nth = self.transfers[..=tile.0].iter().filter(|other| other.tensor == tensor).count();
        let name = self.tensor_name(tensor);
        if nth == 1 { format!("{name}_tile") } else { format!("{name}_tile_{nth}") }
    }
}
