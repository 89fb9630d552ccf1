//! The documents name files that exist, and a library user builds what the library needs.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

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

/// The names of the packages that the root needs with these features.
fn dependencies(features: &[&str]) -> HashSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--offline", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    cargo.args(["--package", "polyshard"]).args(features).current_dir(env!("CARGO_MANIFEST_DIR"));
    let tree = cargo.output().expect("cargo starts");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let lines = String::from_utf8(tree.stdout).expect("names are text");
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn what_only_the_command_line_needs_is_behind_its_feature() {
    let only = ["clap", "indicatif", "plotters", "svg", "serde_json"];
    let library = dependencies(&["--no-default-features", "--features", "mpi"]);
    let found: Vec<_> = only.iter().filter(|name| library.contains(**name)).collect();
    assert!(found.is_empty(), "a library user builds {found:?}");
    assert!(library.contains("mpi") && library.contains("polyshard-runtime"), "is this the tree? {library:?}");
    let all = dependencies(&[]);
    assert!(["clap", "plotters", "svg"].iter().all(|name| all.contains(*name)), "{all:?}");
    assert!(!dependencies(&["--no-default-features"]).contains("mpi"));
}
