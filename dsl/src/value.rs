//! The right-hand side as written: a tree of sums, products, calls, choices, accesses, numbers and names.
//!
//! ```text
//! value   = product (("+" | "-") product)*
//! product = unary (("*" | "/") unary)*
//! unary   = "-" unary | atom
//! atom    = "(" value ")" | choice | number | "inf" | access ("else" outside)? | name "(" value, .. ")" | name
//! access  = name "[" expr, .. "]"                    of Rust: `2*i + r - 1`
//! outside = "-"? (number | name)                     where an index is outside of the tensor
//! choice  = "if" condition "{" value "}" "else" ("{" value "}" | choice)
//! condition = and ("||" and)*        and = not ("&&" not)*        not = "!" not | "(" condition ")" | value compare value
//! compare = "<" | "<=" | ">" | ">=" | "==" | "!="
//! ```
//!
//! It is not parsed as a Rust expression, since `A[m, k]` is not one; the indices inside are, so that
//! an index that is not affine is an error on exactly that index.
//!
//! This tree keeps identifiers and literals with their spans. `check/value.rs` turns it into the `Value` of `program`, which has neither.

use crate::errors::{error, error_at};
use polyshard_layout::joined;
use polyshard_program::Comparison;
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, Ident, Lit, LitFloat, LitInt, Result, Token, braced, bracketed, parenthesized, token};

/// `A[m, k]`, or `A[m - 1, k] else 0.0`.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) tensor: Ident,
    pub(crate) bracket: token::Bracket,
    pub(crate) indices: Punctuated<Expr, Token![,]>,
    /// The value where an index is outside of the tensor.
    pub(crate) outside: Option<Box<Value>>,
}

/// A value.
#[derive(Clone)]
pub(crate) enum Value {
    /// An element of a tensor.
    Access(Access),
    /// A number.
    Literal(Lit),
    /// A captured scalar, or a tensor without its indices.
    Name(Ident),
    /// `-a`.
    Neg(Box<Value>),
    /// `a + b` and the like.
    Binary(Box<Value>, BinaryOp, Box<Value>),
    /// `exp(a)` or `max(a, b)`, of a function that may not exist.
    Call(Ident, Vec<Value>),
    /// `if a < b { x } else { y }`.
    If(Box<Choice>),
}

/// `left < right`. Other conditions are a comparison of numbers that are 1 where a comparison holds and 0 where it does not: `a && b` is
/// `a * b > 0`, `a || b` is `max(a, b) > 0`, and `!a` is `1 - a > 0`.
pub(crate) struct Condition {
    pub(crate) compare: Comparison,
    pub(crate) left: Value,
    pub(crate) right: Value,
}

/// `if left < right { then } else { otherwise }`.
#[derive(Clone)]
pub(crate) struct Choice {
    pub(crate) compare: Comparison,
    pub(crate) left: Value,
    pub(crate) right: Value,
    pub(crate) then: Value,
    pub(crate) otherwise: Value,
}

/// An operator between two values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
}

impl Value {
    /// A whole number, which is of every element type.
    pub(crate) fn whole(digits: &str) -> Self {
        Self::Literal(Lit::Int(LitInt::new(digits, Span::call_site())))
    }

    /// Returns the values that this one consists of, left to right.
    pub(crate) fn parts(&self) -> Vec<&Self> {
        match self {
            Self::Access(access) => access.outside.as_deref().into_iter().collect(),
            Self::Literal(_) | Self::Name(_) => Vec::new(),
            Self::Neg(value) => vec![value],
            Self::Binary(a, _, b) => vec![a, b],
            Self::Call(_, arguments) => arguments.iter().collect(),
            Self::If(choice) => {
                let Choice { left, right, then, otherwise, .. } = &**choice;
                vec![left, right, then, otherwise]
            }
        }
    }

    /// As [`parts`](Self::parts), to be changed.
    fn parts_mut(&mut self) -> Vec<&mut Self> {
        match self {
            Self::Access(access) => access.outside.as_deref_mut().into_iter().collect(),
            Self::Literal(_) | Self::Name(_) => Vec::new(),
            Self::Neg(value) => vec![value],
            Self::Binary(a, _, b) => vec![a, b],
            Self::Call(_, arguments) => arguments.iter_mut().collect(),
            Self::If(choice) => {
                let Choice { left, right, then, otherwise, .. } = &mut **choice;
                vec![left, right, then, otherwise]
            }
        }
    }

    /// Calls `visit` for each access, left to right, to change it.
    pub(crate) fn visit_accesses(&mut self, visit: &mut impl FnMut(&mut Access)) {
        match self {
            Self::Access(access) => visit(access),
            _ => self.parts_mut().into_iter().for_each(|part| part.visit_accesses(visit)),
        }
    }

    /// Makes names of tensors of no dimensions accesses to them, except for those after the `else` of an access.
    pub(crate) fn read_scalars(&mut self, is_scalar: &impl Fn(&Ident) -> bool) {
        match self {
            Self::Name(name) if is_scalar(name) => *self = Self::Access(Access::scalar(name.clone())),
            Self::Access(_) => {}
            _ => self.parts_mut().into_iter().for_each(|part| part.read_scalars(is_scalar)),
        }
    }

    /// Replaces names that stand alone, apart from those after the `else` of an access.
    pub(crate) fn replace_names(&mut self, by: &impl Fn(&Ident) -> Option<Self>) {
        match self {
            Self::Name(name) => {
                if let Some(value) = by(name) {
                    *self = value;
                }
            }
            Self::Access(_) => {}
            _ => self.parts_mut().into_iter().for_each(|part| part.replace_names(by)),
        }
    }

    /// Returns the accesses, left to right.
    pub(crate) fn accesses(&self) -> Vec<&Access> {
        match self {
            Self::Access(access) => vec![access],
            _ => self.parts().into_iter().flat_map(Self::accesses).collect(),
        }
    }

    /// Returns the names that stand alone, apart from those after the `else` of an access: scalars and indices.
    pub(crate) fn names(&self) -> Vec<&Ident> {
        match self {
            Self::Name(name) => vec![name],
            Self::Access(_) => Vec::new(),
            _ => self.parts().into_iter().flat_map(Self::names).collect(),
        }
    }
}

impl Access {
    /// The access to a tensor of no dimensions, which has been written without brackets.
    pub(crate) fn scalar(tensor: Ident) -> Self {
        let bracket = token::Bracket(tensor.span());
        Self { tensor, bracket, indices: Punctuated::new(), outside: None }
    }
}

impl Parse for Condition {
    fn parse(input: ParseStream) -> Result<Self> {
        let mut or = and(input)?;
        while input.parse::<Option<Token![||]>>()?.is_some() {
            let sides = vec![or.truth(), and(input)?.truth()];
            or = Self::holds(Value::Call(Ident::new("max", Span::call_site()), sides));
        }
        Ok(or)
    }
}

/// Conditions joined by `&&`.
fn and(input: ParseStream) -> Result<Condition> {
    let mut and = not(input)?;
    while input.parse::<Option<Token![&&]>>()?.is_some() {
        let sides = [and.truth(), not(input)?.truth()].map(Box::new);
        let [left, right] = sides;
        and = Condition::holds(Value::Binary(left, BinaryOp::Mul, right));
    }
    Ok(and)
}

/// `!a`, `(a)` or a comparison. What is in parentheses may be the left side of one, too.
fn not(input: ParseStream) -> Result<Condition> {
    if input.parse::<Option<Token![!]>>()?.is_some() {
        let right = Box::new(not(input)?.truth());
        return Ok(Condition::holds(Value::Binary(Box::new(Value::whole("1")), BinaryOp::Sub, right)));
    }
    let ahead = input.fork();
    if input.peek(token::Paren) && !(ahead.parse::<Value>().is_ok() && comparison(&ahead).is_ok()) {
        let content;
        parenthesized!(content in input);
        let inner = content.parse()?;
        return if content.is_empty() { Ok(inner) } else { Err(unexpected(&content)) };
    }
    let (left, compare, right) = (input.parse()?, comparison(input)?, input.parse()?);
    if comparison(&input.fork()).is_ok() {
        let at: TokenTree = input.parse()?;
        return Err(error(at, "a comparison has two sides", "write `a < b && b < c`"));
    }
    Ok(Condition { compare, left, right })
}

impl Condition {
    /// The condition that a value, 0 or 1, is 1.
    fn holds(left: Value) -> Self {
        Self { compare: Comparison::Greater, left, right: Value::whole("0") }
    }

    /// The value that is 1 where it holds and 0 where it does not.
    fn truth(self) -> Value {
        let (then, otherwise) = (Value::whole("1"), Value::whole("0"));
        self.chosen(then, otherwise)
    }

    /// The choice by it.
    pub(crate) fn chosen(self, then: Value, otherwise: Value) -> Value {
        let Self { compare, left, right } = self;
        Value::If(Box::new(Choice { compare, left, right, then, otherwise }))
    }
}

impl Parse for Access {
    fn parse(input: ParseStream) -> Result<Self> {
        let tensor = input.parse()?;
        let content;
        let bracket = bracketed!(content in input);
        let mut access = Self { tensor, bracket, indices: Punctuated::parse_terminated(&content)?, outside: None };
        if !input.peek(token::Bracket) {
            return Ok(access);
        }
        let mut written = access.to_token_stream();
        while input.peek(token::Bracket) {
            let more;
            let bracket = bracketed!(more in input);
            let indices = Punctuated::<Expr, Token![,]>::parse_terminated(&more)?;
            bracket.surround(&mut written, |inner| indices.to_tokens(inner));
            access.indices.extend(indices);
        }
        let help = format!("write `{}`", access.shown());
        Err(error(written, format!("the indices of `{}` stand in one pair of brackets", access.tensor), help))
    }
}

impl ToTokens for Access {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.tensor.to_tokens(tokens);
        self.bracket.surround(tokens, |inner| self.indices.to_tokens(inner));
    }
}

impl Parse for Value {
    fn parse(input: ParseStream) -> Result<Self> {
        let mut sum = product(input)?;
        loop {
            let op = match () {
                () if input.peek(Token![+]) => input.parse::<Token![+]>().map(|_| BinaryOp::Add)?,
                () if input.peek(Token![-]) => input.parse::<Token![-]>().map(|_| BinaryOp::Sub)?,
                () => return Ok(sum),
            };
            sum = Self::Binary(Box::new(sum), op, Box::new(product(input)?));
        }
    }
}

impl Access {
    /// The access in a message, without the spaces that tokens are printed with.
    pub(crate) fn shown(&self) -> String {
        let index = |index: &Expr| index.to_token_stream().to_string().replace(" * ", "*");
        format!("{}[{}]", self.tensor, joined(self.indices.iter().map(index), ", "))
    }
}

/// The replacement for an operator of other languages.
fn instead_of_sign(sign: char) -> Option<&'static str> {
    Some(match sign {
        '#' => "comments begin with `//`",
        '^' => "write `pow(a, b)`, or `a * a`",
        '@' => "write the sum over an index: `C[i, j] += A[i, k] * B[k, j]`",
        '%' => "`%` is for indices only: `A[(i + 1) % n]`",
        _ => return None,
    })
}

/// Returns the error for a token that cannot be in a value or continue one.
pub(crate) fn unexpected(input: ParseStream) -> syn::Error {
    let help = "a value is made of `+`, `-`, `*`, `/`, parentheses, numbers, accesses `A[m, k]`, scalars by name, \
        functions such as `exp(..)`, and choices `if a < b { x } else { y }`";
    let compares = input.peek(Token![<]) || input.peek(Token![>]) || input.peek(Token![<=]) || input.peek(Token![>=]);
    let compares = compares || input.peek(Token![==]) || input.peek(Token![!=]);
    match input.cursor().token_tree() {
        Some((token, _)) if input.peek(Token![else]) => error(
            token,
            "unexpected `else`",
            "the value outside is written directly after an access: `A[i - 1] else 0`",
        ),
        Some((token @ TokenTree::Group(_), _)) => error(token, "unexpected group", help),
        Some((TokenTree::Ident(word), _)) if let Some(instead) = instead(&word.to_string()) => {
            error(&word, format!("no function `{word}`"), format!("write {instead}"))
        }
        Some((TokenTree::Punct(sign), _)) if let Some(instead) = instead_of_sign(sign.as_char()) => {
            error(&sign, format!("`{sign}` has no meaning here"), instead)
        }
        Some((token, _)) if compares => {
            error(&token, "a comparison is not a number", "choose by it: `if a < b { x } else { y }`")
        }
        Some((token, _)) => error(&token, format!("unexpected `{token}`"), help),
        None => error_at(input.span(), "expected a value", help),
    }
}

/// `a * b / c`, from the left.
fn product(input: ParseStream) -> Result<Value> {
    let mut product = unary(input)?;
    loop {
        let op = match () {
            () if input.peek(Token![*]) => {
                let first: Token![*] = input.parse()?;
                if input.peek(Token![*]) {
                    let second: Token![*] = input.parse()?;
                    let help = "write `pow(a, b)`, or `a * a`";
                    return Err(error(quote::quote!(#first #second), "no operator `**`", help));
                }
                BinaryOp::Mul
            }
            () if input.peek(Token![/]) => input.parse::<Token![/]>().map(|_| BinaryOp::Div)?,
            () => return Ok(product),
        };
        product = Value::Binary(Box::new(product), op, Box::new(unary(input)?));
    }
}

/// `-a`, or a value without a sign. A Rust user may continue it with a dot, `A[i].max(0)`; the error says how to write that here.
fn unary(input: ParseStream) -> Result<Value> {
    if input.peek(Token![-]) {
        input.parse::<Token![-]>()?;
        return Ok(Value::Neg(Box::new(unary(input)?)));
    }
    let value = atom(input)?;
    if input.peek(Token![.]) {
        input.parse::<Token![.]>()?;
        let member: TokenTree = input.parse()?;
        if input.peek(token::Paren) {
            let help = format!("functions stand before their arguments: `max(a, b)`; they are {FUNCTIONS}");
            return Err(error(member, "a value has no methods", help));
        }
        let help = "bind it first, `let alpha = ..;`, and write `alpha`";
        return Err(error(member, "a value holds scalars by name only, no fields", help));
    }
    Ok(value)
}

/// The operand that binds most tightly. A name is an access before brackets, a call before parentheses, otherwise a scalar or an index.
fn atom(input: ParseStream) -> Result<Value> {
    if input.peek(token::Paren) {
        let content;
        parenthesized!(content in input);
        let value = content.parse()?;
        return if content.is_empty() { Ok(value) } else { Err(unexpected(&content)) };
    }
    if input.peek(Token![if]) {
        return choice(input);
    }
    if input.peek(Lit) {
        return input.parse().map(Value::Literal);
    }
    if !input.peek(Ident) {
        return Err(unexpected(input));
    }
    if input.peek2(token::Bracket) {
        let mut access: Access = input.parse()?;
        if input.peek(Token![else]) {
            access.outside = Some(Box::new(outside(&access, input)?));
        }
        return Ok(Value::Access(access));
    }
    let name: Ident = input.parse()?;
    if name == "inf" && !input.peek(token::Paren) {
        let float = |text| Box::new(Value::Literal(Lit::Float(LitFloat::new(text, name.span()))));
        return Ok(Value::Binary(float("1.0"), BinaryOp::Div, float("0.0")));
    }
    if input.peek(token::Paren) {
        let content;
        parenthesized!(content in input);
        return Ok(Value::Call(name, arguments(&content)?));
    }
    if input.peek(Token![::]) || (input.peek(Token![!]) && !input.peek(Token![!=])) {
        let help = format!("bind it first, `let alpha = ..;`, and write `alpha`; the functions are {FUNCTIONS}");
        return Err(error(name, "a value holds scalars and functions by name only, no paths or macros", help));
    }
    Ok(Value::Name(name))
}

/// `else 0.0`, after an access. It is one number or scalar, so that a sum can continue after it: `A[i - 1] else 0 + B[i]`.
fn outside(access: &Access, input: ParseStream) -> Result<Value> {
    let start: Token![else] = input.parse()?;
    let wrong = |at: Option<TokenTree>| {
        let at = at.map_or(start.to_token_stream(), TokenStream::from);
        let message = format!("the value outside of `{}` is a number or a scalar", access.tensor);
        error(at, message, format!("write `{} else 0`", access.shown()))
    };
    let negated = input.parse::<Option<Token![-]>>()?.is_some();
    let at = input.cursor().token_tree().map(|(at, _)| at);
    let value = match () {
        () if input.peek(Lit) => Value::Literal(input.parse()?),
        () if input.peek(Ident) => Value::Name(input.parse()?),
        () => return Err(wrong(at)),
    };
    if input.peek(token::Bracket) || input.peek(token::Paren) || input.peek(Token![.]) || input.peek(Token![::]) {
        return Err(wrong(at));
    }
    Ok(if negated { Value::Neg(Box::new(value)) } else { value })
}

/// The functions that values may call, in messages.
pub(crate) const FUNCTIONS: &str =
    "`exp`, `log`, `sqrt`, `tanh`, `sin`, `cos`, `floor`, `abs`, `sign`, `max`, `min` and `pow`";

/// The replacement for a function of other languages, if any.
pub(crate) fn instead(function: &str) -> Option<&'static str> {
    Some(match function {
        "relu" => "`max(a, 0)`",
        "where" | "select" | "iif" => "a choice, `if a < b { x } else { y }`",
        "sigmoid" => "`1 / (1 + exp(-a))`",
        "ln" => "`log(a)`",
        "fabs" => "`abs(a)`",
        "maximum" | "fmax" => "`max(a, b)`",
        "minimum" | "fmin" => "`min(a, b)`",
        "clip" | "clamp" => "`min(max(a, low), high)`",
        "square" => "`a * a`",
        "power" | "powf" | "powi" => "`pow(a, b)`",
        "rsqrt" => "`1 / sqrt(a)`",
        "ceil" => "`-floor(-a)`",
        "round" => "`floor(a + 0.5)`",
        "tan" => "`sin(a) / cos(a)`",
        "sum" => "the sum as a statement: `C[i] += A[i, k]` adds up over `k`",
        "dot" | "matmul" => "the sum as a statement: `C[i, j] += A[i, k] * B[k, j]` adds up over `k`",
        _ => return None,
    })
}

/// `if a < b { x } else { y }`, or a series of choices with `else if`.
fn choice(input: ParseStream) -> Result<Value> {
    let start: Token![if] = input.parse()?;
    let condition: Condition = input.parse()?;
    let then = block(input)?;
    if !input.peek(Token![else]) {
        return Err(error(start, "a choice without `else` has no value", "write `if a < b { x } else { y }`"));
    }
    input.parse::<Token![else]>()?;
    let otherwise = if input.peek(Token![if]) { choice(input)? } else { block(input)? };
    Ok(condition.chosen(then, otherwise))
}

fn comparison(input: ParseStream) -> Result<Comparison> {
    match () {
        () if input.peek(Token![<=]) => input.parse::<Token![<=]>().map(|_| Comparison::LessEqual),
        () if input.peek(Token![>=]) => input.parse::<Token![>=]>().map(|_| Comparison::GreaterEqual),
        () if input.peek(Token![==]) => input.parse::<Token![==]>().map(|_| Comparison::Equal),
        () if input.peek(Token![!=]) => input.parse::<Token![!=]>().map(|_| Comparison::NotEqual),
        () if input.peek(Token![<]) => input.parse::<Token![<]>().map(|_| Comparison::Less),
        () if input.peek(Token![>]) => input.parse::<Token![>]>().map(|_| Comparison::Greater),
        () => {
            let help =
                "a choice compares two values by `<`, `<=`, `>`, `>=`, `==` or `!=`: `if a < b { x } else { y }`";
            Err(match input.cursor().token_tree() {
                Some((token, _)) => error(token, "expected a comparison", help),
                None => error_at(input.span(), "expected a comparison", help),
            })
        }
    }
}

/// Values between commas.
pub(crate) fn arguments(input: ParseStream) -> Result<Vec<Value>> {
    let mut arguments = Vec::new();
    while !input.is_empty() {
        arguments.push(input.parse()?);
        if !input.is_empty() && !input.peek(Token![,]) {
            return Err(unexpected(input));
        }
        input.parse::<Option<Token![,]>>()?;
    }
    Ok(arguments)
}

/// `{ value }`
fn block(input: ParseStream) -> Result<Value> {
    let content;
    braced!(content in input);
    let value = content.parse()?;
    if content.is_empty() { Ok(value) } else { Err(unexpected(&content)) }
}

#[cfg(test)]
mod tests;
