//! Proofs that a running reduction keeps the sums that its `means` states.
//!
//! A reduction keeps fields, such as the `m` and `l` of a softmax, and combines those of two parts, `a` and `b`. Each
//! of its means is a formula over the fields, such as `l * exp(m)`. The claim is that every mean of a combination is
//! the sum of that of `a` and that of `b`, and that every mean of the initial values is 0. If it holds, the means
//! depend neither on the order nor on the grouping in which parts are combined.
//!
//! The claim is about real numbers, so rounding does not refute it. It is checked at sample points first, where a
//! difference that rounding cannot explain is a counterexample. Then both sides are rewritten in a [form](form::Forms),
//! as rational functions. What is proved holds at every point at which all that the formulas compute is defined. A
//! claim that is neither refuted nor proved may be true.
//!
//! Integers are not covered: their division truncates, and their sums wrap.

mod approximate;
mod form;
mod normal;
mod sample;

#[cfg(test)]
mod tests;

use crate::value::Value;
use approximate::evaluate;
use form::{Atom, Forms, Outcome};
use normal::Known;
use polyshard_layout::{Name, joined};
use std::collections::HashMap;

/// A claim about the sums that a reduction keeps.
pub(super) struct Claim<'a> {
    /// The fields; formulas of the combination call those of the two parts `a.m` and `b.m`.
    pub(super) fields: &'a [Name],
    /// The initial value of each field, a constant.
    pub(super) init: &'a [Value],
    /// Values with a name; each may use those before it.
    pub(super) lets: &'a [(Name, Value)],
    /// The value of each field of the combination, from the fields of the parts and the `let`s.
    pub(super) formulas: &'a [Value],
    /// Formulas over the fields of one part, of which the reduction computes the sums.
    pub(super) means: &'a [Value],
}

/// Why a claim is not accepted, in a sentence for the user.
#[derive(Debug)]
pub(super) enum Doubt {
    /// It is false: a counterexample.
    False(String),
    /// It is neither proved nor refuted.
    Undecided(String),
}

/// Proves that the means of a combination are the sums of those of its parts, and 0 for the initial values.
///
/// # Errors
/// If this is false, or could not be decided.
pub(super) fn prove(claim: &Claim<'_>) -> Result<(), Doubt> {
    match (sample::refute(claim), starts_at_zero(claim)) {
        (Err(Doubt::Undecided(_)), Err(doubt @ Doubt::False(_))) => Err(doubt),
        (refuted, start) => refuted.and(start).and_then(|()| is_additive(claim)),
    }
}

impl Claim<'_> {
    /// Returns the fields of one part, `a.m` and so on.
    fn fields_of(&self, part: &str) -> Vec<Name> {
        self.fields.iter().map(|field| Name::new(&format!("{part}.{field}"))).collect()
    }
}

fn starts_at_zero(claim: &Claim<'_>) -> Result<(), Doubt> {
    let values = claim.init.iter().map(|value| evaluate(value, &HashMap::new()));
    let known = claim.fields.iter().copied().zip(values).collect();
    let fields = claim.fields.iter().zip(claim.init).map(|(field, value)| format!("{field}: {value}"));
    let fields = joined(fields, ", ");
    for mean in claim.means {
        let value = evaluate(mean, &known).value;
        if value.is_nan() {
            let text = format!("`{mean}` of the initial values ({fields}) is not a number; it must be 0");
            return Err(Doubt::Undecided(text));
        }
        if value != 0.0 {
            let value = sample::short(value, 4);
            return Err(Doubt::False(format!("`{mean}` of the initial values ({fields}) is {value}, not 0")));
        }
    }
    Ok(())
}

fn is_additive(claim: &Claim<'_>) -> Result<(), Doubt> {
    let mut forms = Forms::new();
    let undecided = |reason| Doubt::Undecided(format!("cannot decide what the combination computes: {reason}"));
    let parts = parts(claim, &mut forms).map_err(undecided)?;
    for mean in claim.means {
        let reason = match is_sum(mean, &parts, &mut forms) {
            Ok(true) => continue,
            Ok(false) => {
                "neither a proof nor a counterexample was found; the proof expands +, -, *, / and `exp`, and treats \
                 other functions as unknown"
            }
            Err(reason) => reason,
        };
        let what = format!("cannot decide whether `{mean}` of the combination is the sum of those of a and b");
        return Err(Doubt::Undecided(format!("{what}: {reason}")));
    }
    Ok(())
}

/// Returns the forms of the fields of the combination, of `a` and of `b`.
fn parts(claim: &Claim<'_>, forms: &mut Forms) -> Outcome<[Known; 3]> {
    let mut known = Known::new();
    let [a, b] = ["a", "b"].map(|part| claim.fields_of(part));
    let mut variables = |names: &[Name]| -> Outcome<Known> {
        let variables = claim.fields.iter().zip(names);
        let variable = |(&field, &name)| {
            let form = forms.atom(Atom::Variable(name))?;
            known.insert(name, form.clone());
            Ok((field, form))
        };
        variables.map(variable).collect()
    };
    let (a, b) = (variables(&a)?, variables(&b)?);
    for (name, value) in claim.lets {
        let form = forms.normalise(value, &known)?;
        known.insert(*name, form);
    }
    let combined =
        claim.fields.iter().zip(claim.formulas).map(|(&field, value)| Ok((field, forms.normalise(value, &known)?)));
    Ok([combined.collect::<Outcome<_>>()?, a, b])
}

fn is_sum(mean: &Value, [combined, a, b]: &[Known; 3], forms: &mut Forms) -> Outcome<bool> {
    let (left, a, b) = (forms.normalise(mean, combined)?, forms.normalise(mean, a)?, forms.normalise(mean, b)?);
    let right = forms.add(&a, &b)?;
    forms.equal(&left, &right)
}
