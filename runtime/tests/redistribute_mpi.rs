//! Redistributions under `mpirun`: every tile is checked, over messages and over shared memory.
#![cfg(feature = "mpi")]

use polyshard_testing::example_path;
use polyshard_testing::start::{Start, run};
use std::time::Duration;

#[test]
fn tiles_are_right_on_one_to_eight_processes() {
    for processes in [1, 2, 3, 4, 6, 8] {
        let ranks = format!("--ranks={processes}");
        let ended =
            run(Start::Mpi(processes), &example_path!("redistribute_laws"), &[&ranks], Duration::from_secs(180));
        assert!(ended.success, "on {processes} processes, after {:?}:\n{}", ended.took, ended.stderr);
        assert_eq!(ended.stdout, format!("redistributions hold on {processes} ranks\n"));
    }
}

#[test]
fn tiles_are_right_on_threads() {
    let ended = run(Start::Plain, &example_path!("redistribute_laws"), &["--ranks=6"], Duration::from_secs(60));
    assert!(ended.success, "{}", ended.stderr);
    assert_eq!(ended.stdout, "redistributions hold on 6 ranks\n");
}
