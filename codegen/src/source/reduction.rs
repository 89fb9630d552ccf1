//! Ways to reduce, as expressions that make them.

use polyshard_program::Assign;
use polyshard_program::reduction::Way;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

/// The expression for a way to reduce, which was proved when it was made.
pub(super) fn way(way: &Way) -> TokenStream {
    let reduced = groups(way.groups());
    let Some(lowered) = way.steps() else {
        return quote! { Way::in_order(#reduced).expect("the groups were checked when this was generated") };
    };
    let chunks = lowered.chunks();
    let steps = lowered.steps().iter().map(|step| {
        let collective = format_ident!("{}", step.collective.to_string());
        let (groups, parts) = (groups(&step.groups), step.parts);
        quote! { LoweredStep { collective: Collective::#collective, groups: #groups.into(), parts: #parts } }
    });
    quote! {
        Lowered::from_steps(#reduced, #chunks, vec![#(#steps),*])
            .and_then(Way::by_steps)
            .expect("the steps were proved when this was generated")
    }
}

/// The expression for what combines values.
pub(super) fn op(op: Assign) -> TokenStream {
    match op {
        Assign::Set | Assign::Add => quote! { ReduceOp::Sum },
        Assign::Mul => quote! { ReduceOp::Product },
        Assign::Max => quote! { ReduceOp::Max },
        Assign::Min => quote! { ReduceOp::Min },
    }
}

fn groups(groups: &[Vec<usize>]) -> TokenStream {
    let groups = groups.iter().map(|group| quote! { vec![#(#group),*] });
    quote! { vec![#(#groups),*] }
}
