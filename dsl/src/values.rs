//! Replaces names by their values: extents, moduli and scalars become numbers, as if written as numbers.
//!
//! ```text
//! A: [f64; n, 2 * n]                  A: [f64; 5, 10]        with n = 5, alpha = 0.5
//! B[i] = alpha * A[(i + 1) % n, j]    B[i] = 0.5 * A[(i + 1) % 5, j]
//! ```
//!
//! This happens before the checks, so that they see literals, and messages quote numbers. Numbers take the spans of the names that they
//! replace. An index keeps its name, even if a value is given for it.

use crate::check::index::{identifiers, remainder};
use crate::constant::evaluate;
use crate::errors::Errors;
use crate::name::name;
use crate::syntax::{Block, Tensor};
use crate::value::{Access, Value};
use polyshard_layout::Name;
use polyshard_program::Number;
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Expr, Ident, Lit};

/// Names with their values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values(Vec<(Name, Number)>);

impl Values {
    pub(crate) fn new(given: &[(Name, Number)]) -> Self {
        Self(given.to_vec())
    }

    pub(crate) fn get(&self, name: Name) -> Option<Number> {
        self.0.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }

    pub(crate) fn set(&mut self, name: Name, extent: usize) {
        self.0.push((name, Number::Int(i64::try_from(extent).unwrap_or(i64::MAX))));
    }

    /// The value of an expression, if all its names have one.
    pub(crate) fn evaluate(&self, expr: &Expr) -> Option<i128> {
        evaluate(&self.substituted(expr))
    }

    /// The expression with numbers in place of names.
    fn substituted(&self, expr: &Expr) -> Expr {
        let mut expr = expr.clone();
        self.substitute(&mut expr, &[]);
        expr
    }

    /// Replaces all names by numbers, except for those in `kept`.
    fn substitute(&self, expr: &mut Expr, kept: &[Ident]) {
        match expr {
            Expr::Paren(inner) => self.substitute(&mut inner.expr, kept),
            Expr::Group(inner) => self.substitute(&mut inner.expr, kept),
            Expr::Unary(unary) => self.substitute(&mut unary.expr, kept),
            Expr::Binary(binary) => {
                self.substitute(&mut binary.left, kept);
                self.substitute(&mut binary.right, kept);
            }
            Expr::Range(range) => {
                let ends = [&mut range.start, &mut range.end];
                ends.into_iter().flatten().for_each(|end| self.substitute(end, kept));
            }
            Expr::Path(path) => {
                let known = path.path.get_ident().filter(|ident| !kept.contains(ident));
                if let Some(Number::Int(value)) = known.and_then(|ident| self.get(name(ident))) {
                    *expr = literal(&value.to_string(), expr.span()).unwrap_or_else(|| expr.clone());
                }
            }
            _ => {}
        }
    }

    /// Replaces names by numbers in a kernel, and collects extents and bounds without a value.
    pub(crate) fn fill(&self, block: &mut Block, unknown: &mut Unknown) {
        let indices = indices(block);
        let Block { inputs, output, statement, ranges, .. } = block;
        for Tensor { extents, .. } in inputs.iter_mut().chain([output]) {
            extents.iter_mut().for_each(|extent| self.extent(extent, unknown));
        }
        for range in ranges {
            if let Expr::Range(bounds) = &mut range.bounds {
                let ends = [&mut bounds.start, &mut bounds.end];
                ends.into_iter().flatten().for_each(|end| self.extent(end, unknown));
            }
        }
        statement.target.indices.iter_mut().for_each(|index| self.modulus(index, &indices));
        self.value(&mut statement.value, &indices);
    }

    /// An extent becomes one number, which messages can quote.
    fn extent(&self, extent: &mut Expr, unknown: &mut Unknown) {
        match self.evaluate(extent) {
            // A number stays as written.
            Some(_) if evaluate(extent).is_some() => {}
            Some(value) => *extent = literal(&value.to_string(), extent.span()).unwrap_or_else(|| extent.clone()),
            None => unknown.add(extent, self),
        }
    }

    /// In `(i + n - 1) % n`, the names of the modulus become numbers.
    fn modulus(&self, index: &mut Expr, indices: &[Ident]) {
        if remainder(index).is_some() {
            self.substitute(index, indices);
        }
    }

    /// Replaces scalars by numbers. A negative one becomes a sign and a number, as in the grammar.
    fn value(&self, value: &mut Value, indices: &[Ident]) {
        match value {
            Value::Access(Access { indices: of_access, outside, .. }) => {
                of_access.iter_mut().for_each(|index| self.modulus(index, indices));
                outside.iter_mut().for_each(|outside| self.value(outside, indices));
            }
            Value::Literal(_) => {}
            Value::Name(ident) if indices.contains(ident) => {}
            Value::Name(ident) => {
                let known = self.get(name(ident)).map(|number| (number.to_string(), ident.span()));
                if let Some((text, span)) = known {
                    let (is_negative, digits) = text.strip_prefix('-').map_or((false, &*text), |digits| (true, digits));
                    if let Ok(mut number) = syn::parse_str::<Lit>(digits) {
                        number.set_span(span);
                        let number = Value::Literal(number);
                        *value = if is_negative { Value::Neg(Box::new(number)) } else { number };
                    }
                }
            }
            Value::Neg(inner) => self.value(inner, indices),
            Value::Binary(left, _, right) => [left, right].into_iter().for_each(|part| self.value(part, indices)),
            Value::Call(_, arguments) => arguments.iter_mut().for_each(|part| self.value(part, indices)),
            Value::If(choice) => {
                let parts = [&mut choice.left, &mut choice.right, &mut choice.then, &mut choice.otherwise];
                parts.into_iter().for_each(|part| self.value(part, indices));
            }
        }
    }
}

/// The names of a kernel that numbers can replace: extents, bounds and moduli, which are integers, and scalars, which need not be.
pub(crate) fn open(block: &Block) -> Vec<(Ident, bool)> {
    let indices = indices(block);
    let bounds = block.ranges.iter().filter_map(|range| match &range.bounds {
        Expr::Range(bounds) => Some([&bounds.start, &bounds.end]),
        _ => None,
    });
    let bounds = bounds.flatten().filter_map(|end| end.as_deref());
    let tensors = block.inputs.iter().chain([&block.output]);
    let extents = tensors.flat_map(|tensor| &tensor.extents).chain(bounds).flat_map(identifiers);
    let accesses = block.statement.value.accesses().into_iter().chain([&block.statement.target]);
    let moduli = accesses.flat_map(|access| &access.indices).filter_map(remainder);
    let moduli = moduli.flat_map(|(left, right)| [identifiers(left), identifiers(right)].concat());
    // An extent may have the name of the index that runs over it; in an index, the name is the index.
    let moduli = moduli.filter(|ident| !indices.contains(ident));
    let scalars = scalars(&block.statement.value).into_iter().filter(|ident| !indices.contains(ident));
    let scalars = scalars.map(|ident| (ident.clone(), false));
    extents.chain(moduli).map(|ident| (ident, true)).chain(scalars).collect()
}

/// The names of a value that stand alone.
fn scalars(value: &Value) -> Vec<&Ident> {
    match value {
        Value::Name(ident) => vec![ident],
        _ => value.parts().into_iter().flat_map(scalars).collect(),
    }
}

/// Names and extents without a value; each name is reported once.
#[derive(Default)]
pub(crate) struct Unknown {
    errors: Errors,
    said: Vec<Ident>,
}

impl Unknown {
    /// Reports the name in an expression that has no value.
    pub(crate) fn add(&mut self, expr: &Expr, values: &Values) {
        match identifiers(expr).into_iter().find(|ident| values.get(name(ident)).is_none()) {
            Some(ident) => {
                let help = format!("declare an input with the extent `{ident}`, or set it: `--let {ident}=10`");
                self.name(&ident, &help);
            }
            None => {
                let help = "write whole numbers, names, `+`, `-`, `*` and `/`";
                self.errors.push(expr, "this extent has no value", help);
            }
        }
    }

    /// Reports that a name has no value.
    pub(crate) fn name(&mut self, ident: &Ident, help: &str) {
        if !self.said.contains(ident) {
            self.said.push(ident.clone());
            self.errors.push(ident, format!("`{ident}` has no value"), help);
        }
    }

    /// Stops if any value is missing.
    pub(crate) fn stop(&mut self) -> syn::Result<()> {
        self.errors.stop()
    }
}

/// The names that are indices: those with a range, and those in accesses but not in a modulus.
fn indices(block: &Block) -> Vec<Ident> {
    let accesses = block.statement.value.accesses().into_iter().chain([&block.statement.target]);
    let in_accesses = accesses.flat_map(|access| &access.indices).flat_map(identifiers);
    in_accesses.chain(block.ranges.iter().map(|range| range.var.clone())).collect()
}

/// A number as an expression at a place of the text.
fn literal(text: &str, span: Span) -> Option<Expr> {
    let tokens: TokenStream = text.parse().ok()?;
    let placed = tokens.into_iter().map(|mut token: TokenTree| {
        token.set_span(span);
        token
    });
    syn::parse2(placed.collect()).ok()
}

/// The text of an expression as written.
pub(crate) fn written(expr: &Expr) -> String {
    expr.span().source_text().unwrap_or_else(|| expr.to_token_stream().to_string())
}
