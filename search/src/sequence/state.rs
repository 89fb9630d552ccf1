//! The search on one mesh after the other: the best program so far, and the branches that can still beat it. Tests:
//! `search/tests/it/sequences.rs`.

use super::SequenceSearch;
use super::known::{Known, Laid};
use crate::SearchError;
use crate::choice::{Candidate, Open, Part};
use crate::found::{Found, NOISE};
use crate::limits::is_over;
use crate::space::Space;
use crate::stages::{Around, Stage};
use crate::stay::{Stay, seconds_without};
use crate::variant::{Along, Variant};
use polyshard_dsl::{Clause, Step};
use polyshard_layout::{Mesh, Name, Sharding};
use polyshard_planner::cost::{CostedPart, Prices};
use polyshard_planner::redistribution;
use polyshard_polyhedral::LowerError;
use polyshard_program::{Kernel, Program};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::time::Instant;

/// The maximum number of pipelined schedules of a stage that are priced.
const MOST_AHEAD: usize = 16;

/// A way to run a stage, with its program once requested.
pub(super) struct StageWay {
    pub(super) candidate: Candidate,
    /// The mesh axes that divide its loops; `None` if its schedule is given.
    pub(super) along: Option<Along>,
    pub(super) program: OnceCell<Result<Program, LowerError>>,
}

impl StageWay {
    /// Lower bound on its seconds if the tiles for which `is_kept` says that earlier stages keep them are not fetched.
    fn seconds_without(&self, is_kept: impl Fn(&Stay) -> bool) -> f64 {
        seconds_without(&self.candidate.cost, self.candidate.part().stays.iter().filter(|stay| is_kept(stay)))
    }

    /// The proved program.
    fn program(&self) -> Result<&Program, LowerError> {
        self.program.get_or_init(|| self.candidate.schedule().lower()).as_ref().map_err(Clone::clone)
    }
}

/// The state of a search.
pub(super) struct State<'a> {
    pub(super) search: &'a SequenceSearch<'a>,
    pub(super) prices: Prices<'a>,
    pub(super) known: &'a Known<'a>,
    pub(super) memory: u64,
    /// Lower bound on the bytes of values that a rank holds while a stage runs that neither reads nor writes them.
    pub(super) besides: Vec<u64>,
    pub(super) until: Option<Instant>,
    /// When the search for fast programs gives way to the search for one that fits, if none has fitted yet.
    pub(super) until_short: Option<Instant>,
    /// Seconds to redistribute an array from one sharding to another.
    moves: HashMap<[Sharding; 2], f64>,
    pub(super) best: Option<Best>,
    /// Whole programs that fit into the memory.
    pub(super) whole: Vec<Candidate>,
    /// Programs that take this many seconds or more are not wanted.
    pub(super) below: f64,
    /// Whether a candidate exceeded the memory.
    pub(super) is_short: bool,
    /// The minimum memory of a program, if none fits, and whether all were compared.
    pub(super) least_memory: Option<(u64, bool)>,
    pub(super) failed: Option<SearchError>,
    pub(super) open: Open,
    /// Whether a time limit has ended it.
    pub(super) is_cut: bool,
    /// Whether a time limit has ended the search for ways that need little memory.
    pub(super) are_ways_cut: bool,
}

/// The best program so far, with the program of each stage and the mesh axes that divide its loops.
pub(super) struct Best {
    pub(super) program: Program,
    pub(super) stages: Vec<Program>,
    pub(super) candidate: Candidate,
    pub(super) along: Vec<Option<Along>>,
}

/// The shardings of the tensors of a kernel.
type Homes = Vec<(Name, Vec<Clause>)>;

/// The stages so far.
struct Chosen<'c> {
    ways: Vec<&'c StageWay>,
    /// The values, in the shardings that they have; the first sharding of each is the one in which it was given or
    /// written.
    arrays: Vec<(Name, &'c Sharding)>,
    /// The arrays whose tiles later stages may read.
    tiles: Vec<(Name, &'c Sharding)>,
    seconds: f64,
}

impl<'a> State<'a> {
    /// The state before the first mesh.
    pub(super) fn new(search: &'a SequenceSearch<'a>, known: &'a Known<'a>, memory: u64) -> Self {
        Self {
            search,
            prices: Prices::new(search.machine),
            known,
            memory,
            besides: besides(&search.stages, &search.around, &known.kernels, search.ranks as u64),
            until: None,
            until_short: None,
            moves: HashMap::new(),
            best: None,
            whole: Vec::new(),
            below: f64::INFINITY,
            is_short: false,
            least_memory: None,
            failed: None,
            open: Open::default(),
            is_cut: false,
            are_ways_cut: false,
        }
    }

    pub(super) fn seconds(&self) -> f64 {
        self.best.as_ref().map_or(self.below, |best| best.candidate.cost.seconds())
    }

    fn is_late(&self) -> bool {
        match self.best {
            Some(_) => self.is_over(),
            // Another search has found a program.
            None if self.below < f64::INFINITY => self.is_over(),
            None => self.is_short && is_over(self.until_short),
        }
    }

    /// Whether the time of the search is over.
    pub(super) fn is_over(&self) -> bool {
        is_over(self.until)
    }

    /// Examines all programs on a mesh that could be the best.
    pub(super) fn on_mesh(&mut self, laid: &Laid) -> Result<(), SearchError> {
        let mut found: Vec<Vec<StageWay>> = laid.ways.iter().map(|_| Vec::new()).collect();
        let mut tried = vec![0; laid.ways.len()];
        // Lower bound on the seconds of each stage: by its bounds until its fastest way is known.
        let mut least: Vec<f64> = laid.ways.iter().map(|ways| ways[0].0).collect();
        // First the ways up to the fastest of each stage, then all others that could still be part of the best.
        for of_all in [false, true] {
            for (nth, ways) in laid.ways.iter().enumerate() {
                while let Some((bound, along)) = ways.get(tried[nth]) {
                    let fastest = found[nth].iter().map(|way| self.seconds_of(nth, way, |_| false));
                    let fastest = fastest.fold(f64::INFINITY, f64::min);
                    if !of_all && fastest <= *bound {
                        break;
                    }
                    let others: f64 = least.iter().sum::<f64>() - least[nth];
                    if others + bound.max(if of_all { least[nth] } else { 0.0 }) >= self.seconds() {
                        break;
                    }
                    if self.is_late() {
                        self.cut(laid);
                        return Ok(());
                    }
                    tried[nth] += 1;
                    if self.known.fixed[nth].is_none() && self.holds(nth, &laid.mesh, along) > self.memory {
                        self.is_short = true;
                        continue;
                    }
                    self.add(nth, &laid.mesh, along, &mut found[nth])?;
                }
                if found[nth].is_empty() {
                    return Ok(());
                }
                undominated(&mut found[nth]);
                found[nth].sort_by(|one, other| self.least_of(nth, one).total_cmp(&self.least_of(nth, other)));
                let next = ways.get(tried[nth]).map_or(f64::INFINITY, |(bound, _)| *bound);
                least[nth] = self.least_of(nth, &found[nth][0]).min(next);
            }
            let mut chosen = Chosen { ways: Vec::new(), arrays: Vec::new(), tiles: Vec::new(), seconds: 0.0 };
            self.descend(laid, &found, &least, &mut chosen)?;
        }
        Ok(())
    }

    /// Leaves open the programs not examined on this mesh and on later ones, and ends the search.
    fn cut(&mut self, laid: &Laid) {
        self.open.leave(laid.least());
        self.is_cut = true;
    }

    /// Lower bounds on the seconds of the stages with given schedules.
    pub(super) fn least_of_given(&self) -> Result<Vec<Option<f64>>, SearchError> {
        let of_stage = |(nth, program): (usize, &Option<Program>)| {
            let way = program.as_ref().map(|program| self.given(nth, program)).transpose()?;
            Ok(way.map(|way| self.least_of(nth, &way)))
        };
        self.known.fixed.iter().enumerate().map(of_stage).collect()
    }

    /// Lower bound on the seconds of a stage in any sequence: it need not fetch tiles that earlier stages may keep.
    fn least_of(&self, nth: usize, way: &StageWay) -> f64 {
        let name = |stay: &Stay| self.known.kernels[nth].inputs()[stay.input].name;
        self.seconds_of(nth, way, |stay| self.known.shared.before[nth].contains(&name(stay)))
    }

    /// Lower bound on the seconds of a stage in all rounds, if the tiles for which `is_kept` says that earlier stages
    /// keep them are not fetched. Tiles of unchanged inputs are fetched once.
    fn seconds_of(&self, nth: usize, way: &StageWay, is_kept: impl Fn(&Stay) -> bool) -> f64 {
        let around = &self.search.around;
        let is_unchanged =
            |stay: &Stay| self.known.shared.unchanged[nth].contains(&self.known.kernels[nth].inputs()[stay.input].name);
        let first = way.seconds_without(&is_kept);
        let next = way.seconds_without(|stay| is_kept(stay) || is_unchanged(stay));
        around.times(nth) * next + around.once(nth) * (first - next)
    }

    /// The one way of a stage with a given schedule.
    pub(super) fn given(&self, nth: usize, program: &Program) -> Result<StageWay, SearchError> {
        let (schedules, cost) = (vec![self.search.stages[nth].schedule.clone()], self.prices.of(program)?);
        let shardings = program.shardings().cloned().collect();
        let stays = Stay::all(program, &cost, &self.known.shared.with_any[nth]);
        let candidate = Candidate { schedules, parts: vec![Part { shardings, stays, ..Part::default() }], cost };
        Ok(StageWay { candidate, along: None, program: Ok(program.clone()).into() })
    }

    /// Adds the schedules of a stage with its loops along these axes.
    fn add(&mut self, nth: usize, mesh: &Mesh, along: &Along, ways: &mut Vec<StageWay>) -> Result<(), SearchError> {
        let kernel = self.known.kernels[nth];
        if let Some(program) = &self.known.fixed[nth] {
            ways.push(self.given(nth, program)?);
            return Ok(());
        }
        let room = self.memory.saturating_sub(self.besides[nth]);
        let mut found = Found::new(room, f64::INFINITY).sharing(&self.known.shared.with_any[nth]);
        let variant = Variant { mesh: mesh.clone(), along: along.clone(), panels: None };
        // Values that other kernels read and write are not skewed.
        let space = Space { kernel, homes: &self.known.homes[nth], rotates: false };
        found.add(&space, &variant, &self.prices)?;
        if self.known.bounds[nth].has_halos() {
            found.add_interior_first(&space, &variant, &self.prices)?;
        }
        self.is_short |= found.candidates.is_empty() && found.least.is_some();
        if let Some(failed) = found.failed {
            self.failed.get_or_insert(failed.into());
        }
        let way = |candidate| StageWay { candidate, along: Some(along.clone()), program: OnceCell::new() };
        ways.extend(found.candidates.into_iter().map(way));
        Ok(())
    }

    /// Tries all ways of the next stage after the chosen ones, fastest first.
    fn descend<'c>(
        &mut self,
        laid: &Laid,
        ways: &'c [Vec<StageWay>],
        least: &[f64],
        chosen: &mut Chosen<'c>,
    ) -> Result<(), SearchError> {
        let nth = chosen.ways.len();
        let Some(next) = ways.get(nth) else { return self.whole(laid, chosen) };
        let rest: f64 = least[nth + 1..].iter().sum();
        for way in next {
            if self.is_late() {
                self.cut(laid);
                break;
            }
            let (arrays, tiles, seconds) = (chosen.arrays.len(), chosen.tiles.len(), chosen.seconds);
            if seconds + self.least_of(nth, way) + rest >= self.seconds() {
                break;
            }
            self.append(nth, way, chosen)?;
            if chosen.seconds + rest < self.seconds() {
                self.descend(laid, ways, least, chosen)?;
            }
            chosen.ways.pop();
            chosen.arrays.truncate(arrays);
            chosen.tiles.truncate(tiles);
            chosen.seconds = seconds;
        }
        Ok(())
    }

    /// Appends a stage, with the moves that it needs, to the chosen ones.
    fn append<'c>(&mut self, nth: usize, way: &'c StageWay, chosen: &mut Chosen<'c>) -> Result<(), SearchError> {
        let stage = &self.search.stages[nth];
        let (output, inputs) = way.candidate.part().shardings.split_last().expect("a kernel has an output");
        let continued = stage.continued();
        for (value, wanted) in stage.inputs.iter().zip(inputs).chain(continued.iter().map(|value| (value, output))) {
            let mut places = chosen.arrays.iter().filter(|(name, _)| name == value).map(|(_, sharding)| *sharding);
            let home = places.clone().next();
            if places.any(|sharding| sharding == wanted) {
                continue;
            }
            if let Some(home) = home {
                chosen.seconds +=
                    self.moved(home, wanted, self.search.around.changes(&self.search.stages, nth, *value))?;
            }
            chosen.arrays.push((*value, wanted));
        }
        chosen.arrays.push((stage.output, output));
        for (value, next, times) in self.search.around.carried(nth) {
            // A round ends with the shardings that it began with.
            let places = |name: Name| chosen.arrays.iter().filter(move |(other, _)| *other == name);
            let (Some((_, home)), Some((_, left))) = (places(value).next(), places(next).next()) else { continue };
            if places(next).all(|(_, place)| place != home) {
                chosen.seconds += self.moved(left, home, times)?;
            }
        }
        let array = |stay: &Stay| (stage.inputs[stay.input], &inputs[stay.input]);
        chosen.seconds += self.seconds_of(nth, way, |stay| chosen.tiles.contains(&array(stay)));
        chosen.tiles.extend(way.candidate.part().stays.iter().map(array));
        chosen.ways.push(way);
        Ok(())
    }

    /// Seconds to redistribute an array from one sharding to another `times` times.
    fn moved(&mut self, source: &Sharding, target: &Sharding, times: f64) -> Result<f64, SearchError> {
        let key = [source.clone(), target.clone()];
        if times == 0.0 {
            return Ok(0.0);
        }
        if let Some(&seconds) = self.moves.get(&key) {
            return Ok(times * seconds);
        }
        // No program uses a redistribution that is not possible.
        let seconds = match redistribution(source, target, self.known.kernels[0].dtype()) {
            Ok(program) => self.prices.of(&program)?.seconds(),
            Err(_) => f64::INFINITY,
        };
        self.moves.insert(key, seconds);
        Ok(times * seconds)
    }

    /// Builds the program of all stages, and keeps it if it fits, as the best if it is faster.
    fn whole(&mut self, laid: &Laid, chosen: &Chosen<'_>) -> Result<(), SearchError> {
        let Some(found) = self.together(&chosen.ways)? else { return Ok(()) };
        let (memory, seconds) = (found.candidate.cost.memory, found.candidate.cost.seconds());
        if memory > self.memory {
            // Finer panels of the same stages may fit together.
            self.is_short = true;
            self.open.leave(laid.least());
            return Ok(());
        }
        let slower = if seconds < self.seconds() { self.best.replace(found) } else { Some(found) };
        slower.into_iter().for_each(|slower| slower.candidate.keep(&mut self.whole));
        Ok(())
    }

    /// The program of these stages, with its price; `None` if one of them is not legal.
    pub(super) fn together(&mut self, ways: &[&StageWay]) -> Result<Option<Best>, SearchError> {
        let programs = match ways.iter().map(|way| way.program()).collect::<Result<Vec<_>, _>>() {
            Ok(programs) => programs,
            Err(failed) => {
                self.failed.get_or_insert(failed.into());
                return Ok(None);
            }
        };
        let program = self.search.around.sequence(&self.search.stages, &programs).build()?;
        let candidate = Candidate {
            schedules: ways.iter().map(|way| way.candidate.schedule().clone()).collect(),
            parts: ways.iter().map(|way| way.candidate.part().clone()).collect(),
            cost: self.prices.of(&program)?,
        };
        let along = ways.iter().map(|way| way.along.clone()).collect();
        Ok(Some(Best { program, stages: programs.into_iter().cloned().collect(), candidate, along }))
    }

    /// Pipelines the panels of the best program's stages, one stage after the other, if that is clearly faster.
    /// Shardings stay the same. Stages that share a tile with this one may then have to fetch it, or no longer need to
    /// fetch their own, so the whole program is priced: all candidates that could be clearly faster, whichever tiles
    /// others keep, are tried.
    pub(super) fn pipeline(&mut self) -> Result<(), SearchError> {
        for nth in 0..self.known.kernels.len() {
            let Some(Best { candidate, stages, .. }) = &self.best else { return Ok(()) };
            let (whole, seconds) = (candidate.cost.seconds(), self.prices.of(&stages[nth])?.seconds());
            let times = self.search.around.times(nth);
            if times == 0.0 {
                continue;
            }
            let Some((space_homes, variant)) = self.as_it_lies(nth) else { continue };
            if !self.known.bounds[nth].sends() {
                return Ok(());
            }
            let shared = &self.known.shared.with_any[nth];
            let (bounds, others, below) = match shared.is_empty() {
                true => (&self.known.bounds[nth], whole - times * seconds, seconds),
                false => {
                    let others = self.least_besides(nth)?;
                    (&self.known.least[nth], others, (whole - others / (1.0 - NOISE)) / times)
                }
            };
            if self.is_late() {
                let ahead = bounds.ahead(&variant.grid());
                ahead.first().into_iter().for_each(|(bound, _)| self.open.leave(others + times * bound));
                continue;
            }
            let space = Space { kernel: self.known.kernels[nth], homes: &space_homes, rotates: false };
            let (mut found, mut left) = (Found::new(self.memory, below).sharing(shared), MOST_AHEAD);
            found.add_ahead(&space, &variant, bounds, &self.prices, &mut left)?;
            found.cut.least().into_iter().for_each(|bound| self.open.leave(others + times * bound));
            self.improve(nth, found.candidates)?;
        }
        Ok(())
    }

    /// Lower bound on the seconds of the best program without a stage, whichever tiles that stage keeps for others.
    fn least_besides(&self, nth: usize) -> Result<f64, SearchError> {
        let Some(Best { candidate, stages, .. }) = &self.best else { return Ok(0.0) };
        let is_move = |part: &CostedPart| matches!(part, CostedPart::Move(_));
        let moves = candidate.cost.parts.iter().filter(|part| is_move(&part.part));
        let mut least: f64 = moves.map(|part| part.seconds).sum();
        for other in (0..stages.len()).filter(|&other| other != nth) {
            let cost = self.prices.of(&stages[other])?;
            let stays = [&self.known.shared.before[other][..], &self.known.shared.unchanged[other]].concat();
            let stays = Stay::all(&stages[other], &cost, &stays);
            least += self.search.around.times(other) * seconds_without(&cost, stays.iter());
        }
        Ok(least)
    }

    /// The shardings of a stage's arrays in the best program, and the mesh with its loops; `None` if its schedule is
    /// given.
    pub(super) fn as_it_lies(&self, nth: usize) -> Option<(Homes, Variant)> {
        let Best { program, candidate, along, .. } = self.best.as_ref()?;
        let homes = candidate.schedules[nth].steps().filter_map(Step::sharding).collect();
        Some((homes, Variant { mesh: program.mesh().clone(), along: along[nth].clone()?, panels: None }))
    }

    /// Replaces a stage of the best program by the first of these candidates that is better, fastest first; by the best
    /// of them if tiles of other stages matter.
    pub(super) fn improve(&mut self, nth: usize, mut candidates: Vec<Candidate>) -> Result<(), SearchError> {
        candidates.sort_by(Candidate::order);
        for candidate in candidates {
            if self.try_stage(nth, candidate)? && self.known.shared.with_any[nth].is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Replaces the schedule of a stage in the best program, if the program is then faster and fits into the memory;
    /// returns whether it did.
    fn try_stage(&mut self, nth: usize, mut other: Candidate) -> Result<bool, SearchError> {
        let Some(best) = &mut self.best else { return Ok(false) };
        let Ok(stage) = other.schedule().lower() else { return Ok(false) };
        let mut stages: Vec<&Program> = best.stages.iter().collect();
        stages[nth] = &stage;
        let program = self.search.around.sequence(&self.search.stages, &stages).build()?;
        let cost = self.prices.of(&program)?;
        let is_better = cost.memory <= self.memory && cost.seconds() < best.candidate.cost.seconds();
        if is_better {
            let mut candidate = Candidate { cost, ..best.candidate.clone() };
            candidate.schedules[nth] = other.schedules.remove(0);
            candidate.parts[nth].form = other.parts.remove(0).form;
            std::mem::replace(&mut best.candidate, candidate).keep(&mut self.whole);
            best.program = program;
            best.stages[nth] = stage;
        }
        Ok(is_better)
    }
}

/// For each stage, a lower bound on the bytes that a rank holds on average, while it runs, of values that it neither
/// reads nor writes: inputs of the program, and values that are read later.
fn besides(stages: &[Stage], around: &Around, kernels: &[&Kernel], ranks: u64) -> Vec<u64> {
    let mut bytes: HashMap<Name, u64> = HashMap::new();
    let (mut writer, mut reader): (HashMap<Name, usize>, HashMap<Name, usize>) = (HashMap::new(), HashMap::new());
    for (nth, (stage, kernel)) in stages.iter().zip(kernels).enumerate() {
        for (tensor, value) in kernel.tensors().zip(stage.values()) {
            let elements = tensor.shape.iter().fold(1u64, |all, &extent| all.saturating_mul(extent as u64));
            bytes.entry(value).or_insert(elements.saturating_mul(kernel.dtype().size() as u64) / ranks);
        }
        writer.entry(stage.output).or_insert(nth);
        reader.extend(stage.inputs.iter().copied().chain(stage.continued()).map(|value| (value, nth)));
    }
    let mut held = vec![0u64; stages.len()];
    for (value, bytes) in bytes {
        // From the stage after its first writer to its last reader; inputs always.
        let stages_of = match (around.is_given(stages, value), writer.get(&value), reader.get(&value)) {
            (true, ..) => 0..stages.len(),
            (false, Some(writer), Some(reader)) => writer + 1..reader + 1,
            _ => continue,
        };
        for nth in stages_of.filter(|nth| stages[*nth].values().all(|other| other != value)) {
            held[nth] = held[nth].saturating_add(bytes);
        }
    }
    held
}

/// Keeps the Pareto-optimal ways in time and memory, among those with the same shardings and the same tiles for other
/// stages; fastest first.
fn undominated(ways: &mut Vec<StageWay>) {
    ways.sort_by(|one, other| one.candidate.order(&other.candidate));
    let mut kept: Vec<StageWay> = Vec::new();
    for way in ways.drain(..) {
        if !kept.iter().any(|other| other.candidate.serves(&way.candidate)) {
            kept.push(way);
        }
    }
    *ways = kept;
}
