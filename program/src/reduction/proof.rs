//! The proof that a lowered program computes the sum: it is replayed on sets of contributions.
//!
//! Every rank begins with its own data in every chunk, the steps are applied by the rules of the collectives, and at
//! the end every rank must have in every chunk the data of each rank of its group, exactly once. This holds for sums
//! of anything that may be added in any order. Groups are replayed one after the other, in `n^2 chunks / 8` bytes for
//! `n` ranks that are summed together.

use super::error::ReductionError;
use super::lowered::Lowered;
use super::state::Context;
use std::collections::HashMap;

impl Lowered {
    /// Proves that every rank ends with the sum over its group, and nothing else.
    ///
    /// ```
    /// use polyshard::program::reduction::{Collective, Lowered, LoweredStep};
    /// let step = |collective, parts| LoweredStep { collective, groups: vec![vec![0, 1]].into(), parts };
    /// let steps = |last| vec![step(Collective::ReduceScatter, 1), step(last, 2)];
    /// let sums = |last| Lowered::from_steps(vec![vec![0, 1]], 2, steps(last))?.prove();
    /// assert!(sums(Collective::AllGather).is_ok());
    /// assert_eq!(
    ///     sums(Collective::AllReduce).unwrap_err().to_string(),
    ///     "step 2, AllReduce in the group [0, 1]: devices 0 and 1 hold different chunks, which would be added"
    /// );
    /// # Ok::<(), polyshard::program::reduction::ReductionError>(())
    /// ```
    ///
    /// # Errors
    /// [`Joined`](ReductionError::Joined) if a step joins ranks that are not to be summed, [`Parts`](ReductionError::Parts) if
    /// it misstates the part that they hold, [`Rule`](ReductionError::Rule) if it breaks a rule, and
    /// [`Incomplete`](ReductionError::Incomplete) if the sum is not complete at the end: each says which step and ranks.
    pub fn prove(&self) -> Result<(), ReductionError> {
        for reduced in self.reduced() {
            let last = self.replay(reduced, &mut |_, _| ())?;
            for (position, &rank) in reduced.iter().enumerate() {
                let missing = last.unfinished(position);
                if missing > 0 {
                    return Err(ReductionError::Incomplete { rank, missing, chunks: self.chunks() });
                }
            }
        }
        Ok(())
    }

    /// Replays the steps on one reduced group; `before` sees the state before each step and after the last.
    pub(super) fn replay(
        &self,
        reduced: &[usize],
        before: &mut impl FnMut(usize, &Context),
    ) -> Result<Context, ReductionError> {
        let positions: HashMap<usize, usize> = reduced.iter().enumerate().map(|(at, rank)| (*rank, at)).collect();
        let mut context = Context::initial(reduced.len(), self.chunks());
        for (number, step) in self.steps().iter().enumerate() {
            before(number, &context);
            let (number, collective) = (number + 1, step.collective);
            for group in step.groups.iter() {
                let here: Vec<usize> = group.iter().filter_map(|rank| positions.get(rank).copied()).collect();
                if here.is_empty() {
                    continue;
                }
                if here.len() != group.len() {
                    let reduced = reduced.to_vec();
                    return Err(ReductionError::Joined { step: number, group: group.clone(), reduced });
                }
                let (held, chunks, parts) = (context.chunks_of(here[0]).len(), self.chunks(), step.parts);
                if held.checked_mul(parts) != Some(chunks) && !(held == 0 && collective.reduces()) {
                    return Err(ReductionError::Parts { step: number, rank: group[0], held, chunks, parts });
                }
                context.apply(collective, &here).map_err(|violation| {
                    let (group, violation) = (group.clone(), violation.renumbered(reduced));
                    ReductionError::Rule { step: number, collective, group, violation }
                })?;
            }
        }
        before(self.steps().len(), &context);
        Ok(context)
    }
}
