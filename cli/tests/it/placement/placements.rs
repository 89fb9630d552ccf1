//! `polyshard placement`: the worked examples, and placements ranked by a workload.

use super::{answered, cases, file, joined, mesh, numbers, said};
use expect_test::expect;
use polyshard::machine::Machine;
use serde_json::{Value, json};

#[test]
fn the_matrices_of_a_worked_example_are_found() {
    for case in cases("matrices").iter().take(1) {
        let (hierarchy, axes) = (joined(&case["hierarchy"]), mesh(&case["axes"]));
        let answer = answered(&["placement", "--hierarchy", &hierarchy, "--mesh", &axes]);
        let expected = ["hierarchy", "axes", "matrices"].map(|key| (key.to_owned(), case[key].clone()));
        assert_eq!(answer, Value::Object(expected.into_iter().collect()));
    }
}

#[test]
fn placements_say_where_each_axis_is_cut() {
    expect![[r#"
        mesh 8x2x4 on 4 level0 x 16 level1
           matrix               axis 0               axis 1    axis 2
        1  [[1 8] [1 2] [4 1]]  8 level1             2 level1  4 level0
        2  [[1 8] [2 1] [2 2]]  8 level1             2 level0  2 level0 x 2 level1
        3  [[2 4] [1 2] [2 2]]  2 level0 x 4 level1  2 level1  2 level0 x 2 level1
        4  [[2 4] [2 1] [1 4]]  2 level0 x 4 level1  2 level0  4 level1
        5  [[4 2] [1 2] [1 4]]  4 level0 x 2 level1  2 level1  4 level1
    "#]]
    .assert_eq(&said(&["placement", "--hierarchy", "4,16", "--mesh", "8x2x4"]));
    expect![[r#"
        mesh 1x4x8 on v100: 4 nodes x 8 gpus
           matrix               axis 0  axis 1  axis 2
        1  [[1 1] [1 4] [4 2]]  1       4 gpus  4 nodes x 2 gpus
        and 2 more
    "#]]
    .assert_eq(&said(&["placement", "--machine", "v100", "--mesh", "1x4x8", "--top", "1"]));
}

#[test]
fn a_workload_ranks_placements_and_says_what_each_part_takes() {
    expect![[r#"
        mesh 8x2x4 on a100: 4 nodes x 16 gpus
        AllReduce 0 of 1 GB, AllToAll 1 of 200 MB, AllGather 1,2 of 10 MB, by ring
            matrix                seconds  slower  AllReduce 0  AllToAll 1  AllGather 1,2  axis 0            axis 1   axis 2
        *1  [[1 8] [1 2] [4 1]]  147.0 ms   1.00x      6.51 ms    373.4 us       140.1 ms  8 gpus            2 gpus   4 nodes
         2  [[1 8] [2 1] [2 2]]  276.6 ms   1.88x      6.51 ms    200.0 ms       70.05 ms  8 gpus            2 nodes  2 nodes x 2 gpus
         3  [[2 4] [1 2] [2 2]]  576.0 ms   3.92x     505.6 ms    373.4 us       70.05 ms  2 nodes x 4 gpus  2 gpus   2 nodes x 2 gpus
         4  [[2 4] [2 1] [1 4]]  740.7 ms   5.04x     505.6 ms    200.0 ms       35.03 ms  2 nodes x 4 gpus  2 nodes  4 gpus
         5  [[4 2] [1 2] [1 4]]    1.50 s  10.24x       1.50 s    373.4 us       271.3 us  4 nodes x 2 gpus  2 gpus   4 gpus
    "#]].assert_eq(&said(&[
        "placement",
        "--machine",
        "a100",
        "--mesh",
        "8x2x4",
        "--traffic",
        "all-reduce:0:1e9; all-to-all:1:2e8",
        "--traffic",
        "All-Gather:1,2:1e7",
    ]));
}

#[test]
fn ranked_placements_are_those_that_there_are_best_first() {
    let problem = ["placement", "--hierarchy", "2,8", "--machine", "a100", "--mesh", "4x4"];
    let plain = answered(&problem);
    assert_eq!(plain["ranked"], Value::Null, "without traffic there is no best one");
    let ranked = answered(&[&problem[..], &["--traffic", "allreduce:0:1e9;alltoall:1:1e8"]].concat());
    let list = ranked["ranked"].as_array().expect("a list");
    let matrices: Vec<_> = list.iter().map(|placed| placed["matrix"].clone()).collect();
    assert_eq!(ranked["matrices"], json!(matrices));
    let sorted = |value: &Value| {
        let mut matrices: Vec<Vec<Vec<usize>>> = numbers(value);
        matrices.sort();
        matrices
    };
    assert_eq!(sorted(&ranked["matrices"]), sorted(&plain["matrices"]));
    let seconds: Vec<f64> = list.iter().map(|placed| numbers(&placed["seconds"])).collect();
    assert!(seconds.is_sorted(), "{seconds:?}");
    for (placed, seconds) in list.iter().zip(&seconds) {
        let each: Vec<f64> = numbers(&placed["each"]);
        assert_eq!(each.len(), 2);
        assert!((each.iter().sum::<f64>() / seconds - 1.0).abs() < 1e-12, "{placed}");
    }
    let first = answered(&[&problem[..], &["--traffic", "allreduce:0:1e9;alltoall:1:1e8", "--top", "1"]].concat());
    assert_eq!(first["ranked"], json!([list[0]]));
}

#[test]
fn machines_are_presets_or_files_with_counts_and_bandwidths_of_ones_own() {
    let seconds = |flags: &[&str]| -> f64 {
        let traffic = ["placement", "--mesh", "64", "--traffic", "broadcast:0:8e9"];
        numbers(&answered(&[&traffic, flags].concat())["ranked"][0]["seconds"])
    };
    let preset = Machine::preset("a100").expect("a preset");
    let own = file("own_machine", &preset.to_toml());
    assert_eq!(seconds(&["--machine", "a100"]).to_bits(), seconds(&["--machine", &own]).to_bits());
    let wider = file("wider_machine", &preset.with_counts(&[16, 4]).expect("a machine").to_toml());
    let counted = seconds(&["--machine", &own, "--hierarchy", "16,4"]);
    assert_eq!(counted.to_bits(), seconds(&["--machine", &wider]).to_bits());
    // 8 GB through a network card of 8 GB/s, and of 16 GB/s; latencies are unchanged.
    let saved = seconds(&["--machine", "a100"]) - seconds(&["--machine", "a100", "--bandwidth", "node=16e9"]);
    assert!((saved - 0.5).abs() < 1e-9, "{saved}");
    // 16 chips of a v5e in a row are a ring, 8 are not.
    let gather = |counts: &str, axes: &str, along: &str| -> f64 {
        let traffic = format!("all-gather:{along}:1e9");
        let machine = ["placement", "--machine", "tpu-v5e", "--hierarchy", counts, "--mesh", axes];
        numbers(&answered(&[&machine[..], &["--traffic", &traffic]].concat())["ranked"][0]["seconds"])
    };
    assert!(gather("16", "16", "0") < gather("8", "8", "0") * 1.5, "twice as much over twice as many links");
}

#[test]
fn algorithms_and_direct_reductions_can_be_asked_for() {
    let seconds = |flags: &[&str]| -> Vec<f64> {
        let problem = ["placement", "--machine", "a100", "--mesh", "4x16", "--traffic", "allreduce:0:21474836480"];
        let answer = answered(&[&problem, flags].concat());
        answer["ranked"].as_array().expect("a list").iter().map(|placed| numbers(&placed["seconds"])).collect()
    };
    // Within a quarter of the measured seconds of the direct reduction, for the three placements.
    for case in cases("simulated").iter().filter(|case| case["matrices"].is_array()) {
        for (algorithm, key) in [("ring", "measured_ring_s"), ("tree", "measured_tree_s")] {
            let simulated = seconds(&["--algorithm", algorithm, "--max-steps", "1"]);
            for (simulated, measured) in simulated.iter().zip(numbers::<Vec<f64>>(&case[key])) {
                assert!((simulated / measured - 1.0).abs() < 0.25, "{algorithm}: {simulated} of {measured}");
            }
        }
    }
    let [direct, best] = [seconds(&["--max-steps", "1"]), seconds(&[])].map(|all| all.iter().sum::<f64>());
    assert!(best < direct, "programs help the placement that crosses nodes inside nodes: {best} and {direct}");
}
