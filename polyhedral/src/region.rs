//! Which region of a tensor the leaf touches at a depth of the nest, and the proof that a tile of it serves the leaf.

use crate::conditions::Form;
use crate::context::Context;
use crate::error::{ErrorKind, LowerError};
use crate::isl::IslResult;
use crate::nest::Depth;
use crate::periodic;
use crate::proofs::proof;
use crate::range::{Span, position};
use polyshard_layout::Name;
use polyshard_program::{Access, Affine, CounterId, Expr, Proof, Property, Region, StepId, Symbol, Tensor, periods};
use std::collections::BTreeSet;
use std::slice;

impl Context<'_> {
    /// The depth at which a tensor is to be communicated, and the step that requests it.
    pub(crate) fn requested(&self, tensor: Name) -> (Depth, Option<StepId>) {
        let Some(found) = self.state.communications.iter().find(|other| other.tensor == tensor) else {
            let shard = self.state.shards.iter().find(|shard| shard.tensor == tensor);
            return (Depth(0), shard.map(|shard| shard.step));
        };
        let around = self.nest().find(found.at).map_or(0, |position| position + 1);
        (Depth(around.saturating_sub(self.nest().distributed)), Some(found.step))
    }

    /// The hull of the elements that the accesses touch, hoisted out of loops that do not change it.
    pub(crate) fn hoisted(&self, accesses: &[&Access], requested: Depth, shape: &[usize]) -> (Depth, Region) {
        let mut depth = requested;
        let mut region = self.region(accesses, depth, shape);
        while let Some(innermost) = depth.0.checked_sub(1)
            && !region.mentions(Symbol::Counter(CounterId(innermost)))
        {
            depth = Depth(innermost);
            region = self.region(accesses, depth, shape);
        }
        (depth, region)
    }

    /// The hull of the elements that the accesses touch at a depth.
    pub(crate) fn region(&self, accesses: &[&Access], depth: Depth, shape: &[usize]) -> Region {
        let kernel = self.kernel();
        if kernel.is_empty() {
            // Nothing runs and nothing is touched, whatever the accesses say.
            return Region::of_ranges(vec![Default::default(); shape.len()]);
        }
        let fixed = self.fixed(depth);
        let periods = periods(accesses, kernel.vars());
        let accesses: Vec<_> = accesses.iter().map(|access| access.unwrapped()).collect();
        let hull = |dim: usize| {
            let spans: Vec<_> = accesses.iter().map(|access| fixed.index(&access.index[dim], kernel)).collect();
            Span::hull(&spans, &self.ranges)
        };
        let hulls: Vec<_> = (0..shape.len()).map(hull).collect();
        // An index that is outside of the tensor is in no block of it.
        let open = accesses.iter().any(|access| access.outside.is_some());
        let ranges = hulls.iter().map(|hull| (hull.low.clone(), hull.high.clone())).collect();
        let applied = self.applications.as_ref().filter(|applied| accesses[0].tensor == applied.tensor);
        let ranges = match applied {
            Some(applied) => applied.widened(ranges),
            None => ranges,
        };
        let mut region = periodic::clipped(ranges, periods, shape, &self.ranges);
        for (dim, hull) in hulls.into_iter().enumerate() {
            // Blocks are counted from the beginning of the range, which therefore must not be clipped.
            if region.periods[dim].is_none() && region.ranges[dim].0 == hull.low && !open {
                region.blocks[dim] = hull.blocks;
            }
        }
        // A rank with nothing to write reads nothing, however far time steps reach.
        let names = match applied {
            Some(_) => kernel.vars().iter().map(|var| var.name).collect(),
            None => hidden(&accesses, region.wraps()),
        };
        for name in names {
            let span = fixed.variable(position(kernel, name));
            if span.high.subtract(&span.low).bounds(&self.ranges).0 < 1 {
                region.when.push((span.low, span.high));
            }
        }
        region
    }

    /// Proves that a tile of the region holds all elements that the accesses touch, and stays inside the tensor.
    pub(crate) fn covers(
        &self,
        region: &Region,
        depth: Depth,
        accesses: &[&Access],
        tensor: &Tensor,
    ) -> Result<Vec<Proof>, LowerError> {
        let covers = || {
            for access in accesses {
                if !self.holds(region, depth, access)? {
                    return Ok(false);
                }
            }
            self.is_inside_tensor(region, depth, &tensor.shape)
        };
        self.proved("that tiles hold what the leaf touches and stay inside their tensors", covers)?;
        let name = tensor.name;
        let (property, claim) = match name == self.kernel().output().name {
            true => (Property::Delivery, "what the leaf writes is in the tile"),
            false => (Property::Residency, "what the leaf reads is in the tile"),
        };
        Ok(vec![proof(property, name, claim), proof(property, name, format!("the tile is inside {name}"))])
    }

    /// Whether the region holds all elements that the access touches.
    pub(crate) fn holds(&self, region: &Region, depth: Depth, access: &Access) -> IslResult<bool> {
        let index = &access.unwrapped().index;
        let tile = Region { periods: vec![None; index.len()], ..region.clone() };
        let open = self.kernel().open_extents(access);
        let inside = |index: &[Affine], open: &[Option<i64>], tile: &Region| {
            let mut needed = self.relations.needed(depth, index);
            for (dim, extent) in open.iter().enumerate() {
                extent.iter().for_each(|&extent| needed.within(&Form::output(dim), extent));
            }
            self.relation(&needed)?.is_subset(&self.relation(&self.relations.elements(depth, tile))?)
        };
        // Elements in the range of each dimension are in the box, if no condition ties dimensions together. The converse
        // does not hold if nothing is needed because one dimension is empty.
        let mut apart = region.when.is_empty();
        for (dim, index) in index.iter().enumerate() {
            apart = apart && inside(slice::from_ref(index), &open[dim..=dim], &tile.restricted(|other| other == dim))?;
        }
        if !apart && !inside(index, &open, &tile)? {
            return Ok(false);
        }
        let periods = access.index.iter().map(Affine::period);
        Ok(periods.eq(region.periods.iter().copied()) || inside(index, &open, &periodic::meant(access, region))?)
    }

    fn is_inside_tensor(&self, region: &Region, depth: Depth, shape: &[usize]) -> IslResult<bool> {
        let inside = |((low, high), &extent): (&(Expr, Expr), &usize)| {
            low.bounds(&self.ranges).0 >= 0 && high.bounds(&self.ranges).1 <= extent as i64
        };
        if !region.wraps() && region.ranges.iter().zip(shape).all(inside) {
            return Ok(true);
        }
        let whole = shape.iter().map(|&extent| (Expr::constant(0), Expr::constant(extent as i64)));
        let tensor = self.relation(&self.relations.elements(depth, &Region::of_ranges(whole.collect())))?;
        self.relation(&self.relations.elements(depth, region))?.is_subset(&tensor)
    }

    /// The number of elements of a tile buffer for the region.
    pub(crate) fn capacity(&self, region: &Region, step: Option<StepId>, tensor: Name) -> Result<usize, LowerError> {
        let size = self.kernel().dtype().size() as i64;
        let bytes = region.max_extents(&self.ranges).into_iter().try_fold(size, i64::checked_mul);
        match bytes {
            Some(bytes) => Ok((bytes / size) as usize),
            None => Err(self.blame(step, ErrorKind::TooLarge { what: format!("a tile of `{tensor}`") })),
        }
    }
}

/// The index variables whose emptiness the hull of the accesses does not show.
fn hidden(accesses: &[Access], periodic: bool) -> Vec<Name> {
    let names = |index: &Affine| index.terms.iter().map(|term| term.0).collect::<Vec<_>>();
    match accesses {
        // A sum of indices is empty if one of them is, which the sum of their bounds does not show.
        [access] => access.index.iter().filter(|index| index.terms.len() > 1).flat_map(names).collect(),
        // Nor does the hull of several accesses, and ranges that wrap are not clipped.
        [first, others @ ..] if periodic => {
            let common =
                |name: &Name| others.iter().all(|other| other.index.iter().any(|index| index.coefficient(*name) != 0));
            first.index.iter().flat_map(names).filter(common).collect::<BTreeSet<_>>().into_iter().collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
