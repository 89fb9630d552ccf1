//! The mesh of an example: as asked for on the command line, or what suits the ranks that there are.

use polyshard::Mesh;
use polyshard::cli::axes::Axes;
use polyshard::machine::units::counted;

/// Returns the mesh of the example `name`, whose axes have these names.
///
/// Without `--mesh` it has the ranks that an MPI launcher started, else `ranks`, in the extents that `shape` makes of
/// them.
///
/// # Errors
/// If another number of axes is asked for.
pub fn mesh<const N: usize>(
    name: &str,
    asked: Option<&Axes>,
    names: [&str; N],
    ranks: usize,
    shape: impl Fn(usize) -> [usize; N],
) -> Result<Mesh, String> {
    let launched = polyshard::runtime::launched_ranks().unwrap_or(ranks);
    let axes = asked.cloned().unwrap_or_else(|| Axes::unnamed(&shape(launched)));
    let found = axes.extents().len();
    if found != N {
        let (needs, like) = (counted(N, "axis"), Axes::unnamed(&shape(ranks)));
        return Err(format!(
            "`{name}` runs on a mesh of {needs}, but `--mesh {axes}` has {found}; give one like {like}"
        ));
    }
    Ok(axes.mesh(|nth| names[nth].to_owned()))
}

/// The extents of a mesh that are as equal as the number of ranks allows, smaller ones first.
pub fn balanced<const N: usize>(ranks: usize) -> [usize; N] {
    let mut left = ranks;
    std::array::from_fn(|nth| {
        let axes = (N - nth) as u32;
        let fits = |extent: &usize| left.is_multiple_of(*extent) && extent.checked_pow(axes).is_some_and(|p| p <= left);
        let extent = (1..=left).rev().find(fits).unwrap_or(1);
        left /= extent;
        extent
    })
}
