//! Documents name existing files, heads of files list their modules and name their tests, a library user builds only
//! what the library needs, and crates and their files import each other in one direction.

mod circles;
mod examples;
mod heads;

use serde_json::Value;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
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
    for document in ["ARCHITECTURE.md", "README.md", "CHANGELOG.md", "tests/README.md"] {
        let text = fs::read_to_string(root.join(document)).expect("the document exists");
        let named: Vec<_> = paths(&text).collect();
        let gone: Vec<_> = named.iter().filter(|path| !root.join(path).exists()).collect();
        assert!(gone.is_empty(), "{document} names files that are gone: {gone:?}");
        assert!(document == "CHANGELOG.md" || named.len() > 3, "{document} names hardly a file; is the search right?");
    }
}

#[test]
fn every_file_of_integration_tests_is_in_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("tests/README.md")).expect("the document exists");
    let named: HashSet<&str> = paths(&text).collect();
    let packages = crates().into_iter().map(|one| PathBuf::from(one["manifest_path"].as_str().expect("a path")));
    let folders = packages.flat_map(|manifest| ["tests", "tests/it"].map(|folder| manifest.with_file_name(folder)));
    let files = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let files =
        files.map(|file| file.expect("an entry").path()).filter(|file| file.extension().is_some_and(|end| end == "rs"));
    let relative = |file: PathBuf| file.strip_prefix(root).expect("a file of the workspace").display().to_string();
    let lacking: Vec<_> =
        files.map(relative).filter(|file| !file.ends_with("main.rs") && !named.contains(file.as_str())).collect();
    assert!(lacking.is_empty(), "tests/README.md does not say what these check: {lacking:?}");
}

/// The Rust files in a folder and its subfolders.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let found = entries.flat_map(|path| match path.is_dir() {
        true => sources(&path),
        false => vec![path],
    });
    found.filter(|path| path.extension().is_some_and(|end| end == "rs")).collect()
}

/// The Rust files of all crates except their tests and examples.
fn sources_of_all() -> impl Iterator<Item = PathBuf> {
    let folders = crates().into_iter().map(|one| {
        let manifest = one["manifest_path"].as_str().expect("a path").to_owned();
        Path::new(&manifest).with_file_name("src")
    });
    folders.filter(|folder| folder.exists()).flat_map(|folder| sources(&folder))
}

/// With this many modules in a file, a reader needs its table to find one.
const MANY: usize = 12;

#[test]
fn tables_in_heads_name_the_modules_that_there_are() {
    for file in sources_of_all() {
        let text = fs::read_to_string(&file).expect("a source");
        let (named, declared) = (heads::tabled(&text), heads::declared(&text));
        let (is_short, file) = (declared.len() <= MANY, file.display());
        let Some(named) = named else {
            assert!(is_short, "{file} declares {} modules: list them in a table in its head", declared.len());
            continue;
        };
        let gone: Vec<_> = named.difference(&declared).collect();
        assert!(gone.is_empty(), "the table in the head of {file} names modules that are gone: {gone:?}");
        let lacking: Vec<_> = declared.difference(&named).collect();
        assert!(is_short || lacking.is_empty(), "the table in the head of {file} lacks {lacking:?}");
    }
}

/// From this number of lines of code, a file needs tests that a reader can find.
const LONG: usize = 200;

/// A file's unit tests are at its end, in `tests` below it, or in `tests` of a module around it; if it has none, its
/// head names the file that tests it.
#[test]
fn the_tests_of_a_file_can_be_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in sources_of_all() {
        let path = file.strip_prefix(root).expect("a file of the workspace");
        // Code that tests share is tested by them.
        if ["testing", "fuzz"].iter().any(|package| path.starts_with(package))
            || path.iter().any(|part| part == "tests")
        {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a source");
        let head: String = text.lines().map_while(|line| line.strip_prefix("//!")).collect();
        let named: Vec<_> = paths(&head).filter(|path| path.contains("tests")).collect();
        let gone: Vec<_> = named.iter().filter(|test| !root.join(test).exists()).collect();
        assert!(gone.is_empty(), "the head of {} names tests that are gone: {gone:?}", path.display());
        let mut around = file.ancestors().skip(1).take_while(|folder| !folder.join("Cargo.toml").exists());
        let has_own = text.contains("#[cfg(test)]") || around.any(|folder| folder.join("tests.rs").exists());
        let code = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count();
        assert!(
            code < LONG || has_own || !named.is_empty(),
            "{} has no unit tests: name in its head the file that tests it, as `tests/it/NAME.rs`",
            path.display()
        );
    }
}

/// The files with unsafe code, except those of the MPI communicator.
const UNSAFE: [&str; 12] = [
    "cli/src/command/signals.rs",
    "comm/src/piece.rs",
    "comm/src/threads/message.rs",
    "comm/src/threads/rendezvous.rs",
    "leaf/src/gemm.rs",
    "memory/src/arena.rs",
    "memory/src/segment.rs",
    "runtime/src/array/load.rs",
    "runtime/src/block.rs",
    "runtime/src/shared_inputs.rs",
    "runtime/src/shared_tiles.rs",
    "runtime/src/subarray/stream.rs",
];

#[test]
fn unsafe_code_is_in_few_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let is_unsafe = |file: &PathBuf| fs::read_to_string(file).expect("a source").contains("(unsafe_code");
    let relative = |file: PathBuf| file.strip_prefix(root).expect("a file of the workspace").display().to_string();
    let mut found: Vec<_> = sources_of_all().filter(is_unsafe).map(relative).collect();
    let all = found.len();
    found.retain(|file| !file.starts_with("comm/src/mpi"));
    found.sort_unstable();
    assert_eq!(found, UNSAFE);
    assert!(all > found.len(), "the MPI files have unsafe code");
}

/// Then without MPI only the tests of these two crates have to run again.
#[test]
fn communicators_and_the_runtime_alone_ask_for_mpi() {
    let asks = |file: &PathBuf| fs::read_to_string(file).expect("a source").contains("feature = \"mpi\"");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let may_ask = |file: &PathBuf| ["comm", "runtime"].iter().any(|package| file.starts_with(root.join(package)));
    let (known, others): (Vec<_>, Vec<_>) = sources_of_all().filter(asks).partition(may_ask);
    // `testing` needs it to start programs with and without MPI.
    let others: Vec<_> = others.iter().filter(|file| !file.starts_with(root.join("testing"))).collect();
    assert!(!known.is_empty() && others.is_empty(), "{others:?}");
}

/// The lines of `cargo tree` for the packages that this one is compiled with, each in the given format.
fn tree(package: &str, arguments: &[&str], format: &str) -> HashSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--offline", "--locked", "--prefix", "none", "--package", package, "--format", format]);
    let tree = cargo.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo starts");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let lines = String::from_utf8(tree.stdout).expect("names are text");
    lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

/// The names of the packages that this one needs with these features.
fn dependencies(package: &str, features: &[&str]) -> HashSet<String> {
    let lines = tree(package, &[&["--edges", "normal"], features].concat(), "{p}");
    lines.iter().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn the_library_needs_nothing_of_the_command_line() {
    let only = ["clap", "indicatif", "plotters"];
    let library = dependencies("polyshard", &[]);
    let found: Vec<_> = only.iter().filter(|name| library.contains(**name)).collect();
    assert!(found.is_empty(), "a library user builds {found:?}");
    assert!(library.contains("mpi") && library.contains("polyshard-runtime"), "is this the tree? {library:?}");
    let all = dependencies("polyshard-cli", &[]);
    assert!(only.iter().all(|name| all.contains(*name)), "{all:?}");
    for package in ["polyshard", "polyshard-cli"] {
        assert!(!dependencies(package, &["--no-default-features"]).contains("mpi"), "{package}");
    }
}

/// The packages that this one links or is built by, each with its features.
fn linked_by(package: &str) -> HashSet<String> {
    tree(package, &["--edges", "normal,build"], "{p}|{f}")
}

/// The macros and a program that uses them link the same crates, which are compiled once if their features are the same.
#[test]
fn what_macros_and_programs_link_is_compiled_once() {
    let macros = linked_by("polyshard-dsl-macros");
    assert!(macros.iter().any(|line| line.starts_with("serde_core ")), "is this the tree? {macros:?}");
    for package in ["polyshard", "polyshard-examples"] {
        let program = linked_by(package);
        let twice: Vec<_> = macros.difference(&program).collect();
        assert!(twice.is_empty(), "`{package}` asks for other features of these than the macros do: {twice:?}");
    }
}

/// The crates, each with those that it may depend on, which are listed before it.
const CRATES: [(&str, &[&str]); 21] = [
    ("layout", &[]),
    ("program", &["layout"]),
    ("machine", &["layout"]),
    ("planner", &["layout", "program", "machine"]),
    ("draw", &["layout", "program", "machine", "planner"]),
    ("dsl", &["layout", "program"]),
    ("polyhedral", &["layout", "program", "planner", "dsl"]),
    ("search", &["layout", "program", "machine", "planner", "dsl", "polyhedral"]),
    ("memory", &["machine"]),
    ("comm", &["layout", "machine", "memory"]),
    ("leaf", &["layout", "program", "memory"]),
    ("runtime", &["layout", "program", "machine", "memory", "comm", "leaf"]),
    ("lab", &["layout", "machine", "runtime"]),
    ("codegen", &["layout", "program"]),
    ("dsl-macros", &["layout", "program", "dsl", "polyhedral", "codegen"]),
    (
        "polyshard",
        &[
            "layout",
            "program",
            "machine",
            "planner",
            "draw",
            "polyhedral",
            "search",
            "runtime",
            "lab",
            "codegen",
            "dsl",
            "dsl-macros",
        ],
    ),
    ("cli", &["polyshard"]),
    ("testing", &["layout", "program", "machine", "planner", "runtime", "polyshard"]),
    ("examples", &["polyshard"]),
    ("example-fft3d", &["polyshard"]),
    ("fuzz", &["testing", "polyshard", "cli"]),
];

/// The crates of the workspace, as cargo reports them.
fn crates() -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--offline", "--locked", "--no-deps", "--format-version", "1"]);
    let metadata = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo starts");
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("it is JSON");
    list(&metadata, "packages").to_vec()
}

fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().unwrap_or_else(|| panic!("cargo tells no `{name}`"))
}

/// The name of a crate in the table.
fn name(of: &Value) -> &str {
    let name = of["name"].as_str().expect("a crate has a name");
    name.strip_prefix("polyshard-").unwrap_or(name)
}

#[test]
fn crates_depend_on_those_below_them() {
    for (at, (name, below)) in CRATES.iter().enumerate() {
        let wrong: Vec<_> = below.iter().filter(|below| !CRATES[..at].iter().any(|(name, _)| name == *below)).collect();
        assert!(wrong.is_empty(), "in the table, {wrong:?} must stand before `{name}`, which may depend on them");
    }
    for package in crates() {
        let name = name(&package);
        let Some((_, below)) = CRATES.iter().find(|(known, _)| *known == name) else {
            panic!("the crate `{name}` is not in the table; say there which crates it may depend on");
        };
        // Tests may depend on any crate.
        let needed = list(&package, "dependencies").iter().filter(|needed| needed["kind"] != "dev");
        let ours = needed.filter(|needed| needed["path"].is_string()).map(self::name);
        let wrong: Vec<_> = ours.filter(|needed| !below.contains(needed)).collect();
        assert!(wrong.is_empty(), "`{name}` depends on {wrong:?}, but of our crates it may depend on {below:?} alone");
    }
}

#[test]
fn no_files_of_a_crate_import_one_another() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Tables of functions of a whole crate, which its generic functions call: their purpose is to name them.
    let tables = ["leaf/src/instances.rs", "runtime/src/instances.rs"].map(Path::new);
    let read = |file: &Path| match tables.contains(&file) {
        true => Some(String::new()),
        false => fs::read_to_string(top.join(file)).ok(),
    };
    let built = |target: &&Value| {
        list(target, "kind").iter().any(|kind| ["lib", "bin", "proc-macro"].iter().any(|built| kind == built))
    };
    let mut circles = Vec::new();
    for package in crates() {
        for target in list(&package, "targets").iter().filter(built) {
            let root = Path::new(target["src_path"].as_str().expect("a target has a file"));
            circles.extend(circles::circles(root.strip_prefix(top).expect("it is in the workspace"), &read));
        }
    }
    let circles: Vec<_> = circles.iter().map(|circle| circle.join("\n")).collect();
    assert!(circles.is_empty(), "these files import one another in a circle:\n\n{}", circles.join("\n\n"));
}
