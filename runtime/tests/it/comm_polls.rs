//! Polling allocates nothing, on any communicator.

use polyshard_testing::example_path;
use polyshard_testing::start::{Start, run};
use std::time::Duration;

#[test]
fn polling_allocates_nothing() {
    let starts = [(Start::Plain, "--ranks=4"), (Start::Plain, "--emulated")];
    let mpi = cfg!(feature = "mpi").then_some((Start::Mpi(4), "--ranks=4"));
    for (start, argument) in starts.into_iter().chain(mpi) {
        let ended = run(start, &example_path!("comm_polls"), &[argument], Duration::from_secs(60));
        assert!(ended.success, "{start:?} {argument}:\n{}", ended.stderr);
        assert_eq!(ended.stdout, "polling allocates nothing on 4 ranks\n", "{start:?} {argument}");
    }
}
