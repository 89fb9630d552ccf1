//! Index variables: each has one range, which is stated or follows from an access in which the index stands alone.
//!
//! ```text
//! C[i, j] = A[i, k] * B[k, j]           i, j and k stand alone somewhere
//! B[i] = A[i + r] for r in 0..3         r does not, and needs a range
//! ```
//!
//! Only extents that are numbers are compared here; `KernelSpec::check` compares the others when the
//! program runs.

use super::access::Site;
use super::index;
use crate::checked::Bounds;
use crate::constant::evaluate;
use crate::errors::Errors;
use crate::syntax::Block;
use polyshard_layout::Name;
use polyshard_program::Affine;
use syn::Ident;

/// Checks the extents of tensors and of index variables; `sites` starts with the target, if it has one.
pub(crate) fn check(block: &Block, sites: &[&Site], ranges: &[Bounds], errors: &mut Errors) {
    negative(block, ranges, errors);
    conflicts(block, sites, errors);
    unbound(block, sites, errors);
}

/// Extents below 0, and ranges that end before they start.
fn negative(block: &Block, ranges: &[Bounds], errors: &mut Errors) {
    let of_tensors =
        super::tensors(block).flat_map(|tensor| tensor.extents.iter().map(|extent| (&tensor.name, extent)));
    for (name, extent) in of_tensors {
        if let Some(value) = evaluate(extent).filter(|&value| value < 0) {
            errors.push(extent, format!("`{name}` has the extent {value}"), "an extent is at least 0");
        }
    }
    for range in ranges {
        if let (Some(start), Some(end)) = (evaluate(&range.start), evaluate(&range.end))
            && end < start
        {
            let message = format!("the range of `{}` ends before it starts: {start}..{end}", range.var);
            errors.push(&range.end, message, format!("an empty range is `{start}..{start}`"));
        }
    }
}

/// Reports indices with two extents at the later place, the output last, since its extents follow from the inputs. A stated range
/// may differ from the extents, as long as accesses stay inside.
fn conflicts(block: &Block, sites: &[&Site], errors: &mut Errors) {
    let mut known: Vec<(Name, i128, String)> = Vec::new();
    let mut reported: Vec<Name> = Vec::new();
    let stated = |var: &Ident| block.ranges.iter().any(|range| range.var == *var);
    let output = |site: &&&Site| site.syntax.tensor == block.output.name;
    for site in sites.iter().filter(|site| !output(site)).chain(sites.iter().filter(output)) {
        let extents = site.tensor.map_or(&[][..], |tensor| &tensor.extents);
        for (index, extent) in site.syntax.indices.iter().zip(extents).filter(|_| site.stays_inside()) {
            let Some(var) = index::alone(index).filter(|var| !stated(var)) else { continue };
            let Some(value) = evaluate(extent).filter(|&value| value >= 0) else { continue };
            let name = crate::name::name(var);
            match known.iter().find(|other| other.0 == name) {
                Some((_, first, place)) if *first != value && !reported.contains(&name) => {
                    let access = &site.access;
                    let message = format!("index `{var}` has extent {value} in `{access}`, but {first} in {place}");
                    let help = match fitting(name, sites) {
                        Some(range) => {
                            format!("let the extents agree, use two indices, or state the range that fits: {range}")
                        }
                        None => "let the extents agree, or use two indices".into(),
                    };
                    errors.push(var, message, help);
                    reported.push(name);
                }
                Some(_) => {}
                None => known.push((name, value, format!("`{}`", site.access))),
            }
        }
    }
}

/// The range of `var` that keeps its accesses inside, if extents are numbers.
fn fitting(var: Name, sites: &[&Site]) -> Option<String> {
    let mut indices = Vec::new();
    for site in sites.iter().filter(|site| site.stays_inside()) {
        let extents = site.tensor.map_or(&[][..], |tensor| &tensor.extents);
        for (index, extent) in site.access.index.iter().zip(extents).filter(|(index, _)| index.coefficient(var) != 0) {
            indices.push((index, evaluate(extent)?));
        }
    }
    let range = Affine::fitting_range(var, indices)?;
    Some(format!("`for {var} in {}..{}`", range.start, range.end))
}

/// Reports each index that never stands alone and has no range, once, where it occurs first.
fn unbound(block: &Block, sites: &[&Site], errors: &mut Errors) {
    let output = &block.output.name;
    let mut seen: Vec<&Ident> = block.ranges.iter().map(|range| &range.var).collect();
    for (number, site) in sites.iter().enumerate() {
        for var in &site.vars {
            if seen.contains(&var) || super::tensors(block).any(|tensor| tensor.name == *var) {
                continue;
            }
            seen.push(var);
            let written = number == 0 && site.syntax.tensor == *output;
            let read = sites.iter().skip(1).any(|site| site.vars.contains(var))
                || block.statement.value.names().contains(&var);
            // With the right number of indices, the access may have another index here.
            if written && site.tensor.is_none() {
                continue;
            }
            if written && !read {
                let message =
                    format!("index `{var}` of output `{output}` appears in no input, so its extent is unknown");
                let help = format!("use it in an input access or give its range: `for {var} in 0..n`");
                errors.push(var, message, help);
            } else if !sites.iter().any(|site| may_bind(site, var)) {
                let message = format!("index `{var}` never appears alone, so its extent is unknown");
                let help = format!(
                    "give its range: `for {var} in 0..n`; a constant in an index is written as a number, and \
                     `A[(n - 1 - i) % n]` reads a dimension backwards"
                );
                errors.push(var, message, help);
            }
        }
    }
}

/// An access with a mistake may bind any of its variables once the mistake is corrected.
fn may_bind(site: &Site, var: &Ident) -> bool {
    let name = crate::name::name(var);
    match site.tensor {
        None => site.vars.contains(var),
        Some(_) => site.stays_inside() && site.access.index.iter().any(|index| index.as_variable() == Some(name)),
    }
}
