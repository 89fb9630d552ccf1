//! The laws of redistributions on threads, in a separate process.

use polyshard_testing::example_path;
use polyshard_testing::start::{Start, laws};
use std::time::Duration;

#[test]
fn tiles_are_right_on_threads() {
    let said = laws(Start::Plain, &example_path!("redistribute_laws"), 6, Duration::from_secs(60));
    assert_eq!(said, "redistributions hold on 6 ranks\n");
}
