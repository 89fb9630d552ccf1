//! Shared by the unit tests: the result of parsing as text, or its errors with the text that they point at.

mod shown;

use crate::checked::{Bounds, Checked};
use crate::form::Form;
use expect_test::Expect;
use quote::quote;
use shown::shown;
use syn::parse::{ParseStream, Parser};

/// Compares the kernel parsed from `input`: its statement, then its captures.
pub(crate) fn check_checked(input: &str, expect: Expect) {
    expect.assert_eq(&shown(input, |tokens| {
        let kernel = crate::check::check(syn::parse2(tokens)?)?;
        Ok(format!("{} {} {}\n{}", kernel.target, kernel.assign, kernel.value, captures(&kernel)))
    }));
}

/// Compares the steps parsed from `input`.
pub(crate) fn check_chain(input: &str, expect: Expect) {
    expect.assert_eq(&shown(input, |tokens| {
        let chain = (|input: ParseStream| crate::chain::parse(input, Form::Macro, None)).parse2(tokens)?;
        Ok(chain.calls.iter().map(|call| format!("{}\n", call.step)).collect())
    }));
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
