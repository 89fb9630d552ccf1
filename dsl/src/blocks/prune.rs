//! Statements whose values nothing uses are left out.

use super::{Elaborated, Part};
use std::collections::HashSet;

impl Elaborated {
    /// Leaves out kernels that neither a result nor the end of rounds depends on.
    pub(super) fn prune(&mut self) {
        let mut live: HashSet<String> = self.results.iter().map(|(_, version)| version.to_string()).collect();
        loop {
            let before = live.len();
            // Backwards, so that one pass follows all kernels between rounds.
            for Part { previous, reads, writes, .. } in self.kernels.iter().rev() {
                if live.contains(&writes.to_string()) {
                    let previous = previous.as_ref().map(|previous| &previous.array);
                    live.extend(reads.iter().chain(previous).map(ToString::to_string));
                }
            }
            for rounds in &self.rounds {
                live.extend(rounds.needed(|value| live.contains(&value.to_string())));
            }
            if live.len() == before {
                break;
            }
        }
        let is_live: Vec<bool> = self.kernels.iter().map(|part| live.contains(&part.writes.to_string())).collect();
        let numbers: Vec<usize> =
            is_live.iter().scan(0, |next, live| Some(std::mem::replace(next, *next + usize::from(*live)))).collect();
        let count = is_live.iter().filter(|live| **live).count();
        let mut rows = Vec::with_capacity(self.rounds.len());
        let mut next = 0;
        self.rounds.retain_mut(|rounds| {
            let is_left = rounds.prune(
                |value| live.contains(&value.to_string()),
                |kernel| numbers.get(kernel).copied().unwrap_or(count),
            );
            rows.push(is_left.then_some(next));
            next += usize::from(is_left);
            is_left
        });
        let mut kept = is_live.iter();
        self.kernels.retain(|_| kept.next().is_some_and(|live| *live));
        self.unset.retain_mut(|(row, _)| match rows[*row] {
            Some(number) => {
                *row = number;
                true
            }
            None => false,
        });
    }
}
