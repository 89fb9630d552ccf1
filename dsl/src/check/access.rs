//! Accesses: of which tensor, with how many indices, written or read.
//!
//! The output is written and never read: `+=` and its like update its value, and there is no other order between the instances of a
//! statement. An access with a mistake stays in the list, without its tensor, so that its indices still count as used.

use super::index;
use crate::errors::{Errors, listed};
use crate::syntax::{Block, Tensor};
use crate::value;
use polyshard_layout::{are, counted, did_you_mean};
use polyshard_program::{Access, Affine};
use quote::ToTokens;
use syn::Ident;

/// One access with its tensor, affine form and identifiers.
pub(crate) struct Site<'a> {
    pub(crate) syntax: &'a value::Access,
    /// The tensor; `None` if a mistake in the access makes its extents meaningless.
    pub(crate) tensor: Option<&'a Tensor>,
    /// The access; an index that is not affine counts as 0.
    pub(crate) access: Access,
    /// The identifiers of its indices, as they appear.
    pub(crate) vars: Vec<Ident>,
}

impl Site<'_> {
    /// Whether all indices are inside the tensor, so that its extents bound them.
    pub(crate) fn stays_inside(&self) -> bool {
        self.syntax.outside.is_none()
    }
}

/// Returns the access on the left, if it is to the output.
pub(crate) fn target<'a>(block: &'a Block, errors: &mut Errors) -> Option<Site<'a>> {
    let (target, output) = (&block.statement.target, &block.output);
    if target.tensor == output.name {
        return Some(site(target, Some(output), errors));
    }
    let wrong = &target.tensor;
    let message = match block.inputs.iter().any(|input| input.name == *wrong) {
        true => format!("the statement writes the input `{wrong}`"),
        false => format!("the statement writes `{wrong}`, which is not the output"),
    };
    errors.push(wrong, message, format!("the output is `{0}`: write `{0}[..]` on the left", output.name));
    None
}

/// Returns the accesses that are read, left to right.
pub(crate) fn inputs<'a>(block: &'a Block, errors: &mut Errors) -> Vec<Site<'a>> {
    let mut sites = Vec::new();
    for access in block.statement.value.accesses() {
        let name = &access.tensor;
        let tensor = block.inputs.iter().find(|input| input.name == *name);
        if tensor.is_none() && block.output.name == *name {
            let help = "use `+=`, `*=`, `max=` or `min=` to update it";
            errors.push(access, format!("the output `{name}` is read on the right"), help);
        } else if tensor.is_none() {
            let tensors = listed(block.inputs.iter().map(|input| &input.name));
            let help = match block.inputs.is_empty() {
                true => format!("declare it: `fn {}({name}: [..])`", block.name),
                false => {
                    let names: Vec<_> = block.inputs.iter().map(|input| input.name.to_string()).collect();
                    let meant = did_you_mean(&name.to_string(), names.iter().map(String::as_str));
                    format!("{meant}the inputs are {tensors}")
                }
            };
            errors.push(name, format!("no tensor `{name}`"), help);
        }
        sites.push(site(access, tensor, errors));
    }
    sites
}

/// Analyses an access, with an error for each index that is not affine.
fn site<'a>(syntax: &'a value::Access, tensor: Option<&'a Tensor>, errors: &mut Errors) -> Site<'a> {
    let counted = tensor.filter(|tensor| right_count(syntax, tensor, errors));
    let mut vars = Vec::new();
    let mut affine = Vec::new();
    for index in &syntax.indices {
        affine.push(errors.take(index::affine(index)).unwrap_or_else(|| Affine::new([], 0)));
        vars.extend(index::identifiers(index));
    }
    Site { syntax, tensor: counted, access: Access::new(crate::name::name(&syntax.tensor), affine), vars }
}

fn right_count(access: &value::Access, tensor: &Tensor, errors: &mut Errors) -> bool {
    let (ndim, given) = (tensor.extents.len(), access.indices.len());
    if ndim == given {
        return true;
    }
    let dimensions = counted(ndim, "dimension");
    let help = match ndim {
        0 => format!("write `{}[]`", tensor.name),
        _ => format!("`{}` is declared as `{}`: write {}", tensor.name, tensor.declared(), counted(ndim, "index")),
    };
    let indices = counted(given, "index");
    let message = format!("`{}` has {dimensions}, but {indices} {} given", tensor.name, are(given));
    errors.push(access.to_token_stream(), message, help);
    false
}
