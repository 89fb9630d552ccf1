//! The run-time form: a kernel as an expression that builds its [`KernelSpec`] and an empty schedule.
//!
//! Extents and scalars stay Rust expressions with the user's spans, so that rustc's own errors on them
//! (an unknown name, a float as an extent) point into the kernel.
//!
//! [`KernelSpec`]: polyshard_program::KernelSpec

use polyshard_codegen::Data;
use polyshard_dsl::{Bound, Checked, CheckedBlock, CheckedPart, Element, Tensor, alone, evaluate};
use polyshard_program::Continued;
use proc_macro2::{Literal, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Ident};

/// The variable that has the value of a captured scalar.
pub(crate) type Variable<'a> = &'a dyn Fn(&Ident) -> Ident;

/// Returns the schedule with no steps.
pub(crate) fn schedule(kernel: &Checked, variable: Variable<'_>) -> TokenStream {
    let (p, spec) = (private(), spec(kernel, &extents_of(kernel), variable));
    quote! { #p::Schedule::from_spec(#spec) }
}

/// Returns the schedule of a block with no steps.
pub(crate) fn block(block: &CheckedBlock, variable: Variable<'_>) -> TokenStream {
    let p = private();
    let pair = |(one, other): &(Ident, Ident)| {
        let [one, other] = [one, other].map(name_of);
        quote!((#one, #other))
    };
    let results = block.results.iter().map(pair);
    let names = |all: &[Ident]| {
        let all = all.iter().map(name_of);
        quote!(::std::vec![#(#all),*])
    };
    let extents: Vec<Ident> = block.kernels.iter().flat_map(|part| extents_of(&part.kernel)).collect();
    let kernels = block.kernels.iter().map(|CheckedPart { kernel, previous, reads, writes }| {
        let (kernel, inputs, output) = (spec(kernel, &extents, variable), names(reads), name_of(writes));
        let previous = match previous {
            None => quote!(::std::option::Option::None),
            Some(Continued { array, adds }) => {
                let array = name_of(array);
                quote!(::std::option::Option::Some(#p::Continued { array: #array, adds: #adds }))
            }
        };
        quote!(#p::BlockKernel { kernel: #kernel, inputs: #inputs, output: #output, previous: #previous })
    });
    let rounds = block.rounds.iter().map(|rounds| {
        let (times, kernels) = (extent(&rounds.times), &rounds.kernels);
        let (begin, end) = (kernels.start, kernels.end);
        let first = |value: &Ident| {
            rounds.firsts.iter().find(|(other, _)| other == value).map_or(value.clone(), |(_, first)| first.clone())
        };
        let carried = rounds.carried.iter().map(|(value, next)| {
            let [value, next, first] = [value, next, &first(value)].map(name_of);
            quote!(.carry_from(#first, #next, #value))
        });
        let until = rounds.until.iter().map(|(scalar, below)| {
            let scalar = name_of(scalar);
            quote_spanned!(below.span()=> .until(#scalar, #p::bound(#below)))
        });
        quote!(#p::Rounds::new(#p::rounds(#times), #begin..#end) #(#carried)* #(#until)*)
    });
    let indices = block.indices.iter().map(|Bound { index, array, dim, extent: of, access }| {
        let (index, array, extent) = (name_of(index), name_of(array), extent(of));
        quote!(#p::IndexExtent { index: #index, array: #array, dim: #dim, extent: #extent, access: #access.into() })
    });
    let unset = block.unset.iter().map(|(row, array)| {
        let array = name_of(array);
        quote!((#row, #array))
    });
    let records = block.records.iter().map(|(array, targets)| {
        let (array, targets) = (name_of(array), names(targets));
        quote!((#array, #targets))
    });
    let (name, arrays, parameters) = (name_of(&block.name), names(&block.arrays), block.parameters);
    quote! {
        #p::Schedule::from_block(#p::BlockSpec {
            name: #name,
            kernels: ::std::vec![#(#kernels),*],
            rounds: ::std::vec![#(#rounds),*],
            arrays: #arrays,
            parameters: #parameters,
            results: ::std::vec![#(#results),*],
            indices: ::std::vec![#(#indices),*],
            unset: ::std::vec![#(#unset),*],
            records: ::std::vec![#(#records),*],
        })
    }
}

/// The kernel as data. A scalar that is one of these `extents`, too, is a whole number of any type.
fn spec(kernel: &Checked, extents: &[Ident], variable: Variable<'_>) -> TokenStream {
    let p = private();
    let tensor = |Tensor { name, extents, .. }: &Tensor| {
        let (name, extents) = (name_of(name), extents.iter().map(extent));
        quote!((#name, ::std::vec![#(#extents),*]))
    };
    let name = name_of(&kernel.name);
    let dtype = dtype(&kernel.element);
    let inputs = kernel.inputs.iter().map(tensor);
    let output = tensor(&kernel.output);
    let ranges = kernel.ranges.iter().map(|range| {
        let (var, start, end) = (name_of(&range.var), extent(&range.start), extent(&range.end));
        quote!((#var, #start..#end))
    });
    let moduli = kernel.moduli.iter().map(|(text, value)| {
        let (text, value) = (data().name(*text), extent(value));
        quote!((#text, #value))
    });
    let scalars = kernel.scalars.iter().map(|captured| match extents.contains(captured) {
        true => {
            let (name, variable) = (name_of(captured), variable(captured));
            quote_spanned!(captured.span()=> (#name, #p::whole(#variable)))
        }
        false => scalar(captured, &variable(captured), &kernel.element),
    });
    let data = data();
    let (target, assign, value) = (data.access(&kernel.target), data.assign(kernel.assign), data.value(&kernel.value));
    quote! {
        #p::KernelSpec {
            name: #name,
            dtype: #dtype,
            inputs: ::std::vec![#(#inputs),*],
            output: #output,
            ranges: ::std::vec![#(#ranges),*],
            scalars: ::std::vec![#(#scalars),*],
            moduli: ::std::vec![#(#moduli),*],
            target: #target,
            assign: #assign,
            value: #value,
        }
    }
}

/// The names that are extents of a kernel's tensors.
fn extents_of(kernel: &Checked) -> Vec<Ident> {
    let tensors = kernel.inputs.iter().chain([&kernel.output]);
    tensors.flat_map(|tensor| tensor.extents.iter().filter_map(alone)).cloned().collect()
}

/// Returns the path of the items that generated code uses.
pub(crate) fn private() -> TokenStream {
    quote!(::polyshard::__private)
}

fn data() -> Data {
    let p = private();
    Data { path: quote!(#p::), boxed: quote!(::std::boxed::Box) }
}

fn name_of(ident: &Ident) -> TokenStream {
    data().name(polyshard_dsl::name(ident))
}

fn dtype(element: &Element) -> TokenStream {
    let p = private();
    let written = &element.written;
    match element.known {
        Some(dtype) => {
            let variant = format_ident!("{}", dtype.name().to_uppercase());
            quote!(#p::DType::#variant)
        }
        // With the span of the type, the error that it is not an element type points at it.
        None => quote_spanned!(written.span()=> <#written as #p::ScalarType>::DTYPE),
    }
}

/// An extent, or a bound of a range, which may be below 0. A literal would be an `i32` and too small for some extents, so constants have a
/// type.
fn extent(extent: &Expr) -> TokenStream {
    let p = private();
    let literal = evaluate(extent).and_then(|value| match usize::try_from(value) {
        Ok(value) => Some(Literal::usize_suffixed(value)),
        Err(_) if value < 0 => i64::try_from(value).ok().map(Literal::i64_suffixed),
        Err(_) => u64::try_from(value).ok().map(Literal::u64_unsuffixed),
    });
    match literal {
        Some(mut literal) => {
            literal.set_span(extent.span());
            quote!(#p::extent(#literal))
        }
        None => quote_spanned!(extent.span()=> #p::extent(#extent)),
    }
}

fn scalar(captured: &Ident, variable: &Ident, element: &Element) -> TokenStream {
    let p = private();
    let (name, element) = (name_of(captured), &element.written);
    // A scalar of another type is an error on this binding, which shows both types where they were written.
    let here = Span::call_site().located_at(captured.span());
    let typed = quote_spanned!(here=> let scalar: #element = #variable;);
    quote!((#name, { #typed #p::ScalarType::number(scalar) }))
}

#[cfg(test)]
mod tests;
