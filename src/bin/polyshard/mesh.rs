//! Meshes, sizes, counts and matrices in the words of a command line: `x=4,y=6`, `4,16`, `[[1,4],[4,4]]`.
//!
//! Everything is read by hand, so that what is wrong is said with the text in which it is.

use polyshard::{Mesh, ParallelismMatrix};
use std::num::IntErrorKind;

/// The most ranks of a mesh: plans list groups rank by rank.
const RANKS: usize = 1 << 20;

/// Returns the mesh with these axes, outermost first.
///
/// # Errors
/// If a name is none or there twice, an axis has no coordinate, or there are too many ranks.
pub(crate) fn mesh(axes: &[(String, usize)]) -> Result<Mesh, String> {
    for (nth, (name, extent)) in axes.iter().enumerate() {
        if name.is_empty() || name.contains('"') {
            return Err(format!("`{name}` is no name of a mesh axis; write one of letters, digits and `_`"));
        }
        if *extent == 0 {
            return Err(format!("axis `{name}` of the mesh has extent 0; an axis has at least one coordinate"));
        }
        if axes[..nth].iter().any(|(other, _)| other == name) {
            return Err(format!("the mesh has two axes named `{name}`; give each axis its own name"));
        }
    }
    let ranks = axes.iter().try_fold(1usize, |ranks, (_, extent)| ranks.checked_mul(*extent));
    if ranks.is_none_or(|ranks| ranks > RANKS) {
        return Err(format!("the mesh has more than {RANKS} ranks; plan on a smaller one"));
    }
    Ok(Mesh::new(axes.iter().map(|(name, extent)| (name.as_str(), *extent))))
}

/// Reads `x=4,y=6`; `like` is what else to write.
///
/// # Errors
/// If it is not names and whole numbers, or one is too large.
pub(crate) fn pairs(what: &str, text: &str, like: &str) -> Result<Vec<(String, usize)>, String> {
    let pair = |pair: &str| {
        let (name, number) = pair.split_once('=')?;
        let name = name.trim();
        let is_name =
            name.chars().all(|c| c.is_alphanumeric() || c == '_') && !name.starts_with(|c: char| c.is_ascii_digit());
        (is_name && !name.is_empty()).then_some((name.to_owned(), whole(number)?))
    };
    let read = |part: &str| match pair(part) {
        Some((name, Ok(number))) => Ok((name, number)),
        Some((_, Err(TooLarge))) => Err(too_large(what, text, part)),
        None => {
            Err(format!("cannot read `{part}` in the {what} `{text}`; write names and whole numbers, such as {like}"))
        }
    };
    text.split(',').map(read).collect()
}

/// Reads `4,16`; `like` is what else to write.
///
/// # Errors
/// If it is not whole numbers, or one is too large.
pub(crate) fn numbers(what: &str, text: &str, like: &str) -> Result<Vec<usize>, String> {
    let read = |part: &str| match whole(part) {
        Some(Ok(number)) => Ok(number),
        Some(Err(TooLarge)) => Err(too_large(what, text, part)),
        None => Err(format!("cannot read `{part}` in the {what} `{text}`; write whole numbers, such as {like}")),
    };
    text.split(',').map(read).collect()
}

/// Reads a parallelism matrix as JSON, or as it is printed, `[[1 4] [4 4]]`.
///
/// # Errors
/// If it is neither, or is no matrix.
pub(crate) fn matrix(text: &str) -> Result<ParallelismMatrix, String> {
    let commas = || text.split_whitespace().collect::<Vec<_>>().join(",");
    let rows = serde_json::from_str::<Vec<Vec<usize>>>(text).or_else(|why| {
        serde_json::from_str(&commas()).map_err(|_| {
            format!("cannot read the matrix `{text}`: {why}; write a row for each axis, such as [[1,4],[4,4]]")
        })
    })?;
    ParallelismMatrix::new(rows).map_err(|why| format!("the matrix `{text}`: {why}"))
}

/// A whole number that does not fit.
struct TooLarge;

/// Reads a whole number, if it is one.
fn whole(text: &str) -> Option<Result<usize, TooLarge>> {
    match text.trim().parse::<usize>() {
        Ok(number) => Some(Ok(number)),
        Err(why) if *why.kind() == IntErrorKind::PosOverflow => Some(Err(TooLarge)),
        Err(_) => None,
    }
}

fn too_large(what: &str, text: &str, part: &str) -> String {
    format!("`{part}` in the {what} `{text}` is more than can be counted; give a smaller number")
}
