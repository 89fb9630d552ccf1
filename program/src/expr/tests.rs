use super::*;
use crate::ids::AxisId;
use proptest::prelude::*;

fn ranges() -> Ranges {
    Ranges { coordinates: vec![3, 4], counters: vec![5] }
}

/// The operations that build expressions, as a tree; the second is the value that it must have.
fn built() -> impl Strategy<Value = (Expr, Shown)> {
    let leaf = prop_oneof![
        (-9i64..9)
            .prop_map(|value| (Expr::constant(value), Shown(std::rc::Rc::new(move |_: &[i64], _: &[i64]| value)))),
        (0usize..2).prop_map(|axis| {
            let value: Value = std::rc::Rc::new(move |coordinates: &[i64], _: &[i64]| coordinates[axis]);
            (Expr::symbol(Symbol::Coordinate(AxisId(axis))), Shown(value))
        }),
        Just((
            Expr::symbol(Symbol::Counter(CounterId(0))),
            Shown(std::rc::Rc::new(|_: &[i64], counters: &[i64]| counters[0]))
        )),
    ];
    leaf.prop_recursive(5, 24, 2, |inner| {
        (inner.clone(), inner, 0u8..6, 1i64..9).prop_map(|((a, Shown(f)), (b, Shown(g)), op, by)| {
            let ranges = ranges();
            let expr = match op {
                0 => a.add(&b),
                1 => a.subtract(&b.multiply(by)),
                2 => a.div(by, &ranges),
                3 => a.rem(by, &ranges),
                4 => Expr::min(&a, &b, &ranges),
                _ => Expr::max(&a, &b, &ranges),
            };
            let value: Value = std::rc::Rc::new(move |coordinates, counters| {
                let (a, b) = (f(coordinates, counters), g(coordinates, counters));
                match op {
                    0 => a + b,
                    1 => a - by * b,
                    2 => a.div_euclid(by),
                    3 => a.rem_euclid(by),
                    4 => a.min(b),
                    _ => a.max(b),
                }
            });
            (expr, Shown(value))
        })
    })
}

fn points() -> impl Iterator<Item = ([i64; 2], [i64; 1])> {
    (0..3).flat_map(|x| (0..4).flat_map(move |y| (0..5).map(move |t| ([x, y], [t]))))
}

proptest! {
    /// Simplification changes the form, never the value, and bounds hold.
    #[test]
    fn simplified_forms_keep_their_values((expr, value) in built()) {
        let (low, high) = expr.bounds(&ranges());
        for (coordinates, counters) in points() {
            let expected = value.0(&coordinates, &counters);
            prop_assert_eq!(expr.eval(&coordinates, &counters), expected, "{}", expr.show(&|s| format!("{s:?}")));
            prop_assert!((low..=high).contains(&expected));
        }
    }

    /// Replacing a symbol by a value is evaluating there.
    #[test]
    fn replaced_symbols_take_the_value((expr, _) in built(), at in 0i64..5) {
        let fixed = expr.replace(Symbol::Counter(CounterId(0)), &Expr::constant(at), &ranges());
        prop_assert!(!fixed.mentions(Symbol::Counter(CounterId(0))));
        for (coordinates, _) in points() {
            prop_assert_eq!(fixed.eval(&coordinates, &[0]), expr.eval(&coordinates, &[at]));
        }
    }
}

type Value = std::rc::Rc<dyn Fn(&[i64], &[i64]) -> i64>;

#[derive(Clone)]
struct Shown(Value);
impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the value")
    }
}

#[test]
fn forms_print_as_people_write_them() {
    let ranges = ranges();
    let name = |symbol: Symbol| match symbol {
        Symbol::Coordinate(AxisId(axis)) => ["x", "y"][axis].to_owned(),
        Symbol::Counter(_) => "t".to_owned(),
    };
    let [x, y, t] =
        [Symbol::Coordinate(AxisId(0)), Symbol::Coordinate(AxisId(1)), Symbol::Counter(CounterId(0))].map(Expr::symbol);
    let turned = t.add(&y).rem(4, &ranges);
    assert_eq!(turned.multiply(256).show(&name), "256*((y + t) % 4)");
    assert_eq!(turned.multiply(256).div(256, &ranges).show(&name), "(y + t) % 4");
    assert_eq!(y.subtract(&x).rem(4, &ranges).add(&x).rem(4, &ranges).show(&name), "y");
    assert_eq!(Expr::min(&x.multiply(3).offset_by(3), &Expr::constant(8), &ranges).show(&name), "min(8, 3*x + 3)");
    assert_eq!(Expr::min(&x.multiply(3).offset_by(3), &Expr::constant(9), &ranges).show(&name), "3*x + 3");
}

#[test]
fn values_beyond_64_bits_are_the_nearest_that_are_not() {
    let huge = Expr::symbol(Symbol::Coordinate(AxisId(0))).multiply(i64::MAX / 2);
    assert_eq!((huge.eval(&[3], &[]), huge.eval(&[-4], &[])), (i64::MAX, i64::MIN));
    assert_eq!(huge.offset_by(i64::MAX).eval(&[2], &[]), i64::MAX);
}

#[test]
fn a_file_has_no_number_without_a_negative() {
    let read = |text: &str| serde_json::from_str::<Expr>(text).map_err(|error| error.to_string());
    assert_eq!(read(r#"{ "terms": [], "constant": 3 }"#), Ok(Expr::constant(3)));
    let least = r#"{ "terms": [[{ "Symbol": { "Counter": 0 } }, -9223372036854775808]], "constant": 0 }"#;
    let message = "an expression has the number -9223372036854775808, whose negative does not fit in 64 bits";
    assert!(read(least).expect_err("it is the least number").starts_with(message));
}
