//! Sizes on the command line.

/// Reads extents with commas between them, such as those of `example`; `names` has theirs, in words.
pub(crate) fn parse_extents<const N: usize>(text: &str, names: &str, example: &str) -> Result<[usize; N], String> {
    let extents: Result<Vec<usize>, _> = text.split(',').map(|extent| extent.trim().parse()).collect();
    let extents = extents.map_err(|_| format!("give {names} as integers of at least 0, such as {example}"))?;
    let given = extents.len();
    extents.try_into().map_err(|_| format!("{given} extents are given; give {names}, such as {example}"))
}
