//! Plans: the worked examples of the literature, other ways to pose a problem, and runs.

use super::{redistribute, said};
use expect_test::expect;
use polyshard_testing::command_line::{LIMIT, json as parsed};
use polyshard_testing::start::{Start, run};
use polyshard_testing::test_folder;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Mesh, source, target; then in elements: weak and total cost, whether a permutation is needed, peak, the cost of
/// gathering and slicing, and the elements that all devices lack. The examples 4.9 and 3.1, and a figure
/// of N. Rink et al., "Memory-efficient array redistribution through portable collective communication", arXiv
/// 2112.01075.
type Case = (&'static str, &'static str, &'static str, [u64; 2], bool, [u64; 3]);

const CASES: [Case; 3] = [
    ("a=8", "[1{a}8, 8]", "[8, 1{a}8]", [8, 8], false, [8, 64, 56]),
    ("x=4,y=6", "[3{x}12, 2{y}12]", "[2{y}12, 3{x}12]", [12, 18], true, [6, 168, 124]),
    ("x=4,y=4", "[32{x,y}512, 128]", "[128{x}512, 32{y}128]", [4096, 8192], true, [4096, 65536, 61440]),
];

#[track_caller]
fn check_figures(plan: &Value, (mesh, source, target, [weak, total], permute, [peak, naive, lacking]): Case) {
    let size = plan["element_bytes"].as_u64().expect("a number");
    let keys = ["weak_cost_bytes", "cost_bytes", "peak_bytes", "naive_cost_bytes", "lacking_bytes_total"];
    let expected = [weak, total, peak, naive, lacking].map(|elements| json!(elements * size));
    assert_eq!(keys.map(|key| &plan[key]), expected.each_ref(), "{source} to {target} over {mesh}: {plan}");
    assert_eq!(plan["permute"], json!(permute), "{source} to {target} over {mesh}: {plan}");
    let steps = plan["steps"].as_array().expect("a list");
    assert_eq!(steps.first().map(|step| &step["from"]), Some(&json!(source)));
    assert_eq!(steps.last().map(|step| &step["to"]), Some(&json!(target)));
    assert!(steps.windows(2).all(|pair| pair[0]["to"] == pair[1]["from"]), "{plan}");
    let cost: u64 = steps.iter().map(|step| step["cost_bytes"].as_u64().expect("a number")).sum();
    assert_eq!(cost, total * size);
}

#[test]
fn worked_examples_cost_what_the_literature_says() {
    for case in CASES {
        check_figures(&parsed(&said(&["--mesh", case.0, case.1, case.2, "--json", "--ops", "paper"])), case);
    }
}

#[test]
fn a_plan_is_told_with_its_steps_and_bounds() {
    expect![[r#"
        redistribution over (a: 2, b: 2), 4 bytes per element
          [4{a}8, 4{b}8]
        1 AllToAll of b, in groups {0 1} {2 3}: costs 64 bytes per device, receives at most 32, tiles of at most 64 bytes
          [2{b,a}8, 8]
        cost 64 bytes per device: the tiles of all steps
        without fixed target ranks, the cost would be 64
        received 32 bytes per device, 128 in all; no plan receives less than 128 in all
        peak 64 bytes per device; the source tile has 64 and the target tile 64
        all-gather and slice would cost 384 bytes per device, with a peak of 256
        checked 4 tiles
        received per rank: 32 bytes, 128 in all; on every rank as planned
    "#]]
    .assert_eq(&said(&["--mesh", "a=2,b=2", "[4{a}8, 4{b}8]", "[2{b,a}8, 8]", "--type", "i32", "--run"]));
}

#[test]
fn steps_are_told_as_data() {
    let plan = parsed(&said(&["--mesh", "a=2,b=2", "[4{a}8, 8]", "[8, 4{a}8]", "--json", "--type", "i64", "--run"]));
    let step = json!({
        "op": "AllToAll",
        "from": "[4{a}8, 8]",
        "to": "[8, 4{a}8]",
        "axes": ["a"],
        "groups": [[0, 2], [1, 3]],
        "cost_bytes": 256,
        "received_bytes_max": 128,
    });
    assert_eq!(plan["steps"], json!([step]));
    assert_eq!(plan["run"], json!({"tiles": 4, "received_bytes": [128, 128, 128, 128]}));
    assert_eq!(plan["seconds"], Value::Null);
}

/// The element type determines the bytes per element, with a run and without.
#[test]
fn figures_are_bytes_of_the_element_type() {
    let figures = |dtype: &str, ops: &str, flags: &[&str]| {
        let problem = ["--mesh", "x=4,y=6", "[3{x}12, 2{y}12]", "[2{y}12, 3{x}12]", "--json", "--type", dtype];
        let plan = parsed(&said(&[&problem[..], &["--ops", ops], flags].concat()));
        let keys = ["element_bytes", "cost_bytes", "received_bytes_max", "received_bytes_total", "peak_bytes"];
        keys.map(|key| plan[key].as_u64().expect("a number"))
    };
    assert_eq!(figures("f64", "fused", &[]), [8, 144, 104, 2304, 48]);
    assert_eq!(figures("f32", "fused", &[]), [4, 72, 52, 1152, 24]);
    assert_eq!(figures("i32", "fused", &[]), figures("f32", "fused", &["--run"]));
    // The cost of an exchange is the bytes that the busiest rank receives.
    assert_eq!(figures("f64", "exchange", &["--run"]), [8, 48, 48, 992, 48]);
}

#[test]
fn dimensions_with_names_are_those_with_sizes() {
    let named = said(&["--mesh", "4x2", "A[I_XY, J]", "A[I, J_{Y,X}]", "--size", "I=8192,J=64"]);
    assert_eq!(named, said(&["--mesh", "X=4,Y=2", "[1024{Y,X}8192, 64]", "[8192, 8{X,Y}64]"]));
}

#[test]
fn every_worked_example_runs_by_all_operations_on_all_types() {
    for (case, dtype) in CASES.into_iter().cycle().zip(["f32", "f64", "i32", "i64"]) {
        for ops in ["paper", "fused", "exchange", "any"] {
            let text = said(&["--mesh", case.0, case.1, case.2, "--run", "--ops", ops, "--type", dtype]);
            let tiles = case.0.split(',').map(|axis| axis.split_once('=').map_or(1, |(_, n)| n.parse().unwrap_or(0)));
            let checked = format!("checked {} tiles\n", tiles.product::<usize>());
            assert!(text.contains(&checked) && text.ends_with("on every rank as planned\n"), "{text}");
        }
    }
}

#[test]
fn nothing_to_do_is_no_step_and_runs() {
    let text = said(&["--mesh", "3", "[4{x}12, 5]", "[4{x}12, 5]", "--run"]);
    assert!(text.contains("nothing to do: every rank has its tile\n"), "{text}");
    assert!(text.ends_with("checked 3 tiles\nreceived per rank: 0 bytes, 0 in all; on every rank as planned\n"));
    assert!(said(&["--mesh", "x=3", "[0{x}0, 5]", "[0, 5]", "--run"]).contains("checked 3 tiles\n"));
    assert!(said(&["--mesh", "x=3", "[]", "[]", "--run"]).contains("checked 3 tiles\n"));
}

#[test]
fn where_messages_are_dear_few_are_sent() {
    let seconds = |flags: &[&str]| {
        let problem = ["--mesh", "x=8", "[1{x}8, 8]", "[8, 1{x}8]", "--json", "--ops", "any"];
        let plan = parsed(&said(&[&problem, flags].concat()));
        (plan["steps"].as_array().expect("a list").len(), plan["seconds"].as_f64().expect("a number"))
    };
    // A message to each of seven others at once, and seven eighths of eight elements of 8 bytes.
    assert_eq!(seconds(&["--latency", "1", "--bandwidth", "7"]), (1, 9.0));
    assert_eq!(seconds(&["--bandwidth", "x=28"]), (1, 2.0));
    // The bandwidth of an axis counts, even if it is more than that of the others.
    assert_eq!(seconds(&["--bandwidth", "7,x=56"]), (1, 1.0));
}

#[test]
fn a_memory_bound_admits_what_fits() {
    let problem = ["--mesh", "x=4", "[2{x}8]", "[8]", "--json"];
    let plan = parsed(&said(&[&problem[..], &["--memory", "64"]].concat()));
    assert_eq!(plan["peak_bytes"], json!(64));
}

#[test]
fn a_batch_answers_each_line_in_order_and_goes_on_after_bad_ones() {
    let folder = test_folder!("batch");
    let mut lines = String::new();
    for (mesh, source, target, ..) in CASES {
        let axes = mesh.split(',').filter_map(|axis| axis.split_once('='));
        let mesh: Vec<_> = axes.map(|(name, n)| json!([name, n.parse::<usize>().expect("a number")])).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{}", json!({"mesh": mesh, "source": source, "target": target, "id": "ignored"}));
    }
    let good = folder.join("good.json");
    fs::write(&good, &lines).expect("the folder is ours");
    let good = good.to_str().expect("cargo's folder has a plain name");
    let answers = said(&["--batch", good, "--ops", "paper"]);
    assert_eq!(answers.lines().count(), CASES.len());
    answers.lines().zip(CASES).for_each(|(line, case)| check_figures(&parsed(line), case));
    let alone = said(&["--mesh", CASES[1].0, CASES[1].1, CASES[1].2, "--json", "--ops", "paper"]);
    assert_eq!(answers.lines().nth(1).map(|line| format!("{line}\n")), Some(alone));

    let named = r#"{"mesh": [["X", 2]], "source": "A[I_X]", "target": "A[I]", "size": [["I", 4]]}"#;
    let bad = folder.join("bad.json");
    let text = format!(
        "{named}\n\n{{\"mesh\": [[\"x\", 0]], \"source\": \"[8]\", \"target\": \"[8]\"}}\nnot a problem\n{}",
        lines.lines().next().expect("a case")
    );
    fs::write(&bad, text).expect("the folder is ours");
    let ended = redistribute(&["--batch", bad.to_str().expect("cargo's folder has a plain name"), "--ops", "paper"]);
    assert!(!ended.success);
    assert_eq!(ended.stderr, "error: no plan for 2 of 4 problems; their answers say why\n");
    let answers: Vec<_> = ended.stdout.lines().map(parsed).collect();
    assert_eq!(answers.len(), 4);
    assert_eq!(answers[0]["cost_bytes"], json!(4 * 8));
    let zero = "mesh axis `x` has extent 0; an axis has at least one coordinate";
    assert_eq!(answers[1], json!({"error": zero, "line": 3}));
    let none = "expected ident at column 2; a problem is {\"mesh\": [[\"x\", 4]], \"source\": \"[2{x}8]\", \
                \"target\": \"[8]\"}";
    assert_eq!(answers[2], json!({"error": none, "line": 4}));
    check_figures(&answers[3], CASES[0]);

    let command = format!("'{}' redistribute --batch - --ops paper < '{good}'", env!("CARGO_BIN_EXE_polyshard"));
    let piped = run(Start::Plain, Path::new("sh"), &["-c", &command], LIMIT);
    assert_eq!(piped.stdout, said(&["--batch", good, "--ops", "paper"]));
}

#[test]
fn digits_of_axes_are_planned_and_run() {
    let ended = redistribute(&["--mesh", "x=12", "[3{x/3}12, 12]", "[12, 3{x%4}12]", "--run"]);
    assert!(ended.success, "{}", ended.stderr);
    assert!(ended.stdout.contains("checked 12 tiles\n"), "{}", ended.stdout);
}

/// Arrays in unequal tiles are redistributed as the library does it, and every element arrives in its place.
#[test]
fn arrays_that_tiles_do_not_divide_are_redistributed() {
    for (mesh, source, target, size) in [
        ("x=4", "[2{x}5, 3]", "[5, 1{x}3]", ""),
        ("x=3", "[1{x}2, 4]", "[2, 2{x}4]", ""),
        ("x=2,y=2", "[2{x,y}5]", "[3{y}5]", ""),
        ("4", "A[I_X, J]", "A[I, J_X]", "I=5,J=9"),
        ("3", "A[I_X]", "A[I]", "I=2"),
        ("4", "A[I]", "A[I_X]", "I=7"),
    ] {
        let size = if size.is_empty() { vec![] } else { vec!["--size", size] };
        for dtype in ["f32", "i64"] {
            let arguments = [&["--mesh", mesh, source, target, "--run", "--type", dtype], &size[..]].concat();
            let said = said(&arguments);
            assert!(said.contains("\nchecked ") && said.contains("on every rank as planned\n"), "{said}");
            let json = parsed(&super::said(&[&arguments[..], &["--json"]].concat()));
            let received = json["run"]["received_bytes"].as_array().expect("a number for each rank").clone();
            let most = received.iter().map(|bytes| bytes.as_u64().expect("a number")).max();
            assert_eq!(json["received_bytes"].as_u64(), most, "{source} -> {target}: {json}");
        }
    }
    let timed = said(&["--mesh", "x=4", "[2{x}5, 8]", "[5, 2{x}8]", "--latency", "1e-6", "--bandwidth", "1e9"]);
    assert!(timed.contains("predicted over the given links: "), "{timed}");
}
