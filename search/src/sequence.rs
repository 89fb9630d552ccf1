//! Kernels in sequence: layouts on one mesh against the redistributions between them.
//!
//! Each mesh, and each way to divide a kernel's loops over it, has a lower bound before anything is lowered. Meshes are
//! taken in the order of their bounds. On each of them the search is branch and bound over the schedules of one kernel
//! after the other: it prices the program so far, with the moves that it needs. So the layout of a value depends on all
//! kernels that write and read it, and no kernel is fixed before the others. Tests: `search/tests/it/sequences.rs`.

mod enough;
mod known;
mod small;
mod state;

use crate::choice::{Choice, Open};
use crate::error::{Enough, SearchError};
use crate::given::{self, permutations};
use crate::limits::{Limits, limited};
use crate::stages::{Around, Stage};
use crate::variant::axis_names;
use known::Known;
use polyshard_dsl::{BlockKernel, Clause, Rounds, Statement};
use polyshard_layout::{Mesh, Name, each_once};
use polyshard_machine::Machine;
#[cfg(doc)]
use polyshard_planner::Sequence;
use polyshard_polyhedral::{Block, Member, PANEL, Passes, Refused, Schedule};
use polyshard_program::{Continued, Kernel, Program};
use state::{Best, State};
use std::time::Instant;

/// The maximum number of axes of a mesh on which kernels run in sequence.
const MOST_AXES: usize = 3;

/// The maximum number of meshes that are examined if only a few are, and of their ranks in total, since larger meshes
/// take longer.
const MOST_MESHES: usize = 24;
const MOST_LOOKED_AT: usize = 64 * MOST_MESHES;

/// The maximum number of kernels that a message names one by one, and for which all meshes are bounded.
const MAX_LISTED: usize = 12;

/// A search for the fastest program of kernels that run one after the other, as in a [`Sequence`].
///
/// A schedule with steps is used as given; for a kernel without steps, a schedule is chosen. All run on one mesh.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::search::SequenceSearch;
/// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
/// let product = kernel! {
///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// let search = SequenceSearch::new(4, &machine);
/// let choice = search.stage(&product, ["X", "V"], "Y").stage(&product, ["Y", "W"], "Z").find()?;
/// assert_eq!(choice.schedules().len(), 2);
/// assert_eq!(choice.gap(), 0.0);
/// assert_eq!(choice.program().moves().count(), 0); // Y lies as both want it
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a search is a value: run it with `find()`"]
pub struct SequenceSearch<'a> {
    stages: Vec<Stage>,
    around: Around,
    ranks: usize,
    machine: &'a Machine,
    limits: Limits,
    of_few_meshes: bool,
    mesh: Option<Mesh>,
    /// The given shardings of values.
    homes: Vec<(Name, Vec<Clause>)>,
    /// A mistake in the block that is searched.
    failed: Option<SearchError>,
}

impl<'a> SequenceSearch<'a> {
    /// Returns the search for a sequence without kernels yet, on at most `ranks` ranks, devices `0..` of the machine.
    pub fn new(ranks: usize, machine: &'a Machine) -> Self {
        let (stages, around, limits) = (Vec::new(), Around::default(), Limits::default());
        let (homes, mesh, failed) = (Vec::new(), None, None);
        Self { stages, around, ranks, machine, limits, of_few_meshes: false, mesh, homes, failed }
    }

    /// The search for the schedules of the kernels of a block.
    pub(crate) fn of_block(schedule: &Schedule<Block>, ranks: usize, machine: &'a Machine) -> Self {
        let (block, mut search) = (schedule.block(), Self::new(ranks, machine));
        for BlockKernel { kernel, inputs, output, previous } in &block.kernels {
            let (schedule, inputs) = (Schedule::from_spec(kernel.clone()), inputs.iter().copied());
            search = search.continued(&schedule, inputs, *output, *previous);
            search = search.statement(Statement { block: Some(0), apart: false });
        }
        search = search.rounds(block.rounds.clone());
        search = block.results.iter().fold(search, |search, (name, value)| search.keep(*value).call(*value, *name));
        let results = block.results.iter().map(|(name, _)| *name);
        search.around.order = [block.arrays[..block.parameters].to_vec(), results.collect()];
        match schedule.kept() {
            Ok(homes) => search.homes = homes,
            Err(error) => search.failed = Some(error.into()),
        }
        search
    }

    /// Lays all kernels over this mesh only.
    pub fn on(self, mesh: &Mesh) -> Self {
        Self { mesh: Some(mesh.clone()), ..self }
    }

    /// Fixes how a value is sharded for all kernels that read or write it, on the mesh of [`on`](Self::on), or else with
    /// any extents of these axes. All other shardings are chosen.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::search::SequenceSearch;
    /// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
    /// let product = kernel! {
    ///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let search = SequenceSearch::new(4, &machine).stage(&product, ["X", "V"], "Y").stage(&product, ["Y", "W"], "Z");
    /// let choice = search.on(&Mesh::new([("x", 4)])).shard("Y", [dim(1).at("x")]).find()?;
    /// assert_eq!(choice.program().sharding("Y").to_string(), "[1 @ x]");
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    pub fn shard(mut self, value: impl Into<Name>, clauses: impl IntoIterator<Item = Clause>) -> Self {
        self.homes.push((value.into(), clauses.into_iter().collect()));
        self
    }

    /// Appends a kernel that reads the values `inputs`, in the kernel's order, and writes the value `output`.
    pub fn stage<N: Into<Name>>(
        self,
        schedule: &Schedule,
        inputs: impl IntoIterator<Item = N>,
        output: impl Into<Name>,
    ) -> Self {
        self.continued(schedule, inputs, output, None)
    }

    /// As [`Sequence::version`]: elements of `output` that the kernel does not write are those of the value `of`.
    pub fn version<N: Into<Name>>(
        self,
        schedule: &Schedule,
        inputs: impl IntoIterator<Item = N>,
        output: impl Into<Name>,
        of: impl Into<Name>,
    ) -> Self {
        self.continued(schedule, inputs, output, Some(Continued { array: of.into(), adds: false }))
    }

    /// As [`Sequence::accumulate`]: the kernel's terms are combined with the value `onto`.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::search::SequenceSearch;
    /// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
    /// let product = kernel! {
    ///     fn matmul(A: [f32; 512, 512], B: [f32; 512, 512]) -> C: [f32; 512, 512] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// // A B + C D, called E
    /// let search = SequenceSearch::new(4, &machine).stage(&product, ["A", "B"], "AB");
    /// let choice = search.accumulate(&product, ["C", "D"], "sum", "AB").call("sum", "E").find()?;
    /// assert_eq!(choice.program().moves().count(), 0); // both products leave their results alike
    /// assert_eq!(choice.program().outputs().map(|output| output.name.as_str()).collect::<Vec<_>>(), ["E"]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    pub fn accumulate<N: Into<Name>>(
        self,
        schedule: &Schedule,
        inputs: impl IntoIterator<Item = N>,
        output: impl Into<Name>,
        onto: impl Into<Name>,
    ) -> Self {
        self.continued(schedule, inputs, output, Some(Continued { array: onto.into(), adds: true }))
    }

    /// As [`stage`](Self::stage), [`version`](Self::version) or [`accumulate`](Self::accumulate), whichever `continues`
    /// asks for: nothing, the elements of a value, or its sums.
    pub fn continued<N: Into<Name>>(
        mut self,
        schedule: &Schedule,
        inputs: impl IntoIterator<Item = N>,
        output: impl Into<Name>,
        continues: Option<Continued<Name>>,
    ) -> Self {
        let inputs = inputs.into_iter().map(Into::into).collect();
        let (schedule, output, statement) = (schedule.clone(), output.into(), Statement::default());
        self.stages.push(Stage { schedule, inputs, output, continues, statement });
        self
    }

    /// Runs kernels in rounds, as [`Sequence::repeat`] does, outer rounds first. The cost of a kernel counts once per
    /// round, but data that does not change in a round is moved and fetched once. If `until` may end rounds early, the
    /// maximum number of rounds counts.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::search::SequenceSearch;
    /// use polyshard::text::Rounds;
    /// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
    /// // X, W X, W (W X) .., each of one column.
    /// let product = kernel! {
    ///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 1]) -> C: [f32; 4096, 1] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let search = SequenceSearch::new(4, &machine).stage(&product, ["W", "X"], "Y");
    /// let choice = search.rounds([Rounds::new(100, 0..1).carry("Y", "X")]).find()?;
    /// // W stays where it is, and rounds begin as they end.
    /// assert!(choice.cost().received < 100 * 4 * 4096 * 2);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    pub fn rounds(mut self, rounds: impl IntoIterator<Item = Rounds>) -> Self {
        self.around.rounds = rounds.into_iter().collect();
        self
    }

    /// As [`Sequence::keep`]: makes this value, which a stage writes or rounds carry, an output of the program too.
    pub fn keep(mut self, value: impl Into<Name>) -> Self {
        self.around.kept.push(value.into());
        self
    }

    /// As [`Sequence::call`]: gives the output that holds this value another name in the program.
    pub fn call(mut self, value: impl Into<Name>, name: impl Into<Name>) -> Self {
        self.around.called.push((value.into(), name.into()));
        self
    }

    /// Makes the last kernel a statement of a block: it may run together with its neighbours of the same block, in a pass over memory.
    pub fn statement(mut self, statement: Statement) -> Self {
        self.stages.last_mut().into_iter().for_each(|stage| stage.statement = statement);
        self
    }

    limited!();

    /// Examines only a few meshes, lowest bounds first; those left open determine the gap.
    pub(crate) fn of_few_meshes(self) -> Self {
        Self { of_few_meshes: true, ..self }
    }

    /// The maximum number of meshes that are examined.
    fn most_meshes(&self) -> usize {
        if self.of_few_meshes { (MOST_LOOKED_AT / self.ranks.max(1)).clamp(2, MOST_MESHES) } else { usize::MAX }
    }

    /// Whether there are too many kernels to lay loops over all meshes: only those of all ranks with at most two axes,
    /// and of one rank, are used.
    fn is_long(&self) -> bool {
        self.of_few_meshes && self.stages.len() > MAX_LISTED
    }

    /// Searches.
    ///
    /// # Errors
    /// As [`Search::find`](crate::Search::find), with a number of ranks that would be enough if no kernel has a given
    /// schedule; [`SearchError::Rounds`] if rounds name unknown kernels or are out of order; [`SearchError::Sequence`]
    /// if the kernels do not fit together; [`SearchError::NoMesh`] if no mesh suits all of them.
    pub fn find(&self) -> Result<Choice, SearchError> {
        let start = Instant::now();
        let found = self.find_below(f64::INFINITY, &mut Open::default());
        let found = found.map_err(|why| why.with_enough(|memory| self.enough(memory, start)))?;
        found.ok_or_else(|| SearchError::NoMesh { kernels: self.names(), ranks: self.ranks })
    }

    /// The names of the kernels, with the inner quotes that a message needs.
    fn names(&self) -> String {
        let kernels = self.stages.iter().filter_map(|stage| stage.schedule.kernel().ok());
        let names: Vec<_> = each_once(kernels.map(Kernel::name)).into_iter().map(Name::as_str).collect();
        match &names[..] {
            [first, second, .., last] if names.len() > MAX_LISTED => format!("{first}`, `{second}`, .., `{last}"),
            _ => names.join("`, `"),
        }
    }

    /// As [`find`](Self::find), for programs that take fewer seconds than this; `None` if no program does. Meshes that
    /// it does not examine are left open.
    pub(crate) fn find_below(&self, seconds: f64, open: &mut Open) -> Result<Option<Choice>, SearchError> {
        if self.ranks == 0 {
            return Err(SearchError::NoRanks);
        }
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let start = Instant::now();
        let kernels = self.stages.iter().map(|stage| stage.schedule.kernel()).collect::<Result<Vec<_>, _>>()?;
        self.around.check(kernels.len())?;
        self.check_homes()?;
        // Report kernels that do not fit together before any search; schedules do not matter for that.
        let plain = self.stages.iter().map(|stage| plain(&stage.schedule)).collect::<Result<Vec<_>, _>>()?;
        self.around.sequence(&self.stages, &plain.iter().collect::<Vec<_>>()).build()?;
        let fixed = self.stages.iter().map(|stage| match stage.schedule.steps().next() {
            Some(_) => stage.schedule.lower().map(Some),
            None => Ok(None),
        });
        let fixed = fixed.collect::<Result<Vec<_>, _>>()?;
        let known = Known::new(self, kernels, fixed);
        let given = self.mesh.iter().chain(known.fixed.iter().flatten().map(Program::mesh)).next();
        let meshes = match given {
            Some(mesh) => vec![mesh.clone()],
            None if self.is_long() => {
                let mut extents = self.extents(|size| size == 1 || size == self.ranks);
                extents.retain(|extents| extents.len() < MOST_AXES);
                self.meshes(&known.kernels, extents)
            }
            None => self.meshes(&known.kernels, self.extents(|_| true)),
        };
        let considered = meshes.len();
        let memory = self.limits.memory.unwrap_or(self.machine.device().memory_capacity);
        let mut state = State::new(self, &known, memory);
        state.below = seconds;
        [state.until_short, state.until] = [1, 4].map(|quarters| self.limits.until(start, quarters));
        if self.is_long() {
            state.open.leave(known.bounds.iter().map(|bounds| bounds.least_of_all(self.ranks)).sum());
        }
        let mut meshes = known.laid(meshes, &state.least_of_given()?);
        if self.of_few_meshes {
            // Nothing moves on one rank: its time is known quickly, and prunes all meshes whose transfers alone take
            // longer.
            meshes.sort_by_key(|laid| laid.mesh.size() > 1);
        }
        let most_meshes = self.most_meshes();
        for (nth, laid) in meshes.iter().enumerate() {
            if state.is_cut {
                break;
            }
            if laid.least() >= state.seconds() {
                continue;
            }
            if nth == most_meshes {
                state.open.leave(laid.least());
                break;
            }
            state.on_mesh(laid)?;
        }
        if state.best.is_none() && state.is_short {
            let looked_at = &meshes[..meshes.len().min(most_meshes)];
            looked_at.first().into_iter().for_each(|laid| state.open.leave(laid.least()));
            if seconds == f64::INFINITY {
                let quarters = if state.is_cut { 4 } else { 3 };
                let until = std::mem::replace(&mut state.until, self.limits.until(start, quarters));
                state.smallest(looked_at, looked_at.len() == meshes.len() && !self.is_long())?;
                state.until = until;
            }
        }
        state.pipeline()?;
        open.leave_all(state.open);
        let State { best, whole, least_memory, failed, .. } = state;
        match (best, least_memory, failed) {
            (Some(Best { mut program, mut candidate, .. }), ..) => {
                if let Some((passes, schedules)) = self.in_passes(&candidate.schedules)? {
                    (program, candidate.schedules) = (passes, schedules);
                }
                Ok(Some(Choice {
                    machine: self.machine.clone(),
                    placed: None,
                    ranks: self.ranks,
                    memory,
                    program,
                    candidates: candidate.before(whole),
                    stages: self.stages.clone(),
                    around: self.around.clone(),
                    homes: None,
                    open: *open,
                    considered,
                }))
            }
            (None, Some((least, is_least)), _) => {
                let (kernel, enough) = (self.names(), Enough::NotSought);
                Err(SearchError::Memory { kernel, ranks: self.ranks, memory, least, is_least, enough })
            }
            (None, None, Some(SearchError::Lower(failed))) if !self.homes.is_empty() => Err(SearchError::home(&failed)),
            (None, None, Some(failed)) => Err(failed),
            (None, None, None) => Ok(None),
        }
    }

    /// The program in which statements of blocks run together, and their schedules; none if none do.
    fn in_passes(&self, schedules: &[Schedule]) -> Result<Option<(Program, Vec<Schedule>)>, SearchError> {
        let members = self.stages.iter().zip(schedules).map(|(stage, schedule)| Member {
            schedule: schedule.clone(),
            inputs: stage.inputs.clone(),
            output: stage.output,
            statement: stage.statement,
        });
        let mut members: Vec<Member> = members.collect();
        let passes = Passes::planned(&mut members, &self.around.rounds, PANEL);
        if passes.is_empty() {
            return Ok(None);
        }
        let programs = members.iter().map(|member| member.schedule.lower()).collect::<Result<Vec<_>, _>>()?;
        let program = self.around.sequence(&self.stages, &programs.iter().collect::<Vec<_>>()).build()?;
        match passes.run_together(&members, program) {
            Ok(program) => Ok(Some((program, members.into_iter().map(|member| member.schedule).collect()))),
            Err(Refused::Isl(error)) => Err(error.into()),
            Err(Refused::Step { kernel, why, .. }) => {
                Err(SearchError::Together { kernel: self.stages[kernel].output, why })
            }
        }
    }

    /// Checks the given mesh and shardings.
    fn check_homes(&self) -> Result<(), SearchError> {
        if let Some(mesh) = self.mesh.as_ref().filter(|mesh| mesh.size() > self.ranks) {
            return Err(SearchError::Mesh { mesh: mesh.to_string(), size: mesh.size(), ranks: self.ranks });
        }
        let carried = self.around.rounds.iter().flat_map(|rounds| &rounds.carried);
        let carried = carried.flat_map(|carry| [carry.first, carry.value, carry.next]);
        let values = each_once(self.stages.iter().flat_map(Stage::values).chain(carried));
        given::check(&self.homes, self.mesh.as_ref(), &values)
    }

    /// The given shardings of the tensors of a stage, with dimensions by number.
    fn homes_of(&self, nth: usize, kernel: &Kernel) -> Vec<(Name, Vec<Clause>)> {
        let home = |(tensor, value): (Name, Name)| {
            let (_, clauses) = self.homes.iter().find(|(other, _)| *other == value)?;
            let numbered = clauses.iter().map(|clause| given::numbered(clause, |index| self.dim(value, index)));
            Some((tensor, numbered.collect()))
        };
        kernel.tensors().map(|tensor| tensor.name).zip(self.stages[nth].values()).filter_map(home).collect()
    }

    /// The dimension of a value that an index of a kernel runs over alone.
    fn dim(&self, value: Name, index: Name) -> Option<usize> {
        let kernels = self.stages.iter().filter_map(|stage| Some((stage, stage.schedule.kernel().ok()?)));
        let mut accesses = kernels.flat_map(|(stage, kernel)| {
            let accesses = kernel.value().accesses().into_iter().chain([kernel.target()]);
            let of =
                kernel.tensors().map(|tensor| tensor.name).zip(stage.values()).filter(|(_, other)| *other == value);
            let of: Vec<Name> = of.map(|(tensor, _)| tensor).collect();
            accesses.filter(move |access| of.contains(&access.tensor)).collect::<Vec<_>>()
        });
        accesses.find_map(|access| access.index.iter().position(|one| one.as_variable() == Some(index)))
    }

    /// The extents of the meshes of up to [`MOST_AXES`] axes over at most this many ranks, for the requested sizes; in
    /// all orders if the machine has several levels.
    fn extents(&self, is_asked_for: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
        let mut all = extents(self.ranks);
        all.retain(|extents| is_asked_for(extents.iter().product()));
        let levels = self.machine.levels().iter().filter(|level| level.count > 1).count();
        if levels >= 2 {
            let mut ordered: Vec<Vec<usize>> = all.iter().flat_map(|extents| permutations(extents)).collect();
            ordered.sort_unstable();
            ordered.dedup();
            all = ordered;
        }
        all
    }

    /// The meshes of these extents, whose axes are those of the given shardings if these name any.
    fn meshes(&self, kernels: &[&Kernel], extents: Vec<Vec<usize>>) -> Vec<Mesh> {
        let axes = axis_names(kernels);
        match self.homes.is_empty() {
            true => extents.into_iter().map(|extents| Mesh::new(axes.iter().copied().zip(extents))).collect(),
            false => given::meshes(&self.homes, &axes, &extents),
        }
    }
}

/// The extents of the meshes of up to [`MOST_AXES`] axes over at most this many ranks, descending in each mesh.
pub(crate) fn extents(ranks: usize) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> = vec![Vec::new()];
    let mut all = found.clone();
    for _ in 0..MOST_AXES {
        let longer = |extents: &Vec<usize>| {
            let most = extents.last().copied().unwrap_or(ranks).min(ranks / extents.iter().product::<usize>());
            (2..=most).map(|next| extents.iter().copied().chain([next]).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        found = found.iter().flat_map(longer).collect();
        all.extend(found.iter().cloned());
    }
    all
}

/// The program of a schedule's kernel on one rank.
fn plain(schedule: &Schedule) -> Result<Program, SearchError> {
    Ok(Schedule::new(schedule.kernel()?.clone()).lower()?)
}
