//! Counterexamples: sample points at which a mean of the combination is not the sum.
//!
//! The points are the same each time, with short numbers before others, so the first that refutes a claim is easy to
//! check by hand. Numbers of the formulas, and those next to them, are among them: so each branch of a `max` or an `if`
//! is taken somewhere.
//! Tests: `program/src/running/proof/tests.rs`.

use super::approximate::{Approximate, evaluate};
use super::{Claim, Doubt};
use crate::value::Value;
use polyshard_layout::{Name, joined};
use std::collections::HashMap;

/// Coordinates of points, the first ones first.
const SHORT: [f64; 12] = [1.0, 2.0, 3.0, 0.5, -1.0, 0.0, -2.0, 1.5, 4.0, -0.5, 0.25, -3.0];

/// Number of points with these coordinates.
const POINTS: usize = 64;

/// Number of further points for each coordinate taken from a number in the formulas.
const POINTS_PER_NUMBER: usize = 16;

/// Maximum number of coordinates taken from numbers in the formulas.
const MAX_OWN: usize = 24;

/// Smallest difference that refutes a claim, as a part of the larger side.
const SIGNIFICANT: f64 = 1e-6;

type Values = HashMap<Name, Approximate>;

/// The fields of both parts at a point, and those of the combination.
struct Sample {
    parts: [Vec<f64>; 2],
    of_parts: [Values; 2],
    combined: Values,
}

/// Looks for a counterexample.
///
/// # Errors
/// If there is one, or no point at which both sides are known.
pub(super) fn refute(claim: &Claim<'_>) -> Result<(), Doubt> {
    let samples = samples(claim);
    for mean in claim.means {
        let mut is_known = false;
        for sample in &samples {
            let combined = evaluate(mean, &sample.combined);
            let [a, b] = sample.of_parts.each_ref().map(|part| evaluate(mean, part));
            let sum = a.add(b);
            is_known |= combined.is_known() && sum.is_known();
            if combined.differs(sum, SIGNIFICANT) {
                return Err(Doubt::False(counterexample(claim, mean, sample, [combined, a, b, sum])));
            }
        }
        if !is_known {
            let text = format!("`{mean}` of the combination, or of a and b, is not finite at any sample point");
            return Err(Doubt::Undecided(text));
        }
    }
    Ok(())
}

fn counterexample(claim: &Claim<'_>, mean: &Value, sample: &Sample, sides: [Approximate; 4]) -> String {
    let fields = |values: &[f64]| {
        let fields = claim.fields.iter().zip(values);
        joined(fields.map(|(field, &value)| format!("{field}: {}", short(value, 17))), ", ")
    };
    let [first, second] = sample.parts.each_ref().map(|values| fields(values));
    let texts = |digits| sides.map(|side| short(side.value, digits));
    let [combined, a, b, sum] = match texts(4) {
        texts if texts[0] != texts[3] => texts,
        _ => texts(9),
    };
    let b = b.strip_prefix('-').map_or(format!("+ {b}"), |b| format!("- {b}"));
    format!("with a = ({first}) and b = ({second}), `{mean}` of the combination is {combined}, not {a} {b} = {sum}")
}

fn samples(claim: &Claim<'_>) -> Vec<Sample> {
    let mut own = Vec::new();
    let values = claim.lets.iter().map(|(_, value)| value).chain(claim.formulas).chain(claim.means);
    values.for_each(|value| numbers(value, &mut own));
    // A linear congruential generator (D. E. Knuth, MMIX).
    let mut state = 1_u64;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let mut coordinate = |point: usize, position: usize| match point {
        0..5 => SHORT[(point + position) % 5],
        POINTS.. if below(2) == 0 => own[below(own.len())],
        _ => SHORT[below(SHORT.len().min(2 + point / 4))],
    };
    let names = ["a", "b"].map(|part| claim.fields_of(part));
    let count = claim.fields.len();
    let points = (0..POINTS + POINTS_PER_NUMBER * own.len())
        .map(|point| [0, count].map(|first| (first..first + count).map(|at| coordinate(point, at)).collect()));
    points.map(|parts: [Vec<f64>; 2]| sample(claim, &names, parts)).collect()
}

/// Computes the fields of the combination at a point.
fn sample(claim: &Claim<'_>, names: &[Vec<Name>; 2], parts: [Vec<f64>; 2]) -> Sample {
    let exact = |names: &[Name], values: &[f64]| -> Values {
        names.iter().copied().zip(values.iter().map(|&value| Approximate::exact(value))).collect()
    };
    let mut known = exact(&names[0], &parts[0]);
    known.extend(exact(&names[1], &parts[1]));
    for (name, value) in claim.lets {
        let value = evaluate(value, &known);
        known.insert(*name, value);
    }
    let combined = claim.formulas.iter().map(|value| evaluate(value, &known));
    let combined = claim.fields.iter().copied().zip(combined).collect();
    let of_parts = parts.each_ref().map(|values| exact(claim.fields, values));
    Sample { parts, of_parts, combined }
}

/// Collects the numbers of a formula, and for each a smaller and a larger one.
fn numbers(value: &Value, found: &mut Vec<f64>) {
    if let Value::Literal(number) = value {
        let number = number.as_f64();
        let step = if number.abs() < 1e6 { 1.0 } else { number.abs() };
        let near = [number, -number].into_iter().flat_map(|number| [number - step, number, number + step]);
        for number in near {
            if number.is_finite() && !SHORT.contains(&number) && !found.contains(&number) && found.len() < MAX_OWN {
                found.push(number);
            }
        }
    }
    value.parts().into_iter().for_each(|part| numbers(part, found));
}

/// Returns a number with at most this many digits, in the shorter notation.
pub(super) fn short(value: f64, digits: usize) -> String {
    let rounded: f64 = format!("{value:.*e}", digits - 1).parse().expect("a float prints as a float");
    let is_plain = rounded == 0.0 || (1e-4..1e7).contains(&rounded.abs()) || !rounded.is_finite();
    if is_plain { format!("{}", rounded + 0.0) } else { format!("{rounded:e}") }
}
