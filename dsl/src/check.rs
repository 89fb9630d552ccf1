//! Checks a parsed kernel: resolves its names and finds every mistake.
//!
//! The checks run one after the other and add to one list, so a kernel with three mistakes shows
//! three errors. A check stays silent about what an earlier one has already reported.
//!
//! | order | check | leaves for the next ones |
//! | --- | --- | --- |
//! | 1 | names of tensors differ | what a name means; if two are equal, all stops after 2 |
//! | 2 | ranges are `start..end` | [`Bounds`], and so which names are indices |
//! | 3 | `element` | the one element type, against which literals are held |
//! | 4 | `access` | a [`Site`] per access: its tensor, its affine indices |
//! | 5 | names of indices, `extents`, `periodic` | indices with one extent each; the moduli that are captured |
//! | 6 | unused inputs and ranges | |
//! | 7 | `value` | the value, with a scalar for each name that is nothing else |
//! | 8 | `KernelSpec::check` | if everything is a literal |
//!
//! Names are resolved in this order too: a tensor, then an index, which is in an access or has a range; all other names are captured from
//! the surrounding code.
//!
//! Checks of values that are known only at run time are left to `KernelSpec::check`. If all extents are literals, it runs here too, so that
//! `A[i + 1]` outside `A` does not compile.

mod access;
mod element;
mod extents;
pub(crate) mod index;
mod periodic;
mod value;

use crate::checked::{Bounds, Checked};
use crate::errors::{Errors, error, reported};
use crate::syntax::{Block, Range, Statement, Tensor};
use access::Site;
use polyshard_program::{Assign, KernelError, KernelSpec, Value};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Expr, Ident, RangeLimits, Result};

/// Checks a kernel block.
pub(crate) fn check(mut block: Block) -> Result<Checked> {
    let mut errors = Errors::default();
    let scalars: Vec<Ident> =
        tensors(&block).filter(|one| one.extents.is_empty()).map(|one| one.name.clone()).collect();
    block.statement.value.read_scalars(&|name| scalars.contains(name));
    let distinct = distinct_tensors(&block, &mut errors);
    let ranges = ranges(&block, &mut errors);
    if !distinct {
        // Later errors on a name that two tensors have would be about either of them by chance.
        errors.stop()?;
    }
    let element = element::check(&block, &mut errors);
    let target = access::target(&block, &mut errors);
    let inputs = access::inputs(&block, &mut errors);
    let sites: Vec<&Site> = target.iter().chain(&inputs).collect();
    index_names(&block, &sites, &mut errors);
    extents::check(&block, &sites, &ranges, &mut errors);
    let moduli = periodic::check(&block, &sites, &mut errors);
    unused(&block, &sites, &ranges, &mut errors);
    let mut scalars = Vec::new();
    let value = value::check(&block, element.as_ref(), &sites, &mut scalars, &mut errors);
    let written: Vec<_> = sites.iter().map(|site| (site.access.to_string(), site.syntax.to_token_stream())).collect();
    let (element, target, value) = match (element, target, value) {
        (Some(element), Some(target), Some(value)) => (element, target.access, value),
        _ => return Err(errors.finish(()).err().unwrap_or_else(|| silent(&block))),
    };
    let Block { docs, vis, name, inputs, output, statement, .. } = block;
    let (assign, statement) = (statement.assign, statement.tokens);
    let checked = errors.finish(Checked {
        docs,
        vis,
        name,
        element,
        inputs,
        output,
        ranges,
        scalars,
        moduli,
        target,
        assign,
        value,
        statement,
    })?;
    match checked.spec().map(KernelSpec::check) {
        Ok(Err(wrong)) => Err(at_compile_time(&wrong, &written, &checked.statement)),
        _ => Ok(checked),
    }
}

/// Returns a formula over names alone as a value, whose names are scalars.
pub(crate) fn formula(value: &crate::value::Value) -> Result<Value> {
    let name = Ident::new("formula", proc_macro2::Span::call_site());
    let output = Tensor { name: name.clone(), element: syn::parse_quote!(f64), extents: Vec::new() };
    let target = crate::value::Access::scalar(name.clone());
    let (assign, value, tokens) = (Assign::Set, value.clone(), TokenStream::new());
    let statement = Statement { target, assign, value, tokens };
    let (docs, vis, inputs, ranges) = (Vec::new(), syn::Visibility::Inherited, Vec::new(), Vec::new());
    let block = Block { docs, vis, name, inputs, output, statement, ranges };
    let mut errors = Errors::default();
    if let Some(access) = block.statement.value.accesses().first() {
        errors.push(access, "a formula reads no array", "combine the fields of two records, `a.m` and `b.m`");
        errors.stop()?;
    }
    let value = value::check(&block, None, &[], &mut Vec::new(), &mut errors);
    match value {
        Some(mut value) => {
            // Fields of records are written with a dot.
            value.rewrite(&mut |part| {
                if let Value::Scalar(name) = part {
                    *name = name.as_str().replace('\'', ".").as_str().into();
                }
            });
            errors.finish(value)
        }
        None => Err(errors.finish(()).err().unwrap_or_else(|| silent(&block))),
    }
}

/// The error of `KernelSpec::check`, placed on the access that it is about, if any, otherwise on the statement.
fn at_compile_time(wrong: &KernelError, written: &[(String, TokenStream)], statement: &TokenStream) -> syn::Error {
    match wrong {
        KernelError::OutOfBounds { access, tensor, .. } => {
            let at = written.iter().find(|site| site.0 == *access).map_or(statement, |site| &site.1);
            let larger = || format!("make `{tensor}` larger, or the ranges of the indices smaller");
            error(at, wrong.message(), wrong.help().unwrap_or_else(larger))
        }
        KernelError::TwoModuli { second, .. } => {
            let at = written.iter().find(|site| site.0 == *second).map_or(statement, |site| &site.1);
            reported(at, wrong.message(), wrong.help())
        }
        _ => reported(statement, wrong.message(), wrong.help()),
    }
}

/// Never shown: a check that returned nothing has reported why.
fn silent(block: &Block) -> syn::Error {
    error(&block.statement.tokens, "a check failed without a reason", "this is a bug in Polyshard, please report it")
}

/// Whether all tensors, including the output, have different names.
fn distinct_tensors(block: &Block, errors: &mut Errors) -> bool {
    let tensors: Vec<_> = tensors(block).map(|tensor| &tensor.name).collect();
    let mut distinct = true;
    for (i, tensor) in tensors.iter().enumerate() {
        if tensors[..i].contains(tensor) {
            errors.push(tensor, format!("the name `{tensor}` is given twice"), "give each tensor a name of its own");
            distinct = false;
        }
    }
    distinct
}

/// Returns the indices' ranges.
fn ranges(block: &Block, errors: &mut Errors) -> Vec<Bounds> {
    let mut ranges: Vec<Bounds> = Vec::new();
    for range in &block.ranges {
        let var = &range.var;
        if ranges.iter().any(|other| other.var == *var) {
            errors.push(var, format!("index `{var}` has two ranges"), "keep one of them");
        }
        if let Some(bounds) = errors.take(bounds(range)) {
            ranges.push(bounds);
        }
    }
    ranges
}

/// No name is an index and a tensor: `A[B]` was most likely meant as `A[B[i]]`, which no analysis of affine indices covers.
fn index_names(block: &Block, sites: &[&Site], errors: &mut Errors) {
    let vars = sites.iter().flat_map(|site| &site.vars).chain(block.ranges.iter().map(|range| &range.var));
    let mut wrong: Vec<&Ident> = Vec::new();
    for var in vars.filter(|var| tensors(block).any(|tensor| tensor.name == **var)) {
        if !wrong.contains(&var) {
            let help = "rename one of them; an index expression reads no tensor";
            errors.push(var, format!("index `{var}` has the name of a tensor"), help);
            wrong.push(var);
        }
    }
}

fn bounds(Range { var, bounds }: &Range) -> Result<Bounds> {
    let wrong = |help: &str| Err(error(bounds, format!("the range of `{var}` is not of the form `start..end`"), help));
    let Expr::Range(range) = bounds else { return wrong(&format!("write `for {var} in 0..n`")) };
    match (&range.start, &range.limits, &range.end) {
        (Some(start), RangeLimits::HalfOpen(_), Some(end)) => {
            Ok(Bounds { var: var.clone(), start: (**start).clone(), end: (**end).clone() })
        }
        (_, RangeLimits::Closed(_), Some(_)) => wrong("ranges are half-open: write `0..n + 1` for `0..=n`"),
        (_, _, None) => wrong("give the range an end"),
        (None, ..) => wrong("give the range a start"),
    }
}

/// Whether the name is that of an index: in an access, or with a range.
fn is_index(block: &Block, sites: &[&Site], name: &Ident) -> bool {
    sites.iter().any(|site| site.vars.contains(name)) || block.ranges.iter().any(|range| range.var == *name)
}

/// A tensor or a range that the statement does not use is usually a typing error.
fn unused(block: &Block, sites: &[&Site], ranges: &[Bounds], errors: &mut Errors) {
    // An access to an unknown tensor was most likely meant for one of the unused ones.
    let accesses = block.statement.value.accesses();
    let all_known = accesses.iter().all(|access| tensors(block).any(|tensor| tensor.name == access.tensor));
    let is_read = |name: &Ident| accesses.iter().any(|access| access.tensor == *name);
    let inputs = block.inputs.iter().filter(|_| all_known).map(|tensor| &tensor.name);
    for name in inputs.filter(|name| !is_read(name) && !mentions(&block.statement.tokens, name)) {
        errors.push(name, format!("input `{name}` is never read"), "read it on the right, or remove it");
    }
    for Bounds { var, .. } in ranges {
        if !sites.iter().any(|site| site.vars.contains(var)) && !block.statement.value.names().contains(&var) {
            let help = format!("use `{var}` in an access, or remove its range");
            errors.push(var, format!("index `{var}` has a range, but is never used"), help);
        }
    }
}

/// Whether the tokens mention a name. One in a wrong place, such as an index, is not reported as unused as well.
fn mentions(tokens: &TokenStream, name: &Ident) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => mentions(&group.stream(), name),
        _ => false,
    })
}

/// Returns the inputs, then the output.
fn tensors(block: &Block) -> impl Iterator<Item = &Tensor> {
    block.inputs.iter().chain([&block.output])
}

#[cfg(test)]
mod tests;
