//! Steps: collectives in groups of ranks, one after the other.

use super::error::ReductionError;
use super::state::Context;
use polyshard_layout::Collective;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// A reduction as steps: collectives in groups of ranks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Lowered {
    reduced: Arc<Vec<Vec<usize>>>,
    chunks: usize,
    steps: Vec<LoweredStep>,
}

/// Steps as stored in a file.
#[derive(Deserialize)]
struct Unchecked {
    reduced: Arc<Vec<Vec<usize>>>,
    chunks: usize,
    steps: Vec<LoweredStep>,
}

impl TryFrom<Unchecked> for Lowered {
    type Error = ReductionError;

    fn try_from(Unchecked { reduced, chunks, steps }: Unchecked) -> Result<Self, ReductionError> {
        Self::from_steps(reduced, chunks, steps)
    }
}

/// One step: a collective in several groups at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LoweredStep {
    /// The collective.
    pub collective: Collective,
    /// The groups; for a collective that adds, those that hold something. The first rank of each is its root, and the order
    /// is that of scattered pieces.
    pub groups: Arc<Vec<Vec<usize>>>,
    /// Each rank that takes part (in a broadcast, each root) holds one of `parts` parts of the array before the step.
    pub parts: usize,
}

/// More chunks than any machine has ranks.
const MOST_CHUNKS: usize = 1 << 20;

impl Lowered {
    /// Returns the reduction by these steps, which sums each group of `reduced`, on arrays of `chunks` equal chunks.
    ///
    /// [`prove`](Self::prove) checks that they do.
    ///
    /// ```
    /// use polyshard::program::reduction::{Collective, Lowered, LoweredStep};
    /// // A butterfly of two stages.
    /// let stage = |groups: [[usize; 2]; 2]| {
    ///     let groups = groups.map(Vec::from).to_vec().into();
    ///     LoweredStep { collective: Collective::AllReduce, groups, parts: 1 }
    /// };
    /// let stages = vec![stage([[0, 1], [2, 3]]), stage([[0, 2], [1, 3]])];
    /// Lowered::from_steps(vec![vec![0, 1, 2, 3]], 1, stages)?.prove()?;
    /// # Ok::<(), polyshard::program::reduction::ReductionError>(())
    /// ```
    ///
    /// # Errors
    /// [`Ranks`](ReductionError::Ranks) if the groups of `reduced` do not have each rank, numbered from 0, once, or a step
    /// names another rank or a rank twice; [`NoChunks`](ReductionError::NoChunks) if `chunks` is 0;
    /// [`TooManyChunks`](ReductionError::TooManyChunks) if there are more than ranks, and more than the steps make.
    pub fn from_steps(
        reduced: impl Into<Arc<Vec<Vec<usize>>>>,
        chunks: usize,
        steps: Vec<LoweredStep>,
    ) -> Result<Self, ReductionError> {
        let reduced = reduced.into();
        let ranks = ranks_of(&reduced)?;
        for step in &steps {
            let mut seen = vec![false; ranks];
            for &rank in step.groups.iter().flatten() {
                match seen.get_mut(rank) {
                    None => return Err(ReductionError::Ranks { rank, why: "is in a step but in no group", ranks }),
                    Some(true) => return Err(ReductionError::Ranks { rank, why: "is twice in one step", ranks }),
                    Some(seen) => *seen = true,
                }
            }
        }
        if chunks == 0 {
            return Err(ReductionError::NoChunks);
        }
        // Only reduce-scatters divide an array, and the state of every chunk is stored for every rank. One chunk per rank is
        // always enough.
        let scattered = steps.iter().filter(|step| step.collective == Collective::ReduceScatter);
        let largest = scattered.filter_map(|step| step.groups.iter().map(Vec::len).max());
        let most = largest.fold(1, |most: usize, group| most.saturating_mul(group.max(1)).min(MOST_CHUNKS)).max(ranks);
        if chunks > most {
            return Err(ReductionError::TooManyChunks { chunks, most });
        }
        Ok(Self { reduced, chunks, steps })
    }

    /// As [`from_steps`](Self::from_steps), with groups that are known to be of these ranks: a planner lowers thousands of
    /// programs to the same few groups.
    #[doc(hidden)]
    #[must_use]
    pub fn from_known(reduced: Arc<Vec<Vec<usize>>>, chunks: usize, steps: Vec<LoweredStep>) -> Self {
        Self { reduced, chunks, steps }
    }

    /// Returns the same with ranks renumbered: rank `r` becomes `number(r)`.
    ///
    /// # Errors
    /// [`Ranks`](ReductionError::Ranks) if two ranks become one, or one is too large.
    pub fn renumbered(&self, number: impl Fn(usize) -> usize) -> Result<Self, ReductionError> {
        let groups = |groups: &[Vec<usize>]| -> Vec<Vec<usize>> {
            groups.iter().map(|group| group.iter().map(|&rank| number(rank)).collect()).collect()
        };
        let steps = self.steps.iter().map(|step| LoweredStep { groups: groups(&step.groups).into(), ..step.clone() });
        Self::from_steps(groups(&self.reduced), self.chunks, steps.collect())
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.reduced.iter().map(Vec::len).sum()
    }

    /// Returns the groups whose ranks are to be summed.
    #[must_use]
    pub fn reduced(&self) -> &[Vec<usize>] {
        &self.reduced
    }

    /// Returns the smallest number of equal chunks of an array with which each step moves whole chunks.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.chunks
    }

    /// Returns the steps.
    #[must_use]
    pub fn steps(&self) -> &[LoweredStep] {
        &self.steps
    }

    /// Returns the chunks that each rank holds before each step and after the last: by step, then by rank.
    ///
    /// Chunk `c` of an array of `n` elements may be any piece of it, as long as all ranks take the same.
    ///
    /// ```
    /// use polyshard::program::reduction::{Collective, Lowered, LoweredStep};
    /// let step = |collective, parts| LoweredStep { collective, groups: vec![vec![0, 1]].into(), parts };
    /// let steps = vec![step(Collective::ReduceScatter, 1), step(Collective::AllGather, 2)];
    /// let sum = Lowered::from_steps(vec![vec![0, 1]], 2, steps)?;
    /// assert_eq!(sum.layout()?, [[vec![0..2], vec![0..2]], [vec![0..1], vec![1..2]], [vec![0..2], vec![0..2]]]);
    /// # Ok::<(), polyshard::program::reduction::ReductionError>(())
    /// ```
    ///
    /// # Errors
    /// [`Rule`](ReductionError::Rule) if a step breaks a rule.
    pub fn layout(&self) -> Result<Vec<Vec<Vec<Range<usize>>>>, ReductionError> {
        let mut layout = vec![vec![vec![]; self.ranks()]; self.steps.len() + 1];
        for reduced in self.reduced.iter() {
            self.replay(reduced, &mut |step, context: &Context| {
                for (position, &rank) in reduced.iter().enumerate() {
                    layout[step][rank] = ranges(&context.chunks_of(position));
                }
            })?;
        }
        Ok(layout)
    }
}

/// The number of ranks in groups that have each of them once.
pub(super) fn ranks_of(groups: &[Vec<usize>]) -> Result<usize, ReductionError> {
    let ranks = groups.iter().map(Vec::len).sum();
    let mut seen = vec![false; ranks];
    for &rank in groups.iter().flatten() {
        match seen.get_mut(rank) {
            None => return Err(ReductionError::Ranks { rank, why: "is too large", ranks }),
            Some(true) => return Err(ReductionError::Ranks { rank, why: "is in two groups", ranks }),
            Some(seen) => *seen = true,
        }
    }
    Ok(ranks)
}

/// Ascending chunks as ranges of consecutive numbers.
fn ranges(chunks: &[usize]) -> Vec<Range<usize>> {
    chunks.chunk_by(|left, right| left + 1 == *right).map(|run| run[0]..run[run.len() - 1] + 1).collect()
}
