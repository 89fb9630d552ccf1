//! One step: its method's name and arguments.
//!
//! The table of examples below is the grammar as a user sees it: names that are not in it are unknown, and the error on a malformed step
//! quotes its line.

use super::Around;
use super::arguments::{
    comma, constant, enclosed, end, first, ident, inside, integer, list, mesh, names, rest, size, small,
};
use super::placement::clause;
use crate::errors::{error, error_at, listed, parts};
use crate::form::Form;
use crate::step::{Share, Step};
use polyshard_layout::{Mesh, did_you_mean};
use polyshard_program::{LeafKind, Offsets, Pattern};
use syn::parse::ParseStream;
use syn::token::Bracket;
use syn::{Expr, ExprRange, Ident, Lit, RangeLimits, Result, Token};

/// Reads the arguments of a step, up to an optional comma after the last.
type Arguments = fn(ParseStream, &mut Around<'_>) -> Result<Step>;

/// The steps with an example of each, which is the help for syntax errors in it, and their arguments.
const STEPS: [(&str, &str, Arguments); 22] = [
    ("split", "split(k, ko, ki, 64)", |input, around| {
        let [i, outer, inner] = [first(input)?, first(input)?, first(input)?];
        Ok(Step::Split { i, outer, inner, size: size(input, around.form)? })
    }),
    ("divide", "divide(k, ko, ki, 2)", |input, around| {
        let [i, outer, inner] = [first(input)?, first(input)?, first(input)?];
        Ok(Step::Divide { i, outer, inner, parts: size(input, around.form)? })
    }),
    ("reorder", "reorder([mo, no, ko, mi, ni, ki])", |input, _| Ok(Step::Reorder { order: list(input)? })),
    ("fuse", "fuse(i, j, f)", |input, _| Ok(Step::Fuse { i: first(input)?, j: first(input)?, fused: ident(input)? })),
    ("distribute", "distribute([m, n], [mo, no], [mi, ni])", distribute),
    ("replicate", "replicate(mesh(z: 2))", |input, around| {
        Ok(Step::Replicate { mesh: last_mesh(input, around.form)? })
    }),
    ("rotate", "rotate(ko, [mo, no])", |input, _| Ok(Step::Rotate { t: first(input)?, by: list(input)? })),
    ("shard", "shard(A, m @ x, k @ y)", |input, around| {
        Ok(Step::Shard { tensor: ident(input)?, clauses: rest(input, |input| clause(input, around.form))? })
    }),
    ("communicate", "communicate(A, ko)", |input, _| {
        Ok(Step::Communicate { tensor: first(input)?, at: ident(input)? })
    }),
    ("pipeline", "pipeline(ko, 1)", |input, around| {
        Ok(Step::Pipeline { t: first(input)?, depth: size(input, around.form)? })
    }),
    ("halo", "halo(A, 3)", |input, around| Ok(Step::Halo { tensor: first(input)?, steps: size(input, around.form)? })),
    ("interior_first", "interior_first(A)", |input, _| Ok(Step::InteriorFirst { tensor: ident(input)? })),
    ("reassociate", "reassociate(C)", |input, _| Ok(Step::Reassociate { tensor: ident(input)? })),
    ("tensorize", "tensorize([mi, ni, ki])", |input, _| Ok(Step::Tensorize { loops: list(input)?, kind: None })),
    ("tensorize_as", "tensorize_as([mi, ni, ki], contraction)", |input, _| {
        let loops = list(input)?;
        comma(input)?;
        Ok(Step::Tensorize { loops, kind: Some(leaf_kind(input)?) })
    }),
    ("tensorize_with", "tensorize_with([mi, ni, ki], block_product)", |input, _| {
        let loops = list(input)?;
        comma(input)?;
        Ok(Step::Tensorize { loops, kind: Some(LeafKind::Named(ident(input)?)) })
    }),
    ("expect", "expect(A, shift(y, 1))", |input, around| {
        let (tensor, leg) = (first(input)?, pattern(input, around.form)?);
        let others = rest(input, |input| pattern(input, around.form))?;
        Ok(Step::Expect { tensor, pattern: others.into_iter().fold(leg, Pattern::then) })
    }),
    ("expect_overlap", "expect_overlap(A, 0.8)", |input, _| {
        Ok(Step::ExpectOverlap { tensor: first(input)?, share: share(input)? })
    }),
    ("together", "together([S, A], jo)", |input, _| {
        let tensors = list(input)?;
        comma(input)?;
        Ok(Step::Together { tensors, at: ident(input)? })
    }),
    ("apart", "apart(Y)", |input, _| Ok(Step::Apart { tensor: ident(input)? })),
    ("of", "of(Y)", |input, _| Ok(Step::Of { tensor: ident(input)? })),
    ("of_all", "of_all()", |_, _| Ok(Step::OfAll)),
];

/// The patterns of inputs and outputs, as written.
const PATTERNS: [&str; 7] =
    ["local", "broadcast(x, y)", "shift(x, 1)", "permute", "all_gather(x)", "halo(x: -1..=1)", "exchange"];

/// Further patterns, of outputs only.
const SUMS: [&str; 3] = ["reduce(x)", "all_reduce(x)", "reduce_scatter(x)"];

/// Reads the arguments of `method` to the end.
pub(super) fn parse(method: &Ident, input: ParseStream, around: &mut Around<'_>) -> Result<Step> {
    let Some((_, example, arguments)) = STEPS.iter().find(|step| *method == step.0) else {
        let steps = || STEPS.iter().map(|step| step.0);
        let help = format!("{}the steps are {}", did_you_mean(&method.to_string(), steps()), listed(steps()));
        return Err(error(method, format!("no schedule step `{method}`"), help));
    };
    around.at = method.span();
    let step = arguments(input, around).and_then(|step| end(input).map(|()| step));
    step.map_err(|error| match parts(&error.to_string()) {
        (_, Some(_)) => error,
        (message, None) => error_at(error.span(), message, format!("write `.{example}`")),
    })
}

/// `[m, n], [mo, no], [mi, ni]`, and the mesh, which may be before the chain instead.
fn distribute(input: ParseStream, around: &mut Around<'_>) -> Result<Step> {
    let loops = list(input)?;
    comma(input)?;
    let outer = list(input)?;
    comma(input)?;
    let inner = list(input)?;
    input.parse::<Option<Token![,]>>()?;
    let own = if input.is_empty() { None } else { Some(last_mesh(input, around.form)?) };
    Ok(Step::Distribute { loops, outer, inner, mesh: around.mesh(own)? })
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
