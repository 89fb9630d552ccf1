//! Reductions: which ranks combine which terms, step by step, and the proof that each term is combined once.
//!
//! Ranks in groups hold an array each, and each is to get the sum over its group. A [`Procedure`] says how: by collectives
//! in groups of ranks ([`Lowered`]), which are proved, or in one fixed order.
//!
//! | file | holds |
//! | --- | --- |
//! | `state`, `rules` | which ranks' data is summed in which chunk, and how collectives change that |
//! | `lowered` | steps: collectives in groups of ranks |
//! | `proof` | the proof that they compute the sum |
//! | `chunk` | chunks as ranges of an array of any length |
//! | `procedure` | proved steps or the order of the ranks, and the elements that each rank receives |
//! | `text` | procedures as text |
//!
//! Steps are data: this module does not say which are fast, and moves nothing.

mod chunk;
mod error;
mod lowered;
mod procedure;
mod proof;
mod rules;
mod state;
mod text;

pub use chunk::chunk;
pub use error::ReductionError;
pub use lowered::{Lowered, LoweredStep};
pub use polyshard_layout::Collective;
use polyshard_layout::joined;
pub use procedure::Procedure;
pub use rules::{COLLECTIVES, Effect, Violation};
pub use state::Context;

/// Returns groups of ranks as they are written: the first few, and how many more there are.
#[must_use]
pub fn listed(groups: &[Vec<usize>]) -> String {
    const SHOWN: usize = 4;
    let written = |group: &Vec<usize>| joined(group, " ");
    let shown = groups.iter().take(SHOWN).map(|group| format!("{{{}}}", written(group)));
    let text = joined(shown, " ");
    match groups.len().checked_sub(SHOWN) {
        None | Some(0) => text,
        Some(more) => format!("{text} and {more} more"),
    }
}
