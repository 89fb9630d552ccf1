//! The example `allreduce`: right on any machine, mesh, length and type, with its steps printed.

use super::check_run;
use polyshard_testing::start::Start;

/// Runs the reduction, and checks that the results of all three strategies were compared.
#[track_caller]
fn check_reduction(start: Start, arguments: &str) {
    let stdout = check_run(start, &format!("allreduce {arguments}"));
    assert_eq!(stdout.matches("; the sum is exact\n").count(), 3, "`allreduce {arguments}`:\n{stdout}");
}

#[test]
fn the_reduction_is_right_on_threads_on_any_machine_mesh_and_length() {
    let machines = ["a100", "v100", "tpu-v5e"];
    for (hierarchy, mesh, reduce) in [
        ("1,1", "1", "0"),
        ("1,3", "3", "0"),
        ("2,2", "4", "0"),
        ("2,4", "4x2", "0"),
        ("2,4", "2x2x2", "0,2"),
        ("3,2", "2x3", "1"),
        ("3,4", "12", "0"),
    ] {
        for (machine, elements) in machines.into_iter().zip([1000, 0, 7]) {
            let sum = format!("--hierarchy {hierarchy} --mesh {mesh} --reduce {reduce}");
            check_reduction(Start::Plain, &format!("{sum} --machine {machine} --elements {elements}"));
        }
    }
    check_reduction(Start::Plain, "--machine tpu-v4p --elements 100");
    check_reduction(Start::Plain, "");
}

#[test]
fn the_reduction_tells_its_placement_program_and_bytes() {
    let stdout = check_run(Start::Plain, "allreduce --hierarchy 2,2 --elements 1000000");
    assert!(stdout.starts_with("best of 1 placements: [[2 2]], in 5.608e-4 s\n"), "{stdout}");
    let program = "\
1000000 elements of f32 over `p0`, by the fastest program
(p0: 4) as [[2 2]] on a100: 2 nodes x 2 gpus
  1. ReduceScatter(node, InsideGroup)  {0 1} {2 3}  1.041e-5 s, the ports out of rank 0 at level `gpu`
  2. AllReduce(node, Parallel(root))   {0 2} {1 3}  5.400e-4 s, the ports out of node 0
  3. AllGather(node, InsideGroup)      {0 1} {2 3}  1.041e-5 s, the ports out of rank 0 at level `gpu`
simulated: 5.608e-4 s, 1.42 times as fast as one all-reduce, 7.960e-4 s
";
    assert!(stdout.contains(program), "{stdout}");
    // In one all-reduce, by the fastest program, and in rank order.
    let runs: Vec<_> = stdout.lines().filter(|line| line.contains(" bytes received by rank 0")).collect();
    assert_eq!(runs.len(), 3, "{stdout}");
    for (line, bytes) in runs.into_iter().zip([12_000_000, 6_000_000, 6_000_000]) {
        assert!(line.contains(&format!(" s, {bytes} bytes received by rank 0; ")), "{line}");
    }
}
