//! Meshes on the command line.

/// The extents of a mesh; a type of its own because clap takes a `Vec` for several arguments.
#[derive(Clone, Debug)]
pub(crate) struct Extents(pub(crate) Vec<usize>);

/// Extents as they are written on the command line.
pub(crate) fn shown(extents: &[usize]) -> String {
    extents.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

/// The extents of a mesh of one or two axes, as square as the number of ranks allows.
pub(crate) fn most_square(ranks: usize, axes: usize) -> Vec<usize> {
    if axes == 1 {
        return vec![ranks];
    }
    let x = (1..=ranks.isqrt()).rev().find(|&x| ranks.is_multiple_of(x)).unwrap_or(1);
    vec![x, ranks / x]
}

/// Reads `2x3`.
pub(crate) fn parse_mesh(text: &str) -> Result<Extents, String> {
    let extents: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
    let extents = extents.map_err(|_| "give the ranks along each axis, such as 2x3")?;
    if extents.contains(&0) {
        return Err("each axis has at least 1 rank".into());
    }
    let ranks = extents.iter().try_fold(1usize, |ranks, &extent| ranks.checked_mul(extent));
    // Ranks of MPI are numbered by a C int, and no machine has more threads than that.
    match ranks.filter(|&ranks| ranks <= i32::MAX as usize) {
        Some(_) => Ok(Extents(extents)),
        None => Err(format!("no more than {} ranks are possible", i32::MAX)),
    }
}
