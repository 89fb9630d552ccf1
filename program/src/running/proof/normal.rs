//! The form of a formula, and its simplifications.
//!
//! | formula | form |
//! | --- | --- |
//! | `+`, `-`, `*`, `/` | multiplied out |
//! | `exp(a)` | e to the power of a form; `exp(log(a))` is `a` |
//! | `pow(a, n)` for a small integer `n` | multiplied out |
//! | `max(max(a, b), a)` | the largest of a set |
//! | other functions, and choices | equal if their parts are |
//! Tests: `program/src/running/proof/tests.rs`.

use super::form::{Atom, Form, FormId, Forms, Operation, Outcome, small_integer};
use crate::number::Number;
use crate::value::{Conditional, Function, Value};
use num_rational::BigRational;
use polyshard_layout::Name;
use std::collections::{BTreeSet, HashMap};

/// The forms of names.
pub(super) type Known = HashMap<Name, Form>;

impl Forms {
    /// Returns the form of a formula.
    pub(super) fn normalise(&mut self, value: &Value, known: &Known) -> Outcome<Form> {
        match value {
            Value::Access(_) | Value::Index(_) => Err("an element or an index is not a field"),
            Value::Literal(number) => Ok(Form::constant(rational(*number)?)),
            Value::Scalar(name) => {
                let form = known.get(name).ok_or("a name is neither a field nor a `let`")?;
                self.copy(form)
            }
            Value::Neg(a) => {
                let a = self.normalise(a, known)?;
                self.neg(&a)
            }
            Value::Add(a, b) | Value::Sub(a, b) | Value::Mul(a, b) | Value::Div(a, b) => {
                let (a, b) = (self.normalise(a, known)?, self.normalise(b, known)?);
                match value {
                    Value::Add(..) => self.add(&a, &b),
                    Value::Mul(..) => self.mul(&a, &b),
                    Value::Div(..) => self.div(&a, &b),
                    _ => {
                        let negative = self.neg(&b)?;
                        self.add(&a, &negative)
                    }
                }
            }
            Value::Call(Function::Exp, a) => {
                let a = self.normalise(a, known)?;
                self.exp(&a)
            }
            Value::Call(function, a) => self.applied(Operation::Call(*function), &[a], known),
            Value::Max(a, b) => self.extreme(Operation::Max, [a, b], known),
            Value::Min(a, b) => self.extreme(Operation::Min, [a, b], known),
            Value::Pow(a, b) => {
                let power = self.normalise(b, known)?;
                match power.as_constant().as_ref().and_then(small_integer) {
                    Some(power) => {
                        let a = self.normalise(a, known)?;
                        self.power(&a, power)
                    }
                    None => self.applied(Operation::Pow, &[a, b], known),
                }
            }
            Value::If(choice) => {
                let Conditional { compare, left, right, then, otherwise } = &**choice;
                self.applied(Operation::If(*compare), &[left, right, then, otherwise], known)
            }
        }
    }

    fn applied(&mut self, operation: Operation, arguments: &[&Value], known: &Known) -> Outcome<Form> {
        let number = |argument: &&Value| {
            let form = self.normalise(argument, known)?;
            self.number(form)
        };
        let arguments = arguments.iter().map(number).collect::<Outcome<_>>()?;
        self.atom(Atom::Apply(operation, arguments))
    }

    /// The largest or the smallest of a set of forms, of which at most one is a number.
    fn extreme(&mut self, operation: Operation, pair: [&Value; 2], known: &Known) -> Outcome<Form> {
        let mut arguments = BTreeSet::new();
        for value in pair {
            let form = self.normalise(value, known)?;
            match self.as_applied(&form) {
                Some((inner, parts)) if inner == operation => arguments.extend(parts.iter().copied()),
                _ => arguments.extend([self.number(form)?]),
            }
        }
        let constants = arguments.iter().filter_map(|&id| self.form(id).as_constant());
        let limit = if operation == Operation::Max { constants.max() } else { constants.min() };
        arguments.retain(|&id| self.form(id).as_constant().is_none());
        if let Some(limit) = limit {
            arguments.insert(self.number(Form::constant(limit))?);
        }
        let arguments: Vec<FormId> = arguments.into_iter().collect();
        match *arguments {
            [only] => Ok(self.form(only).clone()),
            _ => self.atom(Atom::Apply(operation, arguments)),
        }
    }
}

/// A literal is the decimal number that was written: 0.1 is one tenth.
fn rational(number: Number) -> Outcome<BigRational> {
    let value = match number {
        Number::Int(value) => return Ok(BigRational::from_integer(value.into())),
        Number::Float(value) if value.is_finite() => format!("{value:e}"),
        Number::Float(_) => return Err("a formula has a number that is not finite"),
    };
    // The shortest decimal number of a float is an integer, or digits around a point, before a power of ten.
    let (digits, exponent) = value.split_once('e').expect("the format has an exponent");
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len() as i32);
    let digits: i64 = digits.replace('.', "").parse().expect("a float has at most 17 digits");
    let exponent: i32 = exponent.parse().expect("an exponent is an integer");
    let ten = BigRational::from_integer(10.into());
    Ok(BigRational::from_integer(digits.into()) * ten.pow(exponent - decimals))
}
