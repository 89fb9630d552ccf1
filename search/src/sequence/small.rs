//! The program that needs the least memory: what is chosen where nothing faster is known to fit, or what is said to do.
//!
//! Stages that fit by themselves may not fit together, so the panels of all of them are as fine as can be here. Of each stage, and of each way
//! that its arrays may lie, the schedule is taken that needs the least. Tiles that one stage keeps for another are not foreseen, so less may do
//! where several stages read the same value.

use super::laid::Laid;
use super::stage::is_given;
use super::state::{Best, StageWay, State};
use crate::SearchError;
use crate::find::Found;
use crate::space::Space;
use crate::variant::Variant;
use polyshard_layout::{Name, Sharding};
use std::cell::OnceCell;

/// The most programs that are put together.
const MOST_PROGRAMS: usize = 1 << 12;

/// A program of some of the stages, as far as it is known.
struct Small<'c> {
    ways: Vec<&'c StageWay>,
    /// What comes from outside, as it lies.
    given: Vec<(Name, &'c Sharding)>,
    /// Bytes of these.
    shards: u64,
    /// The most bytes of other arrays that one of the stages has.
    others: u64,
    /// Bytes of the tiles of all stages so far.
    tiles: u64,
}

/// What is looked for on all meshes.
struct Smallest {
    best: Option<Best>,
    programs: usize,
}

impl Smallest {
    fn memory(&self) -> u64 {
        self.best.as_ref().map_or(u64::MAX, |best| best.candidate.cost.memory)
    }
}

impl State<'_> {
    /// Looks for the program that needs the least memory on these meshes. If it fits, it is the best, with larger panels where there is room; else
    /// what it needs is said.
    pub(super) fn smallest(&mut self, meshes: &[Laid]) -> Result<(), SearchError> {
        let mut smallest = Smallest { best: None, programs: 0 };
        for laid in meshes {
            let ways = (0..self.kernels.len()).map(|nth| self.small_ways(nth, laid));
            let ways = ways.collect::<Result<Vec<_>, _>>()?;
            let tiles: Vec<u64> =
                ways.iter().map(|ways| ways.iter().map(|way| self.tiles(way)).min().unwrap_or(0)).collect();
            let mut small = Small { ways: Vec::new(), given: Vec::new(), shards: 0, others: 0, tiles: 0 };
            self.descend_small(&ways, &tiles, &mut small, &mut smallest)?;
        }
        match smallest.best {
            Some(best) if best.candidate.cost.memory <= self.memory => {
                self.best = Some(best);
                self.relax()
            }
            best => {
                self.least_memory = best.map(|best| best.candidate.cost.memory);
                Ok(())
            }
        }
    }

    /// Of each way that arrays of a stage may lie on a mesh, the schedule that needs the least memory; those first that need less.
    fn small_ways(&mut self, nth: usize, laid: &Laid) -> Result<Vec<StageWay>, SearchError> {
        if let Some(program) = &self.fixed[nth] {
            return Ok(vec![self.given(nth, program)?]);
        }
        let mut all: Vec<StageWay> = Vec::new();
        for (_, along) in &laid.ways[nth] {
            let variant = Variant { mesh: laid.mesh.clone(), along: along.clone(), panels: None };
            let space = Space { kernel: self.kernels[nth], homes: &[], rotates: false };
            let mut found = Found::smallest();
            found.add(&space, &variant, &self.prices)?;
            for candidate in found.candidates.into_iter().chain(found.smallest.into_iter().flatten()) {
                let way = StageWay { candidate, along: Some(along.clone()), program: OnceCell::new() };
                match all.iter_mut().find(|other| other.candidate.shardings == way.candidate.shardings) {
                    Some(other) if other.candidate.cost.memory <= way.candidate.cost.memory => {}
                    Some(other) => *other = way,
                    None => all.push(way),
                }
            }
        }
        let by_memory = |one: &StageWay, other: &StageWay| {
            let by_memory = one.candidate.cost.memory.cmp(&other.candidate.cost.memory);
            by_memory.then_with(|| one.candidate.order(&other.candidate))
        };
        all.sort_by(by_memory);
        Ok(all)
    }

    fn bytes(&self, sharding: &Sharding) -> u64 {
        sharding.largest_shard().saturating_mul(self.kernels[0].dtype().size() as u64)
    }

    /// The bytes of a stage besides its arrays.
    fn tiles(&self, way: &StageWay) -> u64 {
        let arrays = way.candidate.shardings.iter().map(|sharding| self.bytes(sharding));
        way.candidate.cost.memory.saturating_sub(arrays.fold(0, u64::saturating_add))
    }

    /// Tries all ways of the next stage behind those that are there. `tiles` are the fewest bytes of the tiles of each stage.
    fn descend_small<'c>(
        &mut self,
        ways: &'c [Vec<StageWay>],
        tiles: &[u64],
        small: &mut Small<'c>,
        smallest: &mut Smallest,
    ) -> Result<(), SearchError> {
        let nth = small.ways.len();
        let Some(next) = ways.get(nth) else {
            smallest.programs += 1;
            if let Some(found) = self.together(&small.ways)? {
                let rank = |best: &Best| (best.candidate.cost.memory, best.candidate.cost.seconds());
                if smallest.best.as_ref().is_none_or(|best| rank(&found) < rank(best)) {
                    smallest.best = Some(found);
                }
            }
            return Ok(());
        };
        let rest = tiles[nth + 1..].iter().copied().fold(0, u64::saturating_add);
        for way in next {
            let (given, before) = (small.given.len(), (small.shards, small.others, small.tiles));
            self.append_small(nth, way, small);
            let least = [small.shards, small.others, small.tiles, rest].into_iter().fold(0, u64::saturating_add);
            if least < smallest.memory() && smallest.programs < MOST_PROGRAMS {
                self.descend_small(ways, tiles, small, smallest)?;
            }
            small.ways.pop();
            small.given.truncate(given);
            (small.shards, small.others, small.tiles) = before;
        }
        Ok(())
    }

    fn append_small<'c>(&self, nth: usize, way: &'c StageWay, small: &mut Small<'c>) {
        let stages = &self.search.stages;
        let values = stages[nth].inputs.iter().copied().chain([stages[nth].output]);
        let mut others: Vec<(Name, &Sharding)> = Vec::new();
        for (value, sharding) in values.zip(&way.candidate.shardings) {
            if is_given(stages, value)
                && value != stages[nth].output
                && small.given.iter().all(|(name, _)| *name != value)
            {
                small.given.push((value, sharding));
                small.shards = small.shards.saturating_add(self.bytes(sharding));
            }
            if !small.given.contains(&(value, sharding)) && !others.contains(&(value, sharding)) {
                others.push((value, sharding));
            }
        }
        let bytes = others.into_iter().map(|(_, sharding)| self.bytes(sharding)).fold(0, u64::saturating_add);
        small.others = small.others.max(bytes);
        small.tiles = small.tiles.saturating_add(self.tiles(way));
        small.ways.push(way);
    }

    /// Gives stages larger panels, one after the other, where these fit and are faster.
    fn relax(&mut self) -> Result<(), SearchError> {
        for nth in 0..self.kernels.len() {
            let (Some((homes, variant)), Some(best)) = (self.as_it_lies(nth), &self.best) else { continue };
            let stage = self.prices.of(&best.stages[nth])?.memory;
            let room = self.memory.saturating_sub(best.candidate.cost.memory.saturating_sub(stage));
            let space = Space { kernel: self.kernels[nth], homes: &homes, rotates: false };
            let mut found = Found::new(room, f64::INFINITY);
            found.add(&space, &variant, &self.prices)?;
            self.improve(nth, found.candidates)?;
        }
        Ok(())
    }
}
