//! `polyshard matmul`: sequences of products, user-defined machines, free factors and runs.

use super::{answered, file, numbers, said};
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
         2  I J_X K_Y  50.33 MB   1.31 ms  348.8 us   1.31 ms   1.66 ms  143.7 MB  all_to_all(X) A; A * B; reduce_scatter(X) C
         3  I_X J_Y K  58.72 MB   1.36 ms  348.8 us   1.36 ms   1.71 ms  191.9 MB  exchange B; A * B; reduce_scatter(Y) C
         4  I J_Y K_X  67.11 MB   1.57 ms  348.8 us   1.57 ms   1.92 ms  177.2 MB  all_gather(X) A; permute B; A * B; exchange C
         5  I_XY J K   132.1 MB   1.59 ms  348.8 us   1.59 ms   1.94 ms  336.6 MB  all_gather(X, Y) B; A * B; all_to_all(Y) C
         6  I_Y J_X K  67.11 MB   1.62 ms  348.8 us   1.62 ms   1.96 ms  180.4 MB  exchange A; all_gather(Y) B; A * B; exchange C
         7  I_Y J K_X  75.50 MB   1.76 ms  348.8 us   1.76 ms   2.11 ms  149.9 MB  broadcast(X) A; exchange B; A * B; permute C
         8  I J_XY K   138.4 MB   1.78 ms  352.1 us   1.78 ms   2.14 ms  465.6 MB  all_to_all(Y) B; exchange A; A * B; reduce_scatter(X, Y) C
         9  I J K_YX   113.2 MB   2.62 ms  348.8 us   2.62 ms   2.97 ms  203.4 MB  all_to_all(X) B; all_gather(X) A; A * B; all_to_all(X) C
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
fn a_machine_of_a_file_has_a_level_for_each_axis() {
    let text = "A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]";
    let seconds = |wiring: &str, flags: &[&str]| -> [f64; 2] {
        let level = |name: &str, wiring: &str| {
            format!(
                "[[level]]\nname = \"{name}\"\ncount = 4\ninterconnect = \"{wiring}\"\nbandwidth = 4.5e10\nlatency = 1e-6\n"
            )
        };
        let device = "name = \"mine\"\n[device]\nmemory_bandwidth = 8.1e11\nmemory_capacity = 16000000000\n\
                      streams = true\nflops = { bf16 = 1.97e14, f32 = 1e12 }\n";
        let machine = file(&format!("own_{wiring}"), &(device.to_owned() + &level("x", wiring) + &level("y", "line")));
        let plan = answered(&product(text, &[&SIZES[..4], &["--machine", &machine], flags].concat()));
        ["communication_seconds", "arithmetic_seconds"].map(|key| numbers(&plan["sequences"][0][key]))
    };
    let of_preset = answered(&product(text, &SIZES));
    let [line, ring] = ["line", "ring"].map(|wiring| seconds(wiring, &[]));
    assert_eq!(json!(line[0]), of_preset["sequences"][0]["communication_seconds"]);
    assert!(ring[0] < line[0] * 0.7, "a ring sends both ways: {ring:?} and {line:?}");
    assert_eq!(seconds("line", &["--type", "f32"])[1], 68_719_476_736.0 / 1e12);
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
    // A type that only prices: half the bytes, and half the time except for latencies.
    let small = best("[[1,4],[1,4]]", &["--type", "i8"]);
    let [small_bytes, bytes]: [u64; 2] = [&small, &inside].map(|plan| numbers(&plan["bytes"]));
    assert_eq!(2 * small_bytes, bytes);
    assert!(seconds(&small) < seconds(&inside), "{small}\n{inside}");
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
