//! From piece counts back to types: the digits that number the pieces at each point of a path.
//!
//! Digits are unknowns at first. Those of the source and the target are known; an unknown that is divided later becomes
//! two. Digits that exist in between only may be any that are free for their whole lifetime; those just removed are
//! tried first, because then tiles stay in place.

use super::problem::Problem;
use super::state::Move;
use crate::factor::{divisors, primes};
use crate::part::{AxisPart, joined, split};
use polyshard_layout::each_once;
use std::collections::VecDeque;

/// A point of a path: the digits of each dimension, minor first.
pub(super) type Point = Vec<Vec<AxisPart>>;

/// Unknown digits by number, per dimension, minor first.
type Unknowns = Vec<VecDeque<usize>>;

/// The number of combinations of intermediate digits to try.
const PATIENCE: usize = 100;

struct Digit {
    extent: usize,
    /// The digits that it stands for, once known.
    value: Option<Vec<AxisPart>>,
    /// The lower and upper digits that it was divided into.
    halves: Option<(usize, usize)>,
    /// The digits that it replaces.
    instead: Vec<usize>,
}

/// Returns the points of a path, one more than there are operations, with each operation; gathers of several dimensions
/// are one operation only if `fused`.
///
/// None if digits would have to be split where they cannot be, or none is free.
pub(super) fn points(problem: &Problem<'_>, moves: &[Move], fused: bool) -> Option<(Vec<Move>, Vec<Point>)> {
    let mut table = DigitTable::default();
    let mut now: Unknowns = Vec::new();
    for dim in problem.source.dims() {
        let known = dim.parts.iter().map(|part| table.add(part.extent, Some(vec![*part]), Vec::new()));
        now.push(known.collect());
    }
    let mut operations = Vec::new();
    let mut points = vec![now.clone()];
    for step in moves.iter().flat_map(|step| singles(step, fused)) {
        match &step {
            Move::Slice(dim, factor) => {
                let digit = table.add(*factor, None, Vec::new());
                now[*dim].push_front(digit);
            }
            Move::AllToAll { out, into } => {
                let mut taken = Vec::new();
                for &(dim, factor) in out {
                    taken.extend(table.take(&mut now[dim], factor)?);
                }
                for &(dim, factor) in into {
                    let digit = table.add(factor, None, taken.clone());
                    now[dim].push_front(digit);
                }
            }
            Move::Permute => {
                for digits in &mut now {
                    let old: Vec<_> = digits.iter().copied().collect();
                    let extent = old.iter().map(|&digit| table.digits[digit].extent).product();
                    *digits = VecDeque::from([table.add(extent, None, old)]);
                }
            }
            Move::AllGather(factors) => {
                for &(dim, factor) in factors {
                    table.take(&mut now[dim], factor)?;
                }
            }
        }
        operations.push(step);
        points.push(now.clone());
    }
    for (digits, dim) in now.iter().zip(problem.target.dims()) {
        let mut rest = dim.parts.clone();
        for &digit in digits {
            let (low, high) = split(&rest, table.digits[digit].extent)?;
            table.set(digit, low)?;
            rest = high;
        }
    }
    table.choose(problem, &points)?;
    let known = points.iter().map(|point| point.iter().map(|dim| joined(table.values(dim))).collect());
    Some((operations, known.collect()))
}

/// Splits a gather of several dimensions into several, unless gathers are fused.
fn singles(step: &Move, fused: bool) -> Vec<Move> {
    match step {
        Move::AllGather(factors) if factors.is_empty() => Vec::new(),
        Move::AllGather(factors) if !fused => factors.iter().map(|&factor| Move::AllGather(vec![factor])).collect(),
        step => vec![step.clone()],
    }
}

/// All unknowns, by number.
#[derive(Default)]
struct DigitTable {
    digits: Vec<Digit>,
}

impl DigitTable {
    fn add(&mut self, extent: usize, value: Option<Vec<AxisPart>>, instead: Vec<usize>) -> usize {
        self.digits.push(Digit { extent, value, halves: None, instead });
        self.digits.len() - 1
    }

    /// Removes the lowest digits, of `factor` values, from a dimension.
    fn take(&mut self, dim: &mut VecDeque<usize>, factor: usize) -> Option<Vec<usize>> {
        let (mut taken, mut rest) = (Vec::new(), factor);
        while rest > 1 {
            let digit = dim.pop_front()?;
            let extent = self.digits[digit].extent;
            if rest.is_multiple_of(extent) {
                taken.push(digit);
                rest /= extent;
            } else {
                let (low, high) = self.divide(digit, rest)?;
                taken.push(low);
                dim.push_front(high);
                rest = 1;
            }
        }
        Some(taken)
    }

    fn divide(&mut self, digit: usize, low: usize) -> Option<(usize, usize)> {
        let Digit { extent, value, instead, .. } = &self.digits[digit];
        let (extent, instead) = (*extent, instead.clone());
        if !extent.is_multiple_of(low) {
            return None;
        }
        let (below, above) = match value {
            None => (None, None),
            Some(parts) => {
                let (below, above) = split(parts, low)?;
                (Some(below), Some(above))
            }
        };
        let halves = (self.add(low, below, instead.clone()), self.add(extent / low, above, instead));
        self.digits[digit].halves = Some(halves);
        Some(halves)
    }

    /// Sets the value of a digit; none if it already has another.
    fn set(&mut self, digit: usize, parts: Vec<AxisPart>) -> Option<()> {
        if let Some(known) = &self.digits[digit].value {
            return (joined(known.clone()) == joined(parts)).then_some(());
        }
        if let Some((low, high)) = self.digits[digit].halves {
            let (below, above) = split(&parts, self.digits[low].extent)?;
            self.set(low, below)?;
            self.set(high, above)?;
        }
        self.digits[digit].value = Some(parts);
        Some(())
    }

    /// The digits that these were finally divided into.
    fn leaves<'d>(&self, digits: impl IntoIterator<Item = &'d usize>) -> Vec<usize> {
        let of_digit = |&digit: &usize| match self.digits[digit].halves {
            Some((low, high)) => self.leaves(&[low, high]),
            None => vec![digit],
        };
        digits.into_iter().flat_map(of_digit).collect()
    }

    /// The known digits that these stand for.
    fn values<'d>(&self, digits: impl IntoIterator<Item = &'d usize>) -> Vec<AxisPart> {
        self.leaves(digits).into_iter().flat_map(|leaf| self.digits[leaf].value.clone().unwrap_or_default()).collect()
    }

    /// Chooses the digits that are still unknown, so that at each point all digits are independent.
    fn choose(&mut self, problem: &Problem<'_>, points: &[Unknowns]) -> Option<()> {
        let present: Vec<Vec<usize>> = points.iter().map(|point| self.leaves(point.iter().flatten())).collect();
        // Each factor of prime extent is chosen separately, as its own digit.
        let mut open: Vec<(usize, usize)> = Vec::new();
        for (leaf, digit) in self.digits.iter_mut().enumerate() {
            let unknown = digit.halves.is_none() && digit.value.is_none();
            if unknown && present.iter().any(|leaves| leaves.contains(&leaf)) {
                open.extend(primes(digit.extent).into_iter().map(|prime| (leaf, prime)));
                digit.value = Some(Vec::new());
            }
        }
        let mut patience = PATIENCE;
        self.choose_from(problem, &present, &mut open, &mut patience).then_some(())
    }

    /// Assigns the open digits, most constrained first.
    fn choose_from(
        &mut self,
        problem: &Problem<'_>,
        present: &[Vec<usize>],
        open: &mut Vec<(usize, usize)>,
        patience: &mut usize,
    ) -> bool {
        let possible = open.iter().map(|&(leaf, prime)| self.possible(problem, present, leaf, prime));
        let Some((nth, values)) = possible.enumerate().min_by_key(|(_, values)| values.len()) else { return true };
        let (leaf, prime) = open.remove(nth);
        for part in values {
            if *patience == 0 {
                break;
            }
            *patience -= 1;
            self.digits[leaf].value.get_or_insert_default().push(part);
            if self.choose_from(problem, present, open, patience) {
                return true;
            }
            self.digits[leaf].value.get_or_insert_default().pop();
        }
        open.insert(nth, (leaf, prime));
        false
    }

    /// The digits of `prime` values that are independent of all digits that occur together with `leaf`.
    fn possible(&self, problem: &Problem<'_>, present: &[Vec<usize>], leaf: usize, prime: usize) -> Vec<AxisPart> {
        let met = present.iter().filter(|leaves| leaves.contains(&leaf)).flatten();
        let met: Vec<_> = met.flat_map(|&other| self.digits[other].value.iter().flatten()).collect();
        let mut candidates = self.candidates(problem, leaf, prime);
        candidates.retain(|part| met.iter().all(|other| part.is_independent_of(other)));
        candidates
    }

    /// Candidate digits of `prime` values: those that the leaf replaces, then the target's, then all.
    fn candidates(&self, problem: &Problem<'_>, leaf: usize, prime: usize) -> Vec<AxisPart> {
        let instead = self.values(&self.digits[leaf].instead);
        let mesh = problem.source.mesh();
        let all = (0..mesh.ndim()).map(|axis| AxisPart::whole(mesh, axis));
        let digits = instead.into_iter().chain(problem.target.parts()).chain(all).flat_map(|part| {
            let strides =
                divisors(part.extent).into_iter().filter(move |stride| (part.extent / stride).is_multiple_of(prime));
            strides.map(move |stride| AxisPart { stride: part.stride * stride, extent: prime, ..part })
        });
        each_once(digits)
    }
}
