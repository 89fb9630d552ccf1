//! `vars!(m, n, k)`: one variable for each name.

use crate::expand::private;
use polyshard_dsl::errors::Errors;
use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Ident, Result, Token};

/// Returns the `let` statements.
pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    let names: Vec<Ident> = Punctuated::<Ident, Token![,]>::parse_terminated.parse2(input)?.into_iter().collect();
    let mut errors = Errors::default();
    for (i, name) in names.iter().enumerate() {
        if names[..i].contains(name) {
            errors.push(name, format!("the variable `{name}` is given twice"), "name each variable once");
        }
    }
    let p = private();
    let lets = names.iter().map(|name| {
        let text = polyshard_dsl::name(name).as_str();
        quote!(let #name = #p::Var::new(#text);)
    });
    errors.finish(quote!(#(#lets)*))
}

#[cfg(test)]
mod tests {
    use crate::tests::shared::check_vars as check;
    use expect_test::expect;

    #[test]
    fn each_name_becomes_a_variable() {
        check(
            "m, n, ko,",
            expect![[r#"
                let m = __::Var::new("m");
                let n = __::Var::new("n");
                let ko = __::Var::new("ko");
            "#]],
        );
    }

    #[test]
    fn names_given_twice_are_all_reported() {
        check(
            "m, n, m, n",
            expect![[r#"
                error on `m`: the variable `m` is given twice
                  help: name each variable once
                error on `n`: the variable `n` is given twice
                  help: name each variable once
            "#]],
        );
    }

    #[test]
    fn what_is_no_name_is_an_error() {
        check(
            "m, 3",
            expect![[r#"
            error on `3`: expected identifier
        "#]],
        );
    }
}
