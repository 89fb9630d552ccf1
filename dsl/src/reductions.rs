//! Running reductions as written: the formulas that combine two records of several values, and the claim that they add up.
//!
//! ```text
//! reduction = "reduction" NAME "(" initial, .. ")" "{" (let ";")* field, .. "}" ("means" "(" value, .. ")" | "trusted")
//! initial   = NAME "=" value            let = "let" NAME "=" value            field = NAME ":" value
//! ```
//!
//! In the braces, `a.m` is the field `m` of the record whose terms come first, and `b.m` that of the other one. The grammar of `value` is in
//! `value.rs`; `program` checks and proves the definition.

use crate::check::formula;
use crate::errors::{Errors, error, error_at};
use crate::name::PRIME;
use crate::value::{Value, arguments};
use polyshard_layout::Name;
use polyshard_program::{Field, Running, RunningForm, Value as Formula};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Ident, Result, Token, braced, parenthesized, token};

/// A running reduction.
pub(crate) struct Reduction {
    pub(crate) name: Ident,
    pub(crate) fields: Vec<Named>,
    lets: Vec<(Name, Formula)>,
    means: Vec<Formula>,
}

/// A field with its initial value and its formula.
pub(crate) struct Named {
    name: Ident,
    /// Its value without terms.
    pub(crate) initial: Value,
    constant: Formula,
    combined: Formula,
}

/// The reductions that every text knows.
pub(crate) const BUILT_IN: &str = "
reduction softmax(m = -inf, l = 0.0, o = 0.0) {
    let t = max(max(a.m, b.m), -1e30);
    m: t, l: a.l * exp(a.m - t) + b.l * exp(b.m - t), o: a.o * exp(a.m - t) + b.o * exp(b.m - t)
} means (l * exp(m), o * exp(m))
reduction logsumexp(m = -inf, l = 0.0) {
    let t = max(max(a.m, b.m), -1e30);
    m: t, l: a.l * exp(a.m - t) + b.l * exp(b.m - t)
} means (l * exp(m))
reduction mean_variance(n = 0.0, mean = 0.0, q = 0.0) {
    let all = a.n + b.n;
    let d = b.mean - a.mean;
    n: all, mean: a.mean + d * b.n / all, q: a.q + b.q + d * d * a.n * b.n / all
} means (n, n * mean, q + n * mean * mean)
reduction argmax(value = -inf, index = 0.0) {
    let later = if a.value != a.value {
        if b.value != b.value && b.index < a.index { 1.0 } else { 0.0 }
    } else {
        if b.value != b.value || b.value > a.value || (b.value == a.value && b.index < a.index) { 1.0 } else { 0.0 }
    };
    value: if later > 0.0 { b.value } else { a.value }, index: if later > 0.0 { b.index } else { a.index }
} trusted
reduction argmin(value = inf, index = 0.0) {
    let later = if a.value != a.value {
        if b.value != b.value && b.index < a.index { 1.0 } else { 0.0 }
    } else {
        if b.value != b.value || b.value < a.value || (b.value == a.value && b.index < a.index) { 1.0 } else { 0.0 }
    };
    value: if later > 0.0 { b.value } else { a.value }, index: if later > 0.0 { b.index } else { a.index }
} trusted
";

/// The texts of [`BUILT_IN`] after the first word, each of which begins with the name.
fn texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    let texts = BUILT_IN.trim_start().split("reduction ").skip(1);
    texts.filter_map(|text| Some((text.split_once('(')?.0, text)))
}

/// Returns the names of the reductions that every text knows.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    texts().map(|(name, _)| name)
}

/// Returns the reduction with this name that every text knows.
pub(crate) fn built_in(name: &Ident) -> Option<Reduction> {
    let (_, text) = texts().find(|(known, _)| name == known)?;
    let text = format!("reduction {text}");
    Some(syn::parse_str(&text).expect("it is written as a reduction is; this is a bug in polyshard"))
}

/// Whether a reduction begins here.
pub(crate) fn begins(input: ParseStream) -> bool {
    input.peek(Ident) && input.peek2(Ident) && input.fork().parse::<Ident>().is_ok_and(|word| word == "reduction")
}

/// The tokens of a reduction from its first word to its last.
pub(crate) fn tokens(
    first: TokenTree,
    rest: &mut std::iter::Peekable<proc_macro2::token_stream::IntoIter>,
) -> TokenStream {
    let is = |token: &TokenTree, delimiter| matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter);
    let mut all = TokenStream::from(first);
    all.extend(rest.next_if(|token| matches!(token, TokenTree::Ident(_))));
    all.extend(rest.next_if(|token| is(token, Delimiter::Parenthesis)));
    all.extend(rest.next_if(|token| is(token, Delimiter::Brace)));
    let word = rest.next_if(|token| matches!(token, TokenTree::Ident(word) if word == "means" || word == "trusted"));
    let has_claim = matches!(&word, Some(TokenTree::Ident(word)) if word == "means");
    all.extend(word);
    all.extend(rest.next_if(|token| has_claim && is(token, Delimiter::Parenthesis)));
    all
}

impl Parse for Reduction {
    fn parse(input: ParseStream) -> Result<Self> {
        input.parse::<Ident>()?;
        let name: Ident = input.parse()?;
        if ["max", "min"].iter().any(|taken| name == taken) {
            return Err(error(&name, format!("`{name}=` is an assignment"), "give the reduction another name"));
        }
        let (given, body);
        parenthesized!(given in input);
        let initial = |given: ParseStream| -> Result<(Ident, Value)> {
            let field = given.parse()?;
            given.parse::<Token![=]>()?;
            Ok((field, given.parse()?))
        };
        let initials = Punctuated::<_, Token![,]>::parse_terminated_with(&given, initial)?;
        braced!(body in input);
        let body: TokenStream = body.parse()?;
        let (lets, formulas) = syn::parse::Parser::parse2(parts, of_fields(body))?;
        let means = means(input, &name)?;
        let mut errors = Errors::default();
        let mut formula = |value: &Value| errors.take(formula(value));
        let mut fields = Vec::with_capacity(initials.len());
        let mut wrong = Vec::new();
        for (name, initial) in initials {
            match formulas.iter().find(|(other, _)| *other == name) {
                None => wrong.push(error(
                    &name,
                    format!("no formula for the field `{name}`"),
                    "write one: `m: max(a.m, b.m)`",
                )),
                Some((_, combined)) => {
                    if let (Some(constant), Some(combined)) = (formula(&initial), formula(combined)) {
                        fields.push(Named { name, initial, constant, combined });
                    }
                }
            }
        }
        let lets = lets.iter().filter_map(|(name, value)| Some((crate::name::name(name), formula(value)?))).collect();
        let means = means.iter().filter_map(&mut formula).collect();
        for (name, _) in formulas.iter().filter(|(name, _)| fields.iter().all(|field| field.name != *name)) {
            if wrong.is_empty() {
                wrong.push(error(
                    name,
                    format!("the field `{name}` has no initial value"),
                    "list it in the parentheses: `m = -inf`",
                ));
            }
        }
        wrong.into_iter().for_each(|wrong| errors.add(wrong));
        let reduction = errors.finish(Self { name, fields, lets, means })?;
        // A row decides nothing about names and the claim.
        reduction.running(None)?;
        Ok(reduction)
    }
}

impl Reduction {
    /// The reduction, proved, in which the last field in the order of records is a row if one is. The other fields keep their order.
    pub(crate) fn running(&self, row: Option<usize>) -> Result<Running> {
        let field = |Named { name, constant, combined, .. }: &Named| Field {
            name: crate::name::name(name),
            initial: constant.clone(),
            combined: combined.clone(),
        };
        let form = RunningForm {
            name: crate::name::name(&self.name),
            fields: self.order(row).map(|number| field(&self.fields[number])).collect(),
            lets: self.lets.clone(),
            means: self.means.clone(),
            row: row.is_some(),
            size: 0,
        };
        let help = "correct the formulas or `means`; `trusted` in its place takes your word for it";
        Running::new(form).map_err(|why| error(&self.name, why, help))
    }

    /// The fields, by number, in the order of records.
    pub(crate) fn order(&self, row: Option<usize>) -> impl Iterator<Item = usize> {
        (0..self.fields.len()).filter(move |number| row != Some(*number)).chain(row)
    }
}

type Parts = Vec<(Ident, Value)>;

/// The contents of the braces.
fn parts(input: ParseStream) -> Result<(Parts, Parts)> {
    let (mut lets, mut fields) = (Parts::new(), Parts::new());
    while input.parse::<Option<Token![let]>>()?.is_some() {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        lets.push((name, input.parse()?));
        input.parse::<Token![;]>()?;
    }
    while !input.is_empty() {
        let name: Ident = input.parse()?;
        if fields.iter().any(|(other, _)| *other == name) {
            return Err(error(&name, format!("`{name}` has two formulas"), "keep one of them"));
        }
        input.parse::<Token![:]>()?;
        fields.push((name, input.parse()?));
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    Ok((lets, fields))
}

/// `means (..)`, or nothing for `trusted`.
fn means(input: ParseStream, name: &Ident) -> Result<Vec<Value>> {
    let help = "write what adds up, `means (l * exp(m))`, or `trusted`";
    let message = format!("`{name}` has no `means`");
    let word: Ident = input.parse().map_err(|_| error_at(name.span(), &message, help))?;
    if word == "trusted" {
        return Ok(Vec::new());
    }
    if word != "means" || !input.peek(token::Paren) {
        return Err(error(word, message, help));
    }
    let claims;
    parenthesized!(claims in input);
    let all = arguments(&claims)?;
    match all.is_empty() {
        true => Err(error(word, message, help)),
        false => Ok(all),
    }
}

/// The tokens with one identifier for each field of a record, `a.m`.
fn of_fields(tokens: TokenStream) -> TokenStream {
    let mut tokens = tokens.into_iter().peekable();
    let mut all = TokenStream::new();
    while let Some(token) = tokens.next() {
        let token = match token {
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), of_fields(group.stream()));
                inner.set_span(group.span());
                inner.into()
            }
            TokenTree::Ident(record) if record == "a" || record == "b" => {
                let dot = tokens.next_if(|next| matches!(next, TokenTree::Punct(sign) if sign.as_char() == '.'));
                match (dot, tokens.peek()) {
                    (Some(_), Some(TokenTree::Ident(field))) => {
                        let field = Ident::new(&format!("{record}{PRIME}{field}"), field.span());
                        tokens.next();
                        field.into()
                    }
                    (dot, _) => {
                        all.extend([TokenTree::Ident(record)]);
                        all.extend(dot);
                        continue;
                    }
                }
            }
            other => other,
        };
        all.extend([token]);
    }
    all
}
