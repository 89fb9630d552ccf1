//! Kernels in sequence: layouts on one mesh against the redistributions between them.
//!
//! Of each mesh, and of each way to divide a kernel's loops over it, a bound is known before anything is lowered. Meshes are
//! taken in the order of their bounds, and on each of them the schedules of one kernel after the other are tried, dearest
//! branches cut: what is priced is the program so far, with the moves that it needs. So the layout of a value is chosen by
//! all that write and read it, and no kernel is settled before the others.

use crate::SearchError;
use crate::choice::{Candidate, gap};
use crate::find::{Found, permutations};
use crate::grid::Bounds;
use crate::limits::Limits;
use crate::space::Space;
use crate::variant::{Along, Variant, Ways, axis_names};
use polyshard_dsl::{Clause, Step};
use polyshard_layout::{Mesh, Name, Sharding};
use polyshard_machine::Machine;
use polyshard_planner::cost::{Cost, Prices};
use polyshard_planner::{Sequence, redistribution};
use polyshard_polyhedral::{LowerError, Schedule};
use polyshard_program::{Kernel, Program};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The most axes of a mesh on which kernels run in sequence.
const MOST_AXES: usize = 3;

/// The most schedules of a stage that are priced in which panels move while others are computed.
const MOST_AHEAD: usize = 16;

/// A search for the fastest program of kernels that run one after the other, as [`Sequence`] puts them together.
///
/// A schedule with steps is kept as it is; one of the kernel alone is chosen. All run on one mesh.
///
/// ```
/// use polyshard_machine::Machine;
/// use polyshard_polyhedral::{LowerError, Schedule};
/// use polyshard_program::example;
/// use polyshard_search::SequenceSearch;
/// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
/// let product = Schedule::from_spec(example::matmul(4096, 4096, 4096));
/// let search = SequenceSearch::new(4, &machine);
/// let choice = search.stage(&product, ["X", "V"], "Y").stage(&product, ["Y", "W"], "Z").find()?;
/// assert_eq!(choice.schedules().len(), 2);
/// assert_eq!(choice.gap(), 0.0);
/// assert_eq!(choice.program().moves().count(), 0); // Y lies as both want it
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a search is a value: find() does it"]
pub struct SequenceSearch<'a> {
    stages: Vec<Stage>,
    ranks: usize,
    machine: &'a Machine,
    limits: Limits,
    most_meshes: usize,
}

#[derive(Clone, Debug)]
struct Stage {
    schedule: Schedule,
    inputs: Vec<Name>,
    output: Name,
}

/// The best program of a sequence that was found.
#[derive(Clone, Debug)]
pub struct SequenceChoice {
    program: Program,
    cost: Cost,
    schedules: Vec<Schedule>,
    considered: usize,
    open: Option<f64>,
}

impl SequenceChoice {
    /// Returns the program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns what it costs.
    #[must_use]
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// Returns the schedule of each kernel, in order.
    #[must_use]
    pub fn schedules(&self) -> &[Schedule] {
        &self.schedules
    }

    /// Returns how many meshes there were to choose from.
    #[must_use]
    pub fn considered(&self) -> usize {
        self.considered
    }

    /// As [`Choice::gap`](crate::Choice::gap). `pipeline` is looked for in the best program that does without, where arrays stay as they lie.
    #[must_use]
    pub fn gap(&self) -> f64 {
        gap(&self.cost, self.open)
    }
}

impl<'a> SequenceSearch<'a> {
    /// Returns the search for a sequence without kernels yet, on at most `ranks` ranks, devices `0..` of the machine.
    pub fn new(ranks: usize, machine: &'a Machine) -> Self {
        Self { stages: Vec::new(), ranks, machine, limits: Limits::default(), most_meshes: usize::MAX }
    }

    /// Appends a kernel that reads the values `inputs`, in the kernel's order, and writes the value `output`.
    pub fn stage<N: Into<Name>>(
        mut self,
        schedule: &Schedule,
        inputs: impl IntoIterator<Item = N>,
        output: impl Into<Name>,
    ) -> Self {
        let inputs = inputs.into_iter().map(Into::into).collect();
        self.stages.push(Stage { schedule: schedule.clone(), inputs, output: output.into() });
        self
    }

    /// As [`Search::memory`](crate::Search::memory).
    pub fn memory(self, bytes: u64) -> Self {
        Self { limits: Limits { memory: Some(bytes), ..self.limits }, ..self }
    }

    /// As [`Search::at_most`](crate::Search::at_most).
    pub fn at_most(self, time: Duration) -> Self {
        Self { limits: Limits { at_most: Some(time), ..self.limits }, ..self }
    }

    /// As [`Search::limits`](crate::Search::limits).
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Looks at this many meshes, those first that could be the fastest; what it leaves open is the gap.
    pub(crate) fn most_meshes(self, most_meshes: usize) -> Self {
        Self { most_meshes, ..self }
    }

    /// Searches.
    ///
    /// # Errors
    /// As [`Search::find`](crate::Search::find); [`SearchError::Sequence`] if the kernels do not fit together;
    /// [`SearchError::NoMesh`] if no mesh suits all of them.
    pub fn find(&self) -> Result<SequenceChoice, SearchError> {
        let found = self.find_below(f64::INFINITY)?;
        found.ok_or_else(|| SearchError::NoMesh { kernels: self.names(), ranks: self.ranks })
    }

    /// The names of the kernels, as they stand between the quotes of a message.
    fn names(&self) -> String {
        let kernels = self.stages.iter().filter_map(|stage| stage.schedule.kernel().ok());
        kernels.map(|kernel| kernel.name().to_string()).collect::<Vec<_>>().join("`, `")
    }

    /// As [`find`](Self::find), of what takes fewer seconds than this; none if nothing does.
    pub(crate) fn find_below(&self, seconds: f64) -> Result<Option<SequenceChoice>, SearchError> {
        if self.ranks == 0 {
            return Err(SearchError::NoRanks);
        }
        let kernels = self.stages.iter().map(|stage| stage.schedule.kernel()).collect::<Result<Vec<_>, _>>()?;
        // Kernels that do not fit are said before any search; schedules do not matter for that.
        let plain = self.stages.iter().map(|stage| plain(&stage.schedule)).collect::<Result<Vec<_>, _>>()?;
        self.sequence(&plain.iter().collect::<Vec<_>>()).build()?;
        let fixed = self.stages.iter().map(|stage| match stage.schedule.steps().next() {
            Some(_) => stage.schedule.lower().map(Some),
            None => Ok(None),
        });
        let fixed = fixed.collect::<Result<Vec<_>, _>>()?;
        let bounds: Vec<_> = kernels.iter().map(|kernel| Bounds::new(kernel, self.machine, self.ranks, [])).collect();
        let meshes = match fixed.iter().flatten().next() {
            Some(first) => vec![first.mesh().clone()],
            None => self.meshes(&kernels),
        };
        let considered = meshes.len();
        let mut meshes: Vec<Laid> =
            meshes.into_iter().filter_map(|mesh| Laid::new(mesh, &kernels, &bounds, &fixed)).collect();
        // Among equal bounds, meshes of fewer axes are laid over more simply.
        meshes.sort_by(|one, other| {
            let by_bound = one.least().total_cmp(&other.least());
            by_bound
                .then_with(|| one.mesh.ndim().cmp(&other.mesh.ndim()))
                .then_with(|| one.mesh.to_string().cmp(&other.mesh.to_string()))
        });
        let mut state = State {
            search: self,
            prices: Prices::new(self.machine),
            kernels: &kernels,
            bounds: &bounds,
            fixed: &fixed,
            memory: self.limits.memory.unwrap_or(self.machine.device().memory_capacity),
            until: self.limits.at_most.map(|limit| Instant::now() + limit),
            moves: HashMap::new(),
            below: seconds,
            best: None,
            least_memory: None,
            failed: None,
            open: None,
        };
        for (nth, laid) in meshes.iter().enumerate() {
            if laid.least() >= state.seconds() || state.open.is_some() {
                break;
            }
            if nth == self.most_meshes {
                state.open = Some(laid.least());
                break;
            }
            state.on_mesh(laid)?;
        }
        state.pipeline()?;
        let State { best, least_memory, failed, open, memory, .. } = state;
        match (best, least_memory, failed) {
            (Some(Best { cost, program, schedules, .. }), ..) => {
                Ok(Some(SequenceChoice { program, cost, schedules, considered, open }))
            }
            (None, Some(least), _) if least > memory => {
                Err(SearchError::Memory { kernel: self.names(), ranks: self.ranks, memory, least })
            }
            (None, None, Some(failed)) => Err(failed),
            (None, ..) => Ok(None),
        }
    }

    /// The meshes of up to [`MOST_AXES`] axes over at most this many ranks; in all orders, if the machine has several levels.
    fn meshes(&self, kernels: &[&Kernel]) -> Vec<Mesh> {
        let mut found: Vec<Vec<usize>> = vec![Vec::new()];
        let mut all = found.clone();
        for _ in 0..MOST_AXES {
            let longer = |extents: &Vec<usize>| {
                let most =
                    extents.last().copied().unwrap_or(self.ranks).min(self.ranks / extents.iter().product::<usize>());
                (2..=most).map(|next| extents.iter().copied().chain([next]).collect::<Vec<_>>()).collect::<Vec<_>>()
            };
            found = found.iter().flat_map(longer).collect();
            all.extend(found.iter().cloned());
        }
        let levels = self.machine.levels().iter().filter(|level| level.count > 1).count();
        if levels >= 2 {
            let mut ordered: Vec<Vec<usize>> = all.iter().flat_map(|extents| permutations(extents)).collect();
            ordered.sort_unstable();
            ordered.dedup();
            all = ordered;
        }
        let axes = axis_names(kernels);
        all.into_iter().map(|extents| Mesh::new(axes.iter().copied().zip(extents))).collect()
    }

    /// The sequence of the first stages, one for each of these programs.
    fn sequence(&self, programs: &[&Program]) -> Sequence {
        self.stages.iter().zip(programs).fold(Sequence::new(), |sequence, (stage, program)| {
            sequence.stage(program, stage.inputs.iter().copied(), stage.output)
        })
    }
}

/// The kernel of a schedule on one rank.
fn plain(schedule: &Schedule) -> Result<Program, SearchError> {
    Ok(Schedule::new(schedule.kernel()?.clone()).lower()?)
}

/// A mesh, and the ways to lay each kernel over it, by their bounds.
struct Laid {
    mesh: Mesh,
    /// By stage: seconds at least, and the loop for each axis. Of a stage whose schedule is given there is one.
    ways: Vec<Vec<(f64, Along)>>,
}

impl Laid {
    /// None if a kernel has no way.
    fn new(mesh: Mesh, kernels: &[&Kernel], bounds: &[Bounds<'_>], fixed: &[Option<Program>]) -> Option<Self> {
        let of_stage = |nth: usize| {
            if fixed[nth].is_some() {
                return Some(vec![(0.0, Along { axes: Vec::new() })]);
            }
            let ways = Variant::all(&mesh, kernels[nth], Ways::Divided)?;
            let mut ways: Vec<_> =
                ways.into_iter().map(|(_, variant)| (bounds[nth].least_along(&variant), variant.along)).collect();
            ways.sort_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1)));
            (!ways.is_empty()).then_some(ways)
        };
        let ways = (0..kernels.len()).map(of_stage).collect::<Option<Vec<_>>>()?;
        Some(Self { mesh, ways })
    }

    /// Seconds that every program on this mesh takes at least.
    fn least(&self) -> f64 {
        self.ways.iter().map(|ways| ways[0].0).sum()
    }
}

/// A way to run a stage, and its program once that is asked for.
struct StageWay {
    candidate: Candidate,
    /// How its loops lie on the mesh; none if its schedule is given.
    along: Option<Along>,
    program: OnceCell<Result<Program, LowerError>>,
}

impl StageWay {
    /// The program, which is proved.
    fn program(&self) -> Result<&Program, LowerError> {
        self.program.get_or_init(|| self.candidate.schedule.lower()).as_ref().map_err(Clone::clone)
    }
}

/// A search that is going on.
struct State<'a> {
    search: &'a SequenceSearch<'a>,
    prices: Prices<'a>,
    kernels: &'a [&'a Kernel],
    bounds: &'a [Bounds<'a>],
    fixed: &'a [Option<Program>],
    memory: u64,
    until: Option<Instant>,
    /// What it takes to get an array from one sharding to another.
    moves: HashMap<[Sharding; 2], f64>,
    best: Option<Best>,
    /// Seconds that the best takes less than.
    below: f64,
    /// The least memory of any that was whole.
    least_memory: Option<u64>,
    failed: Option<SearchError>,
    /// The least bound of what a time limit has left.
    open: Option<f64>,
}

/// The best program so far, with the program and the schedule of each stage, and how its loops lie on the mesh.
struct Best {
    cost: Cost,
    program: Program,
    stages: Vec<Program>,
    schedules: Vec<Schedule>,
    along: Vec<Option<Along>>,
}

/// The stages so far.
struct Chosen<'c> {
    ways: Vec<&'c StageWay>,
    /// The values, in the shardings in which they are; each the first time as it was given or written.
    arrays: Vec<(Name, &'c Sharding)>,
    seconds: f64,
}

impl State<'_> {
    fn seconds(&self) -> f64 {
        self.best.as_ref().map_or(self.below, |best| best.cost.seconds())
    }

    fn is_late(&self) -> bool {
        self.best.is_some() && self.until.is_some_and(|until| Instant::now() > until)
    }

    /// Looks at all that could be the best on a mesh.
    fn on_mesh(&mut self, laid: &Laid) -> Result<(), SearchError> {
        let mut found: Vec<Vec<StageWay>> = laid.ways.iter().map(|_| Vec::new()).collect();
        let mut tried = vec![0; laid.ways.len()];
        // What each stage takes at least: as the bounds say, until its fastest way is known.
        let mut least: Vec<f64> = laid.ways.iter().map(|ways| ways[0].0).collect();
        // First the ways up to the fastest of each stage, then all that these leave room for.
        for of_all in [false, true] {
            for (nth, ways) in laid.ways.iter().enumerate() {
                while let Some((bound, along)) = ways.get(tried[nth]) {
                    let fastest =
                        found[nth].iter().map(|way| way.candidate.cost.seconds()).fold(f64::INFINITY, f64::min);
                    if !of_all && fastest <= *bound {
                        break;
                    }
                    let others: f64 = least.iter().sum::<f64>() - least[nth];
                    if others + bound.max(if of_all { least[nth] } else { 0.0 }) >= self.seconds() {
                        break;
                    }
                    if self.is_late() {
                        self.open = Some(laid.least());
                        return Ok(());
                    }
                    tried[nth] += 1;
                    self.add(nth, &laid.mesh, along, &mut found[nth])?;
                }
                if found[nth].is_empty() {
                    return Ok(());
                }
                undominated(&mut found[nth]);
                let next = ways.get(tried[nth]).map_or(f64::INFINITY, |(bound, _)| *bound);
                least[nth] = found[nth][0].candidate.cost.seconds().min(next);
            }
            let mut chosen = Chosen { ways: Vec::new(), arrays: Vec::new(), seconds: 0.0 };
            self.descend(laid, &found, &least, &mut chosen)?;
        }
        Ok(())
    }

    /// Adds the schedules of a stage with its loops along these axes.
    fn add(&mut self, nth: usize, mesh: &Mesh, along: &Along, ways: &mut Vec<StageWay>) -> Result<(), SearchError> {
        let kernel = self.kernels[nth];
        if let Some(program) = &self.fixed[nth] {
            let (schedule, cost) = (self.search.stages[nth].schedule.clone(), self.prices.of(program)?);
            let shardings = program.shardings().cloned().collect();
            let candidate = Candidate { grid: Vec::new(), schedule, shardings, words: 0, cost };
            ways.push(StageWay { candidate, along: None, program: Ok(program.clone()).into() });
            return Ok(());
        }
        let mut found = Found::new(self.memory, f64::INFINITY);
        let variant = Variant { mesh: mesh.clone(), along: along.clone(), panels: None };
        // What other kernels read and write is not skewed.
        let space = Space { kernel, homes: &[], rotates: false };
        found.add(&space, &variant, &self.prices)?;
        if self.bounds[nth].has_halos() {
            found.add_interior_first(&space, &variant, &self.prices)?;
        }
        if found.candidates.is_empty() {
            self.least_memory = self.least_memory.into_iter().chain(found.least).min();
        }
        if let Some(failed) = found.failed {
            self.failed.get_or_insert(failed.into());
        }
        let way = |candidate| StageWay { candidate, along: Some(along.clone()), program: OnceCell::new() };
        ways.extend(found.candidates.into_iter().map(way));
        Ok(())
    }

    /// Tries all ways of the next stage behind those that are chosen, the fastest first.
    fn descend<'c>(
        &mut self,
        laid: &Laid,
        ways: &'c [Vec<StageWay>],
        least: &[f64],
        chosen: &mut Chosen<'c>,
    ) -> Result<(), SearchError> {
        let nth = chosen.ways.len();
        let Some(next) = ways.get(nth) else { return self.whole(chosen) };
        let rest: f64 = least[nth + 1..].iter().sum();
        for way in next {
            if self.is_late() {
                self.open = Some(laid.least());
                break;
            }
            let (arrays, seconds) = (chosen.arrays.len(), chosen.seconds);
            if seconds + way.candidate.cost.seconds() + rest >= self.seconds() {
                break;
            }
            self.append(nth, way, chosen)?;
            if chosen.seconds + rest < self.seconds() {
                self.descend(laid, ways, least, chosen)?;
            }
            chosen.ways.pop();
            chosen.arrays.truncate(arrays);
            chosen.seconds = seconds;
        }
        Ok(())
    }

    /// Appends a stage, with the moves that it needs.
    fn append<'c>(&mut self, nth: usize, way: &'c StageWay, chosen: &mut Chosen<'c>) -> Result<(), SearchError> {
        let stage = &self.search.stages[nth];
        let (output, inputs) = way.candidate.shardings.split_last().expect("a kernel has an output");
        for (value, wanted) in stage.inputs.iter().zip(inputs) {
            let mut places = chosen.arrays.iter().filter(|(name, _)| name == value).map(|(_, sharding)| *sharding);
            let home = places.clone().next();
            if places.any(|sharding| sharding == wanted) {
                continue;
            }
            if let Some(home) = home {
                chosen.seconds += self.moved(home, wanted)?;
            }
            chosen.arrays.push((*value, wanted));
        }
        chosen.arrays.push((stage.output, output));
        chosen.seconds += way.candidate.cost.seconds();
        chosen.ways.push(way);
        Ok(())
    }

    /// What it takes to get an array from one sharding to another.
    fn moved(&mut self, source: &Sharding, target: &Sharding) -> Result<f64, SearchError> {
        let key = [source.clone(), target.clone()];
        if let Some(&seconds) = self.moves.get(&key) {
            return Ok(seconds);
        }
        // What cannot be moved is what no program moves.
        let seconds = match redistribution(source, target, self.kernels[0].dtype()) {
            Ok(program) => self.prices.of(&program)?.seconds(),
            Err(_) => f64::INFINITY,
        };
        self.moves.insert(key, seconds);
        Ok(seconds)
    }

    /// Puts the program of all stages together, and keeps it if it is the best.
    fn whole(&mut self, chosen: &Chosen<'_>) -> Result<(), SearchError> {
        let programs = chosen.ways.iter().map(|way| way.program()).collect::<Result<Vec<_>, _>>();
        let programs = match programs {
            Ok(programs) => programs,
            Err(failed) => {
                self.failed.get_or_insert(failed.into());
                return Ok(());
            }
        };
        let program = self.search.sequence(&programs).build()?;
        let priced = self.prices.of(&program)?;
        self.least_memory = Some(self.least_memory.map_or(priced.memory, |least| least.min(priced.memory)));
        if priced.memory <= self.memory && priced.seconds() < self.seconds() {
            let schedules = chosen.ways.iter().map(|way| way.candidate.schedule.clone()).collect();
            let along = chosen.ways.iter().map(|way| way.along.clone()).collect();
            let stages = programs.into_iter().cloned().collect();
            self.best = Some(Best { cost: priced, program, stages, schedules, along });
        }
        Ok(())
    }

    /// Has panels of the best program's stages come while others are computed, one stage after the other, where that is clearly faster. Arrays
    /// stay as they lie, so that no other stage changes.
    fn pipeline(&mut self) -> Result<(), SearchError> {
        for nth in 0..self.kernels.len() {
            if self.is_late() || !self.bounds[nth].sends() {
                return Ok(());
            }
            let Some(Best { program, stages, schedules, along, .. }) = &self.best else { return Ok(()) };
            let Some(along) = along[nth].clone() else { continue };
            let homes: Vec<(Name, Vec<Clause>)> = schedules[nth].steps().filter_map(home).collect();
            let space = Space { kernel: self.kernels[nth], homes: &homes, rotates: false };
            let whole = Variant { mesh: program.mesh().clone(), along, panels: None };
            let seconds = self.prices.of(&stages[nth])?.seconds();
            let (mut found, mut left) = (Found::new(self.memory, seconds), MOST_AHEAD);
            found.add_ahead(&space, &whole, &self.bounds[nth], &self.prices, &mut left)?;
            found.candidates.sort_by(Candidate::order);
            for candidate in found.candidates {
                if self.try_stage(nth, &candidate.schedule)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Puts another schedule in the place of the best program's for a stage, if that is faster and fits into the memory; returns whether it is.
    fn try_stage(&mut self, nth: usize, schedule: &Schedule) -> Result<bool, SearchError> {
        let Some(best) = &mut self.best else { return Ok(false) };
        let Ok(stage) = schedule.lower() else { return Ok(false) };
        let mut stages: Vec<&Program> = best.stages.iter().collect();
        stages[nth] = &stage;
        let program = self.search.sequence(&stages).build()?;
        let cost = self.prices.of(&program)?;
        let is_better = cost.memory <= self.memory && cost.seconds() < best.cost.seconds();
        if is_better {
            (best.cost, best.program) = (cost, program);
            (best.stages[nth], best.schedules[nth]) = (stage, schedule.clone());
        }
        Ok(is_better)
    }
}

/// The tensor that a step shards, and how.
fn home(step: &Step) -> Option<(Name, Vec<Clause>)> {
    match step {
        Step::Shard { tensor, clauses } => Some((*tensor, clauses.clone())),
        _ => None,
    }
}

/// Keeps, of the ways whose arrays lie alike, those that none is better than in time and memory; the fastest first.
fn undominated(ways: &mut Vec<StageWay>) {
    ways.sort_by(|one, other| one.candidate.order(&other.candidate));
    let mut kept: Vec<StageWay> = Vec::new();
    for way in ways.drain(..) {
        let is_worse = |other: &StageWay| {
            let [one, other] = [&way.candidate, &other.candidate];
            other.cost.memory <= one.cost.memory && other.shardings == one.shardings
        };
        if !kept.iter().any(is_worse) {
            kept.push(way);
        }
    }
    *ways = kept;
}
