//! Laws of proofs on random formulas: what is proved is true, and rewriting that keeps values keeps proofs.

use super::*;
use crate::running::proof::approximate::Approximate;
use proptest::prelude::*;

/// Formulas over these names, of all kinds.
fn formulas(names: &'static [&'static str]) -> impl Strategy<Value = F> {
    let numbers = prop_oneof![Just(0.0), Just(1.0), Just(2.0), Just(-1.0), Just(0.5), Just(0.1)];
    let leaf = prop_oneof![3 => prop::sample::select(names).prop_map(v), 1 => numbers.prop_map(c)];
    leaf.prop_recursive(4, 16, 2, |inner| {
        let two = (inner.clone(), inner.clone());
        let function = prop::sample::select(&Function::ALL[..]);
        let compare = prop::sample::select(&[Comparison::Less, Comparison::Equal, Comparison::GreaterEqual][..]);
        prop_oneof![
            3 => two.clone().prop_map(|(a, b)| a + b),
            2 => two.clone().prop_map(|(a, b)| a - b),
            3 => two.clone().prop_map(|(a, b)| a * b),
            2 => two.clone().prop_map(|(a, b)| a / b),
            1 => inner.clone().prop_map(|a| -a),
            2 => inner.clone().prop_map(exp),
            1 => (function, inner.clone()).prop_map(|(function, a)| call(function, a)),
            1 => two.clone().prop_map(|(a, b)| max(a, b)),
            1 => two.clone().prop_map(|(a, b)| min(a, b)),
            1 => (inner.clone(), -3_i32..4).prop_map(|(a, power)| pow(a, c(power.into()))),
            1 => two.clone().prop_map(|(a, b)| pow(a, b)),
            1 => (compare, two.clone(), two).prop_map(|(compare, (a, b), (then, other))| choose(a, compare, b, then, other)),
        ]
    })
}

/// Rewrites a node: the even ways keep its value, the odd ones, which look alike, change it in general.
fn rewritten(value: &Value, way: usize) -> Value {
    let f = |value: &Value| F(value.clone());
    let new = match (value, way) {
        (Value::Add(a, b), 0) => f(b) + f(a),
        (Value::Mul(a, b), 0) => f(b) * f(a),
        (Value::Max(a, b), 0) => max(f(b), max(f(a), f(b))),
        (Value::Min(a, b), 0) => min(f(b), min(f(a), f(b))),
        (Value::Sub(a, b), 0) => -f(b) + f(a),
        (Value::Sub(a, b) | Value::Div(a, b), 1) => F(Value::Sub(b.clone(), a.clone())),
        (Value::Mul(a, b), 2) => match &**a {
            Value::Add(x, y) => f(b) * f(x) + f(y) * f(b),
            Value::Sub(x, y) => f(x) * f(b) - f(b) * f(y),
            _ => f(a) * f(b) / c(2.0) + f(b) * f(a) * c(0.5),
        },
        (Value::Mul(a, b), 3) => f(a) + f(b),
        (Value::Mul(a, b), 5) => exp(f(a)) * exp(f(b)),
        (Value::Call(Function::Exp, a), 1) => match &**a {
            Value::Mul(x, y) => exp(f(x)) * exp(f(y)),
            Value::Add(x, y) => exp(f(x)) + exp(f(y)),
            _ => exp(f(a)) * exp(f(a)),
        },
        (Value::Max(a, b), 3) => max(f(b), min(f(a), f(b))),
        (Value::Call(Function::Exp, a), 2) => match &**a {
            Value::Add(x, y) => exp(f(y)) * exp(f(x)),
            Value::Sub(x, y) => exp(f(x)) / exp(f(y)),
            _ => exp(f(a) - c(0.5)) * exp(c(0.5)),
        },
        (Value::Call(Function::Exp, a), 3) => exp(-f(a)),
        (Value::Call(function, a), 5) => call(*function, f(a) + f(a)),
        (Value::Div(a, b), 2) => c(1.0) / f(b) * f(a),
        (Value::Div(a, b), 4) => -f(a) * exp(f(b)) / (f(b) * -exp(f(b))),
        (Value::Max(a, b), 1) => min(f(a), f(b)),
        (Value::Pow(a, b), 3) => pow(f(b), f(a)),
        (value, 4) => f(value) - c(1.0) + c(1.0),
        (value, 6) => (f(value) * f(value) - c(1.0)) / (f(value) - c(1.0)) - c(1.0),
        (value, _) => f(value),
    };
    new.0
}

/// A formula in which some nodes are rewritten.
fn mutated(formula: &F, ways: &[usize]) -> F {
    let mut at = 0;
    fn walk(value: &Value, ways: &[usize], at: &mut usize) -> Value {
        let way = ways[*at % ways.len()];
        *at += 1;
        let mut value = value.clone();
        value.parts_mut().into_iter().for_each(|part| *part = walk(part, ways, at));
        rewritten(&value, way)
    }
    F(walk(&formula.0, ways, &mut at))
}

const NAMES: [&str; 4] = ["a.x", "b.x", "a.y", "b.y"];

/// Whether the forms are equal; none if there are none.
fn equal(f: &F, g: &F) -> Option<bool> {
    let mut forms = Forms::new();
    let known = NAMES.map(|name| (Name::new(name), forms.atom(Atom::Variable(name.into())).unwrap())).into();
    let (f, g) = (forms.normalise(&f.0, &known).ok()?, forms.normalise(&g.0, &known).ok()?);
    forms.equal(&f, &g).ok()
}

/// Fails if two formulas differ beyond rounding at one of these points.
fn agree(f: &F, g: &F, points: &[[f64; 4]]) -> Result<(), TestCaseError> {
    for point in points {
        let known = NAMES.iter().map(Name::from).zip(point.map(Approximate::exact)).collect();
        let (left, right) = (evaluate(&f.0, &known), evaluate(&g.0, &known));
        prop_assert!(!left.differs(right, 0.0), "{point:?}: {} = {left:?}, {} = {right:?}", f.0, g.0);
    }
    Ok(())
}

fn points() -> impl Strategy<Value = Vec<[f64; 4]>> {
    let short = prop::sample::select(&[0.0, 1.0, -1.0, 2.0, 0.5, 3.0][..]);
    let coordinate = prop_oneof![short, -3.0..3.0, -100.0..100.0];
    prop::collection::vec(prop::array::uniform4(coordinate), 200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever is proved is true.
    #[test]
    fn equal_forms_have_equal_values(
        f in formulas(&NAMES),
        g in formulas(&NAMES),
        ways in prop::collection::vec(0_usize..7, 1..8),
        points in points(),
    ) {
        for g in [g, mutated(&f, &ways)] {
            if equal(&f, &g) == Some(true) {
                agree(&f, &g, &points)?;
            }
        }
    }

    /// No true claim is refuted, and rewriting it does not hide the proof.
    #[test]
    fn rewritten_claims_are_proved(ways in prop::collection::vec(0_usize..3, 1..12), others in 0_usize..8) {
        let ways: Vec<_> = ways.iter().map(|way| 2 * way).collect();
        let t = mutated(&max(max(v("a.m"), v("b.m")), c(-1e30)), &ways);
        let l = mutated(&rescaled("l"), &ways);
        let mean = mutated(&(v("l") * exp(v("m"))), &ways[others % ways.len()..]);
        let fields = [("m", f64::NEG_INFINITY, v("t")), ("l", 0.0, l)];
        let doubt = outcome(&fields, &[("t", t.clone())], std::slice::from_ref(&mean));
        prop_assert!(doubt.is_ok(), "{doubt:?}: t = {}, {}, {}", t.0, fields[1].2.0, mean.0);
    }

    /// Rewriting that keeps values keeps forms, and a bound on rounding holds for both.
    #[test]
    fn rewriting_keeps_values(f in formulas(&NAMES), ways in prop::collection::vec(0_usize..3, 1..8), points in points()) {
        let ways: Vec<_> = ways.iter().map(|way| 2 * way).collect();
        let g = mutated(&f, &ways);
        prop_assert!(equal(&f, &g) != Some(false), "{} is not {}", f.0, g.0);
        agree(&f, &g, &points)?;
    }
}
