//! Reductions and placements under `mpirun`: the laws that hold on threads.
#![cfg(feature = "mpi")]

use polyshard_testing::example_path;
use polyshard_testing::start::{Start, run};
use std::time::Duration;

#[test]
fn reductions_are_right_on_one_to_eight_processes_and_as_many_threads() {
    for ranks in [1, 2, 3, 4, 6, 8] {
        let argument = format!("--ranks={ranks}");
        let said = [Start::Mpi(ranks), Start::Plain].map(|start| {
            let ended = run(start, &example_path!("reduce_laws"), &[&argument], Duration::from_secs(120));
            assert!(ended.success, "{start:?}, {ranks} ranks, after {:?}:\n{}", ended.took, ended.stderr);
            ended.stdout
        });
        assert!(said[0].ends_with(&format!(" reductions hold on {ranks} ranks\n")), "{}", said[0]);
        assert_eq!(said[0], said[1], "the same ones on processes and on threads");
    }
}
