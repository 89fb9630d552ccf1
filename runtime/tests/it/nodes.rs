//! The laws of communicators, and how programs end, on nodes that share no memory.
//!
//! `scripts/nodes` makes the nodes, which not every machine allows; so these tests are ignored by default:
//!
//! ```text
//! cargo test -p polyshard-runtime --test it nodes -- --ignored
//! ```

use polyshard_testing::example_path;
use polyshard_testing::nodes::{LAYOUTS, MapBy, Nodes};
use polyshard_testing::start::{Start, laws, run_with};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(240);

/// Two nodes with two ranks each.
const TWO: Nodes = Nodes { ranks: &[2, 2], map_by: MapBy::Slot };

#[test]
#[ignore = "needs nodes, which scripts/nodes makes"]
fn the_laws_of_communicators_hold_on_nodes() {
    for nodes in LAYOUTS {
        let said = laws(Start::Nodes(nodes), &example_path!("comm_laws"), nodes.size(), LIMIT);
        assert_eq!(said, format!("28 laws hold on {} ranks\n", nodes.size()), "on {nodes}");
    }
}

#[test]
#[ignore = "needs nodes, which scripts/nodes makes"]
fn the_laws_of_memory_hold_on_nodes() {
    for nodes in LAYOUTS {
        let said = laws(Start::Nodes(nodes), &example_path!("memory_laws"), nodes.size(), LIMIT);
        assert_eq!(said, format!("the laws of memory hold on {} ranks\n", nodes.size()), "on {nodes}");
    }
}

/// Checks that a program of four ranks ends soon on two nodes, and returns how often it prints `message`.
#[track_caller]
fn check_ended(program: &str, way: &str, message: &str) -> usize {
    // Waiting ranks ask for the others' state after a second.
    let soon = ["POLYSHARD_WAIT_SECONDS=1"];
    let ended = run_with(&soon, Start::Nodes(TWO), &example_path!(program), &[way], LIMIT);
    assert!(!ended.success, "`{program} {way}` ended with code 0:\n{}", ended.stderr);
    let said = ended.stderr.matches(message).count();
    assert!(said > 0, "`{program} {way}` should say `{message}`:\n{}", ended.stderr);
    assert_eq!(ended.stdout, "", "`{program} {way}` went on");
    assert!(ended.took < Duration::from_secs(60), "`{program} {way}` took {:?}", ended.took);
    said
}

#[test]
#[ignore = "needs nodes, which scripts/nodes makes"]
fn a_failure_on_one_node_ends_the_ranks_of_all() {
    let failures = [
        ("panic", "rank 2 panicked: boom on purpose\n"),
        ("error", "rank 1: the moon is full\n"),
        ("panic in a redistribution", "rank 2 panicked: boom on purpose\n"),
    ];
    for (way, message) in failures {
        assert_eq!(check_ended("comm_failures", way, message), 1, "`{way}` is said once");
    }
    // A message of all ranks may be printed once on each node, before one learns that the other has ended.
    check_ended("comm_failures", "error on all ranks", "the moon is full\n");
}

#[test]
#[ignore = "needs nodes, which scripts/nodes makes"]
fn ranks_out_of_step_are_told_across_nodes() {
    let message = "rank 0 calls broadcast from 0 of 4096 bytes, ranks 1 to 3 call all-gather of 32 bytes: ranks of one \
                   group must call the same\n";
    check_ended("comm_checked", "operations", message);
    let message = "the ranks wait for each other: rank 0 waits to receive 16 bytes from rank 1; rank 1 waits to receive \
                   16 bytes from rank 2; rank 2 waits to receive 16 bytes from rank 3; rank 3 waits to receive 16 bytes \
                   from rank 0\n";
    check_ended("comm_checked", "circle", message);
}
