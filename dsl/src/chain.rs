//! The schedule chain inside the block: its syntax, and the steps that it says.
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
//! Steps are read first, each by itself, and then completed in their order: the mesh in front belongs to the first `distribute` that lacks
//! one, and which that is shows only when all before it are known.
//!
//! Names are not looked up here, and no rule of a schedule is known: a step that is written correctly
//! may still be illegal, which `polyhedral` finds. The errors of all steps are reported at once.

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
    /// What it says.
    pub step: Step,
}

/// Returns the step that is next in `input`, without the dot.
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

/// Returns the chain that is all of `input`; its first `distribute` is over the mesh that is given, if there is one.
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
        mesh = Some((word, errors.take(arguments::mesh(&content, form).map_err(Into::into))));
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
        // A step with a mistake may have been the one to take the mesh.
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

/// A step as it was written: only the mesh may be missing.
enum Written {
    /// With all its arguments.
    Whole(Step),
    /// A `distribute` that takes the mesh in front of the chain.
    WithoutMesh(Box<dyn FnOnce(Mesh) -> Step>),
}

/// The mesh before the first step belongs to the first `distribute`; a later one brings its own.
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
            // The mesh has a mistake of its own, which is reported; any mesh stands for it.
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
