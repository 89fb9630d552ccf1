//! Expressions that build reductions.
//!
//! The emitted program rebuilds a [`Procedure`] from its groups and steps, and with it the proof that these count every
//! term exactly once: an edited source cannot run unproved steps.

use polyshard_program::reduction::Procedure;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

/// The expression for the procedure of a reduction, in rank order or by steps. It was proved when it was made.
///
/// ```text
/// Procedure::in_order(vec![vec![0usize, 1usize]]).expect(..)
/// Lowered::from_steps(vec![vec![0usize, 1usize]], 2usize, vec![LoweredStep { collective: Collective::ReduceScatter, .. }, ..])
///     .and_then(Procedure::by_steps).expect(..)
/// ```
pub(super) fn procedure(procedure: &Procedure) -> TokenStream {
    let reduced = groups(procedure.groups());
    let Some(lowered) = procedure.steps() else {
        return quote! { Procedure::in_order(#reduced).expect("the groups were checked when this was generated") };
    };
    let chunks = lowered.chunks();
    let steps = lowered.steps().iter().map(|step| {
        let collective = format_ident!("{}", step.collective.to_string());
        let (groups, parts) = (groups(&step.groups), step.parts);
        quote! { LoweredStep { collective: Collective::#collective, groups: #groups.into(), parts: #parts } }
    });
    quote! {
        Lowered::from_steps(#reduced, #chunks, vec![#(#steps),*])
            .and_then(Procedure::by_steps)
            .expect("the steps were proved when this was generated")
    }
}

fn groups(groups: &[Vec<usize>]) -> TokenStream {
    let groups = groups.iter().map(|group| quote! { vec![#(#group),*] });
    quote! { vec![#(#groups),*] }
}
