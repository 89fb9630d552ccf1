//! `polyshard matmul`: sequences of the literature's products, user-defined machines, searches and runs.

use super::{answered, numbers, said};
use expect_test::expect;
use serde_json::{Value, json};

const SIZES: [&str; 6] = ["--mesh", "X=4,Y=4", "--size", "I=8192,J=8192,K=8192", "--machine", "tpu-v5e"];

fn product<'a>(text: &'a str, flags: &[&'a str]) -> Vec<&'a str> {
    [&["matmul", text], flags].concat()
}

#[test]
fn a_product_is_told_with_its_case_its_sequences_and_the_cheapest() {
    let text = "A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]";
    expect![[r#"
        A[I_X, J] * B[J_X, K_Y] -> C[I_X, K_Y] over (X: 4, Y: 4), bf16, I = 8192, J = 8192, K = 8192
        case 2: the factors shard a dimension that they share differently
            work          moved      comm      math       max       sum    memory  steps
        *1  I_X J K_Y  25.17 MB  562.2 us  348.8 us  562.2 us  911.1 us  83.89 MB  all_gather(X) B; A * B
         2  I J_X K_Y  50.33 MB   1.31 ms  348.8 us   1.31 ms   1.66 ms  144.7 MB  all_to_all(X) A; A * B; reduce_scatter(X) C
         3  I_X J_Y K  58.72 MB   1.36 ms  348.8 us   1.36 ms   1.71 ms  207.6 MB  exchange B; A * B; reduce_scatter(Y) C
         4  I J_Y K_X  67.11 MB   1.57 ms  348.8 us   1.57 ms   1.92 ms  178.3 MB  all_gather(X) A; permute B; A * B; exchange C
         5  I_XY J K   132.1 MB   1.59 ms  348.8 us   1.59 ms   1.94 ms  337.6 MB  all_gather(X, Y) B; A * B; all_to_all(Y) C
         6  I_Y J_X K  67.11 MB   1.62 ms  348.8 us   1.62 ms   1.96 ms  184.5 MB  exchange A; all_gather(Y) B; A * B; exchange C
         7  I_Y J K_X  75.50 MB   1.76 ms  348.8 us   1.76 ms   2.11 ms  165.7 MB  broadcast(X) A; exchange B; A * B; permute C
         8  I J_XY K   138.4 MB   1.78 ms  352.1 us   1.78 ms   2.14 ms  469.8 MB  all_to_all(Y) B; exchange A; A * B; reduce_scatter(X, Y) C
         9  I_X J K    125.8 MB   1.42 ms   1.40 ms   1.42 ms   2.82 ms  362.8 MB  all_gather(X, Y) B; A * B; local C
        10  I J K_XY   117.4 MB   2.65 ms  348.8 us   2.65 ms   3.00 ms  272.6 MB  all_gather(X) A; exchange B; A * B; exchange C
        11  I J_X K    75.50 MB   2.06 ms   1.40 ms   2.06 ms   3.45 ms  306.2 MB  all_to_all(X) A; all_gather(Y) B; A * B; exchange C
        12  I J_Y K    83.89 MB   2.11 ms   1.40 ms   2.11 ms   3.51 ms  327.2 MB  all_gather(X) A; exchange B; A * B; exchange C
        13  I_Y J K    167.8 MB   2.72 ms   1.40 ms   2.72 ms   4.12 ms  396.4 MB  broadcast(X) A; all_gather(X, Y) B; A * B; permute C
        14  I J K_Y    125.8 MB   2.82 ms   1.40 ms   2.82 ms   4.22 ms  253.8 MB  all_gather(X) A; all_gather(X) B; A * B; local C
        15  I J K_X    142.6 MB   3.61 ms   1.40 ms   3.61 ms   5.00 ms  285.2 MB  all_gather(X) A; exchange B; A * B; permute C
        16  I J K      226.5 MB   3.66 ms   5.58 ms   5.58 ms   9.25 ms  597.7 MB  all_gather(X) A; all_gather(X, Y) B; A * B; local C
        best, of 16 GB per device:
        1 all_gather(X) B[J_X, K_Y] -> B[J, K_Y]: 25.17 MB in 562.2 us
        2 A[I_X, J] * B[J, K_Y] -> C[I_X, K_Y]: 68.72 GFLOP in 348.8 us
    "#]].assert_eq(&said(&product(text, &[&SIZES[..], &["--type", "bf16"]].concat())));
}

#[test]
fn a_plan_is_one_object_whose_first_sequence_is_the_cheapest() {
    let plan = answered(&product("A[I_X,J_Y] * B[J_Y,K] -> C[I_X,K]", &SIZES));
    assert_eq!([&plan["case"], &plan["capacity_bytes"]], [&json!(3), &json!(16_000_000_000u64)]);
    let sequences = plan["sequences"].as_array().expect("a list");
    let ops = |sequence: &Value| -> Vec<String> {
        sequence["steps"].as_array().expect("a list").iter().map(|step| numbers(&step["operation"])).collect()
    };
    assert_eq!(ops(&sequences[0]), ["multiply", "all_reduce(Y)"]);
    let seconds: Vec<f64> = sequences.iter().map(|sequence| numbers(&sequence["sequential_seconds"])).collect();
    assert!(seconds.is_sorted(), "{seconds:?}");
    assert_eq!(plan["run"], Value::Null);
}

#[test]
fn all_four_cases_are_named() {
    for (text, case) in [
        ("A[I_X,J] * B[J,K_Y] -> C[I_X,K_Y]", 1),
        ("A[I,J_X] * B[J,K] -> C[I,K]", 2),
        ("A[I,J_X] * B[J_X,K] -> C[I,K]", 3),
        ("A[I_X,J] * B[J,K_X] -> C[I_X,K]", 4),
    ] {
        assert_eq!(answered(&product(text, &SIZES))["case"], json!(case), "{text}");
        assert!(
            said(&product(text, &SIZES)).lines().nth(1).is_some_and(|line| line.starts_with(&format!("case {case}: ")))
        );
    }
}

#[test]
fn a_search_shards_the_factors_that_are_free() {
    let out = "C[I_X,K_Y]";
    for (factors, text, expected) in [
        ("both", "A[I,J] * B[J,K]", ["A[I_X, J]", "B[J, K_Y]"]),
        ("left", "A[I,J] * B[J,K_Y]", ["A[I_X, J]", "B[J, K_Y]"]),
        ("right", "A[I_X,J] * B[J,K]", ["A[I_X, J]", "B[J, K_Y]"]),
    ] {
        let text = format!("{text} -> {out}");
        let plan = answered(&product(&text, &[&SIZES[..], &["--search", factors]].concat()));
        let best = &plan["sequences"][0];
        assert_eq!([&best["left"], &best["right"]], expected.map(|array| json!(array)).each_ref(), "{factors}");
        assert_eq!(plan["case"], Value::Null);
    }
}

#[test]
fn machines_can_be_given_by_their_figures() {
    let own = [
        "--flops",
        "1.97e14",
        "--memory-bandwidth",
        "8.1e11",
        "--memory-bytes",
        "16e9",
        "--link",
        "X=4.5e10:1e-6:line",
        "--link",
        "Y=4.5e10:1e-6:line",
    ];
    let text = "A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]";
    assert_eq!(said(&product(text, &[&SIZES[..4], &own].concat())), said(&product(text, &SIZES)));
    // One figure of a machine replaced.
    let seconds = |flags: &[&str]| -> f64 {
        let plan = answered(&product(text, &[&SIZES, flags].concat()));
        numbers(&plan["sequences"][0]["communication_seconds"])
    };
    let [line, ring] = [seconds(&[]), seconds(&["--link", "X=4.5e10:1e-6:ring"])];
    assert!(ring < line * 0.7, "a ring sends both ways: {ring} and {line}");
    let slow = answered(&product(text, &[&SIZES[..], &["--type", "f32", "--flops", "1e12"]].concat()));
    assert_eq!(slow["sequences"][0]["arithmetic_seconds"], json!(68_719_476_736.0 / 1e12));
}

#[test]
fn placements_on_machines_with_levels_decide_what_is_gathered() {
    let best = |matrix: &str, flags: &[&str]| {
        let placed = ["--mesh", "X=4,Y=4", "--size", "I=8192,J=8192,K=8192", "--machine", "a100", "--matrix", matrix];
        answered(&product("A[I,J_X] * B[J_Y,K] -> C[I_X,K_Y]", &[&placed, flags].concat()))["sequences"][0].clone()
    };
    let seconds = |plan: &Value| -> f64 { numbers(&plan["communication_seconds"]) };
    // Rows across nodes and columns inside them, the other way around, and all of it in one node.
    let [across, around, inside] = ["[[4,1],[1,4]]", "[[1,4],[4,1]]", "[[1,4],[1,4]]"].map(|matrix| best(matrix, &[]));
    assert!(seconds(&inside) < seconds(&across).min(seconds(&around)) / 10.0, "{inside}\n{across}\n{around}");
    // A given rate serves a type for which the machine has none.
    let own = best("[[1,4],[1,4]]", &["--type", "i8", "--flops", "1e15"]);
    assert!(seconds(&own) < seconds(&inside), "half the bytes: {own}\n{inside}");
}

#[test]
fn the_cheapest_sequence_runs_and_is_the_sequential_product() {
    let run = |text: &str, mesh: &str, size: &str, flags: &[&str]| -> Value {
        let sizes = ["--mesh", mesh, "--size", size, "--machine", "tpu-v5p", "--run"];
        answered(&product(text, &[&sizes, flags].concat()))["run"].clone()
    };
    let sizes = "I=24,J=36,K=48";
    for (text, mesh) in [
        ("A[I_X,J] * B[J,K_Y] -> C[I_X,K_Y]", "X=2,Y=3"),
        ("A[I,J_X] * B[J,K] -> C[I,K]", "X=4"),
        ("A[I,J_X] * B[J_X,K_Y] -> C[I,K_Y] {U_X}", "X=2,Y=2"),
        ("A[I_X,J] * B[J,K_X] -> C[I_X,K]", "X=6"),
        ("A[I_XY,J_Z] * B[J_Z,K] -> C[I,K_ZYX]", "X=2,Y=2,Z=2"),
        ("A[I_X,J] * B[J,K] -> C[I,K_X]", "X=1,Y=1"),
    ] {
        let ranks: usize = mesh.split(',').filter_map(|axis| axis.split_once('=')?.1.parse::<usize>().ok()).product();
        assert_eq!(run(text, mesh, sizes, &[])["tiles"], json!(ranks), "{text}");
    }
    // A batch dimension, and factors that the search shards.
    assert_eq!(run("A[B_X,I,J] * W[B_X,J,K] -> C[B,I_X,K]", "X=2", "B=4,I=6,J=5,K=3", &[])["tiles"], json!(2));
    let free = run("A[I,J] * B[J,K] -> C[I_X,K_Y]", "X=2,Y=2", sizes, &["--search", "both"]);
    assert_eq!(free["received_bytes"], json!([0, 0, 0, 0]));
    let text = said(&product(
        "A[I_X,J] * B[J_X,K] -> C[I_X,K]",
        &["--mesh", "X=4", "--size", "I=8,J=8,K=8", "--machine", "tpu-v4p", "--type", "i8", "--run"],
    ));
    let ran: Vec<_> = text.lines().rev().take(2).collect();
    // Three quarters of 8 by 8 numbers of 8 bytes.
    assert_eq!(ran[0], "received per rank: 384 bytes, 1536 in all");
    assert_eq!(ran[1], "ran in f64, checked 4 tiles of the product");
}
