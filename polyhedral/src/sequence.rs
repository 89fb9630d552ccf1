//! Kernels of a file or a block as a sequence, in the rounds around them.

use polyshard_dsl::{Carry, Rounds};
use polyshard_planner::Sequence;
use std::ops::Range;

/// Returns the sequence of the kernels with these numbers, in the rounds around them, outer rounds first. `append` adds
/// a kernel to a sequence.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::search::in_rounds;
/// use polyshard::text::Rounds;
/// let matmul = kernel! {
///     fn matmul(A: [f32; 4, 4], B: [f32; 4, 4]) -> C: [f32; 4, 4] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// let product = matmul.lower()?;
/// // X, W X, W (W X) ..
/// let rounds = Rounds::new(10, 0..1).carry("Y", "X");
/// let sequence = in_rounds(|sequence, _| sequence.stage(&product, ["W", "X"], "Y"), 0..1, &[rounds]);
/// assert_eq!(sequence.build().expect("they fit").body().rounds[0].times, 10);
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Panics
/// If rounds name kernels that do not exist, and `append` panics for them.
pub fn in_rounds(
    append: impl Copy + Fn(Sequence, usize) -> Sequence,
    kernels: Range<usize>,
    rounds: &[Rounds],
) -> Sequence {
    let (mut sequence, mut next) = (Sequence::new(), kernels.start);
    while next < kernels.end {
        match rounds.iter().position(|rounds| rounds.kernels.start == next) {
            Some(nth) => {
                let around = &rounds[nth];
                let mut round = in_rounds(append, around.kernels.clone(), &rounds[nth + 1..]);
                for Carry { first, next, value } in &around.carried {
                    round = round.carry_from(*first, *next, *value);
                }
                if let Some((scalar, below)) = around.until {
                    round = round.until(scalar, below);
                }
                sequence = sequence.repeat(around.times, round);
                next = around.kernels.end;
            }
            None => {
                sequence = append(sequence, next);
                next += 1;
            }
        }
    }
    sequence
}
