//! Index expressions as Rust expressions over `i64`.
//!
//! ```text
//! 7*x + 7             7 * x + 7
//! min(7*x + 7, 13)    (7 * x + 7).min(13)
//! (x + y + ko) mod 2  (x + y + ko) % 2, or (x - ko).rem_euclid(2) where the sum may be negative
//! ```
//!
//! Built as trees with explicit parentheses: spliced as tokens, `5 * (i % 2)` would lose them. Nothing overflows: the
//! limit in `program/src/bounds.rs` holds for every number of a program.

use super::names::Names;
use polyshard_program::{Atom, Expr, NestView, Ranges};
use syn::parse_quote;

/// Prints index expressions of one nest.
pub(super) struct Index<'a> {
    /// The names of coordinates and counters.
    pub names: &'a Names,
    /// The values that they take, which determine where Rust's `/` and `%` agree with isl's.
    pub ranges: Ranges,
}

impl<'a> Index<'a> {
    pub(super) fn new(nest: &NestView<'_>, names: &'a Names) -> Self {
        Self { names, ranges: nest.ranges() }
    }

    /// A sum, with positive terms first, so that it begins with a minus only if it must.
    pub(super) fn expr(&self, expr: &Expr) -> syn::Expr {
        let mut sum: Option<syn::Expr> = None;
        for (atom, factor) in expr.positive_first() {
            let alone = expr.offset() == 0 && expr.terms().count() == 1 && factor == 1;
            let shown = self.atom(atom, !alone);
            let times = factor.abs();
            let product: syn::Expr = if times == 1 {
                shown
            } else {
                let times = literal(times);
                parse_quote!(#times * #shown)
            };
            sum = Some(match (sum, factor < 0) {
                (None, false) => product,
                (None, true) => parse_quote!(-(#product)),
                (Some(sum), false) => parse_quote!(#sum + #product),
                (Some(sum), true) => parse_quote!(#sum - #product),
            });
        }
        let offset = literal(expr.offset().abs());
        match (sum, expr.offset()) {
            (None, value) if value < 0 => parse_quote!(-#offset),
            (None, _) => offset,
            (Some(sum), 0) => sum,
            (Some(sum), value) if value < 0 => parse_quote!(#sum - #offset),
            (Some(sum), _) => parse_quote!(#sum + #offset),
        }
    }

    /// A symbol, a quotient, a remainder, a minimum or a maximum; `inside` a sum or product, an operator is in
    /// parentheses.
    fn atom(&self, atom: &Atom, inside: bool) -> syn::Expr {
        // Division and remainder of values that may be negative round towards minus infinity, as in isl.
        let natural = |e: &Expr| e.bounds(&self.ranges).0 >= 0;
        match atom {
            Atom::Symbol(symbol) => {
                let ident = self.names.symbol(*symbol);
                parse_quote!(#ident)
            }
            Atom::Div(e, d) | Atom::Mod(e, d) => {
                let (inner, by) = (self.grouped(e), literal(*d));
                let shown: syn::Expr = match (atom, natural(e)) {
                    (Atom::Div(..), true) => parse_quote!(#inner / #by),
                    (Atom::Div(..), false) => return parse_quote!(#inner.div_euclid(#by)),
                    (_, true) => parse_quote!(#inner % #by),
                    (_, false) => return parse_quote!(#inner.rem_euclid(#by)),
                };
                if inside { parse_quote!((#shown)) } else { shown }
            }
            Atom::Min(a, b) | Atom::Max(a, b) => {
                // A literal has no type to look a method up in.
                let (a, b) = if a.as_constant().is_some() { (b, a) } else { (a, b) };
                let (a, b) = (self.grouped(a), self.expr(b));
                match atom {
                    Atom::Min(..) => parse_quote!(#a.min(#b)),
                    _ => parse_quote!(#a.max(#b)),
                }
            }
        }
    }

    /// An expression that may precede an operator or a method: a name is unchanged, all else is in parentheses.
    fn grouped(&self, expr: &Expr) -> syn::Expr {
        let shown = self.expr(expr);
        if matches!(shown, syn::Expr::Path(_)) { shown } else { parse_quote!((#shown)) }
    }
}

/// A literal without suffix; `value` is not negative.
pub(super) fn literal(value: i64) -> syn::Expr {
    let literal = proc_macro2::Literal::i64_unsuffixed(value);
    parse_quote!(#literal)
}
