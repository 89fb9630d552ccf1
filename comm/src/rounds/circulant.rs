//! Broadcasts in the minimum number of rounds: `n` segments reach all `p` ranks in `n - 1 + ceil(log2 p)`, for any `p`.
//!
//! In round `k`, rank `r` receives from `r - skip[k]` and sends to `r + skip[k]`, where the skips are `p` halved repeatedly, rounded
//! up: a circulant graph. A schedule of `q = ceil(log2 p)` numbers for each rank selects the segments; it repeats every `q` rounds
//! with segments higher by `q`. In any `q` consecutive rounds a rank receives `q` different segments; and it sends only segments that
//! it has received before.
//!
//! J. L. Träff, "Round-optimal n-Block Broadcast Schedules in Logarithmic Time", arXiv 2312.11236, and "Optimal Broadcast Schedules
//! in Logarithmic Time with Applications to Broadcast, All-Broadcast, Reduction and All-Reduction", arXiv 2407.18004. Ranks are
//! counted from the root here.

use super::{Arrival, Receive, Round, Rounds};

impl Rounds {
    /// A broadcast from `root` to a group of `size`.
    ///
    /// ```text
    /// before   root: a b    others: . .
    /// after    each: a b
    /// ```
    #[must_use]
    pub fn circulant(size: usize, rank: usize, root: usize, bounds: Vec<usize>) -> Self {
        let (segments, skips) = (bounds.len() - 1, skips(size));
        let q = skips.len() - 1;
        let mut rounds = Vec::new();
        if q > 0 && segments > 0 {
            let relative = (rank + size - root) % size;
            let sends: Vec<isize> = (0..q).map(|k| receives(&skips, (relative + skips[k]) % size)[k]).collect();
            let receives = receives(&skips, relative);
            // Skip rounds of the first period so that the last round ends a period.
            let idle = (q - (segments - 1) % q) % q;
            for nth in idle..idle + segments - 1 + q {
                let (k, period) = (nth % q, (nth / q * q) as isize - idle as isize);
                // Negative numbers denote segments that do not exist, and numbers beyond the last segment denote the last.
                let segment = |number: isize| {
                    let nth = usize::try_from(number + period).ok()?.min(segments - 1);
                    Some(nth..nth + 1)
                };
                let (to, from) = ((relative + skips[k]) % size, (relative + size - skips[k]) % size);
                let numbered = |relative: usize| (relative + root) % size;
                let send = segment(sends[k]).filter(|_| to != 0).map(|segments| (numbered(to), segments));
                let receive = segment(receives[k]).filter(|_| relative != 0);
                let receive =
                    receive.map(|segments| Receive { from: numbered(from), segments, arrival: Arrival::Replace });
                rounds.push(Round { send, receive });
            }
        }
        Self { bounds, rounds }
    }
}

/// The distances of the rounds of a period, ascending, and then `size` itself: each is half of the next, rounded up.
pub(super) fn skips(size: usize) -> Vec<usize> {
    let mut skips: Vec<usize> =
        std::iter::successors(Some(size), |&skip| (skip > 1).then(|| skip.div_ceil(2))).collect();
    skips.reverse();
    skips
}

/// Returns which segment a rank receives in each round of a period. It receives one segment of the period itself, and all
/// others are of the period before, whose numbers are negative.
fn receives(skips: &[usize], relative: usize) -> Vec<isize> {
    let q = skips.len() - 1;
    let first = base(skips, relative);
    let mut search = Search { skips, target: skips[q] + relative, used: vec![false; q + 1], found: Vec::new() };
    search.used[first] = true;
    search.descend(0, 2 * skips[q], q);
    let segment = |skip: usize| if skip == q { first as isize } else { skip as isize - q as isize };
    search.found.into_iter().map(segment).collect()
}

/// Returns the last skip of the path from the root to a rank that takes the longest skips first: the round in which the rank
/// receives its first segment. For the root it is `q`.
fn base(skips: &[usize], mut relative: usize) -> usize {
    let q = skips.len() - 1;
    for k in (0..q).rev() {
        if skips[k] == relative {
            return k;
        }
        if skips[k] < relative {
            relative -= skips[k];
        }
    }
    q
}

/// The depth-first search for the paths of segments to a rank: sums of non-increasing skips. The segment of round `k` takes a path
/// that ends at least `skip[k]` and less than `skip[k + 1]` before the rank, and has the number of that path's last skip, with which
/// no other path ends. Paths of later rounds are shorter.
struct Search<'a> {
    skips: &'a [usize],
    /// The rank plus the size of the group, so that paths may run once around the group.
    target: usize,
    used: Vec<bool>,
    /// The last skips, by round.
    found: Vec<usize>,
}

impl Search<'_> {
    /// Continues a path that has reached `at`, by skips up to number `longest`, to paths that end before `before`.
    fn descend(&mut self, at: usize, mut before: usize, longest: usize) {
        let (skips, target, q) = (self.skips, self.target, self.skips.len() - 1);
        let reaches = |place: usize, round: usize| round <= q && place + skips[round] <= target;
        for skip in (0..=longest).rev() {
            let (next, round) = (at + skips[skip], self.found.len());
            if self.used[skip] || round == q || !reaches(next, round) || next >= before {
                continue;
            }
            if reaches(next, round + 1) {
                self.descend(next, before, skip);
            }
            if self.found.len() == q || !reaches(at, self.found.len() + 1) {
                return;
            }
            before = next;
            self.used[skip] = true;
            self.found.push(skip);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::replay::check_broadcast;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_segment_reaches_all_ranks() {
        check_broadcast(Rounds::circulant);
    }

    #[test]
    fn rounds_are_the_fewest() {
        for (size, q) in [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (17, 5), (64, 6)] {
            for segments in 1..=8 {
                for rank in 0..size {
                    let rounds = Rounds::circulant(size, rank, 0, (0..=segments).collect());
                    assert_eq!(rounds.rounds.len(), if size == 1 { 0 } else { segments - 1 + q }, "{size} ranks");
                    let received = rounds.rounds.iter().filter(|round| round.receive.is_some()).count();
                    assert_eq!(received, if rank == 0 { 0 } else { segments }, "each segment comes once");
                }
            }
        }
    }

    /// The conditions of the papers, which prove correctness for any number of segments.
    #[test]
    fn schedules_meet_their_conditions() {
        for size in (2..=200).chain([511, 512, 513, 1000]) {
            let skips = skips(size);
            let q = skips.len() - 1;
            assert!(1 << (q - 1) < size && size <= 1 << q, "{skips:?}");
            let all: Vec<Vec<isize>> = (0..size).map(|rank| receives(&skips, rank)).collect();
            for (rank, received) in all.iter().enumerate() {
                // In a period a rank receives q different segments: one of this period and all others of the period before.
                let first = base(&skips, rank) as isize;
                let mut expected: BTreeSet<isize> = (1..=q as isize).map(|number| -number).collect();
                if rank > 0 {
                    expected.remove(&(first - q as isize));
                    expected.insert(first);
                }
                assert_eq!(received.iter().copied().collect::<BTreeSet<_>>(), expected, "rank {rank} of {size}");
                // A rank sends a segment that it has received in this period, or the first of the period before.
                for k in 0..q {
                    let sent = all[(rank + skips[k]) % size][k];
                    let has = rank == 0 || sent == first - q as isize || received[..k].contains(&sent);
                    assert!(has, "rank {rank} of {size} sends {sent} in round {k} of {received:?}");
                }
            }
        }
    }
}
