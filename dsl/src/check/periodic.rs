//! Periodic indices: `A[(i + 1) % n]`, whose modulus is a number or captured from the surrounding code.
//!
//! An index that wraps is always inside the tensor, so only its modulus is checked: it is at most the extent, if both are numbers, and
//! uses no index. The output must not be written at an index that wraps: the inputs can wrap the other way instead.

use super::access::Site;
use super::index::{identifiers, remainder};
use crate::constant::evaluate;
use crate::errors::Errors;
use crate::syntax::Block;
use polyshard_layout::Name;
use polyshard_program::Modulus;
use syn::Expr;

/// Checks the moduli, and returns those that are captured from the surroundings, each once.
pub(crate) fn check(block: &Block, sites: &[&Site], errors: &mut Errors) -> Vec<(Name, Expr)> {
    let mut captured: Vec<(Name, Expr)> = Vec::new();
    for site in sites {
        for (dim, (index, affine)) in site.syntax.indices.iter().zip(&site.access.index).enumerate() {
            let Some((_, modulus)) = remainder(index) else { continue };
            if site.syntax.tensor == block.output.name {
                let message = format!("the output `{}` is written at an index that wraps", block.output.name);
                errors.push(
                    index,
                    message,
                    "only indices of inputs may wrap; let the other side of the statement wrap",
                );
            }
            let extent = site.tensor.and_then(|tensor| evaluate(&tensor.extents[dim]));
            if let (Some(value), Some(extent)) = (evaluate(modulus), extent)
                && affine.modulus.is_some()
                && value > extent.max(0)
            {
                let tensor = &site.syntax.tensor;
                let message =
                    format!("the index wraps at {value}, but dimension {dim} of `{tensor}` has extent {extent}");
                errors.push(modulus, message, "a modulus is between 1 and the extent");
            }
            let mut names = identifiers(modulus).into_iter();
            if let Some(name) = names.find(|name| super::is_index(block, sites, name)) {
                let help = "a modulus is a number, or captured from the surroundings as extents are";
                errors.push(&name, format!("the modulus `{name}` is an index"), help);
            } else if let Some(Modulus::Captured(text)) = affine.modulus
                && !captured.iter().any(|modulus| modulus.0 == text)
            {
                captured.push((text, modulus.clone()));
            }
        }
    }
    captured
}

#[cfg(test)]
mod tests;
