//! The MPI communicator: the laws of all communicators, run under `mpirun`.

use polyshard_testing::example_path;
use polyshard_testing::start::{Start, run};
use std::time::Duration;

#[test]
fn the_laws_hold_on_one_to_six_processes() {
    for processes in [1, 2, 3, 4, 6] {
        let ranks = format!("--ranks={processes}");
        let ended = run(Start::Mpi(processes), &example_path!("comm_laws"), &[&ranks], Duration::from_secs(120));
        assert!(ended.success, "on {processes} processes, after {:?}:\n{}", ended.took, ended.stderr);
        assert_eq!(ended.stdout, format!("28 laws hold on {processes} ranks\n"));
    }
}

#[test]
fn the_same_binary_runs_on_threads_without_mpirun() {
    let ended = run(Start::Plain, &example_path!("comm_laws"), &["--ranks=3"], Duration::from_secs(60));
    assert!(ended.success, "{}", ended.stderr);
    assert_eq!(ended.stdout, "28 laws hold on 3 ranks\n");
}
