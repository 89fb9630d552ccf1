//! Meshes to plan on, sizes, counts and matrices on a command line: `x=4,y=6`, `4,16`, `[[1,4],[4,4]]`.
//!
//! Parsed by hand, so that errors quote the text.

use crate::axes;
use crate::error::{CliError, Result};
use polyshard::layout::{Mesh, Name, joined};
use polyshard::planner::placement::ParallelismMatrix;
use std::num::{IntErrorKind, ParseIntError};

/// Limit on the ranks of a mesh: plans list groups rank by rank.
const RANKS: usize = 1 << 20;

/// Returns the mesh with these names and extents of axes, outermost first.
pub(crate) fn mesh(axes: &[(String, usize)]) -> Result<Mesh> {
    if let Some((name, _)) = axes.iter().find(|(name, _)| !Name::new(name).is_identifier()) {
        let instead = "write letters, digits and `_`, a digit not first";
        return Err(CliError::refused(format!("`{name}` cannot name a mesh axis"), instead));
    }
    checked(Mesh::try_new(axes.iter().map(|(name, extent)| (name, *extent)))?)
}

/// Parses the mesh `x=4,y=6`, or `4x6`, whose axes get these names.
///
/// # Errors
/// If it is neither, has too many ranks, or more unnamed axes than `names`.
pub fn named_mesh(text: &str, names: [&str; 3]) -> Result<Mesh> {
    let mesh = axes::mesh(text, |nth| names.get(nth).map_or_else(|| format!("a{nth}"), ToString::to_string))?;
    let count = mesh.ndim();
    if !axes::are_named(text) && count > names.len() {
        let like = mesh.extents().into_iter().enumerate().map(|(nth, extent)| format!("a{nth}={extent}"));
        let what = format!("the mesh `{text}` has {count} axes without names");
        return Err(CliError::refused(what, format!("name them, as in {}", joined(like, ","))));
    }
    checked(mesh)
}

/// Checks that a mesh is small enough to plan on.
fn checked(mesh: Mesh) -> Result<Mesh> {
    match mesh.size() {
        ..=RANKS => Ok(mesh),
        _ => Err(CliError::refused(format!("the mesh has more than {RANKS} ranks"), "plan on a smaller one")),
    }
}

/// Parses `I=8,J=16`; `like` is an example for the error.
pub(crate) fn pairs(what: &'static str, text: &str, like: &str) -> Result<Vec<(String, usize)>> {
    let form = format!("names and whole numbers, such as {like}");
    let read = |part: &str| match part.split_once('=') {
        Some((name, number)) if Name::new(name.trim()).is_identifier() => {
            Ok((name.trim().to_owned(), whole(what, text, part, number, &form)?))
        }
        _ => Err(unreadable(what, text, part, &form)),
    };
    text.split(',').map(read).collect()
}

/// Parses `4,16`; `like` is an example for the error.
///
/// # Errors
/// If it is not whole numbers, or one is too large.
pub fn numbers(what: &'static str, text: &str, like: &str) -> Result<Vec<usize>> {
    let form = format!("whole numbers, such as {like}");
    text.split(',').map(|part| whole(what, text, part, part, &form)).collect()
}

/// Parses a parallelism matrix as JSON or as printed, `[[1 4] [4 4]]`.
///
/// # Errors
/// If it is neither, or not a matrix.
pub fn matrix(text: &str) -> Result<ParallelismMatrix> {
    let commas = || joined(text.split_whitespace(), ",");
    let rows = serde_json::from_str::<Vec<Vec<usize>>>(text).or_else(|_| serde_json::from_str(&commas()));
    let named = format!("the matrix `{text}`");
    let rows = rows.map_err(|_| CliError::unreadable(&*named, "a row for each axis, such as [[1,4],[4,4]]"))?;
    ParallelismMatrix::new(rows).map_err(|why| CliError::invalid(named, why))
}

/// Parses the number in a part of the `what` whose text is `text`.
fn whole(what: &'static str, text: &str, part: &str, number: &str, form: &str) -> Result<usize> {
    number.trim().parse().map_err(|why: ParseIntError| match why.kind() {
        IntErrorKind::PosOverflow => CliError::Uncountable { part: part.into(), what, text: text.into() },
        _ => unreadable(what, text, part, form),
    })
}

fn unreadable(what: &str, text: &str, part: &str, form: &str) -> CliError {
    CliError::unreadable(format!("`{part}` in the {what} `{text}`"), form)
}
