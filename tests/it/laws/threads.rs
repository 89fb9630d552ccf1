//! The laws of redistributions on threads, in a separate process.

use polyshard_testing::example_path;
use polyshard_testing::start::{Start, run};
use std::time::Duration;

#[test]
fn tiles_are_right_on_threads() {
    let ended = run(Start::Plain, &example_path!("redistribute_laws"), &["--ranks=6"], Duration::from_secs(60));
    assert!(ended.success, "{}", ended.stderr);
    assert_eq!(ended.stdout, "redistributions hold on 6 ranks\n");
}
