//! A kernel from one statement: the arrays define the tensors' extents, and the output's indices define its extents.
//!
//! ```text
//! C[i, k] = A[i, j] * B[j, k]                                           with arrays of 4 x 6 and 6 x 5
//!   fn einsum(A: [f64; 4, 6], B: [f64; 6, 5]) -> C: [f64; 4, 5] {
//!   C[i, k] = A[i, j] * B[j, k]
//!   }
//! ```
//!
//! The statement is parsed like the contents of a kernel's braces, and checked in a kernel with these extents, so mistakes in it
//! are found by the same checks.

use super::{EinsumError, Operand, Result};
use crate::check::check;
use crate::check::index::alone;
use crate::form::Form;
use crate::spec;
use crate::syntax::{self, Block, Tensor};
use crate::text::{limited, placed, read};
use polyshard_layout::{DType, each_once, joined};
use polyshard_program::KernelSpec;
use proc_macro2::Literal;
use quote::{ToTokens, format_ident};
use syn::parse::Parser;
use syn::{Expr, Ident, Visibility, parse_quote};

/// The kernel of a statement over these arrays.
pub(super) fn kernel(text: &str, operands: &[Operand<'_>], dtype: DType, broadcasts: bool) -> Result<KernelSpec> {
    let is_statement = text.contains('[') && text.contains('=');
    let parsed = read(text, |tokens| is_statement.then(|| syntax::statement.parse2(limited(tokens)?)).transpose());
    let (statement, ranges) = parsed.map_err(EinsumError::Statement)?.ok_or(EinsumError::NoStatement)?;
    let (target, accesses) = (&statement.target, statement.value.accesses());
    let names = accesses.iter().map(|access| &access.tensor).filter(|name| **name != target.tensor);
    let names: Vec<Ident> = each_once(names).into_iter().cloned().collect();
    if names.len() != operands.len() {
        let names = joined(names.iter().map(|name| format!("`{name}`")), ", ");
        let names = if names.is_empty() { "no array".to_owned() } else { names };
        return Err(EinsumError::Tensors { names, arrays: operands.len() });
    }
    // The indices of all inputs, each with its extent.
    let mut dims: Vec<(&Expr, usize, &Operand<'_>)> = Vec::new();
    for access in accesses {
        let Some(operand) = names.iter().position(|name| *name == access.tensor).map(|at| &operands[at]) else {
            continue;
        };
        let (indices, ndim) = (access.indices.len(), operand.shape.len());
        if indices != ndim {
            let (term, operand) = (access.shown(), operand.to_string());
            return Err(EinsumError::Dimensions { term, indices, operand, ndim });
        }
        dims.extend(access.indices.iter().zip(operand.shape).map(|(index, &extent)| (index, extent, operand)));
    }
    let names_alone = || dims.iter().filter_map(|dim| Some((alone(dim.0)?, dim)));
    if broadcasts {
        // An index along extents of 1 that has another extent elsewhere becomes 0; the text after it keeps its place.
        let mut repeated = text.to_owned();
        let is_longer = |name: &Ident| names_alone().any(|(other, dim)| other == name && dim.1 != 1);
        for (name, _) in names_alone().filter(|(name, dim)| dim.1 == 1 && is_longer(name)) {
            let at = name.span().byte_range();
            repeated.replace_range(at.clone(), &format!("{:<len$}", 0, len = at.len()));
        }
        return kernel(&repeated, operands, dtype, false);
    }
    // The error on two extents of one index quotes the names of files. An index with its own range fits several extents.
    for (name, &(index, second, second_in)) in
        names_alone().filter(|(name, _)| ranges.iter().all(|own| own.var != **name))
    {
        if let Some(&(_, first, first_in)) = dims.iter().find(|dim| dim.0 == index).filter(|dim| dim.1 != second) {
            let [first_in, second_in] = [first_in, second_in].map(Operand::to_string);
            return Err(EinsumError::Extents { index: name.to_string(), first, first_in, second, second_in });
        }
    }
    let extent = |index: &Expr| {
        let found = dims.iter().find(|dim| dim.0 == index).map(|dim| dim.1);
        found.ok_or_else(|| EinsumError::NoExtent { index: index.to_token_stream().to_string() })
    };
    let shape = target.indices.iter().map(extent).collect::<Result<Vec<_>>>()?;
    let element = format_ident!("{}", dtype.name());
    let tensor = |(name, shape): (&Ident, &[usize])| {
        let extents = shape.iter().map(|&extent| Literal::usize_unsuffixed(extent)).map(|extent| parse_quote!(#extent));
        Tensor { name: name.clone(), element: parse_quote!(#element), extents: extents.collect() }
    };
    let inputs = names.iter().zip(operands.iter().map(|operand| operand.shape)).map(tensor).collect();
    let (docs, vis, name, output) =
        (Vec::new(), Visibility::Inherited, format_ident!("einsum"), tensor((&target.tensor, &shape)));
    let checked = check(Block { docs, vis, name, inputs, output, statement, ranges });
    placed(text, checked.and_then(|checked| spec::literal(&checked, Form::Text))).map_err(EinsumError::Statement)
}
