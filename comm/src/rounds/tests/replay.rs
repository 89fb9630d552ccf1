//! The rounds of all ranks, replayed on values without threads, messages or memory, to prove that they implement a collective.
//!
//! A value is the list of the ranks whose terms it has, in the order in which they were combined. A message carries the numbers of its
//! segments, so that a wrong match is detected, and a rank that waits for ever is a deadlock. Ranks do not wait for their sends, and
//! receive messages of one sender in order, so the result does not depend on the order in which ranks proceed.

use super::{Arrival, Rounds};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// The values of one rank's segments.
pub(super) type Values = Vec<Vec<usize>>;

/// The numbers of segments, and their values.
type Message = (Range<usize>, Values);

/// Replays the rounds of all ranks, each of which begins with its own term in all segments; returns their final values.
///
/// # Errors
/// The fault, its rank and its round.
pub(super) fn replay(all: &[Rounds]) -> Result<Vec<Values>, String> {
    let bounds = &all[0].bounds;
    if all.iter().any(|rounds| rounds.bounds != *bounds) {
        return Err("the ranks have other segments".into());
    }
    let mut values: Vec<Values> = (0..all.len()).map(|rank| vec![vec![rank]; bounds.len() - 1]).collect();
    let mut links: HashMap<(usize, usize), VecDeque<Message>> = HashMap::new();
    // The next round of each rank, and whether it has sent in it.
    let mut at = vec![(0, false); all.len()];
    let mut goes_on = true;
    while std::mem::take(&mut goes_on) {
        for (rank, rounds) in all.iter().enumerate() {
            while let Some(round) = rounds.rounds.get(at[rank].0) {
                if let (Some((to, segments)), false) = (&round.send, at[rank].1) {
                    if *to >= all.len() || *to == rank {
                        return Err(format!("rank {rank} sends to {to} in round {}", at[rank].0));
                    }
                    let message = (segments.clone(), values[rank][segments.clone()].to_vec());
                    links.entry((rank, *to)).or_default().push_back(message);
                    goes_on = true;
                }
                at[rank].1 = true;
                if let Some(receive) = &round.receive {
                    let link = links.entry((receive.from, rank)).or_default();
                    let Some((segments, sent)) = link.pop_front() else { break };
                    if segments != receive.segments {
                        return Err(format!(
                            "rank {rank} gets segments {segments:?} in round {}: {receive:?}",
                            at[rank].0
                        ));
                    }
                    for (own, value) in values[rank][segments].iter_mut().zip(sent) {
                        *own = match receive.arrival {
                            Arrival::Replace => value,
                            Arrival::Combine => [value, std::mem::take(own)].concat(),
                        };
                    }
                }
                at[rank] = (at[rank].0 + 1, false);
                goes_on = true;
            }
        }
    }
    if let Some(rank) = (0..all.len()).find(|&rank| at[rank].0 < all[rank].rounds.len()) {
        return Err(format!("rank {rank} waits for ever in round {}", at[rank].0));
    }
    match links.iter().find(|(_, link)| !link.is_empty()) {
        Some(((from, to), _)) => Err(format!("nobody receives what {from} sends to {to}")),
        None => Ok(values),
    }
}

/// Calls `check` for sizes up to 64, all roots and up to 8 segments, with the replayed rounds of all ranks.
fn for_all(
    rounds: impl Fn(usize, usize, usize, Vec<usize>) -> Rounds,
    check: impl Fn(usize, usize, Result<Vec<Values>, String>),
) {
    for size in 1..=64 {
        for root in 0..size {
            for segments in 1..=8 {
                let bounds: Vec<usize> = (0..=segments).collect();
                let all: Vec<Rounds> = (0..size).map(|rank| rounds(size, rank, root, bounds.clone())).collect();
                check(size, root, replay(&all));
            }
        }
    }
}

/// Checks that rounds of (size, rank, root, bounds) give all ranks the root's data.
pub(super) fn check_broadcast(rounds: impl Fn(usize, usize, usize, Vec<usize>) -> Rounds) {
    for_all(rounds, |size, root, ended| {
        let ended = ended.unwrap_or_else(|wrong| panic!("from {root} of {size}: {wrong}"));
        assert!(ended.iter().flatten().all(|value| *value == [root]), "from {root} of {size}: {ended:?}");
    });
}

/// Checks that rounds of (size, rank, root, bounds) give the root each rank's term once, in rank order if `in_order`.
pub(super) fn check_sum(in_order: bool, rounds: impl Fn(usize, usize, usize, Vec<usize>) -> Rounds) {
    for_all(rounds, |size, root, ended| {
        let ended = ended.unwrap_or_else(|wrong| panic!("to {root} of {size}: {wrong}"));
        for value in &ended[root] {
            let mut terms = value.clone();
            if !in_order {
                terms.sort_unstable();
            }
            assert!(terms.into_iter().eq(0..size), "to {root} of {size}: {value:?}");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::Round;
    use super::*;

    fn said(rounds: [Vec<Round>; 2]) -> String {
        replay(&rounds.map(|rounds| Rounds { bounds: vec![0, 1, 2], rounds })).expect_err("these are no collective")
    }

    fn send(to: usize, segment: usize) -> Round {
        Round { send: Some((to, segment..segment + 1)), receive: None }
    }

    fn receive(from: usize, segment: usize) -> Round {
        Round::receive(from, segment..segment + 1, Arrival::Replace)
    }

    #[test]
    fn what_is_no_collective_is_found() {
        assert_eq!(
            said([vec![receive(1, 0), send(1, 0)], vec![receive(0, 0), send(0, 0)]]),
            "rank 0 waits for ever in round 0"
        );
        assert!(said([vec![send(1, 0)], vec![receive(0, 1)]]).starts_with("rank 1 gets segments 0..1 in round 0"));
        assert_eq!(said([vec![send(1, 0), send(1, 1)], vec![receive(0, 0)]]), "nobody receives what 0 sends to 1");
        assert_eq!(said([vec![send(0, 0)], vec![]]), "rank 0 sends to 0 in round 0");
        assert_eq!(said([vec![], vec![receive(0, 0)]]), "rank 1 waits for ever in round 0");
    }
}
