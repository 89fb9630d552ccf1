//! Runs lowered programs on numbers, by the meaning of the collectives and not by the rules about them.

use polyshard_program::reduction::{Collective, Lowered};
use std::collections::BTreeMap;

/// The data of a rank: numbers by chunk.
type Held = BTreeMap<usize, i64>;

/// Runs a program on an array of one number per chunk and asserts that each rank ends with its group's sums.
pub fn check(lowered: &Lowered) {
    // Distinct for each rank and chunk, and no sum of two equals that of two others.
    let number = |rank: usize, chunk: usize| ((rank * 31 + 7) as i64).pow(3) + (chunk * chunk * 1009) as i64;
    let mut data: Vec<Held> = (0..lowered.ranks())
        .map(|rank| (0..lowered.chunks()).map(|chunk| (chunk, number(rank, chunk))).collect())
        .collect();
    for step in lowered.steps() {
        for group in step.groups.iter() {
            let held: Vec<Held> = group.iter().map(|&rank| std::mem::take(&mut data[rank])).collect();
            for (&rank, after) in group.iter().zip(run(step.collective, held)) {
                data[rank] = after;
            }
        }
    }
    for group in lowered.reduced() {
        let sum = |chunk: usize| group.iter().map(|&rank| number(rank, chunk)).sum::<i64>();
        let sums: Held = (0..lowered.chunks()).map(|chunk| (chunk, sum(chunk))).collect();
        for &rank in group {
            assert_eq!(data[rank], sums, "rank {rank} of {group:?}");
        }
    }
}

fn run(collective: Collective, held: Vec<Held>) -> Vec<Held> {
    let n = held.len();
    let sum = || {
        let mut sum = Held::new();
        held.iter().flatten().for_each(|(chunk, number)| *sum.entry(*chunk).or_default() += number);
        sum
    };
    match collective {
        Collective::AllReduce => vec![sum(); n],
        Collective::Reduce => [sum()].into_iter().chain(std::iter::repeat_n(Held::new(), n - 1)).collect(),
        Collective::ReduceScatter => {
            let sum: Vec<_> = sum().into_iter().collect();
            sum.chunks(sum.len() / n).map(|piece| piece.iter().copied().collect()).collect()
        }
        Collective::AllGather => vec![held.iter().flatten().map(|(chunk, number)| (*chunk, *number)).collect(); n],
        Collective::Broadcast => vec![held[0].clone(); n],
        other => panic!("{other} in a reduction"),
    }
}
