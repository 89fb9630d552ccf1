//! The state of a search: schedules that were priced, and which others are still of interest. Tests:
//! `search/tests/it/limits.rs`.

use crate::choice::{Candidate, Form, Open, Part};
use crate::error::SearchError;
use crate::grid::{self, Bounds, MOST_PANELS};
use crate::limits::is_over;
use crate::space::Space;
use crate::stay::{Stay, memory_without, seconds_without};
use crate::variant::{Panels, Variant};
use polyshard_dsl::Step;
use polyshard_layout::Name;
use polyshard_planner::cost::Prices;
use polyshard_polyhedral::{LowerError, Schedule};
use polyshard_program::{Direction, NestView, Priced, Program, TransferView, Unproved};
use std::time::Instant;

/// The fraction of the time that `pipeline` must save to be worth its buffers and messages: times of one program vary
/// as much from run to run.
pub(crate) const NOISE: f64 = 0.03;

/// The state of a search.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) memory: u64,
    /// Whether loops must not run in panels.
    pub(crate) without_panels: bool,
    /// Seconds of the best schedule of another search.
    below: f64,
    pub(crate) candidates: Vec<Candidate>,
    /// The minimum memory of the schedules priced so far.
    pub(crate) least: Option<u64>,
    /// Why the first illegal schedule is not legal.
    pub(crate) failed: Option<LowerError>,
    /// The panels that were left out by a limit on time or on schedules priced.
    pub(crate) cut: Open,
    /// If requested, the schedules that need the least memory for each set of shardings, among those that do not fit.
    pub(crate) smallest: Option<Vec<Candidate>>,
    /// The inputs whose tiles other stages of a sequence, or later rounds, may reuse.
    shared: Vec<Name>,
    /// When the search ends if nothing fits into the memory yet, and when it ends otherwise.
    pub(crate) until: [Option<Instant>; 2],
    /// Whether a schedule was examined, so that the search may end.
    pub(crate) may_end: bool,
    /// Whether the search was ended and left schedules out.
    pub(crate) is_cut: bool,
}

impl Found {
    /// An empty state; schedules that take `below` seconds or more are not wanted.
    pub(crate) fn new(memory: u64, below: f64) -> Self {
        Self { memory, below, ..Self::default() }
    }

    /// An empty state that keeps only the schedules that need the least memory for their shardings.
    pub(crate) fn smallest() -> Self {
        Self { smallest: Some(Vec::new()), ..Self::new(0, f64::INFINITY) }
    }

    /// Makes tiles of these inputs, which other stages may keep, count for nothing when schedules are pruned.
    pub(crate) fn sharing(self, shared: &[Name]) -> Self {
        Self { shared: shared.to_vec(), ..self }
    }

    /// The seconds of the `n`-th fastest, counted from 1; of the fastest for 0.
    pub(crate) fn nth(&self, n: usize) -> Option<f64> {
        let mut seconds: Vec<f64> = self.candidates.iter().map(|candidate| candidate.cost.seconds()).collect();
        if seconds.len() < n.max(1) {
            return None;
        }
        Some(*seconds.select_nth_unstable_by(n.max(1) - 1, f64::total_cmp).1)
    }

    /// Schedules that take this many seconds or more are of no interest: `schedules` others (at least one), or the best
    /// of another search, are as fast.
    pub(crate) fn wanted(&self, schedules: usize) -> f64 {
        self.nth(schedules).unwrap_or(f64::INFINITY).min(self.below)
    }

    /// Whether the time limit is over.
    pub(crate) fn is_late(&self) -> bool {
        is_over(self.until[usize::from(!self.candidates.is_empty())])
    }

    /// Sorts the candidates and returns the proved program of the best. A candidate that the proof shows to be more
    /// expensive, or not to be legal, gives way to the next.
    pub(crate) fn proved(&mut self, prices: &Prices<'_>) -> Result<Option<Program>, SearchError> {
        self.candidates.sort_by(Candidate::order);
        while let Some(best) = self.candidates.first_mut() {
            match best.schedule().lower() {
                Err(error) => {
                    self.failed.get_or_insert(error);
                    self.candidates.remove(0);
                }
                Ok(program) => {
                    let cost = prices.of(&program)?;
                    if cost == best.cost {
                        return Ok(Some(program));
                    }
                    let fits = cost.memory <= self.memory;
                    best.cost = cost;
                    if !fits {
                        self.candidates.remove(0);
                    }
                    self.candidates.sort_by(Candidate::order);
                }
            }
        }
        Ok(None)
    }

    /// Prices the schedules with these loops on this mesh: as they are, and in panels.
    pub(crate) fn add(&mut self, space: &Space<'_>, whole: &Variant, prices: &Prices<'_>) -> Result<(), SearchError> {
        self.may_end |= self.least.is_some();
        if self.without_panels {
            return self.price(space, whole, prices).map(drop);
        }
        let kernel = space.kernel;
        let grid = whole.grid();
        let [summed, others] = grid::serial(kernel, &grid);
        let extent = |var: usize| kernel.vars()[var].extent.div_ceil(grid[var]);
        let in_panels = |panels: &Panels| Variant { panels: Some(panels.clone()), ..whole.clone() };
        let mut panels = Vec::new();
        if let Some(&var) = summed.first() {
            let owned = space.owned_panels(&grid, var);
            if owned > 1 && owned <= extent(var) {
                panels.push(Panels::new(var, owned));
                panels.extend(space.rotations(whole, var, owned));
            }
        }
        let mut fits = self.price(space, whole, prices)?;
        for panels in &panels {
            fits |= self.price(space, &in_panels(panels), prices)?;
        }
        if fits {
            return Ok(());
        }
        // More panels, or parts of panels, only if the memory requires it: along the longest summed loop, or along
        // others.
        for &var in summed.first().into_iter().chain(&others) {
            let owned = space.owned_panels(&grid, var).max(1);
            for mut panels in [vec![Panels::new(var, 2 * owned)], space.rotations(whole, var, owned)].concat() {
                let mut fits = false;
                while !fits && panels.count * panels.within <= extent(var).min(MOST_PANELS) {
                    fits = self.price(space, &in_panels(&panels), prices)?;
                    panels = panels.finer();
                }
            }
        }
        Ok(())
    }

    /// Schedules that take less than this many seconds are clearly faster than all so far.
    pub(crate) fn clearly(&self) -> f64 {
        // Tiles kept by other stages may make a slower schedule the faster one.
        let is_shared = !self.shared.is_empty() && self.below < f64::INFINITY;
        let so_far = if is_shared { self.below } else { self.wanted(1) };
        if so_far < f64::INFINITY { (1.0 - NOISE) * so_far } else { 0.0 }
    }

    /// Prices the pipelined schedules with these loops on this mesh, in which panels are fetched while others are
    /// computed. It tries finer panels as long as these are clearly faster, or nothing fits into the memory, and keeps
    /// schedules that are clearly faster than all so far. At most `left` more are priced.
    pub(crate) fn add_ahead(
        &mut self,
        space: &Space<'_>,
        whole: &Variant,
        bounds: &Bounds<'_>,
        prices: &Prices<'_>,
        left: &mut usize,
    ) -> Result<(), SearchError> {
        let grid = whole.grid();
        for (bound, var) in bounds.ahead(&grid) {
            let (owned, extent) = (space.owned_panels(&grid, var), bounds.extents(&grid)[var]);
            // Panels that no other rank reads do not move.
            let starts = if owned > 1 { vec![Panels::new(var, owned)] } else { Vec::new() };
            for start in space.rotations(whole, var, owned).into_iter().rev().chain(starts) {
                let mut panels = Panels { ahead: true, ..start };
                let mut last = f64::INFINITY;
                while bound < self.clearly() && panels.count * panels.within <= extent.min(MOST_PANELS) {
                    if *left == 0 {
                        self.cut.leave(bound);
                        break;
                    }
                    *left -= 1;
                    let variant = Variant { panels: Some(panels.clone()), ..whole.clone() };
                    let candidate = self.candidate(space, &variant, prices)?;
                    if self.is_cut {
                        self.cut.leave(bound);
                        break;
                    }
                    let least = |one: &Candidate| seconds_without(&one.cost, one.part().stays.iter());
                    let seconds = candidate.as_ref().map_or(f64::INFINITY, least);
                    if seconds < self.clearly() {
                        candidate.into_iter().for_each(|candidate| candidate.keep(&mut self.candidates));
                    }
                    if seconds > (1.0 - NOISE) * last {
                        break;
                    }
                    last = seconds;
                    panels = panels.finer();
                }
            }
        }
        Ok(())
    }

    /// Prices the schedule with these loops on this mesh that computes the interior while halos are in flight, and
    /// keeps it if it is clearly faster than all so far. Adds nothing if no input is fetched as a halo, or the leaf
    /// cannot be split.
    pub(crate) fn add_interior_first(
        &mut self,
        space: &Space<'_>,
        whole: &Variant,
        prices: &Prices<'_>,
    ) -> Result<(), SearchError> {
        let schedule = space.schedule(whole);
        let Ok(program) = schedule.unproved() else { return Ok(()) };
        let halos = halos(&program.priced().nest());
        if halos.is_empty() {
            return Ok(());
        }
        let schedule =
            halos.into_iter().fold(schedule, |schedule, tensor| schedule.apply(Step::InteriorFirst { tensor }));
        let Ok(program) = schedule.unproved() else { return Ok(()) };
        let candidate = self.priced(space, whole, schedule, &program, prices)?;
        let wanted = self.clearly();
        if let Some(mut candidate) = candidate.filter(|candidate| candidate.cost.seconds() < wanted) {
            candidate.parts[0].form.interior_first = true;
            candidate.keep(&mut self.candidates);
        }
        Ok(())
    }

    /// Prices a schedule, keeps it if it fits into the memory, and returns whether it does.
    fn price(&mut self, space: &Space<'_>, variant: &Variant, prices: &Prices<'_>) -> Result<bool, SearchError> {
        let candidate = self.candidate(space, variant, prices)?;
        let fits = candidate.as_ref().is_some_and(|candidate| candidate.cost.memory <= self.memory);
        candidate.into_iter().for_each(|candidate| candidate.keep(&mut self.candidates));
        Ok(fits)
    }

    /// A schedule with its price; `None` if it is illegal, does not fit into the memory even if other stages keep all
    /// tiles that they can share, or the time is over.
    fn candidate(
        &mut self,
        space: &Space<'_>,
        variant: &Variant,
        prices: &Prices<'_>,
    ) -> Result<Option<Candidate>, SearchError> {
        self.is_cut |= self.may_end && self.is_late();
        if self.is_cut {
            return Ok(None);
        }
        let schedule = space.schedule(variant);
        match schedule.unproved() {
            Ok(program) => self.priced(space, variant, schedule, &program, prices),
            Err(error) => {
                self.failed.get_or_insert(error);
                Ok(None)
            }
        }
    }

    /// The schedule with its price, if it fits into the memory when other stages keep all tiles that it can share.
    fn priced(
        &mut self,
        space: &Space<'_>,
        variant: &Variant,
        schedule: Schedule,
        program: &Unproved,
        prices: &Prices<'_>,
    ) -> Result<Option<Candidate>, SearchError> {
        let cost = prices.of(program)?;
        self.least = Some(self.least.map_or(cost.memory, |least| least.min(cost.memory)));
        let stays = Stay::all(program.priced(), &cost, &self.shared);
        let fits = memory_without(&cost, stays.iter()) <= self.memory;
        if !fits && self.smallest.is_none() {
            return Ok(None);
        }
        let vars = || space.kernel.vars().iter().map(|var| var.name);
        let (grid, axes) = (vars().zip(variant.grid()).collect(), vars().zip(variant.axes()).collect());
        let shardings = program.shardings().cloned().collect();
        let parts = vec![Part { grid, axes, form: Form::of(variant), shardings, stays }];
        let candidate = Candidate { schedules: vec![schedule], parts, cost };
        if fits {
            return Ok(Some(candidate));
        }
        if let Some(smallest) = &mut self.smallest {
            smaller(smallest, candidate, |candidate| candidate);
        }
        Ok(None)
    }
}

/// Adds a candidate if it is one of the smallest: among those with the same shardings and the same tiles for other
/// stages, only the smallest is kept.
pub(crate) fn smaller<T>(all: &mut Vec<T>, new: T, candidate: impl Fn(&T) -> &Candidate) {
    if !all.iter().any(|other| candidate(other).serves(candidate(&new))) {
        all.retain(|other| !candidate(&new).serves(candidate(other)));
        all.push(new);
    }
}

/// The inputs that are fetched as halos inside all loops, so that the interior of the leaf may be computed first.
fn halos(nest: &NestView<'_>) -> Vec<Name> {
    let is_halo = |transfer: &&TransferView<'_>| {
        let is_input = transfer.direction == Direction::In;
        is_input && transfer.level.0 == nest.loops.len() && transfer.route.halo().is_some()
    };
    let mut halos: Vec<_> =
        nest.transfers.iter().filter(is_halo).map(|transfer| nest.tensor_name(transfer.tensor)).collect();
    halos.dedup();
    halos
}
