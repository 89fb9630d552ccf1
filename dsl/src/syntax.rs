//! The kernel block as written: parsed, with its spans, and not yet checked.
//!
//! ```text
//! /// docs
//! pub? fn NAME(A: [T; extent, ..], ..) -> C: [T; ..] {
//!     C[index, ..] OP value  (for q in start..end)*  ;?
//! }
//! ```
//!
//! `OP` is one of `=`, `+=`, `*=`, `max=` and `min=`, and ranges may also precede the statement. The grammar of `value` is in
//! `value.rs`. A tensor of no dimensions is declared by its type alone, and has empty brackets where it is used:
//!
//! ```text
//! fn largest(A: [f32; m, n]) -> s: f32 { s[] max= abs(A[i, j]) }
//! fn inner(A: [f32; n]) -> B: [f32; n] { B[i] = A[i - 1] + A[i + 1] for i in 1..n - 1 }
//! ```
//!
//! No name is looked up here: it may be a tensor, an index or a scalar, and an index may be any Rust expression. `check` decides, so
//! that it can report every mistake at once.

use crate::errors::{error, error_at};
use crate::value::{Access, Value};
use polyshard_layout::joined;
use polyshard_program::Assign;
use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Ident, Result, Token, Type, Visibility, braced, bracketed, parenthesized, token};

/// The function-like part of the block.
#[derive(Clone)]
pub(crate) struct Block {
    pub(crate) docs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) name: Ident,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) output: Tensor,
    pub(crate) statement: Statement,
    pub(crate) ranges: Vec<Range>,
}

/// `A: [T; extent, ..]`, or `A: T` for a tensor of no dimensions.
#[derive(Clone)]
pub struct Tensor {
    /// Its name.
    pub name: Ident,
    /// The type of its elements.
    pub element: Type,
    /// Its extents.
    pub extents: Vec<Expr>,
}

/// `C[m, n] += A[m, k] * B[k, n]`.
#[derive(Clone)]
pub(crate) struct Statement {
    pub(crate) target: Access,
    pub(crate) assign: Assign,
    pub(crate) value: Value,
    /// The whole body, for errors on it.
    pub(crate) tokens: TokenStream,
}

/// `for q in 0..n`, whose bounds may still be any expression.
#[derive(Clone)]
pub(crate) struct Range {
    pub(crate) var: Ident,
    pub(crate) bounds: Expr,
}

impl Tensor {
    /// Returns the type as declared: `[f32; m, n]`.
    pub(crate) fn declared(&self) -> String {
        let (element, extents) = (&self.element, &self.extents);
        let text = |tokens: TokenStream| tokens.to_string();
        let extents = joined(extents.iter().map(|extent| text(quote::quote!(#extent))), ", ");
        format!("[{}; {extents}]", text(quote::quote!(#element)))
    }
}

impl Parse for Block {
    fn parse(input: ParseStream) -> Result<Self> {
        let docs = input.call(Attribute::parse_outer)?;
        if let Some(other) = docs.iter().find(|attribute| !attribute.path().is_ident("doc")) {
            return Err(error(other, "a kernel takes no attributes", "write documentation comments only"));
        }
        let vis = input.parse()?;
        input.parse::<Token![fn]>()?;
        let name = input.parse()?;
        if input.peek(Token![<]) {
            let help = "use a type of the surroundings, such as the `T` of the function around it";
            return Err(error_at(input.span(), "a kernel declares no type parameters", help));
        }
        let arguments;
        parenthesized!(arguments in input);
        let inputs = Punctuated::<Tensor, Token![,]>::parse_terminated(&arguments)?.into_iter().collect();
        let output = output(input)?;
        if input.peek(Token![,]) {
            return Err(several_outputs(input));
        }
        let body;
        braced!(body in input);
        let (statement, ranges) = statement(&body)?;
        Ok(Self { docs, vis, name, inputs, output, statement, ranges })
    }
}

impl Parse for Tensor {
    fn parse(input: ParseStream) -> Result<Self> {
        let name: Ident = input.parse()?;
        input.parse::<Token![:]>()?;
        if !input.peek(token::Bracket) {
            let element = input.parse()?;
            if input.peek(token::Bracket) {
                let help = format!("write `{name}: [f32; m, n]`");
                return Err(error_at(input.span(), "extents follow the element type", help));
            }
            return Ok(Self { name, element, extents: Vec::new() });
        }
        let content;
        bracketed!(content in input);
        let element: Type = content.parse()?;
        if !content.peek(Token![;]) {
            let help = format!("write `{name}: [f32; m, n]`, or `{name}: f32` for a tensor of no dimensions");
            return Err(error(&element, "expected `;` and extents after the element type", help));
        }
        content.parse::<Token![;]>()?;
        let extents = Punctuated::<Expr, Token![,]>::parse_terminated(&content)?;
        Ok(Self { name, element, extents: extents.into_iter().collect() })
    }
}

/// `-> C: [f32; m, n]`. Unlike in Rust, the name is part of the declaration, so the error on a missing one shows the syntax.
fn output(input: ParseStream) -> Result<Tensor> {
    let help = "name the output and its extents: `-> C: [f32; m, n]`";
    if !input.peek(Token![->]) {
        return Err(error_at(input.span(), "expected the output", help));
    }
    input.parse::<Token![->]>()?;
    if input.peek(token::Paren) {
        return Err(several_outputs(input));
    }
    if !(input.peek(Ident) && input.peek2(Token![:])) || input.peek2(Token![::]) {
        return Err(error_at(input.span(), "the output has no name", help));
    }
    input.parse()
}

/// The error for a second output.
fn several_outputs(input: ParseStream) -> syn::Error {
    let help = "write a kernel for each output; a later one may read what an earlier one writes";
    error_at(input.span(), "a kernel has one output", help)
}

/// The body, with ranges before or after the statement.
pub(crate) fn statement(body: ParseStream) -> Result<(Statement, Vec<Range>)> {
    let tokens = body.fork().parse()?;
    let mut ranges = Vec::new();
    while body.peek(Token![for]) {
        ranges.push(range(body)?);
    }
    let target = target(body)?;
    let assign = assign(body)?;
    let value = body.parse()?;
    while body.peek(Token![for]) {
        ranges.push(range(body)?);
    }
    let end = body.parse::<Option<Token![;]>>()?;
    if !body.is_empty() {
        return Err(match end {
            Some(_) => error(
                body.parse::<TokenStream>()?,
                "a kernel is one statement",
                "write a kernel for each statement; ranges `for q in 0..n` stand before the `;`",
            ),
            None => crate::value::unexpected(body),
        });
    }
    Ok((Statement { target, assign, value, tokens }, ranges))
}

/// `for q in 0..n`. With a brace after it, it would be a Rust loop, which is rejected.
fn range(input: ParseStream) -> Result<Range> {
    input.parse::<Token![for]>()?;
    let var = input.parse()?;
    if input.peek(Token![,]) {
        return Err(comma(input, "a range is of one index"));
    }
    input.parse::<Token![in]>()?;
    let bounds = input.call(Expr::parse_without_eager_brace)?;
    if input.peek(token::Brace) {
        let help = "write the statement after the ranges, or the ranges after the statement";
        return Err(error_at(input.span(), "a range has no block", help));
    }
    if input.peek(Token![,]) {
        return Err(comma(input, "ranges are not joined by commas"));
    }
    Ok(Range { var, bounds })
}

/// The error on a comma in or between ranges.
fn comma(input: ParseStream, message: &str) -> syn::Error {
    error_at(input.span(), message, "write one after the other: `for i in 0..m for j in 0..n`")
}

fn target(input: ParseStream) -> Result<Access> {
    if input.peek(Ident) && input.peek2(token::Bracket) {
        return input.parse();
    }
    let at = if input.peek(Ident::peek_any) { input.call(Ident::parse_any)?.span() } else { input.span() };
    Err(error_at(at, "expected an access to the output", "write the statement as `C[m, n] += A[m, k] * B[k, n]`"))
}

/// `=`, `+=`, `*=`, `max=` or `min=`: apart from `=`, the operations whose terms may be combined in any grouping. `-=` and `/=` are not
/// among them, and the message says how to express them.
fn assign(input: ParseStream) -> Result<Assign> {
    if input.peek(Token![+=]) {
        return input.parse::<Token![+=]>().map(|_| Assign::Add);
    }
    if input.peek(Token![*=]) {
        return input.parse::<Token![*=]>().map(|_| Assign::Mul);
    }
    if input.peek(Token![=]) && !input.peek(Token![==]) {
        return input.parse::<Token![=]>().map(|_| Assign::Set);
    }
    if input.peek(Ident) && input.peek2(Token![=]) {
        let word: Ident = input.parse()?;
        let equals: Token![=] = input.parse()?;
        return match word.to_string().as_str() {
            "max" => Ok(Assign::Max),
            "min" => Ok(Assign::Min),
            _ => Err(error(quote::quote!(#word #equals), format!("no assignment `{word}=`"), ASSIGNMENTS)),
        };
    }
    if input.peek(Token![else]) {
        let at: Token![else] = input.parse()?;
        return Err(error(at, "nothing is written outside of the output", "only inputs may have a value outside"));
    }
    if input.peek(Token![-=]) {
        let at: Token![-=] = input.parse()?;
        return Err(error(at, "no assignment `-=`", "add the negated value: `+= -(..)`"));
    }
    if input.peek(Token![/=]) {
        let at: Token![/=] = input.parse()?;
        return Err(error(at, "no assignment `/=`", "multiply floats by the reciprocal of a scalar: `*= 1 / alpha`"));
    }
    Err(error_at(input.span(), "expected an assignment", ASSIGNMENTS))
}

const ASSIGNMENTS: &str = "the assignments are `=`, `+=`, `*=`, `max=` and `min=`";

#[cfg(test)]
mod tests;
