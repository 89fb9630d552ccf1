//! Unchecked programs: ranks on MPI that wait for messages that can never arrive print an error and end, within the time that is set.

use polyshard_testing::example_path;
use polyshard_testing::start::{Ended, Start, run_with};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn run(way: &str) -> Ended {
    let soon = ["POLYSHARD_WAIT_SECONDS=1"];
    run_with(&soon, Start::Mpi(4), &example_path!("comm_checked"), &[way, "unchecked"], LIMIT)
}

/// Checks that all ranks end soon, with a non-zero exit code, and that `message` is printed once.
#[track_caller]
fn check(way: &str, message: &str) {
    let ended = run(way);
    let stderr = &ended.stderr;
    assert!(!ended.success, "`{way}` ended with code 0:\n{stderr}");
    let said =
        stderr.lines().filter(|line| *line == format!("error: the ranks wait for each other: {message}")).count();
    assert_eq!(said, 1, "`{way}` should say `{message}` once:\n{stderr}");
    assert_eq!(ended.stdout, "", "`{way}` went on");
    assert!(ended.took < Duration::from_secs(20), "`{way}` took {:?}", ended.took);
}

#[test]
fn a_rank_that_leaves_the_program_ends_those_that_wait_for_it() {
    check("an early return", "ranks 0 to 2 wait in barrier; rank 3 has ended");
    let message = "rank 0 waits to receive 1 byte from rank 2; ranks 1 to 3 have ended";
    check("a message from one that has ended", message);
}

#[test]
fn a_rank_that_leaves_its_process_ends_those_that_wait_for_it() {
    check("exit of 1", "ranks 0, 2 and 3 wait in barrier; rank 1 has called `exit`");
    let message =
        "rank 0 waits to receive 16 bytes from rank 3; ranks 1 and 2 wait in barrier; rank 3 has called `exit`";
    check("exit of 3 from a message", message);
    // Ranks that have reached the end get the error immediately.
    check("exit of 2 at the end", "ranks 0, 1 and 3 have ended; rank 2 has called `exit`");
}

#[test]
fn a_rank_that_gathers_alone_is_told_that_the_others_have_ended() {
    check("a lonely gather", "rank 0 waits in gather to 0 of f64; ranks 1 to 3 have ended");
}

#[test]
fn a_rank_that_runs_another_program_is_named_with_it() {
    let ended = run("another program");
    assert!(!ended.success, "{}", ended.stderr);
    let said =
        |line: &&str| line.starts_with("error: the ranks wait for each other: ranks 0 and 2 have ended; rank 1 waits ");
    let lines: Vec<&str> = ended.stderr.lines().filter(said).collect();
    assert!(
        matches!(lines[..], [line] if line.contains("; rank 3 waits ") && line.contains(" for `A`, run at ")),
        "{}",
        ended.stderr
    );
}

#[test]
fn messages_without_their_other_half_end_the_program() {
    let receives = |rank: usize| format!("rank {rank} waits to receive 16 bytes from rank {}", (rank + 1) % 4);
    check("circle", &[0, 1, 2, 3].map(receives).join("; "));
    check("circle of flights", &[0, 1, 2, 3].map(receives).join("; "));
    let message = "ranks 0 to 2 wait in barrier; rank 3 waits to receive 4 bytes from rank 1";
    check("a flight that is not posted", message);
    let message = "rank 0 waits in barrier with ranks 0 and 1; rank 1 waits in barrier with ranks 1 and 3; rank 2 waits in \
                   barrier with ranks 0 and 2; rank 3 waits in barrier with ranks 2 and 3";
    check("crossed groups", message);
}

#[test]
fn a_rank_that_computes_for_long_is_waited_for_without_a_word() {
    let ended = run("work");
    assert!(ended.success, "{}", ended.stderr);
    assert!(ended.stdout.contains("`work` is in step"), "{}", ended.stdout);
    assert_eq!(ended.stderr, "");
}

#[test]
fn times_that_are_none_are_refused() {
    let ended =
        run_with(&["POLYSHARD_WAIT_SECONDS=soon"], Start::Mpi(4), &example_path!("comm_checked"), &["none"], LIMIT);
    assert!(!ended.success);
    let message = "`POLYSHARD_WAIT_SECONDS` is `soon`: set it to a number of seconds above 0, such as 10\n";
    assert_eq!(ended.stderr.matches(message).count(), 1, "{}", ended.stderr);
}
