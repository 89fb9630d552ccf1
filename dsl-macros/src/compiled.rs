//! The compiled form: the schedule is lowered, with isl, while the user's crate is built.
//!
//! The lowered program is emitted as Rust and becomes a module. A step that cannot be applied is an error on
//! its method, with the message of `polyhedral`; this file has no rules of its own.

use crate::expand;
use polyshard_codegen::{SourceOptions, rust_source, scalar_parameters};
use polyshard_dsl::errors::{error, reported};
use polyshard_dsl::{Chain, ChainStep, Checked};
use polyshard_polyhedral::{LowerError, Schedule};
use polyshard_program::Program;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Ident, Result};

/// Returns the module of a scheduled kernel.
pub(crate) fn module(kernel: &Checked, chain: &Chain) -> Result<TokenStream> {
    let program = lower(kernel, chain)?;
    let source = rust_source(&program, &SourceOptions { runtime: "::polyshard::runtime".into() });
    let items: TokenStream = source.parse().map_err(|wrong| {
        let message = format!("the emitted source is not Rust: {wrong}");
        error(&kernel.name, message, "this is a bug in Polyshard, please report it")
    })?;
    let (docs, vis, name) = (docs(kernel, &program), &kernel.vis, &kernel.name);
    let mesh = program.mesh().as_slice().iter().map(|axis| {
        let (name, extent) = (axis.name.as_str(), axis.extent);
        quote!((#name, #extent))
    });
    let schedule = schedule(kernel, chain, &scalar_parameters(&program));
    // Clippy reads layout from spans, and emitted code has one span for everything.
    Ok(quote! {
        #docs
        #[allow(clippy::all, clippy::pedantic, clippy::nursery, reason = "this code is emitted")]
        #vis mod #name {
            /// The mesh that the kernel was compiled for: each axis with its extent.
            pub const MESH: &[(&str, usize)] = &[#(#mesh),*];

            /// The kernel as it was emitted: the source of `run` and `run_into`.
            pub const SOURCE: &str = #source;

            #schedule

            #items
        }
    })
}

fn lower(kernel: &Checked, chain: &Chain) -> Result<Program> {
    let steps = chain.calls.iter().map(|call| call.step.clone());
    let schedule = steps.fold(Schedule::from_spec(kernel.spec()?), Schedule::apply);
    schedule.lower().map_err(|wrong| at_the_step(&wrong, kernel, chain))
}

fn at_the_step(wrong: &LowerError, kernel: &Checked, chain: &Chain) -> syn::Error {
    let call = wrong.step().and_then(|number| chain.calls.get(number.checked_sub(1)?));
    let at = call.map_or(&kernel.name, |call| &call.method);
    reported(at, wrong.message(), wrong.help())
}

/// The user's documentation, or a default, for crates that require documentation.
fn docs(kernel: &Checked, program: &Program) -> TokenStream {
    let written = &kernel.docs;
    if !written.is_empty() {
        return quote!(#(#written)*);
    }
    let text = format!("`{}` on a mesh of `{}`.", program.kernel().statement(), program.mesh());
    quote!(#[doc = #text])
}

/// The function that builds the schedule, whose parameters have the names of those of `run`.
fn schedule(kernel: &Checked, chain: &Chain, parameters: &[String]) -> TokenStream {
    let named = kernel.scalars.iter().zip(parameters);
    let parameters: Vec<_> = named.map(|(scalar, name)| Ident::new(name, scalar.span())).collect();
    let start = expand::schedule_with(kernel, &parameters);
    let element = &kernel.element.written;
    let scalars = parameters.iter().map(|parameter| quote!(#parameter: #element));
    let steps = chain.calls.iter().map(|ChainStep { method, step }| {
        let text = step.to_string();
        let apply = Ident::new("apply", Span::call_site().located_at(method.span()));
        // The schedule's errors name the location of each step: that of its method.
        quote_spanned!(apply.span()=> .#apply(::polyshard::__private::step(#text)))
    });
    quote! {
        /// Returns the schedule that the kernel was compiled from.
        #[must_use]
        pub fn schedule(#(#scalars),*) -> ::polyshard::schedule::Schedule {
            #start #(#steps)*
        }
    }
}

#[cfg(test)]
mod tests;
