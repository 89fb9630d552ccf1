//! The command line as a user runs it: its output and its drawings.

use crate::start::{Ended, Start, folder, run};
use crate::transcript::check_all;
use expect_test::Expect;
use roxmltree::{Document, Node};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Time limit of a run.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The command line, and a folder for its drawings.
#[derive(Clone, Copy, Debug)]
pub struct CommandLine {
    program: &'static str,
    drawings: &'static str,
}

impl CommandLine {
    /// Returns the command line `program`, which draws in folders inside `drawings`.
    pub const fn new(program: &'static str, drawings: &'static str) -> Self {
        Self { program, drawings }
    }

    /// Runs it with these arguments.
    pub fn run(&self, start: Start, arguments: &[&str]) -> Ended {
        run(start, Path::new(self.program), arguments, LIMIT)
    }

    /// Runs it and returns what it printed; there may be hints on standard error.
    #[track_caller]
    pub fn said(&self, start: Start, arguments: &[&str]) -> String {
        let Ended { success, stdout, stderr, .. } = self.run(start, arguments);
        let are_hints = stderr.lines().all(|line| line.starts_with("hint: "));
        assert!(success && are_hints, "{arguments:?} on {start:?}:\n{stdout}\n{stderr}");
        stdout
    }

    /// Checks that it refuses these arguments with this message and nothing else.
    #[track_caller]
    pub fn refused(&self, arguments: &[&str], message: &str) {
        assert_eq!(self.refusal(arguments, &[]), format!("error: {message}\n"), "{arguments:?}");
    }

    /// Returns what it says when it refuses these arguments, without the paths of these folders.
    #[track_caller]
    pub fn refusal(&self, arguments: &[&str], folders: &[&Path]) -> String {
        let Ended { success, stdout, stderr, .. } = self.run(Start::Plain, arguments);
        assert!(!success && stdout.is_empty(), "{arguments:?} should be refused:\n{stdout}");
        folders.iter().fold(stderr, |said, folder| said.replace(&format!("{}/", folder.display()), ""))
    }

    /// Compares a transcript of refusals: a line at its margin has the arguments, where quotes stand around those with spaces and
    /// `{name}` for the path of a file, and the indented lines that follow are what it says.
    #[track_caller]
    pub fn refuses(&self, files: &[(&str, &str)], transcript: Expect) {
        check_all(transcript, |line| {
            let line =
                files.iter().fold(line.to_owned(), |line, (name, path)| line.replace(&format!("{{{name}}}"), path));
            let parts = line.split('\'').enumerate();
            let words = parts.flat_map(|(nth, part)| match nth % 2 {
                0 => part.split_whitespace().collect(),
                _ => vec![part],
            });
            let said = self.refusal(&words.collect::<Vec<_>>(), &[]);
            files.iter().fold(said, |said, (name, path)| said.replace(path, &format!("{{{name}}}")))
        });
    }

    /// Draws into a folder of this name, and passes the panels of the drawing to `check`.
    #[track_caller]
    pub fn drawn(&self, name: &str, arguments: &[&str], check: impl FnOnce(&[Node<'_, '_>])) {
        let path = folder(name, self.drawings).join("drawn.svg");
        let path = path.to_str().expect("cargo's folder has a plain name");
        self.said(Start::Plain, &[arguments, &["--draw", path]].concat());
        let text = fs::read_to_string(path).expect("it was just written");
        let document = Document::parse(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
        check(&with_class(document.root_element(), "panel"));
    }
}

/// Reads JSON that it printed.
#[track_caller]
pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

/// The nodes of a class under a node.
pub fn with_class<'a>(node: Node<'a, 'a>, class: &str) -> Vec<Node<'a, 'a>> {
    let has =
        |node: &Node<'_, '_>| node.attribute("class").is_some_and(|all| all.split(' ').any(|other| other == class));
    node.descendants().filter(has).collect()
}
