//! What a nest says of itself.

use super::{LeafOp, Nest, Output, OutputRoute, Region, Route, Transfer, TransferId};
use crate::expr::{Ranges, Symbol};
use crate::kernel::Assign;
use crate::pattern::Pattern;
use polyshard_layout::{Name, SumKind};
use std::collections::BTreeSet;

impl Nest {
    /// Returns the sets of axes along which ranks communicate as groups, ascending: both back ends make their
    /// sub-communicators in this order, which all ranks share.
    #[must_use]
    pub fn groups(&self) -> BTreeSet<Vec<usize>> {
        fn add(route: &Route, groups: &mut BTreeSet<Vec<usize>>) {
            match route {
                Route::Broadcast { axes, .. } | Route::AllGather { axes } => {
                    groups.insert(axes.clone());
                }
                Route::Shift { axis, first, .. } => {
                    groups.insert(vec![*axis]);
                    add(first, groups);
                }
                Route::Sequence { first, next, .. } => {
                    add(first, groups);
                    add(next, groups);
                }
                Route::Hold | Route::Copy | Route::Permute { .. } | Route::Halo { .. } | Route::Exchange { .. } => {}
            }
        }
        fn add_output(route: &OutputRoute, groups: &mut BTreeSet<Vec<usize>>) {
            match route {
                OutputRoute::Reduce { axes, .. }
                | OutputRoute::AllReduce { axes }
                | OutputRoute::ReduceScatter { axes } => {
                    groups.insert(axes.clone());
                }
                OutputRoute::Shift { axis, last, .. } => {
                    groups.insert(vec![*axis]);
                    add_output(last, groups);
                }
                OutputRoute::InPlace
                | OutputRoute::Combine
                | OutputRoute::Permute { .. }
                | OutputRoute::Halo { .. }
                | OutputRoute::Exchange { .. } => {}
            }
        }
        let mut groups = BTreeSet::new();
        add_output(&self.output.route, &mut groups);
        self.transfers.iter().for_each(|transfer| add(&transfer.route, &mut groups));
        groups
    }

    /// Returns whether what a rank owns itself of a transfer's region is read where it lies, not copied into the tile: of a
    /// halo without gaps, where the leaf is a nest.
    #[must_use]
    pub fn reads_in_place(&self, transfer: TransferId) -> bool {
        let Transfer { route, region, .. } = &self.transfers[transfer.0];
        matches!(route, Route::Halo { .. }) && !region.has_blocks() && self.leaf.op == LeafOp::Nest
    }

    /// Returns whether a rank reads what others own of an input.
    #[must_use]
    pub fn reads_others(&self) -> bool {
        let is_own = |transfer: &Transfer| transfer.buffers == 0 || matches!(transfer.route, Route::Hold | Route::Copy);
        !self.transfers.iter().all(is_own)
    }

    /// Returns whether an exchange has the same regions each time, so that its messages are, too.
    #[must_use]
    pub fn is_fixed(&self, transfer: TransferId) -> bool {
        let Transfer { route, region, .. } = &self.transfers[transfer.0];
        matches!(route, Route::Halo { .. } | Route::Exchange { .. }) && !self.varies(region)
    }

    /// Returns whether the output is exchanged, and has the same regions each time, so that its messages are the same, too.
    #[must_use]
    pub fn is_output_fixed(&self) -> bool {
        let Output { route, region, .. } = &self.output;
        matches!(route, OutputRoute::Halo { .. } | OutputRoute::Exchange { .. }) && !self.varies(region)
    }

    /// Whether a region depends on a loop.
    fn varies(&self, region: &Region) -> bool {
        (0..self.loops.len()).any(|number| region.mentions(Symbol::Counter(number)))
    }

    /// Returns whether the leaf overwrites the output where it lies: with `=`, of a nest that gives each element one
    /// value, so that the output need not be cleared first. Of partial sums, a rank holds more than it computes.
    #[must_use]
    pub fn overwrites(&self) -> bool {
        let is_partial = self.shardings.last().is_some_and(|sharding| !sharding.partial().is_empty());
        let in_place = self.output.route == OutputRoute::InPlace && self.leaf.op == LeafOp::Nest && !is_partial;
        self.kernel.assign() == Assign::Set && in_place && self.kernel.writes_once()
    }

    /// What the nest sums up, and in which order.
    pub(crate) fn sum_kind(&self) -> SumKind {
        let dtype = self.kernel.dtype();
        SumKind { element: dtype.size() as u64, any_order: self.output.any_order || !dtype.is_float() }
    }

    /// Returns the most other ranks that a rank looks at in one step, of all transfers and the output's: what working
    /// out its messages takes time for. See [`Route::partners`].
    #[must_use]
    pub fn partners(&self) -> usize {
        let inputs = self.transfers.iter().map(|transfer| transfer.route.partners(&self.mesh));
        inputs.chain([self.output.route.partners(&self.mesh)]).max().unwrap_or(0)
    }

    /// Returns the ranges of coordinates and counters.
    #[must_use]
    pub fn ranges(&self) -> Ranges {
        Ranges {
            coordinates: self.mesh.extents().into_iter().map(|extent| extent as i64).collect(),
            counters: self.loops.iter().map(|l| l.extent).collect(),
        }
    }

    /// Returns the name of a coordinate or counter.
    #[must_use]
    pub fn symbol_name(&self, symbol: Symbol) -> Name {
        match symbol {
            Symbol::Coordinate(axis) => self.mesh.as_slice()[axis].name,
            Symbol::Counter(number) => self.loops[number].name,
        }
    }

    /// Returns the pattern by which a tensor is transferred: an input to its readers, the output to its owners. Of an
    /// input with several transfers it is the first one by which anything moves; see [`patterns`](Self::patterns).
    #[must_use]
    pub fn pattern(&self, tensor: &str) -> Option<Pattern> {
        let patterns = self.patterns(tensor);
        patterns.iter().find(|pattern| **pattern != Pattern::Local).or(patterns.first()).cloned()
    }

    /// Returns the patterns of all transfers of a tensor, in the order in which its accesses are written; none if there
    /// is no such tensor.
    #[must_use]
    pub fn patterns(&self, tensor: &str) -> Vec<Pattern> {
        let Some(position) = self.kernel.tensors().position(|other| other.name == *tensor) else { return Vec::new() };
        if position == self.kernel.inputs().len() {
            return vec![self.output.route.pattern(&self.mesh)];
        }
        let transfers = self.transfers.iter().filter(|transfer| transfer.tensor == position);
        let patterns: Vec<_> = transfers.map(|transfer| transfer.route.pattern(&self.mesh)).collect();
        // What the value does not read is not moved.
        if patterns.is_empty() { vec![Pattern::Local] } else { patterns }
    }

    /// Returns the number of the transfer that brings what an operand of the leaf reads.
    ///
    /// # Panics
    /// If the leaf has no such operand.
    #[must_use]
    pub fn transfer_of(&self, operand: usize) -> TransferId {
        let found = self.transfers.iter().position(|transfer| transfer.operands.contains(&operand));
        found
            .map(TransferId)
            .unwrap_or_else(|| panic!("no operand {operand}; the leaf has {}", self.leaf.operands.len()))
    }

    /// Returns the name of a transfer's tile: `A_tile`, and `A_tile_2` if it is the second one of its tensor.
    ///
    /// # Panics
    /// If there is no such transfer.
    #[must_use]
    pub fn tile_name(&self, transfer: TransferId) -> String {
        let tensor = self.transfers[transfer.0].tensor;
        let nth = self.transfers[..=transfer.0].iter().filter(|other| other.tensor == tensor).count();
        let name = self.kernel.inputs()[tensor].name;
        if nth == 1 { format!("{name}_tile") } else { format!("{name}_tile_{nth}") }
    }
}
