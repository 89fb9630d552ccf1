//! Cycles of files that import each other, found in the text of a crate.
//!
//! A file imports the files that its `use` items and its paths resolve to, through all re-exports, down to the file
//! that holds the named item. A module and the modules inside it may name each other, since that is how a module is
//! made of parts. Modules of tests and files of other crates are left out.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::{ItemUse, UseTree};

/// The names of a path, of a module starting at the root of the crate.
type Names = Vec<String>;

/// Returns the cycles of the crate with this root: for each, the files and their imports.
pub(crate) fn circles(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Vec<Vec<String>> {
    let mut found = Crate::default();
    found.read(Names::new(), root, read);
    found.circles()
}

#[derive(Clone)]
struct Module {
    file: PathBuf,
    /// The outermost module in the file.
    outermost: Names,
    /// The names that `use` items import, with the paths that they stand for.
    uses: Vec<(String, Names)>,
    paths: Vec<Names>,
}

#[derive(Default)]
struct Crate {
    modules: BTreeMap<Names, Module>,
}

impl Crate {
    /// Reads a file and those of the modules inside it.
    fn read(&mut self, at: Names, file: &Path, read: &dyn Fn(&Path) -> Option<String>) {
        let text = read(file).unwrap_or_else(|| panic!("there is no file `{}`", file.display()));
        let tokens = text.parse().unwrap_or_else(|error| panic!("`{}` is not Rust: {error}", file.display()));
        let module = Module { file: file.into(), outermost: at.clone(), uses: Vec::new(), paths: Vec::new() };
        let folder = match file.file_stem().and_then(|stem| stem.to_str()) {
            Some("lib" | "main" | "mod") => file.with_file_name(""),
            _ => file.with_extension(""),
        };
        for name in self.module(&at, module, tokens) {
            let candidates = [folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")];
            let [beside, inside] = &candidates;
            let file = if read(beside).is_some() { beside } else { inside };
            self.read(inner(&at, &name), file, read);
        }
    }

    /// Records the names that a module uses, and the modules written out inside it; returns those that have files.
    fn module(&mut self, at: &Names, mut module: Module, tokens: TokenStream) -> Vec<String> {
        let mut with_files = Vec::new();
        let mut groups = vec![tokens];
        while let Some(group) = groups.pop() {
            let tokens: Vec<_> = group.into_iter().collect();
            let mut rest = &tokens[..];
            loop {
                rest = match rest {
                    [] => break,
                    [TokenTree::Punct(sign), TokenTree::Group(attribute), rest @ ..]
                        if sign.as_char() == '#' && is_left_out(&attribute.stream()) =>
                    {
                        after_item(rest)
                    }
                    [TokenTree::Ident(word), TokenTree::Ident(name), body, rest @ ..] if word == "mod" => {
                        match body {
                            _ if name == "tests" => {}
                            TokenTree::Group(body) => {
                                let module = Module { uses: Vec::new(), paths: Vec::new(), ..module.clone() };
                                let nested = self.module(&inner(at, &name.to_string()), module, body.stream());
                                assert!(nested.is_empty(), "`{name}`, which has no file, has modules that have");
                            }
                            _ => with_files.push(name.to_string()),
                        }
                        rest
                    }
                    // In code that is emitted, anything may follow.
                    [TokenTree::Ident(word), after @ ..] if word == "use" => {
                        let end = after.iter().position(|token| is(token, ';')).map_or(after.len(), |end| end + 1);
                        let item = rest[..=end].iter().cloned().collect();
                        match syn::parse2::<ItemUse>(item) {
                            Ok(item) => {
                                if item.leading_colon.is_none() {
                                    flatten(&item.tree, &[], &mut module.uses);
                                }
                                &after[end..]
                            }
                            Err(_) => after,
                        }
                    }
                    [TokenTree::Ident(first), after @ ..] => {
                        let (path, after) = path(first.to_string(), after);
                        module.paths.extend((path.len() > 1).then_some(path));
                        after
                    }
                    [TokenTree::Group(group), after @ ..] => {
                        groups.push(group.stream());
                        after
                    }
                    [_, after @ ..] => after,
                };
            }
        }
        self.modules.insert(at.clone(), module);
        with_files
    }

    /// Returns the module that holds the item of a path, as seen from a module; none for names that do not resolve.
    fn resolve(&self, at: &[String], path: &[String], steps: usize) -> Option<Names> {
        let [first, rest @ ..] = path else { return Some(at.to_vec()) };
        let steps = steps.checked_sub(1)?;
        let module = inner(at, first);
        match first.as_str() {
            "crate" => self.resolve(&[], rest, steps),
            "self" => self.resolve(at, rest, steps),
            "super" => self.resolve(&at[..at.len().checked_sub(1)?], rest, steps),
            _ if self.modules.contains_key(&module) => self.resolve(&module, rest, steps),
            _ => match self.modules[at].uses.iter().find(|(name, _)| name == first) {
                Some((_, from)) => self.resolve(at, &[from, rest].concat(), steps),
                None => Some(at.to_vec()),
            },
        }
    }

    /// Returns which files import which, each as its outermost module.
    fn imports(&self) -> BTreeMap<&Names, BTreeSet<&Names>> {
        let mut imports: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (at, module) in &self.modules {
            let from = &module.outermost;
            for path in module.uses.iter().map(|(_, path)| path).chain(&module.paths) {
                let Some(to) = self.resolve(at, path, 32) else { continue };
                let to = &self.modules[&to].outermost;
                if !from.starts_with(to) && !to.starts_with(from) {
                    imports.entry(from).or_default().insert(to);
                }
            }
        }
        imports
    }

    fn circles(&self) -> Vec<Vec<String>> {
        let imports = self.imports();
        let of = |from: &Names| imports.get(from).into_iter().flatten().copied();
        let reached = |from: &Names| {
            let (mut reached, mut next) = (BTreeSet::new(), Vec::from_iter(of(from)));
            while let Some(file) = next.pop() {
                if reached.insert(file) {
                    next.extend(of(file));
                }
            }
            reached
        };
        let reached: BTreeMap<_, _> = imports.keys().map(|&from| (from, reached(from))).collect();
        let both = |one: &Names, other: &Names| reached[one].contains(other) && reached[other].contains(one);
        let circle = |one: &Names| imports.keys().copied().filter(|other| both(one, other)).collect::<BTreeSet<_>>();
        let circles: BTreeSet<_> = imports.keys().map(|one| circle(one)).filter(|circle| !circle.is_empty()).collect();
        let shown = |module: &Names| self.modules[module].file.display().to_string();
        let line = |circle: &BTreeSet<&Names>, from: &Names| {
            let to: Vec<_> = of(from).filter(|to| circle.contains(to)).map(shown).collect();
            format!("{} imports {}", shown(from), to.join(", "))
        };
        circles.iter().map(|circle| circle.iter().map(|from| line(circle, from)).collect()).collect()
    }
}

fn inner(at: &[String], name: &str) -> Names {
    [at, &[name.to_owned()]].concat()
}

fn is(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

/// Whether an item with this attribute is for tests, or is a module whose files are elsewhere.
fn is_left_out(attribute: &TokenStream) -> bool {
    let text = attribute.to_string().replace(' ', "");
    ["cfg(test", "cfg(all(test", "path="].iter().any(|start| text.starts_with(start))
}

/// Returns the tokens after an item, which ends in braces or a semicolon.
fn after_item(tokens: &[TokenTree]) -> &[TokenTree] {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is(token, ';'),
    };
    tokens.iter().position(ends).map_or(&[], |end| &tokens[end + 1..])
}

/// Returns the path that begins with a name, and the tokens after it.
fn path(first: String, mut tokens: &[TokenTree]) -> (Names, &[TokenTree]) {
    let mut path = vec![first];
    while let [TokenTree::Punct(colon), second, TokenTree::Ident(name), rest @ ..] = tokens
        && (colon.as_char(), colon.spacing()) == (':', Spacing::Joint)
        && is(second, ':')
    {
        path.push(name.to_string());
        tokens = rest;
    }
    (path, tokens)
}

/// Adds the names that a `use` item imports; a `*` imports the module itself.
fn flatten(tree: &UseTree, to: &[String], uses: &mut Vec<(String, Names)>) {
    match tree {
        UseTree::Path(path) => flatten(&path.tree, &inner(to, &path.ident.to_string()), uses),
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, to, uses)),
        UseTree::Name(name) if name.ident == "self" => uses.push((to.last().cloned().unwrap_or_default(), to.into())),
        UseTree::Name(name) => uses.push((name.ident.to_string(), inner(to, &name.ident.to_string()))),
        UseTree::Rename(name) if name.ident == "self" => uses.push((name.rename.to_string(), to.into())),
        UseTree::Rename(name) => uses.push((name.rename.to_string(), inner(to, &name.ident.to_string()))),
        _ => uses.push(("*".into(), to.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::circles;
    use std::path::Path;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let read = |file: &Path| files.iter().find(|(name, _)| Path::new(name) == file).map(|(_, text)| (*text).into());
        circles(Path::new("src/lib.rs"), &read)
    }

    #[test]
    fn files_that_import_one_another_through_a_re_export_are_a_circle() {
        let circles = found(&[
            ("src/lib.rs", "mod ring; mod wire; pub use wire::Wire;"),
            ("src/ring/mod.rs", "mod bead; mod hook; pub use bead::{Bead as Pearl, *};"),
            ("src/ring/bead.rs", "pub struct Bead(crate::Wire);"),
            ("src/ring/hook.rs", "pub struct Hook;"),
            ("src/wire.rs", "mod end; use crate::ring::Pearl; pub struct Wire(Vec<Pearl>);"),
            ("src/wire/end.rs", "use super::Wire;"),
        ]);
        let expected = ["src/ring/bead.rs imports src/wire.rs", "src/wire.rs imports src/ring/bead.rs"];
        assert_eq!(circles, [expected]);
    }

    #[test]
    fn circles_of_three_are_found_in_paths_macros_and_modules_without_files() {
        let circles = found(&[
            ("src/lib.rs", "mod a; mod b; mod c; mod d;"),
            ("src/a.rs", "fn a() { vec![super::b::B] }"),
            ("src/b.rs", "mod inner { mod most { use super::super::super::c::{self, C}; } }"),
            ("src/c.rs", "use crate::{d, a as first}; fn c() { first::a() }"),
            ("src/d.rs", ""),
        ]);
        let expected = ["src/a.rs imports src/b.rs", "src/b.rs imports src/c.rs", "src/c.rs imports src/a.rs"];
        assert_eq!(circles, [expected]);
    }

    #[test]
    fn tests_parts_and_imports_in_one_direction_are_no_circle() {
        let circles = found(&[
            ("src/lib.rs", "mod a; mod b; #[cfg(test)] mod help; pub use a::A; pub use b::B;"),
            ("src/a.rs", "mod part; pub use part::A; use gemm::gemm; #[cfg(test)] mod tests { use crate::B; }"),
            ("src/a/part.rs", "use super::other; pub struct A; mod tests; #[cfg(test)] use crate::b; const N: u8 = 1;"),
            ("src/b.rs", "use crate::{A, N as M}; use std::fmt; pub struct B(A); fn f() -> impl Fn() + use<'_> {}"),
        ]);
        assert_eq!(circles, [[""; 0]; 0]);
    }
}
