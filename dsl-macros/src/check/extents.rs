//! Index variables: each has one extent, from where it stands alone or from its range.
//!
//! Only extents that are numbers are compared here; `KernelSpec::check` compares the others when the
//! program runs.

use super::access::Site;
use crate::constant::evaluate;
use crate::errors::Errors;
use crate::syntax::Block;
use polyshard_layout::Name;
use syn::{Expr, Ident};

/// Checks the extents of tensors and of index variables; `sites` starts with the target, if it has one.
pub(crate) fn check(block: &Block, sites: &[&Site], ranges: &[(Ident, Expr)], errors: &mut Errors) {
    negative(block, ranges, errors);
    conflicts(block, sites, ranges, errors);
    unbound(block, sites, errors);
}

fn negative(block: &Block, ranges: &[(Ident, Expr)], errors: &mut Errors) {
    let of_tensors =
        super::tensors(block).flat_map(|tensor| tensor.extents.iter().map(|extent| (&tensor.name, extent)));
    for (name, extent) in of_tensors.chain(ranges.iter().map(|(var, extent)| (var, extent))) {
        if let Some(value) = evaluate(extent).filter(|&value| value < 0) {
            errors.push(extent, format!("`{name}` has the extent {value}"), "an extent is at least 0");
        }
    }
}

/// The later place is the one to blame, in the order ranges, inputs, output: an output is what follows.
fn conflicts(block: &Block, sites: &[&Site], ranges: &[(Ident, Expr)], errors: &mut Errors) {
    let mut known: Vec<(Name, i128, String)> = Vec::new();
    let mut reported: Vec<Name> = Vec::new();
    let mut learn = |var: &Ident, extent: &Expr, place: String| {
        let Some(value) = evaluate(extent).filter(|&value| value >= 0) else { return };
        let name = super::name(var);
        match known.iter().find(|other| other.0 == name) {
            Some((_, first, first_place)) if *first != value && !reported.contains(&name) => {
                let message = format!("index `{var}` has extent {value} in {place}, but {first} in {first_place}");
                errors.push(var, message, "let the extents agree, or use two indices");
                reported.push(name);
            }
            Some(_) => {}
            None => known.push((name, value, place)),
        }
    };
    for (var, extent) in ranges {
        learn(var, extent, format!("its range `for {var} in 0..{}`", quote::quote!(#extent)));
    }
    let output = |site: &&&Site| site.syntax.tensor == block.output.name;
    for site in sites.iter().filter(|site| !output(site)).chain(sites.iter().filter(output)) {
        let extents = site.tensor.map_or(&[][..], |tensor| &tensor.extents);
        for (index, extent) in site.syntax.indices.iter().zip(extents) {
            if let Expr::Path(path) = index
                && let Some(var) = path.path.get_ident()
            {
                learn(var, extent, format!("`{}`", site.access));
            }
        }
    }
}

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
            let read = sites.iter().skip(1).any(|site| site.vars.contains(var));
            // With the right number of indices it may be another one.
            if written && site.tensor.is_none() {
                continue;
            }
            if written && !read {
                let message =
                    format!("index `{var}` of output `{output}` appears in no input, so its extent is unknown");
                let help = format!("use it in an input access or give its range: `for {var} in 0..n`");
                errors.push(var, message, help);
            } else if !sites.iter().any(|site| may_bind(site, var)) {
                let message = format!("index `{var}` stands nowhere alone, so its extent is unknown");
                let help =
                    format!("give its range: `for {var} in 0..n`; a constant in an index is written as a number");
                errors.push(var, message, help);
            }
        }
    }
}

/// An access with a mistake may bind any of its variables once the mistake is corrected.
fn may_bind(site: &Site, var: &Ident) -> bool {
    let name = super::name(var);
    match site.tensor {
        None => site.vars.contains(var),
        Some(_) => site.access.index.iter().any(|index| index.as_variable() == Some(name)),
    }
}
