//! Sizes on the command line.

use super::numbers::whole;
use polyshard::planner::units::counted;

/// Reads extents with commas between them, such as those of `example`; `names` has theirs, in words.
pub(crate) fn parse_extents<const N: usize>(text: &str, names: &str, example: &str) -> Result<[usize; N], String> {
    let extents: Result<Vec<usize>, _> = text.split(',').map(whole).collect();
    let extents = extents.map_err(|_| format!("give {names} as integers of at least 0, such as {example}"))?;
    extents.try_into().map_err(|found: Vec<usize>| {
        format!("found {}; give {names}, such as {example}", counted(found.len(), "extent"))
    })
}
