//! Dimensions that share variables: which indices along the last one are written, given those along the others.

use super::progressions::Progressions;
use smallvec::SmallVec;

/// Indices, or steps, by dimension.
type ByDim = SmallVec<[i64; 4]>;

/// The dimensions of an index that share variables with each other.
#[derive(Clone, Debug)]
pub(super) struct Joint {
    /// Their numbers, ascending.
    pub(super) dims: Vec<usize>,
    base: ByDim,
    variables: Vec<Variable>,
}

/// A variable of the index.
#[derive(Clone, Debug)]
struct Variable {
    /// Its number of values, at least one.
    count: i64,
    /// How far one step moves the index, by dimension.
    steps: ByDim,
}

/// The indices along the last dimension that are written.
pub(super) enum Row {
    /// A sum of progressions.
    Progressions(Progressions),
    /// The indices at which some values of the variables reach the rest.
    Solutions(Rest),
}

/// The part of the index that remains for the unknown variables.
pub(super) struct Rest {
    rest: ByDim,
    variables: SmallVec<[Variable; 4]>,
}

impl Joint {
    /// The dimensions that share variables; `None` if no dimension does.
    pub(super) fn new(base: &[i64], steps: &[&[i64]], counts: &[usize]) -> Option<Self> {
        let moves = |dim: usize, l: usize| steps[dim][l] != 0;
        let is_shared = |l: usize| (0..steps.len()).filter(|&dim| moves(dim, l)).count() > 1;
        let is_joint = |&dim: &usize| (0..counts.len()).any(|l| moves(dim, l) && is_shared(l));
        let dims: Vec<usize> = (0..steps.len()).filter(is_joint).collect();
        let variable =
            |l: usize| Variable { count: counts[l] as i64, steps: dims.iter().map(|&dim| steps[dim][l]).collect() };
        let variables = (0..counts.len()).map(variable).filter(|variable| variable.steps.iter().any(|&step| step != 0));
        let (base, variables) = (dims.iter().map(|&dim| base[dim]).collect(), variables.collect());
        (!dims.is_empty()).then_some(Self { dims, base, variables })
    }

    /// The written indices along the last of the dimensions at these indices of the others; `None` if nothing is
    /// written.
    pub(super) fn row(&self, outer: impl Iterator<Item = i64>) -> Option<Row> {
        let last = self.dims.len() - 1;
        let mut rest: ByDim = outer.zip(&self.base).map(|(index, base)| index - base).collect();
        rest.push(-self.base[last]);
        let mut left = Rest { rest, variables: self.variables.iter().cloned().collect() };
        let mut open: SmallVec<[usize; 4]> = (0..last).collect();
        while let Some(nth) = open.iter().position(|&dim| left.is_solvable(dim)) {
            left.solve(open.remove(nth))?;
        }
        Some(if open.is_empty() {
            let variables = left.variables.iter().map(|variable| (variable.steps[last], variable.count));
            Row::Progressions(Progressions::new(-left.rest[last], variables))
        } else {
            Row::Solutions(left)
        })
    }

    /// Whether all of the dimensions are written at these indices.
    pub(super) fn contains(&self, mut index: impl Iterator<Item = i64>) -> bool {
        let outer = self.dims.len() - 1;
        let row = self.row(index.by_ref().take(outer));
        row.is_some_and(|row| index.next().is_some_and(|last| row.contains(last)))
    }
}

impl Row {
    pub(super) fn contains(&self, index: i64) -> bool {
        match self {
            Self::Progressions(progressions) => progressions.contains(index),
            Self::Solutions(rest) => rest.is_reached_at(index),
        }
    }
}

impl Rest {
    /// The variables that move a dimension.
    fn movers(&self, dim: usize) -> impl Iterator<Item = usize> {
        (0..self.variables.len()).filter(move |&l| self.variables[l].steps[dim] != 0)
    }

    /// Whether a dimension determines the value of a variable, possibly given that of another one.
    fn is_solvable(&self, dim: usize) -> bool {
        let is_unit = |l: usize| self.variables[l].steps[dim].abs() == 1;
        match self.movers(dim).count() {
            0 | 1 => true,
            2 => self.movers(dim).any(is_unit),
            _ => false,
        }
    }

    /// Eliminates a variable from all dimensions, so that this one has its required index; `None` if that is
    /// impossible.
    fn solve(&mut self, dim: usize) -> Option<()> {
        let mut movers: SmallVec<[usize; 2]> = self.movers(dim).collect();
        // The variable to eliminate is last.
        movers.sort_by_key(|&l| std::cmp::Reverse(self.variables[l].steps[dim].abs()));
        let &[ref others @ .., l] = &movers[..] else { return (self.rest[dim] == 0).then_some(()) };
        let Variable { count, steps } = self.variables[l].clone();
        let step = steps[dim];
        let mut start = self.rest[dim] / step;
        match others {
            [] if self.rest[dim] % step != 0 || !(0..count).contains(&start) => return None,
            [] => {}
            &[other, ..] => {
                // Its value is `start + slope * value` for a `value` of the other, and at least 0 and below its count.
                let slope = -self.variables[other].steps[dim] / step;
                let [low, high] = if slope > 0 { [-start, count - 1 - start] } else { [start - count + 1, start] };
                let (first, last) = (-(-low).div_euclid(slope.abs()), high.div_euclid(slope.abs()));
                let (first, last) = (first.max(0), last.min(self.variables[other].count - 1));
                if first > last {
                    return None;
                }
                // The other is counted from its first value.
                self.advance(other, first);
                start += slope * first;
                self.variables[other].count = last - first + 1;
                for (own, step) in self.variables[other].steps.iter_mut().zip(&steps) {
                    *own += step * slope;
                }
            }
        }
        self.advance(l, start);
        self.variables.remove(l);
        Some(())
    }

    /// Moves the index by `by` steps of a variable.
    fn advance(&mut self, l: usize, by: i64) {
        for (rest, step) in self.rest.iter_mut().zip(&self.variables[l].steps) {
            *rest -= step * by;
        }
    }

    /// Whether some values of the variables move the index to this one along the last dimension.
    fn is_reached_at(&self, index: i64) -> bool {
        let mut rest = self.rest.clone();
        if let Some(last) = rest.last_mut() {
            *last += index;
        }
        is_reached(&rest, &self.variables)
    }
}

/// Whether some values of the variables move the index by `rest`.
fn is_reached(rest: &[i64], variables: &[Variable]) -> bool {
    let Some((variable, others)) = variables.split_first() else { return rest.iter().all(|&rest| rest == 0) };
    let (mut first, mut last) = (0, variable.count - 1);
    for (dim, (&rest, &step)) in rest.iter().zip(&variable.steps).enumerate() {
        let reach = |other: &Variable| other.steps[dim] * (other.count - 1);
        let (least, most) =
            others.iter().map(reach).fold((0, 0), |(low, high), by| (low + by.min(0), high + by.max(0)));
        // The remainder for the others, `rest - step * value`, is within their reach.
        let (low, high) = if step < 0 { (least - rest, most - rest) } else { (rest - most, rest - least) };
        match step.abs() {
            0 if low > 0 || high < 0 => return false,
            0 => {}
            size => {
                first = first.max(-(-low).div_euclid(size));
                last = last.min(high.div_euclid(size));
            }
        }
    }
    (first..=last).any(|value| {
        let rest: ByDim = rest.iter().zip(&variable.steps).map(|(rest, step)| rest - step * value).collect();
        is_reached(&rest, others)
    })
}
