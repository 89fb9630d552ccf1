//! What is known in the course of a search: schedules that were priced, and what is still of interest.
//! Tests: `search/tests/it/limits.rs`.

use crate::choice::{Candidate, Form, Open};
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
use polyshard_program::{Direction, Leg, Nest, Priced, Program, Transfer, Unproved};
use std::time::Instant;

/// The part of the time that `pipeline` must save to be worth its buffers and messages: times of one program differ by as much from run to run.
pub(crate) const NOISE: f64 = 0.03;

/// What is known so far.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) memory: u64,
    /// Seconds below which another search has found something.
    below: f64,
    pub(crate) candidates: Vec<Candidate>,
    /// The least memory of any.
    pub(crate) least: Option<u64>,
    /// Why the first one failed that is not legal.
    pub(crate) failed: Option<LowerError>,
    /// The panels that were left out because enough had been priced.
    pub(crate) cut: Open,
    /// Of schedules that do not fit into the memory, those that need the least for where their arrays lie, if they are asked for.
    pub(crate) smallest: Option<Vec<Candidate>>,
    /// The inputs that other stages of a sequence read, too.
    shared: Vec<Name>,
    /// When it ends while nothing fits into the memory, and when at last.
    pub(crate) until: [Option<Instant>; 2],
    /// Whether something was looked at, so that it may end.
    pub(crate) may_end: bool,
    /// Whether it has ended, and something was left out.
    pub(crate) is_cut: bool,
}

impl Found {
    /// Nothing is known, but that what takes `below` seconds or more is not wanted.
    pub(crate) fn new(memory: u64, below: f64) -> Self {
        Self { memory, below, ..Self::default() }
    }

    /// No schedule is of interest but those that need the least memory for where their arrays lie.
    pub(crate) fn smallest() -> Self {
        Self { smallest: Some(Vec::new()), ..Self::new(0, f64::INFINITY) }
    }

    /// As this, where other stages read these inputs, too: what may be in their tiles counts for nothing.
    pub(crate) fn sharing(self, shared: &[Name]) -> Self {
        Self { shared: shared.to_vec(), ..self }
    }

    /// Keeps a schedule; of those that are alike, the first by its text.
    fn keep(&mut self, candidate: Candidate) {
        match self.candidates.iter_mut().find(|other| other.is_alike(&candidate)) {
            Some(other) if candidate.order(other).is_lt() => *other = candidate,
            Some(_) => {}
            None => self.candidates.push(candidate),
        }
    }

    /// Keeps a schedule that does not fit, if it is one of the smallest.
    fn keep_small(&mut self, candidate: Candidate) {
        let Some(smallest) = &mut self.smallest else { return };
        smaller(smallest, candidate, |candidate| candidate);
    }

    /// The seconds of the n-th fastest, from 1; of the fastest for 0.
    pub(crate) fn nth(&self, n: usize) -> Option<f64> {
        let mut seconds: Vec<f64> = self.candidates.iter().map(|candidate| candidate.cost.seconds()).collect();
        if seconds.len() < n.max(1) {
            return None;
        }
        Some(*seconds.select_nth_unstable_by(n.max(1) - 1, f64::total_cmp).1)
    }

    /// The seconds from which a schedule is of no interest: this many are as fast, counted from 1, or what another search has found is.
    pub(crate) fn wanted(&self, schedules: usize) -> f64 {
        self.nth(schedules).unwrap_or(f64::INFINITY).min(self.below)
    }

    /// Whether its time is over.
    pub(crate) fn is_late(&self) -> bool {
        is_over(self.until[usize::from(!self.candidates.is_empty())])
    }

    /// Sorts what was found, and returns the program of the best, which is proved. What a proof shows to be dearer, or not to
    /// be legal, makes place for the next.
    pub(crate) fn proved(&mut self, prices: &Prices<'_>) -> Result<Option<Program>, SearchError> {
        self.candidates.sort_by(Candidate::order);
        while let Some(best) = self.candidates.first_mut() {
            match best.schedule.lower() {
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
        // More panels, or parts of them, only where the memory wants it: of what is read, or of what is written.
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

    /// The seconds below which a schedule is clearly faster than all so far.
    pub(crate) fn clearly(&self) -> f64 {
        // What others keep may make a slower one the faster.
        let is_shared = !self.shared.is_empty() && self.below < f64::INFINITY;
        let so_far = if is_shared { self.below } else { self.wanted(1) };
        if so_far < f64::INFINITY { (1.0 - NOISE) * so_far } else { 0.0 }
    }

    /// Prices the schedules with these loops on this mesh in which panels come while others are computed, finer ones as long as these are
    /// clearly faster, or nothing fits into the memory; it keeps those that are clearly faster than all so far. `left` are left to be priced.
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
            // What nobody else reads does not move.
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
                    let least = |one: &Candidate| seconds_without(&one.cost, one.stays.iter());
                    let seconds = candidate.as_ref().map_or(f64::INFINITY, least);
                    if seconds < self.clearly() {
                        candidate.into_iter().for_each(|candidate| self.keep(candidate));
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

    /// Prices the schedule with these loops on this mesh in which halos come while the interior of what reads them is computed, and keeps it if
    /// it is clearly faster than all so far. Nothing is added where nothing comes as a halo, or the leaf cannot be cut.
    pub(crate) fn add_interior_first(
        &mut self,
        space: &Space<'_>,
        whole: &Variant,
        prices: &Prices<'_>,
    ) -> Result<(), SearchError> {
        let schedule = space.schedule(whole);
        let Ok(program) = schedule.unproved() else { return Ok(()) };
        let halos = halos(program.priced().nest());
        if halos.is_empty() {
            return Ok(());
        }
        let schedule =
            halos.into_iter().fold(schedule, |schedule, tensor| schedule.apply(Step::InteriorFirst { tensor }));
        let Ok(program) = schedule.unproved() else { return Ok(()) };
        let candidate = self.priced(space, whole, schedule, &program, prices)?;
        let wanted = self.clearly();
        if let Some(mut candidate) = candidate.filter(|candidate| candidate.cost.seconds() < wanted) {
            candidate.form.interior_first = true;
            self.keep(candidate);
        }
        Ok(())
    }

    /// Prices a schedule, keeps it if it fits into the memory, and returns whether it does.
    fn price(&mut self, space: &Space<'_>, variant: &Variant, prices: &Prices<'_>) -> Result<bool, SearchError> {
        let candidate = self.candidate(space, variant, prices)?;
        let fits = candidate.as_ref().is_some_and(|candidate| candidate.cost.memory <= self.memory);
        candidate.into_iter().for_each(|candidate| self.keep(candidate));
        Ok(fits)
    }

    /// A schedule with its price; none if it is illegal, does not fit into the memory even when other stages hold as little as they
    /// can, or the time is over.
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

    /// The schedule with its price, if it fits into the memory when other stages hold as little as they can.
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
        let grid = space.kernel.vars().iter().zip(variant.grid()).map(|(var, ranks)| (var.name, ranks)).collect();
        let shardings = program.shardings().cloned().collect();
        let words = cost.received / space.kernel.dtype().size() as u64;
        let candidate = Candidate { grid, form: Form::of(variant), schedule, shardings, words, cost, stays };
        if fits {
            return Ok(Some(candidate));
        }
        self.keep_small(candidate);
        Ok(None)
    }
}

/// Adds one to the smallest of their kind, if it is one: of those on the same arrays that keep the same for other stages, one is left.
pub(crate) fn smaller<T>(all: &mut Vec<T>, new: T, candidate: impl Fn(&T) -> &Candidate) {
    let serves = |one: &Candidate, other: &Candidate| {
        one.shardings == other.shardings && one.cost.memory <= other.cost.memory && other.stays_alike(one)
    };
    if all.iter().any(|other| serves(candidate(other), candidate(&new))) {
        return;
    }
    all.retain(|other| !serves(candidate(&new), candidate(other)));
    all.push(new);
}

/// The inputs that come as halos inside of all loops, where the interior of the leaf may be computed first.
fn halos(nest: &Nest) -> Vec<Name> {
    let is_halo = |transfer: &&Transfer| {
        let is_input = transfer.direction == Direction::In;
        is_input && transfer.level.0 == nest.loops.len() && matches!(transfer.route.legs[..], [Leg::Halo { .. }])
    };
    let mut halos: Vec<_> =
        nest.transfers.iter().filter(is_halo).map(|transfer| nest.tensor_name(transfer.tensor)).collect();
    halos.dedup();
    halos
}
