//! Everything that the prelude exports has an example in its documentation.

use super::sources_of_all;
use std::fs;
use std::path::Path;

/// The names that `use polyshard::prelude::*` imports.
fn of_the_prelude() -> Vec<String> {
    let facade = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    let text = fs::read_to_string(facade).expect("the facade");
    let (_, rest) = text.split_once("pub mod prelude {").expect("the prelude");
    let (inside, _) = rest.split_once("\n}\n").expect("its end");
    let uses = inside.split("pub use ").skip(1).filter_map(|item| item.split(';').next());
    let names = uses.flat_map(|item| item.rsplit("::").next().expect("a path").split(['{', '}', ',']));
    names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// Whether the text declares `name`, with an example in the documentation before it.
fn is_shown(text: &str, name: &str) -> bool {
    let kinds = ["pub struct ", "pub enum ", "pub trait ", "pub fn "];
    let mut has_example = false;
    text.lines().any(|line| {
        has_example = line == "/// ```" || has_example && !line.is_empty();
        let declared = kinds.iter().find_map(|kind| line.strip_prefix(kind)).and_then(|rest| rest.strip_prefix(name));
        has_example
            && declared.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    })
}

#[test]
fn the_names_of_the_prelude_have_examples() {
    let names = of_the_prelude();
    assert!(names.len() > 25, "the prelude exports hardly a name; is the search right? {names:?}");
    let texts: Vec<_> = sources_of_all().map(|file| fs::read_to_string(file).expect("a source")).collect();
    // The documentation of the macros is in files.
    let macros = Path::new(env!("CARGO_MANIFEST_DIR")).join("dsl-macros/src");
    let page = |name: &String| fs::read_to_string(macros.join(format!("{name}.md"))).unwrap_or_default();
    let is_shown = |name: &String| page(name).contains("```\nuse ") || texts.iter().any(|text| is_shown(text, name));
    let without: Vec<_> = names.iter().filter(|name| !is_shown(name)).collect();
    assert!(without.is_empty(), "{without:?} in the prelude have no example; write one in the documentation of each");
}
