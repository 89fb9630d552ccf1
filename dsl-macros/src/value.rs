//! The right-hand side as it is written: a tree of sums, products, accesses, numbers and names.
//!
//! It is not parsed as a Rust expression, since `A[m, k]` is not one; the indices inside are, so that
//! an index that is not affine is an error on exactly that index.

use crate::errors::error;
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, Ident, Lit, Result, Token, bracketed, parenthesized, token};

/// `A[m, k]`.
pub(crate) struct Access {
    pub(crate) tensor: Ident,
    pub(crate) bracket: token::Bracket,
    pub(crate) indices: Punctuated<Expr, Token![,]>,
}

/// A value.
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
    Binary(Box<Value>, Op, Box<Value>),
}

/// An operator between two values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Add,
    Sub,
    Mul,
    Div,
}

impl Value {
    /// Returns the accesses, left to right.
    pub(crate) fn accesses(&self) -> Vec<&Access> {
        match self {
            Self::Access(access) => vec![access],
            Self::Literal(_) | Self::Name(_) => Vec::new(),
            Self::Neg(value) => value.accesses(),
            Self::Binary(a, _, b) => a.accesses().into_iter().chain(b.accesses()).collect(),
        }
    }
}

impl Parse for Access {
    fn parse(input: ParseStream) -> Result<Self> {
        let tensor = input.parse()?;
        let content;
        let bracket = bracketed!(content in input);
        Ok(Self { tensor, bracket, indices: Punctuated::parse_terminated(&content)? })
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
                () if input.peek(Token![+]) => input.parse::<Token![+]>().map(|_| Op::Add)?,
                () if input.peek(Token![-]) => input.parse::<Token![-]>().map(|_| Op::Sub)?,
                () => return Ok(sum),
            };
            sum = Self::Binary(Box::new(sum), op, Box::new(product(input)?));
        }
    }
}

/// Returns the error for a token that no value can hold or go on with.
pub(crate) fn unexpected(input: ParseStream) -> syn::Error {
    let help = "a value is made of `+`, `-`, `*`, `/`, parentheses, numbers, accesses `A[m, k]` and scalars by name";
    match input.cursor().token_tree() {
        Some((token @ TokenTree::Group(_), _)) => error(token, "unexpected group", help),
        Some((token, _)) => error(&token, format!("unexpected `{token}`"), help),
        None => syn::Error::new(input.span(), format!("expected a value\nhelp: {help}")),
    }
}

fn product(input: ParseStream) -> Result<Value> {
    let mut product = unary(input)?;
    loop {
        let op = match () {
            () if input.peek(Token![*]) => input.parse::<Token![*]>().map(|_| Op::Mul)?,
            () if input.peek(Token![/]) => input.parse::<Token![/]>().map(|_| Op::Div)?,
            () => return Ok(product),
        };
        product = Value::Binary(Box::new(product), op, Box::new(unary(input)?));
    }
}

fn unary(input: ParseStream) -> Result<Value> {
    if input.peek(Token![-]) {
        input.parse::<Token![-]>()?;
        return Ok(Value::Neg(Box::new(unary(input)?)));
    }
    if input.peek(token::Paren) {
        let content;
        parenthesized!(content in input);
        let value = content.parse()?;
        return if content.is_empty() { Ok(value) } else { Err(unexpected(&content)) };
    }
    if input.peek(Lit) {
        return input.parse().map(Value::Literal);
    }
    if !input.peek(Ident) {
        return Err(unexpected(input));
    }
    if input.peek2(token::Bracket) {
        return input.parse().map(Value::Access);
    }
    let name: Ident = input.parse()?;
    if input.peek(token::Paren) || input.peek(Token![.]) || input.peek(Token![::]) || input.peek(Token![!]) {
        let help = "bind it first, `let alpha = ..;`, and write `alpha`";
        return Err(error(name, "a value holds scalars by name only, no paths, fields or calls", help));
    }
    Ok(Value::Name(name))
}
