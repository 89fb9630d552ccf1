//! Reductions and placements under `mpirun`: the laws that hold on threads.
#![cfg(feature = "mpi")]

mod comm_run;

use comm_run::run;
use std::time::Duration;

#[test]
fn reductions_are_right_on_one_to_eight_processes_and_as_many_threads() {
    for ranks in [1, 2, 3, 4, 6, 8] {
        let argument = format!("--ranks={ranks}");
        let said = [Some(ranks), None].map(|processes| {
            let ended = run("reduce_laws", &[&argument], processes, Duration::from_secs(120));
            assert!(ended.success, "{processes:?}, {ranks} ranks, after {:?}:\n{}", ended.took, ended.stderr);
            ended.stdout
        });
        assert!(said[0].ends_with(&format!(" reductions hold on {ranks} ranks\n")), "{}", said[0]);
        assert_eq!(said[0], said[1], "the same ones on processes and on threads");
    }
}
