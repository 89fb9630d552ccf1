//! What was chosen, and why not another.

use crate::SearchError;
use polyshard_layout::{Name, Sharding};
use polyshard_machine::Machine;
use polyshard_machine::units::{scaled, seconds, table};
use polyshard_planner::cost::{Cost, CostedPart, cost};
use polyshard_polyhedral::Schedule;
use polyshard_program::{Kernel, LowerBound, Program};

/// A schedule with its price.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub(crate) grid: Vec<(Name, usize)>,
    pub(crate) schedule: Schedule,
    pub(crate) shardings: Vec<Sharding>,
    pub(crate) words: u64,
    pub(crate) cost: Cost,
}

impl Candidate {
    /// Returns the schedule.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Returns what it costs.
    #[must_use]
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// Returns the ranks that it uses; others are idle.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.grid.iter().map(|(_, ranks)| ranks).product()
    }

    /// Returns over how many ranks each loop is divided.
    #[must_use]
    pub fn grid(&self) -> &[(Name, usize)] {
        &self.grid
    }

    /// Returns the elements that the busiest rank receives, at most.
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

    /// Returns the chain of its schedule, a step per line, as `kernel!` takes it.
    #[must_use]
    pub fn chain(&self) -> String {
        self.schedule.steps().map(|step| format!(".{step}\n")).collect()
    }

    /// How it compares with another: by seconds, then by memory, then by the text of its chain.
    pub(crate) fn order(&self, other: &Self) -> std::cmp::Ordering {
        let by_seconds = self.cost.seconds().total_cmp(&other.cost.seconds());
        let by_memory = self.cost.memory.cmp(&other.cost.memory);
        by_seconds.then(by_memory).then_with(|| self.chain().cmp(&other.chain()))
    }
}

/// The best schedule that was found, and those that it was chosen from.
#[derive(Clone, Debug)]
pub struct Choice {
    pub(crate) machine: Machine,
    pub(crate) ranks: usize,
    pub(crate) memory: u64,
    /// The best one's.
    pub(crate) program: Program,
    /// The best first; never empty.
    pub(crate) candidates: Vec<Candidate>,
    /// Seconds below which no schedule is that was not looked at, if there is one that could be faster.
    pub(crate) open: Option<f64>,
    pub(crate) considered: usize,
}

impl Choice {
    /// Returns the best.
    #[must_use]
    pub fn best(&self) -> &Candidate {
        &self.candidates[0]
    }

    /// Returns its schedule, an ordinary one: its steps print, and can be edited.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        self.best().schedule()
    }

    /// Returns its program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns what it costs.
    #[must_use]
    pub fn cost(&self) -> &Cost {
        self.best().cost()
    }

    /// Returns what any algorithm on the ranks that it uses has to receive, in even shares and with the memory that was allowed.
    #[must_use]
    pub fn bound(&self) -> LowerBound {
        let elements = self.memory / self.program().dtype().size() as u64;
        self.program().kernel().lower_bound(self.best().ranks(), Some(elements))
    }

    /// Returns by which part of its time the best schedule may be slower than another of the space on this machine as it is described:
    /// 0 if no other is faster, but for what `pipeline` would save by less than times of one program differ from run to run, 3 %.
    #[must_use]
    pub fn gap(&self) -> f64 {
        gap(self.cost(), self.open)
    }

    /// Returns the other schedules that were priced and fit into the memory, the fastest first.
    #[must_use]
    pub fn others(&self) -> &[Candidate] {
        &self.candidates[1..]
    }

    /// Returns how many grids there were to choose from.
    #[must_use]
    pub fn considered(&self) -> usize {
        self.considered
    }

    /// Returns the ranks that were there.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Returns the chain of the best schedule, a step per line, as `kernel!` takes it.
    #[must_use]
    pub fn chain(&self) -> String {
        self.best().chain()
    }

    /// Says why not this schedule of the same kernel: what both spend, side by side.
    ///
    /// # Errors
    /// If it is not legal, or cannot be priced.
    pub fn why_not(&self, schedule: &Schedule) -> Result<String, SearchError> {
        let program = schedule.lower()?;
        let other = cost(&program, &self.machine)?;
        let best = self.cost();
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
        let verdict = if other.memory > self.memory {
            format!(
                "not possible: it needs {} a rank, and {} are allowed",
                bytes(other.memory as f64),
                bytes(self.memory as f64)
            )
        } else if other.seconds() < best.seconds() {
            let space = "it is not in the space that is searched, or the search ended before it";
            format!("the other is faster, {} against {}: {space}", seconds(other.seconds()), seconds(best.seconds()))
        } else {
            format!("the chosen one is faster, {} against {}", seconds(best.seconds()), seconds(other.seconds()))
        };
        Ok(format!("{}{verdict}\n", table(&rows, &[0])))
    }
}

/// By which part of its time the best may be slower than what was left open, whose bound this is in seconds.
pub(crate) fn gap(best: &Cost, open: Option<f64>) -> f64 {
    open.map_or(0.0, |open| (best.seconds() / open - 1.0).max(0.0))
}

/// The kernel of a schedule that has no steps yet.
pub(crate) fn kernel_alone(schedule: &Schedule) -> Result<&Kernel, SearchError> {
    let kernel = schedule.kernel()?;
    match schedule.steps().next() {
        Some(first) => Err(SearchError::HasSteps { steps: schedule.steps().count(), first: first.to_string() }),
        None => Ok(kernel),
    }
}
