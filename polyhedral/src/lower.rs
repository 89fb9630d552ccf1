//! From schedule to program: the passes, in order.
//!
//! Each pass proposes closed forms and proves them with isl before the next one builds on them, so what
//! comes out is right by construction of the proofs, not of the proposals.

use crate::classify::Classifier;
use crate::error::{ErrorKind, LowerError};
use crate::expr::{Expr, Ranges, Symbol};
use crate::hint;
use crate::input;
use crate::isl::{Isl, IslResult};
use crate::kernel::Tensor;
use crate::kernel::{Access, Affine};
use crate::leaf;
use crate::matching::Matching;
use crate::named;
use crate::nest::Made;
use crate::output;
use crate::periodic;
use crate::program::{Blocks, Leaf, Loop, Output, OutputRoute, Program, Region, Report, Statement, Transfer};
use crate::proof::{Proof, Proofs, Property};
use crate::range::{Fixed, Span};
use crate::relation::{Relations, owners};
use crate::report;
use crate::schedule::Schedule;
use crate::source::Sources;
use crate::state::State;
use crate::step::{LeafKind, Pattern, list};
use polyshard_layout::{Name, Sharding};
use std::collections::BTreeSet;
use std::slice::from_ref as slice;

pub(crate) fn lower(schedule: &Schedule) -> Result<Program, LowerError> {
    let state = schedule.state()?;
    let isl = Isl::new()
        .map_err(|error| schedule.blame(None, ErrorKind::Isl { what: "anything".into(), message: error.0 }))?;
    let ranges = ranges(state);
    let relations = Relations { kernel: &state.kernel, nest: &state.nest };
    let axes: Vec<_> = state.mesh.as_slice().iter().map(|axis| axis.name).collect();
    let classifier = Classifier { isl: &isl, relations: &relations, ranges: &ranges, axes: &axes };
    let proofs = Proofs::default();
    let pass = Pass {
        schedule,
        state,
        isl: &isl,
        ranges: &ranges,
        relations: &relations,
        classifier: &classifier,
        proofs: &proofs,
    };
    pass.order()?;
    pass.every_instance_once()?;
    pass.served_by_owners()?;
    let transfers = input::build(&pass)?;
    let output = pass.output()?;
    let leaf = pass.leaf(&transfers, &output)?;
    let depth = leaf.1;
    let matching = pass.matching(&transfers, &output, depth)?;
    let hints = hint::hints(&pass, &transfers, &output, &leaf.0, depth);
    let mut proofs = proofs.take();
    proofs.extend(matching);
    let mut program = Program {
        kernel: (*state.kernel).clone(),
        steps: schedule.steps().cloned().collect(),
        mesh: state.mesh.clone(),
        shardings: state.kernel.tensors().map(|tensor| state.sharding(tensor.name)).collect(),
        loops: pass.loops(depth),
        body: body(0, depth, &transfers, &output),
        transfers,
        output,
        leaf: leaf.0,
        report: Report::default(),
        hints,
    };
    program.report = report::report(&program, proofs);
    expectations(schedule, state, &program)?;
    Ok(program)
}

/// What all passes share.
pub(crate) struct Pass<'a> {
    schedule: &'a Schedule,
    pub state: &'a State,
    pub isl: &'a Isl,
    pub ranges: &'a Ranges,
    pub relations: &'a Relations<'a>,
    pub classifier: &'a Classifier<'a>,
    /// What the passes have proved so far.
    pub proofs: &'a Proofs,
}

fn ranges(state: &State) -> Ranges {
    let extents: Vec<_> = state.nest.loops.iter().map(|&id| state.nest.node(id).extent).collect();
    let (coordinates, counters) = extents.split_at(state.nest.distributed);
    Ranges { coordinates: coordinates.to_vec(), counters: counters.to_vec() }
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

    pub(crate) fn steps(&self) -> impl Iterator<Item = &crate::step::Step> {
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

    /// What later steps may have broken: rotations stay inside what they rotate by, leaf loops innermost.
    fn order(&self) -> Result<(), LowerError> {
        let nest = &self.state.nest;
        for node in &nest.nodes {
            let Made::Rotated { rotated, by } = &node.made else { continue };
            let first = nest.outermost(*rotated).unwrap_or(usize::MAX);
            for &other in by {
                if nest.loops_of(other).into_iter().any(|position| position >= first) {
                    let kind =
                        ErrorKind::NotOutside { name: node.name, by: nest.node(other).name, loops: nest.names() };
                    return Err(self.blame(nest.node(*rotated).steps.last().copied(), kind));
                }
            }
        }
        let Some(tensorized) = &self.state.tensorized else { return Ok(()) };
        let listed = |position: usize| tensorized.loops.contains(&nest.node(nest.loops[position]).name);
        let first = (0..nest.loops.len()).find(|&position| listed(position)).unwrap_or(nest.loops.len());
        match (first..nest.loops.len()).find(|&position| !listed(position)) {
            None => Ok(()),
            Some(position) => {
                let inside = nest.node(nest.loops[position]).name;
                let kind = ErrorKind::NotInnermost { loops: list(&tensorized.loops), inside };
                Err(self.blame(Some(tensorized.step), kind))
            }
        }
    }

    /// The schedule is a bijection between iterations of all loops and statement instances: each step is one between the
    /// loops that it makes and those that it replaces.
    fn every_instance_once(&self) -> Result<(), LowerError> {
        self.proved(
            "that every statement instance runs once",
            (|| {
                if !self.state.nest.is_forest() {
                    return Ok(false);
                }
                for (step, all) in self.relations.steps() {
                    let [step, all] = [self.isl.relation(&step)?, self.isl.relation(&all)?];
                    let bijective = step.is_single_valued()? && step.is_injective()?;
                    if !bijective || !step.range()?.is_equal(&all)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            })(),
        )?;
        let asked =
            "the relation from the loops of each step to those that they replace is single-valued, injective and onto";
        self.proofs.add(Property::EveryInstanceOnce, None, asked);
        Ok(())
    }

    /// The rank that serves an element, as a function of the element and the reader, owns it.
    fn served_by_owners(&self) -> Result<(), LowerError> {
        for shard in &self.state.shards {
            self.proved(
                "that elements are read from their owners",
                (|| {
                    let (solved, owners) = Sources::solved(&shard.sharding);
                    self.isl.relation(&solved)?.is_subset(&self.isl.relation(&owners)?)
                })(),
            )?;
            if shard.tensor != self.state.kernel.output().name {
                let asked = "the rank that an element is read from owns it";
                self.proofs.add(Property::Residency, Some(shard.tensor), asked);
            }
        }
        Ok(())
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
        let periods = periodic::periods(accesses, kernel.vars());
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

    fn output(&self) -> Result<Output, LowerError> {
        output::build(self)
    }

    /// The leaf and the number of serial loops around it.
    fn leaf(&self, transfers: &[Transfer], output: &Output) -> Result<(Leaf, usize), LowerError> {
        let nest = &self.state.nest;
        let serial = nest.loops.len() - self.distributed();
        let build = |level, step, product| {
            leaf::build(&self.state.kernel, nest, self.ranges, self.distributed() + level, step, product)
        };
        if let Some(tensorized) = &self.state.tensorized {
            let level = serial - tensorized.loops.len();
            let product = matches!(tensorized.kind, None | Some(LeafKind::Contraction));
            let (mut leaf, contraction) = build(level, Some(tensorized.step), product);
            if !self.is_box(&leaf, level)? {
                let vars: Vec<_> = self.state.kernel.vars().iter().map(|var| var.name).collect();
                let kind = ErrorKind::NotABox { loops: list(&tensorized.loops), vars: list(&vars) };
                return Err(self.blame(Some(tensorized.step), kind));
            }
            if let (Some(LeafKind::Contraction), Err(why)) = (tensorized.kind, contraction) {
                let (found, asserted) = (leaf.op.kind().to_string(), LeafKind::Contraction.to_string());
                return Err(self.blame(Some(tensorized.step), ErrorKind::OtherLeaf { found, asserted, why }));
            }
            if let Some(LeafKind::Named(name)) = tensorized.kind {
                let op = named::build(&self.state.kernel, nest, self.distributed() + level, name);
                leaf.op =
                    op.map_err(|why| self.blame(Some(tensorized.step), ErrorKind::NoTiles { leaf: name, why }))?;
            }
            return Ok((leaf, level));
        }
        // Without `tensorize`, the loops inside the last transfer run as one nest as far as they are boxes.
        let outermost = transfers.iter().map(|transfer| transfer.level).chain([output.level]).max().unwrap_or(0);
        for level in outermost..=serial {
            let (leaf, _) = build(level, None, false);
            if self.is_box(&leaf, level)? {
                return Ok((leaf, level));
            }
        }
        let trace = self.schedule.to_string();
        Err(self.blame(None, ErrorKind::Unproved { what: "the values of the indices at one point".into(), trace }))
    }

    /// The leaf's loops run exactly the instances of their iteration.
    fn is_box(&self, leaf: &Leaf, level: usize) -> Result<bool, LowerError> {
        let fixed = self.distributed() + level;
        self.decide("the leaf's instances", || {
            let all: Vec<_> = (0..leaf.loops.len()).collect();
            // What holds of indices that share no loop but fixed ones, holds of all of them together.
            for together in self.state.nest.components(all.len(), fixed) {
                if !self.is_box_of(leaf, &together, fixed)? {
                    return self.is_box_of(leaf, &all, fixed);
                }
            }
            Ok(true)
        })
    }

    /// Whether these of the leaf's loops run exactly the values that their indices have in some instance.
    fn is_box_of(&self, leaf: &Leaf, vars: &[usize], fixed: usize) -> IslResult<bool> {
        let loops: Vec<_> = vars.iter().map(|&var| &leaf.loops[var]).collect();
        let indices: Vec<_> = loops.iter().map(|l| Affine::new([(l.var, 1)], 0)).collect();
        let exact = self.isl.relation(&self.relations.needed(fixed, &indices))?;
        let ranges = loops.iter().map(|l| {
            // `count` rounds up, so this end is at most one step beyond the last value.
            (l.low.clone(), l.low.plus(&l.count.times(l.step)), Blocks::points(l.step))
        });
        exact.is_equal(&self.isl.relation(&self.relations.boxes(fixed, &ranges.collect::<Vec<_>>(), &[]))?)
    }

    fn loops(&self, depth: usize) -> Vec<Loop> {
        let serial = &self.state.nest.loops[self.distributed()..];
        let shown = |id| {
            let node = self.state.nest.node(id);
            Loop { name: node.name, extent: node.extent, steps: node.steps.clone() }
        };
        serial[..depth].iter().map(|&id| shown(id)).collect()
    }

    /// Ranks that communicate together make the same calls.
    fn matching(&self, transfers: &[Transfer], output: &Output, depth: usize) -> Result<Vec<Proof>, LowerError> {
        let kernel = &self.state.kernel;
        let matching = Matching { mesh: &self.state.mesh, ranges: self.ranges, loops: depth };
        let name = |input: usize| kernel.inputs()[input].name;
        matching.check(transfers, output, name, kernel.output().name).map_err(|mismatch| {
            let what = format!("that ranks agree on the transfer of `{}`: {}", mismatch.tensor, mismatch.why);
            self.blame(None, ErrorKind::Unproved { what, trace: self.schedule.to_string() })
        })
    }

    pub(crate) fn owners(&self, sharding: &Sharding) -> IslResult<crate::isl::Relation> {
        self.isl.relation(&owners(sharding))
    }
}

/// Each transfer has the pattern that a step expects of it.
fn expectations(schedule: &Schedule, state: &State, program: &Program) -> Result<(), LowerError> {
    if state.kernel.is_empty() {
        // Nothing is transferred where nothing runs, and no size is refused for that.
        return Ok(());
    }
    for (tensor, expected, step) in &state.expectations {
        let found = program.patterns(tensor.as_str());
        let moved: Vec<_> = found.iter().filter(|pattern| **pattern != Pattern::Local).collect();
        let holds = match expected {
            Pattern::Local => moved.is_empty(),
            _ => !moved.is_empty() && moved.iter().all(|found| found.is_same(expected, &state.mesh)),
        };
        if !holds {
            let found: BTreeSet<_> = found.iter().map(Pattern::to_string).collect();
            let found = found.into_iter().collect::<Vec<_>>().join(" and ");
            let kind = ErrorKind::Unexpected { tensor: *tensor, found, expected: expected.clone() };
            return Err(schedule.blame(Some(*step), kind));
        }
    }
    Ok(())
}

/// The statements inside the first `level` serial loops.
pub(crate) fn body(level: usize, depth: usize, transfers: &[Transfer], output: &Output) -> Vec<Statement> {
    let tiled = output.level == level && output.route != OutputRoute::InPlace;
    let mut statements = Vec::new();
    let here = transfers.iter().enumerate().filter(|(_, transfer)| transfer.level == level);
    statements.extend(here.map(|(number, _)| Statement::Fetch(number)));
    if tiled {
        statements.push(Statement::Start);
    }
    statements.push(if level == depth {
        Statement::Leaf
    } else {
        Statement::Loop { counter: level, body: body(level + 1, depth, transfers, output) }
    });
    if tiled {
        statements.push(Statement::Finish);
    }
    statements
}
