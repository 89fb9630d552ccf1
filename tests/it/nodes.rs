//! Programs, redistributions, reductions and products on nodes that share no memory: in place inside nodes, by messages
//! between them, and with correct results on all of them.
//!
//! `scripts/nodes` makes the nodes, which not every machine allows; so these tests are ignored unless requested:
//!
//! ```text
//! cargo test -p polyshard --test it nodes -- --ignored
//! ```

use polyshard_testing::nodes::{LAYOUTS, Nodes};
use polyshard_testing::start::{Ended, Start, run};
use polyshard_testing::{example_path, test_folder};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(240);

/// Products, which write files. The axes of their meshes are inside nodes, across them, or partly both.
const PRODUCTS: [&str; 8] = [
    "summa --size 50,41,34 --type f32",
    "pumma --size 24,48,72",
    "cannon --size 50,41,34",
    "johnson --size 37,53,41",
    "cosma --size 50,41,34",
    "gemm_rs --size 37,53,41",
    "gemm_rs --ring --size 50,41,34",
    "ag_gemm --size 37,53,41",
];
/// Other examples, and the number of answers that each compares with a sequential computation.
const OTHERS: [(&str, usize); 6] = [
    ("heat --points 9 --size 37,23", 1),
    ("chain --size 37,53,41,29", 1),
    ("fft3d --size 13,7,10", 2),
    ("megatron --size 37,53,41", 6),
    ("mttkrp --size 13,7,10,5", 1),
    ("allreduce --elements 100003", 3),
];

/// Half of the examples for the layout of this number, and the others for the next one, in half of the time.
fn every_other<T>(examples: &[T], layout: usize) -> impl Iterator<Item = &T> {
    examples.iter().skip(layout % 2).step_by(2)
}

/// Runs an example, given with its arguments, and returns what it printed.
#[track_caller]
fn check_run(start: Start, line: &str, more: &[&str]) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let arguments = [&words[1..], more].concat();
    let Ended { success, stdout, stderr, took } = run(start, &example_path!(words[0]), &arguments, LIMIT);
    assert!(success, "`{line}` on {start:?}, after {took:?}:\n{stdout}\n{stderr}");
    stdout
}

/// Runs a product, which compares itself with the sequential reference, and returns the file that it writes.
#[track_caller]
fn product(start: Start, line: &str, file: &Path) -> Vec<u8> {
    let stdout = check_run(start, line, &["--out", file.to_str().expect("a path")]);
    assert_eq!(stdout.matches("largest error against the sequential reference").count(), 1, "`{line}`:\n{stdout}");
    std::fs::read(file).expect("the example writes its result")
}

/// Runs a program of laws on each layout, and compares its output with the one expected for that number of ranks.
#[track_caller]
fn check_laws(program: &str, said: impl Fn(&Nodes) -> String) {
    for nodes in LAYOUTS {
        let stdout = check_run(Start::Nodes(nodes), program, &[&format!("--ranks={}", nodes.size())]);
        assert_eq!(stdout, said(&nodes), "on {nodes}");
    }
}

#[test]
#[ignore = "needs nodes, which scripts/nodes makes"]
fn programs_give_on_nodes_the_bits_that_they_give_on_one() {
    let (folder, mut on_one) = (test_folder!("nodes"), HashMap::new());
    for (nth, nodes) in LAYOUTS.into_iter().enumerate() {
        for line in every_other(&PRODUCTS, nth) {
            let there = product(Start::Nodes(nodes), line, &folder.join("nodes.npy"));
            let here = on_one
                .entry((nodes.size(), line))
                .or_insert_with(|| product(Start::Mpi(nodes.size()), line, &folder.join("one.npy")));
            assert!(there == *here, "`{line}` on {nodes} is another array than on one node");
        }
    }
}

#[test]
#[ignore = "needs nodes, which scripts/nodes makes"]
fn examples_are_right_on_nodes() {
    for (nth, nodes) in LAYOUTS.into_iter().enumerate() {
        for &(line, answers) in every_other(&OTHERS, nth) {
            let stdout = check_run(Start::Nodes(nodes), line, &[]);
            let compared = ["largest error", "the sum is exact"].map(|said| stdout.matches(said).count());
            assert_eq!(compared.iter().sum::<usize>(), answers, "`{line}` on {nodes}:\n{stdout}");
        }
    }
}

#[test]
#[ignore = "needs nodes, which scripts/nodes makes"]
fn programs_give_the_sequential_result_on_nodes() {
    check_laws("program_laws", |nodes| format!("64 programs give the sequential result on {} ranks\n", nodes.size()));
}

#[test]
#[ignore = "needs nodes, which scripts/nodes makes"]
fn tiles_are_right_on_nodes_and_shared_memory_is_refused_between_them() {
    check_laws("redistribute_laws", |nodes| format!("redistributions hold on {} ranks\n", nodes.size()));
}

#[test]
#[ignore = "needs nodes, which scripts/nodes makes"]
fn reductions_are_right_on_nodes() {
    for nodes in LAYOUTS {
        let ranks = format!("--ranks={}", nodes.size());
        let said = [Start::Nodes(nodes), Start::Plain].map(|start| check_run(start, "reduce_laws", &[&ranks]));
        assert!(said[0].ends_with(&format!(" reductions hold on {} ranks\n", nodes.size())), "{}", said[0]);
        assert_eq!(said[0], said[1], "the same ones on {nodes} and on threads");
    }
}

#[test]
#[ignore = "needs nodes, which scripts/nodes makes"]
fn sequences_give_the_sequential_product_on_nodes() {
    check_laws("product_laws", |nodes| format!("sharded products hold on {} ranks\n", nodes.size()));
}
