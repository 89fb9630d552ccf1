//! Checked programs: `POLYSHARD_CHECK=1` under `mpirun` changes no bit of a result.

use polyshard_testing::start::{Start, run_with};
use polyshard_testing::{example_path, test_folder};
use std::path::Path;
use std::time::Duration;

/// Runs an example under `mpirun` with these variables, and returns the file that it writes.
#[track_caller]
fn output(variables: &[&str], line: &str, file: &Path) -> Vec<u8> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let program = example_path!(words[0]);
    let arguments = [&words[1..], &["--out", file.to_str().expect("a path")]].concat();
    let ended = run_with(variables, Start::Mpi(4), &program, &arguments, Duration::from_secs(60));
    assert!(ended.success, "`{line}` with {variables:?}:\n{}\n{}", ended.stdout, ended.stderr);
    std::fs::read(file).expect("the example writes its result")
}

#[test]
fn a_checked_program_gives_the_same_bits() {
    let folder = test_folder!("checked");
    for line in ["summa --size 37,53,41 --type f32", "cannon --size 30,41,22"] {
        let plain = output(&[], line, &folder.join("plain.npy"));
        let checked = output(&["POLYSHARD_CHECK=1"], line, &folder.join("checked.npy"));
        assert!(plain == checked, "`{line}` is another product when it is checked");
    }
}
