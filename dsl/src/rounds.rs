//! Rounds around kernels of a file: `repeat(100, A = B, until s < 1e-9) { .. }`.
//!
//! In each round but the first, `A` has the value that `B` had in the previous round. The rounds end after 100, or after one in which `s`,
//! a tensor of no dimensions, is below the bound. The names on the right, and `s`, are written by kernels of the round, or carried by
//! rounds inside it.

use crate::check::index::identifiers;
use crate::errors::{Errors, error, error_at};
use crate::form::Form;
use crate::name::{moved, name};
use crate::text::limited;
use crate::values::{Values, written};
use polyshard_layout::Name;
use polyshard_program::{MOST_ROUNDS, Number};
use proc_macro2::{Group, Ident, Span};
use std::fmt;
use std::ops::Range;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Lit, Result, Token, UnOp};

/// Kernels of a file, or of another sequence, that run in rounds.
///
/// ```
/// use polyshard::text::Rounds;
/// let rounds = Rounds::new(10, 1..3).carry("next", "x").until("residual", 1e-6);
/// assert_eq!(rounds.to_string(), "repeat(10, x = next, until residual < 1e-6)");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Rounds {
    /// The maximum number of rounds.
    pub times: u64,
    /// Values passed to the next round.
    pub carried: Vec<Carry>,
    /// The condition that ends the rounds earlier: a value without dimensions is below a bound.
    pub until: Option<(Name, f64)>,
    /// The kernels, by number.
    pub kernels: Range<usize>,
    /// Where the word `repeat` is in the text, in bytes; empty if the rounds were not parsed from text.
    pub at: Range<usize>,
}

/// A value that is passed from round to round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carry {
    /// Its name in a round, and after the rounds.
    pub value: Name,
    /// The value of this name in one round becomes it in the next.
    pub next: Name,
    /// The value from before the rounds that it is in the first round.
    pub first: Name,
}

impl Rounds {
    /// Returns `times` rounds of the kernels with these numbers, which do not carry anything yet.
    #[must_use]
    pub fn new(times: u64, kernels: Range<usize>) -> Self {
        Self { times, carried: Vec::new(), until: None, kernels, at: 0..0 }
    }

    /// Passes `next` to the next round as `value`, which has a value before the rounds.
    #[must_use]
    pub fn carry(self, next: impl Into<Name>, value: impl Into<Name>) -> Self {
        let value = value.into();
        self.carry_from(value, next, value)
    }

    /// Passes `next` to the next round as `value`, which is `first` in the first round.
    ///
    /// ```
    /// use polyshard::text::Rounds;
    /// let rounds = Rounds::new(10, 1..3).carry_from("start", "next", "x");
    /// assert_eq!(rounds.to_string(), "repeat(10, x = start, then next)");
    /// ```
    #[must_use]
    pub fn carry_from(mut self, first: impl Into<Name>, next: impl Into<Name>, value: impl Into<Name>) -> Self {
        self.carried.push(Carry { value: value.into(), next: next.into(), first: first.into() });
        self
    }

    /// Ends the rounds once a value without dimensions is below a bound.
    #[must_use]
    pub fn until(self, scalar: impl Into<Name>, below: f64) -> Self {
        Self { until: Some((scalar.into(), below)), ..self }
    }
}

impl fmt::Display for Rounds {
    /// As in a file, before the braces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "repeat({}", self.times)?;
        self.carried.iter().try_for_each(|Carry { value, next, first }| match first == value {
            true => write!(f, ", {value} = {next}"),
            false => write!(f, ", {value} = {first}, then {next}"),
        })?;
        self.until.iter().try_for_each(|(scalar, below)| write!(f, ", until {scalar} < {below:?}"))?;
        f.write_str(")")
    }
}

/// The maximum number of rounds around a kernel, so that deep nesting cannot exhaust the stack.
pub(crate) const DEEPEST: usize = 8;

/// Rounds as written.
pub struct Repeated {
    at: Span,
    /// The maximum number of rounds.
    pub times: Expr,
    /// Values passed to the next round: the first has in the next round the value of the second in this one.
    pub carried: Vec<(Ident, Ident)>,
    /// Carried values, each with its value in the first round, where that has another name.
    pub firsts: Vec<(Ident, Ident)>,
    /// The value that ends the rounds, and the bound below which it does.
    pub until: Option<(Ident, Expr)>,
    /// The kernels, by number.
    pub kernels: Range<usize>,
}

impl Repeated {
    /// Rounds of a block, before their kernels, of which the first has this number.
    pub(crate) fn new(at: Span, times: Expr, kernel: usize) -> Self {
        Self { at, times, carried: Vec::new(), firsts: Vec::new(), until: None, kernels: kernel..kernel }
    }

    /// Adds the carried values, each with the next value and that of the first round, and the condition that ends them.
    pub(crate) fn finish(&mut self, carried: Vec<(Ident, Ident, Ident)>, until: Option<(Ident, Expr)>, end: usize) {
        (self.until, self.kernels.end) = (until, end);
        for (value, next, first) in carried {
            self.firsts.push((value.clone(), first));
            self.carried.push((value, next));
        }
    }

    /// Whether the first round begins with this value.
    pub(crate) fn begins_with(&self, value: &Ident) -> bool {
        self.firsts.iter().any(|(_, first)| first == value)
    }

    /// The values on which those that are in use depend, through the rounds.
    pub(crate) fn needed(&self, is_used: impl Fn(&Ident) -> bool) -> Vec<String> {
        let used = || self.carried.iter().zip(&self.firsts).filter(|((value, _), _)| is_used(value));
        let until = self.until.iter().map(|(scalar, _)| scalar).filter(|_| used().next().is_some());
        used().flat_map(|((_, next), (_, first))| [next, first]).chain(until).map(ToString::to_string).collect()
    }

    /// Carries the values that are in use alone, and numbers the kernels anew. Returns whether anything is left.
    pub(crate) fn prune(&mut self, is_used: impl Fn(&Ident) -> bool, number: impl Fn(usize) -> usize) -> bool {
        self.carried.retain(|(value, _)| is_used(value));
        self.firsts.retain(|(value, _)| is_used(value));
        self.kernels = number(self.kernels.start)..number(self.kernels.end);
        !self.carried.is_empty()
    }

    /// Whether a value has another name before the rounds.
    pub(crate) fn has_first(&self, value: &Ident) -> bool {
        self.firsts.iter().any(|(other, _)| other == value)
    }

    /// Numbers the kernels from this one.
    pub(crate) fn after(mut self, kernel: usize) -> Self {
        self.kernels = self.kernels.start + kernel..self.kernels.end + kernel;
        self
    }

    /// Names values as the blocks in the rounds leave them.
    pub(crate) fn rename(&mut self, before: &[(Ident, Ident)], left: &[(Ident, Ident)]) {
        let to = |name: &mut Ident, versions: &[(Ident, Ident)]| {
            if let Some((_, version)) = versions.iter().find(|(base, _)| base == name) {
                *name = moved(version, name.span());
            }
        };
        for (value, next) in &mut self.carried {
            to(value, before);
            to(next, left);
        }
        self.until.iter_mut().for_each(|(scalar, _)| to(scalar, left));
    }

    /// Parses the parentheses of rounds whose first kernel has this number.
    pub(crate) fn parse(at: Span, header: &Group, first: usize) -> Result<Self> {
        let inside = |input: ParseStream<'_>| Self::inside(at, input, first);
        limited(header.stream()).and_then(|header| inside.parse2(header)).map_err(|why| {
            let help =
                "write how many rounds, what is carried and what ends them: `repeat(100, A = B, until s < 1e-9)`";
            let at = if why.span().byte_range().is_empty() { header.span_close() } else { why.span() };
            error_at(at, why, help)
        })
    }

    /// Parses what stands in the parentheses.
    fn inside(at: Span, input: ParseStream<'_>, kernel: usize) -> Result<Self> {
        let (times, mut carried, mut until) = (input.parse()?, Vec::new(), None);
        while input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
            let first: Ident = input.parse()?;
            if first == "until" && !input.peek(Token![=]) {
                let scalar = input.parse()?;
                input.parse::<Token![<]>()?;
                if until.replace((scalar, input.parse()?)).is_some() {
                    return Err(error(first, "rounds end by one value", "leave out the second `until`"));
                }
            } else {
                input.parse::<Token![=]>()?;
                carried.push((first, input.parse()?));
            }
        }
        if !input.is_empty() {
            return Err(input.error("expected `,`"));
        }
        Ok(Self { at, times, carried, firsts: Vec::new(), until, kernels: kernel..kernel })
    }

    /// The names in the number of rounds, an integer, and in the bound that ends them.
    pub(crate) fn open(&self) -> Vec<(Ident, bool)> {
        let below = self.until.iter().flat_map(|(_, below)| identifiers(below)).map(|ident| (ident, false));
        identifiers(&self.times).into_iter().map(|ident| (ident, true)).chain(below).collect()
    }

    /// The rounds of a block that is compiled.
    pub(crate) fn literal(&self) -> Result<Rounds> {
        let (values, mut errors) = (Values::default(), Errors::default());
        let mut needs = |at: &Expr, what: &str| {
            errors.add(Form::Macro.not_literal(at, what, "write a number", "numbers known at run time"));
        };
        if values.evaluate(&self.times).is_none() {
            needs(&self.times, "a literal number of rounds");
        }
        if let Some((_, below)) = self.until.as_ref().filter(|(_, below)| number(below, &values).is_none()) {
            needs(below, "a literal bound of rounds");
        }
        errors.stop()?;
        self.bound(&values)
    }

    /// The rounds with numbers in place of names: `repeat(rounds, ..)` with `--let rounds=5`.
    pub(crate) fn bound(&self, values: &Values) -> Result<Rounds> {
        let unknown = |expr: &Expr, what: &str, number: &str| match identifiers(expr)
            .into_iter()
            .find(|ident| values.get(name(ident)).is_none())
        {
            Some(ident) => {
                let help = format!("write a number, or give it a value: `--let {ident}=5`");
                error(expr, format!("the {what} is not known"), help)
            }
            None => error(expr, format!("`{}` is not a {what}", written(expr)), format!("write {number}")),
        };
        let times =
            values.evaluate(&self.times).ok_or_else(|| unknown(&self.times, "number of rounds", "a whole number"))?;
        let most = u64::try_from(times).ok().filter(|times| *times <= MOST_ROUNDS);
        let times = most.ok_or_else(|| {
            error(
                &self.times,
                format!("there cannot be {times} rounds"),
                format!("write a number from 0 to {MOST_ROUNDS}"),
            )
        })?;
        let until = self.until.as_ref().map(|(scalar, below)| {
            let below =
                number(below, values).ok_or_else(|| unknown(below, "bound that ends the rounds", "a number"))?;
            Ok::<_, syn::Error>((name(scalar), below))
        });
        let carried = self.carried.iter().map(|(value, next)| {
            let first = self.firsts.iter().find(|(other, _)| other == value).map_or(value, |(_, first)| first);
            Carry { value: name(value), next: name(next), first: name(first) }
        });
        let carried = carried.collect();
        Ok(Rounds {
            times,
            carried,
            until: until.transpose()?,
            kernels: self.kernels.clone(),
            at: self.at.byte_range(),
        })
    }
}

/// A literal number, or the value of a name.
fn number(expr: &Expr, values: &Values) -> Option<f64> {
    match expr {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Float(number) => number.base10_parse().ok(),
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        },
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => Some(-number(&unary.expr, values)?),
        Expr::Paren(inner) => number(&inner.expr, values),
        Expr::Path(path) => match values.get(name(path.path.get_ident()?))? {
            Number::Int(number) => Some(number as f64),
            Number::Float(number) => Some(number),
        },
        _ => None,
    }
}

/// Checks that rounds carry values that they write; `outputs` are the outputs of the kernels.
pub(crate) fn check(outputs: &[&Ident], rounds: &[Repeated]) -> Result<()> {
    let mut errors = Errors::default();
    for around in rounds {
        let own = &outputs[around.kernels.clone()];
        let last = own.last().map_or_else(|| "B".to_owned(), ToString::to_string);
        if around.carried.is_empty() {
            let what = "rounds carry nothing, so each repeats the first";
            let help = format!("carry `{last}` to the next round: `A = {last}`");
            errors.add(error_at(around.at, what, help));
        }
        // The values written in a round: by kernels, or carried by inner rounds.
        let mut written = own.to_vec();
        let within = |other: &&Repeated| {
            !std::ptr::eq(*other, around)
                && around.kernels.start <= other.kernels.start
                && other.kernels.end <= around.kernels.end
        };
        let inside = rounds.iter().filter(within).flat_map(|other| &other.carried);
        let carried_inside: Vec<&Ident> = inside.map(|(value, _)| value).collect();
        written.extend(carried_inside.iter().copied().chain(around.carried.iter().map(|(value, _)| value)));
        let next = around.carried.iter().map(|(_, next)| next).chain(around.until.iter().map(|(scalar, _)| scalar));
        for name in next.filter(|name| !written.contains(name)) {
            errors.push(name, format!("no kernel of the round writes `{name}`"), "name what one of them writes");
        }
        let is_idle = |value: &Ident| !own.contains(&value) && !carried_inside.contains(&value);
        for (value, _) in around.carried.iter().filter(|(value, next)| value == next && is_idle(value)) {
            let message = format!("`{value} = {value}` carries nothing: no kernel of the round writes `{value}`");
            errors.push(value, message, format!("carry what one of them writes, such as `{value} = {last}`"));
        }
    }
    errors.finish(())
}
