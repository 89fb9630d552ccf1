//! The mesh of an example: as asked for on the command line, or what suits the ranks that there are.

use super::axes::Axes;
use polyshard::Mesh;
use polyshard::planner::units::counted;

/// Returns the mesh of the example `name`, which runs on as many axes as `names` has; `unless_told` are their extents
/// without `--mesh` and without an MPI launcher.
///
/// # Errors
/// If another number of axes is asked for.
pub(crate) fn mesh(name: &str, asked: Option<&Axes>, names: &[&str], unless_told: &[usize]) -> Result<Mesh, String> {
    let axes = match (asked, polyshard::runtime::launched_ranks()) {
        (Some(axes), _) => axes.clone(),
        (None, Some(ranks)) => Axes::unnamed(&most_square(ranks, names.len())),
        (None, None) => Axes::unnamed(unless_told),
    };
    let found = axes.extents().len();
    if found != names.len() {
        let (needs, like) = (counted(names.len(), "axis"), Axes::unnamed(unless_told));
        return Err(format!(
            "`{name}` runs on a mesh of {needs}, but `--mesh {axes}` has {found}; give one like {like}"
        ));
    }
    Ok(axes.mesh(|nth| names[nth].to_owned()))
}

/// The extents of a mesh of one or two axes, as square as the number of ranks allows.
fn most_square(ranks: usize, axes: usize) -> Vec<usize> {
    if axes == 1 {
        return vec![ranks];
    }
    let x = (1..=ranks.isqrt()).rev().find(|&x| ranks.is_multiple_of(x)).unwrap_or(1);
    vec![x, ranks / x]
}
