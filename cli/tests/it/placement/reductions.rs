//! `polyshard reduce`: programs, their groups, and runs. `planner/tests` has the worked examples of the literature.

use super::{answered, numbers, said};
use expect_test::expect;
use polyshard::program::reduction::{Collective, Lowered, LoweredStep};
use serde_json::Value;

/// Half a node on each of two nodes.
const ACROSS: [&str; 9] =
    ["reduce", "--matrix", "[[2,4],[2,4]]", "--reduce", "0", "--machine", "a100", "--bytes", "1e9"];

fn programs(answer: &Value) -> &[Value] {
    answer["programs"].as_array().expect("a list")
}

#[test]
fn programs_are_listed_fastest_first_and_the_fastest_is_explained() {
    expect![[r#"
        1 GB per rank summed over axis 0 of [[2 4] [2 4]] on a100: 4 nodes x 16 gpus, by ring
        levels root 1, node 2, gpu 4; 47 programs, speed against AllReduce in one step
             seconds  speed  program
        *1  505.6 ms  1.73x  ReduceScatter(node, InsideGroup); AllReduce(node, Parallel(root)); AllGather(node, InsideGroup)
         2  505.6 ms  1.73x  ReduceScatter(node, InsideGroup); ReduceScatter(node, Parallel(root)); AllGather(node, Parallel(root)); AllGather(node, InsideGroup)
         3  507.5 ms  1.72x  Reduce(node, InsideGroup); AllReduce(node, Master(root)); Broadcast(node, InsideGroup)
         4  690.3 ms  1.27x  ReduceScatter(root, InsideGroup); AllGather(node, Parallel(root)); AllGather(node, InsideGroup)
         5  690.3 ms  1.27x  ReduceScatter(node, InsideGroup); ReduceScatter(node, Parallel(root)); AllGather(root, InsideGroup)
         6  875.1 ms  1.00x  AllReduce(root, InsideGroup)
        and 41 more
        steps of program 1:
        1 ReduceScatter in 16 groups of 4, the first {0 4 8 12}: 2.78 ms, the ports out of rank 0 at level `gpu`
        2 AllReduce in 32 groups of 2, the first {0 32}: 500.0 ms, the ports out of node 0
        3 AllGather in 16 groups of 4, the first {0 4 8 12}: 2.78 ms, the ports out of rank 0 at level `gpu`
    "#]].assert_eq(&said(&[&ACROSS[..], &["--top", "6"]].concat()));
}

#[test]
fn a_program_is_explained_by_its_name_or_number() {
    let by_name = said(&[&ACROSS[..], &["--top", "3", "--program", "reduce-allreduce-broadcast"]].concat());
    expect![[r#"
        1 GB per rank summed over axis 0 of [[2 4] [2 4]] on a100: 4 nodes x 16 gpus, by ring
        levels root 1, node 2, gpu 4; 47 programs, speed against AllReduce in one step
             seconds  speed  program
         1  505.6 ms  1.73x  ReduceScatter(node, InsideGroup); AllReduce(node, Parallel(root)); AllGather(node, InsideGroup)
         2  505.6 ms  1.73x  ReduceScatter(node, InsideGroup); ReduceScatter(node, Parallel(root)); AllGather(node, Parallel(root)); AllGather(node, InsideGroup)
        *3  507.5 ms  1.72x  Reduce(node, InsideGroup); AllReduce(node, Master(root)); Broadcast(node, InsideGroup)
        and 44 more
        steps of program 3:
        1 Reduce in 16 groups of 4, the first {0 4 8 12}: 3.71 ms, the ports out of rank 4 at level `gpu`
        2 AllReduce in 8 groups of 2, the first {0 32}: 500.0 ms, the ports out of node 0
        3 Broadcast in 16 groups of 4, the first {0 4 8 12}: 3.71 ms, the ports out of rank 0 at level `gpu`
    "#]].assert_eq(&by_name);
    assert_eq!(said(&[&ACROSS[..], &["--top", "3", "--program", "3"]].concat()), by_name);
}

#[test]
fn matrices_are_read_as_they_are_printed() {
    let printed = ACROSS.map(|word| if word.starts_with('[') { "[[2 4] [2 4]]" } else { word });
    assert_eq!(said(&printed), said(&ACROSS));
    assert_eq!(said(&[&ACROSS[..], &["--hierarchy", "4,16"]].concat()), said(&ACROSS));
}

#[test]
fn what_is_told_of_a_program_is_enough_to_prove_it() {
    let answer = answered(&ACROSS);
    assert_eq!(programs(&answer).len(), 47);
    let seconds: Vec<f64> = programs(&answer).iter().map(|program| numbers(&program["seconds"])).collect();
    assert!(seconds.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-8)), "{seconds:?}");
    // Ranks of the first axis: half of two nodes' coordinates.
    let direct = programs(&answer).iter().find(|program| program["name"] == "AllReduce").expect("one step");
    let reduced: Vec<Vec<usize>> = numbers(&direct["steps"][0]["groups"]);
    for program in programs(&answer) {
        // The number of parts of the array before each step, which follows from the steps before it.
        let (mut parts, mut steps) = (1, Vec::new());
        for step in program["steps"].as_array().expect("a list") {
            let (collective, groups): (Collective, Vec<Vec<usize>>) = (numbers(&step["op"]), numbers(&step["groups"]));
            let n = groups[0].len();
            steps.push(LoweredStep { collective, groups: groups.into(), parts });
            match collective {
                Collective::ReduceScatter => parts *= n,
                Collective::AllGather => parts /= n,
                _ => {}
            }
        }
        let sum: f64 = program["steps"].as_array().expect("a list").iter().map(|s| numbers::<f64>(&s["seconds"])).sum();
        assert!((sum / numbers::<f64>(&program["seconds"]) - 1.0).abs() < 1e-12, "{program}");
        let lowered = Lowered::from_steps(reduced.clone(), 8, steps).and_then(|lowered| lowered.prove());
        lowered.unwrap_or_else(|why| panic!("{why}: {program}"));
    }
}

#[test]
fn every_program_runs_on_threads_and_every_sum_is_right() {
    let all = ["reduce", "--matrix", "[[2,2],[2,1]]", "--reduce", "0", "--machine", "a100", "--bytes", "1e6", "--run"];
    for elements in ["0", "1", "3", "1003"] {
        let answer = answered(&[&all[..], &["--elements", elements]].concat());
        let run = &answer["run"];
        assert_eq!([&run["programs"], &run["ranks"]], [47, 8]);
        assert_eq!(run["elements"].to_string(), elements);
        assert_eq!(run["received_bytes"].as_array().map(Vec::len), Some(47));
    }
    expect![[r#"
        1 MB per rank summed over axis 0 of [[2 2] [2 1]] on a100: 4 nodes x 2 gpus, by ring
        levels root 1, node 2, gpu 2; 47 programs, speed against AllReduce in one step
             seconds  speed  program
        *1  174.7 us  1.34x  ReduceScatter(node, InsideGroup); AllReduce(node, Parallel(root)); AllGather(node, InsideGroup)
         2  174.7 us  1.34x  ReduceScatter(node, InsideGroup); ReduceScatter(node, Parallel(root)); AllGather(node, Parallel(root)); AllGather(node, InsideGroup)
        and 45 more
        steps of program 1:
        1 ReduceScatter in 4 groups of 2, the first {0 1}: 4.85 us, the ports out of rank 0 at level `gpu`
        2 AllReduce in 4 groups of 2, the first {0 4}: 165 us, the ports out of node 0
        3 AllGather in 4 groups of 2, the first {0 1}: 4.85 us, the ports out of rank 0 at level `gpu`
        ran 2 programs on 8 threads with 1003 numbers each, and checked all sums
        received by all ranks together: 96288 bytes
    "#]].assert_eq(&said(&[&all[..], &["--top", "2"]].concat()));
    let both = ["reduce", "--matrix", "[[3,1],[1,2]]", "--reduce", "0,1", "--machine", "v100", "--bytes", "1e6"];
    assert!(said(&[&both[..], &["--run"]].concat()).contains("ran 16 programs on 6 threads with 1003 numbers each"));
}

#[test]
fn a_reduction_over_one_rank_is_nothing_to_do() {
    expect![[r#"
        1 GB per rank summed over axis 0 of [[1 1] [1 2]] on a100: 1 node x 2 gpus, by ring
        levels root 1; one program, speed against AllReduce in one step
            seconds  speed  program
        *1        0      -  nothing
        nothing to do: along these axes there is one rank
        ran one program on 2 threads with 1003 numbers each, and checked all sums
        received by all ranks together: 0 bytes
    "#]]
    .assert_eq(&said(&[
        "reduce",
        "--matrix",
        "[[1,1],[1,2]]",
        "--reduce",
        "0",
        "--machine",
        "a100",
        "--bytes",
        "1e9",
        "--run",
    ]));
}
