//! Chains: a segment is passed from rank to rank, while the next one follows a rank behind.
//!
//! ```text
//! round 1    0 -a> 1
//! round 2    0 -b> 1 -a> 2
//! round 3    0 -c> 1 -b> 2 -a> 3        n segments pass p ranks in p - 2 + n rounds
//! ```
//!
//! A rank handles the segments of several chains in the order in which they would arrive on an idle network. In that order, a
//! rank sends every segment before the next rank receives it, so chains cannot wait for each other in a circle.

use super::{Arrival, Round, Rounds};
use std::ops::Range;

/// Some segments of a buffer, and the ranks that they pass, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The ranks, each once.
    pub ranks: Vec<usize>,
    /// The segments.
    pub segments: Range<usize>,
}

impl Chain {
    /// Returns two chains around a group of `size` ranks that begin at `root`, one in each direction, each for its segments.
    ///
    /// ```
    /// use polyshard::runtime::comm::Chain;
    /// let [ahead, back] = Chain::both_ways(4, 0, [0..2, 2..4]);
    /// assert_eq!((ahead.ranks, back.ranks), (vec![0, 1, 2, 3], vec![0, 3, 2, 1]));
    /// ```
    #[must_use]
    pub fn both_ways(size: usize, root: usize, segments: [Range<usize>; 2]) -> [Self; 2] {
        let [first, second] = segments;
        [
            Self { ranks: (0..size).map(|place| (root + place) % size).collect(), segments: first },
            Self { ranks: (0..size).map(|place| (root + size - place) % size).collect(), segments: second },
        ]
    }

    /// Returns the chain in the opposite direction.
    #[must_use]
    pub fn reversed(mut self) -> Self {
        self.ranks.reverse();
        self
    }
}

impl Rounds {
    /// A broadcast along a chain of all ranks of a group, from the first of `ranks`.
    ///
    /// ```text
    /// before   first: a b    others: . .
    /// after    each: a b
    /// ```
    #[must_use]
    pub fn chain(ranks: Vec<usize>, rank: usize, bounds: Vec<usize>) -> Self {
        let chain = Chain { ranks, segments: 0..bounds.len() - 1 };
        Self::chains(&[chain], rank, bounds, Arrival::Replace, |_, _| 1.0)
    }

    /// Segments that pass along several chains at once. With [`Arrival::Replace`] this is a broadcast from the first rank of each
    /// chain, with [`Arrival::Combine`] a reduction to the last of each. `seconds` returns how long a byte takes from one rank to
    /// another, and must be the same on all ranks.
    #[must_use]
    pub fn chains(
        chains: &[Chain],
        rank: usize,
        bounds: Vec<usize>,
        arrival: Arrival,
        seconds: impl Fn(usize, usize) -> f64,
    ) -> Self {
        let mut events = Vec::new();
        for (nth, chain) in chains.iter().enumerate() {
            let Some(place) = chain.ranks.iter().position(|&member| member == rank) else { continue };
            // The arrival time of the first segment, and the interval at which the others follow. The hops are summed in
            // their order, so that all ranks have the same sums, to the last bit.
            let hops = chain.ranks[..=place].windows(2).map(|pair| seconds(pair[0], pair[1]));
            let (first, slowest) = hops.fold((0.0, 0.0), |(sum, most), hop| (sum + hop, f64::max(most, hop)));
            let segments = chain.segments.clone().enumerate();
            events
                .extend(segments.map(|(count, segment)| (first + count as f64 * slowest, count, nth, place, segment)));
        }
        // At the start of a chain all segments are ready at once; several chains alternate.
        events.sort_by(|left, right| left.0.total_cmp(&right.0).then((left.1, left.2).cmp(&(right.1, right.2))));
        let mut rounds = Vec::new();
        let mut send: Option<(usize, Range<usize>)> = None;
        for (_, _, nth, place, segment) in events {
            let (ranks, segments) = (&chains[nth].ranks, segment..segment + 1);
            let before = send.take();
            if place > 0 {
                rounds.push(Round { send: before, ..Round::receive(ranks[place - 1], segments.clone(), arrival) });
            } else if before.is_some() {
                rounds.push(Round { send: before, receive: None });
            }
            // It is sent before the next is received.
            send = ranks.get(place + 1).map(|&to| (to, segments));
        }
        if send.is_some() {
            rounds.push(Round { send, receive: None });
        }
        Self { bounds, rounds }
    }
}

#[cfg(test)]
mod tests {
    use super::super::replay::{check_broadcast, check_sum, replay};
    use super::*;

    #[test]
    fn a_chain_broadcasts_in_p_minus_2_plus_n_rounds() {
        check_broadcast(|size, rank, root, bounds| {
            Rounds::chain((0..size).map(|place| (root + place) % size).collect(), rank, bounds)
        });
        for (size, segments) in [(2, 1), (5, 3), (9, 8)] {
            let rounds = |rank| {
                Rounds::chain((0..size).collect(), rank, (0..=segments).collect()).rounds.len() + usize::max(rank, 1)
                    - 1
            };
            assert_eq!((0..size).map(rounds).max(), Some(size - 2 + segments), "{size} ranks");
        }
    }

    #[test]
    fn a_chain_in_any_order_of_the_ranks_broadcasts() {
        let ranks = [3, 0, 4, 1, 2];
        let all: Vec<_> = (0..5).map(|rank| Rounds::chain(ranks.to_vec(), rank, vec![0, 1, 2, 3])).collect();
        assert_eq!(replay(&all), Ok(vec![vec![vec![3]; 3]; 5]));
    }

    /// Hops of different lengths, the same for all ranks, some of them equal.
    fn seconds(from: usize, to: usize) -> f64 {
        [1.0, 0.1, 3.7, 0.1, 1e-3][(from * 7 + to * 3) % 5]
    }

    fn both_ways(size: usize, root: usize, segments: usize) -> [Chain; 2] {
        Chain::both_ways(size, root, [0..segments / 2, segments / 2..segments])
    }

    #[test]
    fn two_chains_broadcast_and_reduce() {
        for speeds in [seconds, |_, _| 1.0, |_, _| 0.0] {
            check_broadcast(|size, rank, root, bounds| {
                let chains = both_ways(size, root, bounds.len() - 1);
                Rounds::chains(&chains, rank, bounds, Arrival::Replace, speeds)
            });
            check_sum(false, |size, rank, root, bounds| {
                let chains = both_ways(size, root, bounds.len() - 1).map(Chain::reversed);
                Rounds::chains(&chains, rank, bounds, Arrival::Combine, speeds)
            });
        }
    }

    #[test]
    fn a_chain_sums_in_the_order_of_its_ranks() {
        check_sum(true, |size, rank, root, bounds| {
            let chain = Chain { ranks: (0..size).collect(), segments: 0..bounds.len() - 1 };
            let sum = Rounds::chains(&[chain], rank, bounds.clone(), Arrival::Combine, seconds);
            sum.then(Rounds::chain(if root == size - 1 { vec![root] } else { vec![size - 1, root] }, rank, bounds))
        });
    }
}
