//! Shared by the unit tests: an expansion as text, or its errors with the text that they point at.

#[path = "../../../dsl/src/tests/shown.rs"]
mod shown;
#[path = "../../../dsl/src/tests/transcript.rs"]
mod transcript;

use expect_test::Expect;
use proc_macro2::TokenStream;
use quote::quote;
use shown::shown;
use syn::{Item, Result};
pub(crate) use transcript::check_all;

/// Compares the expansion of `kernel!` for `input`.
pub(crate) fn check_kernel(input: &str, expect: Expect) {
    expect.assert_eq(&shown(input, |tokens| crate::expand_kernel(tokens).map(formatted)));
}

/// Compares the module that `input` is compiled to.
pub(crate) fn check_module(input: &str, expect: Expect) {
    expect.assert_eq(&module(input));
}

/// The constants and signatures of the module that `input` is compiled to, or its mistakes.
pub(crate) fn module(input: &str) -> String {
    shown(input, |tokens| crate::expand_kernel(tokens).and_then(outline))
}

/// Compares the expansion of `vars!` for `input`.
pub(crate) fn check_vars(input: &str, expect: Expect) {
    expect.assert_eq(&shown(input, |tokens| crate::vars::expand(tokens).map(formatted)));
}

/// The emitted code belongs to `codegen`, and is tested there.
fn outline(module: TokenStream) -> Result<String> {
    let mut module: syn::ItemMod = syn::parse2(module)?;
    if let Some((_, items)) = &mut module.content {
        items.retain(|item| matches!(item, Item::Const(_) | Item::Fn(_)));
        for item in items {
            match item {
                Item::Fn(function) => *function.block = syn::parse_quote!({}),
                Item::Const(constant) if constant.ident == "SOURCE" => *constant.expr = syn::parse_quote!(".."),
                _ => {}
            }
        }
    }
    Ok(formatted(quote!(#module)))
}

/// Paths are shortened, so that the rest can be read.
fn formatted(tokens: TokenStream) -> String {
    let text = pretty(tokens);
    text.replace("::polyshard::__private::", "__::").replace("::std::boxed::", "").replace("::std::", "")
}

/// Items are formatted as they are, statements and expressions inside a function.
fn pretty(tokens: TokenStream) -> String {
    if let Ok(file) = syn::parse2(tokens.clone()) {
        return prettyplease::unparse(&file);
    }
    let Ok(file) = syn::parse2(quote!(fn f() { #tokens })) else { return format!("not Rust: {tokens}\n") };
    let text = prettyplease::unparse(&file);
    let body = text.lines().filter_map(|line| line.strip_prefix("    "));
    body.map(|line| format!("{line}\n")).collect()
}
