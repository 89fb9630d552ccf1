//! Sentences about ranks: which of them do what.
//!
//! Ranks that do the same are named together, so that the state of hundreds of ranks fits on one line.

use polyshard_layout::counted;
use serde::{Deserialize, Serialize};

/// The state of a rank while others wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Operation {
    /// It is not in any of our calls.
    Runs,
    /// Its part of the program has ended.
    Ended,
    /// Its process has ended, in the middle of the program.
    #[cfg(feature = "mpi")]
    Left,
    /// It waits: `in barrier`, `to receive 8 bytes from rank 2`.
    Waits(String),
    /// It is not in any of our calls, and its last wait is over.
    #[cfg(feature = "mpi")]
    RunsAfter(String),
    /// It does not answer.
    #[cfg(feature = "mpi")]
    Silent,
}

impl Operation {
    /// Returns the clause for one rank and for several.
    pub(super) fn clause(&self) -> [String; 2] {
        match self {
            Self::Runs => ["runs".into(), "run".into()],
            Self::Ended => ["has ended".into(), "have ended".into()],
            #[cfg(feature = "mpi")]
            Self::Left => ["has called `exit`".into(), "have called `exit`".into()],
            Self::Waits(wait) => [format!("waits {wait}"), format!("wait {wait}")],
            #[cfg(feature = "mpi")]
            Self::RunsAfter(wait) => [format!("runs, after it was {wait}"), format!("run, after they were {wait}")],
            #[cfg(feature = "mpi")]
            Self::Silent => ["does not answer".into(), "do not answer".into()],
        }
    }
}

/// Returns the message of a deadlock; `operation` has for each rank its number and its state.
pub(super) fn deadlock(operation: impl IntoIterator<Item = (usize, Operation)>) -> String {
    format!("the ranks wait for each other: {}", progress(operation))
}

/// Returns a sentence with the state of each rank.
pub(super) fn progress(operation: impl IntoIterator<Item = (usize, Operation)>) -> String {
    sentence(operation.into_iter().map(|(rank, operation)| (rank, operation.clause())), "; ")
}

/// Describes the wait of a rank that makes `call` with `members`, of a world of `world` ranks.
pub(super) fn within(call: &str, members: &[usize], world: usize) -> String {
    if members.len() == world { format!("in {call}") } else { format!("in {call} with {}", name(members)) }
}

/// Describes the wait of a rank for messages: the ranks that it receives from and sends to, and the bytes of each.
pub(super) fn messages(peers: [Vec<usize>; 2], bytes: [usize; 2]) -> String {
    let clauses = peers.into_iter().zip(bytes).zip(["to receive", "to send"].into_iter().zip(["from", "to"]));
    let clauses = clauses.filter(|((ranks, _), _)| !ranks.is_empty());
    let clauses = clauses.map(|((mut ranks, bytes), (verb, direction))| {
        ranks.sort_unstable();
        ranks.dedup();
        format!("{verb} {} {direction} {}", amount(bytes), name(&ranks))
    });
    clauses.collect::<Vec<_>>().join(" and ")
}

/// Formats a number of bytes.
pub(super) fn amount(bytes: usize) -> String {
    counted(bytes, "byte")
}

/// Joins the ranks' clauses into one sentence, equal clauses once: `rank 0 calls X, ranks 1 and 2 call Y`.
///
/// `clauses` has for each rank its number and its clause, for one rank and for several.
pub fn sentence(clauses: impl IntoIterator<Item = (usize, [String; 2])>, separator: &str) -> String {
    let mut parts: Vec<([String; 2], Vec<usize>)> = Vec::new();
    for (rank, does) in clauses {
        match parts.iter_mut().find(|part| part.0 == does) {
            Some(part) => part.1.push(rank),
            None => parts.push((does, vec![rank])),
        }
    }
    let parts = parts.iter().map(|([one, several], ranks)| {
        let does = if ranks.len() == 1 { one } else { several };
        format!("{} {does}", name(ranks))
    });
    parts.collect::<Vec<_>>().join(separator)
}

/// Names ranks: `rank 3`, `ranks 0 and 2`, `ranks 0 to 5 and 7`.
pub(super) fn name(ranks: &[usize]) -> String {
    if let [rank] = ranks {
        return format!("rank {rank}");
    }
    let mut runs: Vec<String> = Vec::new();
    let mut at = 0;
    while at < ranks.len() {
        let run = (at + 1..ranks.len()).take_while(|&i| ranks[i] == ranks[i - 1] + 1).count();
        if run >= 2 {
            runs.push(format!("{} to {}", ranks[at], ranks[at + run]));
            at += run + 1;
        } else {
            runs.push(ranks[at].to_string());
            at += 1;
        }
    }
    let last = runs.pop().expect("a group has a rank: this is a bug in polyshard");
    if runs.is_empty() { format!("ranks {last}") } else { format!("ranks {} and {last}", runs.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_named_by_runs() {
        assert_eq!(name(&[3]), "rank 3");
        assert_eq!(name(&[0, 1]), "ranks 0 and 1");
        assert_eq!(name(&[0, 1, 2]), "ranks 0 to 2");
        assert_eq!(name(&[0, 1, 2, 3, 5, 7, 8]), "ranks 0 to 3, 5, 7 and 8");
    }

    #[test]
    fn equal_clauses_are_said_once() {
        let clause = |rank, what: &str| (rank, [format!("calls {what}"), format!("call {what}")]);
        let clauses = [clause(0, "barrier"), clause(1, "split"), clause(2, "barrier")];
        assert_eq!(sentence(clauses, ", "), "ranks 0 and 2 call barrier, rank 1 calls split");
    }
}
