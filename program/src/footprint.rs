//! Which elements of a tensor a kernel touches, as boxes of evenly spaced indices: to compare the elements that one kernel reads with
//! those that another has written.

use crate::affine::Affine;
use crate::kernel::{Kernel, span};
use crate::value::Access;
use polyshard_layout::{Name, gcd, joined};
use std::fmt;

/// Evenly spaced indices of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progression {
    /// The first one.
    pub first: i64,
    /// The distance from one index to the next, 1 or more.
    pub step: i64,
    /// The number of indices.
    pub count: i64,
}

/// A box of elements of a tensor, with a progression of indices in each dimension.
///
/// ```
/// use polyshard::prelude::*;
/// let matmul = kernel! {
///     fn matmul(A: [f32; 4, 8], B: [f32; 8, 6]) -> C: [f32; 4, 6] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// let kernel = matmul.kernel()?;
/// let a = kernel.accesses_of("A".into())[0];
/// assert_eq!(kernel.reads_at_most(a).to_string(), "[0..4, 0..8]");
/// assert_eq!(kernel.writes_at_least().map(|writes| writes.to_string()).as_deref(), Some("[0..4, 0..6]"));
/// assert!(kernel.reads_at_most(a).is_whole(&[4, 8]));
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// By dimension.
    pub dims: Vec<Progression>,
}

impl Progression {
    const EMPTY: Self = Self { first: 0, step: 1, count: 0 };

    /// The last index, if any.
    fn last(&self) -> i128 {
        i128::from(self.first) + i128::from(self.step) * (i128::from(self.count) - 1)
    }

    /// Whether it contains all indices of another progression.
    fn holds(&self, other: &Self) -> bool {
        let (own, others) = (i128::from(self.step), i128::from(other.step));
        let distance = i128::from(other.first) - i128::from(self.first);
        let meets = distance % own == 0 && (other.count <= 1 || others % own == 0);
        other.count == 0 || (self.count > 0 && distance >= 0 && other.last() <= self.last() && meets)
    }

    /// Its indices before, in, and after the range of another progression; none are in it if the other one leaves gaps between them.
    fn split(&self, other: &Self) -> [Self; 3] {
        let (own, others) = (i128::from(self.step), i128::from(other.step));
        let distance = i128::from(other.first) - i128::from(self.first);
        let meets = distance % others == 0 && (self.count <= 1 || own % others == 0);
        if self.count == 0 || other.count == 0 || !meets {
            return [*self, Self::EMPTY, Self::EMPTY];
        }
        // The number of its indices that are below one.
        let below = |index: i128| {
            let count = (index - i128::from(self.first) + own - 1).div_euclid(own);
            count.clamp(0, self.count.into()) as i64
        };
        let [start, end] = [i128::from(other.first), other.last() + 1].map(below);
        let part = |from: i64, to: i64| {
            if from == to {
                Self::EMPTY
            } else {
                Self { first: self.first + from * self.step, count: to - from, ..*self }
            }
        };
        [part(0, start), part(start, end), part(end, self.count)]
    }
}

impl Footprint {
    /// Returns whether it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dims.iter().any(|along| along.count == 0)
    }

    /// Returns whether it has all elements of a tensor of this shape.
    #[must_use]
    pub fn is_whole(&self, shape: &[usize]) -> bool {
        let all = |&extent: &usize| Progression { first: 0, step: 1, count: extent as i64 };
        self.contains(&Self { dims: shape.iter().map(all).collect() })
    }

    /// Returns whether it has all elements of another one.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        other.is_empty() || self.dims.iter().zip(&other.dims).all(|(own, along)| own.holds(along))
    }

    /// The elements that another box does not have, as boxes.
    pub(crate) fn without(&self, other: &Self) -> Vec<Self> {
        let (mut rest, mut found) = (self.clone(), Vec::new());
        for (nth, along) in other.dims.iter().enumerate() {
            let [before, within, after] = rest.dims[nth].split(along);
            for part in [before, after] {
                rest.dims[nth] = part;
                found.push(rest.clone());
            }
            rest.dims[nth] = within;
        }
        found.retain(|part| !part.is_empty());
        found
    }
}

impl fmt::Display for Progression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, step, count } = *self;
        match (step, count) {
            (_, 0) => write!(f, "{first}..{first}"),
            (1, _) => write!(f, "{first}..{}", self.last() + 1),
            _ => write!(f, "{first}..{} by {step}", self.last() + 1),
        }
    }
}

impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", joined(&self.dims, ", "))
    }
}

impl Kernel {
    /// Returns a box that contains all elements of an input that the statement reads by an access; indices outside of the tensor are not
    /// elements. The box follows from the closed form of the index: `polyshard-polyhedral` proves for each lowered kernel that nothing
    /// else is read.
    #[must_use]
    pub fn reads_at_most(&self, access: &Access) -> Footprint {
        let shape = self.tensors().find(|tensor| tensor.name == access.tensor).map_or(&[][..], |tensor| &tensor.shape);
        let along = |(index, &extent): (&Affine, &usize)| match self.is_empty() {
            true => Progression::EMPTY,
            false => self.spanned(index, extent),
        };
        Footprint { dims: access.index.iter().zip(shape).map(along).collect() }
    }

    /// Returns a box of output elements that the statement writes, all of them; none if no box is known, as where two dimensions share a
    /// variable. A contracted variable without values still counts: its sum is empty, and is written.
    #[must_use]
    pub fn writes_at_least(&self) -> Option<Footprint> {
        let index = &self.target.index;
        let is_alone = |name: Name| index.iter().filter(|index| index.coefficient(name) != 0).count() <= 1;
        if !self.vars.iter().all(|var| is_alone(var.name)) || index.iter().any(|index| index.modulus.is_some()) {
            return None;
        }
        let along = |(index, &extent): (&Affine, &usize)| self.has_no_gaps(index).then(|| self.spanned(index, extent));
        let dims = index.iter().zip(&self.output.shape).map(along).collect::<Option<_>>()?;
        Some(Footprint { dims })
    }

    /// The step of each variable of an index that has one, up or down, and its number of values.
    fn moved<'a>(&'a self, index: &'a Affine) -> impl Iterator<Item = (i64, i128)> + 'a {
        let extent = |name: Name| self.vars.iter().find(|var| var.name == name).map_or(0, |var| var.extent as i128);
        let moved = index.terms.iter().map(move |&(name, factor)| (factor, extent(name)));
        // A factor of an index that wraps may have no absolute value; its step is not asked for.
        moved.filter(|&(_, extent)| extent > 1).map(|(factor, extent)| (factor.abs(), extent))
    }

    /// The greatest number of which the distances between values of an index are multiples; 0 for one value.
    fn step(&self, index: &Affine) -> i64 {
        self.moved(index).fold(0, |step, (factor, _)| gcd(step, factor))
    }

    /// The smallest progression that contains all values of an index inside its dimension.
    fn spanned(&self, index: &Affine, extent: usize) -> Progression {
        if self.vars.iter().any(|var| var.extent == 0 && index.coefficient(var.name) != 0) {
            return Progression::EMPTY;
        }
        let (least, high) = span(index, &self.vars, false);
        let end = match index.period().map(i128::from) {
            // It wraps around and may reach any index.
            Some(period) if least < 0 || high > period => return clamped([0, period - 1], 1, period),
            Some(period) => period,
            None => extent as i128,
        };
        clamped([least, high - 1], self.step(index).max(1).into(), end)
    }

    /// Whether an index takes all values between its minimum and maximum that its steps allow.
    fn has_no_gaps(&self, index: &Affine) -> bool {
        let mut factors: Vec<_> = self.moved(index).map(|(factor, extent)| (i128::from(factor), extent)).collect();
        factors.sort_unstable();
        let step = self.step(index).into();
        // There is no gap if the next variable's step is at most one step more than the range of those before it.
        let mut reached = 0i128;
        factors.into_iter().all(|(factor, extent)| {
            let follows = factor <= reached.saturating_add(step);
            reached = reached.saturating_add(factor.saturating_mul(extent - 1));
            follows
        })
    }
}

/// The indices of a progression from `least` to `most` with this step that are in `0..end`.
fn clamped([least, most]: [i128; 2], step: i128, end: i128) -> Progression {
    let skipped = if least < 0 { (-least + step - 1) / step } else { 0 };
    let first = least + skipped * step;
    let last = most.min(end - 1);
    if first > last {
        return Progression::EMPTY;
    }
    let number = |value: i128| i64::try_from(value).unwrap_or(i64::MAX);
    Progression { first: number(first), step: number(step), count: number((last - first) / step + 1) }
}

#[cfg(test)]
mod tests;
