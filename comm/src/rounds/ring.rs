//! Collectives around a ring: each block takes the shorter way around, and both directions are used at once.
//!
//! ```text
//! all-gather of 5, seen from rank 0      step 1   4 -> 0 <- 1      the blocks of 4 and 1 arrive
//!                                        step 2   4 -> 0 <- 1      the blocks of 3 and 2
//! ```
//!
//! With an even number of ranks, half of the opposite block arrives from each side, in the last step, so a block is two segments. A
//! reduce-scatter runs the same steps backwards: sums for rank 0 begin at the opposite rank, and every rank that they pass adds its
//! own term. So `(n - 1) / 2` blocks pass between neighbours in each direction, in `n / 2` steps; an all-reduce is both, one after
//! the other. This fixes the order in which floats are added, the same on every run.

use super::{Arrival, Round, Rounds};

/// The starts of the two segments of each of `counts`, and the end of the last; halves end between elements of `unit` bytes.
fn halves(counts: &[usize], unit: usize) -> Vec<usize> {
    let mut bounds = vec![0];
    let mut end = 0;
    for count in counts {
        bounds.extend([end + count / unit / 2 * unit, end + count]);
        end += count;
    }
    bounds
}

impl Rounds {
    /// An all-gather of blocks of `counts` bytes, one of each rank, in rank order; this rank's own is in place.
    ///
    /// ```text
    /// before   rank 0: a . .    rank 1: . b .    rank 2: . . c
    /// after    each rank: a b c
    /// ```
    #[must_use]
    pub fn ring_all_gather(rank: usize, counts: &[usize], unit: usize) -> Self {
        let steps = 1..=counts.len() / 2;
        // The previous rank forwards the block it received in the last step: that of the rank `far` places before this one.
        Self::ring(rank, counts, unit, steps, |far| [far - 1, far], Arrival::Replace)
    }

    /// A reduce-scatter of blocks of `counts` bytes, one for each rank, in rank order: this rank's block becomes the sum over all
    /// ranks, and the others are unspecified afterwards.
    ///
    /// ```text
    /// before   rank 0: a0 a1 a2     rank 1: b0 b1 b2     rank 2: c0 c1 c2
    /// after    rank 0: a0+b0+c0     rank 1: a1+b1+c1     rank 2: a2+b2+c2
    /// ```
    #[must_use]
    pub fn ring_reduce_scatter(rank: usize, counts: &[usize], unit: usize) -> Self {
        let steps = (1..=counts.len() / 2).rev();
        // Sums for the rank `far` places ahead reach it from behind, so this rank sends them ahead: as if ranks were counted in reverse.
        Self::ring(rank, counts, unit, steps, |far| [far, far - 1], Arrival::Combine)
    }

    /// Steps around a ring, in each of which this rank sends ahead and back, and receives from behind and from ahead. `blocks`
    /// returns for a step the distance of the block that is sent, and of the one that is received.
    fn ring(
        rank: usize,
        counts: &[usize],
        unit: usize,
        steps: impl Iterator<Item = usize>,
        blocks: impl Fn(usize) -> [usize; 2],
        arrival: Arrival,
    ) -> Self {
        let n = counts.len();
        let (after, before) = (|far: usize| (rank + far) % n, |far: usize| (rank + n - far) % n);
        let mut rounds = Vec::new();
        for far in steps {
            let [sent, received] = blocks(far);
            for side in 0..2 {
                // Blocks sent ahead are those of the ranks behind if blocks are gathered, and for the ranks ahead if they are summed up.
                let of_behind = (side == 0) == (arrival == Arrival::Replace);
                let block = |far| if of_behind { before(far) } else { after(far) };
                let (to, from) = if side == 0 { (after(1), before(1)) } else { (before(1), after(1)) };
                let half = if 2 * far == n { side..side + 1 } else { 0..2 };
                let segments = |far| 2 * block(far) + half.start..2 * block(far) + half.end;
                let receive = Round::receive(from, segments(received), arrival);
                rounds.push(Round { send: Some((to, segments(sent))), ..receive });
            }
        }
        Self { bounds: halves(counts, unit), rounds }
    }
}

#[cfg(test)]
mod tests {
    use super::super::replay::replay;
    use super::*;

    fn all(size: usize, rounds: impl Fn(usize, &[usize]) -> Rounds) -> Vec<Rounds> {
        let counts: Vec<usize> = (0..size).map(|rank| rank % 3).collect();
        (0..size).map(|rank| rounds(rank, &counts)).collect()
    }

    #[test]
    fn an_all_gather_gives_every_rank_each_block() {
        for size in 1..=64 {
            let ended = replay(&all(size, |rank, counts| Rounds::ring_all_gather(rank, counts, 1)));
            let blocks: Vec<Vec<usize>> = (0..2 * size).map(|segment| vec![segment / 2]).collect();
            assert_eq!(ended, Ok(vec![blocks; size]));
        }
    }

    #[test]
    fn a_reduce_scatter_gives_every_rank_its_sum() {
        for size in 1..=64 {
            let ended = replay(&all(size, |rank, counts| Rounds::ring_reduce_scatter(rank, counts, 1))).expect("sums");
            for (rank, values) in ended.iter().enumerate() {
                for value in &values[2 * rank..2 * rank + 2] {
                    let mut terms = value.clone();
                    terms.sort_unstable();
                    assert!(terms.into_iter().eq(0..size), "rank {rank} of {size}: {value:?}");
                }
            }
        }
    }

    #[test]
    fn an_all_reduce_is_both() {
        for size in 1..=64 {
            let both = |rank, counts: &[usize]| {
                Rounds::ring_reduce_scatter(rank, counts, 1).then(Rounds::ring_all_gather(rank, counts, 1))
            };
            let ended = replay(&all(size, both)).expect("sums");
            // All ranks have the same sums, in the same order.
            assert!(ended.iter().all(|values| *values == ended[0]), "{size} ranks");
            assert!(ended[0].iter().all(|value| value.len() == size), "{size} ranks");
        }
    }

    #[test]
    fn between_neighbours_pass_half_of_the_others_blocks_in_each_direction() {
        for size in 2..=9 {
            let rounds = Rounds::ring_all_gather(0, &vec![16; size], 8);
            for (to, side) in [(1, "ahead"), (size - 1, "back")] {
                let sent = rounds.rounds.iter().filter_map(|round| round.send.clone()).filter(|send| send.0 == to);
                let bytes: usize = sent
                    .flat_map(|(_, segments)| segments)
                    .map(|nth| rounds.bounds[nth + 1] - rounds.bounds[nth])
                    .sum();
                let ways = if size == 2 { 2 } else { 1 };
                assert_eq!(bytes, ways * 8 * (size - 1), "{size} ranks, {side}");
            }
        }
    }

    #[test]
    fn halves_cut_nothing_inside_an_element() {
        assert_eq!(halves(&[24, 0, 8, 4], 4), [0, 12, 24, 24, 24, 28, 32, 32, 36]);
        assert_eq!(halves(&[40, 8], 8), [0, 16, 40, 40, 48]);
    }
}
