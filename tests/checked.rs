//! Checked programs: `POLYSHARD_CHECK=1` under `mpirun` changes no bit of a result.
#![cfg(feature = "mpi")]

mod support;

use std::path::Path;
use std::time::Duration;
use support::{Start, example, folder, run};

/// Runs an example under `mpirun` with these variables, and returns the file that it writes.
#[track_caller]
fn output(variables: &[&str], line: &str, file: &Path) -> Vec<u8> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let program = example(words[0]);
    let (program, file_name) = (program.to_str().expect("a path"), file.to_str().expect("a path"));
    let arguments = [variables, &[program], &words[1..], &["--out", file_name]].concat();
    let ended = run(Start::Mpi(4), Path::new("env"), &arguments, Duration::from_secs(60));
    assert!(ended.success, "`{line}` with {variables:?}:\n{}\n{}", ended.stdout, ended.stderr);
    std::fs::read(file).expect("the example writes its result")
}

#[test]
fn a_checked_program_gives_the_same_bits() {
    let folder = folder("checked");
    for line in ["summa --size 37,53,41 --type f32", "cannon --size 30,41,22 --type f64"] {
        let plain = output(&[], line, &folder.join("plain.npy"));
        let checked = output(&["POLYSHARD_CHECK=1"], line, &folder.join("checked.npy"));
        assert!(plain == checked, "`{line}` is another product when it is checked");
    }
}
