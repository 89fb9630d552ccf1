//! The chosen schedules of a sequence, and why others were not chosen.

use super::rounds::Around;
use super::stage::{Stage, is_given};
use crate::SearchError;
use crate::choice::{Form, Open, side_by_side};
use polyshard_layout::{Name, Sharding};
use polyshard_machine::Machine;
use polyshard_planner::cost::{Cost, cost};
use polyshard_polyhedral::Schedule;
use polyshard_program::{LowerBound, Program};

/// Schedules of the kernels of a sequence, with the cost of the whole program.
#[derive(Clone, Debug)]
pub struct SequenceCandidate {
    pub(super) schedules: Vec<Schedule>,
    /// For each kernel, the number of ranks that each loop is divided over; empty if its schedule is given.
    pub(super) grids: Vec<Vec<(Name, usize)>>,
    /// The form of each schedule, which with its grid describes it.
    pub(super) forms: Vec<Form>,
    pub(super) cost: Cost,
}

impl SequenceCandidate {
    /// Returns the schedule of each kernel, in order.
    #[must_use]
    pub fn schedules(&self) -> &[Schedule] {
        &self.schedules
    }

    /// Returns the cost of their program.
    #[must_use]
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// Whether it differs from another only by a permutation of equivalent axes: same price, grids and forms.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        let [one, two] = [self, other].map(|one| (one.cost.memory, one.cost.received, &one.grids, &one.forms));
        one == two && self.cost.seconds() == other.cost.seconds()
    }

    /// The chains of all kernels.
    fn text(&self) -> String {
        let steps = self.schedules.iter().flat_map(|schedule| schedule.steps().map(|step| format!(".{step}\n")));
        steps.collect()
    }

    /// Keeps the first by its text of equivalent candidates; fastest first.
    pub(super) fn each_once(mut all: Vec<Self>) -> Vec<Self> {
        all.sort_by(|one, other| {
            let by_seconds = one.cost.seconds().total_cmp(&other.cost.seconds());
            by_seconds.then(one.cost.memory.cmp(&other.cost.memory)).then_with(|| one.text().cmp(&other.text()))
        });
        let mut kept: Vec<Self> = Vec::new();
        for candidate in all {
            // Equivalent candidates take equally long, so they are adjacent.
            let seconds = candidate.cost.seconds();
            let mut as_fast = kept.iter().rev().take_while(|other| other.cost.seconds() == seconds);
            if !as_fast.any(|other| other.is_alike(&candidate)) {
                kept.push(candidate);
            }
        }
        kept
    }
}

/// The best program of a sequence.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::search::SequenceSearch;
/// let machine = Machine::preset("a100")?.with_counts(&[1, 4])?;
/// let product = kernel! {
///     fn product(A: [f32; 512, 512], B: [f32; 512, 512]) -> C: [f32; 512, 512] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// let search = SequenceSearch::new(4, &machine).stage(&product, ["X", "V"], "Y").stage(&product, ["Y", "W"], "Z");
/// let choice = search.find()?;
/// assert_eq!(choice.schedules().len(), 2);
/// assert_eq!(choice.program().nests().count(), 2);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SequenceChoice {
    pub(super) stages: Vec<Stage>,
    pub(super) around: Around,
    pub(super) machine: Machine,
    pub(super) memory: u64,
    pub(super) program: Program,
    pub(super) best: SequenceCandidate,
    pub(super) others: Vec<SequenceCandidate>,
    pub(super) considered: usize,
    pub(crate) open: Open,
}

impl SequenceChoice {
    /// Returns the program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns its cost.
    #[must_use]
    pub fn cost(&self) -> &Cost {
        &self.best.cost
    }

    /// Returns the schedule of each kernel, in order.
    #[must_use]
    pub fn schedules(&self) -> &[Schedule] {
        &self.best.schedules
    }

    /// Returns the other candidates that were priced as whole programs and fit into the memory, fastest first. Branches
    /// that could not be faster than the best so far are not among them. Candidates that differ only by a permutation
    /// of equivalent axes are listed once.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::search::SequenceSearch;
    /// let machine = Machine::preset("a100")?.with_counts(&[1, 4])?;
    /// let product = kernel! {
    ///     fn matmul(A: [f32; 512, 512], B: [f32; 512, 512]) -> C: [f32; 512, 512] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let search = SequenceSearch::new(4, &machine).stage(&product, ["X", "V"], "Y").stage(&product, ["Y", "W"], "Z");
    /// let choice = search.find()?;
    /// assert!(choice.others().iter().all(|other| other.cost().seconds() >= choice.cost().seconds()));
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn others(&self) -> &[SequenceCandidate] {
        &self.others
    }

    /// Returns the number of meshes to choose from.
    #[must_use]
    pub fn considered(&self) -> usize {
        self.considered
    }

    /// As [`Choice::gap`](crate::Choice::gap). `pipeline` is tried only in the best program without it, with the same
    /// shardings.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.open.gap(&self.best.cost)
    }

    /// Returns the lower bound on the words that any algorithm that runs these kernels one after the other receives on
    /// the ranks of the mesh. It is the sum of the kernels' own bounds
    /// ([`Kernel::lower_bound_in`](polyshard_program::Kernel::lower_bound_in)), with inputs and outputs of the program
    /// in their shardings here. A value that several kernels read counts for the first one only, since it may be
    /// reused. Kernels in rounds count as often as they certainly run: once, if `until` may end the rounds. Touched
    /// elements are listed by the names of values, kernel after kernel.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::search::SequenceSearch;
    /// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
    /// let product = kernel! {
    ///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let one = product.kernel()?.lower_bound(4, None).words;
    /// let search = SequenceSearch::new(4, &machine).stage(&product, ["X", "V"], "Y").stage(&product, ["Y", "W"], "Z");
    /// assert_eq!(search.find()?.bound().unlimited, 2.0 * one);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn bound(&self) -> LowerBound {
        let mesh = self.program.mesh();
        let elements = self.memory / self.program.dtype().size() as u64;
        let mut sum = LowerBound { words: 0.0, unlimited: 0.0, limited: Some(0.0), touched: Vec::new() };
        let mut read: Vec<Name> = Vec::new();
        let given: Vec<_> = self.program.inputs().chain(self.program.outputs()).collect();
        for (nth, (stage, nest)) in self.stages.iter().zip(self.program.nests()).enumerate() {
            let kernel = &nest.kernel;
            let values = || stage.inputs.iter().copied().chain([stage.output]);
            let mut homes: Vec<(Name, Sharding)> = Vec::new();
            for (tensor, value) in kernel.tensors().zip(values()) {
                let is_output = tensor.name == kernel.output().name;
                // A value that an earlier stage has read may be reused, and is not fetched again.
                if !is_output && read.contains(&value) {
                    homes.push((tensor.name, Sharding::replicated(mesh, &tensor.shape)));
                } else if is_output || is_given(&self.stages, value) {
                    let home = given.iter().find(|array| array.name == value);
                    homes.extend(home.map(|array| (tensor.name, array.sharding.clone())));
                }
                if !is_output {
                    read.push(value);
                }
            }
            let bound_of = |homes: &[(Name, Sharding)]| {
                let homes: Vec<(Name, &Sharding)> = homes.iter().map(|(name, home)| (*name, home)).collect();
                kernel.lower_bound_in(mesh.size(), Some(elements), &homes)
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
            sum.touched.extend(values().zip(bound.touched).map(|(value, (_, touched))| (value, touched)));
        }
        sum.words = sum.unlimited.max(sum.limited.unwrap_or(0.0));
        sum
    }

    /// Explains why these schedules of the same kernels, in order, were not chosen: the costs of both programs, side by side.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::search::SequenceSearch;
    /// let machine = Machine::preset("a100")?.with_counts(&[4, 1])?;
    /// let product = kernel! {
    ///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let search = SequenceSearch::new(4, &machine).stage(&product, ["X", "V"], "Y").stage(&product, ["Y", "W"], "Z");
    /// // One rank computes all.
    /// let why = search.find()?.why_not(&[product.clone(), product])?;
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
        let programs = schedules.iter().map(Schedule::lower).collect::<Result<Vec<_>, _>>()?;
        let program = self.around.sequence(&self.stages, &programs.iter().collect::<Vec<_>>()).build()?;
        Ok(side_by_side(&self.best.cost, &cost(&program, &self.machine)?, self.memory))
    }
}
