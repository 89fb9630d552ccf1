//! A failure on one rank ends all ranks, with its message printed once and a non-zero exit code.

use polyshard_testing::example_path;
use polyshard_testing::start::{Ended, Start, run, run_with};
use std::path::Path;
use std::time::Duration;

/// Runs the example that fails, on threads and under `mpirun`.
fn failures(way: &str) -> Vec<(&'static str, Ended)> {
    let limit = Duration::from_secs(30);
    let mut ended = vec![("threads", run(Start::Plain, &example_path!("comm_failures"), &[way], limit))];
    if cfg!(feature = "mpi") {
        ended.push(("MPI", run(Start::Mpi(4), &example_path!("comm_failures"), &[way], limit)));
    }
    ended
}

/// Returns how often `text` is printed on standard error.
fn said(ended: &Ended, text: &str) -> usize {
    ended.stderr.matches(text).count()
}

#[track_caller]
fn check(way: &str, message: &str) {
    for (backend, ended) in failures(way) {
        let stderr = &ended.stderr;
        assert!(!ended.success, "`{way}` on {backend} ended with code 0:\n{stderr}");
        assert_eq!(said(&ended, message), 1, "`{way}` on {backend} should say `{message}` once:\n{stderr}");
        if backend == "MPI" {
            let is_last = |line: &str| line.starts_with("error: ") && format!("{line}\n").contains(message);
            assert!(stderr.lines().any(is_last), "`{way}` on {backend} should begin with `error: `:\n{stderr}");
        }
        assert_eq!(ended.stdout, "", "`{way}` on {backend} went on");
        assert!(ended.took < Duration::from_secs(10), "`{way}` on {backend} took {:?}", ended.took);
    }
}

#[test]
fn a_panic_on_one_rank_is_told_with_its_message() {
    check("panic", "rank 2 panicked: boom on purpose\n");
    check("panic in a group", "rank 3 panicked: boom on purpose\n");
}

#[test]
fn an_error_on_one_rank_is_told_with_its_rank() {
    check("error", "rank 1: the moon is full\n");
    check("error of the library", "rank 3: no rank 9: the group has ranks 0..4\n");
    check("file", "rank 1: No such file or directory (os error 2)\n");
    check("abort", "rank 2: enough\n");
}

#[test]
fn a_failure_while_memory_is_shared_ends_all_ranks() {
    check("panic in a redistribution", "rank 2 panicked: boom on purpose\n");
    check("error between redistributions", "rank 1: the moon is full\n");
}

#[test]
fn an_error_on_all_ranks_is_told_once() {
    check("error on all ranks", "the moon is full\n");
}

#[test]
fn memory_that_one_rank_does_not_get_ends_all() {
    let what = "a rank's block of an array of shape [1073741824, 33554432]";
    check("memory", &format!("rank 2: cannot allocate 288230376151711744 bytes (288.2 PB) for {what}: "));
}

#[test]
fn a_file_that_cannot_be_written_is_told_once() {
    check("unwritable", "rank 0: cannot write `/none/a.npy`: the folder `/none` does not exist; create it first\n");
}

#[test]
fn messages_of_another_length_are_told_with_both_lengths() {
    check("length", "rank 3 receives 64 bytes from rank 0 into a buffer of 48: the ranks disagree on the message\n");
    let message = "rank 1 receives 64 bytes from rank 0 into a buffer of 65: the ranks disagree on the message\n";
    check("length in an exchange", message);
    let message = "rank 1 receives 66 bytes from rank 0 into a buffer of 65: the ranks disagree on the message\n";
    check("longer among several", message);
    check("longer in a shift", message);
}

#[test]
fn a_failure_ends_the_polls_of_all() {
    check("panic while others poll", "rank 2 panicked: boom on purpose\n");
    check("error while others poll", "rank 1: the moon is full\n");
    let message = "rank 3 receives 64 bytes from rank 0 into a buffer of 48: the ranks disagree on the message\n";
    check("length of a flight", message);
}

#[test]
fn a_flight_that_is_dropped_is_told_by_the_next_call_or_at_the_end() {
    let what = "dropped a flight before it completed: `poll` it until it has, or `wait` for it\n";
    check("dropped flight", &format!("rank 1 {what}"));
    check("dropped flight at the end", &format!("rank 1 {what}"));
    check("dropped rounds", &format!("rank 2 {what}"));
}

#[test]
fn ranks_that_create_different_things_say_the_same_once() {
    let message = "rank 0: ranks disagree: rank 0 creates a redistribution from [0 @ x] to [1 @ x], rank 2 creates a \
                   redistribution from [0 @ x] to [0 @ x]; all ranks must create the same objects in the same order\n";
    check("different redistributions", message);
}

#[test]
fn spmd_inside_of_spmd_is_refused() {
    check("nested", "`spmd` was called inside of `spmd`");
}

#[test]
fn a_program_without_failures_succeeds() {
    for (backend, ended) in failures("none") {
        assert!(ended.success, "on {backend}:\n{}", ended.stderr);
    }
}

#[cfg(feature = "mpi")]
#[test]
fn a_wrong_number_of_processes_is_said_once() {
    let run =
        |processes| run(Start::Mpi(processes), &example_path!("comm_failures"), &["none"], Duration::from_secs(30));
    let ended = run(3);
    assert!(!ended.success);
    let message = "rank 0: the program is for 4 ranks, but runs on 3: start it with `mpirun -n 4`\n";
    assert_eq!(said(&ended, "the program is for 4 ranks"), 1, "{}", ended.stderr);
    assert_eq!(said(&ended, message), 1, "{}", ended.stderr);
    assert!(ended.took < Duration::from_secs(10), "took {:?}", ended.took);
    // One process runs them as threads.
    let ended = run(1);
    assert!(ended.success, "{}", ended.stderr);
}

#[cfg(all(feature = "mpi", target_os = "linux", target_env = "gnu"))]
#[test]
fn a_process_that_fails_between_two_programs_ends_the_others() {
    let ended = run(Start::Mpi(4), &example_path!("comm_failures"), &["later"], Duration::from_secs(30));
    assert!(!ended.success);
    assert_eq!(said(&ended, "trouble after the ranks had joined"), 1, "{}", ended.stderr);
    assert!(ended.took < Duration::from_secs(10), "took {:?}", ended.took);
}

#[cfg(not(feature = "mpi"))]
#[test]
fn a_launcher_is_refused_without_the_feature() {
    let binary = example_path!("comm_failures");
    let of_processes = |count| {
        std::process::Command::new(&binary).arg("none").env("PMI_RANK", "0").env("PMI_SIZE", count).output().unwrap()
    };
    assert!(of_processes("1").status.success(), "one process runs the ranks as threads");
    let output = of_processes("2");
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("(`PMI_RANK` is set), but polyshard was built without MPI: build it with"), "{stderr}");
}

/// The vectors that the ranks of `ended` multiply with, each once.
fn vectors(ended: &Ended) -> Vec<&str> {
    assert!(ended.success, "{}", ended.stderr);
    let mut all: Vec<_> = ended.stdout.lines().filter_map(|line| line.split_once(" multiplies with ")).collect();
    assert_eq!(all.len(), 4, "{}", ended.stdout);
    all.sort_unstable_by_key(|(_, vectors)| *vectors);
    all.dedup_by_key(|(_, vectors)| *vectors);
    all.into_iter().map(|(_, vectors)| vectors).collect()
}

#[test]
fn ranks_multiply_with_the_vectors_that_all_of_them_may_use() {
    let (limit, program) = (Duration::from_secs(30), example_path!("comm_failures"));
    for start in [Start::Plain, Start::Mpi(4)].into_iter().take(if cfg!(feature = "mpi") { 2 } else { 1 }) {
        let without = run_with(&["POLYSHARD_AVX512=0"], start, &program, &["vectors"], limit);
        assert_ne!(vectors(&without), ["AVX-512"]);
        let ended = run_with(&["POLYSHARD_AVX512=no"], start, &program, &["vectors"], limit);
        assert!(
            !ended.success && ended.stderr.contains("`POLYSHARD_AVX512` is `no`: set it to 1 or 0\n"),
            "{}",
            ended.stderr
        );
        if matches!(start, Start::Mpi(_)) {
            // Only rank 0 does without AVX-512.
            let script = "POLYSHARD_AVX512=$((OMPI_COMM_WORLD_RANK > 0)) exec \"$0\" vectors";
            let program = program.to_str().expect("paths of tests are text");
            let ended = run(start, Path::new("sh"), &["-c", script, program], limit);
            assert_eq!(vectors(&ended), vectors(&without));
        }
    }
}
