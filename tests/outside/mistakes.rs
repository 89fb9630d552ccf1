//! Mistakes in kernels and schedules do not compile, and the errors point at the mistakes.
//!
//! Each file of `tests/ui` is one mistake, with the compiler's message next to it. After an intended change,
//! `UPDATE_EXPECT=1 cargo test --test outside mistakes` writes the messages again: read every one as the user who made
//! the mistake.
//!
//! Mistakes that are left to rustc, such as the name of a scalar that does not exist, have no case here: its messages
//! change from one release to the next. Nor does code that compiles; see `dsl-macros/tests`.

use super::{ROOT, Workspace, package};
use expect_test::expect_file;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The files of mistakes, by the names of their programs.
fn mistakes() -> BTreeMap<String, PathBuf> {
    let folder = Path::new(ROOT).join("tests/ui");
    let files = ["kernel", "schedule"].into_iter().flat_map(|kind| {
        let files = fs::read_dir(folder.join(kind)).expect("a folder").map(|file| file.expect("a file").path());
        let sources = files.filter(|path| path.extension().is_some_and(|end| end == "rs"));
        sources.map(move |path| (format!("{kind}-{}", path.file_stem().expect("a name").to_string_lossy()), path))
    });
    files.collect()
}

#[test]
fn mistakes_do_not_compile() {
    let mistakes = mistakes();
    assert!(mistakes.len() > 40, "hardly a mistake: {mistakes:?}");
    let program = |(name, path): (&String, &PathBuf)| format!("\n[[bin]]\nname = {name:?}\npath = {path:?}\n");
    let programs: String = mistakes.iter().map(program).collect();
    let dependencies = "features = { path = \"features\" }\n";
    let workspace = Workspace::new("mistakes", &format!("{}{dependencies}{programs}", package("mistakes")), &[]);
    let built = workspace.build(&["--package", "mistakes", "--keep-going", "--message-format", "json"]);
    let mut said: BTreeMap<&str, String> = BTreeMap::new();
    let messages = serde_json::Deserializer::from_slice(&built.stdout).into_iter::<Value>();
    let messages: Vec<Value> = messages.collect::<Result<_, _>>().expect("cargo speaks JSON");
    for message in messages.iter().filter(|message| message["reason"] == "compiler-message") {
        let (target, message) = (&message["target"]["name"], &message["message"]);
        // The only message without a place is that there were errors.
        if message["level"] == "error" && message["spans"].as_array().is_some_and(|spans| !spans.is_empty()) {
            let rendered = message["rendered"].as_str().expect("a text").replace(&format!("{ROOT}/"), "");
            *said.entry(target.as_str().expect("a name")).or_default() += &rendered;
        }
    }
    for (name, path) in &mistakes {
        let said = said.get(name.as_str()).unwrap_or_else(|| {
            panic!("{} compiles, or was not reached:\n{}", path.display(), String::from_utf8_lossy(&built.stderr))
        });
        expect_file![path.with_extension("stderr")].assert_eq(&format!("{}\n", said.trim_end()));
    }
}
