//! The MPI communicator: the laws of all communicators, run under `mpirun`.

use polyshard_testing::example_path;
use polyshard_testing::start::{Start, laws};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn the_laws_hold_on_one_to_six_processes() {
    for processes in [1, 2, 3, 4, 6] {
        let said = laws(Start::Mpi(processes), &example_path!("comm_laws"), processes, LIMIT);
        assert_eq!(said, format!("28 laws hold on {processes} ranks\n"));
    }
}

#[test]
fn the_same_binary_runs_on_threads_without_mpirun() {
    assert_eq!(laws(Start::Plain, &example_path!("comm_laws"), 3, LIMIT), "28 laws hold on 3 ranks\n");
}
