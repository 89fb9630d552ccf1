//! Rounds: statements that run repeatedly, on arrays that each round passes to the next one.

use crate::ids::ArrayId;
use polyshard_layout::each_once;
use serde::{Deserialize, Serialize};

/// Maximum number of rounds of a program, so that the bytes that they move can be counted.
pub const MOST_ROUNDS: u64 = 1 << 40;

/// How often the statements of [`Rounds`](crate::Statement::Rounds) run, and which arrays are carried from one round to the next.
///
/// ```text
/// A' is first A, and then B of the previous round
/// each round:  B = step(A')
/// afterwards:  A' is B of the last round
/// ```
///
/// A carried array is renamed, not copied: at the start of a round, `value` is the `next` of the previous round, and `first` in the first
/// round. All are renamed at once, so `next` may be the `value` of another one.
///
/// `next` is the next version of `value`: elements of `next` that its kernel does not write have the values that they have in `value`.
/// Arrays that are not carried start each round without values, with the initial value of their kernel's sums.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rounds {
    /// Maximum number of rounds; with 0, each `value` is its `first`.
    pub times: u64,
    /// The condition that ends the rounds earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// The arrays carried from one round to the next.
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

/// An array that is carried from one round to the next. All three have the same sharding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carried {
    /// The array in the first round: an input, or written before.
    pub first: ArrayId,
    /// The array that rounds read, and that exists afterwards.
    pub value: ArrayId,
    /// The array in the next round: a temporary that each round writes, or another carried array.
    pub next: ArrayId,
}

impl Rounds {
    /// Returns the arrays that are renamed between rounds, each once.
    #[must_use]
    pub fn renamed(&self) -> Vec<ArrayId> {
        each_once(self.carried.iter().flat_map(|carried| [carried.value, carried.next]))
    }

    /// Returns the arrays that outlast a round: the carried ones, their next versions, and the scalar that ends the rounds, each once.
    #[must_use]
    pub fn leaves(&self) -> Vec<ArrayId> {
        let mut all = self.renamed();
        all.extend(self.until.map(|until| until.scalar).filter(|scalar| !all.contains(scalar)));
        all
    }
}
