//! `polyshard placement`, `reduce` and `matmul`, as a user runs them: results, runs, pictures, and errors.

mod literature;
mod pictures;
mod placements;
mod products;
mod reductions;
mod refusals;

use polyshard_testing::command_line::{CommandLine, json};
use polyshard_testing::start::Start;
use polyshard_testing::test_folder;
use serde_json::Value;
use std::fs;

/// The command line.
const COMMAND_LINE: CommandLine = CommandLine::new(env!("CARGO_BIN_EXE_polyshard"), env!("CARGO_TARGET_TMPDIR"));

/// Runs the command line and returns its output.
#[track_caller]
fn said(arguments: &[&str]) -> String {
    COMMAND_LINE.said(Start::Plain, arguments)
}

/// Runs the command line and returns the object that it printed.
#[track_caller]
fn answered(arguments: &[&str]) -> Value {
    json(&said(&[arguments, &["--json"]].concat()))
}

/// The test cases of the planner.
fn cases(key: &str) -> Vec<Value> {
    let cases: Value =
        serde_json::from_str(include_str!("../../../planner/tests/data/placement.json")).expect("it is JSON");
    cases[key].as_array().expect("a list").clone()
}

fn numbers<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|why| panic!("{why}: {value}"))
}

/// Numbers in the form that flags take.
fn joined(numbers: &Value) -> String {
    numbers.to_string().trim_matches(['[', ']']).to_owned()
}

/// The mesh of these extents, in the form that a flag takes.
fn mesh(extents: &Value) -> String {
    joined(extents).replace(',', "x")
}

/// Writes a file into a separate folder, and returns its path.
fn file(name: &str, text: &str) -> String {
    let path = test_folder!(name).join("machine.toml");
    fs::write(&path, text).expect("the folder is ours");
    path.to_str().expect("cargo's folder has a plain name").to_owned()
}

/// Levels with these numbers of members, all on switches, as TOML.
fn switches(levels: &[(&str, usize)]) -> String {
    let level = |(name, count): &(&str, usize)| {
        format!(
            "[[level]]\nname = \"{name}\"\ncount = {count}\ninterconnect = \"switch\"\nbandwidth = 1e9\n\
             latency = 1e-6\n"
        )
    };
    let device = "name = \"switches\"\n[device]\nmemory_bandwidth = 1e10\nmemory_capacity = 1000000000\n";
    device.to_owned() + &levels.iter().map(level).collect::<String>()
}
