//! Remainders solved for mesh coordinates: several placements `(..) % m` over axes that they share.
//!
//! Each placement is a congruence, `terms * coordinates = digits * factors + constant` modulo its own modulus. Elimination as
//! over the rationals brings them into a form in which each has an axis of its own, the pivot, with factor 1. A pivot's
//! factor must be invertible, and its axis must have as many coordinates as the modulus has remainders, since the solution
//! takes all of them. If there is no such axis, several that together number the remainders also work, if no other placement
//! uses them: `(x + 2 * y + 1) % 6` on (x: 2, y: 3).
//!
//! Congruences of different moduli combine if one modulus divides the other. A term that cannot be eliminated stays: its axis
//! is solved first, and its coordinate is known to the placements that depend on it.

use crate::linear::LinearAxes;
use crate::source::AxisSource;
use crate::{Digit, Mesh, ShardingError};
use num_integer::{Integer, gcd};

/// `sum of terms * coordinate = sum of digits * factor + constant`, modulo `modulus`.
struct Row {
    /// Index of the placement, for errors and to sort rows.
    placed: usize,
    modulus: i64,
    /// By axis position.
    terms: Vec<i64>,
    /// Digits with their factors.
    digits: Vec<(Digit, i64)>,
    constant: i64,
    /// The axes that it is solved for, each with its stride: one of stride 1, or the digits of a mixed-radix number.
    pivots: Vec<(usize, i64)>,
}

/// Solves the placements that are remainders. `known` are the axes that are pinned or solved by other placements; each of the
/// sources depends on earlier ones only.
pub(crate) fn solve(
    placed: &[(Digit, &LinearAxes)],
    known: &[usize],
    mesh: &Mesh,
) -> Result<Vec<(usize, AxisSource)>, ShardingError> {
    let mut rows: Vec<Row> =
        (0..placed.len()).filter_map(|index| Row::new(index, &placed[index], mesh.ndim())).collect();
    // Large moduli first: they have the smallest choice of axes. Ties by digit, so that the order of clauses does not matter.
    rows.sort_by_key(|row| (std::cmp::Reverse(row.modulus), placed[row.placed].0));
    for at in 0..rows.len() {
        let free = free(&rows, at, known, mesh);
        let Some(axis) = pivot(&mut rows, at, &free) else {
            let Some((unit, pivots)) = joint_pivots(&rows, at, known, mesh) else {
                return Err(refusal(&rows, at, known, placed[rows[at].placed].1, mesh));
            };
            rows[at].scale(unit);
            rows[at].pivots = pivots;
            continue;
        };
        let unit = inverse(rows[at].terms[axis], rows[at].modulus);
        rows[at].scale(unit);
        rows[at].pivots = vec![(axis, 1)];
        for other in (0..rows.len()).filter(|&other| other != at) {
            eliminate(&mut rows, axis, at, other);
        }
    }
    ordered(&rows, mesh).ok_or_else(|| {
        let linear = placed[rows[0].placed].1;
        unsolved(linear, mesh)
    })
}

fn unsolved(linear: &LinearAxes, mesh: &Mesh) -> ShardingError {
    let why = "no formula for the owners of its blocks was found";
    let help = "let the modulus be the extent of an axis that no other dimension uses, or place by a list of axes, as in \
                `[x, y]`";
    ShardingError::Unsupported { expr: linear.expr(mesh), why, help }
}

impl Row {
    fn new(placed: usize, (digit, linear): &(Digit, &LinearAxes), axes: usize) -> Option<Self> {
        let modulus = linear.modulus.filter(|&modulus| modulus > 1)?;
        let mut terms = vec![0; axes];
        for &(axis, factor) in &linear.terms {
            terms[axis] = factor % modulus;
        }
        let constant = -(linear.constant % modulus);
        Some(Self { placed, modulus, terms, digits: vec![(*digit, 1)], constant, pivots: Vec::new() })
    }

    fn scale(&mut self, factor: i64) {
        let modulus = self.modulus;
        let by = |value: &mut i64| *value = reduced(i128::from(*value) * i128::from(factor), modulus);
        self.terms.iter_mut().for_each(by);
        self.digits.iter_mut().for_each(|digit| by(&mut digit.1));
        by(&mut self.constant);
    }

    /// Subtracts `factor` times another row, whose modulus is a multiple of this one's.
    fn subtract(&mut self, other: &Row, factor: i64) {
        let modulus = self.modulus;
        let less = |value: i64, by: i64| reduced(i128::from(value) - i128::from(factor) * i128::from(by), modulus);
        for (term, by) in self.terms.iter_mut().zip(&other.terms) {
            *term = less(*term, *by);
        }
        for &(digit, by) in &other.digits {
            match self.digits.iter_mut().find(|own| own.0 == digit) {
                Some(own) => own.1 = less(own.1, by),
                None => self.digits.push((digit, less(0, by))),
            }
        }
        self.digits.retain(|digit| digit.1 != 0);
        self.digits.sort_unstable();
        self.constant = less(self.constant, other.constant);
    }

    fn is_pivot(&self, axis: usize) -> bool {
        self.pivots.iter().any(|pivot| pivot.0 == axis)
    }

    /// The pivots' coordinates as functions of the digits and the other coordinates.
    fn sources(&self, mesh: &Mesh) -> impl Iterator<Item = (usize, AxisSource)> {
        let others = self.terms.iter().enumerate().filter(|&(axis, &factor)| !self.is_pivot(axis) && factor != 0);
        let terms = others.map(|(axis, &factor)| (axis, -factor)).collect();
        let rest = LinearAxes { terms, constant: self.constant, modulus: None };
        let modulus = self.modulus;
        self.pivots.iter().map(move |&(axis, stride)| {
            let parts = (modulus / stride).min(mesh.as_slice()[axis].extent as i64);
            (axis, AxisSource::Skew { digits: self.digits.clone(), rest: rest.clone(), modulus, stride, parts })
        })
    }
}

/// The axes that a row may still be solved for: those in no other row first, then the shortest, then the last.
fn free(rows: &[Row], at: usize, known: &[usize], mesh: &Mesh) -> Vec<usize> {
    let extent = |axis: usize| mesh.as_slice()[axis].extent as i64;
    let taken = |axis: usize| known.contains(&axis) || rows.iter().any(|row| row.is_pivot(axis));
    let mut free: Vec<_> = (0..mesh.ndim()).filter(|&axis| extent(axis) >= rows[at].modulus && !taken(axis)).collect();
    // An axis that no other row has needs no elimination.
    let shared = |axis: usize| rows.iter().filter(|row| row.terms[axis] != 0).count() > 1;
    free.sort_by_key(|&axis| (shared(axis), extent(axis), std::cmp::Reverse(axis)));
    free
}

/// An axis with an invertible factor in this row, if necessary after combining rows of the same modulus.
fn pivot(rows: &mut [Row], at: usize, free: &[usize]) -> Option<usize> {
    let modulus = rows[at].modulus;
    if let Some(&axis) = free.iter().find(|&&axis| gcd(rows[at].terms[axis], modulus) == 1) {
        return Some(axis);
    }
    let peers: Vec<_> = (at + 1..rows.len()).filter(|&other| rows[other].modulus == modulus).collect();
    let unit = |axis: usize| peers.iter().fold(gcd(rows[at].terms[axis], modulus), |g, &p| gcd(g, rows[p].terms[axis]));
    let axis = free.iter().copied().find(|&axis| unit(axis) == 1)?;
    for peer in peers {
        // Euclid's algorithm on the two factors, with whole rows; the last swap leaves the divisor in this row.
        while rows[peer].terms[axis] != 0 {
            let quotient = rows[at].terms[axis] / rows[peer].terms[axis];
            let (low, high) = rows.split_at_mut(peer);
            low[at].subtract(&high[0], quotient);
            std::mem::swap(&mut low[at], &mut high[0]);
        }
    }
    (gcd(rows[at].terms[axis], modulus) == 1).then_some(axis)
}

/// Axes of this row alone that together number its remainders, each with its stride, after scaling the row by a unit, which
/// is returned first.
fn joint_pivots(rows: &[Row], at: usize, known: &[usize], mesh: &Mesh) -> Option<(i64, Vec<(usize, i64)>)> {
    let modulus = rows[at].modulus;
    let own = |&axis: &usize| {
        let others = rows.iter().filter(|row| row.terms[axis] != 0).count() > 1;
        rows[at].terms[axis] != 0 && !others && !known.contains(&axis)
    };
    let axes: Vec<usize> = (0..mesh.ndim()).rev().filter(own).collect();
    let units = axes.iter().map(|&axis| rows[at].terms[axis]).filter(|&factor| gcd(factor, modulus) == 1);
    units.map(|factor| inverse(factor, modulus)).find_map(|unit| {
        let scaled = |axis: usize| i128::from(rows[at].terms[axis]) * i128::from(unit);
        let mut pivots = Vec::new();
        let mut stride = 1;
        while stride != modulus {
            let has_stride = |&axis: &usize| scaled(axis).rem_euclid(modulus.into()) == i128::from(stride);
            let axis = axes.iter().copied().find(has_stride)?;
            pivots.push((axis, stride));
            stride = stride.checked_mul(mesh.as_slice()[axis].extent as i64).filter(|&stride| stride <= modulus)?;
        }
        Some((unit, pivots))
    })
}

/// Eliminates the pivot of row `at` from row `other`, if that leaves the other's own pivots unchanged.
fn eliminate(rows: &mut [Row], axis: usize, at: usize, other: usize) {
    let factor = rows[other].terms[axis];
    let apart = rows[other].pivots.iter().all(|pivot| rows[at].terms[pivot.0] % rows[other].modulus == 0);
    if factor == 0 || rows[at].modulus % rows[other].modulus != 0 || !apart {
        return;
    }
    let low = at.min(other);
    let (head, tail) = rows.split_at_mut(at.max(other));
    let (this, from) = if other == low { (&mut head[low], &tail[0]) } else { (&mut tail[0], &head[low]) };
    this.subtract(from, factor);
}

/// The pivots in an order in which each follows those it depends on; `None` if the dependence is circular.
fn ordered(rows: &[Row], mesh: &Mesh) -> Option<Vec<(usize, AxisSource)>> {
    let mut left: Vec<&Row> = rows.iter().collect();
    left.sort_unstable_by_key(|row| row.pivots[0]);
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waits = |row: &Row| {
            let others = left.iter().flat_map(|other| &other.pivots);
            others.into_iter().any(|&(axis, _)| !row.is_pivot(axis) && row.terms[axis] != 0)
        };
        let next = left.iter().position(|row| !waits(row))?;
        order.extend(left.remove(next).sources(mesh));
    }
    Some(order)
}

/// The error for a row without a pivot. It claims that blocks have no owner only where that is certain.
fn refusal(rows: &[Row], at: usize, known: &[usize], linear: &LinearAxes, mesh: &Mesh) -> ShardingError {
    let row = &rows[at];
    let open = row.terms.iter().enumerate().filter(|&(axis, &factor)| factor != 0 && !known.contains(&axis));
    let (mut divisor, mut values) = (row.modulus, 1i64);
    for (axis, &factor) in open {
        divisor = gcd(divisor, factor);
        values = values.saturating_mul(mesh.as_slice()[axis].extent as i64);
    }
    if divisor > 1 || values < row.modulus {
        let why = "some blocks have no owner: the blocks that a rank owns of the other dimensions leave too few \
                   choices for this one";
        let help = "let the modulus be the extent of an axis that no other dimension uses";
        return ShardingError::NoOwner { expr: linear.expr(mesh).to_string(), why, help };
    }
    unsolved(linear, mesh)
}

/// The remainder next to 0 with the sign of the value, so that small numbers stay as written.
fn reduced(value: i128, modulus: i64) -> i64 {
    (value % i128::from(modulus)) as i64
}

/// The inverse of an invertible factor; that of -1 is -1.
fn inverse(factor: i64, modulus: i64) -> i64 {
    reduced(i128::from(factor).extended_gcd(&modulus.into()).x, modulus)
}
