//! Groups of a world of threads: their ids, the place of each rank, and how a split divides them.

use super::super::call::Call;
use std::sync::Arc;

/// A group of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupId(u64);

impl GroupId {
    /// The group of all ranks.
    pub(super) const WORLD: Self = Self(0);

    /// Returns the id of the group that is made after this one.
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A rank's place in a group.
#[derive(Clone)]
pub(super) struct Membership {
    pub(super) group: GroupId,
    /// World ranks of the members, by rank in the group.
    pub(super) members: Arc<[usize]>,
    pub(super) rank: usize,
}

/// Divides `members` by the colors of their split calls: the groups, as ranks in the old group, each
/// ordered by key and then rank.
pub(super) fn divide(calls: &[Call]) -> Vec<Vec<usize>> {
    let mut ranks: Vec<(usize, usize, usize)> = calls
        .iter()
        .enumerate()
        .map(|(rank, call)| match call {
            Call::Split { color, key } => (*color, *key, rank),
            other => panic!("{other} got into a split: this is a bug in polyshard"),
        })
        .collect();
    ranks.sort_unstable();
    ranks.chunk_by(|left, right| left.0 == right.0).map(|group| group.iter().map(|member| member.2).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_orders_by_key_then_rank() {
        let calls = [(1, 5), (0, 0), (1, 2), (1, 5), (0, 0)].map(|(color, key)| Call::Split { color, key });
        assert_eq!(divide(&calls), [vec![1, 4], vec![2, 0, 3]]);
    }
}
