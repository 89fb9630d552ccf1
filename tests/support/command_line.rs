//! The command line as a user runs it, what it says and what it draws.

use crate::support::{Ended, Start, folder, run};
use roxmltree::{Document, Node};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Time in which it must have ended.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Runs it with these arguments.
pub(crate) fn polyshard(start: Start, arguments: &[&str]) -> Ended {
    run(start, Path::new(env!("CARGO_BIN_EXE_polyshard")), arguments, LIMIT)
}

/// Runs it and returns what it printed.
#[track_caller]
pub(crate) fn said(start: Start, arguments: &[&str]) -> String {
    let Ended { success, stdout, stderr, .. } = polyshard(start, arguments);
    assert!(success && stderr.is_empty(), "{arguments:?} on {start:?}:\n{stdout}\n{stderr}");
    stdout
}

/// Checks that it refuses these arguments with this message and nothing else.
#[track_caller]
pub(crate) fn refused(arguments: &[&str], message: &str) {
    let Ended { success, stdout, stderr, .. } = polyshard(Start::Plain, arguments);
    assert!(!success && stdout.is_empty(), "{arguments:?} should be refused:\n{stdout}");
    assert_eq!(stderr, format!("error: {message}\n"), "{arguments:?}");
}

/// Reads JSON that it printed.
#[track_caller]
pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

/// Draws, into a folder of this name, and hands over the panels of the drawing.
#[track_caller]
pub(crate) fn drawn(name: &str, arguments: &[&str], check: impl FnOnce(&[Node])) {
    let path = folder(name).join("drawn.svg");
    let path = path.to_str().expect("cargo's folder has a plain name");
    said(Start::Plain, &[arguments, &["--draw", path]].concat());
    let text = fs::read_to_string(path).expect("it was just written");
    let document = Document::parse(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
    check(&with_class(document.root_element(), "panel"));
}

/// The nodes of a class under a node.
pub(crate) fn with_class<'a>(node: Node<'a, 'a>, class: &str) -> Vec<Node<'a, 'a>> {
    let has = |node: &Node| node.attribute("class").is_some_and(|all| all.split(' ').any(|other| other == class));
    node.descendants().filter(has).collect()
}
