//! Help texts: each has examples, and the examples work.

use polyshard::kernel;
use polyshard_testing::start::{self, Ended, Start, run};
use polyshard_testing::test_folder;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit of an example of a help text: some measure the machine.
const LIMIT: Duration = Duration::from_secs(300);

/// The examples of the repository.
const EXAMPLES: &str = "ag_gemm allreduce attention cannon cg chain compiled cosma fft3d gemm_rs heat inner jacobi johnson \
    kmeans layernorm megatron mlp mttkrp plate power pumma restarted solomonik summa syrk tucker wave";

/// Returns the path of an example, built as this test is.
fn example(name: &str) -> PathBuf {
    start::example(name, concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"), cfg!(feature = "mpi"))
}

/// The lines of a help text's examples, each a whole command.
fn commands(help: &str) -> Vec<String> {
    let Some((_, examples)) = help.split_once("Examples:\n").or_else(|| help.split_once("Example:\n")) else {
        return Vec::new();
    };
    let lines = examples.lines().take_while(|line| line.starts_with("  "));
    // A line that ends in a backslash continues on the next.
    let joined = lines.map(str::trim).collect::<Vec<_>>().join("\n").replace("\\\n", "");
    joined.lines().map(str::to_owned).collect()
}

/// The names of the subcommands that a help text lists.
fn subcommands(help: &str) -> Vec<String> {
    let listed = help.split_once("Commands:\n").map_or("", |(_, rest)| rest);
    let names = listed.lines().take_while(|line| !line.is_empty()).filter_map(|line| {
        // Descriptions that continue on a second line are indented further.
        let name = line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?;
        name.split_whitespace().next()
    });
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Asks a program for its help, and checks that it has examples.
#[track_caller]
fn help(program: &Path, words: &[&str]) -> String {
    let Ended { success, stdout, stderr, .. } = run(Start::Plain, program, &[words, &["--help"]].concat(), LIMIT);
    assert!(success && stderr.is_empty(), "{words:?}: {stderr}");
    assert!(!commands(&stdout).is_empty(), "no examples in the help of {} {words:?}:\n{stdout}", program.display());
    stdout
}

/// A folder of this name with the files that examples read, and the shell command that enters it.
fn prepared(name: &str) -> (PathBuf, String) {
    let folder = test_folder!(name);
    let polyshard = env!("CARGO_BIN_EXE_polyshard");
    let there = format!("cd '{}'", folder.display());
    let made = ["threads", "mpi", "C", "expected"]
        .map(|name| format!("'{polyshard}' random --shape 5,7 --out {name}.npy"))
        .join(" && ");
    let ended = run(Start::Plain, Path::new("sh"), &["-c", &format!("{there} && {made}")], LIMIT);
    assert!(ended.success, "{}", ended.stderr);
    let kernel = kernel! { fn sum(A: [f32; 8, 6]) -> s: f32 { s[] += A[i, j] } };
    let trace = serde_json::to_string(&kernel.trace().expect("a good kernel")).expect("a trace is JSON");
    fs::write(folder.join("trace.json"), trace).expect("the folder is ours");
    let program = serde_json::to_string(&kernel.lower().expect("it is replicated")).expect("a program is JSON");
    fs::write(folder.join("program.json"), program).expect("the folder is ours");
    let machine = polyshard::machine::Machine::preset("v100").expect("a preset").to_toml();
    fs::write(folder.join("machine.toml"), machine).expect("the folder is ours");
    let problem = r#"{"mesh": [["x", 4]], "source": "[2{x}8]", "target": "[8]"}"#;
    fs::write(folder.join("problems.json"), problem).expect("the folder is ours");
    // As in a clone, without files from an earlier run of this test.
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/poly");
    fs::create_dir_all(folder.join("examples/poly")).expect("the folder is ours");
    for file in fs::read_dir(kernels).expect("the files of kernels") {
        let path = file.expect("a file").path();
        fs::copy(&path, folder.join("examples/poly").join(path.file_name().expect("a name")))
            .expect("the folder is ours");
    }
    let _ = fs::remove_dir_all(folder.join("summa_program"));
    (folder, there)
}

/// The command with the programs that these tests have built, or `None` if it needs MPI and MPI is missing.
fn built(command: &str) -> Option<String> {
    let (start, command) = match command.strip_prefix("mpirun -n ") {
        Some(rest) => {
            let (ranks, command) = rest.split_once(' ').expect("a program follows the number of ranks");
            (format!("mpirun --oversubscribe -n {ranks} "), command)
        }
        None => (String::new(), command),
    };
    if !start.is_empty() && !cfg!(feature = "mpi") {
        return None;
    }
    if let Some(rest) = command.strip_prefix("polyshard ") {
        return Some(format!("{start}'{}' {rest}", env!("CARGO_BIN_EXE_polyshard")));
    }
    let rest = command.strip_prefix("cargo run --release --example ").map(|rest| rest.replacen(" -- ", " ", 1));
    let rest = rest.or_else(|| command.strip_prefix("target/release/examples/").map(str::to_owned));
    let rest = rest.unwrap_or_else(|| panic!("`{command}` starts neither polyshard nor an example"));
    let (name, arguments) = rest.split_once(' ').unwrap_or((&rest, ""));
    assert!(EXAMPLES.split(' ').any(|one| one == name), "`{command}` starts `{name}`");
    Some(format!("{start}'{}' {arguments}", example(name).display()))
}

/// Runs the examples of a help text one after the other.
#[track_caller]
fn run_examples(help: &str, there: &str) {
    for command in commands(help) {
        let Some(line) = built(&command) else { continue };
        let root = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
        let ended = run(Start::Plain, Path::new("sh"), &["-c", &format!("{root}; {there} && {line}")], LIMIT);
        assert!(ended.success, "`{command}` fails:\n{}\n{}", ended.stdout, ended.stderr);
    }
}

#[test]
fn every_subcommand_has_examples_that_run() {
    let (folder, there) = prepared("help_of_polyshard");
    let program = Path::new(env!("CARGO_BIN_EXE_polyshard"));
    let mut words: Vec<Vec<String>> = vec![Vec::new()];
    let mut seen = HashSet::new();
    while let Some(path) = words.pop() {
        let text = help(program, &path.iter().map(String::as_str).collect::<Vec<_>>());
        run_examples(&text, &there);
        words.extend(subcommands(&text).into_iter().map(|name| [&path[..], &[name]].concat()));
        seen.insert(path.join(" "));
    }
    for path in [
        "random",
        "show",
        "compare",
        "redistribute",
        "placement",
        "reduce",
        "matmul",
        "machine measure",
        "einsum",
        "run",
        "lower",
    ] {
        assert!(seen.contains(path), "no help of `polyshard {path}` among {seen:?}");
    }
    assert!(folder.join("placements.svg").exists(), "an example that is continued on a second line draws");
}

#[test]
fn every_example_has_examples_that_run() {
    let (_, there) = prepared("help_of_examples");
    for name in EXAMPLES.split(' ') {
        run_examples(&help(&example(name), &[]), &there);
    }
}

#[test]
fn numbers_that_cannot_be_read_are_answered_with_what_to_write() {
    let refused = |program: &Path, line: &str, message: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Ended { success, stderr, .. } = run(Start::Plain, program, &words, LIMIT);
        assert!(!success && stderr.contains(message), "`{line}` should say `{message}`:\n{stderr}");
        assert!(!stderr.contains("in string") && !stderr.contains("tip:"), "`{line}`:\n{stderr}");
    };
    let polyshard = Path::new(env!("CARGO_BIN_EXE_polyshard"));
    let whole = "give a whole number, 0 or more";
    let shape = "cannot read `4x4` in the shape `4x4`; write whole numbers, such as 512,2048";
    refused(polyshard, "random --out A.npy --shape 4x4", &format!("invalid value '4x4' for '--shape <M,N>': {shape}"));
    refused(polyshard, "random --out A.npy --shape 4 --seed one", whole);
    refused(polyshard, "random --out A.npy --shape 4 --seed -1", whole);
    let large = "the number is too large; give one that fits `u64`";
    refused(polyshard, "random --out A.npy --shape 4 --seed 18446744073709551616", large);
    for tolerance in ["much", "nan"] {
        refused(polyshard, &format!("compare A B --tolerance {tolerance}"), "give a number, such as 0.5 or 1e9");
    }
    let size = "write bytes such as 4096, 64MiB, 1.5GiB or 2GB; the largest units are TB and TiB";
    refused(polyshard, "redistribute --mesh 2 [2] [2] --memory 1e3", size);
    refused(polyshard, "redistribute --mesh 2 [2] [2] --bandwidth 1 --latency x", "give a number");
    refused(polyshard, "placement --machine a100 --mesh 64 --top x", whole);
    refused(polyshard, "placement --machine a100 --mesh 64 --max-steps x", whole);
    refused(polyshard, "reduce --matrix [[4]] --reduce 0 --bytes 1 --elements 1.5", whole);
    let some = "for '--ranks <N>': give a whole number, 1 or more";
    for (command, ranks) in [("machine detect", "two"), ("machine measure", "0"), ("einsum i->i A", "-1")] {
        refused(polyshard, &format!("{command} --ranks {ranks}"), &format!("invalid value '{ranks}' {some}"));
    }
    refused(polyshard, "einsum i->i A --top -1", "for '--top <N>': give a whole number, 1 or more");
    refused(polyshard, "einsum i->i A --at-most soon", "for '--at-most <SECONDS>': give a number, such as 0.5 or 1e9");
    for (line, option) in [
        ("einsum i->i A --out B --memory", "--memory <SIZE>"),
        ("run f.poly A --out B --memory", "--memory <SIZE>"),
        ("redistribute --mesh 2 [2] [2] --memory", "--memory <SIZE>"),
        ("machine measure --sizes", "--sizes <1KiB,64KiB,4MiB>"),
    ] {
        refused(polyshard, &format!("{line} 0"), "give a size of at least 1 byte, such as 64MiB");
        for bytes in ["-4", "-4GB", "-1.5MiB", "2G", "1EB", "much"] {
            let message = format!("invalid value '{bytes}' for '{option}': cannot read the size `{bytes}`; {size}");
            refused(polyshard, &format!("{line} {bytes}"), &message);
        }
    }
    for line in ["run f.poly A= --out B.npy", "run f.poly A.npy --out A="] {
        refused(polyshard, line, "no file name after `A=`; write `A=A.npy`");
    }
    refused(polyshard, "einsum i->i A --mesh -2", "for '--mesh <X=N,..>': cannot read the mesh `-2`; write");
}

#[test]
fn a_mesh_may_name_its_axes() {
    let said = |program: &Path, line: &[&str]| {
        let Ended { success, stdout, stderr, .. } = run(Start::Plain, program, line, LIMIT);
        assert!(success, "{line:?}: {stderr}");
        stdout
    };
    let mesh = said(&example("summa"), &["--mesh", "rows=2,columns=3", "--size", "8,9,10", "--print", "program"]);
    assert!(mesh.contains("rows: 2, columns: 3"), "{mesh}");
    let [plain, named] =
        ["2x3", "x=2,y=3"].map(|mesh| said(&example("summa"), &["--mesh", mesh, "--print", "program"]));
    assert_eq!(plain, named);
    let [plain, named] = ["2x4", "d=2,t=4"].map(|mesh| said(&example("megatron"), &["--mesh", mesh, "--explain"]));
    assert_eq!(plain, named);
    let [plain, named] = ["3", "devs=3"].map(|mesh| said(&example("chain"), &["--mesh", mesh, "--explain"]));
    assert_eq!(plain, named);
    let polyshard = Path::new(env!("CARGO_BIN_EXE_polyshard"));
    let place = |mesh: &str, traffic: &str| {
        said(polyshard, &["placement", "--machine", "a100", "--mesh", mesh, "--traffic", traffic, "--json"])
    };
    assert_eq!(place("4x16", "allreduce:1,0:1e6"), place("data=4,tensor=16", "allreduce:tensor,data:1e6"));
    let table = said(polyshard, &["placement", "--hierarchy", "4,16", "--mesh", "data=4,tensor=16"]);
    assert!(table.starts_with("mesh data=4,tensor=16 on ") && table.contains("axis tensor"), "{table}");
}
