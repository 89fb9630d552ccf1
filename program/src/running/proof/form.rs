//! Rational functions in a normal form, with exact coefficients.
//!
//! A polynomial is a sum of monomials, and a monomial is a product of powers of atoms and of e to the power of another
//! form. An atom is a variable, or a function of forms of which nothing is known. Two forms are equal if their cross
//! products are the same polynomial. Equal forms then have equal values at every point at which all that was computed
//! is defined. Forms that are not equal may have equal values too, if the functions in them are related.
//!
//! Forms inside others are numbered, and equal ones have one number, so monomials compare quickly and a repeated
//! argument is stored once. Work is limited, since products of sums grow exponentially.
//! Tests: `program/src/running/proof/tests.rs`.

use crate::value::{Comparison, Function};
use num_rational::BigRational;
use num_traits::{One, ToPrimitive, Zero};
use polyshard_layout::Name;
use std::collections::BTreeMap;

/// A result, or why there is none.
pub(super) type Outcome<T> = Result<T, &'static str>;

const TOO_LARGE: &str = "the formulas are too large to multiply out";

/// Maximum number of operations on terms, each weighted by its size.
const MAX_WORK: u64 = 1 << 18;

/// Maximum number of bits in the numerator or denominator of a coefficient.
const MAX_BITS: u64 = 1 << 13;

/// Maximum depth of exponents in exponents.
const MAX_DEPTH: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AtomId(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FormId(usize);

/// The form 0, which is also the exponent of a monomial without a power of e.
const ZERO: FormId = FormId(0);

/// A function that is not simplified.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operation {
    Call(Function),
    Max,
    Min,
    Pow,
    If(Comparison),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Atom {
    Variable(Name),
    Apply(Operation, Vec<FormId>),
}

/// A product of powers, none of which is 0, and a power of e.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Monomial {
    powers: BTreeMap<AtomId, i32>,
    exponent: FormId,
}

/// A coefficient, which is not 0, for each monomial.
type Polynomial = BTreeMap<Monomial, BigRational>;

/// A quotient of polynomials. The first term of the denominator is 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Form {
    numerator: Polynomial,
    denominator: Polynomial,
}

impl Form {
    pub(super) fn constant(value: BigRational) -> Self {
        Self::term(Monomial { powers: BTreeMap::new(), exponent: ZERO }, value)
    }

    pub(super) fn one() -> Self {
        Self::constant(BigRational::one())
    }

    fn term(monomial: Monomial, coefficient: BigRational) -> Self {
        let unit = Monomial { powers: BTreeMap::new(), exponent: ZERO };
        let numerator = [(monomial, coefficient)].into_iter().filter(|(_, value)| !value.is_zero()).collect();
        Self { numerator, denominator: [(unit, BigRational::one())].into() }
    }

    fn is_polynomial(&self) -> bool {
        self.denominator.len() == 1
    }

    fn terms(&self) -> usize {
        self.numerator.len() + self.denominator.len()
    }

    /// Returns its value if it is a number.
    pub(super) fn as_constant(&self) -> Option<BigRational> {
        let mut terms = self.numerator.iter();
        match (self.is_polynomial(), terms.next(), terms.next()) {
            (true, None, _) => Some(BigRational::zero()),
            (true, Some((monomial, value)), None) => monomial.is_unit().then(|| value.clone()),
            _ => None,
        }
    }
}

impl Monomial {
    fn is_unit(&self) -> bool {
        self.powers.is_empty() && self.exponent == ZERO
    }

    /// Returns the atom if the monomial is nothing else.
    fn as_atom(&self) -> Option<AtomId> {
        let mut powers = self.powers.iter();
        match (powers.next(), powers.next()) {
            (Some((&atom, 1)), None) if self.exponent == ZERO => Some(atom),
            _ => None,
        }
    }
}

/// Returns the number if it is an integer to which power a form is multiplied out.
pub(super) fn small_integer(number: &BigRational) -> Option<i32> {
    number.is_integer().then(|| number.to_i32()).flatten().filter(|power| power.unsigned_abs() <= 16)
}

/// The numbered atoms and forms, and the operations on forms.
pub(super) struct Forms {
    atoms: Vec<Atom>,
    forms: Vec<Form>,
    /// What is left of [`MAX_WORK`].
    work: u64,
    depth: usize,
}

impl Forms {
    pub(super) fn new() -> Self {
        let zero = Form::constant(BigRational::zero());
        Self { atoms: Vec::new(), forms: vec![zero], work: MAX_WORK, depth: 0 }
    }

    pub(super) fn form(&self, id: FormId) -> &Form {
        &self.forms[id.0]
    }

    pub(super) fn atom(&mut self, atom: Atom) -> Outcome<Form> {
        self.charge(self.atoms.len())?;
        let at = self.atoms.iter().position(|known| *known == atom).unwrap_or(self.atoms.len());
        if at == self.atoms.len() {
            self.atoms.push(atom);
        }
        let monomial = Monomial { powers: [(AtomId(at), 1)].into(), exponent: ZERO };
        Ok(Form::term(monomial, BigRational::one()))
    }

    /// Returns the operation and its arguments if the form is nothing else.
    pub(super) fn as_applied(&self, form: &Form) -> Option<(Operation, &[FormId])> {
        let (monomial, coefficient) = form.numerator.first_key_value()?;
        let is_alone = form.is_polynomial() && form.numerator.len() == 1 && coefficient.is_one();
        match &self.atoms[monomial.as_atom().filter(|_| is_alone)?.0] {
            Atom::Variable(_) => None,
            Atom::Apply(operation, arguments) => Some((*operation, arguments)),
        }
    }

    /// Copies a form, which is work as well.
    pub(super) fn copy(&mut self, form: &Form) -> Outcome<Form> {
        self.charge(form.terms())?;
        Ok(form.clone())
    }

    pub(super) fn neg(&mut self, form: &Form) -> Outcome<Form> {
        let mut negative = self.copy(form)?;
        negative.numerator.values_mut().for_each(|value| *value = -&*value);
        Ok(negative)
    }

    pub(super) fn add(&mut self, a: &Form, b: &Form) -> Outcome<Form> {
        let (mut sum, other, denominator);
        if a.denominator == b.denominator {
            (sum, other, denominator) = (a.numerator.clone(), b.numerator.clone(), a.denominator.clone());
        } else {
            sum = self.product(&a.numerator, &b.denominator)?;
            other = self.product(&b.numerator, &a.denominator)?;
            denominator = self.product(&a.denominator, &b.denominator)?;
        }
        self.charge(sum.len() + denominator.len())?;
        for (monomial, value) in other {
            self.add_term(&mut sum, monomial, value)?;
        }
        self.quotient(sum, denominator)
    }

    pub(super) fn mul(&mut self, a: &Form, b: &Form) -> Outcome<Form> {
        let numerator = self.product(&a.numerator, &b.numerator)?;
        let denominator = self.product(&a.denominator, &b.denominator)?;
        self.quotient(numerator, denominator)
    }

    pub(super) fn div(&mut self, a: &Form, b: &Form) -> Outcome<Form> {
        let numerator = self.product(&a.numerator, &b.denominator)?;
        let denominator = self.product(&a.denominator, &b.numerator)?;
        self.quotient(numerator, denominator)
    }

    /// Returns the form to the power of an integer.
    pub(super) fn power(&mut self, form: &Form, power: i32) -> Outcome<Form> {
        let mut product = Form::one();
        for _ in 0..power.unsigned_abs() {
            product = self.mul(&product, form)?;
        }
        if power < 0 { self.div(&Form::one(), &product) } else { Ok(product) }
    }

    /// Returns e to the power of a form, with exp(k * log(u)) = u^k for small integers k: where log(u) is defined, u is
    /// positive.
    pub(super) fn exp(&mut self, form: &Form) -> Outcome<Form> {
        let mut exponent = self.copy(form)?;
        let mut result = Form::one();
        if form.is_polynomial() {
            for (monomial, factor) in &form.numerator {
                let (Some(power), Some(atom)) = (small_integer(factor), monomial.as_atom()) else { continue };
                if let Atom::Apply(Operation::Call(Function::Log), argument) = &self.atoms[atom.0] {
                    let argument = self.forms[argument[0].0].clone();
                    exponent.numerator.remove(monomial);
                    let raised = self.power(&argument, power)?;
                    result = self.mul(&result, &raised)?;
                }
            }
        }
        let monomial = Monomial { powers: BTreeMap::new(), exponent: self.number(exponent)? };
        self.mul(&result, &Form::term(monomial, BigRational::one()))
    }

    /// Returns whether the forms are equal wherever both are defined; false may mean that they are.
    pub(super) fn equal(&mut self, a: &Form, b: &Form) -> Outcome<bool> {
        if a.denominator == b.denominator {
            return Ok(a.numerator == b.numerator);
        }
        Ok(self.product(&a.numerator, &b.denominator)? == self.product(&b.numerator, &a.denominator)?)
    }

    /// Returns the number of a form, the same for equal ones.
    pub(super) fn number(&mut self, form: Form) -> Outcome<FormId> {
        self.charge(self.forms.len() + form.terms())?;
        if let Some(at) = self.forms.iter().position(|known| *known == form) {
            return Ok(FormId(at));
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(TOO_LARGE);
        }
        for at in 0..self.forms.len() {
            // Polynomials that are not the same are different.
            if form.is_polynomial() && self.forms[at].is_polynomial() {
                continue;
            }
            let known = self.forms[at].clone();
            self.charge(known.terms())?;
            if self.equal(&known, &form)? {
                self.depth -= 1;
                return Ok(FormId(at));
            }
        }
        self.depth -= 1;
        self.forms.push(form);
        Ok(FormId(self.forms.len() - 1))
    }

    /// Divides polynomials: by a single term exactly, and by others so that the first term of the denominator is 1.
    fn quotient(&mut self, numerator: Polynomial, denominator: Polynomial) -> Outcome<Form> {
        let Some((first, factor)) = denominator.first_key_value() else {
            return Err("a denominator is 0 for all values");
        };
        if numerator.is_empty() {
            return Ok(Form::constant(BigRational::zero()));
        }
        if first.is_unit() && factor.is_one() {
            return Ok(Form { numerator, denominator });
        }
        let powers = first.powers.iter().map(|(&atom, power)| Some((atom, power.checked_neg()?)));
        let powers = powers.collect::<Option<_>>().ok_or(TOO_LARGE)?;
        let exponent = self.forms[first.exponent.0].clone();
        let exponent = self.neg(&exponent)?;
        let inverse = Monomial { powers, exponent: self.number(exponent)? };
        // A term that is 1 is the first in the order of monomials.
        let inverse = Polynomial::from([(inverse, factor.recip())]);
        let (numerator, denominator) = (self.product(&numerator, &inverse)?, self.product(&denominator, &inverse)?);
        Ok(Form { numerator, denominator })
    }

    fn product(&mut self, a: &Polynomial, b: &Polynomial) -> Outcome<Polynomial> {
        let mut product = Polynomial::new();
        for (x, factor) in a {
            for (y, other) in b {
                let mut powers = x.powers.clone();
                for (&atom, &power) in &y.powers {
                    let sum = powers.entry(atom).or_default();
                    *sum = sum.checked_add(power).ok_or(TOO_LARGE)?;
                }
                powers.retain(|_, power| *power != 0);
                let exponent = self.exponent(x.exponent, y.exponent)?;
                self.add_term(&mut product, Monomial { powers, exponent }, factor * other)?;
            }
        }
        Ok(product)
    }

    /// Returns the exponent of a product: exp(u) * exp(v) = exp(u + v).
    fn exponent(&mut self, u: FormId, v: FormId) -> Outcome<FormId> {
        if u == ZERO || v == ZERO {
            // The other one: 0 has the lowest number.
            return Ok(u.max(v));
        }
        let (u, v) = (self.forms[u.0].clone(), self.forms[v.0].clone());
        let sum = self.add(&u, &v)?;
        self.number(sum)
    }

    fn add_term(&mut self, to: &mut Polynomial, monomial: Monomial, value: BigRational) -> Outcome<()> {
        let sum = match to.remove(&monomial) {
            Some(before) => before + value,
            None => value,
        };
        let bits = sum.numer().bits().max(sum.denom().bits());
        self.charge(1 + monomial.powers.len() + bits as usize / 16)?;
        if bits > MAX_BITS {
            return Err(TOO_LARGE);
        }
        if !sum.is_zero() {
            to.insert(monomial, sum);
        }
        Ok(())
    }

    fn charge(&mut self, cost: usize) -> Outcome<()> {
        self.work = self.work.checked_sub(cost as u64).ok_or(TOO_LARGE)?;
        Ok(())
    }
}
