//! Shared by the unit tests: the result of parsing as text, or its errors with the text that they point at.

mod grammar;
mod shown;
mod transcript;

use crate::checked::{Bounds, Checked};
use crate::form::Form;
use expect_test::Expect;
use quote::quote;
use shown::shown;
use syn::parse::{ParseStream, Parser};
pub(crate) use transcript::check_all;

/// Compares the kernels parsed from the inputs of a transcript: their statements, then their captures.
pub(crate) fn check_kernels(transcript: Expect) {
    check_all(transcript, kernel);
}

/// Compares the steps parsed from the inputs of a transcript.
pub(crate) fn check_chains(transcript: Expect) {
    check_all(transcript, |input| {
        shown(input, |tokens| {
            let chain = (|input: ParseStream| crate::chain::parse(input, Form::Macro, None)).parse2(tokens)?;
            Ok(chain.calls.iter().map(|call| format!("{}\n", call.step)).collect())
        })
    });
}

/// The kernel parsed from `input`, or its mistakes.
pub(crate) fn kernel(input: &str) -> String {
    shown(input, |tokens| {
        let kernel = crate::check::check(syn::parse2(tokens)?)?;
        Ok(format!("{} {} {}\n{}", kernel.target, kernel.assign, kernel.value, captures(&kernel)))
    })
}

fn captures(kernel: &Checked) -> String {
    let scalars: Vec<_> = kernel.scalars.iter().map(ToString::to_string).collect();
    let ranges: Vec<_> = kernel
        .ranges
        .iter()
        .map(|Bounds { var, start, end }| format!("{var} in {}..{}", quote!(#start), quote!(#end)))
        .collect();
    let line = |title: &str, items: Vec<String>| match items.is_empty() {
        true => String::new(),
        false => format!("{title}: {}\n", items.join(", ")),
    };
    let moduli: Vec<_> = kernel.moduli.iter().map(|(text, _)| text.to_string()).collect();
    line("scalars", scalars) + &line("ranges", ranges) + &line("moduli", moduli)
}
