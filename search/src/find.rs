//! The search: grids in the order of their bounds, until no other can win. Tests: `search/tests/it/choices.rs`.

mod enough;

use crate::choice::{Choice, Open};
use crate::error::{Enough, SearchError};
use crate::found::Found;
use crate::given::{self, permutations};
use crate::grid::{self, Bounds};
use crate::limits::{Limits, is_over, limited};
use crate::sequence::extents;
use crate::space::Space;
use crate::stages::{Around, Stage};
use crate::variant::{Grid, Variant, Ways, axis_names};
use polyshard_dsl::{Clause, Statement};
use polyshard_layout::{Mesh, Name};
use polyshard_machine::Machine;
use polyshard_planner::cost::Prices;
use polyshard_planner::placement::PlacedMesh;
use polyshard_polyhedral::Schedule;
use polyshard_program::Kernel;
use std::cmp::Ordering;
use std::time::Instant;

/// A search for the fastest schedule of a kernel; see [`Choose::auto`](crate::Choose::auto).
///
/// ```
/// use polyshard::prelude::*;
/// use std::time::Duration;
/// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
/// let matmul = kernel! {
///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// let search = matmul.auto(4, &machine).all_ranks().memory(256 << 20).at_most(Duration::from_secs(60));
/// let choice = search.find()?;
/// assert!(choice.best().ranks() == 4 && choice.cost().memory <= 256 << 20);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a search is a value: run it with `find()`"]
pub struct Search<'a> {
    schedule: Schedule,
    ranks: usize,
    machine: &'a Machine,
    limits: Limits,
    all_ranks: bool,
    at_least: usize,
    mesh: Option<Mesh>,
    /// The devices of the mesh, if they are not `0..`.
    placed: Option<&'a PlacedMesh>,
    without_panels: bool,
    homes: Vec<(Name, Vec<Clause>)>,
}

/// The maximum number of pipelined schedules that are priced, times their ranks, since pricing takes longer with more
/// ranks; and the minimum number that are priced in any case.
const MOST_AHEAD: usize = 1 << 13;
const FEWEST_AHEAD: usize = 16;

/// The number of grids, fastest bounds first, that are always considered for schedules that need little memory, even
/// after the time limit.
const FEWEST_SMALL: usize = 1 << 10;

impl<'a> Search<'a> {
    pub(crate) fn new(schedule: Schedule, ranks: usize, machine: &'a Machine) -> Self {
        Self {
            schedule,
            ranks,
            machine,
            limits: Limits::default(),
            all_ranks: false,
            at_least: 1,
            mesh: None,
            placed: None,
            without_panels: false,
            homes: Vec::new(),
        }
    }

    limited!();

    /// Leaves no rank idle.
    pub fn all_ranks(self) -> Self {
        Self { all_ranks: true, ..self }
    }

    /// Prices at least this many schedules, if there are as many, including some that cannot be fastest: for
    /// [`Choice::others`]. Of those with `pipeline`, it lists the ones that were more than 3 % faster than all before
    /// them.
    pub fn at_least(self, schedules: usize) -> Self {
        Self { at_least: schedules, ..self }
    }

    /// Lays loops over this mesh only: any loop over each of its axes, possibly one loop over several.
    pub fn on(self, mesh: &Mesh) -> Self {
        Self { mesh: Some(mesh.clone()), placed: None, ..self }
    }

    /// As [`on`](Self::on), for a mesh that is placed on a machine, whose prices then hold for its ranks.
    ///
    /// ```
    /// use polyshard::planner::placement::{ParallelismMatrix, PlacedMesh};
    /// use polyshard::prelude::*;
    /// let (mesh, machine) = (Mesh::new([("x", 4), ("y", 4)]), Machine::preset("a100")?.with_counts(&[4, 4])?);
    /// let product = kernel! {
    ///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let [m, k, n] = ["m", "k", "n"].map(Var::new);
    /// let seconds = |rows: [[usize; 2]; 2]| -> polyshard::Result<f64> {
    ///     let placed = PlacedMesh::new(&mesh, &machine, &ParallelismMatrix::new(rows.map(Vec::from).into())?)?;
    ///     let search = product.auto(16, &machine).on_placed(&placed).shard("A", [m.at("x")]);
    ///     Ok(search.shard("B", [k.at("x"), n.at("y")]).shard("C", [m.at("x"), n.at("y")]).find()?.cost().seconds())
    /// };
    /// // B is gathered along x, inside of nodes or across them.
    /// assert!(seconds([[1, 4], [4, 1]])? < seconds([[4, 1], [1, 4]])?);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    pub fn on_placed(self, placed: &'a PlacedMesh) -> Self {
        let (mesh, machine) = (Some(placed.mesh().clone()), placed.machine());
        Self { mesh, machine, ranks: placed.ranks().len(), placed: Some(placed), ..self }
    }

    /// Considers no panels: a rank fetches all that it reads before it computes, and writes its results back afterwards.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
    /// let matmul = kernel! {
    ///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// assert_eq!(matmul.auto(4, &machine).without_panels().find()?.best().steps(), 1);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    pub fn without_panels(self) -> Self {
        Self { without_panels: true, ..self }
    }

    /// Fixes how a tensor is sharded, as [`Schedule::shard`] does, over the mesh of [`on`](Self::on), or else with the
    /// best extents of these axes. All other shardings are chosen.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
    /// let (mesh, k) = (Mesh::new([("x", 4)]), Var::new("k"));
    /// let product = kernel! {
    ///     fn matmul(A: [f32; 256, 65536], B: [f32; 65536, 256]) -> C: [f32; 256, 256] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let choice = product.auto(4, &machine).on(&mesh).shard("A", [k.at("x")]).shard("B", [k.at("x")]).find()?;
    /// assert_eq!(choice.best().grid()[2], ("k".into(), 4)); // each rank multiplies what it has, and sums meet
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    pub fn shard(mut self, tensor: impl Into<Name>, clauses: impl IntoIterator<Item = Clause>) -> Self {
        self.homes.push((tensor.into(), clauses.into_iter().collect()));
        self
    }

    /// Lets the search choose how a tensor is sharded, as it does by default: in even shares, each element on one rank.
    ///
    /// The cost of a schedule does not include distributing its inputs. An input that starts on all ranks never moves:
    /// if that were free, it would be chosen wherever the memory allows, and the predicted traffic would be less than
    /// necessary. So free tensors start in one copy, as in [`lower_bound`](Kernel::lower_bound). For an array that does
    /// start on all ranks, call [`shard`](Self::shard) without clauses.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
    /// let product = kernel! {
    ///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let replicated = product.auto(4, &machine).on(&Mesh::new([("x", 4)])).shard("B", []);
    /// assert_eq!(replicated.find()?.cost().received, 0);
    /// let free = replicated.free("B").find()?;
    /// assert!(free.cost().received > 0 && free.program().shardings().all(|sharding| sharding.copies() == [1, 1]));
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    pub fn free(mut self, tensor: impl Into<Name>) -> Self {
        let tensor = tensor.into();
        self.homes.retain(|(other, _)| *other != tensor);
        self
    }

    /// Searches.
    ///
    /// The same kernel, machine and number of ranks give the same schedule, unless a time limit ends it.
    ///
    /// # Errors
    /// [`SearchError::NoRanks`]; [`SearchError::NoGrid`] if no rank may be idle and no grid has exactly that many;
    /// [`SearchError::TooMany`] if there are too many loops and ranks to compare all grids; [`SearchError::Lower`]
    /// if the schedule has steps other than `shard`; [`SearchError::Memory`] if no schedule fits into the memory, with the ranks
    /// that would be enough; [`SearchError::NoMeshOf`], [`SearchError::Homes`] or [`SearchError::NoTensor`] if a
    /// sharding has too many axes without a mesh, is given twice for one tensor, or for an unknown tensor; [`SearchError::Home`] if no
    /// schedule is legal with the given shardings; [`SearchError::Mesh`] if the mesh has more ranks than there are;
    /// [`SearchError::Lower`] if the kernel has a mistake, or no schedule is legal; [`SearchError::Cost`] if the
    /// machine has fewer devices, or lacks the device's speed.
    ///
    /// # Panics
    /// If it finds neither a schedule nor an error: a bug in polyshard.
    pub fn find(&self) -> Result<Choice, SearchError> {
        let start = Instant::now();
        if self.schedule.steps().next().is_some() {
            let homes = [self.schedule.kept()?, self.homes.clone()].concat();
            return Self { schedule: Schedule::new(self.schedule.kernel()?.clone()), homes, ..self.clone() }.find();
        }
        if self.mesh.is_none() && !self.homes.is_empty() {
            return self.on_all_meshes();
        }
        let found = self.find_below(f64::INFINITY, &mut Open::default());
        let found = found.map_err(|why| why.with_enough(|memory| self.enough(memory, start)))?;
        Ok(found.expect("nothing is too slow; this is a bug in polyshard"))
    }

    /// The best schedule on all meshes of the axes of the given shardings.
    fn on_all_meshes(&self) -> Result<Choice, SearchError> {
        let kernel = self.schedule.kernel()?;
        self.check(kernel)?;
        let start = Instant::now();
        let meshes = given::meshes(&self.homes, &axis_names(&[kernel]), &extents(self.ranks));
        let meshes: Vec<Mesh> =
            meshes.into_iter().filter(|mesh| !self.all_ranks || mesh.size() == self.ranks).collect();
        let (mut best, mut failed, mut open): (Option<Choice>, Option<SearchError>, _) = (None, None, Open::default());
        for mesh in &meshes {
            let limits = self.limits.since(start);
            let below = best.as_ref().map_or(f64::INFINITY, |best| best.cost().seconds());
            match (Self { limits, ..self.clone() }).on(mesh).find_below(below, &mut open) {
                Ok(found) => best = found.or(best),
                Err(why) => failed = Some(failed.map_or(why.clone(), |first| SearchError::first_or_least(first, why))),
            }
        }
        match (best, failed) {
            (Some(best), _) => Ok(Choice { open, considered: meshes.len(), ..best }),
            (None, Some(failed)) => Err(failed),
            (None, None) => Err(SearchError::NoGrid { kernel: kernel.name().to_string(), ranks: self.ranks }),
        }
    }

    /// As [`find`](Self::find), for schedules that take fewer seconds than this; `None` if no schedule does. Schedules
    /// that it does not examine are left open.
    pub(crate) fn find_below(&self, seconds: f64, open: &mut Open) -> Result<Option<Choice>, SearchError> {
        let kernel = self.schedule.kernel()?;
        if self.ranks == 0 {
            return Err(SearchError::NoRanks);
        }
        self.check(kernel)?;
        let start = Instant::now();
        let memory = self.limits.memory.unwrap_or(self.machine.device().memory_capacity);
        let homes = self.homes.iter().map(|(tensor, _)| *tensor);
        let mut bounds = Bounds::new(kernel, self.machine, self.ranks, homes);
        if self.placed.is_some_and(|placed| !placed.ranks().iter().copied().eq(0..placed.ranks().len())) {
            bounds = bounds.of_devices_anywhere();
        }
        let name = || kernel.name().to_string();
        let too_many = || SearchError::TooMany { kernel: name(), loops: kernel.vars().len(), ranks: self.ranks };
        // Grids, each with a way to lay loops over the mesh if a mesh is given.
        let all: Vec<(Grid, Option<Variant>)> = match &self.mesh {
            Some(mesh) => {
                let all = Variant::all(mesh, kernel, Ways::All).ok_or_else(too_many)?;
                all.into_iter().map(|(grid, variant)| (grid, Some(variant))).collect()
            }
            None => grid::all(kernel, self.ranks).ok_or_else(too_many)?.into_iter().map(|grid| (grid, None)).collect(),
        };
        let mut grids: Vec<Bounded> = all
            .into_iter()
            .filter(|(grid, _)| !self.all_ranks || grid.iter().product::<usize>() == self.ranks)
            .map(|way| Bounded { least: bounds.least(&way.0), words: bounds.words(&way.0), way })
            .collect();
        grids.sort_by(|one, other| one.order(other, 0));
        let space = Space { kernel, homes: &self.homes, rotates: bounds.sends() };
        let prices = self.placed.map_or_else(|| Prices::new(self.machine), Prices::on);
        let mut found = Found::new(memory, seconds);
        found.without_panels = self.without_panels;
        let considered = grids.len();
        found.until = [1, 4].map(|quarters| self.limits.until(start, quarters));
        // If a sharding is given, no bound on the memory is known.
        let needs = |grid: &Grid| if self.homes.is_empty() { bounds.memory(grid) } else { 0.0 };
        let look = |found: &mut Found, way| {
            self.variants(&space, way, |variant| match bounds.seconds_along(variant) < found.wanted(self.at_least) {
                true => found.add(&space, variant, &prices),
                false => Ok(()),
            })
        };
        let (mut left, mut is_least) = (grids.len(), true);
        for (nth, Bounded { least: [bound, _], way, .. }) in grids.iter().enumerate() {
            if *bound >= found.wanted(self.at_least) {
                break;
            }
            let may_fit = needs(&way.0) <= memory as f64;
            if may_fit {
                look(&mut found, way)?;
            }
            if found.is_cut || !may_fit && found.is_late() {
                open.leave(*bound);
                left = nth;
                break;
            }
        }
        // If nothing fits, schedules that need little memory are tried next, and the error names the minimum memory.
        if found.candidates.is_empty() && seconds == f64::INFINITY {
            let quarters = if found.is_cut { 4 } else { 3 };
            (found.is_cut, found.until[0]) = (false, self.limits.until(start, quarters));
            let small = grids.iter().enumerate().take_while(|(nth, _)| *nth < FEWEST_SMALL || !found.is_late());
            let small = small.map(|(nth, grid)| (nth, needs(&grid.way.0), grid));
            let mut small: Vec<_> = small.filter(|(nth, needs, _)| *nth >= left || *needs > memory as f64).collect();
            small.sort_by(|one, other| one.1.total_cmp(&other.1).then_with(|| one.2.order(other.2, 0)));
            is_least = !found.is_late();
            for (_, needs, Bounded { way, .. }) in small {
                if found.is_cut || found.least.is_some_and(|least| needs >= least.max(memory) as f64) {
                    break;
                }
                look(&mut found, way)?;
            }
        }
        is_least &= !std::mem::take(&mut found.is_cut);
        // Pipelined schedules must be clearly faster than all so far.
        grids.retain(|grid| !self.without_panels && bounds.sends() && grid.least[1] < found.clearly());
        grids.sort_by(|one, other| one.order(other, 1));
        let mut left = (MOST_AHEAD / self.ranks).max(FEWEST_AHEAD);
        for Bounded { least: [_, bound], way, .. } in &grids {
            if *bound >= found.clearly() {
                break;
            }
            if left == 0 || is_over(found.until[1]) {
                open.leave(*bound);
                break;
            }
            self.variants(&space, way, |variant| {
                // At most the time of the leaf can be hidden.
                let least = bounds.seconds_along(variant) - bounds.leaf(&way.0);
                if least >= found.clearly() {
                    return Ok(());
                }
                if bounds.has_halos() {
                    left = left.saturating_sub(1);
                    found.add_interior_first(&space, variant, &prices)?;
                }
                found.add_ahead(&space, variant, &bounds, &prices, &mut left)
            })?;
        }
        open.leave_all(found.cut);
        // Nothing needs a proof that does not beat another search.
        if seconds < f64::INFINITY && found.nth(1).is_none_or(|best| best >= seconds) {
            return Ok(None);
        }
        let best = found.proved(&prices)?;
        let Found { candidates, least, failed, .. } = found;
        match (best, least, failed) {
            (Some(program), ..) => {
                let (schedule, inputs) = (self.schedule.clone(), kernel.inputs().iter().map(|tensor| tensor.name));
                let (inputs, output) = (inputs.collect(), kernel.output().name);
                let stage = Stage { schedule, inputs, output, continues: None, statement: Statement::default() };
                Ok(Some(Choice {
                    machine: self.machine.clone(),
                    placed: self.placed.cloned(),
                    ranks: self.ranks,
                    memory,
                    program,
                    candidates,
                    stages: vec![stage],
                    around: Around::default(),
                    homes: Some(self.homes.iter().map(|(tensor, _)| *tensor).collect()),
                    open: *open,
                    considered,
                }))
            }
            (None, Some(least), _) => {
                let (kernel, enough) = (name(), Enough::NotSought);
                Err(SearchError::Memory { kernel, ranks: self.ranks, memory, least, is_least, enough })
            }
            (None, None, Some(failed)) if self.homes.is_empty() => Err(failed.into()),
            (None, None, Some(failed)) => Err(SearchError::home(&failed)),
            (None, None, None) => Err(SearchError::NoGrid { kernel: name(), ranks: self.ranks }),
        }
    }

    /// Checks the given mesh and shardings.
    fn check(&self, kernel: &Kernel) -> Result<(), SearchError> {
        if let Some(mesh) = self.mesh.as_ref().filter(|mesh| mesh.size() > self.ranks) {
            return Err(SearchError::Mesh { mesh: mesh.to_string(), size: mesh.size(), ranks: self.ranks });
        }
        let known: Vec<Name> = kernel.tensors().map(|tensor| tensor.name).collect();
        given::check(&self.homes, self.mesh.as_ref(), &known)
    }

    /// Visits the ways to lay the loops of a grid over meshes.
    fn variants(
        &self,
        space: &Space<'_>,
        (grid, variant): &(Grid, Option<Variant>),
        mut visit: impl FnMut(&Variant) -> Result<(), SearchError>,
    ) -> Result<(), SearchError> {
        if let Some(variant) = variant {
            return visit(variant);
        }
        let axes = axis_names(&[space.kernel]);
        let mut orders = self.orders(Space::divided(grid)).into_iter();
        orders.try_for_each(|order| visit(&Variant::of_grid(grid, &order, &axes)))
    }

    /// The orders in which loops may be laid over the machine; several only if it has several levels.
    fn orders(&self, divided: Vec<usize>) -> Vec<Vec<usize>> {
        let levels = self.machine.levels().iter().filter(|level| level.count > 1).count();
        if levels < 2 { vec![divided] } else { permutations(&divided) }
    }
}

/// A grid, with a way to lay loops over the mesh if a mesh is given, and lower bounds for its schedules.
struct Bounded {
    least: [f64; 2],
    words: f64,
    way: (Grid, Option<Variant>),
}

impl Bounded {
    /// Compares it with another by one of the bounds, then by words, then by the ranks of loops.
    fn order(&self, other: &Self, bound: usize) -> Ordering {
        let by_bounds =
            self.least[bound].total_cmp(&other.least[bound]).then_with(|| self.words.total_cmp(&other.words));
        let along = |bounded: &Self| bounded.way.1.as_ref().map(|variant| variant.along.clone());
        by_bounds.then_with(|| self.way.0.cmp(&other.way.0)).then_with(|| along(self).cmp(&along(other)))
    }
}
