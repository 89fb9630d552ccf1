//! Placements of a mesh on the levels of a machine.

use crate::DrawError;
use crate::devices::{Panel, devices};
use polyshard_planner::placement::ParallelismMatrix;

/// Returns a row for each placement of a mesh on `levels`, with a panel for each axis: the groups of devices along it.
///
/// ```
/// use polyshard::planner::placement::matrices;
/// let levels = [("node".to_owned(), 2), ("gpu".to_owned(), 4)];
/// let matrices = matrices(&[2, 4], &[2, 4])?;
/// let axes = ["data".to_owned(), "tensor".to_owned()];
/// let drawing = polyshard::draw::placements("2 nodes", &levels, &axes, &matrices)?;
/// assert!(drawing.contains("[[2 1] [1 4]], axis tensor"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`DrawError::Devices`] if there are too many for a page.
///
/// # Panics
/// If a matrix has fewer axes than are named, or more devices than the levels have.
pub fn placements<'a>(
    title: &str,
    levels: &[(String, usize)],
    axes: &[String],
    matrices: impl IntoIterator<Item = &'a ParallelismMatrix>,
) -> Result<String, DrawError> {
    let row = |matrix: &ParallelismMatrix| {
        let panel = |(position, axis): (usize, &String)| {
            let groups = matrix.groups(&[position]).expect("there is a row for each axis");
            Panel::around(format!("{matrix}, axis {axis}"), groups, "")
        };
        axes.iter().enumerate().map(panel).collect()
    };
    devices(title, levels, &matrices.into_iter().map(row).collect::<Vec<_>>())
}
