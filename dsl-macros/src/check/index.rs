//! Index expressions: Rust expressions that must be affine, `2*i + r - 1`.

use crate::constant::evaluate;
use crate::errors::error;
use polyshard_layout::Name;
use polyshard_polyhedral::Affine;
use syn::{BinOp, Expr, Ident, Result, UnOp};

/// Returns the affine form of an index expression.
///
/// # Errors
/// On the part that is not affine.
pub(crate) fn affine(index: &Expr) -> Result<Affine> {
    let sum = sum(index)?;
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
        Expr::Binary(binary) => [identifiers(&binary.left), identifiers(&binary.right)].concat(),
        Expr::Cast(inner) => identifiers(&inner.expr),
        Expr::Index(inner) => identifiers(&inner.index),
        Expr::Call(call) => call.args.iter().flat_map(identifiers).collect(),
        Expr::MethodCall(call) => [&*call.receiver].into_iter().chain(&call.args).flat_map(identifiers).collect(),
        _ => Vec::new(),
    }
}

/// Numbers are kept wide, and are narrowed once the whole is known.
struct Sum {
    terms: Vec<(Name, i128)>,
    constant: i128,
}

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
            Some(var) => Ok(Sum { terms: vec![(super::name(var), 1)], constant: 0 }),
            None => Err(wrong()),
        },
        Expr::Lit(_) => Ok(Sum { terms: Vec::new(), constant: evaluate(index).ok_or_else(wrong)? }),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => sum(&unary.expr)?.times(-1).ok_or_else(large),
        Expr::Binary(binary) => {
            let (left, right) = (&binary.left, &binary.right);
            match binary.op {
                BinOp::Add(_) => sum(left)?.plus(sum(right)?).ok_or_else(large),
                BinOp::Sub(_) => {
                    let right = sum(right)?.times(-1).ok_or_else(large)?;
                    sum(left)?.plus(right).ok_or_else(large)
                }
                BinOp::Mul(_) => {
                    let (left, right) = (sum(left)?, sum(right)?);
                    match (&left.terms[..], &right.terms[..]) {
                        ([], _) => right.times(left.constant).ok_or_else(large),
                        (_, []) => left.times(right.constant).ok_or_else(large),
                        _ => Err(wrong()),
                    }
                }
                // A quotient of numbers would be a number, but reads as one of indices.
                _ => Err(wrong()),
            }
        }
        _ => Err(wrong()),
    }
}

impl Sum {
    fn times(mut self, factor: i128) -> Option<Self> {
        for term in &mut self.terms {
            term.1 = term.1.checked_mul(factor)?;
        }
        self.constant = self.constant.checked_mul(factor)?;
        Some(self)
    }

    fn plus(mut self, other: Self) -> Option<Self> {
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
