//! Sharded products under `mpirun`: every sequence of some plans gives the sequential product.
#![cfg(feature = "mpi")]

mod comm_run;

use comm_run::run;
use std::time::Duration;

#[test]
fn sequences_give_the_sequential_product_on_one_to_eight_processes() {
    for processes in [1, 2, 4, 6, 8] {
        let ranks = format!("--ranks={processes}");
        let ended = run("product_laws", &[&ranks], Some(processes), Duration::from_secs(120));
        assert!(ended.success, "on {processes} processes, after {:?}:\n{}", ended.took, ended.stderr);
        assert_eq!(ended.stdout, format!("sharded products hold on {processes} ranks\n"));
    }
}
