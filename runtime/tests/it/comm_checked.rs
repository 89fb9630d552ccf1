//! Checked programs: ranks that are out of step get the same messages on MPI as on threads, and all of them end.

use polyshard_testing::example_path;
use polyshard_testing::start::{Ended, Start, run_with};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Makes waiting ranks ask for the others' state after a second.
const SOON: &str = "POLYSHARD_WAIT_SECONDS=1";

#[cfg_attr(not(feature = "mpi"), allow(dead_code, reason = "there is nothing to start without MPI"))]
fn on_mpi(way: &str) -> Ended {
    run_with(&[SOON], Start::Mpi(4), &example_path!("comm_checked"), &[way], LIMIT)
}

/// Checks that a program ends soon, and prints `message` once, on a line of its own.
#[track_caller]
fn check_ended(ended: &Ended, way: &str, backend: &str, message: &str) {
    let stderr = &ended.stderr;
    assert!(!ended.success, "`{way}` on {backend} ended with code 0:\n{stderr}");
    // On threads, the standard library prints the error that `main` returns.
    let begin = if backend == "MPI" { "error: " } else { "Error: " };
    let lines = stderr.lines().filter(|line| line.strip_prefix(begin) == Some(message)).count();
    assert_eq!(lines, 1, "`{way}` on {backend} should say `{message}` once:\n{stderr}");
    assert_eq!(ended.stdout, "", "`{way}` on {backend} went on");
    assert!(ended.took < Duration::from_secs(30), "`{way}` on {backend} took {:?}", ended.took);
}

/// Checks the message on threads and on MPI.
#[track_caller]
fn check(way: &str, message: &str) {
    check_ended(
        &run_with(&[SOON], Start::Plain, &example_path!("comm_checked"), &[way], LIMIT),
        way,
        "threads",
        message,
    );
    #[cfg(feature = "mpi")]
    check_ended(&on_mpi(way), way, "MPI", message);
}

#[test]
fn ranks_that_call_different_collectives_are_told() {
    let message = "rank 0 calls broadcast from 0 of 4096 bytes, ranks 1 to 3 call all-gather of 32 bytes: ranks of one \
                   group must call the same";
    check("operations", message);
    let message = "ranks 0, 1 and 3 call all-gather of f64, rank 2 calls gather to 0 of f64: ranks of one group must \
                   call the same";
    check("typed operations", message);
}

#[test]
fn ranks_that_name_different_roots_are_told() {
    let message = "ranks 0, 2 and 3 call broadcast from 2 of 8 bytes, rank 1 calls broadcast from 0 of 8 bytes: ranks of \
                   one group must call the same";
    check("roots", message);
    let message =
        "ranks 0 to 2 call gather to 0 of i32, rank 3 calls gather to 1 of i32: ranks of one group must call the same";
    check("typed roots", message);
}

#[test]
fn ranks_that_count_differently_are_told() {
    let message = "ranks 0, 1 and 3 call all-reduce of 32 bytes (sum of f64), rank 2 calls all-reduce of 24 bytes (sum of \
                   f64): ranks of one group must call the same";
    check("counts", message);
    let message = "in an all-to-all, rank 1 sends 2 bytes to rank 2, which expects 1: both ranks must count the same";
    check("lengths of an all-to-all", message);
}

#[test]
fn ranks_that_reduce_differently_are_told() {
    let message = "rank 0 calls reduce to 1 of 8 bytes (max of i32), ranks 1 to 3 call reduce to 1 of 8 bytes (min of \
                   i32): ranks of one group must call the same";
    check("reductions", message);
    let message =
        "ranks 0 to 2 call all-gather of f32, rank 3 calls all-gather of f64: ranks of one group must call the same";
    check("typed elements", message);
}

#[test]
fn groups_name_their_ranks_as_the_world_does() {
    let message =
        "rank 1 calls barrier, rank 3 calls broadcast from 3 of 2 bytes: ranks of one group must call the same";
    check("groups", message);
}

#[test]
fn ranks_that_wait_for_each_other_say_for_what() {
    let message = "the ranks wait for each other: ranks 0 to 2 wait in barrier; rank 3 waits to receive 16 bytes from \
                   rank 0";
    check("a missing call", message);
    let message = "the ranks wait for each other: rank 0 waits to receive 16 bytes from rank 1; rank 1 waits to receive \
                   16 bytes from rank 2; rank 2 waits to receive 16 bytes from rank 3; rank 3 waits to receive 16 bytes \
                   from rank 0";
    check("circle", message);
    let message = "the ranks wait for each other: rank 0 waits in barrier with ranks 0 and 1; rank 1 waits in barrier \
                   with ranks 1 and 3; rank 2 waits in barrier with ranks 0 and 2; rank 3 waits in barrier with ranks 2 \
                   and 3";
    check("crossed groups", message);
}

#[test]
fn ranks_that_wait_for_flights_say_for_what() {
    let message = "the ranks wait for each other: rank 0 waits to receive 16 bytes from rank 1; rank 1 waits to receive \
                   16 bytes from rank 2; rank 2 waits to receive 16 bytes from rank 3; rank 3 waits to receive 16 bytes \
                   from rank 0";
    check("circle of flights", message);
    let message = "the ranks wait for each other: ranks 0 to 2 wait in barrier; rank 3 waits to receive 4 bytes from \
                   rank 1";
    check("a flight that is not posted", message);
}

#[test]
fn a_rank_that_has_ended_is_named() {
    check("an early return", "the ranks wait for each other: ranks 0 to 2 wait in barrier; rank 3 has ended");
    check(
        "a message from one that has ended",
        "the ranks wait for each other: rank 0 waits to receive 1 byte from rank 2; ranks 1 to 3 have ended",
    );
}

#[test]
fn a_program_in_step_succeeds_and_says_nothing() {
    for start in [Start::Plain, if cfg!(feature = "mpi") { Start::Mpi(4) } else { Start::Plain }] {
        let ended = run_with(&[], start, &example_path!("comm_checked"), &["none"], LIMIT);
        assert!(ended.success, "{}", ended.stderr);
        assert_eq!(ended.stderr, "");
    }
}

#[cfg(feature = "mpi")]
#[test]
fn a_rank_that_leaves_its_process_is_named() {
    for (way, message) in [
        ("exit of 1", "ranks 0, 2 and 3 wait in barrier; rank 1 has called `exit`"),
        ("exit of 0", "rank 0 has called `exit`; ranks 1 to 3 wait in barrier"),
        (
            "exit of 3 from a message",
            "rank 0 waits to receive 16 bytes from rank 3; ranks 1 and 2 wait in barrier; rank 3 has called `exit`",
        ),
    ] {
        check_ended(&on_mpi(way), way, "MPI", &format!("the ranks wait for each other: {message}"));
    }
}

#[cfg(feature = "mpi")]
#[test]
fn sends_that_nobody_receives_are_named() {
    let way = "sends that nobody receives";
    let message = "the ranks wait for each other: rank 0 waits to send 16777216 bytes to rank 1; rank 1 waits to send \
                   16777216 bytes to rank 2; rank 2 waits to send 16777216 bytes to rank 3; rank 3 waits to send 16777216 \
                   bytes to rank 0";
    check_ended(&on_mpi(way), way, "MPI", message);
}

#[cfg(feature = "mpi")]
#[test]
fn ranks_that_wait_for_one_at_work_say_nothing_and_wait() {
    let ended = on_mpi("work");
    assert!(ended.success, "{}", ended.stderr);
    assert!(ended.stdout.contains("`work` is in step"), "{}", ended.stdout);
    assert_eq!(ended.stderr, "", "a rank at work does not cause a report");
}

#[test]
fn an_invalid_value_in_the_environment_is_an_error_on_threads_too() {
    let way = "roots";
    let ended = run_with(&["POLYSHARD_CHECK=yes"], Start::Plain, &example_path!("comm_checked"), &[way], LIMIT);
    check_ended(&ended, way, "threads", "rank 0: `POLYSHARD_CHECK` is `yes`: set it to 1 or 0");
}

#[cfg(feature = "mpi")]
#[test]
fn the_environment_of_a_program_has_it_checked() {
    let way = "panic in a group";
    let ended = run_with(&["POLYSHARD_CHECK=1", SOON], Start::Mpi(4), &example_path!("comm_failures"), &[way], LIMIT);
    check_ended(&ended, way, "MPI", "rank 3 panicked: boom on purpose");
    let ended = run_with(&["POLYSHARD_CHECK=yes"], Start::Mpi(4), &example_path!("comm_failures"), &["none"], LIMIT);
    assert!(!ended.success);
    let message = "rank 0: `POLYSHARD_CHECK` is `yes`: set it to 1 or 0\n";
    assert_eq!(ended.stderr.matches(message).count(), 1, "{}", ended.stderr);
}

#[cfg(feature = "mpi")]
#[test]
fn the_laws_hold_where_they_are_checked() {
    for processes in [1, 3] {
        let ranks = format!("--ranks={processes}");
        let ended =
            run_with(&["POLYSHARD_CHECK=1"], Start::Mpi(processes), &example_path!("comm_laws"), &[&ranks], 2 * LIMIT);
        assert!(ended.success, "on {processes} processes, after {:?}:\n{}", ended.took, ended.stderr);
        assert_eq!(ended.stdout, format!("28 laws hold on {processes} ranks\n"));
    }
}

#[cfg(feature = "mpi")]
#[test]
fn redistributions_are_right_where_they_are_checked() {
    let ended =
        run_with(&["POLYSHARD_CHECK=1"], Start::Mpi(4), &example_path!("redistribute_laws"), &["--ranks=4"], 2 * LIMIT);
    assert!(ended.success, "after {:?}:\n{}", ended.took, ended.stderr);
}
