//! All parallelism matrices of a hierarchy and axes.
//!
//! Levels are filled from the outermost inwards, each in all ways to split its count over the rest of the axes. No
//! split is a dead end: for each prime, the rest of the axes and the rest of the levels have the same total, and such
//! tables can always be filled. So the work is that of listing the matrices.

use super::{ParallelismMatrix, PlacementError};
use crate::factor::{divisors, gcd};
use std::collections::HashMap;

/// Returns all matrices that place these axes on this hierarchy, by their columns, outermost level first.
///
/// ```text
/// product over levels of x[axis][level] = axes[axis]       product over axes of x[axis][level] = hierarchy[level]
/// ```
///
/// ```
/// use polyshard::planner::placement::matrices;
/// let all: Vec<_> = matrices(&[4, 16], &[4, 16])?.iter().map(ToString::to_string).collect();
/// assert_eq!(all, ["[[1 4] [4 4]]", "[[2 2] [2 8]]", "[[4 1] [1 16]]"]);
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// If levels or axes are missing, one of them has size 0, or the products of the two differ: the error then says
/// which axis would fit.
pub fn matrices(hierarchy: &[usize], axes: &[usize]) -> Result<Vec<ParallelismMatrix>, PlacementError> {
    check(hierarchy, axes)?;
    let mut columns = Vec::new();
    let mut found = Vec::new();
    fill(hierarchy, axes, &mut columns, &mut found);
    let matrix = |columns: &Vec<Vec<usize>>| {
        let row = |axis: usize| columns.iter().map(|column| column[axis]).collect();
        ParallelismMatrix::new((0..axes.len()).map(row).collect())
    };
    found.iter().map(matrix).collect()
}

/// Returns the number of matrices that [`matrices`] would return, saturating.
///
/// Levels are filled in the same way, but the remaining extents of the axes are counted once, up to their order.
///
/// ```
/// use polyshard::planner::placement::count;
/// assert_eq!(count(&[4, 16], &[8, 2, 4])?, 5);
/// assert_eq!(count(&[8; 6], &[8; 6])?, 20_933_840); // 6 by 6 tables whose rows and columns add up to 3
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// As [`matrices`].
pub fn count(hierarchy: &[usize], axes: &[usize]) -> Result<u128, PlacementError> {
    check(hierarchy, axes)?;
    Ok(ways(hierarchy, axes, &mut HashMap::new()))
}

fn check(hierarchy: &[usize], axes: &[usize]) -> Result<(), PlacementError> {
    let [devices, ranks] = [("level", "levels", hierarchy), ("axis", "axes", axes)].map(product);
    match devices? == ranks? {
        true => Ok(()),
        false => Err(PlacementError::Sizes { hierarchy: hierarchy.to_vec(), axes: axes.to_vec() }),
    }
}

fn product((what, plural, sizes): (&'static str, &'static str, &[usize])) -> Result<usize, PlacementError> {
    if sizes.is_empty() {
        return Err(PlacementError::Nothing { what });
    }
    if let Some(position) = sizes.iter().position(|&size| size == 0) {
        return Err(PlacementError::Zero { what, position });
    }
    let product = sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
    product.ok_or_else(|| PlacementError::TooLarge { what: plural, sizes: sizes.to_vec() })
}

/// Adds to `found` the columns so far with all ways to fill the remaining levels.
fn fill(levels: &[usize], axes: &[usize], columns: &mut Vec<Vec<usize>>, found: &mut Vec<Vec<Vec<usize>>>) {
    let [level, inner @ ..] = levels else {
        found.push(columns.clone());
        return;
    };
    for column in splits(*level, axes) {
        let left: Vec<usize> = axes.iter().zip(&column).map(|(axis, factor)| axis / factor).collect();
        columns.push(column);
        fill(inner, &left, columns, found);
        columns.pop();
    }
}

/// The number of ways to fill these levels; `known` caches it by the number of levels and the axes in ascending order.
fn ways(levels: &[usize], axes: &[usize], known: &mut HashMap<(usize, Vec<usize>), u128>) -> u128 {
    let [level, inner @ ..] = levels else { return 1 };
    let mut axes = axes.to_vec();
    axes.sort_unstable();
    let key = (levels.len(), axes);
    if let Some(&ways) = known.get(&key) {
        return ways;
    }
    let left = |column: Vec<usize>| key.1.iter().zip(column).map(|(axis, factor)| axis / factor).collect::<Vec<_>>();
    let found = splits(*level, &key.1).into_iter().map(|column| ways(inner, &left(column), known));
    let found = found.fold(0, u128::saturating_add);
    known.insert(key, found);
    found
}

/// The ways to write `count` as a product of one divisor of each axis, ascending.
fn splits(count: usize, axes: &[usize]) -> Vec<Vec<usize>> {
    let [axis, others @ ..] = axes else {
        return if count == 1 { vec![vec![]] } else { vec![] };
    };
    let with = |factor: usize| {
        let rest = splits(count / factor, others).into_iter();
        rest.map(move |rest| [&[factor], &rest[..]].concat())
    };
    divisors(gcd(count, *axis)).into_iter().flat_map(with).collect()
}
