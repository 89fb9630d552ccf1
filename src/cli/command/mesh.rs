//! Meshes to plan on, sizes, counts and matrices in the words of a command line: `x=4,y=6`, `4,16`, `[[1,4],[4,4]]`.
//!
//! Everything is read by hand, so that what is wrong is said with the text in which it is.

use crate::cli::axes::Axes;
use crate::{Mesh, ParallelismMatrix};
use std::num::IntErrorKind;

/// The most ranks of a mesh: plans list groups rank by rank.
const RANKS: usize = 1 << 20;

/// Returns the mesh with these axes, outermost first.
///
/// # Errors
/// If a name cannot be one or is there twice, an axis has no coordinate, or there are too many ranks.
pub(crate) fn mesh(axes: &[(String, usize)]) -> Result<Mesh, String> {
    for (nth, (name, extent)) in axes.iter().enumerate() {
        if name.is_empty() || name.contains('"') {
            return Err(format!("`{name}` cannot name a mesh axis; write letters, digits and `_`"));
        }
        if *extent == 0 {
            return Err(format!("axis `{name}` of the mesh has extent 0; an axis has at least one coordinate"));
        }
        if axes[..nth].iter().any(|(other, _)| other == name) {
            return Err(format!("the mesh has two axes named `{name}`; give each axis its own name"));
        }
    }
    check_ranks(axes.iter().map(|(_, extent)| *extent))?;
    Ok(Mesh::new(axes.iter().map(|(name, extent)| (name.as_str(), *extent))))
}

/// Reads the mesh `x=4,y=6`, or `4x6`, whose axes are then called by these names.
///
/// # Errors
/// If it is neither, there are too many ranks, or more axes without a name than names.
pub fn named_mesh(text: &str, names: [&str; 3]) -> Result<Mesh, String> {
    let axes: Axes = text.parse()?;
    let count = axes.extents().len();
    if !axes.are_named() && count > names.len() {
        let like: Vec<_> = axes.extents().iter().enumerate().map(|(nth, extent)| format!("a{nth}={extent}")).collect();
        return Err(format!("the mesh `{text}` has {count} axes without names; name them, as in {}", like.join(",")));
    }
    let mesh = axes.mesh(|nth| names[nth].to_owned());
    check_ranks(mesh.as_slice().iter().map(|axis| axis.extent))?;
    Ok(mesh)
}

/// Checks that a mesh is small enough to plan on.
fn check_ranks(mut extents: impl Iterator<Item = usize>) -> Result<(), String> {
    match extents.try_fold(1usize, |ranks, extent| ranks.checked_mul(extent)) {
        Some(..=RANKS) => Ok(()),
        _ => Err(format!("the mesh has more than {RANKS} ranks; plan on a smaller one")),
    }
}

/// Reads `I=8,J=16`; `like` is what else to write.
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
pub fn numbers(what: &str, text: &str, like: &str) -> Result<Vec<usize>, String> {
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
/// If it is neither, or not a matrix.
pub fn matrix(text: &str) -> Result<ParallelismMatrix, String> {
    let commas = || text.split_whitespace().collect::<Vec<_>>().join(",");
    let rows = serde_json::from_str::<Vec<Vec<usize>>>(text).or_else(|_| serde_json::from_str(&commas()));
    let rows =
        rows.map_err(|_| format!("cannot read the matrix `{text}`; write a row for each axis, such as [[1,4],[4,4]]"))?;
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
