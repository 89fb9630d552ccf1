//! Sizes on the command line.

use polyshard::cli::numbers::whole;
use polyshard::machine::units::counted;

/// Extents of indices; a type of its own because clap takes an array for several arguments.
#[derive(Clone, Copy)]
pub struct Size<const N: usize>(pub [usize; N]);

/// Returns a parser of extents with commas between them, such as those of `example`; `names` has theirs, in words.
pub fn parse_size<const N: usize>(
    names: &'static str,
    example: &'static str,
) -> impl Fn(&str) -> Result<Size<N>, String> + Clone {
    move |text| parse_extents(text, names, example).map(Size)
}

/// Reads extents with commas between them, such as those of `example`; `names` has theirs, in words.
pub fn parse_extents<const N: usize>(text: &str, names: &str, example: &str) -> Result<[usize; N], String> {
    let extents: Result<Vec<usize>, _> = text.split(',').map(whole).collect();
    let extents = extents.map_err(|_| format!("give {names} as integers of at least 0, such as {example}"))?;
    extents.try_into().map_err(|found: Vec<usize>| {
        format!("found {}; give {names}, such as {example}", counted(found.len(), "extent"))
    })
}
