//! Claims that are proved, refuted or left undecided, and the messages about them.

mod laws;

use super::*;
use crate::{Comparison, Conditional, Function, Number};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A formula, written with operators.
#[derive(Clone, Debug)]
struct F(Value);

macro_rules! operators {
    ($($trait:ident $method:ident;)*) => {$(
        impl $trait for F {
            type Output = F;
            fn $method(self, other: F) -> F {
                F(Value::$trait(Box::new(self.0), Box::new(other.0)))
            }
        }
    )*};
}
operators! { Add add; Sub sub; Mul mul; Div div; }

impl Neg for F {
    type Output = F;
    fn neg(self) -> F {
        F(Value::Neg(Box::new(self.0)))
    }
}

fn v(name: &str) -> F {
    F(Value::Scalar(name.into()))
}

fn c(value: f64) -> F {
    F(Value::Literal(Number::Float(value)))
}

fn call(function: Function, a: F) -> F {
    F(Value::Call(function, Box::new(a.0)))
}

fn exp(a: F) -> F {
    call(Function::Exp, a)
}

fn log(a: F) -> F {
    call(Function::Log, a)
}

fn max(a: F, b: F) -> F {
    F(Value::Max(Box::new(a.0), Box::new(b.0)))
}

fn min(a: F, b: F) -> F {
    F(Value::Min(Box::new(a.0), Box::new(b.0)))
}

fn pow(a: F, b: F) -> F {
    F(Value::Pow(Box::new(a.0), Box::new(b.0)))
}

fn choose(left: F, compare: Comparison, right: F, then: F, otherwise: F) -> F {
    let (left, right, then, otherwise) = (left.0, right.0, then.0, otherwise.0);
    F(Value::If(Box::new(Conditional { compare, left, right, then, otherwise })))
}

/// Proves a claim about fields, each with an initial value and its formula.
fn outcome(fields: &[(&str, f64, F)], lets: &[(&str, F)], means: &[F]) -> Result<(), Doubt> {
    let names: Vec<Name> = fields.iter().map(|(name, ..)| Name::from(name)).collect();
    let init: Vec<Value> = fields.iter().map(|(_, value, _)| c(*value).0).collect();
    let formulas: Vec<Value> = fields.iter().map(|(.., formula)| formula.0.clone()).collect();
    let lets: Vec<(Name, Value)> = lets.iter().map(|(name, value)| (Name::from(name), value.0.clone())).collect();
    let means: Vec<Value> = means.iter().map(|mean| mean.0.clone()).collect();
    prove(&Claim { fields: &names, init: &init, lets: &lets, formulas: &formulas, means: &means })
}

/// The message about a claim.
fn verdict(fields: &[(&str, f64, F)], lets: &[(&str, F)], means: &[F]) -> String {
    match outcome(fields, lets, means) {
        Ok(()) => "proved".into(),
        Err(Doubt::False(text)) => format!("false: {text}"),
        Err(Doubt::Undecided(text)) => format!("undecided: {text}"),
    }
}

/// The message about one field `m`, which is 0 at first.
fn verdict_on(formula: F, mean: F) -> String {
    verdict(&[("m", 0.0, formula)], &[], &[mean])
}

/// `a.l * exp(a.m - t) + b.l * exp(b.m - t)`.
fn rescaled(field: &str) -> F {
    let part = |part: &str| v(&format!("{part}.{field}")) * exp(v(&format!("{part}.m")) - v("t"));
    part("a") + part("b")
}

#[test]
fn the_online_softmax_is_proved() {
    let t = || max(max(v("a.m"), v("b.m")), c(-1e30));
    let fields = [("m", f64::NEG_INFINITY, v("t")), ("l", 0.0, rescaled("l")), ("o", 0.0, rescaled("o"))];
    let means = [v("l") * exp(v("m")), v("o") * exp(v("m"))];
    assert_eq!(verdict(&fields, &[("t", t())], &means), "proved");
    // With another order of the maximum in each place.
    let other = max(v("b.m"), max(c(-1e30), v("a.m")));
    let fields = [("m", f64::NEG_INFINITY, other), ("l", 0.0, rescaled("l"))];
    assert_eq!(verdict(&fields, &[("t", t())], &[v("l") * exp(v("m"))]), "proved");
}

#[test]
fn a_softmax_that_is_not_rescaled_is_refuted() {
    let fields = [("m", f64::NEG_INFINITY, max(v("a.m"), v("b.m"))), ("l", 0.0, v("a.l") + v("b.l"))];
    let text = "false: with a = (m: 1, l: 2) and b = (m: 3, l: 0.5), `l * exp(m)` of the combination is 50.21, not 5.437 + 10.04 = 15.48";
    assert_eq!(verdict(&fields, &[], &[v("l") * exp(v("m"))]), text);
    // Not rescaled to the maximum, but only for some values.
    let t = || choose(v("a.m"), Comparison::Greater, c(7.0), c(8.0), max(v("a.m"), v("b.m")));
    let fields = [("m", f64::NEG_INFINITY, max(v("a.m"), v("b.m"))), ("l", 0.0, rescaled("l"))];
    let text = "false: with a = (m: 9, l: 8) and b = (m: -8, l: -7), `l * exp(m)` of the combination is 176200, not 64820 - 0.002348 = 64820";
    assert_eq!(verdict(&fields, &[("t", t())], &[v("l") * exp(v("m"))]), text);
}

#[test]
fn the_logarithm_of_a_sum_of_exponentials_is_proved() {
    let (a, b) = (|| v("a.s"), || v("b.s"));
    let t = ("t", max(a(), b()));
    let formula = v("t") + log(exp(a() - v("t")) + exp(b() - v("t")));
    assert_eq!(verdict(&[("s", f64::NEG_INFINITY, formula)], &[t], &[exp(v("s"))]), "proved");
    let formula = log(exp(a()) + exp(b()) + c(1e-3));
    let text = "false: with a = (s: 1) and b = (s: 2), `exp(s)` of the combination is 10.1083379, not 2.71828183 + 7.3890561 = 10.1073379";
    assert_eq!(verdict(&[("s", f64::NEG_INFINITY, formula)], &[], &[exp(v("s"))]), text);
}

#[test]
fn mean_and_variance_are_proved() {
    let (n, d) = (|| v("a.n") + v("b.n"), || v("b.mean") - v("a.mean"));
    let fields = |q: F| {
        let mean = v("a.mean") + d() * v("b.n") / n();
        [("n", 0.0, n()), ("mean", 0.0, mean), ("q", 0.0, q)]
    };
    let q = || v("a.q") + v("b.q") + d() * d() * v("a.n") * v("b.n") / n();
    let means = || [v("n"), v("n") * v("mean"), v("q") + v("n") * v("mean") * v("mean")];
    assert_eq!(verdict(&fields(q()), &[], &means()), "proved");
    let text = "false: with a = (n: 1, mean: 2, q: 3) and b = (n: 0.5, mean: -1, q: 1), `q + n * mean * mean` of the combination is 5.5, not 7 + 1.5 = 8.5";
    assert_eq!(verdict(&fields(q() + d()), &[], &means()), text);
}

#[test]
fn sums_and_powers_are_proved() {
    let sum = |field: &str| v(&format!("a.{field}")) + v(&format!("b.{field}"));
    assert_eq!(verdict(&[("s", 0.0, sum("s")), ("q", 0.0, sum("q"))], &[], &[v("s"), v("q") * c(2.0)]), "proved");
    // Literals are decimal numbers, though 0.1 + 0.2 is not 0.3 in floats.
    let mean = v("s") * c(0.1) + c(0.2) * v("s") - v("s") * c(0.3);
    assert_eq!(verdict(&[("s", 0.0, sum("s"))], &[], &[mean + v("s")]), "proved");
    let inverse = c(1.0) / (pow(v("a.r"), c(-1.0)) + c(1.0) / v("b.r"));
    let text = "undecided: `pow(r, -3.0) * r * r` of the initial values (r: inf) is not a number; it must be 0";
    assert_eq!(verdict(&[("r", f64::INFINITY, inverse)], &[], &[pow(v("r"), c(-3.0)) * v("r") * v("r")]), text);
    // Equal fractions are found inside of functions too.
    let (a, b) = (|| v("a.x"), || v("b.x"));
    let ratio = call(Function::Tanh, (a() * a() - b() * b()) / (a() - b())) - call(Function::Tanh, b() + a());
    assert_eq!(verdict(&[("x", 0.0, a() + b() + ratio)], &[], &[v("x")]), "proved");
}

#[test]
fn claims_that_are_false_have_counterexamples() {
    let (a, b) = (|| v("a.m"), || v("b.m"));
    let text = "false: with a = (m: 1) and b = (m: 2), `m` of the combination is 2, not 1 + 2 = 3";
    assert_eq!(verdict_on(a() * b(), v("m")), text);
    assert_eq!(verdict_on(max(a(), b()), v("m")), text);
    let text = "false: with a = (m: 1) and b = (m: 2), `m` of the combination is 1, not 1 + 2 = 3";
    assert_eq!(verdict_on(min(a(), b()), v("m")), text);
    let text = "false: with a = (m: 1) and b = (m: 2), `m` of the combination is 3.00001, not 1 + 2 = 3";
    assert_eq!(verdict_on(a() + b() + c(1e-5), v("m")), text);
    let text = "false: with a = (m: 4) and b = (m: -2e30), `m` of the combination is -1e30, not 4 - 2e30 = -2e30";
    assert_eq!(verdict_on(a() + max(b(), c(-1e30)), v("m")), text);
    let text = "false: with a = (m: 17) and b = (m: -18), `m` of the combination is 0, not 17 - 18 = -1";
    assert_eq!(verdict_on(choose(a(), Comparison::Equal, c(17.0), c(0.0), a() + b()), v("m")), text);
}

#[test]
fn initial_values_must_mean_zero() {
    let (a, b) = (|| v("a.m"), || v("b.m"));
    let text = "false: `m` of the initial values (m: 1.0) is 1, not 0";
    assert_eq!(verdict(&[("m", 1.0, a() + b())], &[], &[v("m")]), text);
    let inverse = || c(1.0) / (c(1.0) / a() + c(1.0) / b());
    let text = "false: `1.0 / m` of the initial values (m: 0.0) is inf, not 0";
    assert_eq!(verdict(&[("m", 0.0, inverse())], &[], &[c(1.0) / v("m")]), text);
    let text = "undecided: `m / m / m` of the initial values (m: 0.0) is not a number; it must be 0";
    assert_eq!(verdict(&[("m", 0.0, inverse())], &[], &[v("m") / v("m") / v("m")]), text);
    // Also if nothing is known of the combination.
    let text = "false: `m` of the initial values (m: 1.0) is 1, not 0";
    assert_eq!(verdict(&[("m", 1.0, (a() + b()) / (a() - a()))], &[], &[v("m")]), text);
}

#[test]
fn claims_that_need_more_than_forms_are_undecided() {
    let (a, b) = (|| v("a.m"), || v("b.m"));
    let square = |function| call(function, a()) * call(function, a());
    let of_circle = (a() + b()) * (square(Function::Sin) + square(Function::Cos));
    let text = "undecided: cannot decide whether `m` of the combination is the sum of those of a and b: neither a proof nor a counterexample was found; the proof expands +, -, *, / and `exp`, and treats other functions as unknown";
    assert_eq!(verdict(&[("m", 0.0, of_circle)], &[], &[v("m")]), text);
    let less = |then, otherwise| choose(a(), Comparison::Less, b(), then, otherwise);
    let others = [
        a() + b() + log(exp(a())) - a(),
        less(a() + b(), a() + b() * c(2.0) - min(a(), b())),
        less(a() + max(a(), b()), b() + max(a(), b())) - max(a(), b()) + less(b(), a()),
        max(a(), b()) + min(a(), b()),
        pow(max(a(), c(0.0)), c(0.5)) * pow(max(a(), c(0.0)), c(0.5)) + min(a(), c(0.0)) + b(),
    ];
    for formula in others {
        let text = formula.0.to_string();
        let result = outcome(&[("m", 0.0, formula)], &[], &[v("m")]);
        let Err(Doubt::Undecided(reason)) = result else { panic!("{text}: {result:?}") };
        assert!(reason.contains("neither a proof"), "{text}: {reason}");
    }
}

#[test]
fn formulas_without_a_value_are_undecided() {
    let (a, b) = (|| v("a.m"), || v("b.m"));
    let text = "undecided: `m` of the combination, or of a and b, is not finite at any sample point";
    assert_eq!(verdict_on((a() + b()) * (a() - a()) / (a() - a()), v("m")), text);
    assert_eq!(verdict_on(a() + v("z"), v("m")), text);
    let text = "undecided: cannot decide what the combination computes: a denominator is 0 for all values";
    assert_eq!(verdict_on(choose(a(), Comparison::NotEqual, a(), a() / (b() - b()), a() + b()), v("m")), text);
    let text = "undecided: cannot decide what the combination computes: a formula has a number that is not finite";
    assert_eq!(verdict_on(choose(a(), Comparison::NotEqual, a(), c(f64::INFINITY), a() + b()), v("m")), text);
    let text = "undecided: cannot decide what the combination computes: a name is neither a field nor a `let`";
    assert_eq!(verdict_on(choose(a(), Comparison::NotEqual, a(), v("z"), a() + b()), v("m")), text);
}

#[test]
fn rounding_refutes_nothing() {
    let (a, b) = (|| v("a.m"), || v("b.m"));
    let proved = |formula: F| {
        let (text, result) = (formula.0.to_string(), outcome(&[("m", 0.0, formula)], &[], &[v("m")]));
        assert!(result.is_ok(), "{text}: {result:?}");
    };
    proved((a() + c(1e30)) + b() - c(1e30));
    proved((a() + c(0.1) - c(0.1) - a()) * c(1e18) + a() + b());
    proved(exp(a() * c(300.0)) * exp(a() * c(-300.0)) * (a() + b()));
    proved(pow(exp(a()) * exp(c(40.0)), c(2.0)) * exp(c(-80.0) - a() - a()) * (a() + b()));
}

#[test]
fn large_formulas_end_quickly() {
    let doubled = |count: usize, next: &dyn Fn(F) -> F| {
        let lets = (0..count).map(|at| {
            let before = if at == 0 { v("a.m") } else { v(&format!("t{}", at - 1)) };
            (format!("t{at}"), next(before))
        });
        let lets: Vec<_> = lets.collect();
        let lets: Vec<_> = lets.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let last = v(&format!("t{}", count - 1));
        // That min(max(t, 1), 1) is 1 is not known to forms.
        let fields = [("m", 0.0, v("a.m") + v("b.m") + min(max(last, c(1.0)), c(1.0)) - c(1.0))];
        outcome(&fields, &lets, &[v("m")])
    };
    let nexts: [&dyn Fn(F) -> F; 6] = [
        &|t| t.clone() * t + v("b.m"),
        &|t| call(Function::Sin, t.clone()) + call(Function::Cos, t),
        &|t| exp(t.clone() / (v("a.m") + t.clone())) * exp(v("b.m") / (v("b.m") - t.clone())) + t,
        &|t| max(t.clone() + v("b.m"), call(Function::Tanh, t.clone()) * t),
        &|t| (t.clone() + c(3.0)) / (t + v("b.m")),
        &|t| pow(t + c(1e-300) * v("b.m"), c(16.0)),
    ];
    for next in nexts {
        for count in [8, 60, 1000] {
            assert!(matches!(doubled(count, next), Err(Doubt::Undecided(_))));
        }
    }
}

/// A definition has at most 500 tokens without a comma.
#[test]
fn deep_formulas_fit_the_stack() {
    let deep = (0..500).fold(v("a.m"), |inner, _| max(v("b.m"), exp(inner)));
    let result = outcome(&[("m", 0.0, v("a.m") + v("b.m") + deep.clone() / deep - c(1.0))], &[], &[v("m")]);
    assert!(matches!(result, Err(Doubt::Undecided(_))), "{result:?}");
    let deep = (0..500).fold(v("a.m"), |inner, _| v("b.m") - (v("b.m") - inner));
    assert_eq!(verdict(&[("m", 0.0, deep + v("b.m"))], &[], &[v("m")]), "proved");
}
