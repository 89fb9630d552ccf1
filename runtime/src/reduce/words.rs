//! How axes and groups of ranks are written, and what the planner refuses.

use crate::Error;
use polyshard_planner::placement::PlacedMesh;
use std::fmt::Display;

/// Says what the planner refuses.
pub(super) fn usage(error: impl Display) -> Error {
    Error::Usage(error.to_string())
}

/// Axes in words.
pub(super) fn over(placed: &PlacedMesh, axes: &[usize]) -> String {
    match axes {
        [] => "no axis".into(),
        axes => {
            let names = axes.iter().map(|&axis| format!("`{}`", placed.mesh().as_slice()[axis].name));
            names.collect::<Vec<_>>().join(", ")
        }
    }
}

/// Groups of ranks as they are written: the first few, and how many more there are.
pub(super) fn listed(groups: &[Vec<usize>]) -> String {
    const SHOWN: usize = 4;
    let written = |group: &Vec<usize>| group.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
    let shown = groups.iter().take(SHOWN).map(|group| format!("{{{}}}", written(group)));
    let text = shown.collect::<Vec<_>>().join(" ");
    match groups.len().checked_sub(SHOWN) {
        None | Some(0) => text,
        Some(more) => format!("{text} and {more} more"),
    }
}
