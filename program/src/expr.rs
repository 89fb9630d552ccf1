//! Index expressions of programs: linear forms over mesh coordinates and loop counters.
//!
//! A form is kept as a sorted sum of atoms, so that equal forms are equal values and simple ones print
//! as people write them: `256*((y + ko) % 8)`. Everything that follows from the ranges of coordinates and
//! counters is decided when a form is built; whether a form is *right* is for isl to decide.
//!
//! The numbers of a schedule are bounded such that no form overflows ([`crate::bounds`]). If one did
//! nevertheless, it would saturate: the form is then wrong, and isl rejects it.

use crate::ids::{AxisId, CounterId};
use polyshard_layout::{LinearAxes, signed_sum};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A variable of expressions: a mesh coordinate or a loop counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Symbol {
    /// This rank's coordinate along an axis.
    Coordinate(AxisId),
    /// The counter of a loop.
    Counter(CounterId),
}

/// A term of an [`Expr`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Atom {
    /// A coordinate or a counter.
    Symbol(Symbol),
    /// `floor(e / d)`, `d` positive.
    Div(Box<Expr>, i64),
    /// `e mod d`, in `0..d`.
    Mod(Box<Expr>, i64),
    /// The minimum of two.
    Min(Box<Expr>, Box<Expr>),
    /// The maximum of two.
    Max(Box<Expr>, Box<Expr>),
}

/// `sum of coefficient * atom + constant`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Expr {
    terms: BTreeMap<Atom, i64>,
    constant: i64,
}

/// An expression as stored in a file, where keys of maps are strings.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Expr", deny_unknown_fields)]
struct Written {
    terms: Vec<(Atom, i64)>,
    constant: i64,
}

impl From<Expr> for Written {
    fn from(Expr { terms, constant }: Expr) -> Self {
        Self { terms: terms.into_iter().collect(), constant }
    }
}

impl TryFrom<Written> for Expr {
    type Error = String;

    fn try_from(Written { terms, constant }: Written) -> Result<Self, String> {
        let divides = |atom: &Atom| matches!(atom, Atom::Div(_, by) | Atom::Mod(_, by) if *by < 1);
        if terms.iter().any(|(atom, _)| divides(atom)) {
            return Err("an expression divides by a number below 1".into());
        }
        // The smallest number has no negation.
        if terms.iter().map(|term| term.1).chain([constant]).any(|number| number == i64::MIN) {
            return Err(format!("an expression has the number {}, whose negative does not fit in 64 bits", i64::MIN));
        }
        Ok(Self { terms: terms.into_iter().collect(), constant })
    }
}

/// The ranges of coordinates and counters, `0..extent`, by which expressions are simplified.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// Extents of the mesh axes.
    pub coordinates: Vec<i64>,
    /// Extents of the loops by number.
    pub counters: Vec<i64>,
}

impl Expr {
    /// Returns a constant.
    #[must_use]
    pub fn constant(value: i64) -> Self {
        Self { terms: BTreeMap::new(), constant: value }
    }

    /// Returns a coordinate or a counter.
    #[must_use]
    pub fn symbol(symbol: Symbol) -> Self {
        Self::atom(Atom::Symbol(symbol))
    }

    fn atom(atom: Atom) -> Self {
        Self { terms: BTreeMap::from([(atom, 1)]), constant: 0 }
    }

    /// Returns the terms, in order.
    pub fn terms(&self) -> impl Iterator<Item = (&Atom, i64)> {
        self.terms.iter().map(|(atom, &factor)| (atom, factor))
    }

    /// Returns the terms, those with positive coefficients first: `y - x` rather than `-x + y`.
    pub fn positive_first(&self) -> impl Iterator<Item = (&Atom, i64)> {
        let (positive, negative): (Vec<_>, Vec<_>) = self.terms().partition(|term| term.1 > 0);
        positive.into_iter().chain(negative)
    }

    /// Returns the constant term.
    #[must_use]
    pub fn offset(&self) -> i64 {
        self.constant
    }

    /// Returns the value, if it is a constant.
    #[must_use]
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// Returns the digit of a rank that its coordinates give.
    #[must_use]
    pub fn of_rank(at: &LinearAxes, ranges: &Ranges) -> Self {
        let terms =
            at.terms.iter().map(|&(axis, factor)| Self::symbol(Symbol::Coordinate(AxisId(axis))).multiply(factor));
        let sum = terms.fold(Self::constant(at.constant), |sum, term| sum.add(&term));
        at.modulus.map_or(sum.clone(), |modulus| sum.rem(modulus, ranges))
    }

    /// Returns the only term, if the expression is one atom.
    pub fn as_atom(&self) -> Option<&Atom> {
        match self.terms.iter().next() {
            Some((atom, 1)) if self.terms.len() == 1 && self.constant == 0 => Some(atom),
            _ => None,
        }
    }

    /// Returns the expressions of which this is the maximum if `of_max`, else the minimum.
    pub fn operands(&self, of_max: bool) -> Vec<Self> {
        match self.branches() {
            Some((branches, is_max)) if is_max == of_max => {
                branches.iter().flat_map(|branch| branch.operands(of_max)).collect()
            }
            _ => vec![self.clone()],
        }
    }

    /// Returns `self + other`.
    #[must_use]
    pub fn add(&self, other: &Self) -> Self {
        self.add_multiple(other, 1)
    }

    /// Returns `self - other`.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        self.add_multiple(other, -1)
    }

    /// Returns `self + value`.
    #[must_use]
    pub fn offset_by(&self, value: i64) -> Self {
        Self { terms: self.terms.clone(), constant: self.constant.saturating_add(value) }
    }

    /// Returns `factor * self`.
    #[must_use]
    pub fn multiply(&self, factor: i64) -> Self {
        Self::default().add_multiple(self, factor)
    }

    /// Returns `factor * self` up to multiples of `modulus`, with numbers below it.
    pub fn multiply_modulo(&self, factor: i64, modulus: i64) -> Self {
        let by = |value: i64| (i128::from(value) * i128::from(factor) % i128::from(modulus)) as i64;
        let terms = self.terms.iter().map(|(atom, &value)| (atom.clone(), by(value))).filter(|term| term.1 != 0);
        Self { terms: terms.collect(), constant: by(self.constant) }
    }

    /// Returns `self` without the terms that are multiples of `modulus` whatever their symbols are.
    pub fn without_multiples(&self, modulus: i64) -> Self {
        let terms = self.terms.iter().filter(|(_, by)| **by % modulus != 0);
        Self { terms: terms.map(|(atom, &by)| (atom.clone(), by)).collect(), constant: self.constant }
    }

    fn add_multiple(&self, other: &Self, factor: i64) -> Self {
        let mut sum = self.clone();
        sum.constant = sum.constant.saturating_add(factor.saturating_mul(other.constant));
        for (atom, &by) in &other.terms {
            let term = sum.terms.entry(atom.clone()).or_default();
            *term = term.saturating_add(factor.saturating_mul(by));
        }
        sum.terms.retain(|_, by| *by != 0);
        sum
    }

    /// Returns `floor(self / divisor)`, simplified.
    #[must_use]
    pub fn div(&self, divisor: i64, ranges: &Ranges) -> Self {
        if divisor == 1 {
            return self.clone();
        }
        let (quotient, rest) = self.divided(divisor);
        let (low, high) = rest.bounds(ranges);
        if low.div_euclid(divisor) == high.div_euclid(divisor) {
            return quotient.offset_by(low.div_euclid(divisor));
        }
        quotient.add(&Self::atom(Atom::Div(Box::new(rest), divisor)))
    }

    /// Returns `self mod modulus`, in `0..modulus`, simplified.
    #[must_use]
    pub fn rem(&self, modulus: i64, ranges: &Ranges) -> Self {
        if modulus == 1 {
            return Self::constant(0);
        }
        let (_, rest) = self.flattened(modulus).divided(modulus);
        let (low, high) = rest.bounds(ranges);
        if low.div_euclid(modulus) == high.div_euclid(modulus) {
            return rest.offset_by((-modulus).saturating_mul(low.div_euclid(modulus)));
        }
        Self::atom(Atom::Mod(Box::new(rest), modulus))
    }

    /// The sum without inner remainders that the remainder by `modulus` makes redundant.
    fn flattened(&self, modulus: i64) -> Self {
        self.terms.iter().fold(Self::constant(self.constant), |sum, (atom, &factor)| match atom {
            Atom::Mod(inner, m) if m % modulus == 0 => sum.add_multiple(&inner.flattened(modulus), factor),
            _ => sum.add_multiple(&Self::atom(atom.clone()), factor),
        })
    }

    /// Writes `self` as `divisor * first + second`, with small coefficients in the second.
    fn divided(&self, divisor: i64) -> (Self, Self) {
        let mut quotient = Self::constant(self.constant.div_euclid(divisor));
        let mut rest = Self::constant(self.constant.rem_euclid(divisor));
        for (atom, &factor) in &self.terms {
            let (by, left) = (factor / divisor, factor % divisor);
            if by != 0 {
                quotient.terms.insert(atom.clone(), by);
            }
            if left != 0 {
                rest.terms.insert(atom.clone(), left);
            }
        }
        (quotient, rest)
    }

    /// Returns the minimum of the two, simplified.
    #[must_use]
    pub fn min(a: &Self, b: &Self, ranges: &Ranges) -> Self {
        Self::extreme(a, b, false, ranges)
    }

    /// Returns the maximum of the two, simplified.
    #[must_use]
    pub fn max(a: &Self, b: &Self, ranges: &Ranges) -> Self {
        Self::extreme(a, b, true, ranges)
    }

    fn extreme(a: &Self, b: &Self, is_max: bool, ranges: &Ranges) -> Self {
        let (low, high) = a.subtract(b).bounds(ranges);
        let is_one = if is_max { [low >= 0, high <= 0] } else { [high <= 0, low >= 0] };
        match is_one {
            [true, _] => a.clone(),
            [_, true] => b.clone(),
            _ => {
                let [a, b] = if a <= b { [a, b] } else { [b, a] }.map(|e| Box::new(e.clone()));
                Self::atom(if is_max { Atom::Max(a, b) } else { Atom::Min(a, b) })
            }
        }
    }

    /// Returns bounds on the value, both inclusive; they hold, but need not be tight.
    #[must_use]
    pub fn bounds(&self, ranges: &Ranges) -> (i64, i64) {
        // `min(a, b) - a` is at most 0: a sum with one min or max is bounded through its branches.
        if let Some((branches, is_max)) = self.branches() {
            return bounds_of_two(branches.map(|branch| branch.bounds(ranges)), is_max);
        }
        self.terms.iter().fold((self.constant, self.constant), |(low, high), (atom, &factor)| {
            let (a, b) = atom.bounds(ranges);
            let (a, b) = (a.saturating_mul(factor), b.saturating_mul(factor));
            (low.saturating_add(a.min(b)), high.saturating_add(a.max(b)))
        })
    }

    /// The two sums that replace the first min or max, and whether the sum is their maximum.
    pub fn branches(&self) -> Option<([Self; 2], bool)> {
        let (atom, factor) = self
            .terms
            .iter()
            .find(|(atom, _)| matches!(atom, Atom::Min(..) | Atom::Max(..)))
            .map(|(atom, &factor)| (atom.clone(), factor))?;
        let mut rest = self.clone();
        rest.terms.remove(&atom);
        let (a, b, is_max) = match &atom {
            Atom::Max(a, b) => (a, b, true),
            Atom::Min(a, b) => (a, b, false),
            _ => return None,
        };
        Some(([rest.add_multiple(a, factor), rest.add_multiple(b, factor)], is_max == (factor > 0)))
    }

    /// Returns the symbols that occur, perhaps more than once.
    pub(crate) fn symbols(&self) -> Vec<Symbol> {
        let of_atom = |atom: &Atom| match atom {
            Atom::Symbol(symbol) => vec![*symbol],
            Atom::Div(inner, _) | Atom::Mod(inner, _) => inner.symbols(),
            Atom::Min(a, b) | Atom::Max(a, b) => [a.symbols(), b.symbols()].concat(),
        };
        self.terms.keys().flat_map(of_atom).collect()
    }

    /// Returns whether `symbol` occurs.
    #[must_use]
    pub fn mentions(&self, symbol: Symbol) -> bool {
        self.symbols().contains(&symbol)
    }

    /// Returns the expression with `symbol` replaced, simplified again.
    #[must_use]
    pub fn replace(&self, symbol: Symbol, by: &Self, ranges: &Ranges) -> Self {
        self.replace_all(&|other| (other == symbol).then(|| by.clone()), ranges)
    }

    /// Returns the expression with every symbol that has a value replaced, all at once, and simplified again.
    #[must_use]
    pub fn replace_all(&self, value: &impl Fn(Symbol) -> Option<Self>, ranges: &Ranges) -> Self {
        let replaced = |e: &Self| e.replace_all(value, ranges);
        self.terms.iter().fold(Self::constant(self.constant), |sum, (atom, &factor)| {
            let value = match atom {
                Atom::Symbol(symbol) => value(*symbol).unwrap_or_else(|| Self::symbol(*symbol)),
                Atom::Div(e, d) => replaced(e).div(*d, ranges),
                Atom::Mod(e, d) => replaced(e).rem(*d, ranges),
                Atom::Min(a, b) => Self::min(&replaced(a), &replaced(b), ranges),
                Atom::Max(a, b) => Self::max(&replaced(a), &replaced(b), ranges),
            };
            sum.add_multiple(&value, factor)
        })
    }

    /// Returns the value, given the coordinates by axis and the counters by loop number; arithmetic saturates at 64 bits.
    #[must_use]
    pub fn eval(&self, coordinates: &[i64], counters: &[i64]) -> i64 {
        let value = |e: &Self| e.eval(coordinates, counters);
        self.terms.iter().fold(self.constant, |sum, (atom, factor)| {
            let value = match atom {
                Atom::Symbol(Symbol::Coordinate(AxisId(axis))) => coordinates[*axis],
                Atom::Symbol(Symbol::Counter(number)) => counters[number.0],
                Atom::Div(e, d) => value(e).div_euclid(*d),
                Atom::Mod(e, d) => value(e).rem_euclid(*d),
                Atom::Min(a, b) => value(a).min(value(b)),
                Atom::Max(a, b) => value(a).max(value(b)),
            };
            sum.saturating_add(factor.saturating_mul(value))
        })
    }

    /// The expression as a minimum or maximum alone, if it is one plus a constant:
    /// `min(a, 7) + 1` reads better as `min(a + 1, 8)`.
    fn distributed(&self) -> Option<Atom> {
        let (atom, &factor) = self.terms.first_key_value()?;
        let alone = self.terms.len() == 1 && factor == 1 && self.constant != 0;
        if alone { atom.offset_by(self.constant) } else { None }
    }

    /// Returns the expression as text for people, with symbols named by `name`.
    #[must_use]
    pub fn show(&self, name: &impl Fn(Symbol) -> String) -> String {
        if let Some(inner) = self.distributed() {
            return inner.text(name, false);
        }
        let inside = self.as_atom().is_none();
        let terms = self.positive_first().map(|(atom, factor)| (factor, atom.text(name, inside)));
        signed_sum(terms, self.constant, "*")
    }
}

/// The bounds of the minimum of two expressions with these bounds, or of their maximum.
fn bounds_of_two([a, b]: [(i64, i64); 2], is_max: bool) -> (i64, i64) {
    if is_max { (a.0.max(b.0), a.1.max(b.1)) } else { (a.0.min(b.0), a.1.min(b.1)) }
}

impl Atom {
    /// The minimum or maximum with `value` added to both operands.
    fn offset_by(&self, value: i64) -> Option<Self> {
        let moved = |e: &Expr| Box::new(e.offset_by(value));
        match self {
            Self::Min(a, b) => Some(Self::Min(moved(a), moved(b))),
            Self::Max(a, b) => Some(Self::Max(moved(a), moved(b))),
            _ => None,
        }
    }

    fn bounds(&self, ranges: &Ranges) -> (i64, i64) {
        match self {
            Self::Symbol(Symbol::Coordinate(AxisId(axis))) => (0, (ranges.coordinates[*axis] - 1).max(0)),
            Self::Symbol(Symbol::Counter(number)) => (0, (ranges.counters[number.0] - 1).max(0)),
            Self::Div(e, d) => {
                let (low, high) = e.bounds(ranges);
                (low.div_euclid(*d), high.div_euclid(*d))
            }
            Self::Mod(e, d) => {
                let (low, high) = e.bounds(ranges);
                if low >= 0 { (0, high.min(d - 1)) } else { (0, d - 1) }
            }
            Self::Min(a, b) | Self::Max(a, b) => {
                bounds_of_two([a, b].map(|e| e.bounds(ranges)), matches!(self, Self::Max(..)))
            }
        }
    }

    fn text(&self, name: &impl Fn(Symbol) -> String, inside: bool) -> String {
        let group = |e: &Expr| {
            let text = e.show(name);
            match e.as_atom() {
                Some(Atom::Symbol(_)) => text,
                _ if e.as_constant().is_some_and(|value| value >= 0) => text,
                _ => format!("({text})"),
            }
        };
        let close = |text: String| if inside { format!("({text})") } else { text };
        match self {
            Self::Symbol(symbol) => name(*symbol),
            Self::Div(e, d) => close(format!("{} / {d}", group(e))),
            Self::Mod(e, d) => close(format!("{} % {d}", group(e))),
            Self::Min(a, b) => format!("min({}, {})", a.show(name), b.show(name)),
            Self::Max(a, b) => format!("max({}, {})", a.show(name), b.show(name)),
        }
    }
}

#[cfg(test)]
mod tests;
