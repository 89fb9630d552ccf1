//! The schedule chain of a kernel: its syntax, and its steps.
//!
//! ```text
//! mesh(x: 2, y: 2)
//! .distribute([m, n], [mo, no], [mi, ni])
//! .shard(A, m @ x, k @ y)
//! ```
//!
//! ```text
//! chain = ("mesh" "(" axes ")")? ("." step)* ("." "auto")?
//! axes  = (name ":" number), ..
//! step  = name "(" arguments ")"                as `Step` prints; see steps.rs, and placement.rs for `shard`
//! ```
//!
//! The mesh before the first step belongs to the first `distribute`; later ones have their own.
//!
//! Names are not looked up here, and the rules of schedules are not checked: a well-formed step may still be illegal, which `polyhedral`
//! finds. The errors of all steps are reported at once.

mod arguments;
mod placement;
mod steps;

use crate::errors::{Errors, error, error_at};
use crate::form::Form;
use crate::step::Step;
use polyshard_layout::{Mesh, Name};
use proc_macro2::{Span, TokenStream};
use syn::parse::ParseStream;
use syn::{Ident, Result, Token};

/// The steps with the identifiers of their methods, to which errors point.
pub struct Chain {
    /// The steps, in order.
    pub calls: Vec<ChainStep>,
    /// `.auto` at its end.
    pub auto: Option<ChainEnd>,
}

/// `.auto`: the shardings before it are kept, and all else is chosen.
pub struct ChainEnd {
    /// The word, to which errors point.
    pub at: Ident,
    /// The mesh before the chain.
    pub mesh: Option<Mesh>,
}

impl Chain {
    /// The arrays that it shards.
    pub(crate) fn sharded(&self) -> Vec<Name> {
        self.calls.iter().filter_map(|call| Some(call.step.sharding()?.0)).collect()
    }

    /// The chain, where nothing can be chosen.
    pub(crate) fn without_auto(self, help: &str) -> Result<Self> {
        match &self.auto {
            Some(auto) => Err(error(&auto.at, "`.auto` leaves the schedule open here", help)),
            None => Ok(self),
        }
    }
}

/// `.split(k, ko, ki, 64)`.
pub struct ChainStep {
    /// The name of the method.
    pub method: Ident,
    /// The step.
    pub step: Step,
}

/// What the arguments of a step depend on besides its text.
struct Around<'a> {
    form: Form,
    /// The name of the step's method, to which errors point.
    at: Span,
    /// The mesh before the chain, until a step uses it; `None` inside if it has a mistake.
    before: Option<(Ident, Option<Mesh>)>,
    /// The mesh of the first `distribute`, given with the chain.
    given: Option<&'a Mesh>,
    /// How to give a mesh, where only its own will do: to a step alone, or after the first `distribute`.
    needs_own: Option<&'static str>,
}

impl Around<'_> {
    /// The mesh of a `distribute`, with its `own` or without: the one before the chain belongs to the first.
    fn mesh(&mut self, own: Option<Mesh>) -> Result<Mesh> {
        match (own, self.before.take()) {
            (Some(own), None) => Ok(own),
            (Some(_), before) => {
                self.before = before;
                let help = "write it once, before the first step or as last argument of the first `distribute`";
                Err(error_at(self.at, "the first mesh is given twice", help))
            }
            // If the mesh has a mistake, which is reported already, any mesh will do.
            (None, Some((_, before))) => Ok(before.unwrap_or_default()),
            (None, None) => match self.needs_own {
                Some(help) => Err(error_at(self.at, "there is no mesh for this `distribute`", help)),
                None => self.given.cloned().ok_or_else(|| {
                    error_at(self.at, "there is no mesh", "write it before the first step: `mesh(x: 2, y: 2)`")
                }),
            },
        }
    }
}

/// Parses the next step in `input`, without its dot.
pub(crate) fn step(input: ParseStream) -> Result<Step> {
    let method: Ident = input.parse()?;
    let needs_own = Some("give it as last argument: `distribute([m], [mo], [mi], mesh(x: 2))`");
    let mut around = Around { form: Form::Text, at: Span::call_site(), before: None, given: None, needs_own };
    steps::parse(&method, &arguments::inside(input)?, &mut around)
}

/// Parses all of `input` as a chain; its first `distribute` is over the `given` mesh, if any.
pub(crate) fn parse(input: ParseStream, form: Form, given: Option<&Mesh>) -> Result<Chain> {
    let mut errors = Errors::default();
    let mut around = Around { form, at: Span::call_site(), before: None, given, needs_own: None };
    if input.peek(Ident) {
        let word: Ident = input.parse()?;
        if word != "mesh" {
            return Err(error(&word, format!("expected the schedule, found `{word}`"), SHAPE));
        }
        let content = arguments::inside(input)?;
        if given.is_some() {
            errors.push(&word, "the mesh is given twice", "leave it out of the chain, or write it only there");
        }
        around.before = Some((word, errors.take(arguments::mesh(&content, form))));
    }
    let (mut calls, mut is_whole, mut auto) = (Vec::new(), true, None);
    while !input.is_empty() {
        if input.peek(Token![;]) {
            let at: Token![;] = input.parse()?;
            return Err(error(at, "a schedule has no `;`", "leave it out"));
        }
        if !input.peek(Token![.]) {
            return Err(error(input.parse::<TokenStream>()?, "expected `.` and a schedule step", SHAPE));
        }
        input.parse::<Token![.]>()?;
        let method: Ident = input.parse()?;
        if method == "auto" {
            auto = Some(method);
            break;
        }
        let step = errors.take(steps::parse(&method, &arguments::inside(input)?, &mut around));
        is_whole &= step.is_some();
        if let Some(Step::Distribute { .. }) = step {
            around.needs_own = Some(INNER);
        }
        calls.extend(step.map(|step| ChainStep { method, step }));
    }
    if let Some(at) = auto {
        if !input.is_empty() {
            let rest: TokenStream = input.parse()?;
            return Err(error(
                rest,
                "unexpected tokens after `.auto`",
                "`.auto` ends the schedule, and has no parentheses",
            ));
        }
        for ChainStep { method, step } in
            calls.iter().filter(|call: &&ChainStep| !matches!(call.step, Step::Shard { .. }))
        {
            let help = "leave the step out, or write the whole schedule; `mesh(..)` and `.shard(..)` are kept";
            errors.push(method, format!("`{step}` is not kept by `.auto`"), help);
        }
        let mesh = around.before.and_then(|(_, mesh)| mesh).or_else(|| given.cloned());
        return errors.finish(Chain { calls, auto: Some(ChainEnd { at, mesh }) });
    }
    // A step with a mistake may be the one that uses the mesh.
    if let (Some((word, _)), true) = (&around.before, is_whole) {
        errors.push(
            word,
            "the mesh is not used",
            "distribute loops over it: `.distribute([m, n], [mo, no], [mi, ni])`",
        );
    }
    errors.finish(Chain { calls, auto: None })
}

/// The help for `.auto` where only steps will do.
pub(crate) const STEPS: &str = "leave it out, and write the whole schedule";
const INNER: &str = "give the inner mesh as last argument: `.distribute([mi], [mio], [mii], mesh(z: 2))`";
const SHAPE: &str = "a schedule is `mesh(x: 2, y: 2)` and then steps, `.distribute([m, n], [mo, no], [mi, ni])`";

#[cfg(test)]
mod tests;
