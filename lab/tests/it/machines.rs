//! Machines that are detected on threads and under `mpirun`.

use polyshard_testing::example_path;
use polyshard_testing::start::{Start, run};
use std::time::Duration;

#[test]
fn machines_are_found_on_one_to_four_processes() {
    for processes in [1, 2, 3, 4] {
        let ranks = format!("--ranks={processes}");
        let ended = run(Start::Mpi(processes), &example_path!("machine_laws"), &[&ranks], Duration::from_secs(120));
        assert!(ended.success, "on {processes} processes, after {:?}:\n{}", ended.took, ended.stderr);
        assert_eq!(ended.stdout, format!("machines are found on {processes} ranks of 1 node\n"));
    }
}

#[test]
fn machines_are_found_on_threads() {
    for ranks in [1, 2, 3, 4] {
        let ended =
            run(Start::Plain, &example_path!("machine_laws"), &[&format!("--ranks={ranks}")], Duration::from_secs(60));
        assert!(ended.success, "on {ranks} threads, after {:?}:\n{}", ended.took, ended.stderr);
        assert_eq!(ended.stdout, format!("machines are found on {ranks} ranks of 1 node\n"));
    }
}
