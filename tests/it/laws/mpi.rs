//! The laws under `mpirun`, as on threads.

use polyshard_testing::example_path;
use polyshard_testing::start::{Start, laws, run_with};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn sequences_give_the_sequential_product_on_one_to_eight_processes() {
    for processes in [1, 2, 4, 6, 8] {
        let said = laws(Start::Mpi(processes), &example_path!("product_laws"), processes, LIMIT);
        assert_eq!(said, format!("sharded products hold on {processes} ranks\n"));
    }
}

#[test]
fn programs_give_the_sequential_result_in_place_and_by_messages_on_one_to_eight_processes() {
    for processes in [1, 2, 3, 4, 6, 8] {
        let said = laws(Start::Mpi(processes), &example_path!("program_laws"), processes, 2 * LIMIT);
        let (programs, rest) = said.split_once(' ').expect("their number");
        assert_eq!(rest, format!("programs give the sequential result on {processes} ranks\n"));
        // Programs with long blocks too, the same number on any mesh.
        let wanted = if processes < 3 { 50..=64 } else { 64..=64 };
        assert!(programs.parse().is_ok_and(|programs: usize| wanted.contains(&programs)), "{said}");
    }
}

#[test]
fn programs_give_the_sequential_result_with_progress_threads() {
    for processes in [2, 3, 4] {
        let (program, ranks) = (example_path!("program_laws"), format!("--ranks={processes}"));
        let variables = &["POLYSHARD_PROGRESS=thread"];
        let ended = run_with(variables, Start::Mpi(processes), &program, &[&ranks], Duration::from_secs(240));
        assert!(ended.success, "on {processes} processes, after {:?}:\n{}", ended.took, ended.stderr);
        let said = format!(" programs give the sequential result on {processes} ranks\n");
        assert!(ended.stdout.ends_with(&said), "{}", ended.stdout);
    }
}

#[test]
fn a_progress_that_is_misspelt_is_refused() {
    let (program, limit) = (example_path!("program_laws"), Duration::from_secs(60));
    for start in [Start::Mpi(2), Start::Plain] {
        let ended = run_with(&["POLYSHARD_PROGRESS=treads"], start, &program, &["--ranks=2"], limit);
        assert!(!ended.success, "{start:?} ended with code 0");
        let said = "`POLYSHARD_PROGRESS` is `treads`: set it to slices or thread";
        assert!(ended.stderr.contains(said), "{start:?}:\n{}", ended.stderr);
    }
}

/// On threads and on emulated machines, `tests/it/pipelined.rs` tests the same.
#[test]
fn a_rank_that_panics_while_panels_are_under_way_ends_all_processes() {
    let all = [Start::Mpi(3), Start::Plain].map(|start| ["slices", "thread"].map(|progress| (start, progress)));
    for (start, progress) in all.into_iter().flatten() {
        let (program, variable) = (example_path!("program_laws"), format!("POLYSHARD_PROGRESS={progress}"));
        let ended = run_with(&[&variable], start, &program, &["--ranks=3", "--fail"], Duration::from_secs(60));
        assert!(!ended.success, "{start:?} ended with code 0:\n{}", ended.stderr);
        let said = ended.stderr.matches("rank 1 panicked: the leaf has had enough").count();
        assert_eq!(said, 1, "{start:?} should say once why it ends:\n{}", ended.stderr);
        assert_eq!(ended.stdout, "", "{start:?} went on");
        assert!(ended.took < Duration::from_secs(30), "{start:?} took {:?}", ended.took);
    }
}

#[test]
fn tiles_are_right_on_one_to_eight_processes() {
    for processes in [1, 2, 3, 4, 6, 8] {
        let said = laws(Start::Mpi(processes), &example_path!("redistribute_laws"), processes, 2 * LIMIT);
        assert_eq!(said, format!("redistributions hold on {processes} ranks\n"));
    }
}

#[test]
fn reductions_are_right_on_one_to_eight_processes_and_as_many_threads() {
    for ranks in [1, 2, 3, 4, 6, 8] {
        let program = example_path!("reduce_laws");
        let said = [Start::Mpi(ranks), Start::Plain].map(|start| laws(start, &program, ranks, LIMIT));
        assert!(said[0].ends_with(&format!(" reductions hold on {ranks} ranks\n")), "{}", said[0]);
        assert_eq!(said[0], said[1], "the same ones on processes and on threads");
    }
}
