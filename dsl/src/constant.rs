//! Constants: evaluates integer literals and arithmetic on them.
//!
//! Used where the macro has to know a number: extents and arguments of the compiled form, and extents that
//! are compared with each other. Names are never looked up; `None` is not an error.

use syn::{BinOp, Expr, Lit, UnOp};

/// Returns the value of an expression of literals, or `None` if it is not one or has no value.
///
/// ```
/// let value = |text: &str| polyshard_dsl::evaluate(&syn::parse_str(text).expect("an expression"));
/// assert_eq!(value("2 * 1024 + 1"), Some(2049));
/// assert_eq!([value("n"), value("1 / 0"), value("1.5")], [None; 3]);
/// ```
///
/// Numbers have 128 bits, so that a value too large for an extent can be reported instead of overflowing.
pub fn evaluate(expr: &Expr) -> Option<i128> {
    match expr {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        },
        Expr::Paren(inner) => evaluate(&inner.expr),
        Expr::Group(inner) => evaluate(&inner.expr),
        Expr::Unary(unary) => match unary.op {
            UnOp::Neg(_) => evaluate(&unary.expr)?.checked_neg(),
            _ => None,
        },
        Expr::Binary(binary) => {
            let (left, right) = (evaluate(&binary.left)?, evaluate(&binary.right)?);
            match binary.op {
                BinOp::Add(_) => left.checked_add(right),
                BinOp::Sub(_) => left.checked_sub(right),
                BinOp::Mul(_) => left.checked_mul(right),
                BinOp::Div(_) => left.checked_div(right),
                BinOp::Rem(_) => left.checked_rem(right),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::evaluate;
    use expect_test::{Expect, expect};

    fn check(inputs: &[&str], expect: Expect) {
        let lines = inputs.iter().map(|input| {
            let value = syn::parse_str(input).ok().and_then(|expr| evaluate(&expr));
            format!("{input} = {}\n", value.map_or("?".into(), |value| value.to_string()))
        });
        expect.assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn arithmetic_on_literals_is_evaluated() {
        check(
            &["512", "0x10", "1_000usize", "2 * 1024 + 1", "(7 - 9) * 3", "-4", "7 / 2", "7 % 4"],
            expect![[r#"
                512 = 512
                0x10 = 16
                1_000usize = 1000
                2 * 1024 + 1 = 2049
                (7 - 9) * 3 = -6
                -4 = -4
                7 / 2 = 3
                7 % 4 = 3
            "#]],
        );
    }

    #[test]
    fn what_has_no_value_is_none() {
        check(
            &["n", "2 * n", "N + 1", "1 / 0", "1.5", "f(2)", "!1", "340282366920938463463374607431768211455"],
            expect![[r#"
                n = ?
                2 * n = ?
                N + 1 = ?
                1 / 0 = ?
                1.5 = ?
                f(2) = ?
                !1 = ?
                340282366920938463463374607431768211455 = ?
            "#]],
        );
    }
}
