//! Index expressions: affine, perhaps periodic.

use polyshard_layout::{Name, nearest_to_0, signed_sum};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// An affine index expression, `sum of coefficient * variable + constant`, perhaps periodic: `(i + 1) % 8`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Affine {
    /// Variables with their coefficients; no variable twice, no coefficient 0.
    pub terms: Vec<(Name, i64)>,
    /// The constant term.
    pub constant: i64,
    /// Where the index starts again from 0; the remainder is never negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modulus: Option<Modulus>,
}

impl Affine {
    /// Returns the expression with these terms; equal variables are added up.
    #[must_use]
    pub fn new(terms: impl IntoIterator<Item = (Name, i64)>, constant: i64) -> Self {
        let mut sum: Vec<(Name, i64)> = Vec::new();
        for (name, factor) in terms {
            match sum.iter_mut().find(|term| term.0 == name) {
                // A sum that saturates exceeds what a checked kernel may hold.
                Some(term) => term.1 = term.1.saturating_add(factor),
                None => sum.push((name, factor)),
            }
        }
        sum.retain(|term| term.1 != 0);
        Self { terms: sum, constant, modulus: None }
    }

    /// Returns the variable, if the expression is nothing else.
    #[must_use]
    pub fn as_variable(&self) -> Option<Name> {
        match (&self.terms[..], self.constant, &self.modulus) {
            (&[(name, 1)], 0, None) => Some(name),
            _ => None,
        }
    }

    /// Returns the values of `var` for which all indices in `var` alone stay inside their extents.
    ///
    /// `None` if there is no such index, or no such value.
    ///
    /// ```
    /// use polyshard::program::Affine;
    /// let i = "i".into();
    /// let [before, after] = [-1, 1].map(|by| Affine::new([(i, 1)], by));
    /// assert_eq!(Affine::fitting_range(i, [(&before, 18), (&after, 18)]), Some(1..17));
    /// ```
    pub fn fitting_range<'a>(var: Name, indices: impl IntoIterator<Item = (&'a Affine, i128)>) -> Option<Range<i128>> {
        // A periodic index stays inside for any value.
        let affine = indices.into_iter().filter(|(index, _)| index.modulus.is_none());
        let ranges = affine.filter_map(|(index, extent)| {
            let &[(name, factor)] = &index.terms[..] else { return None };
            let (constant, by) = (i128::from(index.constant), i128::from(factor).abs());
            // `by*v + c` is in `0..extent`, or with the sign turned, in `1 - extent..1`.
            let (low, high) = if factor > 0 {
                (-constant, extent.saturating_sub(constant))
            } else {
                ((constant + 1).saturating_sub(extent), constant + 1)
            };
            let ceil = |value: i128| -value.saturating_neg().div_euclid(by);
            (name == var).then(|| ceil(low)..ceil(high))
        });
        ranges.reduce(|a, b| a.start.max(b.start)..a.end.min(b.end)).filter(|range| range.start < range.end)
    }

    /// Returns the coefficient of `name`, 0 if it does not occur.
    #[must_use]
    pub fn coefficient(&self, name: Name) -> i64 {
        self.terms.iter().find(|term| term.0 == name).map_or(0, |term| term.1)
    }
}

/// Where a periodic index starts again from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Modulus {
    /// At this number, which in a checked [`Kernel`](crate::Kernel) is between 1 and the extent of the dimension.
    Number(i64),
    /// At the number that [`KernelSpec::moduli`](crate::KernelSpec::moduli) has under this name; not in a checked one.
    Captured(Name),
}

impl fmt::Display for Modulus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Captured(name) => write!(f, "{name}"),
        }
    }
}

impl Affine {
    /// Returns the remainder of the expression by `modulus`, which is never negative.
    ///
    /// ```
    /// use polyshard::program::{Affine, Modulus};
    /// let next = Affine::new([("i".into(), 1)], 1).modulo(Modulus::Number(8));
    /// assert_eq!(next.to_string(), "(i + 1) % 8");
    /// ```
    #[must_use]
    pub fn modulo(self, modulus: Modulus) -> Self {
        Self { modulus: Some(modulus), ..self }
    }

    /// Returns the modulus, if the expression of a checked kernel has one.
    ///
    /// # Panics
    /// If the modulus is not a number, as in a [`KernelSpec`](crate::KernelSpec) that is not checked.
    #[must_use]
    pub fn period(&self) -> Option<i64> {
        self.modulus.map(|modulus| match modulus {
            Modulus::Number(number) => number,
            Modulus::Captured(name) => panic!("the modulus `{name}` has no value, since the kernel is not checked"),
        })
    }

    /// Returns an expression without a modulus whose remainder is this one: coefficients and constant are those
    /// nearest to 0 with the same remainders, so that the elements that an iteration reads stay close together.
    ///
    /// ```
    /// use polyshard::program::{Affine, Modulus};
    /// let previous = Affine::new([("i".into(), 1)], 7).modulo(Modulus::Number(8));
    /// assert_eq!(previous.unwrapped().to_string(), "i - 1");
    /// ```
    ///
    /// # Panics
    /// As [`period`](Self::period).
    #[must_use]
    pub fn unwrapped(&self) -> Self {
        let Some(modulus) = self.period() else { return self.clone() };
        let near = |value: i64| nearest_to_0(value, modulus);
        Self::new(self.terms.iter().map(|&(name, factor)| (name, near(factor))), near(self.constant))
    }
}

impl fmt::Display for Affine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(modulus) = self.modulus {
            let sum = Self { modulus: None, ..self.clone() };
            let alone = sum.as_variable().is_some() || sum.terms.is_empty() && sum.constant >= 0;
            return if alone { write!(f, "{sum} % {modulus}") } else { write!(f, "({sum}) % {modulus}") };
        }
        let terms = self.terms.iter().map(|&(name, factor)| (factor, name));
        f.write_str(&signed_sum(terms, self.constant, "*"))
    }
}
