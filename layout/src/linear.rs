//! Placements in normal form: sums of coordinates, optionally modulo a number.

use crate::{AxisExpr, Mesh, ShardingError};
use serde::Serialize;

/// `sum of coefficient * coordinate + constant`, optionally modulo: a placement in normal form.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct LinearAxes {
    /// Coefficients by axis position; no axis twice, none zero, positions ascending.
    pub terms: Vec<(usize, i64)>,
    /// The constant term.
    pub constant: i64,
    /// The remainder in `0..modulus` is taken at the end.
    pub modulus: Option<i64>,
}

/// Returns the number nearest to 0 that is equal modulo `modulus`.
#[must_use]
pub fn nearest_to_0(value: i64, modulus: i64) -> i64 {
    let rest = value.rem_euclid(modulus);
    if rest > modulus / 2 { rest - modulus } else { rest }
}

const TOO_LARGE: [&str; 2] = ["its numbers exceed 2^62", "use smaller ones"];

impl LinearAxes {
    /// Returns the value at `coordinates`.
    #[must_use]
    pub fn eval(&self, coordinates: &[usize]) -> i64 {
        let sum = self.sum(coordinates);
        self.modulus.map_or(sum, |modulus| sum.rem_euclid(modulus.into())) as i64
    }

    /// The value before the remainder is taken, which may be beyond 64 bits.
    pub(crate) fn sum(&self, coordinates: &[usize]) -> i128 {
        let terms = self.terms.iter().map(|&(axis, factor)| i128::from(factor) * coordinates[axis] as i128);
        terms.sum::<i128>() + i128::from(self.constant)
    }

    /// The form as an expression.
    pub(crate) fn expr(&self, mesh: &Mesh) -> AxisExpr {
        if let Some((_, terms)) =
            self.radix(mesh).filter(|(_, terms)| terms.len() > 1 && terms.len() == self.terms.len())
        {
            return AxisExpr::List(terms.iter().rev().map(|&(axis, _)| mesh.as_slice()[axis].name).collect());
        }
        let times = |axis: usize, factor: i64| {
            let axis = AxisExpr::Axis(mesh.as_slice()[axis].name);
            if factor == 1 { axis } else { axis * factor }
        };
        let plus = |sum: AxisExpr, &(axis, factor): &(usize, i64)| match factor {
            // Factors and constants are never `i64::MIN`, which cannot be negated.
            ..0 => sum - times(axis, -factor),
            _ => sum + times(axis, factor),
        };
        let (first, constant) = match self.terms.first() {
            Some(&(axis, factor)) => (times(axis, factor), self.constant),
            None => (AxisExpr::Const(self.constant), 0),
        };
        let sum = self.terms.iter().skip(1).fold(first, plus);
        let sum = match constant {
            0 => sum,
            constant if constant < 0 => sum - -constant,
            constant => sum + constant,
        };
        self.modulus.map_or(sum.clone(), |modulus| sum % modulus)
    }

    /// The form of an expression as written; see [`normal`](Self::normal).
    pub(crate) fn new(expr: &AxisExpr, mesh: &Mesh) -> Result<Self, ShardingError> {
        let unsupported = |[why, help]: [_; 2]| ShardingError::Unsupported { expr: expr.clone(), why, help };
        let (inner, modulus) = match expr {
            AxisExpr::Mod(_, modulus) if *modulus < 1 => {
                return Err(unsupported(["its modulus is not positive", "write a modulus of at least 1"]));
            }
            AxisExpr::Mod(inner, modulus) => (&**inner, Some(*modulus)),
            _ => (expr, None),
        };
        let mut linear = Self { terms: Vec::new(), constant: 0, modulus };
        linear.add(inner, 1, mesh, &unsupported)?;
        linear.terms.retain(|&(_, factor)| factor != 0);
        linear.terms.sort_unstable();
        Ok(linear)
    }

    fn add(
        &mut self,
        expr: &AxisExpr,
        factor: i64,
        mesh: &Mesh,
        unsupported: &impl Fn([&'static str; 2]) -> ShardingError,
    ) -> Result<(), ShardingError> {
        let wide = i128::from(factor);
        let number = |linear: &Self, value: i128| linear.number(value).ok_or_else(|| unsupported(TOO_LARGE));
        match expr {
            AxisExpr::Const(value) => {
                self.constant = number(self, i128::from(self.constant) + wide * i128::from(*value))?;
            }
            AxisExpr::Axis(name) => {
                let axis = mesh.position(*name).ok_or_else(|| ShardingError::unknown_axis(*name, mesh))?;
                let place = self.terms.iter().position(|term| term.0 == axis).unwrap_or_else(|| {
                    self.terms.push((axis, 0));
                    self.terms.len() - 1
                });
                self.terms[place].1 = number(self, i128::from(self.terms[place].1) + wide)?;
            }
            AxisExpr::List(names) => {
                let mut stride = factor;
                for name in names.iter().rev() {
                    let axis = mesh.axis(name.as_str()).ok_or_else(|| ShardingError::unknown_axis(*name, mesh))?;
                    let twice = names.iter().filter(|other| *other == name).count() > 1;
                    if twice {
                        return Err(unsupported(["it lists an axis twice", "list each axis once"]));
                    }
                    self.add(&AxisExpr::Axis(*name), stride, mesh, unsupported)?;
                    stride = number(self, i128::from(stride) * axis.extent as i128)?;
                }
            }
            AxisExpr::Add(left, right) => {
                self.add(left, factor, mesh, unsupported)?;
                self.add(right, factor, mesh, unsupported)?;
            }
            AxisExpr::Sub(left, right) => {
                self.add(left, factor, mesh, unsupported)?;
                self.add(right, -factor, mesh, unsupported)?;
            }
            AxisExpr::Mul(inner, by) => {
                self.add(inner, number(self, wide * i128::from(*by))?, mesh, unsupported)?;
            }
            AxisExpr::Mod(..) => {
                return Err(unsupported(["it has a `%` inside", "take the remainder once, at the end"]));
            }
        }
        Ok(())
    }

    /// The canonical form of all that have these values on the mesh: no axes of one rank, no redundant modulus, and numbers
    /// replaced by the remainders nearest to 0.
    pub(crate) fn normal(mut self, mesh: &Mesh) -> Self {
        let extent = |axis: usize| mesh.as_slice()[axis].extent;
        self.terms.retain(|&(axis, _)| extent(axis) > 1);
        let Some(modulus) = self.modulus else { return self };
        let positive = |&(axis, factor): &(usize, i64)| (axis, factor.rem_euclid(modulus));
        let terms = self.terms.iter().map(positive).filter(|term| term.1 != 0).collect();
        let constant = self.constant.rem_euclid(modulus);
        let plain = Self { terms, constant, modulus: None };
        if plain.radix(mesh).is_some_and(|(parts, _)| parts == modulus) {
            return plain;
        }
        let terms = plain.terms.iter().map(|&(axis, factor)| (axis, nearest_to_0(factor, modulus))).collect();
        Self { terms, constant: nearest_to_0(constant, modulus), modulus: self.modulus }
    }

    /// A number of the form, reduced by the modulus if the form has one, keeping its sign as written; `None` if there is no
    /// modulus and it exceeds 2^62.
    fn number(&self, value: i128) -> Option<i64> {
        let value = self.modulus.map_or(value, |modulus| value % i128::from(modulus));
        i64::try_from(value).ok().filter(|value| self.modulus.is_some() || value.unsigned_abs() <= 1 << 62)
    }

    /// The number of digits, and for a plain mixed-radix form each axis with the digit's stride.
    pub(crate) fn radix(&self, mesh: &Mesh) -> Option<(i64, Vec<(usize, i64)>)> {
        let extent = |axis: usize| mesh.as_slice()[axis].extent as i64;
        let mut terms: Vec<_> = self.terms.iter().copied().filter(|&(axis, _)| extent(axis) > 1).collect();
        terms.sort_by_key(|&(_, factor)| factor);
        let mut stride = 1;
        for &(axis, factor) in &terms {
            if factor != stride {
                return None;
            }
            stride *= extent(axis);
        }
        (self.constant == 0 && self.modulus.is_none()).then_some((stride, terms))
    }

    /// The number of digits.
    ///
    /// # Errors
    /// If the form is neither a remainder nor a mixed-radix number of coordinates.
    pub(crate) fn parts(&self, mesh: &Mesh) -> Result<i64, ShardingError> {
        let parts = self.modulus.or_else(|| self.radix(mesh).map(|(parts, _)| parts));
        parts.ok_or_else(|| {
            let why = "it is neither an axis, a list of axes nor a remainder";
            ShardingError::NoOwner { expr: self.expr(mesh).to_string(), why, help: "add `% parts`" }
        })
    }

    /// The mixed-radix number whose leading digits are those of `outer` and whose others are those of `inner`.
    pub(crate) fn joined(outer: &Self, inner: &Self, mesh: &Mesh) -> Option<Self> {
        let (_, (parts, _)) = (outer.radix(mesh)?, inner.radix(mesh)?);
        if outer.terms.iter().any(|term| inner.terms.iter().any(|other| other.0 == term.0)) {
            return None;
        }
        let leading = outer.terms.iter().map(|&(axis, factor)| Some((axis, factor.checked_mul(parts)?)));
        let mut terms = leading.chain(inner.terms.iter().copied().map(Some)).collect::<Option<Vec<_>>>()?;
        terms.sort_unstable();
        Some(Self { terms, constant: 0, modulus: None })
    }
}
