//! The sequential sum, and how far a distributed one may be from it.
//!
//! Every rank makes up what all ranks began with, so each judges its own result.

use polyshard::cli::values::{Number, element};
use polyshard::{DType, Mesh, PlacedMesh};

/// How far a result is from the sequential sum.
#[derive(Default)]
pub(crate) struct Verdict {
    /// The largest difference of two elements.
    pub(crate) error: f64,
    /// The same as a part of what rounding explains; infinite if it explains nothing.
    pub(crate) part: f64,
}

/// The ranks of the mesh that are summed with `rank`, in the order of the mesh.
pub(crate) fn members(placed: &PlacedMesh, axes: &[usize], rank: usize) -> Vec<usize> {
    let mesh: &Mesh = placed.mesh();
    let own = mesh.coordinates(rank);
    let alike = |other: &usize| {
        let at = mesh.coordinates(*other);
        (0..mesh.ndim()).all(|axis| axes.contains(&axis) || at[axis] == own[axis])
    };
    (0..mesh.size()).filter(alike).collect()
}

/// Compares `sum` with the sum of the members' arrays, from the first member to the last.
///
/// Integers must be equal. Two sums of n floats in two orders, with n - 1 roundings each, differ by no more than
/// 2 (n - 1) u / (1 - (n - 1) u) times the sum of magnitudes: N. Higham, "Accuracy and Stability of Numerical Algorithms",
/// section 3.1.
pub(crate) fn judge<T: Number>(dtype: DType, seed: u64, members: &[usize], sum: &[T]) -> Verdict {
    let roundoff = match dtype {
        DType::F32 => f64::from(f32::EPSILON) / 2.0,
        DType::F64 => f64::EPSILON / 2.0,
        _ => 0.0,
    };
    let roundings = (members.len() - 1) as f64 * roundoff;
    let bound = 2.0 * roundings / (1.0 - roundings);
    let mut verdict = Verdict::default();
    for (i, &sum) in sum.iter().enumerate() {
        let terms = members.iter().map(|&member| element::<T>(seed, &[member, i]));
        let expected = terms.clone().reduce(|sum, term| sum.add(term)).unwrap_or(T::ZERO);
        let error = sum.distance(expected);
        if error > 0.0 {
            let size: f64 = terms.map(|term| term.distance(T::ZERO)).sum();
            verdict.error = verdict.error.max(error);
            verdict.part = verdict.part.max(error / (bound * size));
        }
    }
    verdict
}
