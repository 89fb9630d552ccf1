//! Kernels, chains and steps from text: what `kernel!` reads, with the lines and columns of all mistakes.
//!
//! A text is cut into the tokens of Rust, and is then read as a macro's tokens are; spans of tokens give the places. Two things
//! differ: in chains, keywords of Rust are names as others are ([`of_names`]), and what comes from a file may be of any depth, where the
//! parser, which recurses, would run out of stack ([`limited`]).

use crate::brackets::{Unmatched, unmatched};
use crate::check::check;
use crate::errors::{parts, with_help};
use crate::form::Form;
use crate::step::Step;
use crate::{chain, spec};
use polyshard_layout::Mesh;
use polyshard_program::KernelSpec;
use proc_macro2::{Group, Ident, LexError, TokenStream, TokenTree};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use syn::Result;
use syn::parse::{ParseStream, Parser};

/// All mistakes of a text, in its order.
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
    /// The line where it begins, from 1 on.
    pub line: usize,
    /// The character of that line where it begins, from 1 on.
    pub column: usize,
    /// Where it is in the text, in bytes.
    pub at: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do, if that is known.
    pub help: Option<String>,
}

impl Mistake {
    /// Returns the mistake at these bytes of a text.
    ///
    /// # Panics
    /// If they do not begin at a character of the text.
    #[must_use]
    pub fn new(text: &str, at: Range<usize>, message: String, help: Option<String>) -> Self {
        let before = &text[..at.start];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        Self { line, column, at, message, help }
    }

    /// What is wrong, and on a second line what to do.
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
        for (number, mistake) in self.mistakes.iter().enumerate() {
            write!(f, "{}{mistake}", if number == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ParseError {}

/// Returns the kernel that a text holds, as `kernel!` takes it, but without a schedule.
///
/// All extents are numbers: a text captures nothing from a program around it.
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

/// Returns the steps of the chain that a text holds, as `kernel!` takes it behind a kernel.
///
/// The first `distribute` is over `mesh`, if there is one; otherwise the text begins with it: `mesh(x: 2, y: 2)`.
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
///      `tensorize_as`, `tensorize_with`, `expect` and `expect_overlap`"
/// );
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// All mistakes of the text.
pub fn parse_chain(text: &str, mesh: Option<&Mesh>) -> std::result::Result<Vec<Step>, ParseError> {
    let parser = |input: ParseStream| chain::parse(input, Form::Text, mesh);
    let chain = read(text, |tokens| parser.parse2(of_names(tokens)?))?;
    Ok(chain.calls.into_iter().map(|call| call.step).collect())
}

impl FromStr for Step {
    type Err = ParseError;

    /// Reads a step as it prints.
    fn from_str(text: &str) -> std::result::Result<Self, ParseError> {
        read(text, |tokens| chain::step.parse2(of_names(tokens)?))
    }
}

impl TryFrom<String> for Step {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        // A file that steps are read from has places of its own, so this one is of the step.
        text.parse().map_err(|error: ParseError| {
            let said = |mistake: &Mistake| match mistake {
                Mistake { line: 1, column, .. } => format!("at its character {column}: {}", mistake.said()),
                mistake => mistake.to_string(),
            };
            let said: Vec<_> = error.mistakes.iter().map(said).collect();
            format!("`{text}` is not a schedule step: {}", said.join("; "))
        })
    }
}

impl From<Step> for String {
    fn from(step: Step) -> Self {
        step.to_string()
    }
}

/// Reads the tokens of a text. Where brackets do not match there are no tokens, so that is the only mistake that is reported.
pub(crate) fn read<T>(text: &str, parse: impl FnOnce(TokenStream) -> Result<T>) -> std::result::Result<T, ParseError> {
    match text.parse() {
        Ok(tokens) => placed(text, parse(tokens)),
        Err(wrong) => Err(ParseError { mistakes: vec![without_tokens(text, &wrong)] }),
    }
}

/// Why a text cannot be cut into tokens.
fn without_tokens(text: &str, wrong: &LexError) -> Mistake {
    // Where tokens end, the bracket that is to blame is long past.
    if let Some(Unmatched { at, message, help }) = unmatched(text) {
        return Mistake::new(text, at, message, Some(help));
    }
    let at = wrong.span().byte_range().start;
    let rest = &text[at..];
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let first = rest.chars().next().map_or(0, char::len_utf8);
    let len = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len()).max(first);
    let line = text[..at].rsplit('\n').next().unwrap_or_default();
    let help = match &rest[..len] {
        _ if line.contains('#') => "comments begin with `//`",
        "'" | "\"" => "write names and numbers without quotes",
        _ => "leave it out, or write a name, a number or a sign that has one",
    };
    Mistake::new(text, at..at + len, format!("`{}` has no meaning here", &rest[..len]), Some(help.into()))
}

/// Returns the errors of what was read from a text with their places in it.
pub(crate) fn placed<T>(text: &str, read: Result<T>) -> std::result::Result<T, ParseError> {
    read.map_err(|errors| {
        let mut mistakes: Vec<_> = errors.into_iter().map(|error| mistake(text, &error)).collect();
        mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
        ParseError { mistakes }
    })
}

fn mistake(text: &str, error: &syn::Error) -> Mistake {
    let span = error.span();
    let (line, column, at) = match span.byte_range() {
        // Where the text ends there is no token.
        range if range.is_empty() => {
            let column = text.lines().last().map_or(0, |line| line.chars().count());
            (text.lines().count().max(1), column, text.len()..text.len())
        }
        range => (span.start().line, span.start().column, range),
    };
    let (message, help) = parts(&error.to_string());
    Mistake { line, column: column + 1, at, message, help }
}

/// How many tokens may follow one another inside of brackets without a comma or a semicolon, together with those around
/// the brackets: reading takes stack for each of them.
const TOKENS: usize = 500;

/// Returns the tokens, unless they are so deep, or so long in one piece, that reading them could take more stack than there is.
///
/// Commas and semicolons set the count back, since what they separate is read by a loop: a long list is not deep, but
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

/// Returns the tokens of a chain, in which the keywords of Rust are names as others are.
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

/// Whether the word is a keyword that can be a name behind `r#`.
fn is_keyword(word: &Ident) -> bool {
    let never = ["_", "self", "Self", "super", "crate"].iter().any(|text| word == text);
    !never && syn::parse2::<Ident>(TokenTree::from(word.clone()).into()).is_err()
}

#[cfg(test)]
mod tests;
