//! The program that needs the least memory: chosen if nothing faster is known to fit, or reported as the memory that
//! would be enough.
//!
//! Stages that each fit alone may not fit together, so their panels are as fine as possible here. For each stage, each
//! combination of shardings, and each set of tiles that it keeps for other stages, the schedule with the least memory
//! is used. Tests: `search/tests/it/sequences.rs`.

use super::known::Laid;
use super::state::{Best, StageWay, State};
use crate::SearchError;
use crate::found::{Found, smaller};
use crate::space::Space;
use crate::stages::Stage;
use crate::stay::{Stay, memory_without};
use crate::variant::{Along, Variant};
use polyshard_layout::{Mesh, Name, Sharding};
use std::cell::OnceCell;

/// The maximum number of programs that are built; if there are more, the smallest of these is reported.
const MAX_PROGRAMS: usize = 1 << 12;

/// The maximum number of programs that are built on each mesh to find one that fits.
const MAX_FITTING: usize = 1 << 6;

/// A partial program: the first stages.
#[derive(Clone, Default)]
struct Small<'c> {
    ways: Vec<&'c StageWay>,
    /// The inputs of the program, with their shardings.
    given: Vec<(Name, &'c Sharding)>,
    /// Bytes of the inputs.
    shards: u64,
    /// The maximum, over the stages, of the bytes of other arrays.
    others: u64,
    /// Bytes of the tiles of all stages so far, except tiles that earlier stages may keep.
    tiles: u64,
    /// The arrays whose tiles later stages may read.
    kept: Vec<(Name, &'c Sharding)>,
}

/// The state of the search for the smallest program, on all meshes or on one.
struct Smallest {
    best: Option<Best>,
    /// Programs that need this many bytes or more are of no interest.
    below: u64,
    /// How many more programs may be built.
    left: usize,
    /// Whether all programs that could need less were compared.
    is_done: bool,
    /// Whether programs that do not fit are of no interest.
    fits: bool,
}

impl Smallest {
    fn memory(&self) -> u64 {
        self.best.as_ref().map_or(self.below, |best| best.candidate.cost.memory)
    }
}

impl State<'_> {
    /// Searches these meshes for the program that needs the least memory. If it fits, it becomes the best, with larger
    /// panels if there is room. Otherwise its memory is recorded, and whether it is the minimum: not if these meshes
    /// are not `all`, or if a limit ended the search. At least one program is examined.
    pub(super) fn smallest(&mut self, meshes: &[Laid], all: bool) -> Result<(), SearchError> {
        let mut meshes: Vec<&Laid> = meshes.iter().collect();
        meshes.sort_by_cached_key(|laid| self.least_held(laid));
        let mut smallest = Smallest { best: None, below: u64::MAX, left: MAX_PROGRAMS, is_done: all, fits: false };
        for laid in meshes {
            if smallest.best.is_some() && self.is_over() {
                smallest.is_done = false;
                break;
            }
            let ways = self.small_ways(laid)?;
            let below = smallest.memory().min(self.memory.saturating_add(1));
            smallest.is_done &= !self.are_ways_cut;
            match self.fitting(laid, &ways, below)?.best {
                Some(best) => smallest.best = Some(best),
                None if smallest.memory() > self.memory => {
                    let ways: Vec<Vec<&StageWay>> = ways.iter().map(|ways| ways.iter().collect()).collect();
                    self.together_of(&ways, &mut smallest)?;
                }
                None => {}
            }
        }
        match smallest.best {
            Some(best) if best.candidate.cost.memory <= self.memory => {
                self.best = Some(best);
                self.relax()
            }
            best => {
                self.least_memory = best.map(|best| (best.candidate.cost.memory, smallest.is_done));
                Ok(())
            }
        }
    }

    /// Whether a program on a mesh fits into the memory; `None` if none was found but not all were compared. If this
    /// finds one, [`smallest`](Self::smallest) does too, whatever else it examines.
    pub(super) fn fits(&mut self, laid: &Laid) -> Result<Option<bool>, SearchError> {
        let ways = self.small_ways(laid)?;
        let found = self.fitting(laid, &ways, self.memory.saturating_add(1))?;
        let fits = found.best.is_some();
        Ok((fits || found.is_done).then_some(fits))
    }

    /// The program on a mesh that needs the least memory, if it needs less than `below`.
    fn fitting(&mut self, laid: &Laid, ways: &[Vec<StageWay>], below: u64) -> Result<Smallest, SearchError> {
        let may_fit = |nth: usize, way: &StageWay| {
            way.along.as_ref().is_none_or(|along| self.holds(nth, &laid.mesh, along) <= self.memory)
        };
        let ways = ways.iter().enumerate().map(|(nth, ways)| ways.iter().filter(|way| may_fit(nth, way)).collect());
        let ways: Vec<Vec<&StageWay>> = ways.collect();
        let mut found = Smallest { best: None, below, left: MAX_FITTING, is_done: !self.are_ways_cut, fits: true };
        self.together_of(&ways, &mut found)?;
        Ok(found)
    }

    /// Closed-form lower bound on the bytes that a rank holds while a stage runs with its loops along these axes of a
    /// mesh.
    pub(super) fn holds(&self, nth: usize, mesh: &Mesh, along: &Along) -> u64 {
        let Stage { inputs, output, .. } = &self.search.stages[nth];
        let variant = Variant { mesh: mesh.clone(), along: along.clone(), panels: None };
        // Several tensors of a kernel may be one array.
        let is_once = (0..inputs.len()).all(|at| inputs[at] != *output && !inputs[..at].contains(&inputs[at]));
        // If a sharding is given, no bound is known.
        let is_once = is_once && self.known.homes[nth].is_empty();
        let own = if is_once { self.known.bounds[nth].memory(&variant.grid()) as u64 } else { 0 };
        own.saturating_add(self.besides[nth])
    }

    /// Lower bound on the bytes that a rank holds in every program on a mesh.
    pub(super) fn least_held(&self, laid: &Laid) -> u64 {
        let of_stage = |(nth, ways): (usize, &Vec<(f64, Along)>)| match self.known.fixed[nth] {
            Some(_) => None,
            None => ways.iter().map(|(_, along)| self.holds(nth, &laid.mesh, along)).min(),
        };
        laid.ways.iter().enumerate().filter_map(of_stage).max().unwrap_or(0)
    }

    /// Builds the programs, of one way per stage, that could need less memory than the smallest so far.
    fn together_of(&mut self, ways: &[Vec<&StageWay>], smallest: &mut Smallest) -> Result<(), SearchError> {
        let least = |(nth, ways): (usize, &Vec<&StageWay>)| {
            let name = |stay: &Stay| self.known.kernels[nth].inputs()[stay.input].name;
            let tiles = |way: &&StageWay| self.tiles(way, |stay| self.known.shared.before[nth].contains(&name(stay)));
            ways.iter().map(tiles).min().unwrap_or(0)
        };
        let tiles: Vec<u64> = ways.iter().enumerate().map(least).collect();
        self.descend_small(ways, &tiles, &Small::default(), smallest)
    }

    /// For each stage, its [`ways_of`](Self::ways_of) a mesh.
    fn small_ways(&mut self, laid: &Laid) -> Result<Vec<Vec<StageWay>>, SearchError> {
        (0..self.known.kernels.len()).map(|nth| self.ways_of(nth, laid)).collect()
    }

    /// For each combination of shardings of a stage's arrays on a mesh, and of tiles that it keeps for others, the
    /// schedule that needs the least memory; smallest first.
    fn ways_of(&mut self, nth: usize, laid: &Laid) -> Result<Vec<StageWay>, SearchError> {
        if let Some(program) = &self.known.fixed[nth] {
            return Ok(vec![self.given(nth, program)?]);
        }
        let mut all: Vec<StageWay> = Vec::new();
        for (_, along) in &laid.ways[nth] {
            let variant = Variant { mesh: laid.mesh.clone(), along: along.clone(), panels: None };
            let space = Space { kernel: self.known.kernels[nth], homes: &self.known.homes[nth], rotates: false };
            let mut found = Found::smallest().sharing(&self.known.shared.with_any[nth]);
            (found.until, found.may_end) = ([self.until; 2], !all.is_empty());
            found.add(&space, &variant, &self.prices)?;
            for candidate in found.candidates.into_iter().chain(found.smallest.into_iter().flatten()) {
                let way = StageWay { candidate, along: Some(along.clone()), program: OnceCell::new() };
                smaller(&mut all, way, |way| &way.candidate);
            }
            if found.is_cut {
                self.are_ways_cut = true;
                break;
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
        sharding.largest_shard().saturating_mul(self.known.kernels[0].dtype().size() as u64)
    }

    /// The bytes of a stage beyond its arrays, without the tiles for which `is_kept` says that earlier stages keep
    /// them.
    fn tiles(&self, way: &StageWay, is_kept: impl Fn(&Stay) -> bool) -> u64 {
        let arrays = way.candidate.part().shardings.iter().map(|sharding| self.bytes(sharding));
        let kept = way.candidate.part().stays.iter().filter(|stay| is_kept(stay));
        memory_without(&way.candidate.cost, kept).saturating_sub(arrays.fold(0, u64::saturating_add))
    }

    /// Tries all ways of the next stage after the chosen ones. `tiles` are the minimum bytes of the tiles of each
    /// stage.
    fn descend_small<'c>(
        &mut self,
        ways: &[Vec<&'c StageWay>],
        tiles: &[u64],
        small: &Small<'c>,
        smallest: &mut Smallest,
    ) -> Result<(), SearchError> {
        let nth = small.ways.len();
        let Some(next) = ways.get(nth) else {
            smallest.left -= 1;
            if let Some(found) = self.together(&small.ways)? {
                let rank = |best: &Best| (best.candidate.cost.memory, best.candidate.cost.seconds());
                let is_less = match &smallest.best {
                    Some(best) => rank(&found) < rank(best),
                    None => found.candidate.cost.memory < smallest.below,
                };
                if is_less {
                    smallest.best = Some(found);
                }
            }
            return Ok(());
        };
        let rest = tiles[nth + 1..].iter().copied().fold(0, u64::saturating_add);
        for &way in next {
            let small = self.appended(nth, way, small.clone());
            let least = [small.shards, small.others, small.tiles, rest].into_iter().fold(0, u64::saturating_add);
            if least < smallest.memory() {
                let is_over = (smallest.best.is_some() || smallest.fits) && self.is_over();
                match smallest.left > 0 && !is_over {
                    true => self.descend_small(ways, tiles, &small, smallest)?,
                    false => smallest.is_done = false,
                }
            }
        }
        Ok(())
    }

    /// A partial program with one more stage.
    fn appended<'c>(&self, nth: usize, way: &'c StageWay, mut small: Small<'c>) -> Small<'c> {
        let stages = &self.search.stages;
        let mut others: Vec<(Name, &Sharding)> = Vec::new();
        for (value, sharding) in stages[nth].values().zip(&way.candidate.part().shardings) {
            if self.search.around.is_given(stages, value)
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
        let array = |stay: &Stay| (stages[nth].inputs[stay.input], &way.candidate.part().shardings[stay.input]);
        small.tiles = small.tiles.saturating_add(self.tiles(way, |stay| small.kept.contains(&array(stay))));
        small.kept.extend(way.candidate.part().stays.iter().map(array));
        small.ways.push(way);
        small
    }

    /// Gives one stage after the other larger panels, if these fit and are faster.
    fn relax(&mut self) -> Result<(), SearchError> {
        for nth in 0..self.known.kernels.len() {
            if self.is_over() {
                break;
            }
            let (Some((homes, variant)), Some(best)) = (self.as_it_lies(nth), &self.best) else { continue };
            let stage = self.prices.of(&best.stages[nth])?.memory;
            let room = self.memory.saturating_sub(best.candidate.cost.memory.saturating_sub(stage));
            let space = Space { kernel: self.known.kernels[nth], homes: &homes, rotates: false };
            let mut found = Found::new(room, f64::INFINITY);
            found.add(&space, &variant, &self.prices)?;
            self.improve(nth, found.candidates)?;
        }
        Ok(())
    }
}
