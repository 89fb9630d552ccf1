//! What all passes of lowering share: the schedule's state, isl, and what is asked of both alike.

use crate::classify::Classifier;
use crate::error::{ErrorKind, LowerError};
use crate::isl::{Isl, IslResult};
use crate::periodic;
use crate::proofs::Proofs;
use crate::range::{Fixed, Span};
use crate::relation::{Relations, owners};
use crate::schedule::Schedule;
use crate::state::State;
use polyshard_layout::{Name, Sharding};
use polyshard_program::{Access, Affine, Expr, Property, Ranges, Region, Symbol, Tensor};
use std::collections::BTreeSet;
use std::slice::from_ref as slice;

/// What all passes share.
pub(crate) struct Pass<'a> {
    pub schedule: &'a Schedule,
    pub state: &'a State,
    pub isl: &'a Isl,
    pub ranges: &'a Ranges,
    pub relations: &'a Relations<'a>,
    pub classifier: &'a Classifier<'a>,
    /// What the passes have proved so far.
    pub proofs: &'a Proofs,
}

impl Pass<'_> {
    pub(crate) fn distributed(&self) -> usize {
        self.state.nest.distributed
    }

    /// Runs an isl decision and names it if isl gives up.
    pub(crate) fn decide<T>(&self, what: &str, decision: impl FnOnce() -> IslResult<T>) -> Result<T, LowerError> {
        decision()
            .map_err(|error| self.schedule.blame(None, ErrorKind::Isl { what: what.to_owned(), message: error.0 }))
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = &polyshard_dsl::Step> {
        self.schedule.steps()
    }

    pub(crate) fn blame(&self, step: Option<usize>, kind: ErrorKind) -> LowerError {
        self.schedule.blame(step, kind)
    }

    /// A property that always holds if our closed forms are right.
    pub(crate) fn proved(&self, what: &str, holds: IslResult<bool>) -> Result<(), LowerError> {
        if self.decide(what, || holds)? {
            return Ok(());
        }
        let trace = self.schedule.to_string();
        Err(self.blame(None, ErrorKind::Unproved { what: what.to_owned(), trace }))
    }

    /// The number of serial loops around the transfer of a tensor as asked for, and the step that asks.
    pub(crate) fn level(&self, tensor: Name) -> (usize, Option<usize>) {
        let Some(found) = self.state.communications.iter().find(|other| other.tensor == tensor) else {
            let shard = self.state.shards.iter().find(|shard| shard.tensor == tensor);
            return (0, shard.map(|shard| shard.step));
        };
        let position = self.state.nest.find(found.at).map_or(0, |position| position + 1);
        (position.saturating_sub(self.distributed()), Some(found.step))
    }

    /// The hull of what the accesses touch, hoisted out of loops that do not change it.
    pub(crate) fn hoisted(&self, accesses: &[&Access], level: usize, shape: &[usize]) -> (usize, Region) {
        let mut level = level;
        let mut region = self.region(accesses, level, shape);
        while level > 0 && !region.mentions(Symbol::Counter(level - 1)) {
            level -= 1;
            region = self.region(accesses, level, shape);
        }
        (level, region)
    }

    fn region(&self, accesses: &[&Access], level: usize, shape: &[usize]) -> Region {
        let kernel = &self.state.kernel;
        if kernel.is_empty() {
            // Nothing runs and nothing is touched, whatever the accesses say.
            return Region::of_ranges(vec![Default::default(); shape.len()]);
        }
        let fixed = Fixed { nest: &self.state.nest, fixed: self.distributed() + level, ranges: self.ranges };
        let periods = polyshard_program::periods(accesses, kernel.vars());
        let periodic = periods.iter().any(Option::is_some);
        let accesses: Vec<_> = accesses.iter().map(|access| access.unwrapped()).collect();
        let hull = |dim: usize| {
            let spans: Vec<_> = accesses.iter().map(|access| fixed.index(&access.index[dim], kernel)).collect();
            Span::hull(&spans, self.ranges)
        };
        let hulls: Vec<_> = (0..shape.len()).map(hull).collect();
        let ranges = hulls.iter().map(|hull| (hull.low.clone(), hull.high.clone())).collect();
        let mut region = periodic::clipped(ranges, periods, shape, self.ranges);
        for (dim, hull) in hulls.into_iter().enumerate() {
            // Blocks are counted from where the range begins, which is not to be clipped then.
            if region.periods[dim].is_none() && region.ranges[dim].0 == hull.low {
                region.blocks[dim] = hull.blocks;
            }
        }
        let mut unless_empty = |name: Name| {
            let span = fixed.variable(crate::range::position(kernel, name));
            if span.high.minus(&span.low).bounds(self.ranges).0 < 1 {
                region.when.push((span.low, span.high));
            }
        };
        // A sum of indices is empty if one of them is, which the sum of their bounds does not show.
        if let [access] = &accesses[..] {
            for index in access.index.iter().filter(|index| index.terms.len() > 1) {
                index.terms.iter().for_each(|&(name, _)| unless_empty(name));
            }
        } else if let [first, others @ ..] = &accesses[..]
            && periodic
        {
            // Nor does the hull of several, and what wraps is not clipped.
            let common =
                |name: &Name| others.iter().all(|other| other.index.iter().any(|index| index.coefficient(*name) != 0));
            let names: BTreeSet<_> =
                first.index.iter().flat_map(|index| index.terms.iter().map(|term| term.0)).collect();
            names.into_iter().filter(common).for_each(unless_empty);
        }
        region
    }

    /// The region covers what is read or written and stays inside the tensor.
    pub(crate) fn covers(
        &self,
        region: &Region,
        level: usize,
        accesses: &[&Access],
        tensor: &Tensor,
    ) -> Result<(), LowerError> {
        let fixed = self.distributed() + level;
        let shape = &tensor.shape;
        self.proved(
            "that tiles hold what the leaf touches and stay inside their tensors",
            (|| {
                let ranges = region.ranges.iter().zip(&region.blocks);
                let ranges: Vec<_> = ranges.map(|((a, b), blocks)| (a.clone(), b.clone(), blocks.clone())).collect();
                for access in accesses {
                    let index = &access.unwrapped().index;
                    let inside = |index: &[Affine], ranges: &[_]| {
                        let boxes = self.isl.relation(&self.relations.boxes(fixed, ranges, &region.when))?;
                        self.isl.relation(&self.relations.needed(fixed, index))?.is_subset(&boxes)
                    };
                    // What is in the range of each dimension is in the box, where no condition ties them together. The
                    // converse does not hold where nothing is needed because one dimension has nothing.
                    let mut apart = region.when.is_empty();
                    for (index, range) in index.iter().zip(&ranges) {
                        apart = apart && inside(slice(index), slice(range))?;
                    }
                    if !apart && !inside(index, &ranges)? {
                        return Ok(false);
                    }
                    let periods = access.index.iter().map(Affine::period);
                    if !periods.eq(region.periods.iter().copied()) {
                        let needed = self.isl.relation(&self.relations.needed(fixed, index))?;
                        let meant = self.relations.boxes(fixed, &periodic::meant(access, region), &[]);
                        if !needed.is_subset(&self.isl.relation(&meant)?)? {
                            return Ok(false);
                        }
                    }
                }
                let inside = |((low, high), &extent): (&(Expr, Expr), &usize)| {
                    low.bounds(self.ranges).0 >= 0 && high.bounds(self.ranges).1 <= extent as i64
                };
                if !region.wraps() && region.ranges.iter().zip(shape).all(inside) {
                    return Ok(true);
                }
                let tensor = shape.iter().map(|&extent| (Expr::constant(0), Expr::constant(extent as i64), None));
                let tensor = self.isl.relation(&self.relations.boxes(fixed, &tensor.collect::<Vec<_>>(), &[]))?;
                self.isl.relation(&self.relations.elements(fixed, region))?.is_subset(&tensor)
            })(),
        )?;
        let name = tensor.name;
        let (property, asked) = match name == self.state.kernel.output().name {
            true => (Property::Delivery, "what the leaf writes is in the tile"),
            false => (Property::Residency, "what the leaf reads is in the tile"),
        };
        self.proofs.add(property, Some(name), asked);
        self.proofs.add(property, Some(name), format!("the tile is inside {name}"));
        Ok(())
    }

    /// The elements of a tile buffer for the region.
    pub(crate) fn capacity(&self, region: &Region, step: Option<usize>, tensor: Name) -> Result<usize, LowerError> {
        let size = self.state.kernel.dtype().size() as i64;
        let most = region.most(self.ranges).into_iter().try_fold(size, i64::checked_mul);
        match most {
            Some(bytes) => Ok((bytes / size) as usize),
            None => Err(self.blame(step, ErrorKind::TooLarge { what: format!("a tile of `{tensor}`") })),
        }
    }

    pub(crate) fn owners(&self, sharding: &Sharding) -> IslResult<crate::isl::Relation> {
        self.isl.relation(&owners(sharding))
    }
}
