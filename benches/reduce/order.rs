//! Agreement of two rankings.

/// Spearman's rank correlation of two lists of equal length: 1 if their orders agree. Equal values share their ranks.
///
/// NaN if all values of one list are equal.
pub(crate) fn spearman(left: &[f64], right: &[f64]) -> f64 {
    let (left, right) = (ranks(left), ranks(right));
    let mean = (left.len() as f64 - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    product(&left, &right) / (product(&left, &left) * product(&right, &right)).sqrt()
}

/// The number of pairs that are ordered the same way in `expected`, among those more than a tenth apart in `measured`,
/// and the number of the latter.
pub(crate) fn pairs_in_order(measured: &[f64], expected: &[f64]) -> (usize, usize) {
    let n = measured.len();
    let pairs = (0..n).flat_map(|a| (0..n).map(move |b| (a, b)));
    let apart: Vec<_> = pairs.filter(|&(a, b)| measured[a] > 1.1 * measured[b]).collect();
    (apart.iter().filter(|&&(a, b)| expected[a] > expected[b]).count(), apart.len())
}

/// The rank of each value, from 0; equal values get the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let less = values.iter().filter(|other| *other < value && !alike(other, value)).count();
        let equal = values.iter().filter(|other| alike(other, value)).count();
        less as f64 + (equal as f64 - 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

/// Whether two values are equal up to rounding from a different order of summation.
fn alike(left: &f64, right: &f64) -> bool {
    (left - right).abs() <= 1e-9 * left.abs()
}
