//! Mistakes in kernels and schedules do not compile, and the errors point at the mistakes.
//!
//! Each file of `tests/ui` is a program of mistakes, with the compiler's messages next to it. After an intended change,
//! `UPDATE_EXPECT=1 cargo test --test outside mistakes` writes the messages again: read every one as the user who made
//! the mistake.
//!
//! Mistakes that are left to rustc, such as the name of a scalar that does not exist, have no case here: its messages
//! change from one release to the next. Nor does code that compiles; see `dsl-macros/tests`.

use super::{ROOT, Workspace, package};
use expect_test::expect_file;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The programs. The last has a mistake that the compiler looks for only where macros find none.
const PROGRAMS: [&str; 3] = ["kernels", "schedules", "scalars"];

#[test]
fn mistakes_do_not_compile() {
    let path = |name: &str| Path::new(ROOT).join(format!("tests/ui/{name}.rs"));
    let program = |name: &str| format!("\n[[bin]]\nname = {name:?}\npath = {:?}\n", path(name));
    let dependencies = "features = { path = \"features\" }\n";
    let manifest = format!("{}{dependencies}{}", package("mistakes"), PROGRAMS.map(program).concat());
    let workspace = Workspace::new("mistakes", &manifest, &[]);
    let built = workspace.build(&["--package", "mistakes", "--keep-going", "--message-format", "json"]);
    let messages = serde_json::Deserializer::from_slice(&built.stdout).into_iter::<Value>();
    let messages: Vec<Value> = messages.collect::<Result<_, _>>().expect("cargo speaks JSON");
    for name in PROGRAMS {
        let of_program = messages.iter().filter(|message| message["target"]["name"] == name);
        let errors = of_program.map(|message| &message["message"]).filter(|message| message["level"] == "error");
        // The only message without a place is that there were errors.
        let errors: Vec<_> =
            errors.filter(|error| error["spans"].as_array().is_some_and(|at| !at.is_empty())).collect();
        let source = fs::read_to_string(path(name)).expect("a program");
        let starts =
            source.lines().zip(1..).filter(|(line, _)| line.contains("kernel! {") || line.contains("vars!(vars"));
        let starts: Vec<u64> = starts.map(|(_, number)| number).chain([u64::MAX]).collect();
        for kernel in starts.windows(2) {
            let is_here = |error: &&&Value| {
                error["spans"][0]["line_start"].as_u64().is_some_and(|line| (kernel[0]..kernel[1]).contains(&line))
            };
            assert!(errors.iter().any(|error| is_here(&error)), "line {} of {name} has no mistake", kernel[0]);
        }
        let said =
            errors.iter().map(|error| error["rendered"].as_str().expect("a text").replace(&format!("{ROOT}/"), ""));
        expect_file![path(name).with_extension("stderr")]
            .assert_eq(&format!("{}\n", said.collect::<String>().trim_end()));
    }
}
