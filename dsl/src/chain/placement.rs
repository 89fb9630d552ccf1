//! Clauses of `shard`: `m @ x`, `m @ [x, y]`, `k @ ((x + y) % 2)`, `m @ cyclic(x, 16)`, `m @ x @ y`, `dim(0) @ x`,
//! `pin(z, 0)`, `partial(z)`; and in method syntax, `m.at(x)`, `m.at([x, y])`, `m.cyclic(x, 16)`, `m.at(x).at(y)`.
//!
//! ```text
//! clause = "pin" "(" axis "," number ")" | "partial" "(" axis ")" | dim ("@" level)+ | dim ("." method)+
//! dim    = index | "dim" "(" number ")"
//! level  = "[" axis, .. "]" | "cyclic" "(" axes "," number ")" | axes
//! method = "at" "(" ("[" axis, .. "]" | axes) ")" | "cyclic" "(" axes "," number ")"
//! axes   = sums, differences, multiples by numbers and remainders of axes: `(x + 2*y) % 4`
//! ```
//!
//! `pin`, `partial`, `dim` and `cyclic` are keywords only before parentheses, so an index or an axis may have these names.

use super::arguments::{comma, enclosed, first, ident, list, size, small};
use crate::constant::evaluate;
use crate::errors::error;
use crate::form::Form;
use crate::name::name;
use crate::step::{Clause, Dim};
use polyshard_layout::{AxisExpr, Division};
use syn::parse::ParseStream;
use syn::{BinOp, Expr, Ident, Result, Token, UnOp, token};

/// Reads one clause.
pub(crate) fn clause(input: ParseStream, form: Form) -> Result<Clause> {
    let word: Ident = input.parse()?;
    let called = input.peek(token::Paren);
    let dim = match word.to_string().as_str() {
        "pin" if called => {
            return enclosed(input, |input| Ok(Clause::Pin { axis: first(input)?, coordinate: size(input, form)? }));
        }
        "partial" if called => return enclosed(input, |input| Ok(Clause::Partial { axis: ident(input)? })),
        "dim" if called => Dim::Number(enclosed(input, |input| size(input, form))?),
        _ => Dim::Var(name(&word)),
    };
    let mut levels = Vec::new();
    while input.peek(Token![.]) {
        levels.push(method(input, form)?);
    }
    if !levels.is_empty() {
        return Ok(Clause::Divided { dim, levels });
    }
    if !input.peek(Token![@]) {
        let help = format!(
            "write `{word} @ x`, `{word} @ [x, y]`, `{word} @ x @ y`, `{word} @ cyclic(x, 16)`, `pin(z, 0)`, or `partial(z)`"
        );
        return Err(error(&word, "expected a dimension and its axes", help));
    }
    while input.peek(Token![@]) {
        levels.push(level(input, form)?);
    }
    Ok(Clause::Divided { dim, levels })
}

/// Parses one `@` with its level.
fn level(input: ParseStream, form: Form) -> Result<Division> {
    input.parse::<Token![@]>()?;
    if input.peek(token::Bracket) && !(input.peek2(Token![*]) || input.peek2(Token![%])) {
        return Ok(Division::Block { at: AxisExpr::List(list(input)?) });
    }
    if input.peek(Ident) && input.peek2(token::Paren) && input.fork().parse::<Ident>()? == "cyclic" {
        input.parse::<Ident>()?;
        return cyclic(input, form);
    }
    Ok(Division::Block { at: axes(&input.parse()?)? })
}

/// Parses one level in method syntax: `.at(x)`, `.cyclic(x, 16)`.
fn method(input: ParseStream, form: Form) -> Result<Division> {
    input.parse::<Token![.]>()?;
    let word: Ident = input.parse()?;
    match word.to_string().as_str() {
        "at" => Ok(Division::Block { at: enclosed(input, |input| axes(&input.parse()?))? }),
        "cyclic" => cyclic(input, form),
        _ => Err(error(
            &word,
            format!("unknown division of a dimension, `{word}`"),
            "write `.at(x)` or `.cyclic(x, 16)`",
        )),
    }
}

/// Parses `(x, 16)`, the arguments of `cyclic`.
fn cyclic(input: ParseStream, form: Form) -> Result<Division> {
    enclosed(input, |input| {
        let at = axes(&input.parse()?)?;
        comma(input)?;
        Ok(Division::Cyclic { at, block: size(input, form)? })
    })
}

/// The coordinates that own a block, from a Rust expression.
fn axes(expr: &Expr) -> Result<AxisExpr> {
    let wrong = || {
        let help = "write an axis `x`, several `[x, y]`, or a sum of axes with its remainder `(x + y) % 2`";
        error(expr, "this is not an expression over mesh axes", help)
    };
    match expr {
        Expr::Lit(_) => Ok(AxisExpr::Const(small(expr, evaluate(expr).ok_or_else(wrong)?)?)),
        Expr::Paren(inner) => axes(&inner.expr),
        Expr::Group(inner) => axes(&inner.expr),
        Expr::Path(path) => Ok(AxisExpr::Axis(name(path.path.get_ident().ok_or_else(wrong)?))),
        Expr::Array(array) => {
            let axis = |expr: &Expr| match expr {
                Expr::Path(path) => path.path.get_ident().map(name),
                _ => None,
            };
            Ok(AxisExpr::List(array.elems.iter().map(axis).collect::<Option<_>>().ok_or_else(wrong)?))
        }
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => match (&*unary.expr, evaluate(expr)) {
            (Expr::Lit(_), Some(value)) => Ok(AxisExpr::Const(small(expr, value)?)),
            (negated, _) => Ok(AxisExpr::Mul(Box::new(axes(negated)?), -1)),
        },
        Expr::Binary(binary) => {
            let (left, right) = (&*binary.left, &*binary.right);
            let both = || Ok((Box::new(axes(left)?), Box::new(axes(right)?)));
            let times = |expr: &Expr, factor| Ok(AxisExpr::Mul(Box::new(axes(expr)?), factor));
            let number = |expr: &Expr| evaluate(expr).map(|value| small(expr, value)).transpose();
            match binary.op {
                BinOp::Add(_) => both().map(|(left, right)| AxisExpr::Add(left, right)),
                BinOp::Sub(_) => both().map(|(left, right)| AxisExpr::Sub(left, right)),
                BinOp::Mul(_) => match number(right)? {
                    Some(factor) => times(left, factor),
                    None => times(right, number(left)?.ok_or_else(wrong)?),
                },
                BinOp::Rem(_) => Ok(AxisExpr::Mod(Box::new(axes(left)?), number(right)?.ok_or_else(wrong)?)),
                _ => Err(wrong()),
            }
        }
        _ => Err(wrong()),
    }
}
