//! Redistributions under `mpirun`: every tile is checked, over messages and over shared memory.
#![cfg(feature = "mpi")]

mod comm_run;

use comm_run::run;
use std::time::Duration;

#[test]
fn tiles_are_right_on_one_to_eight_processes() {
    for processes in [1, 2, 3, 4, 6, 8] {
        let ranks = format!("--ranks={processes}");
        let ended = run("redistribute_laws", &[&ranks], Some(processes), Duration::from_secs(180));
        assert!(ended.success, "on {processes} processes, after {:?}:\n{}", ended.took, ended.stderr);
        assert_eq!(ended.stdout, format!("redistributions hold on {processes} ranks\n"));
    }
}

#[test]
fn tiles_are_right_on_threads() {
    let ended = run("redistribute_laws", &["--ranks=6"], None, Duration::from_secs(60));
    assert!(ended.success, "{}", ended.stderr);
    assert_eq!(ended.stdout, "redistributions hold on 6 ranks\n");
}
