//! What ARCHITECTURE.md and the heads of files list, against the code: methods of a trait, modules of a file.

use std::collections::BTreeSet;
use syn::{Block, Expr, Item, Stmt, TraitItem};

/// The methods of a trait, by who writes them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Methods {
    /// Those that each implementation must give.
    pub(crate) given: BTreeSet<String>,
    /// Those that are one call of `self.collective(..)`.
    pub(crate) by_collective: BTreeSet<String>,
    /// Those with another default.
    pub(crate) by_default: BTreeSet<String>,
}

/// Returns the methods of the trait `name` in a file.
pub(crate) fn methods(file: &str, name: &str) -> Methods {
    let file = syn::parse_file(file).unwrap_or_else(|error| panic!("the file is not Rust: {error}"));
    let mut methods = Methods::default();
    for item in &file.items {
        let Item::Trait(found) = item else { continue };
        for item in found.items.iter().filter(|_| found.ident == name) {
            let TraitItem::Fn(method) = item else { continue };
            let kind = match &method.default {
                None => &mut methods.given,
                Some(body) if is_collective(body) => &mut methods.by_collective,
                Some(_) => &mut methods.by_default,
            };
            kind.insert(method.sig.ident.to_string());
        }
    }
    methods
}

fn is_collective(body: &Block) -> bool {
    let [Stmt::Expr(Expr::MethodCall(call), None)] = &body.stmts[..] else { return false };
    call.method == "collective" && matches!(&*call.receiver, Expr::Path(path) if path.path.is_ident("self"))
}

/// Returns what a sentence lists behind its colon, each in backticks; before it stands how many they are.
///
/// # Panics
/// If there is no colon, or another number of names.
pub(crate) fn listed(sentence: &str) -> BTreeSet<String> {
    let (head, names) = sentence.split_once(": ").unwrap_or_else(|| panic!("no list in `{sentence}`"));
    let names: BTreeSet<_> = names.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let count = head.split_whitespace().find_map(|word| word.parse::<usize>().ok());
    assert_eq!(count, Some(names.len()), "`{head}` does not say how many it lists: {names:?}");
    names
}

/// Returns the modules that a table in the head of a file names, if its first column is headed `file` or `module`.
pub(crate) fn tabled(file: &str) -> Option<BTreeSet<String>> {
    let mut rows = file.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    rows.find(|row| ["| file |", "| module |"].iter().any(|head| row.starts_with(head)))?;
    let rows = rows.skip(1).map_while(|row| row.strip_prefix('|')).filter_map(|row| row.split('|').next());
    Some(rows.flat_map(|first| first.split('`').skip(1).step_by(2)).map(str::to_owned).collect())
}

/// Returns the modules that a file declares and that are not for tests.
pub(crate) fn declared(file: &str) -> BTreeSet<String> {
    let words = ["mod ", "pub mod ", "pub(crate) mod ", "pub(super) mod "];
    let name =
        |line: &str| words.iter().find_map(|start| line.strip_prefix(start)?.strip_suffix(';').map(str::to_owned));
    file.lines().filter_map(name).filter(|name| name != "tests").collect()
}

#[cfg(test)]
mod tests {
    use super::{declared, listed, methods, tabled};

    fn names(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn methods_are_sorted_by_their_bodies() {
        let found = methods(
            "trait Other { fn no(&self); } trait Ranks { fn size(&self) -> usize; fn barrier(&self) { self.collective(B) } \
             fn sum(&self) { self.size(); self.collective(S) } fn note(&self) {} }",
            "Ranks",
        );
        assert_eq!(Vec::from_iter(found.given), names("size"));
        assert_eq!(Vec::from_iter(found.by_collective), names("barrier"));
        assert_eq!(Vec::from_iter(found.by_default), names("note sum"));
    }

    #[test]
    fn lists_have_their_number_before_them() {
        assert_eq!(Vec::from_iter(listed("`A` has 2 methods, both short: `b`,\n`a`")), names("a b"));
        assert!(std::panic::catch_unwind(|| listed("`A` has 3 methods: `b`, `a`")).is_err());
    }

    #[test]
    fn tables_are_read_to_their_end() {
        let file = "//! Head, of `x`.\n//!\n//! | file | holds |\n//! | --- | --- |\n//! | `b`, [`a`] | `c` |\n//!\n//! `d`\n\
                    mod a;\npub(crate) mod b;\n#[cfg(test)]\nmod tests;\n";
        assert_eq!(Vec::from_iter(tabled(file).expect("a table")), names("a b"));
        assert_eq!(Vec::from_iter(declared(file)), names("a b"));
        assert_eq!(tabled("//! | word | meaning |\n"), None);
    }
}
