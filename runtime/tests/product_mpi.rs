//! Sharded products under `mpirun`: every sequence of some plans gives the sequential product.
#![cfg(feature = "mpi")]

use polyshard_testing::example_path;
use polyshard_testing::start::{Start, run};
use std::time::Duration;

#[test]
fn sequences_give_the_sequential_product_on_one_to_eight_processes() {
    for processes in [1, 2, 4, 6, 8] {
        let ranks = format!("--ranks={processes}");
        let ended = run(Start::Mpi(processes), &example_path!("product_laws"), &[&ranks], Duration::from_secs(120));
        assert!(ended.success, "on {processes} processes, after {:?}:\n{}", ended.took, ended.stderr);
        assert_eq!(ended.stdout, format!("sharded products hold on {processes} ranks\n"));
    }
}
