//! The schedule chain of a kernel: its syntax, and its steps.
//!
//! ```text
//! mesh(x: 2, y: 2)
//! .distribute([m, n], [mo, no], [mi, ni])
//! .shard(A, m @ x, k @ y)
//! ```
//!
//! ```text
//! chain = ("mesh" "(" axes ")")? ("." step)*
//! axes  = (name ":" number), ..
//! step  = name "(" arguments ")"                as `Step` prints; see steps.rs, and placement.rs for `shard`
//! ```
//!
//! Steps are first parsed one by one, and then completed in order: the mesh before the first step belongs to the first `distribute` that
//! lacks one, which is known only once all steps before it are.
//!
//! Names are not looked up here, and the rules of schedules are not checked: a well-formed step may still be illegal, which `polyhedral`
//! finds. The errors of all steps are reported at once.

mod arguments;
mod placement;
mod steps;

use crate::errors::{Errors, error};
use crate::form::Form;
use crate::step::Step;
use polyshard_layout::Mesh;
use proc_macro2::TokenStream;
use syn::parse::ParseStream;
use syn::{Ident, Result, Token};

/// The steps with the identifiers of their methods, to which errors point.
pub struct Chain {
    /// The steps, in order.
    pub calls: Vec<ChainStep>,
}

/// `.split(k, ko, ki, 64)`.
pub struct ChainStep {
    /// The name of the method.
    pub method: Ident,
    /// The step.
    pub step: Step,
}

/// Parses the next step in `input`, without its dot.
pub(crate) fn step(input: ParseStream) -> Result<Step> {
    let method: Ident = input.parse()?;
    match steps::parse(&method, &arguments::inside(input)?, Form::Text)? {
        Written::Whole(step) => Ok(step),
        Written::WithoutMesh(_) => {
            let help = "give it as last argument: `distribute([m], [mo], [mi], mesh(x: 2))`";
            Err(error(&method, "there is no mesh", help))
        }
    }
}

/// Parses all of `input` as a chain; its first `distribute` is over the `given` mesh, if any.
pub(crate) fn parse(input: ParseStream, form: Form, given: Option<&Mesh>) -> Result<Chain> {
    let mut errors = Errors::default();
    let mut mesh = None;
    if input.peek(Ident) {
        let word: Ident = input.parse()?;
        if word != "mesh" {
            return Err(error(&word, format!("expected the schedule, found `{word}`"), SHAPE));
        }
        let content = arguments::inside(input)?;
        if given.is_some() {
            errors.push(&word, "the mesh is given twice", "leave it out of the chain, or write it only there");
        }
        mesh = Some((word, errors.take(arguments::mesh(&content, form))));
    }
    let mut methods = Vec::new();
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
        let content = arguments::inside(input)?;
        // A step with a mistake may be the one that uses the mesh.
        let written = errors.take(steps::parse(&method, &content, form));
        methods.push((method, written));
    }
    let mut calls = Vec::new();
    let mut whole = true;
    for (method, written) in methods {
        let step = written.and_then(|written| errors.take(complete(&method, written, &mut mesh, given, &calls)));
        whole &= step.is_some();
        calls.extend(step.map(|step| ChainStep { method, step }));
    }
    if let (Some((word, _)), true) = (&mesh, whole) {
        errors.push(
            word,
            "the mesh is not used",
            "distribute loops over it: `.distribute([m, n], [mo, no], [mi, ni])`",
        );
    }
    errors.finish(Chain { calls })
}

const SHAPE: &str = "a schedule is `mesh(x: 2, y: 2)` and then steps, `.distribute([m, n], [mo, no], [mi, ni])`";

/// A step as written: only its mesh may be missing.
enum Written {
    /// With all its arguments.
    Whole(Step),
    /// A `distribute` that uses the mesh before the chain.
    WithoutMesh(Box<dyn FnOnce(Mesh) -> Step>),
}

/// The mesh before the first step belongs to the first `distribute`; later ones have their own.
fn complete(
    method: &Ident,
    written: Written,
    mesh: &mut Option<(Ident, Option<Mesh>)>,
    given: Option<&Mesh>,
    before: &[ChainStep],
) -> Result<Step> {
    let first = !before.iter().any(|call| matches!(call.step, Step::Distribute { .. }));
    match written {
        Written::Whole(Step::Distribute { .. }) if mesh.is_some() && first => {
            let help = "write it once, before the first step or as last argument of the first `distribute`";
            Err(error(method, "the first mesh is given twice", help))
        }
        Written::Whole(step) => Ok(step),
        Written::WithoutMesh(step) => match mesh.take() {
            Some((_, Some(mesh))) => Ok(step(mesh)),
            // The mesh has a mistake, which is reported already; any mesh will do.
            Some((_, None)) => Ok(step(Mesh::default())),
            None if first && let Some(mesh) = given => Ok(step(mesh.clone())),
            None if first => {
                Err(error(method, "there is no mesh", "write it before the first step: `mesh(x: 2, y: 2)`"))
            }
            None => {
                let help = "give the inner mesh as last argument: `.distribute([mi], [mio], [mii], mesh(z: 2))`";
                Err(error(method, "there is no mesh for this `distribute`", help))
            }
        },
    }
}

#[cfg(test)]
mod tests;
