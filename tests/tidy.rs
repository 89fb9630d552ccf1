//! The documents name files that exist.

use std::path::Path;

/// Words in backticks and links that look like paths of the repository.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let linked = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    quoted.chain(linked).filter(|word| {
        let named = [".rs", ".md"].iter().any(|end| word.ends_with(end)) || word.starts_with("LICENSE");
        (named || word.starts_with("./scripts/")) && !word.contains([' ', '*'])
    })
}

#[test]
fn documents_name_files_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for document in ["ARCHITECTURE.md", "README.md", "CHANGELOG.md"] {
        let text = std::fs::read_to_string(root.join(document)).expect("the document exists");
        let named: Vec<_> = paths(&text).collect();
        let gone: Vec<_> = named.iter().filter(|path| !root.join(path).exists()).collect();
        assert!(gone.is_empty(), "{document} names files that are gone: {gone:?}");
        assert!(document == "CHANGELOG.md" || named.len() > 3, "{document} names hardly a file; is the search right?");
    }
}
