//! The first failure of a world of threads, which ends every wait.

use crate::Error;

/// What went wrong first.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The ranks disagree or wait in a circle; the message names each of them.
    Mismatch(String),
    /// A rank returned an error or called abort.
    Error {
        /// Its number in the world.
        rank: usize,
        /// The error's message.
        message: String,
    },
    /// A rank panicked.
    Panic {
        /// Its number in the world.
        rank: usize,
        /// The panic's message.
        message: String,
    },
}

impl Failure {
    /// Names the lowest of the ranks that say the same: what all ranks find wrong is told by one of them, and
    /// always by the same one, whichever was the fastest.
    pub(super) fn merge(&mut self, later: &Self) {
        match (self, later) {
            (Self::Error { rank, message }, Self::Error { rank: other, message: same })
            | (Self::Panic { rank, message }, Self::Panic { rank: other, message: same })
                if message == same =>
            {
                *rank = (*rank).min(*other);
            }
            _ => {}
        }
    }

    /// Returns the error that the ranks get from whatever they wait in.
    pub(super) fn to_waiting(&self) -> Error {
        match self.clone() {
            Self::Mismatch(message) => Error::Mismatch(message),
            Self::Error { rank, message } => Error::Aborted { rank, message },
            Self::Panic { rank, message } => Error::Aborted { rank, message: format!("panic: {message}") },
        }
    }
}

/// Joins what ranks do into one sentence, equal parts once: `rank 0 calls X, ranks 1 and 2 call Y`.
///
/// `clauses` has for each rank its number and what it does, for one rank and for several.
pub(super) fn sentence(clauses: impl IntoIterator<Item = (usize, [String; 2])>, separator: &str) -> String {
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
    let last = runs.pop().expect("a group has a rank: this is a bug of polyshard");
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
