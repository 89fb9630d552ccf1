//! `--shard`: where a tensor lies, as a clause of `shard` has it, and what in it cannot be.
//!
//! Mistakes are shown where they stand in what was written, those that the search would find too.

use crate::error::{CliError, Result};
use polyshard::{Access, AxisExpr, Clause, Division, Kernel, Mesh, Mistake, Name, Placement, Step};
use std::ops::Range;

/// What stands in front of the tensor's name in the step that is read.
const STEP: &str = "shard(";

/// Reads `A=i.at(x), j.at(y)`, which is `shard(A, i.at(x), j.at(y))`.
///
/// # Errors
/// What cannot be read, where it stands.
pub(super) fn read(text: &str) -> Result<(Name, Vec<Clause>)> {
    let unreadable =
        || CliError::unreadable(format!("`--shard {text}`"), "a name and clauses, such as 'A=i.at(x), j.at(y)'");
    let (name, clauses) = text.split_once('=').ok_or_else(unreadable)?;
    // Of the same length, so that places are those of the text.
    let step = format!("{STEP}{name},{clauses})");
    match step.parse::<Step>() {
        Ok(Step::Shard { tensor, clauses }) => Ok((tensor, clauses)),
        Ok(_) => Err(unreadable()),
        Err(error) => {
            // Where a bracket lacks its partner, it is not the one in front that was left open.
            let last = STEP.len() + text.len();
            let is_ours = error.mistakes.iter().any(|mistake| !(STEP.len()..last).contains(&mistake.at.start));
            match text.parse::<Step>().err().filter(|_| is_ours) {
                Some(error) => Err(CliError::mistaken("--shard", text, error, |at| at)),
                None => Err(CliError::mistaken("--shard", text, error, |at| at.saturating_sub(STEP.len()))),
            }
        }
    }
}

/// Checks what was read against the kernel and the mesh.
///
/// # Errors
/// A tensor or an axis that there is not, or two clauses that contradict each other.
pub(super) fn check(text: &str, kernel: &Kernel, mesh: &Mesh) -> Result<()> {
    let (tensor, clauses) = read(text)?;
    let wrong = |name: Name, nth: usize, message: String, help: String| {
        let mistakes = vec![Mistake::new(text, place(text, name, nth), message, Some(help))];
        Err(CliError::Mistakes { path: "--shard".into(), text: text.to_owned(), mistakes })
    };
    if kernel.tensors().all(|other| other.name != tensor) {
        let tensors: Vec<_> = kernel.tensors().map(|tensor| tensor.name.to_string()).collect();
        return wrong(tensor, 0, format!("no tensor `{tensor}`"), format!("the tensors are {}", tensors.join(", ")));
    }
    let mut before: Vec<(Name, &Clause)> = Vec::new();
    for (nth, clause) in clauses.iter().enumerate() {
        if let Placement::Divided { dim, .. } = clause {
            let is_same = |other: &&Clause| matches!(other, Placement::Divided { dim: other, .. } if other == dim);
            if let Some(other) = clauses[..nth].iter().find(is_same) {
                let message = format!("`{other}` and `{clause}` both place the dimension `{dim}`");
                let help = format!("give its axes as one list, `{dim}.at([x, y])`, or as levels, `{dim}.at(x).at(y)`");
                return wrong(Name::new(&dim.to_string()), 1, message, help);
            }
        }
        if let Placement::Divided { dim, .. } = clause {
            let (index, accesses) = (Name::new(&dim.to_string()), kernel.accesses_of(tensor));
            let is_there = |access: &&Access| access.index.iter().any(|of| of.as_variable() == Some(index));
            // Those by number are no identifiers.
            if index.is_identifier() && !accesses.iter().any(is_there) {
                let accesses: Vec<_> = accesses.iter().map(|access| format!("`{access}`")).collect();
                let message = format!("no dimension of `{tensor}` is indexed by `{index}` alone");
                let help = format!("it is {}; dimensions have numbers too, `dim(0).at(x)`", accesses.join(" and "));
                return wrong(index, 0, message, help);
            }
        }
        for axis in axes(clause) {
            if mesh.position(axis).is_none() {
                let there: Vec<_> =
                    mesh.names(&(0..mesh.ndim()).collect::<Vec<_>>()).iter().map(Name::to_string).collect();
                return wrong(axis, 0, format!("no axis `{axis}`"), format!("the axes are {}", there.join(", ")));
            }
            if let Some((_, other)) = before.iter().find(|(other, _)| *other == axis) {
                let message = match std::ptr::eq(*other, clause) {
                    true => format!("`{clause}` uses the axis `{axis}` twice"),
                    false => {
                        format!(
                            "`{other}` and `{clause}` both use the axis `{axis}`, so that some elements have no owner"
                        )
                    }
                };
                return wrong(axis, 1, message, "use each axis once, or skew the second, `(x + y) % parts`".into());
            }
            before.push((axis, clause));
        }
    }
    Ok(())
}

/// The axes that a clause uses as they are; what is computed of several is left to the search.
fn axes(clause: &Clause) -> Vec<Name> {
    match clause {
        Placement::Pin { axis, .. } | Placement::Partial { axis } => vec![*axis],
        Placement::Divided { levels, .. } => {
            let plain = levels.iter().flat_map(|level| match level {
                Division::Block { at: AxisExpr::Axis(axis) } | Division::Cyclic { at: AxisExpr::Axis(axis), .. } => {
                    vec![*axis]
                }
                Division::Block { at: AxisExpr::List(axes) } | Division::Cyclic { at: AxisExpr::List(axes), .. } => {
                    axes.clone()
                }
                _ => Vec::new(),
            });
            plain.collect()
        }
    }
}

/// Where a name stands in a text as a word of its own, the first time or a later one, or all of the text where it does not.
fn place(text: &str, name: Name, nth: usize) -> Range<usize> {
    let name = name.as_str();
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let is_alone = |at: &usize| {
        let after = &text[at + name.len()..];
        let is_call = name == "at" && after.starts_with('(');
        !(is_call || text[..*at].ends_with(is_part) || after.starts_with(is_part))
    };
    let found = text.match_indices(name).map(|(at, _)| at).filter(is_alone).nth(nth);
    found.map_or(0..text.len(), |at| at..at + name.len())
}
