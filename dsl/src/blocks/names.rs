//! Names of versions: which are free, and the arrays in their place in messages.

use crate::errors::Errors;
use proc_macro2::{Span, TokenStream, TokenTree};
use std::collections::{HashMap, HashSet};
use syn::Ident;
use syn::ext::IdentExt;

/// The names of a file, which versions must not have.
#[derive(Default)]
pub(crate) struct Names {
    /// How often each stands in the file.
    all: HashMap<String, usize>,
    /// How often each stands in the block and its schedule.
    own: HashMap<String, usize>,
    /// The names of inputs and versions so far.
    used: HashSet<String>,
    /// By name: the next number that may be new.
    numbers: HashMap<String, usize>,
}

impl Names {
    /// The names of the tokens of a file.
    pub(crate) fn of_file(tokens: &TokenStream) -> Self {
        Self { all: occurrences([tokens]), ..Self::default() }
    }

    /// Begins a block with these tokens.
    pub(crate) fn begin<'t>(&mut self, tokens: impl IntoIterator<Item = &'t TokenStream>) {
        self.own = occurrences(tokens);
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.all.contains_key(name)
    }

    /// Notes the name of an array that exists.
    pub(crate) fn note(&mut self, name: &Ident) {
        self.used.insert(plain(name));
    }

    /// Whether an array has the name.
    pub(super) fn is_used(&self, name: &str) -> bool {
        self.used.contains(name)
    }

    /// Whether a name stands in the block alone.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.all.get(name) == self.own.get(name)
    }

    /// Adds a name.
    pub(super) fn insert(&mut self, name: String) {
        self.all.insert(name, 0);
    }

    /// Adds this name, or else the first that is new of those with a number from 2.
    pub(super) fn fresh(&mut self, base: &str) -> String {
        let mut name = base.to_owned();
        let number = self.numbers.entry(name.clone()).or_insert(2);
        while self.all.contains_key(&name) {
            name = format!("{base}{number}");
            *number += 1;
        }
        self.all.insert(name.clone(), 0);
        name
    }
}

fn occurrences<'t>(all: impl IntoIterator<Item = &'t TokenStream>) -> HashMap<String, usize> {
    let mut found = HashMap::new();
    // Groups may be nested too deeply for a recursion.
    let mut left: Vec<TokenStream> = all.into_iter().cloned().collect();
    while let Some(tokens) = left.pop() {
        for token in tokens {
            match token {
                TokenTree::Ident(name) => *found.entry(plain(&name)).or_default() += 1,
                TokenTree::Group(group) => left.push(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
    found
}

/// The name without the `r#` of a raw identifier.
pub(super) fn plain(name: &Ident) -> String {
    name.unraw().to_string()
}

/// An identifier with this name, raw if it is a keyword.
pub(super) fn named(name: &str, at: Span) -> Ident {
    match syn::parse_str::<Ident>(name) {
        Ok(_) => Ident::new(name, at),
        Err(_) => Ident::new_raw(name, at),
    }
}

/// Returns the errors with the names that a statement has for its arrays in place of those of their versions.
pub(crate) fn in_names(errors: &syn::Error, names: &[(Ident, Ident)]) -> syn::Error {
    let is_part = |char: char| char.is_alphanumeric() || char == '_';
    let named = |word: &str| {
        let found = names.iter().find(|(version, _)| plain(version) == word);
        found.map_or_else(|| word.to_owned(), |(_, name)| plain(name))
    };
    let in_names = |message: &str| {
        let mut all = String::with_capacity(message.len());
        let mut rest = message;
        while let Some(begin) = rest.find(is_part) {
            let len = rest[begin..].find(|char| !is_part(char)).unwrap_or(rest.len() - begin);
            all.push_str(&rest[..begin]);
            all.push_str(&named(&rest[begin..begin + len]));
            rest = &rest[begin + len..];
        }
        all + rest
    };
    let mut all = Errors::default();
    errors.into_iter().for_each(|error| all.add(syn::Error::new(error.span(), in_names(&error.to_string()))));
    all.finish(()).err().unwrap_or_else(|| errors.clone())
}
