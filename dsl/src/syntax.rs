//! The kernel block as written: parsed, with its spans, and not yet checked.
//!
//! ```text
//! block     = docs "pub"? "fn" NAME "(" tensor, .. ")" "->" (result | "(" result, .. ")") "{" item* "}"
//! tensor    = NAME ":" (TYPE | "[" TYPE ";" extent, .. "]")          result = tensor | NAME of a parameter
//! item      = statement ";" | reduced ";" | "let" tensor ";" | "repeat" "(" COUNT ("," "until" condition)? ")" "{" item* "}"
//! statement = range* "let"? target OP value range*                   the last ";" may be left out
//! reduced   = range* "let"? "(" target, .. ")" NAME "=" "(" value, .. ")" range*      NAME is a reduction: reductions.rs
//! target    = NAME ("[" index, .. "]")?                              range = "for" NAME "in" start ".." end
//! ```
//!
//! `OP` is one of `=`, `+=`, `*=`, `max=` and `min=`. The grammar of `value` and `condition` is in `value.rs`. A tensor of no
//! dimensions is declared by its type alone:
//!
//! ```text
//! fn largest(A: [f32; m, n]) -> s: f32 { s max= abs(A[i, j]) }
//! fn inner(A: [f32; n]) -> B: [f32; n] { B[i] = A[i - 1] + A[i + 1] for i in 1..n - 1 }
//! ```
//!
//! A block of one statement is a [`Block`], which `check` takes; `blocks` makes such kernels of the statements of a longer one.
//!
//! No name is looked up here: it may be a tensor, an index or a scalar, and an index may be any Rust expression. `check` decides, so
//! that it can report every mistake at once.

use crate::errors::{Errors, error, error_at};
use crate::name::PRIME;
use crate::value::{Access, Condition, Value};
use polyshard_layout::joined;
use polyshard_program::Assign;
use proc_macro2::{TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Ident, Result, Token, Type, Visibility, braced, bracketed, parenthesized, token};

/// A block of any number of statements.
pub(crate) struct Function {
    pub(crate) docs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) name: Ident,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) results: Vec<Returned>,
    pub(crate) items: Vec<Item>,
}

/// A result of a block.
pub(crate) enum Returned {
    Declared(Box<Tensor>),
    /// The final value of a parameter.
    Parameter(Ident),
}

/// A part of the body of a block.
pub(crate) enum Item {
    /// A statement, and whether it declares what it writes.
    Statement(Box<Line>, bool),
    /// A running reduction, and whether it declares what it writes.
    Reduced(Box<Reduced>, bool),
    /// `let Y: [T; n]`
    Declared(Tensor),
    Repeat(Repeat),
}

/// A statement with its ranges.
pub(crate) struct Line {
    pub(crate) statement: Statement,
    pub(crate) ranges: Vec<Range>,
}

/// `(M[i], L[i]) logsumexp= (S[i, j], 1.0)`
pub(crate) struct Reduced {
    /// A line for each target with its term.
    pub(crate) lines: Vec<Line>,
    /// The number of terms that are written.
    pub(crate) terms: usize,
    /// The reduction.
    pub(crate) by: Ident,
    /// The whole statement, for errors on it.
    pub(crate) tokens: TokenStream,
}

/// `repeat(100, until s < 1e-9) { .. }`
pub(crate) struct Repeat {
    pub(crate) at: Ident,
    pub(crate) times: Expr,
    pub(crate) until: Option<Condition>,
    pub(crate) items: Vec<Item>,
}

/// A block of one statement.
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
        Function::parse(input)?.only_statement()
    }
}

impl Function {
    /// Whether it is a kernel of one statement, and not a block whose statements are kernels.
    pub(crate) fn is_one_statement(&self) -> bool {
        matches!((&self.items[..], &self.results[..]), ([Item::Statement(_, false)], [Returned::Declared(_)]))
    }

    /// The kernel, if it is one statement.
    pub(crate) fn only_statement(self) -> Result<Block> {
        let Self { docs, vis, name, inputs, results, items } = self;
        let [result] = <[Returned; 1]>::try_from(results).map_err(|results| {
            let help = "write a kernel for each output; a later one may read what an earlier one writes";
            error(results.get(1).map_or(&name, Returned::name), "a kernel has one output", help)
        })?;
        let Returned::Declared(output) = result else {
            return Err(error(result.name(), "the output has no extents", NAMED));
        };
        let mut items = items.into_iter();
        match (items.next(), items.next()) {
            (Some(Item::Statement(line, false)), None) => {
                let Line { statement, ranges } = *line;
                Ok(Block { docs, vis, name, inputs, output: *output, statement, ranges })
            }
            (_, Some(second)) => Err(error(second.tokens(), ONE_STATEMENT, SEVERAL)),
            (Some(only), None) => Err(error(only.tokens(), ONE_STATEMENT, SEVERAL)),
            (None, None) => Err(error(&name, "a kernel needs a statement", STATEMENT)),
        }
    }
}

impl Returned {
    pub(crate) fn name(&self) -> &Ident {
        match self {
            Self::Declared(tensor) => &tensor.name,
            Self::Parameter(name) => name,
        }
    }
}

impl Item {
    /// Its lines, and whether they declare what they write; other items have none.
    pub(crate) fn lines(&self) -> (&[Line], bool) {
        match self {
            Self::Statement(line, is_let) => (std::slice::from_ref(&**line), *is_let),
            Self::Reduced(reduced, is_let) => (&reduced.lines, *is_let),
            Self::Declared(_) | Self::Repeat(_) => (&[], false),
        }
    }

    /// The tokens at which an error on it is shown.
    fn tokens(&self) -> TokenStream {
        match self {
            Self::Statement(line, _) => line.statement.tokens.clone(),
            Self::Reduced(reduced, _) => reduced.tokens.clone(),
            Self::Declared(Tensor { name, .. }) | Self::Repeat(Repeat { at: name, .. }) => quote::quote!(#name),
        }
    }
}

impl Parse for Function {
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
        let inputs: Vec<Tensor> = Punctuated::<Tensor, Token![,]>::parse_terminated(&arguments)?.into_iter().collect();
        let results = results(input, &inputs)?;
        let body;
        braced!(body in input);
        let mut errors = Errors::default();
        let items = items(&body, &mut errors);
        errors.finish(Self { docs, vis, name, inputs, results, items })
    }
}

impl Parse for Tensor {
    fn parse(input: ParseStream) -> Result<Self> {
        let name: Ident = input.parse()?;
        array_name(&name)?;
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

/// Refuses names that versions of arrays have.
fn array_name(name: &Ident) -> Result<()> {
    match name.to_string().contains(PRIME) {
        true => Err(error(name, format!("`{name}` has a `{PRIME}`"), "name arrays by letters, digits and `_`")),
        false => Ok(()),
    }
}

const NAMED: &str = "name the output and its extents: `-> C: [f32; m, n]`";
const ONE_STATEMENT: &str = "a kernel is one statement";
const SEVERAL: &str = "several statements are for `.poly` files; ranges `for q in 0..n` stand before the `;`";
const STATEMENT: &str = "write the statement as `C[m, n] += A[m, k] * B[k, n]`";

/// `-> C: [f32; m, n]`. Unlike in Rust, the name is part of the declaration, so the error on a missing one shows the syntax.
fn results(input: ParseStream, inputs: &[Tensor]) -> Result<Vec<Returned>> {
    if !input.peek(Token![->]) {
        return Err(error_at(input.span(), "expected the output", NAMED));
    }
    input.parse::<Token![->]>()?;
    if !input.peek(token::Paren) {
        let only = result(input, inputs)?;
        return match input.peek(Token![,]) {
            true => {
                Err(error_at(input.span(), "several outputs stand in parentheses", "write `-> (X: [f32; n], s: f32)`"))
            }
            false => Ok(vec![only]),
        };
    }
    let several;
    parenthesized!(several in input);
    let mut results = Vec::new();
    while !several.is_empty() {
        results.push(result(&several, inputs)?);
        if !several.is_empty() {
            several.parse::<Token![,]>()?;
        }
    }
    match results.is_empty() {
        true => Err(error_at(several.span(), "a kernel has an output", NAMED)),
        false => Ok(results),
    }
}

/// A tensor, or the name of a parameter.
fn result(input: ParseStream, inputs: &[Tensor]) -> Result<Returned> {
    if input.peek(Ident) && input.peek2(Token![:]) && !input.peek2(Token![::]) {
        return input.parse().map(Box::new).map(Returned::Declared);
    }
    let ahead = input.fork();
    match ahead.parse::<Ident>() {
        Ok(name) if inputs.iter().any(|tensor| tensor.name == name) && !ahead.peek(Token![::]) => {
            input.parse().map(Returned::Parameter)
        }
        _ => Err(error_at(input.span(), "the output has no name", NAMED)),
    }
}

/// The contents of braces. After a mistake, the next item is parsed.
fn items(body: ParseStream, errors: &mut Errors) -> Vec<Item> {
    let mut items = Vec::new();
    while !body.is_empty() {
        match item(body, errors) {
            Ok(item) => items.push(item),
            Err(error) => {
                errors.add(error);
                skip(body);
            }
        }
    }
    items
}

/// Skips the rest of an item.
fn skip(body: ParseStream) {
    while !body.is_empty() {
        if body.parse::<Option<Token![;]>>().is_ok_and(|end| end.is_some()) {
            return;
        }
        // Any token tree can be parsed.
        let _ = body.parse::<TokenTree>();
    }
}

fn item(body: ParseStream, errors: &mut Errors) -> Result<Item> {
    if body.peek(Ident) && body.peek2(token::Paren) {
        let ahead: Ident = body.fork().parse()?;
        if ahead == "repeat" {
            return repeat(body, errors).map(Item::Repeat);
        }
    }
    if body.peek(Token![let]) && body.peek2(Ident) && body.peek3(Token![:]) {
        body.parse::<Token![let]>()?;
        let declared = body.parse().map(Item::Declared)?;
        return end(body).map(|()| declared);
    }
    let item = line(body)?;
    item.lines().0.iter().try_for_each(|line| array_name(&line.statement.target.tensor))?;
    end(body).map(|()| item)
}

/// The `;` after an item, which the last one may lack.
fn end(body: ParseStream) -> Result<()> {
    match body.parse::<Option<Token![;]>>()? {
        None if !body.is_empty() => Err(crate::value::unexpected(body)),
        _ => Ok(()),
    }
}

/// `repeat(100, until s < 1e-9) { .. }`
fn repeat(body: ParseStream, errors: &mut Errors) -> Result<Repeat> {
    let at = body.parse()?;
    let header;
    parenthesized!(header in body);
    let help = "write how many rounds and, optionally, what ends them: `repeat(100, until s < 1e-9)`";
    let (times, mut until) = (header.parse()?, None);
    if header.parse::<Option<Token![,]>>()?.is_some() && !header.is_empty() {
        let word: Ident = header.parse()?;
        if word != "until" || header.peek(Token![=]) {
            let help =
                "inside a block, arrays keep their values from round to round; write `until s < 1e-9` or nothing";
            return Err(error(&word, format!("expected `until`, found `{word}`"), help));
        }
        until = Some(header.parse()?);
    }
    if !header.is_empty() {
        return Err(error(header.parse::<TokenStream>()?, "unexpected after the condition", help));
    }
    if !body.peek(token::Brace) {
        return Err(error_at(body.span(), "rounds need braces", "write `repeat(100) { .. }`"));
    }
    let inner;
    braced!(inner in body);
    body.parse::<Option<Token![;]>>()?;
    Ok(Repeat { at, times, until, items: items(&inner, errors) })
}

/// The body of a kernel, with ranges before or after the statement.
pub(crate) fn statement(body: ParseStream) -> Result<(Statement, Vec<Range>)> {
    let (Line { statement, ranges }, is_let) = match line(body)? {
        Item::Statement(line, is_let) => (*line, is_let),
        other => return Err(error(other.tokens(), ONE_STATEMENT, SEVERAL)),
    };
    end(body)?;
    if is_let || !body.is_empty() {
        let rest = if is_let { statement.tokens } else { body.parse()? };
        return Err(error(rest, ONE_STATEMENT, SEVERAL));
    }
    Ok((statement, ranges))
}

/// A statement or a running reduction with its ranges, and whether it has a `let`.
fn line(body: ParseStream) -> Result<Item> {
    let (all, mut tokens) = (body.fork(), TokenStream::new());
    while !all.is_empty() && !all.peek(Token![;]) {
        tokens.extend([all.parse::<TokenTree>()?]);
    }
    let mut ranges = Vec::new();
    while body.peek(Token![for]) {
        ranges.push(range(body)?);
    }
    let is_let = body.parse::<Option<Token![let]>>()?.is_some();
    if body.peek(token::Paren) {
        let (targets, by, terms) = reduced(body)?;
        while body.peek(Token![for]) {
            ranges.push(range(body)?);
        }
        let statement = |(target, value)| {
            let statement = Statement { target, assign: Assign::Set, value, tokens: tokens.clone() };
            Line { statement, ranges: ranges.clone() }
        };
        let count = terms.len();
        let terms = terms.into_iter().chain(std::iter::repeat(Value::whole("0")));
        let lines = targets.into_iter().zip(terms).map(statement).collect();
        return Ok(Item::Reduced(Box::new(Reduced { lines, terms: count, by, tokens }), is_let));
    }
    let target = target(body)?;
    let assign = assign(body)?;
    let value = body.parse()?;
    while body.peek(Token![for]) {
        ranges.push(range(body)?);
    }
    let statement = Statement { target, assign, value, tokens };
    Ok(Item::Statement(Box::new(Line { statement, ranges }), is_let))
}

/// `(M[i], L[i]) logsumexp= (S[i, j], 1.0)`: the targets, the reduction and a term for each target.
fn reduced(body: ParseStream) -> Result<(Vec<Access>, Ident, Vec<Value>)> {
    let (left, right);
    parenthesized!(left in body);
    let one = |left: ParseStream| match left.peek2(token::Bracket) {
        true => left.parse(),
        false => left.parse().map(Access::scalar),
    };
    let targets = Punctuated::<Access, Token![,]>::parse_terminated_with(&left, one)?.into_iter().collect();
    let help = "name a reduction: `(M[i], L[i]) logsumexp= (S[i, j], 1.0)`";
    if !body.peek(Ident) {
        return Err(error_at(body.span(), "several targets need a reduction", help));
    }
    let by: Ident = body.parse()?;
    let _: Token![=] = body.parse()?;
    if !body.peek(token::Paren) {
        return Err(error_at(body.span(), "the terms of a reduction stand in parentheses", help));
    }
    parenthesized!(right in body);
    Ok((targets, by, crate::value::arguments(&right)?))
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

/// An access, which a tensor of no dimensions may be without brackets.
fn target(input: ParseStream) -> Result<Access> {
    if input.peek(Ident) && input.peek2(token::Bracket) {
        return input.parse();
    }
    let ahead = input.fork();
    if let Ok(name) = ahead.parse::<Ident>()
        && ahead.fork().call(assign).is_ok()
        && name != "max"
        && name != "min"
    {
        input.parse::<Ident>()?;
        return Ok(Access::scalar(name));
    }
    let at = if input.peek(Ident::peek_any) { input.call(Ident::parse_any)?.span() } else { input.span() };
    Err(error_at(at, "expected an access to the output", STATEMENT))
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
