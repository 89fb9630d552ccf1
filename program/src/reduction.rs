//! Reductions: who combines what with whom, step by step, and the proof that all of it is combined once.
//!
//! Ranks in groups hold an array each, and each is to have the sum of its group's. A [`Procedure`] says how: by collectives
//! in groups of ranks ([`Lowered`]), which are proved, or in one fixed order.
//!
//! | file | holds |
//! | --- | --- |
//! | `state`, `rules` | who has added what to which chunk, and what collectives make of it |
//! | `lowered` | steps: collectives in groups of ranks |
//! | `proof` | that they compute the sum |
//! | `chunk` | chunks as ranges of an array of any length |
//! | `procedure` | proved steps or the order of the ranks, and what each rank receives |
//! | `text` | procedures as text |
//!
//! Steps are data: nothing here says which are fast, and nothing moves.

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
pub use procedure::{MoveReduction, Procedure};
pub use rules::{COLLECTIVES, Effect, Violation};
pub use state::Context;

/// Returns groups of ranks as they are written: the first few, and how many more there are.
#[must_use]
pub fn listed(groups: &[Vec<usize>]) -> String {
    const SHOWN: usize = 4;
    let written = |group: &Vec<usize>| group.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
    let shown = groups.iter().take(SHOWN).map(|group| format!("{{{}}}", written(group)));
    let text = shown.collect::<Vec<_>>().join(" ");
    match groups.len().checked_sub(SHOWN) {
        None | Some(0) => text,
        Some(more) => format!("{text} and {more} more"),
    }
}
