//! How ranks in groups combine: by proved steps, or in one fixed order.

use super::chunk::chunk;
use super::error::ReductionError;
use super::listed;
use super::lowered::{Lowered, ranks_of};
use polyshard_layout::{Collective, Mesh, counted};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// How ranks in groups combine their arrays, so that each has the result of its group. A value of this type need not be proved
/// again: it cannot be made otherwise.
///
/// ```
/// use polyshard::program::reduction::{Collective, Lowered, LoweredStep, Procedure};
/// let step = |collective, parts| LoweredStep { collective, groups: vec![vec![0, 1]].into(), parts };
/// let halves = vec![step(Collective::ReduceScatter, 1), step(Collective::AllGather, 2)];
/// let procedure = Procedure::by_steps(Lowered::from_steps(vec![vec![0, 1]], 2, halves)?)?;
/// assert_eq!(procedure.to_string(), "ReduceScatter-AllGather");
/// assert_eq!(procedure.received(|_| 7), [7, 7]); // 4 terms and 3 sums, or 3 and 4
/// assert!(Procedure::by_steps(Lowered::from_steps(vec![vec![0, 1]], 1, vec![])?).is_err(), "nothing is summed");
/// # Ok::<(), polyshard::program::reduction::ReductionError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Kind")]
pub struct Procedure(Kind);

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Kind {
    /// Proved.
    Steps(Lowered),
    /// Groups that have each rank once.
    InOrder(Arc<Vec<Vec<usize>>>),
}

impl TryFrom<Kind> for Procedure {
    type Error = ReductionError;

    /// Proves the steps that were read.
    fn try_from(kind: Kind) -> Result<Self, ReductionError> {
        match kind {
            Kind::Steps(steps) => Self::by_steps(steps),
            Kind::InOrder(groups) => Self::in_order(groups.to_vec()),
        }
    }
}

impl Procedure {
    /// Returns the reduction by these steps.
    ///
    /// # Errors
    /// As [`Lowered::prove`], if they do not compute the sum of each group.
    pub fn by_steps(steps: Lowered) -> Result<Self, ReductionError> {
        steps.prove()?;
        Ok(Self(Kind::Steps(steps)))
    }

    /// Returns the reduction in which each group combines in the order in which it lists its ranks: each rank gets a piece of
    /// all arrays, combines it, and sends the result to the others, so that the bits do not depend on where ranks are.
    ///
    /// # Errors
    /// [`Ranks`](ReductionError::Ranks) if the groups do not have each rank, numbered from 0, once.
    pub fn in_order(groups: Vec<Vec<usize>>) -> Result<Self, ReductionError> {
        ranks_of(&groups)?;
        Ok(Self(Kind::InOrder(groups.into())))
    }

    /// Returns the steps; none if it is [`in_order`](Self::in_order).
    #[must_use]
    pub fn steps(&self) -> Option<&Lowered> {
        match &self.0 {
            Kind::Steps(steps) => Some(steps),
            Kind::InOrder(_) => None,
        }
    }

    /// Returns the groups whose ranks are combined.
    #[must_use]
    pub fn groups(&self) -> &[Vec<usize>] {
        match &self.0 {
            Kind::Steps(steps) => steps.reduced(),
            Kind::InOrder(groups) => groups,
        }
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.groups().iter().map(Vec::len).sum()
    }

    /// Checks that its groups are those of the ranks of a mesh that differ only along `axes`, given as positions, and in the order of
    /// the mesh if it is [`in_order`](Self::in_order).
    ///
    /// # Errors
    /// The mismatch, as a clause after the subject.
    pub(crate) fn check_along(&self, mesh: &Mesh, axes: &[usize]) -> Result<(), String> {
        let (ranks, size) = (self.ranks(), mesh.size());
        if ranks != size {
            return Err(format!("is for {}, but the mesh ({mesh}) has {size}", counted(ranks, "rank")));
        }
        let apart = |rank: usize| {
            let mut at = mesh.coordinates(rank);
            axes.iter().for_each(|&axis| at[axis] = 0);
            at
        };
        let fits = |group: &Vec<usize>| {
            group.len() as u64 == mesh.group_size(axes)
                && group.iter().all(|&rank| apart(rank) == apart(group[0]))
                && (self.steps().is_some() || group.is_sorted())
        };
        if self.groups().iter().all(fits) {
            return Ok(());
        }
        let wanted = listed(&mesh.groups_along(axes));
        Err(format!("combines the groups {}; it must combine {wanted}", listed(self.groups())))
    }

    /// Returns the same with ranks renumbered: rank `r` becomes `number(r)`.
    ///
    /// # Errors
    /// [`Ranks`](ReductionError::Ranks) if two ranks become one, or one is too large.
    pub fn renumbered(&self, number: impl Fn(usize) -> usize) -> Result<Self, ReductionError> {
        match &self.0 {
            // A proof holds for any numbering of the ranks.
            Kind::Steps(steps) => Ok(Self(Kind::Steps(steps.renumbered(number)?))),
            Kind::InOrder(groups) => {
                Self::in_order(groups.iter().map(|group| group.iter().map(|&rank| number(rank)).collect()).collect())
            }
        }
    }

    /// Returns the elements that each rank receives, for arrays of `elements(rank)` elements, the same number on all ranks of a
    /// group.
    ///
    /// In a group of `n` ranks of which one holds `e` elements before a step, it receives: `(n - 1) e` in an all-reduce, and as
    /// the first rank in a reduce; `(n - 1) e / n` in a reduce-scatter and `(n - 1) e` in an all-gather if pieces are equal; in
    /// a broadcast, all but the first rank receive the elements of the first. In one fixed order, a rank receives the elements
    /// of a reduce-scatter and an all-gather.
    ///
    /// # Panics
    /// If proved steps have no layout: a bug in polyshard.
    #[must_use]
    pub fn received(&self, elements: impl Fn(usize) -> usize) -> Vec<usize> {
        let mut received = vec![0; self.ranks()];
        match &self.0 {
            Kind::Steps(steps) => {
                let layout = steps.layout();
                let layout = layout.unwrap_or_else(|error| panic!("proved steps: {error}; this is a bug in polyshard"));
                let held = |at: usize, rank: usize| -> usize {
                    let chunks =
                        |range: &Range<usize>| range.clone().map(|c| chunk(elements(rank), steps.chunks(), c).len());
                    layout[at][rank].iter().flat_map(chunks).sum()
                };
                for (at, step) in steps.steps().iter().enumerate() {
                    for group in step.groups.iter().filter(|group| group.len() > 1) {
                        let others = group.len() - 1;
                        let whole: usize = group.iter().map(|&rank| held(at, rank)).sum();
                        for (position, &rank) in group.iter().enumerate() {
                            received[rank] += match step.collective {
                                Collective::AllReduce => others * held(at, rank),
                                Collective::Reduce if position == 0 => others * held(at, rank),
                                Collective::Broadcast if position > 0 => held(at, group[0]),
                                Collective::ReduceScatter => others * held(at + 1, rank),
                                Collective::AllGather => whole - held(at, rank),
                                _ => 0,
                            };
                        }
                    }
                }
            }
            Kind::InOrder(groups) => {
                for group in groups.iter() {
                    for (position, &rank) in group.iter().enumerate() {
                        let own = chunk(elements(rank), group.len(), position).len();
                        received[rank] = (group.len() - 1) * own + elements(rank) - own;
                    }
                }
            }
        }
        received
    }

    /// Returns a bound on the elements that a rank [receives](Self::received), of arrays of at most `elements` elements.
    #[must_use]
    pub fn most_received(&self, elements: usize) -> usize {
        let received = match &self.0 {
            Kind::Steps(steps) => {
                // A shorter array does not have a longer chunk than this one, which divides into equal chunks.
                let even = elements.checked_next_multiple_of(steps.chunks()).unwrap_or(elements);
                self.received(|_| even).into_iter().max()
            }
            Kind::InOrder(groups) => {
                let pieces = |size: usize| elements.div_ceil(size).saturating_mul(size - 1).saturating_add(elements);
                groups.iter().map(|group| pieces(group.len()) - elements / group.len()).max()
            }
        };
        received.unwrap_or(0)
    }

    /// Returns a bound on the elements that a rank holds in addition to its array of `elements` elements.
    #[must_use]
    pub fn most_staged(&self, elements: usize) -> usize {
        match &self.0 {
            // The packed elements of a group, and the rank's own.
            Kind::Steps(_) => elements.saturating_mul(2),
            // A piece of every member, and the result.
            Kind::InOrder(groups) => {
                let staged = |size: usize| elements.div_ceil(size).saturating_mul(size + 1);
                groups.iter().map(|group| staged(group.len())).max().unwrap_or(0)
            }
        }
    }
}
