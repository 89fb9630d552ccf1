//! The compiled form: the schedule of a kernel or a block is lowered, with isl, while the user's crate is built.
//!
//! The lowered program is emitted as Rust and becomes a module. A step that cannot be applied is an error on
//! its method, with the message of `polyhedral`; this file has no rules of its own.

use crate::expand;
use polyshard_codegen::{SourceOptions, rust_source, scalar_parameters};
use polyshard_dsl::errors::{error, reported};
use polyshard_dsl::{Chain, ChainStep, Checked, CheckedBlock};
use polyshard_layout::Name;
use polyshard_polyhedral::{Schedule, Subject};
use polyshard_program::Program;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Attribute, Ident, Result, Type, Visibility};

/// Returns the module of a scheduled kernel.
pub(crate) fn kernel(kernel: &Checked, chain: &Chain) -> Result<TokenStream> {
    let program = lower(Schedule::from_spec(kernel.spec()?), chain, &kernel.name)?;
    let text = format!("`{}` on a mesh of `{}`.", program.kernel().statement(), program.mesh());
    let compiled = Compiled {
        of: (&kernel.docs, &kernel.vis, &kernel.name),
        text,
        scalars: kernel.scalars.iter().map(|scalar| (scalar, &kernel.element.written)).collect(),
        subject: quote!(::polyshard::schedule::Schedule),
        start: &|variable| expand::schedule(kernel, variable),
    };
    compiled.module(&program, chain)
}

/// Returns the module of a scheduled block.
pub(crate) fn block(block: &CheckedBlock, chain: &Chain) -> Result<TokenStream> {
    let program = lower(Schedule::from_block(block.spec()?), chain, &block.name)?;
    let text = format!("`{}` on a mesh of `{}`.", block.name, program.mesh());
    let all = block.kernels.iter().map(|part| &part.kernel);
    let scalars = all.flat_map(|kernel| kernel.scalars.iter().map(|scalar| (scalar, &kernel.element.written)));
    let compiled = Compiled {
        of: (&block.docs, &block.vis, &block.name),
        text,
        scalars: scalars.collect(),
        subject: quote!(::polyshard::schedule::Schedule<::polyshard::schedule::Block>),
        start: &|variable| expand::block(block, variable),
    };
    compiled.module(&program, chain)
}

fn lower<S: Subject>(start: Schedule<S>, chain: &Chain, name: &Ident) -> Result<Program> {
    let schedule = chain.calls.iter().map(|call| call.step.clone()).fold(start, Schedule::apply);
    schedule.lower().map_err(|wrong| {
        let call = wrong.step().and_then(|number| chain.calls.get(number.checked_sub(1)?));
        let at = call.map_or(name, |call| &call.method);
        reported(at, wrong.message(), wrong.help())
    })
}

/// A kernel or block that has been lowered.
struct Compiled<'a> {
    of: (&'a [Attribute], &'a Visibility, &'a Ident),
    /// Its documentation if it has none, for crates that require it.
    text: String,
    /// The captured scalars, each with its type.
    scalars: Vec<(&'a Ident, &'a Type)>,
    /// The type of its schedule.
    subject: TokenStream,
    /// The schedule without steps, with the values of captured scalars in these variables.
    start: &'a dyn Fn(expand::Variable<'_>) -> TokenStream,
}

impl Compiled<'_> {
    fn module(&self, program: &Program, chain: &Chain) -> Result<TokenStream> {
        let (docs, vis, name) = self.of;
        let source = rust_source(program, &SourceOptions { runtime: "::polyshard::runtime".into() });
        let items: TokenStream = source.parse().map_err(|wrong| {
            let message = format!("the emitted source is not Rust: {wrong}");
            error(name, message, "this is a bug in Polyshard, please report it")
        })?;
        let text = &self.text;
        let docs = if docs.is_empty() { quote!(#[doc = #text]) } else { quote!(#(#docs)*) };
        let mesh = program.mesh().as_slice().iter().map(|axis| {
            let (name, extent) = (axis.name.as_str(), axis.extent);
            quote!((#name, #extent))
        });
        let schedule = self.schedule(chain, &scalar_parameters(program));
        // Clippy reads layout from spans, and emitted code has one span for everything.
        Ok(quote! {
            #docs
            #[allow(clippy::all, clippy::pedantic, clippy::nursery, reason = "this code is emitted")]
            #vis mod #name {
                /// The mesh that it was compiled for: each axis with its extent.
                pub const MESH: &[(&str, usize)] = &[#(#mesh),*];

                /// The emitted Rust, as text.
                pub const SOURCE: &str = #source;

                #schedule

                #items
            }
        })
    }

    /// The function that builds the schedule, whose parameters have the names of those of `run`.
    fn schedule(&self, chain: &Chain, parameters: &[(Name, String)]) -> TokenStream {
        let captured = |scalar: Name| self.scalars.iter().find(|(ident, _)| polyshard_dsl::name(ident) == scalar);
        let parameters = parameters.iter().filter_map(|(scalar, parameter)| {
            let (ident, element) = captured(*scalar)?;
            Some((*scalar, Ident::new(parameter, ident.span()), element))
        });
        let parameters: Vec<_> = parameters.collect();
        let start = (self.start)(&|scalar| {
            let parameter = parameters.iter().find(|(name, ..)| polyshard_dsl::name(scalar) == *name);
            parameter.map_or_else(|| scalar.clone(), |(_, parameter, _)| parameter.clone())
        });
        let scalars = parameters.iter().map(|(_, parameter, element)| quote!(#parameter: #element));
        let steps = chain.calls.iter().map(|ChainStep { method, step }| {
            let text = step.to_string();
            let apply = Ident::new("apply", Span::call_site().located_at(method.span()));
            // The schedule's errors name the location of each step: that of its method.
            quote_spanned!(apply.span()=> .#apply(::polyshard::__private::step(#text)))
        });
        let subject = &self.subject;
        quote! {
            /// Returns the schedule that it was compiled from.
            #[must_use]
            pub fn schedule(#(#scalars),*) -> #subject {
                #start #(#steps)*
            }
        }
    }
}

#[cfg(test)]
mod tests;
