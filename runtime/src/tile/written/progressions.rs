//! Sums of multiples: the indices along a dimension that some variables reach, as formulas.

use num_integer::{ExtendedGcd, Integer};
use smallvec::SmallVec;
use std::ops::Range;

/// The numbers `start + step * v + ..` over all values of some variables, each in `0..count`.
#[derive(Clone, Debug)]
pub(super) struct Progressions {
    start: i64,
    /// In descending order of steps, which are positive; each has several values. Two that form one progression are merged.
    variables: SmallVec<[Progression; 2]>,
}

#[derive(Clone, Copy, Debug)]
struct Progression {
    step: i64,
    count: i64,
    /// The maximum sum of the progressions after this one.
    rest: i64,
    /// If another progression follows: the greatest common divisor of both steps, and the inverse of this step modulo the other's, in units
    /// of the divisor.
    inverse: (i64, i64),
}

impl Progressions {
    /// The sums of variables with these steps and counts; no count is 0.
    pub(super) fn new(start: i64, variables: impl IntoIterator<Item = (i64, i64)>) -> Self {
        let mut start = start;
        let mut found: SmallVec<[(i64, i64); 4]> = SmallVec::new();
        for (step, count) in variables {
            start += step.min(0) * (count - 1);
            if step != 0 && count > 1 {
                found.push((step.abs(), count));
            }
        }
        found.sort_unstable();
        // `a * v + k * a * w` has no gaps in steps of `a` if `v` has at least `k` values.
        let mut at = 1;
        while at < found.len() {
            let (step, count) = found[at];
            let joins = |&(fine, values): &(i64, i64)| step % fine == 0 && step / fine <= values;
            match found[..at].iter().position(joins) {
                Some(fine) => {
                    found.remove(at);
                    found[fine].1 += step / found[fine].0 * (count - 1);
                    at = 1;
                }
                None => at += 1,
            }
        }
        let mut variables: SmallVec<[Progression; 2]> = SmallVec::new();
        let (mut rest, mut finer) = (0, 0);
        for (step, count) in found {
            let ExtendedGcd { gcd, x, .. } = step.extended_gcd(&finer);
            variables.push(Progression { step, count, rest, inverse: (gcd, x) });
            rest += step * (count - 1);
            finer = step;
        }
        variables.reverse();
        Self { start, variables }
    }

    /// Returns the numbers as a range if they are consecutive.
    pub(super) fn as_range(&self) -> Option<Range<i64>> {
        match &self.variables[..] {
            [] => Some(self.start..self.start + 1),
            [Progression { step: 1, count, .. }] => Some(self.start..self.start + count),
            _ => None,
        }
    }

    /// Returns whether this is one of the numbers.
    pub(super) fn contains(&self, number: i64) -> bool {
        contains(&self.variables, number - self.start)
    }

    /// Calls `visit` with each run of consecutive numbers within a range, in ascending order.
    pub(super) fn within(&self, range: Range<i64>, mut visit: impl FnMut(Range<i64>)) {
        let mut from = range.start;
        while let Some(found) = next(&self.variables, from - self.start) {
            let found = found.start + self.start..found.end + self.start;
            if found.start >= range.end {
                return;
            }
            from = found.end;
            visit(found.start..found.end.min(range.end));
        }
    }
}

fn contains(variables: &[Progression], number: i64) -> bool {
    let Some((&Progression { step, count, rest, inverse: (divisor, unit) }, finer)) = variables.split_first() else {
        return number == 0;
    };
    // The remainder for the others is within their reach.
    let (first, last) = (ceil((number - rest).max(0), step), number.div_euclid(step).min(count - 1));
    match finer {
        [] => first <= last && number % step == 0,
        [finer] => {
            // The remainder is a multiple of the finer step for one value of this variable in every `modulus`.
            let modulus = finer.step / divisor;
            let wanted = i128::from(number / divisor) * i128::from(unit) - i128::from(first);
            number % divisor == 0 && i128::from(first) + wanted.rem_euclid(modulus.into()) <= i128::from(last)
        }
        _ => (first..=last).any(|value| contains(finer, number - step * value)),
    }
}

/// The first run of consecutive numbers that ends after `from`, without the numbers below `from`.
fn next(variables: &[Progression], from: i64) -> Option<Range<i64>> {
    let from = from.max(0);
    let Some((&Progression { step, count, rest, .. }, finer)) = variables.split_first() else {
        return (from == 0).then_some(0..1);
    };
    if finer.is_empty() && step == 1 {
        return (from < count).then_some(from..count);
    }
    if step > rest {
        let value = if finer.is_empty() { ceil(from, step) } else { from / step };
        return (value..count.min(value + 2)).find_map(|value| {
            let found = next(finer, from - step * value)?;
            Some(found.start + step * value..found.end + step * value)
        });
    }
    let end = step * (count - 1) + rest + 1;
    let start = (from..end).find(|&number| contains(variables, number))?;
    Some(start..(start..end).find(|&number| !contains(variables, number)).unwrap_or(end))
}

fn ceil(number: i64, step: i64) -> i64 {
    -(-number).div_euclid(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// The numbers are those that some values of the variables reach, in order, from any start.
        #[test]
        fn numbers_are_sums(
            start in -5i64..5,
            variables in prop::collection::vec((-12i64..13, 1i64..7), 0..5),
            from in -60i64..60,
            len in 0i64..200,
        ) {
            let mut sums = BTreeSet::from([start]);
            for &(step, count) in &variables {
                sums = sums.iter().flat_map(|&sum| (0..count).map(move |value| sum + step * value)).collect();
            }
            let found = Progressions::new(start, variables);
            for number in -400..400 {
                prop_assert_eq!(found.contains(number), sums.contains(&number), "{} in {:?}", number, found);
            }
            let range = from..from + len;
            let (mut numbers, mut end) = (Vec::new(), None);
            found.within(range.clone(), |run| {
                assert!(!run.is_empty() && end.is_none_or(|end| end <= run.start), "{run:?} after {end:?}");
                end = Some(run.end);
                numbers.extend(run);
            });
            prop_assert_eq!(numbers, sums.range(range).copied().collect::<Vec<_>>());
        }
    }
}
