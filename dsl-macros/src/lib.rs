//! The macros of Polyshard: `kernel!`, a tensor statement in index notation, and `vars!`.
//!
//! ```text
//! tokens --polyshard-dsl--> Definition --expand----> an expression: the kernel as data
//!                                      --compiled--> a module: the scheduled kernel or block
//! ```
//!
//! `polyshard-dsl` knows the syntax of kernels and schedules. `polyhedral` decides what a schedule means and whether it is legal; the
//! compiled form calls it while the user's crate is built. The examples in the documentation of the macros are tested with `polyshard`, on
//! which this crate cannot depend without building it a second time, for the compiler.

mod compiled;
mod expand;
#[cfg(test)]
mod tests;
mod vars;

use polyshard_dsl::{Defined, Definition};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::quote;

#[cfg_attr(not(doctest), doc = include_str!("kernel.md"))]
#[proc_macro]
pub fn kernel(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = TokenStream::from(input);
    // A chain ends in its last step's parentheses, and nothing else shows whether the macro is an expression.
    let is_expression = matches!(
        input.clone().into_iter().last(),
        Some(TokenTree::Group(last)) if last.delimiter() == Delimiter::Brace
    );
    match expand_kernel(input) {
        Ok(tokens) => tokens.into(),
        Err(errors) if is_expression => in_expression(errors).into(),
        Err(errors) => errors.into_compile_error().into(),
    }
}

#[cfg_attr(not(doctest), doc = include_str!("vars.md"))]
#[proc_macro]
pub fn vars(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    vars::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

fn expand_kernel(input: TokenStream) -> syn::Result<TokenStream> {
    let Definition { of, chain } = syn::parse2(input)?;
    match (of, chain) {
        (Defined::Kernel(kernel), Some(chain)) => compiled::kernel(&kernel, &chain),
        (Defined::Block(block), Some(chain)) => compiled::block(&block, &chain),
        (Defined::Kernel(kernel), None) => Ok(expand::schedule(&kernel, &|scalar| scalar.clone())),
        (Defined::Block(block), None) => Ok(expand::block(&block, &|scalar| scalar.clone())),
    }
}

/// Combines several errors into an expression that ends in an error, so that its type does not cause another one.
fn in_expression(errors: syn::Error) -> TokenStream {
    let mut all: Vec<_> = errors.into_iter().map(syn::Error::into_compile_error).collect();
    let last = all.pop();
    quote!({ #(#all;)* #last })
}
