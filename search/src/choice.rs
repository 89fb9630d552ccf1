//! The chosen schedule, and why others were not chosen. Tests: `search/tests/it/choices.rs`.

use crate::SearchError;
use crate::stay::Stay;
use crate::variant::{Panels, Variant};
use polyshard_layout::{Name, Sharding};
use polyshard_machine::Machine;
use polyshard_machine::units::{scaled, seconds, table};
use polyshard_planner::cost::{Cost, CostedPart, cost, cost_on};
use polyshard_planner::placement::PlacedMesh;
use polyshard_polyhedral::Schedule;
use polyshard_program::{Kernel, LowerBound, Program};

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

/// A schedule with its price.
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
    pub(crate) grid: Vec<(Name, usize)>,
    pub(crate) axes: Vec<(Name, Vec<Name>)>,
    pub(crate) form: Form,
    pub(crate) schedule: Schedule,
    pub(crate) shardings: Vec<Sharding>,
    pub(crate) words: u64,
    pub(crate) cost: Cost,
    /// In a sequence, its tiles that other stages may share.
    pub(crate) stays: Vec<Stay>,
}

impl Candidate {
    /// Returns the schedule.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Returns its cost.
    #[must_use]
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// Returns the number of ranks that it uses; the others are idle.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.grid.iter().map(|(_, ranks)| ranks).product()
    }

    /// Returns the number of ranks that each loop is divided over.
    #[must_use]
    pub fn grid(&self) -> &[(Name, usize)] {
        &self.grid
    }

    /// Returns the axes of its mesh that divide each loop, major first. Along axes that divide none, all ranks compute the same.
    #[must_use]
    pub fn axes(&self) -> &[(Name, Vec<Name>)] {
        &self.axes
    }

    /// Returns an upper bound on the elements that the busiest rank receives.
    #[must_use]
    pub fn words(&self) -> u64 {
        self.words
    }

    /// Returns how often its leaf runs on a rank.
    #[must_use]
    pub fn steps(&self) -> u64 {
        let leaves = self.cost.parts.iter().filter(|part| matches!(part.part, CostedPart::Compute(_)));
        leaves.map(|leaf| leaf.times).max().unwrap_or(1)
    }

    /// Returns the chain of its schedule, a step per line, in the syntax of `kernel!`.
    #[must_use]
    pub fn chain(&self) -> String {
        self.schedule.steps().map(|step| format!(".{step}\n")).collect()
    }

    /// Whether it differs from another only by a permutation of equivalent axes: same price, grid and form.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        let [one, two] =
            [self, other].map(|candidate| (candidate.cost.memory, candidate.cost.received, &candidate.grid));
        one == two && self.form == other.form && self.cost.seconds() == other.cost.seconds()
    }

    /// Whether another one on the same arrays shares at least the same tiles with other stages, whatever the two cost.
    pub(crate) fn stays_alike(&self, other: &Self) -> bool {
        let has = |stay: &Stay| other.stays.iter().any(|other| other.is_alike(stay));
        self.stays.is_empty() || self.stays.len() == other.stays.len() && self.stays.iter().all(has)
    }

    /// Compares it with another by seconds, then by memory, then by the text of its chain.
    pub(crate) fn order(&self, other: &Self) -> std::cmp::Ordering {
        let by_seconds = self.cost.seconds().total_cmp(&other.cost.seconds());
        let by_memory = self.cost.memory.cmp(&other.cost.memory);
        by_seconds.then(by_memory).then_with(|| self.chain().cmp(&other.chain()))
    }
}

/// The best schedule that was found, and the candidates that it was chosen from.
///
/// ```
/// use polyshard::prelude::*;
/// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
/// let matmul = kernel! {
///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// let choice = matmul.auto(4, &machine).find()?;
/// assert!(choice.others().iter().all(|other| other.cost().seconds() >= choice.cost().seconds()));
/// assert_eq!(choice.gap(), 0.0); // no schedule that was searched is faster on this machine
/// assert_eq!(choice.schedule().lower()?, *choice.program()); // an ordinary schedule
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
    /// The tensors whose shardings were given.
    pub(crate) homes: Vec<Name>,
    pub(crate) open: Open,
    pub(crate) considered: usize,
}

impl Choice {
    /// Returns the best.
    #[must_use]
    pub fn best(&self) -> &Candidate {
        &self.candidates[0]
    }

    /// Returns its schedule, an ordinary one whose steps can be printed and edited.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        self.best().schedule()
    }

    /// Returns its program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns its cost.
    #[must_use]
    pub fn cost(&self) -> &Cost {
        self.best().cost()
    }

    /// Returns the lower bound on the words that any algorithm on the ranks of the best schedule receives with the
    /// allowed memory. Each tensor starts in one copy, or in its given sharding; see [`Kernel::lower_bound_in`].
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
    /// let product = kernel! {
    ///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let search = product.auto(4, &machine).on(&Mesh::new([("x", 4)]));
    /// assert!(search.find()?.bound().words > 0.0);
    /// // What all ranks have, none has to fetch.
    /// assert_eq!(search.shard("B", []).find()?.bound().words, 0.0);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn bound(&self) -> LowerBound {
        self.bound_in(self.best(), Some(self.memory / self.program().dtype().size() as u64))
    }

    /// Returns the lower bound of [`bound`](Self::bound) for the ranks of one of the schedules, with unlimited memory.
    #[must_use]
    pub fn bound_of(&self, candidate: &Candidate) -> LowerBound {
        self.bound_in(candidate, None)
    }

    fn bound_in(&self, candidate: &Candidate, memory: Option<u64>) -> LowerBound {
        let kernel = self.program().kernel();
        let lie = kernel.tensors().map(|tensor| tensor.name).zip(&candidate.shardings);
        let homes: Vec<_> = lie.filter(|(name, _)| self.homes.contains(name)).collect();
        let ranks = candidate.shardings.first().map_or(1, |sharding| sharding.mesh().size());
        kernel.lower_bound_in(ranks, memory, &homes)
    }

    /// Returns the optimality gap: the fraction of its time by which the best schedule may be slower than another of
    /// the space on this machine as described. It is 0 if no other is faster, apart from savings of less than 3 % by
    /// `pipeline`, which are within the run-to-run variation of one program. Grids, panels and orders of contraction
    /// that a limit left out count with their lower bounds.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.open.gap(self.cost())
    }

    /// Returns the other schedules that were priced and fit into the memory, fastest first. Schedules that differ only
    /// by a permutation of equivalent axes are listed once.
    #[must_use]
    pub fn others(&self) -> &[Candidate] {
        &self.candidates[1..]
    }

    /// Returns the number of grids to choose from.
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

    /// Explains why this schedule of the same kernel was not chosen: the costs of both, side by side.
    ///
    /// # Errors
    /// If the schedule is not legal, or cannot be priced.
    pub fn why_not(&self, schedule: &Schedule) -> Result<String, SearchError> {
        let program = schedule.lower()?;
        let other = match &self.placed {
            Some(placed) => cost_on(&program, placed)?,
            None => cost(&program, &self.machine)?,
        };
        Ok(side_by_side(self.cost(), &other, self.memory))
    }
}

/// The costs of two programs side by side, and why the first was chosen.
pub(crate) fn side_by_side(best: &Cost, other: &Cost, memory: u64) -> String {
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
