//! One step: its method's name and arguments.
//!
//! The table of examples below is the grammar as a user sees it: names that are not in it are unknown, and the error on a malformed step
//! quotes its line.

use super::Written;
use super::arguments::{
    Misread, Result, comma, constant, enclosed, end, error, first, ident, inside, integer, list, mesh, names, rest,
    size, small,
};
use super::placement::clause;
use crate::errors::{error_at, listed};
use crate::form::Form;
use crate::step::{Share, Step};
use polyshard_layout::{Mesh, did_you_mean};
use polyshard_program::{LeafKind, Offsets, Pattern};
use syn::parse::ParseStream;
use syn::token::Bracket;
use syn::{Expr, ExprRange, Ident, Lit, RangeLimits, Token};

/// The steps with an example of each, which is the help for syntax errors in it.
const STEPS: [(&str, &str); 18] = [
    ("split", "split(k, ko, ki, 64)"),
    ("divide", "divide(k, ko, ki, 2)"),
    ("reorder", "reorder([mo, no, ko, mi, ni, ki])"),
    ("fuse", "fuse(i, j, f)"),
    ("distribute", "distribute([m, n], [mo, no], [mi, ni])"),
    ("replicate", "replicate(mesh(z: 2))"),
    ("rotate", "rotate(ko, [mo, no])"),
    ("shard", "shard(A, m @ x, k @ y)"),
    ("communicate", "communicate(A, ko)"),
    ("pipeline", "pipeline(ko, 1)"),
    ("halo", "halo(A, 3)"),
    ("interior_first", "interior_first(A)"),
    ("reassociate", "reassociate(C)"),
    ("tensorize", "tensorize([mi, ni, ki])"),
    ("tensorize_as", "tensorize_as([mi, ni, ki], contraction)"),
    ("tensorize_with", "tensorize_with([mi, ni, ki], block_product)"),
    ("expect", "expect(A, shift(y, 1))"),
    ("expect_overlap", "expect_overlap(A, 0.8)"),
];

/// The patterns of inputs and outputs, as written.
const PATTERNS: [&str; 7] =
    ["local", "broadcast(x, y)", "shift(x, 1)", "permute", "all_gather(x)", "halo(x: -1..=1)", "exchange"];

/// Further patterns, of outputs only.
const SUMS: [&str; 3] = ["reduce(x)", "all_reduce(x)", "reduce_scatter(x)"];

/// Reads the arguments of `method` to the end.
pub(crate) fn parse(method: &Ident, input: ParseStream, form: Form) -> syn::Result<Written> {
    let Some((_, example)) = STEPS.iter().find(|step| *method == step.0) else {
        let steps = || STEPS.iter().map(|step| step.0);
        let help = format!("{}the steps are {}", did_you_mean(&method.to_string(), steps()), listed(steps()));
        return Err(error(method, format!("no schedule step `{method}`"), help).into());
    };
    let written = arguments(method, input, form).and_then(|written| {
        end(input)?;
        Ok(written)
    });
    written.map_err(|misread| match misread {
        Misread::Said(error) => error,
        Misread::Syntax(error) => error_at(error.span(), &error, format!("write `.{example}`")),
    })
}

/// The arguments, up to an optional comma after the last; the name is one of the table.
fn arguments(method: &Ident, input: ParseStream, form: Form) -> Result<Written> {
    Ok(Written::Whole(match method.to_string().as_str() {
        "split" => {
            let [i, outer, inner] = [first(input)?, first(input)?, first(input)?];
            Step::Split { i, outer, inner, size: size(input, form)? }
        }
        "divide" => {
            let [i, outer, inner] = [first(input)?, first(input)?, first(input)?];
            Step::Divide { i, outer, inner, parts: size(input, form)? }
        }
        "fuse" => Step::Fuse { i: first(input)?, j: first(input)?, fused: ident(input)? },
        "distribute" => return distribute(input, form),
        "replicate" => Step::Replicate { mesh: last_mesh(input, form)? },
        "rotate" => Step::Rotate { t: first(input)?, by: list(input)? },
        "shard" => Step::Shard { tensor: ident(input)?, clauses: rest(input, |input| clause(input, form))? },
        "communicate" => Step::Communicate { tensor: first(input)?, at: ident(input)? },
        "pipeline" => Step::Pipeline { t: first(input)?, depth: size(input, form)? },
        "halo" => Step::Halo { tensor: first(input)?, steps: size(input, form)? },
        "interior_first" => Step::InteriorFirst { tensor: ident(input)? },
        "reassociate" => Step::Reassociate { tensor: ident(input)? },
        "tensorize" => Step::Tensorize { loops: list(input)?, kind: None },
        "tensorize_as" => {
            let loops = list(input)?;
            comma(input)?;
            Step::Tensorize { loops, kind: Some(leaf_kind(input)?) }
        }
        "tensorize_with" => {
            let loops = list(input)?;
            comma(input)?;
            Step::Tensorize { loops, kind: Some(LeafKind::Named(ident(input)?)) }
        }
        "expect" => {
            let (tensor, leg) = (first(input)?, pattern(input, form)?);
            let others = rest(input, |input| pattern(input, form))?;
            Step::Expect { tensor, pattern: others.into_iter().fold(leg, Pattern::then) }
        }
        "expect_overlap" => Step::ExpectOverlap { tensor: first(input)?, share: share(input)? },
        // The last step of the table.
        _ => Step::Reorder { order: list(input)? },
    }))
}

/// `[m, n], [mo, no], [mi, ni]`, and the mesh, which may be before the chain instead.
fn distribute(input: ParseStream, form: Form) -> Result<Written> {
    let loops = list(input)?;
    comma(input)?;
    let outer = list(input)?;
    comma(input)?;
    let inner = list(input)?;
    input.parse::<Option<Token![,]>>()?;
    if input.is_empty() {
        return Ok(Written::WithoutMesh(Box::new(|mesh| Step::Distribute { loops, outer, inner, mesh })));
    }
    Ok(Written::Whole(Step::Distribute { loops, outer, inner, mesh: last_mesh(input, form)? }))
}

/// `0.8`
fn share(input: ParseStream) -> Result<Share> {
    let literal: Lit = input.parse()?;
    let number = match &literal {
        Lit::Float(number) => number.base10_parse(),
        Lit::Int(number) => number.base10_parse(),
        other => Err(syn::Error::new_spanned(other, "expected a number")),
    };
    Ok(Share::new(number?))
}

/// The mesh of a step, as its last argument.
fn last_mesh(input: ParseStream, form: Form) -> Result<Mesh> {
    let word: Ident = input.parse()?;
    if word != "mesh" {
        return Err(error(&word, format!("expected `mesh(..)`, found `{word}`"), "write the mesh as `mesh(z: 2)`"));
    }
    mesh(&inside(input)?, form)
}

fn leaf_kind(input: ParseStream) -> Result<LeafKind> {
    let word: Ident = input.parse()?;
    match word.to_string().as_str() {
        "contraction" => Ok(LeafKind::Contraction),
        "nest" => Ok(LeafKind::Nest),
        _ => Err(error(&word, format!("no leaf `{word}`"), "the leaves are `contraction` and `nest`")),
    }
}

/// A pattern as programs print it. In method syntax, `Pattern::broadcast(["x"])`, it has a list in its parentheses.
fn pattern(input: ParseStream, form: Form) -> Result<Pattern> {
    let word: Ident = input.parse()?;
    // Names separated by commas, or a list of them, as in method syntax.
    let axes = |input: ParseStream| Ok(if input.peek(Bracket) { list(input)? } else { names(input)? });
    let arguments = |input| enclosed(input, axes);
    match word.to_string().as_str() {
        "local" => Ok(Pattern::Local),
        "permute" => Ok(Pattern::Permute),
        "exchange" => Ok(Pattern::Exchange),
        "broadcast" => Ok(Pattern::Broadcast { axes: arguments(input)? }),
        "all_gather" => Ok(Pattern::AllGather { axes: arguments(input)? }),
        "all_to_all" => Ok(Pattern::AllToAll { axes: arguments(input)? }),
        "reduce" => Ok(Pattern::Reduce { axes: arguments(input)? }),
        "all_reduce" => Ok(Pattern::AllReduce { axes: arguments(input)? }),
        "reduce_scatter" => Ok(Pattern::ReduceScatter { axes: arguments(input)? }),
        "shift" => enclosed(input, |input| Ok(Pattern::Shift { axis: first(input)?, by: integer(input, form)? })),
        "halo" => {
            let content = inside(input)?;
            let mut reach = Vec::new();
            while !content.is_empty() {
                reach.push(offsets(&content, form)?);
                if !content.is_empty() {
                    comma(&content)?;
                }
            }
            Ok(Pattern::Halo { reach })
        }
        _ => {
            let names = PATTERNS.iter().chain(&SUMS).filter_map(|pattern| pattern.split('(').next());
            let meant = did_you_mean(&word.to_string(), names);
            let help = format!("{meant}the patterns are {}, and of outputs also {}", listed(PATTERNS), listed(SUMS));
            Err(error(&word, format!("no pattern `{word}`"), help))
        }
    }
}

/// `x: -1..=1`
fn offsets(input: ParseStream, form: Form) -> Result<Offsets> {
    let axis = ident(input)?;
    input.parse::<Token![:]>()?;
    let range: Expr = input.parse()?;
    match &range {
        Expr::Range(ExprRange { start: Some(low), limits: RangeLimits::Closed(_), end: Some(high), .. }) => {
            Ok(Offsets { axis, low: small(low, constant(low, form)?)?, high: small(high, constant(high, form)?)? })
        }
        _ => Err(error(&range, "expected a range of offsets", "write it as `x: -1..=1`")),
    }
}
