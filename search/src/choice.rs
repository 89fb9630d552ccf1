//! The chosen schedules, and why others were not chosen. Tests: `search/tests/it/choices.rs`.

use crate::SearchError;
use crate::stages::{Around, Stage};
use crate::stay::Stay;
use crate::variant::{Panels, Variant};
use polyshard_layout::{Name, Sharding};
use polyshard_machine::Machine;
use polyshard_machine::units::{scaled, seconds, table};
use polyshard_planner::cost::{Cost, CostedPart, cost, cost_on};
use polyshard_planner::placement::PlacedMesh;
use polyshard_polyhedral::Schedule;
use polyshard_program::{Kernel, LowerBound, Program};
use std::cmp::Ordering;

/// How schedules of one grid differ, up to a permutation of equivalent axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Form {
    /// The panels without the axes that they are rotated by, and the number of those axes.
    pub(crate) panels: Option<(Panels, usize)>,
    /// Whether the interior is computed while halos are in flight.
    pub(crate) interior_first: bool,
}

impl Form {
    pub(crate) fn of(variant: &Variant) -> Self {
        let panels = variant.panels.as_ref().map(|panels| {
            let rotated = panels.rotated.len();
            (Panels { rotated: Vec::new(), ..panels.clone() }, rotated)
        });
        Self { panels, interior_first: false }
    }
}

/// The schedule of one kernel of a candidate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    /// The number of ranks that each loop is divided over; empty if the schedule is given.
    pub(crate) grid: Vec<(Name, usize)>,
    pub(crate) axes: Vec<(Name, Vec<Name>)>,
    pub(crate) form: Form,
    pub(crate) shardings: Vec<Sharding>,
    /// In a sequence, its tiles that other stages may share.
    pub(crate) stays: Vec<Stay>,
}

/// A schedule, or one for each kernel of a sequence, with the price of the program. Those of a sequence have a grid and
/// axes for the first kernel only.
///
/// ```
/// use polyshard::prelude::*;
/// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
/// let matmul = kernel! {
///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// let choice = matmul.auto(4, &machine).all_ranks().find()?;
/// let best = choice.best();
/// assert_eq!(best.grid().iter().map(|(_, ranks)| ranks).product::<usize>(), 4);
/// println!("{}\n{} s, {} B received", best.chain(), best.cost().seconds(), best.cost().received);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Candidate {
    pub(crate) schedules: Vec<Schedule>,
    /// One for each schedule; never empty.
    pub(crate) parts: Vec<Part>,
    pub(crate) cost: Cost,
}

impl Candidate {
    /// Returns the schedule, of several kernels the first.
    pub fn schedule(&self) -> &Schedule {
        &self.schedules[0]
    }

    /// Returns the schedule of each kernel, in order.
    pub fn schedules(&self) -> &[Schedule] {
        &self.schedules
    }

    /// Returns the cost of the program.
    #[must_use]
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// Returns the number of ranks that it uses; the others are idle.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.grid().iter().map(|(_, ranks)| ranks).product()
    }

    /// Returns the number of ranks that each loop is divided over.
    #[must_use]
    pub fn grid(&self) -> &[(Name, usize)] {
        &self.part().grid
    }

    /// Returns the axes of its mesh that divide each loop, major first. Along axes that divide none, all ranks compute the same.
    #[must_use]
    pub fn axes(&self) -> &[(Name, Vec<Name>)] {
        &self.part().axes
    }

    /// Returns an upper bound on the elements that the busiest rank receives.
    #[must_use]
    pub fn words(&self) -> u64 {
        self.cost.received / self.schedule().kernel().map_or(1, |kernel| kernel.dtype().size()) as u64
    }

    /// Returns how often its leaf runs on a rank.
    #[must_use]
    pub fn steps(&self) -> u64 {
        let leaves = self.cost.parts.iter().filter(|part| matches!(part.part, CostedPart::Compute(_)));
        leaves.map(|leaf| leaf.times).max().unwrap_or(1)
    }

    /// Returns the chain of its schedule, a step per line, in the syntax of `kernel!`; of several kernels one after the
    /// other.
    #[must_use]
    pub fn chain(&self) -> String {
        self.schedules.iter().flat_map(Schedule::steps).map(|step| format!(".{step}\n")).collect()
    }

    /// The first kernel, the only one unless this is for a sequence.
    pub(crate) fn part(&self) -> &Part {
        &self.parts[0]
    }

    /// Whether it differs from another only by a permutation of equivalent axes: same price, grids and forms.
    fn is_alike(&self, other: &Self) -> bool {
        let [one, two] = [self, other].map(|one| (one.cost.memory, one.cost.received, one.parts.len()));
        let mut parts = self.parts.iter().zip(&other.parts);
        one == two
            && self.cost.seconds() == other.cost.seconds()
            && parts.all(|(one, two)| one.grid == two.grid && one.form == two.form)
    }

    /// Whether it can replace another with the same arrays if only memory matters: it shares at least the same tiles with
    /// other stages.
    pub(crate) fn serves(&self, other: &Self) -> bool {
        let (own, wanted) = (self.part(), other.part());
        let has = |stay: &Stay| own.stays.iter().any(|own| own.is_alike(stay));
        let stays = wanted.stays.is_empty() || wanted.stays.len() == own.stays.len() && wanted.stays.iter().all(has);
        own.shardings == wanted.shardings && self.cost.memory <= other.cost.memory && stays
    }

    /// Compares it with another by seconds, then by memory, then by the text of its chain.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let by_seconds = self.cost.seconds().total_cmp(&other.cost.seconds());
        let by_memory = self.cost.memory.cmp(&other.cost.memory);
        by_seconds.then(by_memory).then_with(|| self.chain().cmp(&other.chain()))
    }

    /// Adds it to others; of equivalent ones, the first by its text is kept.
    pub(crate) fn keep(self, all: &mut Vec<Self>) {
        match all.iter_mut().find(|other| other.is_alike(&self)) {
            Some(other) if self.order(other).is_lt() => *other = self,
            Some(_) => {}
            None => all.push(self),
        }
    }

    /// This one and then the others, fastest first, without the one that is equivalent to it.
    pub(crate) fn before(self, mut others: Vec<Self>) -> Vec<Self> {
        others.retain(|other| !other.is_alike(&self));
        others.sort_by(Self::order);
        others.insert(0, self);
        others
    }
}

/// The best schedules that were found, of one kernel or of each kernel of a sequence, and the candidates that they were
/// chosen from.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::search::SequenceSearch;
/// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
/// let matmul = kernel! {
///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// let choice = matmul.auto(4, &machine).find()?;
/// assert!(choice.others().iter().all(|other| other.cost().seconds() >= choice.cost().seconds()));
/// assert_eq!(choice.gap(), 0.0); // no schedule that was searched is faster on this machine
/// assert_eq!(choice.schedule().lower()?, *choice.program()); // an ordinary schedule
/// let search = SequenceSearch::new(4, &machine).stage(&matmul, ["X", "V"], "Y").stage(&matmul, ["Y", "W"], "Z");
/// let choice = search.find()?;
/// assert_eq!((choice.schedules().len(), choice.program().nests().count()), (2, 2));
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Choice {
    pub(crate) machine: Machine,
    pub(crate) placed: Option<PlacedMesh>,
    pub(crate) ranks: usize,
    pub(crate) memory: u64,
    /// The program of the best.
    pub(crate) program: Program,
    /// The best first; never empty.
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) around: Around,
    /// Of one kernel, the tensors whose shardings were given; `None` for a sequence, whose inputs and outputs all lie as
    /// they do here.
    pub(crate) homes: Option<Vec<Name>>,
    pub(crate) open: Open,
    pub(crate) considered: usize,
}

impl Choice {
    /// Returns the best.
    #[must_use]
    pub fn best(&self) -> &Candidate {
        &self.candidates[0]
    }

    /// Returns its schedule, an ordinary one whose steps can be printed and edited; of several kernels the first.
    pub fn schedule(&self) -> &Schedule {
        self.best().schedule()
    }

    /// Returns the schedule of each kernel, in order.
    pub fn schedules(&self) -> &[Schedule] {
        self.best().schedules()
    }

    /// Returns its program. If a contraction is in several kernels, its inputs are in the order in which the kernels read
    /// them.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns its cost.
    #[must_use]
    pub fn cost(&self) -> &Cost {
        self.best().cost()
    }

    /// Returns the lower bound on the words that any algorithm that runs these kernels one after the other receives on the
    /// ranks of the best, with the allowed memory; see [`Kernel::lower_bound_in`]. The tensors of one kernel start in one
    /// copy, or in their given shardings; inputs and outputs of a sequence in their shardings here.
    ///
    /// The bound of a sequence is the sum of the kernels' own. A value that several kernels read counts for the first one
    /// only, since it may be reused. Kernels in rounds count as often as they certainly run: once, if `until` may end the
    /// rounds. Touched elements are listed by the names of values, kernel after kernel.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::search::SequenceSearch;
    /// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
    /// let product = kernel! {
    ///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let search = product.auto(4, &machine).on(&Mesh::new([("x", 4)]));
    /// let one = search.find()?.bound();
    /// assert!(one.words > 0.0);
    /// // What all ranks have, none has to fetch.
    /// assert_eq!(search.shard("B", []).find()?.bound().words, 0.0);
    /// let search = SequenceSearch::new(4, &machine).stage(&product, ["X", "V"], "Y").stage(&product, ["Y", "W"], "Z");
    /// assert_eq!(search.find()?.bound().unlimited, 2.0 * one.unlimited);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn bound(&self) -> LowerBound {
        self.bound_in(self.best(), Some(self.memory / self.program().dtype().size() as u64))
    }

    /// Returns the lower bound of [`bound`](Self::bound) with unlimited memory, for the ranks of one of the schedules of a
    /// kernel; for a sequence, that for the best.
    #[must_use]
    pub fn bound_of(&self, candidate: &Candidate) -> LowerBound {
        self.bound_in(candidate, None)
    }

    fn bound_in(&self, candidate: &Candidate, memory: Option<u64>) -> LowerBound {
        let home = |value: Name| match &self.homes {
            Some(homes) if !homes.contains(&value) => None,
            Some(_) => {
                let mut tensors = self.stages[0].values().zip(&candidate.part().shardings);
                tensors.find(|(tensor, _)| *tensor == value).map(|(_, sharding)| sharding.clone())
            }
            None => {
                let given = self.program.inputs().find(|array| array.name == value);
                let name = self.around.output_name(value);
                let left = || self.program.outputs().find(|array| Some(array.name) == name);
                given.or_else(left).map(|array| array.sharding.clone())
            }
        };
        let mesh = match &self.homes {
            Some(_) => candidate.part().shardings.first().map_or(self.program.mesh(), Sharding::mesh),
            None => self.program.mesh(),
        };
        let limited = memory.map(|_| 0.0);
        let mut sum = LowerBound { words: 0.0, unlimited: 0.0, limited, touched: Vec::new() };
        let mut read: Vec<Name> = Vec::new();
        for (nth, (stage, nest)) in self.stages.iter().zip(self.program.nests()).enumerate() {
            let kernel = &nest.kernel;
            let mut homes: Vec<(Name, Sharding)> = Vec::new();
            for (tensor, value) in kernel.tensors().zip(stage.values()) {
                let is_output = tensor.name == kernel.output().name;
                // A value that an earlier stage has read may be reused, and is not fetched again.
                if !is_output && read.contains(&value) {
                    homes.push((tensor.name, Sharding::replicated(mesh, &tensor.shape)));
                } else if is_output || self.around.is_given(&self.stages, value) {
                    homes.extend(home(value).map(|home| (tensor.name, home)));
                }
                if !is_output {
                    read.push(value);
                }
            }
            let bound_of = |homes: &[(Name, Sharding)]| {
                let homes: Vec<(Name, &Sharding)> = homes.iter().map(|(name, home)| (*name, home)).collect();
                kernel.lower_bound_in(mesh.size(), memory, &homes)
            };
            let bound = bound_of(&homes);
            let mut add = |times: f64, bound: &LowerBound| {
                sum.unlimited += times * bound.unlimited;
                sum.limited = sum.limited.zip(bound.limited).map(|(sum, limited)| sum + times * limited);
            };
            let [all, later] = self.around.least_times(nth);
            add(all - later, &bound);
            if later > 0.0 {
                // Data that no round changes was fetched in the first.
                let unchanged = self.around.unchanged(&self.stages, nth, kernel);
                homes.retain(|(name, _)| !unchanged.contains(name));
                let there = kernel.tensors().filter(|tensor| unchanged.contains(&tensor.name));
                homes.extend(there.map(|tensor| (tensor.name, Sharding::replicated(mesh, &tensor.shape))));
                add(later, &bound_of(&homes));
            }
            sum.touched.extend(stage.values().zip(bound.touched).map(|(value, (_, touched))| (value, touched)));
        }
        sum.words = sum.unlimited.max(sum.limited.unwrap_or(0.0));
        sum
    }

    /// Returns the optimality gap: the fraction of its time by which the best may be slower than another of the space on
    /// this machine as described. It is 0 if no other is faster, apart from savings of less than 3 % by `pipeline`, which
    /// are within the run-to-run variation of one program. Grids, panels, meshes and orders of contraction that a limit
    /// left out count with their lower bounds. In sequences, `pipeline` is tried only in the best program without it, with
    /// the same shardings.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.open.gap(self.cost())
    }

    /// Returns the other candidates that were priced and fit into the memory, fastest first; of a sequence, those that were
    /// priced as whole programs, without branches that could not be faster than the best so far. Candidates that differ
    /// only by a permutation of equivalent axes are listed once.
    #[must_use]
    pub fn others(&self) -> &[Candidate] {
        &self.candidates[1..]
    }

    /// Returns the number of grids of one kernel, or of meshes for several, to choose from.
    #[must_use]
    pub fn considered(&self) -> usize {
        self.considered
    }

    /// Returns the number of available ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Returns the chain of the best schedule, a step per line, in the syntax of `kernel!`.
    #[must_use]
    pub fn chain(&self) -> String {
        self.best().chain()
    }

    /// Explains why these schedules of the same kernels, in order, were not chosen: the costs of both programs, side by side.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
    /// let product = kernel! {
    ///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// // One rank computes all.
    /// let why = product.auto(4, &machine).find()?.why_not(&[product])?;
    /// assert!(why.contains("the chosen one is faster"), "{why}");
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`SearchError::Schedules`] if there is not one schedule for each kernel; also if one is not legal, they are not
    /// on one mesh, or cannot be priced.
    pub fn why_not(&self, schedules: &[Schedule]) -> Result<String, SearchError> {
        if schedules.len() != self.stages.len() {
            return Err(SearchError::Schedules { kernels: self.stages.len(), schedules: schedules.len() });
        }
        let mut programs = schedules.iter().map(Schedule::lower).collect::<Result<Vec<_>, _>>()?;
        let program = match self.homes {
            Some(_) => programs.remove(0),
            None => self.around.sequence(&self.stages, &programs.iter().collect::<Vec<_>>()).build()?,
        };
        let other = match &self.placed {
            Some(placed) => cost_on(&program, placed)?,
            None => cost(&program, &self.machine)?,
        };
        Ok(side_by_side(self.cost(), &other, self.memory))
    }
}

/// The costs of two programs side by side, and why the first was chosen.
fn side_by_side(best: &Cost, other: &Cost, memory: u64) -> String {
    let mut rows = vec![["", "chosen", "other", "difference"].map(String::from).to_vec()];
    let mut row = |what: &str, [one, two]: [f64; 2], show: &dyn Fn(f64) -> String| {
        let sign = if two >= one { "+" } else { "-" };
        rows.push(vec![what.to_owned(), show(one), show(two), format!("{sign}{}", show((two - one).abs()))]);
    };
    let bytes = |value: f64| scaled(value, "B");
    row("computing", [best.computing(), other.computing()], &seconds);
    row("moving", [best.moving(), other.moving()], &seconds);
    row("received", [best.received as f64, other.received as f64], &bytes);
    row("memory", [best.memory as f64, other.memory as f64], &bytes);
    let verdict = if other.memory > memory {
        let [needed, allowed] = [other.memory, memory].map(|memory| bytes(memory as f64));
        format!("it does not fit: it needs {needed} a rank, but {allowed} are allowed")
    } else if other.seconds() < best.seconds() {
        let space = "it is outside the search space, or the search ended before it";
        format!("the other is faster, {} against {}: {space}", seconds(other.seconds()), seconds(best.seconds()))
    } else {
        format!("the chosen one is faster, {} against {}", seconds(best.seconds()), seconds(other.seconds()))
    };
    format!("{}{verdict}\n", table(&rows, &[0]))
}

/// The schedules that a search has not examined, as a lower bound on their seconds; `None` if it examined all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Open(Option<f64>);

impl Open {
    /// Leaves schedules open that take at least this many seconds.
    pub(crate) fn leave(&mut self, seconds: f64) {
        self.0 = Some(self.0.map_or(seconds, |open| open.min(seconds)));
    }

    /// Leaves open the schedules that another search left open.
    pub(crate) fn leave_all(&mut self, other: Self) {
        other.0.into_iter().for_each(|seconds| self.leave(seconds));
    }

    /// Lower bound on the seconds of all open schedules, if any are open.
    pub(crate) fn least(self) -> Option<f64> {
        self.0
    }

    /// The fraction of its time by which the best may be slower than the open schedules.
    pub(crate) fn gap(self, best: &Cost) -> f64 {
        self.0.map_or(0.0, |open| (best.seconds() / open - 1.0).max(0.0))
    }
}

/// The kernel of a schedule; an error if the schedule has steps.
pub(crate) fn kernel_alone(schedule: &Schedule) -> Result<&Kernel, SearchError> {
    let kernel = schedule.kernel()?;
    match schedule.steps().next() {
        Some(first) => Err(SearchError::HasSteps { steps: schedule.steps().count(), first: first.to_string() }),
        None => Ok(kernel),
    }
}
