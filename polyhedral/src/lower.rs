//! From schedule to program: the passes, in order.
//!
//! Each pass proposes closed forms and proves them with isl before the next one builds on them, so what
//! comes out is right by construction of the proofs, not of the proposals.

use crate::classify::Classifier;
use crate::error::{ErrorKind, LowerError};
use crate::hints;
use crate::input;
use crate::isl::{Isl, IslResult};
use crate::leaf;
use crate::named;
use crate::nest::Made;
use crate::output;
use crate::pass::Pass;
use crate::proofs::Proofs;
use crate::relation::Relations;
use crate::schedule::Schedule;
use crate::source::Sources;
use crate::state::State;
use polyshard_program::{
    Affine, Blocks, Leaf, LeafKind, Loop, Matching, Nest, Output, Pattern, Program, Proof, Property, Ranges, Report,
    Transfer, list,
};
use std::collections::BTreeSet;

impl Schedule {
    /// Checks the schedule, derives and classifies its communication, proves it, and returns the program.
    ///
    /// # Errors
    /// The first step that cannot be applied, with its number and call site; or what makes the whole
    /// illegal, with the step that is to blame.
    pub fn lower(&self) -> Result<Program, LowerError> {
        lower(self)
    }
}

fn lower(schedule: &Schedule) -> Result<Program, LowerError> {
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
    let hints = hints::find(&pass, &transfers, &output, &leaf.0, depth);
    let mut proofs = proofs.take();
    proofs.extend(matching);
    let nest = Nest {
        kernel: (*state.kernel).clone(),
        steps: schedule.steps().map(ToString::to_string).collect(),
        mesh: state.mesh.clone(),
        shardings: state.kernel.tensors().map(|tensor| state.sharding(tensor.name)).collect(),
        loops: pass.loops(depth),
        body: Nest::body_of(depth, &transfers, &output),
        transfers,
        output,
        leaf: leaf.0,
        report: Report::default(),
        hints,
    };
    let nest = nest.reported(proofs);
    expectations(schedule, state, &nest)?;
    Ok(nest.into())
}

fn ranges(state: &State) -> Ranges {
    let extents: Vec<_> = state.nest.loops.iter().map(|&id| state.nest.node(id).extent).collect();
    let (coordinates, counters) = extents.split_at(state.nest.distributed);
    Ranges { coordinates: coordinates.to_vec(), counters: counters.to_vec() }
}

impl Pass<'_> {
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
}

/// Each transfer has the pattern that a step expects of it.
fn expectations(schedule: &Schedule, state: &State, nest: &Nest) -> Result<(), LowerError> {
    if state.kernel.is_empty() {
        // Nothing is transferred where nothing runs, and no size is refused for that.
        return Ok(());
    }
    for (tensor, expected, step) in &state.expectations {
        let found = nest.patterns(tensor.as_str());
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
