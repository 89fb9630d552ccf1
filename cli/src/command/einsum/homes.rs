//! `--shard`: the sharding of a tensor, as clauses of the step `shard`.
//!
//! Mistakes are shown in the option's text, including those that the search would find later.

use crate::error::{CliError, Result};
use polyshard::layout::{AxisExpr, Division, Mesh, Name, Placement, joined};
use polyshard::program::{Access, Kernel};
use polyshard::schedule::{Clause, Step};
use polyshard::text::Mistake;
use std::ops::Range;

/// The text before the tensor's name in the step that is parsed.
const STEP: &str = "shard(";

/// Reads `A=i.at(x), j.at(y)`, which is `shard(A, i.at(x), j.at(y))`.
pub(super) fn read(text: &str) -> Result<(Name, Vec<Clause>)> {
    let unreadable =
        || CliError::unreadable(format!("`--shard {text}`"), "a name and clauses, such as 'A=i.at(x), j.at(y)'");
    let (name, clauses) = text.split_once('=').ok_or_else(unreadable)?;
    // `,` replaces `=`, so that positions agree with the text.
    let step = format!("{STEP}{name},{clauses})");
    match step.parse::<Step>() {
        Ok(Step::Shard { tensor, clauses }) => Ok((tensor, clauses)),
        Ok(_) => Err(unreadable()),
        Err(error) => {
            // An unclosed bracket must not be blamed on the `(` that was added.
            let last = STEP.len() + text.len();
            let is_ours = error.mistakes.iter().any(|mistake| !(STEP.len()..last).contains(&mistake.at.start));
            match text.parse::<Step>().err().filter(|_| is_ours) {
                Some(error) => Err(CliError::mistaken("--shard", text, error, |at| at)),
                None => Err(CliError::mistaken("--shard", text, error, |at| at.saturating_sub(STEP.len()))),
            }
        }
    }
}

/// Checks that no axis has the name of an index: steps could not distinguish them.
pub(super) fn check_axes(kernel: &Kernel, mesh: &Mesh) -> Result<()> {
    let mut axes = mesh.as_slice().iter().map(|axis| axis.name);
    let Some(axis) = axes.find(|axis| kernel.vars().iter().any(|var| var.name == *axis)) else { return Ok(()) };
    let what = format!("axis `{axis}` of `--mesh` has the name of an index of `{}`", kernel.statement());
    Err(CliError::refused(what, "give the axis another name"))
}

/// Checks the clauses against the kernel and the mesh, and that a result that will be written is not left in partial sums.
pub(super) fn check(text: &str, kernel: &Kernel, mesh: &Mesh, writes: bool) -> Result<()> {
    let (tensor, clauses) = read(text)?;
    let places = places(text);
    // `nth` is the position of the name among the names in the text.
    let wrong = |(nth, name): (usize, Name), message: String, help: String| {
        let place = places.get(nth).filter(|place| text[(*place).clone()] == *name.as_str());
        let mistakes = vec![Mistake::new(text, place.cloned().unwrap_or(0..text.len()), message, Some(help))];
        Err(CliError::Mistakes { path: "--shard".into(), text: text.to_owned(), mistakes })
    };
    if kernel.tensors().all(|other| other.name != tensor) {
        let help = format!("the tensors are {}", joined(kernel.tensors().map(|tensor| tensor.name), ", "));
        return wrong((0, tensor), format!("no tensor `{tensor}`"), help);
    }
    let mut before: Vec<(Name, &Clause)> = Vec::new();
    let mut next = 1;
    for (nth, clause) in clauses.iter().enumerate() {
        if let Placement::Divided { dim, .. } = clause {
            let index = Name::new(&dim.to_string());
            let is_same = |other: &&Clause| matches!(other, Placement::Divided { dim: other, .. } if other == dim);
            if let Some(other) = clauses[..nth].iter().find(is_same) {
                let message = format!("`{other}` and `{clause}` both place the dimension `{dim}`");
                let help = format!("write one list of axes, `{dim} @ [x, y]`, or blocks of blocks, `{dim} @ x @ y`");
                return wrong((next, index), message, help);
            }
            // Dimensions by number are not identifiers.
            if index.is_identifier() {
                let accesses = kernel.accesses_of(tensor);
                let is_there = |access: &&Access| access.index.iter().any(|of| of.as_variable() == Some(index));
                if !accesses.iter().any(is_there) {
                    let accesses = joined(accesses.iter().map(|access| format!("`{access}`")), " and ");
                    let message = format!("no dimension of `{tensor}` is indexed by `{index}` alone");
                    let help = format!("it is {accesses}; a dimension can be named by number, `dim(0) @ x`");
                    return wrong((next, index), message, help);
                }
                next += 1;
            }
        }
        for (axis, is_plain) in axes(clause) {
            let named = (next, axis);
            next += 1;
            if writes && tensor == kernel.output().name && matches!(clause, Placement::Partial { .. }) {
                let message = format!("`{clause}` leaves `{tensor}` in partial sums, but `--out` writes it");
                return wrong(
                    named,
                    message,
                    "leave the clause out, so that the sums are added up, or give `--dry-run`".into(),
                );
            }
            if mesh.position(axis).is_none() {
                let there = joined(mesh.as_slice().iter().map(|axis| axis.name), ", ");
                return wrong(named, format!("no axis `{axis}`"), format!("the axes are {there}"));
            }
            // The search checks expressions of several axes.
            if !is_plain {
                continue;
            }
            if let Some((_, other)) = before.iter().find(|(other, _)| *other == axis) {
                let message = if std::ptr::eq(*other, clause) {
                    format!("`{clause}` uses the axis `{axis}` twice")
                } else {
                    format!("`{other}` and `{clause}` both use the axis `{axis}`, so that some elements have no owner")
                };
                return wrong(named, message, "use each axis once, or skew the second, `(x + y) % parts`".into());
            }
            before.push((axis, clause));
        }
    }
    Ok(())
}

/// The axes that a clause names, in the order of its text, and whether each stands alone.
fn axes(clause: &Clause) -> Vec<(Name, bool)> {
    match clause {
        Placement::Pin { axis, .. } | Placement::Partial { axis } => vec![(*axis, true)],
        Placement::Divided { levels, .. } => {
            let mut found = Vec::new();
            for level in levels {
                let (Division::Block { at } | Division::Cyclic { at, .. }) = level;
                let is_plain = matches!(at, AxisExpr::Axis(_) | AxisExpr::List(_));
                names(at, &mut |name| found.push((name, is_plain)));
            }
            found
        }
    }
}

/// Visits the axes of an expression, in the order of its text.
fn names(at: &AxisExpr, visit: &mut impl FnMut(Name)) {
    match at {
        AxisExpr::Const(_) => {}
        AxisExpr::Axis(name) => visit(*name),
        AxisExpr::List(list) => list.iter().for_each(|name| visit(*name)),
        AxisExpr::Add(left, right) | AxisExpr::Sub(left, right) => {
            names(left, visit);
            names(right, visit);
        }
        AxisExpr::Mul(inner, _) | AxisExpr::Mod(inner, _) => names(inner, visit),
    }
}

/// The positions of the names in a text. Words in front of parentheses are keywords: `dim`, `at`, `cyclic`, `pin`, `partial`.
fn places(text: &str) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(begin) = text[at..].find(Name::is_part).map(|begin| at + begin) {
        at = text[begin..].find(|letter| !Name::is_part(letter)).map_or(text.len(), |len| begin + len);
        let is_number = text[begin..].starts_with(|letter: char| letter.is_numeric());
        if !is_number && !text[at..].trim_start().starts_with('(') {
            found.push(begin..at);
        }
    }
    found
}
