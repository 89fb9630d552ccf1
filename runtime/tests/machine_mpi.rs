//! Machines that are found on threads and under `mpirun`.

mod comm_run;

use comm_run::run;
use std::time::Duration;

#[cfg(feature = "mpi")]
#[test]
fn machines_are_found_on_one_to_four_processes() {
    for processes in [1, 2, 3, 4] {
        let ranks = format!("--ranks={processes}");
        let ended = run("machine_laws", &[&ranks], Some(processes), Duration::from_secs(120));
        assert!(ended.success, "on {processes} processes, after {:?}:\n{}", ended.took, ended.stderr);
        assert_eq!(ended.stdout, format!("machines are found on {processes} ranks\n"));
    }
}

#[test]
fn machines_are_found_on_threads() {
    for ranks in [1, 2, 3, 4] {
        let ended = run("machine_laws", &[&format!("--ranks={ranks}")], None, Duration::from_secs(60));
        assert!(ended.success, "on {ranks} threads, after {:?}:\n{}", ended.took, ended.stderr);
        assert_eq!(ended.stdout, format!("machines are found on {ranks} ranks\n"));
    }
}
