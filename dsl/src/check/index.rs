//! Index expressions: Rust expressions that must be affine, `2*i + r - 1`, or the remainder of one, `(i + 1) % n`.
//!
//! ```text
//! index  = sum | ("(" sum ")" | name) "%" modulus       one remainder, around all of it
//! sum    = sum ("+" | "-") sum | sum "*" sum | "-" sum | "(" sum ")" | name | number
//! ```
//!
//! In a product, one side is a number. The modulus is any expression of the surrounding code. Multiples of it change nothing, so
//! `(i + n - 1) % n` is `(i - 1) % n`.

use crate::constant::evaluate;
use crate::errors::error;
use polyshard_layout::Name;
use polyshard_program::{Affine, Modulus};
use quote::ToTokens;
use syn::{BinOp, Expr, Ident, Result, UnOp};

/// Returns the affine form of an index expression.
pub(crate) fn affine(index: &Expr) -> Result<Affine> {
    let Some((inner, modulus)) = remainder(index) else { return narrow(index, sum(index)?) };
    let (inner_sum, value) = (without_multiples(inner, sum(inner)?, modulus)?, evaluate(modulus));
    let modulus = match value.map(i64::try_from) {
        None => Modulus::Captured(Name::new(&modulus.to_token_stream().to_string())),
        Some(Ok(number @ 1..)) => Modulus::Number(number),
        Some(Ok(number)) => {
            let message = format!("the index wraps at {number}");
            return Err(error(modulus, message, "a modulus is between 1 and the extent"));
        }
        Some(Err(_)) => return Err(error(modulus, "this modulus does not fit 64 bits", "use a smaller number")),
    };
    Ok(narrow(inner, inner_sum)?.modulo(modulus))
}

/// Returns the name, if an index or an extent is a name alone.
#[must_use]
pub fn alone(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(path) => path.path.get_ident(),
        Expr::Paren(inner) => alone(&inner.expr),
        _ => None,
    }
}

/// Returns dividend and divisor, if the index is a remainder.
pub(crate) fn remainder(index: &Expr) -> Option<(&Expr, &Expr)> {
    match index {
        Expr::Paren(inner) => remainder(&inner.expr),
        Expr::Group(inner) => remainder(&inner.expr),
        Expr::Binary(binary) if matches!(binary.op, BinOp::Rem(_)) => Some((&binary.left, &binary.right)),
        _ => None,
    }
}

/// The sum without multiples of a captured modulus, which change nothing: `(i + n - 1) % n`.
fn without_multiples(inner: &Expr, mut sum: Sum, modulus: &Expr) -> Result<Sum> {
    let names: Vec<Name> = identifiers(modulus).iter().map(crate::name::name).collect();
    let Some(&(first, factor)) = sum.terms.iter().find(|term| names.contains(&term.0)) else { return Ok(sum) };
    let multiple = || {
        let period = self::sum(modulus).ok()?;
        let of_first = period.terms.iter().find(|term| term.0 == first)?.1;
        let times = factor.checked_div(of_first)?;
        sum = sum.add(period.multiply(times.checked_neg()?)?)?;
        sum.terms.retain(|term| term.1 != 0);
        (!sum.terms.iter().any(|term| names.contains(&term.0))).then_some(sum)
    };
    multiple().ok_or_else(|| {
        let help = "in the index, it may only occur in multiples of the modulus, such as `(i + n - 1) % n`";
        error(inner, format!("`{first}` is part of the modulus, so it is not an index"), help)
    })
}

/// The sum in 64 bits, as all index arithmetic of the analysis.
fn narrow(index: &Expr, sum: Sum) -> Result<Affine> {
    let small = |number: i128| {
        i64::try_from(number).map_err(|_| error(index, format!("{number} does not fit 64 bits"), "use smaller numbers"))
    };
    let terms = sum.terms.iter().map(|&(name, factor)| Ok((name, small(factor)?))).collect::<Result<Vec<_>>>()?;
    Ok(Affine::new(terms, small(sum.constant)?))
}

/// Returns the identifiers of an index expression, affine or not, as they appear.
pub(crate) fn identifiers(index: &Expr) -> Vec<Ident> {
    match index {
        Expr::Path(path) => path.path.get_ident().cloned().into_iter().collect(),
        Expr::Paren(inner) => identifiers(&inner.expr),
        Expr::Group(inner) => identifiers(&inner.expr),
        Expr::Unary(inner) => identifiers(&inner.expr),
        // The names in the modulus are captured.
        Expr::Binary(binary) if matches!(binary.op, BinOp::Rem(_)) => {
            let captured = identifiers(&binary.right);
            identifiers(&binary.left).into_iter().filter(|name| !captured.contains(name)).collect()
        }
        Expr::Binary(binary) => [identifiers(&binary.left), identifiers(&binary.right)].concat(),
        Expr::Cast(inner) => identifiers(&inner.expr),
        Expr::Index(inner) => identifiers(&inner.index),
        Expr::Call(call) => call.args.iter().flat_map(identifiers).collect(),
        Expr::MethodCall(call) => [&*call.receiver].into_iter().chain(&call.args).flat_map(identifiers).collect(),
        _ => Vec::new(),
    }
}

/// Multiples of names and a number, in 128 bits. Only the result is narrowed: `i * 2^63 - i * 2^63` is 0.
struct Sum {
    terms: Vec<(Name, i128)>,
    constant: i128,
}

/// The index as a sum, or an error on the part that is not affine.
fn sum(index: &Expr) -> Result<Sum> {
    let wrong = || {
        let help = "an index is a sum of multiples of variables and a number, such as `2*i + r - 1`";
        error(index, "this index is not affine", help)
    };
    let large = || error(index, "this index is too large", "use smaller numbers");
    match index {
        Expr::Paren(inner) => sum(&inner.expr),
        Expr::Group(inner) => sum(&inner.expr),
        Expr::Path(path) => match path.path.get_ident() {
            Some(var) => Ok(Sum { terms: vec![(crate::name::name(var), 1)], constant: 0 }),
            None => Err(wrong()),
        },
        Expr::Lit(_) => Ok(Sum { terms: Vec::new(), constant: evaluate(index).ok_or_else(wrong)? }),
        Expr::Index(_) => {
            let help = "gathers such as `A[P[i]]` do not exist; reorder the array first";
            Err(error(index, "this index is an element of an array", help))
        }
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => sum(&unary.expr)?.multiply(-1).ok_or_else(large),
        Expr::Binary(binary) => {
            let (left, right) = (&binary.left, &binary.right);
            match binary.op {
                BinOp::Add(_) => sum(left)?.add(sum(right)?).ok_or_else(large),
                BinOp::Sub(_) => {
                    let right = sum(right)?.multiply(-1).ok_or_else(large)?;
                    sum(left)?.add(right).ok_or_else(large)
                }
                BinOp::Mul(_) => {
                    let (left, right) = (sum(left)?, sum(right)?);
                    match (&left.terms[..], &right.terms[..]) {
                        ([], _) => right.multiply(left.constant).ok_or_else(large),
                        (_, []) => left.multiply(right.constant).ok_or_else(large),
                        _ => Err(wrong()),
                    }
                }
                BinOp::Rem(_) => {
                    let help = "an index may be the remainder of a sum as a whole, such as `(2*i + r - 1) % n`";
                    Err(error(index, "this remainder is inside of an index", help))
                }
                // A quotient of numbers would be a number, but reads like a quotient of indices.
                _ => Err(wrong()),
            }
        }
        _ => Err(wrong()),
    }
}

impl Sum {
    fn multiply(mut self, factor: i128) -> Option<Self> {
        for term in &mut self.terms {
            term.1 = term.1.checked_mul(factor)?;
        }
        self.constant = self.constant.checked_mul(factor)?;
        Some(self)
    }

    fn add(mut self, other: Self) -> Option<Self> {
        for (name, factor) in other.terms {
            match self.terms.iter_mut().find(|term| term.0 == name) {
                Some(term) => term.1 = term.1.checked_add(factor)?,
                None => self.terms.push((name, factor)),
            }
        }
        self.constant = self.constant.checked_add(other.constant)?;
        Some(self)
    }
}
