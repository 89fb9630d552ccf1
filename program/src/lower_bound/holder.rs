//! How many instances a rank can compute from a number of elements of each tensor: Hölder's inequality, in all its forms.

use crate::kernel::{IndexVar, Kernel};
use crate::value::{Access, Conditional, Value};
use polyshard_layout::{Name, each_once};

/// The numbers of elements that a kernel touches.
pub(super) struct Touches {
    /// The logarithm of the number of instances, counting one value of each index that no projection covers.
    pub instances: f64,
    /// Elements of each tensor that its largest access touches; 0 if no access has a projection.
    pub elements: Vec<f64>,
    /// Elements of each tensor that all its accesses touch, at most.
    pub by_all: Vec<f64>,
    /// Rows of an exponent per tensor: the number of instances is at most the product of the touched elements to these
    /// powers.
    pub exponents: Vec<Vec<f64>>,
}

/// An access as a projection of the instances: the tensor, and for each index variable whether it is kept.
type Projection = (usize, Vec<bool>);

/// Maximum number of systems of equations to solve; with more, the smallest projections are dropped, which leaves a valid
/// bound.
const SYSTEMS: u128 = 20_000;

impl Touches {
    pub(super) fn of(kernel: &Kernel) -> Self {
        let vars = kernel.vars();
        let names: Vec<Name> = kernel.tensors().map(|tensor| tensor.name).collect();
        let extent = |var: &IndexVar| var.extent as f64;
        let size =
            |kept: &[bool]| vars.iter().zip(kept).filter(|(_, kept)| **kept).map(|(var, _)| extent(var)).product();
        let of_access = |access: &Access| -> Option<Projection> {
            Some((names.iter().position(|name| *name == access.tensor)?, projection(access, vars)?))
        };
        let accesses = [kernel.target()].into_iter().chain(certain(kernel.value()));
        let mut projections = each_once(accesses.filter_map(of_access));
        let mut elements = vec![0.0f64; names.len()];
        let mut by_all = vec![0.0f64; names.len()];
        for (tensor, kept) in &projections {
            elements[*tensor] = elements[*tensor].max(size(kept));
            by_all[*tensor] += size(kept);
        }
        for (tensor, by_all) in kernel.tensors().zip(&mut by_all) {
            let whole: f64 = tensor.shape.iter().map(|&extent| extent as f64).product();
            *by_all = by_all.min(whole);
        }
        projections.sort_by(|one, other| f64::total_cmp(&size(&other.1), &size(&one.1)));
        while systems(projections.len(), vars.len()) > SYSTEMS {
            projections.pop();
        }
        let is_covered = |var: usize| projections.iter().any(|(_, kept)| kept[var]);
        let covered = vars.iter().enumerate().filter(|(nth, _)| is_covered(*nth));
        let instances = covered.map(|(_, var)| extent(var).ln()).sum();
        let condition = |var: usize| -> Vec<bool> { projections.iter().map(|(_, kept)| kept[var]).collect() };
        let conditions = each_once((0..vars.len()).filter(|&var| is_covered(var)).map(condition));
        let mut exponents: Vec<Vec<f64>> = Vec::new();
        for vertex in vertices(&conditions, projections.len()) {
            let mut row = vec![0.0; names.len()];
            for ((tensor, _), exponent) in projections.iter().zip(vertex) {
                row[*tensor] += exponent;
            }
            if !exponents.iter().any(|other| are_alike(other, &row)) {
                exponents.push(row);
            }
        }
        Self { instances, elements, by_all, exponents }
    }
}

/// The accesses of every instance: not those in one branch of a choice, nor those whose index may be outside.
fn certain(value: &Value) -> Vec<&Access> {
    match value {
        Value::Access(access) => Vec::from_iter(access.outside.is_none().then_some(access)),
        Value::If(choice) => {
            let Conditional { left, right, .. } = &**choice;
            certain(left).into_iter().chain(certain(right)).collect()
        }
        _ => value.parts().into_iter().flat_map(certain).collect(),
    }
}

/// Which index variables distinguish the elements of an access; none if an index has several variables, or repeats in a
/// period.
fn projection(access: &Access, vars: &[IndexVar]) -> Option<Vec<bool>> {
    let mut kept = vec![false; vars.len()];
    for index in &access.index {
        match index.terms[..] {
            [] => {}
            [(name, factor)] => {
                let var = vars.iter().position(|var| var.name == name)?;
                // In a periodic dimension an index repeats, unless it moves in steps of 1 and at most once around.
                let meets = |period: i64| factor.unsigned_abs() != 1 || vars[var].extent as i64 > period;
                if index.period().is_some_and(meets) {
                    return None;
                }
                kept[var] = true;
            }
            _ => return None,
        }
    }
    Some(kept)
}

/// The number of ways to choose as many equations as there are projections, from the conditions and the sign constraints.
fn systems(projections: usize, conditions: usize) -> u128 {
    (1..=projections as u128).fold(1, |ways, nth| ways.saturating_mul(conditions as u128 + nth) / nth)
}

/// The vertices of the polyhedron of exponents, at least 0, whose sum over each condition is at least 1.
fn vertices(conditions: &[Vec<bool>], unknowns: usize) -> Vec<Vec<f64>> {
    let mut rows: Vec<(Vec<f64>, f64)> = conditions
        .iter()
        .map(|condition| (condition.iter().map(|&kept| f64::from(u8::from(kept))).collect(), 1.0))
        .collect();
    rows.extend((0..unknowns).map(|nth| ((0..unknowns).map(|other| f64::from(u8::from(nth == other))).collect(), 0.0)));
    let mut found: Vec<Vec<f64>> = Vec::new();
    let mut chosen: Vec<usize> = (0..unknowns).collect();
    loop {
        let system: Vec<_> = chosen.iter().map(|&row| rows[row].clone()).collect();
        let is_inside = |point: &Vec<f64>| {
            rows.iter().all(|(row, least)| row.iter().zip(point).map(|(a, b)| a * b).sum::<f64>() >= least - 1e-9)
        };
        let point = solved(system).filter(is_inside);
        found.extend(point.filter(|point| !found.iter().any(|other| are_alike(other, point))));
        // The next choice, in lexicographic order.
        let Some(last) = (0..unknowns).rev().find(|&nth| chosen[nth] < rows.len() - unknowns + nth) else {
            return found;
        };
        chosen[last] += 1;
        for nth in last + 1..unknowns {
            chosen[nth] = chosen[nth - 1] + 1;
        }
    }
}

/// Whether two points that different systems gave are equal: exponents are quotients of small numbers.
fn are_alike(one: &[f64], other: &[f64]) -> bool {
    one.iter().zip(other).all(|(a, b)| (a - b).abs() < 1e-9)
}

/// The solution of as many equations as unknowns, if there is exactly one.
fn solved(mut system: Vec<(Vec<f64>, f64)>) -> Option<Vec<f64>> {
    let unknowns = system.len();
    for nth in 0..unknowns {
        let pivot = (nth..unknowns).max_by(|&a, &b| system[a].0[nth].abs().total_cmp(&system[b].0[nth].abs()))?;
        if system[pivot].0[nth].abs() < 1e-9 {
            return None;
        }
        system.swap(nth, pivot);
        let (row, right) = system[nth].clone();
        for (at, (other, value)) in system.iter_mut().enumerate() {
            let factor = other[nth] / row[nth];
            if at != nth && factor != 0.0 {
                other.iter_mut().zip(&row).for_each(|(a, b)| *a -= factor * b);
                *value -= factor * right;
            }
        }
    }
    Some(system.iter().enumerate().map(|(nth, (row, right))| right / row[nth]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affine::{Affine, Modulus};

    /// A file may hold any factor for a periodic index.
    #[test]
    fn the_greatest_factors_tell_no_elements_apart_in_a_period() {
        let vars = [IndexVar { name: "j".into(), start: 0, extent: 5 }];
        let read = |factor: i64| {
            let index = Affine { terms: vec![("j".into(), factor)], constant: -1, modulus: Some(Modulus::Number(5)) };
            projection(&Access::new("A".into(), vec![index]), &vars)
        };
        assert_eq!([i64::MIN, i64::MAX, -2].map(read), [None, None, None]);
        assert_eq!([1, -1].map(read), [Some(vec![true]), Some(vec![true])]);
    }
}
