//! Rounds: statements that run again and again, on arrays that each round leaves to the next one.

use crate::ids::ArrayId;
use serde::{Deserialize, Serialize};

/// The most rounds that a program may have, so that what they move can be counted.
pub const MOST_ROUNDS: u64 = 1 << 40;

/// How often the statements of a [`Repeat`](crate::Statement::Repeat) run, and what goes from one round to the next.
///
/// ```text
/// A' is first A, and then B of the round before
/// each round:  B = step(A')
/// afterwards:  A' is B of the last round
/// ```
///
/// An array that is carried is renamed, not copied: where a round begins, `value` is what `next` was at the end of the round
/// before, and `first` in the first round. All are renamed at once, so `next` may be another one's `value`.
///
/// `next` is the next version of `value`: elements of `next` that the kernel which writes it does not write have the values that they have in
/// `value`. What is not carried starts each round without values, with what the sums of its kernel begin with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// The most rounds; with none, values are what they are first.
    pub times: u64,
    /// What ends the rounds before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// What goes from one round to the next.
    pub carried: Vec<Carried>,
}

/// Ends rounds after one that leaves a scalar below a bound; every rank has it, so all end after the same round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// An array without dimensions that each round writes, in every rank's memory.
    pub scalar: ArrayId,
    /// The bound.
    pub below: f64,
}

/// An array that goes from one round to the next. All three lie alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carried {
    /// What it is in the first round: an input, or written before.
    pub first: ArrayId,
    /// What rounds read, and what there is afterwards.
    pub value: ArrayId,
    /// What it is in the next round: a temporary that each round writes, or another one that is carried.
    pub next: ArrayId,
}

impl Repeat {
    /// Returns the arrays that change their names between rounds, each once.
    #[must_use]
    pub fn renamed(&self) -> Vec<ArrayId> {
        let mut all = Vec::new();
        for id in self.carried.iter().flat_map(|carried| [carried.value, carried.next]) {
            if !all.contains(&id) {
                all.push(id);
            }
        }
        all
    }

    /// Returns the arrays that are still there when a round ends: what is carried, what it is in the next round, and the scalar that ends
    /// the rounds, each once.
    #[must_use]
    pub fn leaves(&self) -> Vec<ArrayId> {
        let mut all = self.renamed();
        all.extend(self.until.map(|until| until.scalar).filter(|scalar| !all.contains(scalar)));
        all
    }
}
