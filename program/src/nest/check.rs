//! Checks that the parts of a nest fit together, so that every number in it refers to an existing part.
//!
//! A nest that is read from a file must pass this check. It covers what the nest itself shows: numbers are in range,
//! expressions are over symbols that have values there, legs of routes can follow each other, tiles have room for their
//! regions, ranks that communicate together make the same calls. It does not check that the right elements move: isl proved
//! that when the schedule was lowered, and the file states it. Tests: `program/tests/it/refused.rs`.

use super::{
    Algorithm, Direction, End, Leaf, LeafAccess, LeafNumber, LeafOp, Leg, NestView, Owners, Region, Transfer,
    TransferView,
};
use crate::affine::Affine;
use crate::bounds::LIMIT;
use crate::expr::{Expr, Symbol};
use crate::ids::{AxisId, Depth, LegId, OperandId, StepId, TensorId};
use crate::kernel::Assign;
use crate::value::Access;
use polyshard_layout::{AxisSource, Reach};

impl NestView<'_> {
    /// Checks the nest; the proofs in its report are kept.
    ///
    /// # Errors
    /// The mismatch, as a clause after the kernel's name.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (tensor, sharding) in self.kernel.tensors().zip(&self.shardings) {
            if sharding.shape() != tensor.shape || *sharding.mesh() != *self.mesh {
                let (name, found) = (tensor.name, sharding.shape());
                return Err(format!(
                    "takes `{name}` with shape {:?} on the mesh ({}), but its array has shape {found:?} on ({})",
                    tensor.shape,
                    self.mesh,
                    sharding.mesh()
                ));
            }
        }
        let home = self.output_sharding();
        let is_owned =
            |axis: &usize| home.sources().contains(&(*axis, AxisSource::Reader)) && !home.partial().contains(axis);
        if !self.copies.iter().all(is_owned) {
            return Err(format!("is computed by all ranks along axes {:?}, but they do not own it", &self.copies[..]));
        }
        for inner in &self.loops {
            if !(0..=LIMIT).contains(&i128::from(inner.extent)) {
                return Err(format!("has a loop `{}` of {} iterations", inner.name, inner.extent));
            }
            inner.steps.iter().try_for_each(|&step| self.step(Some(step)))?;
        }
        self.transfers_are_in_order()?;
        for (number, transfer) in self.transfers.iter().enumerate().filter(|(_, transfer)| transfer.reused.is_none()) {
            self.transfer(transfer).map_err(|why| format!("has a transfer, number {number}, {why}"))?;
        }
        self.leaf_fits(&self.leaf)?;
        self.records_fit()?;
        self.matches()?;
        self.time_steps_fit()?;
        self.interior().map_err(|why| format!("has a leaf that cannot compute its interior first: {why}"))?;
        match self.is_complete() {
            true => Ok(()),
            false => Err("has tiles or bounds that do not follow from its transfers".into()),
        }
    }

    /// Checks that records stay whole: in the leaf, in the tile and on the ranks that own them.
    fn records_fit(&self) -> Result<(), String> {
        let Some(index) = self.kernel.record_index() else { return Ok(()) };
        let dim = self.kernel.target().index.len() - 1;
        let size = self.kernel.output().shape[dim] as i64;
        let (home, target) = (self.output_sharding(), &self.leaf.target);
        let is_whole = |(inner, &stride): (&super::LeafLoop, &i64)| match inner.var == index {
            true => inner.low.as_constant() == Some(0) && inner.count.as_constant() == Some(size) && stride == 1,
            false => stride == 0,
        };
        let is_leaf = self.leaf.op == LeafOp::Nest && self.leaf.loops.iter().zip(&target.strides[dim]).all(is_whole);
        let is_home = home.dims()[dim].is_whole() && home.partial().is_empty();
        let is_ordered = self.output().direction == Direction::Out { any_order: false };
        match is_leaf && is_home && is_ordered && self.time_steps.is_none() {
            true => Ok(()),
            false => Err("divides the records of a running reduction".into()),
        }
    }

    /// Checks for one transfer per region of an input, with each operand in exactly one of them, and then one of the
    /// output.
    fn transfers_are_in_order(&self) -> Result<(), String> {
        let Some((output, inputs)) = self.transfers.split_last() else {
            return Err("has no transfer of its output".into());
        };
        let tensors = self.kernel.inputs().len();
        let is_in =
            |transfer: &TransferView<'_>| transfer.direction == Direction::In && transfer.tensor < TensorId(tensors);
        if !inputs.iter().all(is_in) || output.direction == Direction::In || output.tensor != TensorId(tensors) {
            return Err("has transfers in another order than its inputs and then its output".into());
        }
        let array = |transfer: &TransferView<'_>| End::Array(self.arrays[transfer.tensor.0]);
        let tile = End::Tile(self.id);
        let is_from =
            |input: &TransferView<'_>| input.from == array(input) && (input.to == tile || self.time_steps.is_none());
        if !inputs.iter().all(is_from) || (output.from, output.to) != (tile, array(output)) {
            return Err("has transfers between other arrays and tiles than its own".into());
        }
        if inputs.iter().any(|input| input.op != Assign::Add) || output.op != self.kernel.assign() {
            return Err("combines terms by another operation than its own".into());
        }
        let mut brought: Vec<_> = inputs.iter().flat_map(|transfer| transfer.operands).copied().collect();
        brought.sort_unstable();
        let same = |transfer: &TransferView<'_>| {
            let tensor = |operand: &OperandId| self.leaf.operands.get(operand.0).map(|operand| operand.tensor);
            transfer.operands.iter().all(|operand| tensor(operand) == Some(transfer.tensor))
        };
        if !brought.iter().copied().eq((0..self.leaf.operands.len()).map(OperandId)) || !inputs.iter().all(same) {
            return Err("has transfers that do not fetch each operand exactly once".into());
        }
        match output.operands.is_empty() {
            true => Ok(()),
            false => Err("has an operand that reads the output".into()),
        }
    }

    fn transfer(&self, transfer: &TransferView<'_>) -> Result<(), String> {
        let Transfer { level, region, route, tile, direction, .. } = transfer.row;
        if transfer.kept.is_some() || transfer.called.is_some() {
            return Err("with a name or a sharding to keep, as only moves have".into());
        }
        if level.0 > self.loops.len() {
            return Err(format!("inside {} loops, but there are {}", level.0, self.loops.len()));
        }
        self.step(transfer.step)?;
        let shape = self.shardings[transfer.tensor.0].shape();
        self.region(region, shape, *level)?;
        let at_owners = route.at_owners();
        let follows = match (at_owners, &route.held) {
            ([leg], None) => !matches!(leg, Leg::Shift(_)),
            ([first, next], Some(held)) => {
                self.region(held, shape, *level)?;
                let passes =
                    |leg: &Leg| matches!(leg, Leg::Permute { .. } | Leg::Collective { owners: Owners::One(_), .. });
                *direction == Direction::In && passes(first) && passes(next)
            }
            _ => false,
        };
        if !follows {
            return Err("with legs that cannot follow each other".into());
        }
        if let Some(shift) = route.shift()
            && (level.innermost() != Some(shift.counter)
                || shift.axis.0 >= self.mesh.ndim()
                || i128::from(shift.by).abs() > LIMIT
                || self.loops[shift.counter.0].extent < 1)
        {
            return Err("that shifts along an unknown axis or in an unknown loop".into());
        }
        if route.star().is_some() && (*direction != Direction::In || route.legs.len() > 1) {
            return Err("that leaves out corners, but is not of an input that is fetched in one leg".into());
        }
        at_owners.iter().try_for_each(|leg| self.leg(leg, *direction, *level))?;
        let is_collective = |leg: &LegId| matches!(at_owners.get(leg.0), Some(Leg::Collective { .. }));
        if let Some(leg) = transfer.carried_out.keys().find(|leg| !is_collective(leg)) {
            return Err(format!("with an algorithm for leg {}, numbered from 0, which is not a collective", leg.0));
        }
        let among_copies = |leg: &Leg| match leg {
            Leg::Collective { axes, .. } => self.copies.iter().any(|axis| axes.contains(axis)),
            Leg::Halo { reach } | Leg::Exchange { reach, .. } => {
                self.copies.iter().any(|&axis| reach.along[axis] != Reach::OWN)
            }
            Leg::InPlace | Leg::Copy | Leg::Permute { .. } | Leg::Shift(_) => false,
        };
        if *direction != Direction::In && at_owners.iter().any(among_copies) {
            return Err("between ranks that each compute all of it".into());
        }
        let ranges = self.ranges();
        let largest = [Some(region), route.held.as_ref()].into_iter().flatten().map(|region| {
            region.max_extents(&ranges).into_iter().fold(1i128, |all, extent| all.saturating_mul(extent.into()))
        });
        let largest = largest.max().unwrap_or(0);
        let is_in_shard = route.is_in_place() && !(self.in_panels && transfer.closes_sums());
        let fits = if is_in_shard { tile.capacity == 0 } else { largest <= tile.capacity as i128 };
        if !fits || largest > LIMIT || tile.capacity as i128 > LIMIT {
            return Err(format!("of {largest} elements into a tile of {}", tile.capacity));
        }
        Ok(())
    }

    fn leg(&self, leg: &Leg, direction: Direction, level: Depth) -> Result<(), String> {
        let ndim = self.mesh.ndim();
        let ranks = |exprs: &[Expr], count: usize| {
            let fits = exprs.len() == count && exprs.iter().all(|expr| self.is_in_scope(expr, level));
            fits.then_some(()).ok_or_else(|| "with invalid coordinates of a rank".to_owned())
        };
        match leg {
            Leg::InPlace | Leg::Copy | Leg::Shift(_) => Ok(()),
            Leg::Collective { axes, owners, by } => {
                if axes.last().is_some_and(|&axis| axis >= ndim) {
                    return Err(format!("along axes {:?} of a mesh of {ndim}", &axes[..]));
                }
                match by {
                    Algorithm::Stages(stages) => {
                        let checked = stages.check(self.mesh, axes);
                        checked.map_err(|error| format!("by a collective with invalid stages: {error}"))?;
                    }
                    Algorithm::Procedure(procedure) => {
                        let is_in_order = procedure.steps().is_none();
                        let refused = match (direction, owners) {
                            (Direction::In, _) => Some("it adds up sums, but this is an input".into()),
                            (_, Owners::One(_)) => {
                                Some("it leaves the sums on all its ranks, but only one of them owns them".into())
                            }
                            (_, Owners::Parts) => {
                                Some("it leaves the sums on all its ranks, but each owns a part of them".into())
                            }
                            (Direction::Out { any_order: true }, _) if is_in_order => Some(
                                "it adds in the order of the ranks, but the communication library is to choose the \
                                 order"
                                    .into(),
                            ),
                            _ => procedure.check_along(self.mesh, axes).err().map(|why| format!("it {why}")),
                        };
                        if let Some(why) = refused {
                            return Err(format!("by an invalid procedure: {why}"));
                        }
                    }
                    // The other algorithms follow from the transfer.
                    _ => {}
                }
                match owners {
                    Owners::One(root) => ranks(root, axes.len()),
                    Owners::All if direction == Direction::In => Err("of elements that every rank has".into()),
                    Owners::All | Owners::Parts => Ok(()),
                }
            }
            Leg::Permute { owner, served } => ranks(owner, ndim).and_then(|()| ranks(served, ndim)),
            Leg::Halo { reach } | Leg::Exchange { reach, .. } => {
                let ordered = |reach: &Reach| match reach {
                    Reach::All => true,
                    Reach::Within { low, high } | Reach::Around { low, high } => {
                        low <= high && low.unsigned_abs().max(high.unsigned_abs()) <= u64::from(u32::MAX)
                    }
                };
                match reach.along.len() == ndim && reach.along.iter().all(ordered) {
                    true => Ok(()),
                    false => Err("with ranks at invalid distances".into()),
                }
            }
        }
    }

    pub(super) fn region(&self, region: &Region, shape: &[usize], level: Depth) -> Result<(), String> {
        let Region { ranges, when, periods, blocks } = region;
        let lengths = [ranges.len(), periods.len(), blocks.len()];
        let within = |(period, &extent): (&Option<i64>, &usize)| {
            period.is_none_or(|period| (1..=extent as i64).contains(&period))
        };
        let positive = periods.iter().zip(shape).all(within)
            && blocks.iter().flatten().all(|blocks| blocks.stride > 0)
            && periods.iter().zip(blocks).all(|(period, blocks)| period.is_none() || blocks.is_none());
        let sizes = blocks.iter().flatten().map(|blocks| &blocks.size);
        let mut exprs = ranges.iter().chain(when).flat_map(|(a, b)| [a, b]).chain(sizes);
        match lengths == [shape.len(); 3] && positive && exprs.all(|expr| self.is_in_scope(expr, level)) {
            true => Ok(()),
            false => Err("of an invalid region of its tensor".into()),
        }
    }

    /// Whether all symbols have values at this depth, and the expression is within the limit.
    fn is_in_scope(&self, expr: &Expr, level: Depth) -> bool {
        expr.symbols().into_iter().all(|symbol| match symbol {
            Symbol::Coordinate(AxisId(axis)) => axis < self.mesh.ndim(),
            Symbol::Counter(counter) => counter.0 < level.0,
        }) && {
            let (low, high) = expr.bounds(&self.ranges());
            i128::from(low).abs().max(i128::from(high).abs()) <= LIMIT
        }
    }

    fn step(&self, step: Option<StepId>) -> Result<(), String> {
        match step.filter(|step| !(1..=self.steps.len()).contains(&step.0)) {
            None => Ok(()),
            Some(StepId(step)) => Err(format!("made by step {step} of {}", self.steps.len())),
        }
    }

    fn leaf_fits(&self, leaf: &Leaf) -> Result<(), String> {
        self.step(leaf.step).map_err(|why| format!("has a leaf {why}"))?;
        let all = Depth(self.loops.len());
        let interior = leaf.interior.iter().flat_map(|interior| &interior.ranges);
        let vars = self.kernel.vars().iter().map(|var| var.name);
        let loops_fit = leaf.loops.iter().map(|inner| inner.var).eq(vars)
            && leaf.loops.iter().all(|inner| (1..=LIMIT).contains(&i128::from(inner.stride)))
            && leaf.loops.iter().all(|l| self.is_in_scope(&l.low, all) && self.is_in_scope(&l.count, all))
            && interior.into_iter().all(|(low, high)| self.is_in_scope(low, all) && self.is_in_scope(high, all));
        // All accesses follow from the loops.
        let is_of = |found: &LeafAccess, access: &Access| {
            let named = self.kernel.tensors().nth(found.tensor.0).is_some_and(|tensor| tensor.name == access.tensor);
            named && *found == LeafAccess::new(access, found.tensor, &leaf.loops) && self.is_near(found)
        };
        let (value, target) = (self.kernel.value(), self.kernel.target());
        let (accesses, indices) = (value.accesses(), value.indices());
        let reads = || leaf.operands.iter().zip(&accesses).all(|(operand, read)| is_of(operand, read));
        let number = |(found, index): (&LeafNumber, &&Affine)| {
            *found == LeafNumber::new(index, &leaf.loops) && self.is_in_scope(&found.base, all)
        };
        if !loops_fit
            || [leaf.operands.len(), leaf.numbers.len()] != [accesses.len(), indices.len()]
            || !reads()
            || !leaf.numbers.iter().zip(&indices).all(number)
            || leaf.target.tensor.0 != self.kernel.inputs().len()
            || !is_of(&leaf.target, target)
        {
            return Err("has a leaf whose accesses differ from its kernel's".into());
        }
        match self.operation_fits(leaf) {
            true => Ok(()),
            false => Err("has a leaf whose operation does not fit its loops and operands".into()),
        }
    }

    /// Whether the numbers in an access are within the limit, where a stride is multiplied by the number of elements between neighbours
    /// along its dimension, at most all elements.
    fn is_near(&self, access: &LeafAccess) -> bool {
        let shape = self.shardings[access.tensor.0].shape();
        let elements = shape.iter().fold(1i128, |all, &extent| all.saturating_mul(extent.max(1) as i128));
        let near = |&stride: &i64| i128::from(stride).abs().saturating_mul(elements) <= LIMIT;
        access.base.iter().all(|base| self.is_in_scope(base, Depth(self.loops.len())))
            && access.strides.iter().flatten().all(near)
    }
}
