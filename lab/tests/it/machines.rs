//! Machines that are detected on threads and under `mpirun`.

use polyshard_testing::example_path;
use polyshard_testing::start::{Start, laws};
use std::time::Duration;

#[test]
fn machines_are_found_on_one_to_four_processes() {
    for processes in [1, 2, 3, 4] {
        check(Start::Mpi(processes), processes);
    }
}

#[test]
fn machines_are_found_on_threads() {
    (1..=4).for_each(|ranks| check(Start::Plain, ranks));
}

fn check(start: Start, ranks: usize) {
    let said = laws(start, &example_path!("machine_laws"), ranks, Duration::from_secs(120));
    assert_eq!(said, format!("machines are found on {ranks} ranks of 1 node\n"));
}
