//! Kernels, chains and steps from text, in the syntax of `kernel!`, with the lines and columns of all mistakes.
//!
//! A text is split into Rust tokens and then parsed like a macro's tokens; spans of tokens give the places. Two things differ: in
//! chains, Rust keywords are ordinary names ([`of_names`]), and a file may nest to any depth, on which the recursive parser would run
//! out of stack ([`limited`]).

use crate::brackets::{Unmatched, unmatched};
use crate::check::check;
use crate::errors::{parts, with_help};
use crate::form::Form;
use crate::step::Step;
use crate::{chain, spec};
use polyshard_layout::{Mesh, Name, joined};
use polyshard_program::KernelSpec;
use proc_macro2::{Group, Ident, LexError, TokenStream, TokenTree};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use syn::Result;
use syn::parse::{ParseStream, Parser};

/// All mistakes of a text, in the order of the text.
///
/// ```
/// let error = polyshard::text::parse_kernel("fn f(A: [f32; n]) -> B: [f32; 4] { B[i] = alpha * A[i] }").unwrap_err();
/// assert_eq!(error.mistakes.len(), 2); // `n` and `alpha` have no value
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The mistakes; there is at least one.
    pub mistakes: Vec<Mistake>,
}

/// A mistake in a text.
///
/// ```
/// use polyshard::text::parse_chain;
/// let error = parse_chain(".split(k, ko, ki, 8)\n.tile(m)", None).unwrap_err();
/// assert_eq!((error.mistakes[0].line, error.mistakes[0].column), (2, 2));
/// assert_eq!(error.mistakes[0].at, 22..26);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line where it begins, counted from 1.
    pub line: usize,
    /// The character of that line where it begins, counted from 1.
    pub column: usize,
    /// Where it is in the text, in bytes.
    pub at: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do, if known.
    pub help: Option<String>,
}

impl Mistake {
    /// Returns the mistake at these bytes of a text.
    ///
    /// # Panics
    /// If they do not begin at a character boundary of the text.
    #[must_use]
    pub fn new(text: &str, at: Range<usize>, message: String, help: Option<String>) -> Self {
        let before = &text[..at.start];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        Self { line, column, at, message, help }
    }

    /// The message, and on a second line the help.
    fn said(&self) -> String {
        self.help.as_ref().map_or_else(|| self.message.clone(), |help| with_help(&self.message, help))
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.said())
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&joined(&self.mistakes, "\n"))
    }
}

impl std::error::Error for ParseError {}

/// Parses a kernel in the syntax of `kernel!`, without a schedule.
///
/// All extents must be numbers: a text has no surrounding program whose names it could capture.
///
/// ```
/// let text = "fn scale(A: [f32; 4, 8]) -> B: [f32; 4, 8] { B[i, j] = 2 * A[i, j] }";
/// let kernel = polyshard::text::parse_kernel(text)?.check().expect("a kernel that is read is checked");
/// assert_eq!(kernel.statement(), "B[i, j] = 2 * A[i, j]");
///
/// let error = polyshard::text::parse_kernel("fn f(A: [f32; n]) -> B: [f32; 4] {\n    B[i] = alpha * A[i]\n}").unwrap_err();
/// let places: Vec<_> = error.mistakes.iter().map(|mistake| (mistake.line, mistake.column)).collect();
/// assert_eq!(places, [(1, 15), (2, 12)]);
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// All mistakes of the text.
pub fn parse_kernel(text: &str) -> std::result::Result<KernelSpec, ParseError> {
    read(text, |tokens| spec::literal(&check(syn::parse2(limited(tokens)?)?)?, Form::Text))
}

/// Parses the steps of a chain, in the syntax of `kernel!` after the kernel.
///
/// The first `distribute` is over `mesh`, if given; otherwise the text begins with it: `mesh(x: 2, y: 2)`.
///
/// ```
/// use polyshard::prelude::*;
/// let text = ".distribute([m], [mo], [mi])\n.shard(A, m @ x)\n.communicate(A, mo)";
/// let steps = polyshard::text::parse_chain(text, Some(&Mesh::new([("x", 4)])))?;
/// assert_eq!(steps[0].to_string(), "distribute([m], [mo], [mi], mesh(x: 4))");
///
/// let error = polyshard::text::parse_chain(".split(k, ko, ki)\n.tile(m)", None).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "line 1, column 17: expected `,`\nhelp: write `.split(k, ko, ki, 64)`\n\
///      line 2, column 2: no schedule step `tile`\nhelp: the steps are `split`, `divide`, `reorder`, `fuse`, \
///      `distribute`, `replicate`, `rotate`, `shard`, `communicate`, `pipeline`, `halo`, `interior_first`, `reassociate`, `tensorize`, \
///      `tensorize_as`, `tensorize_with`, `expect`, `expect_overlap`, `together`, `apart`, `of` and `of_all`"
/// );
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// All mistakes of the text.
pub fn parse_chain(text: &str, mesh: Option<&Mesh>) -> std::result::Result<Vec<Step>, ParseError> {
    let parser = |input: ParseStream| chain::parse(input, Form::Text, mesh);
    let chain = read(text, |tokens| parser.parse2(of_names(tokens)?)?.without_auto(chain::STEPS))?;
    Ok(chain.calls.into_iter().map(|call| call.step).collect())
}

impl FromStr for Step {
    type Err = ParseError;

    /// Parses a step as it prints.
    fn from_str(text: &str) -> std::result::Result<Self, ParseError> {
        read(text, |tokens| chain::step.parse2(of_names(tokens)?))
    }
}

impl TryFrom<String> for Step {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        // A file of steps has its own places, so this one is relative to the step.
        text.parse().map_err(|error: ParseError| {
            let said = |mistake: &Mistake| match mistake {
                Mistake { line: 1, column, .. } => format!("at its character {column}: {}", mistake.said()),
                mistake => mistake.to_string(),
            };
            format!("`{text}` is not a schedule step: {}", joined(error.mistakes.iter().map(said), "; "))
        })
    }
}

impl From<Step> for String {
    fn from(step: Step) -> Self {
        step.to_string()
    }
}

/// Parses the tokens of a text. If brackets do not match, the text has no tokens, so that is the only mistake reported.
pub(crate) fn read<T>(text: &str, parse: impl FnOnce(TokenStream) -> Result<T>) -> std::result::Result<T, ParseError> {
    match text.parse() {
        Ok(tokens) => placed(text, parse(tokens)),
        Err(wrong) => Err(ParseError { mistakes: vec![without_tokens(text, &wrong)] }),
    }
}

/// Why a text cannot be split into tokens.
fn without_tokens(text: &str, wrong: &LexError) -> Mistake {
    // The position of the error is far behind the bracket that causes it.
    if let Some(Unmatched { at, message, help }) = unmatched(text) {
        return Mistake::new(text, at, message, Some(help));
    }
    let at = wrong.span().byte_range().start;
    let rest = &text[at..];
    let first = rest.chars().next().map_or(0, char::len_utf8);
    let len = rest.find(|letter| !Name::is_part(letter)).unwrap_or(rest.len()).max(first);
    let line = text[..at].rsplit('\n').next().unwrap_or_default();
    let help = match &rest[..len] {
        _ if line.contains('#') => "comments begin with `//`",
        "'" | "\"" => "write names and numbers without quotes",
        _ => "leave it out, or write a name, a number or a sign that has one",
    };
    Mistake::new(text, at..at + len, format!("`{}` has no meaning here", &rest[..len]), Some(help.into()))
}

/// Returns the result, or the errors with their places in the text.
pub(crate) fn placed<T>(text: &str, read: Result<T>) -> std::result::Result<T, ParseError> {
    read.map_err(|errors| {
        let mut mistakes: Vec<_> = errors.into_iter().map(|error| mistake(text, &error)).collect();
        mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
        // Kernels of a block have declarations in common.
        mistakes.dedup();
        ParseError { mistakes }
    })
}

fn mistake(text: &str, error: &syn::Error) -> Mistake {
    let at = match error.span().byte_range() {
        // An error at the end of the text has no token.
        range if range.is_empty() => {
            let end = text.strip_suffix('\n').unwrap_or(text).len();
            end..end
        }
        range => range,
    };
    let (message, help) = parts(&error.to_string());
    Mistake::new(text, at, message, help)
}

/// The maximum number of tokens inside brackets without a comma or a semicolon, plus those around the brackets: parsing takes stack for
/// each of them.
const TOKENS: usize = 500;

/// Returns the tokens, unless they are nested so deeply, or so long without a separator, that parsing them could overflow the stack.
///
/// Commas and semicolons reset the count, since items that they separate are parsed in a loop: a long list is not deep, but
/// `1 + (1 + (1 + ..` and `- - - ..` are.
pub(crate) fn limited(tokens: TokenStream) -> Result<TokenStream> {
    fn fits(tokens: TokenStream, room: usize) -> bool {
        let mut left = room;
        tokens.into_iter().all(|token| {
            let ends = matches!(&token, TokenTree::Punct(sign) if matches!(sign.as_char(), ',' | ';'));
            left = if ends { room } else { left.saturating_sub(1) };
            let TokenTree::Group(group) = token else { return left > 0 };
            left > 0 && fits(group.stream(), left)
        })
    }
    if fits(tokens.clone(), TOKENS) {
        return Ok(tokens);
    }
    let help =
        format!("write at most {TOKENS} names, numbers and signs between commas, also of brackets inside of others");
    Err(crate::errors::error(tokens, "this is too long", help))
}

/// Returns the tokens of a chain, with Rust keywords as ordinary names.
pub(crate) fn of_names(tokens: TokenStream) -> Result<TokenStream> {
    fn renamed(token: TokenTree) -> TokenTree {
        match token {
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), group.stream().into_iter().map(renamed).collect());
                inner.set_span(group.span());
                inner.into()
            }
            TokenTree::Ident(word) if is_keyword(&word) => Ident::new_raw(&word.to_string(), word.span()).into(),
            other => other,
        }
    }
    let limits = tokens.into_iter().map(|tree| {
        if let TokenTree::Group(group) = &tree {
            limited(group.stream())?;
        }
        Ok(renamed(tree))
    });
    limits.collect()
}

/// Whether the word is a keyword that can be a name with `r#`.
fn is_keyword(word: &Ident) -> bool {
    let never = ["_", "self", "Self", "super", "crate"].iter().any(|text| word == text);
    !never && syn::parse2::<Ident>(TokenTree::from(word.clone()).into()).is_err()
}

#[cfg(test)]
mod tests;
