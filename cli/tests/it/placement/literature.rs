//! The worked answers of J. Austin et al., "How to Scale Your Model", part 3, on products: questions 4 to 7 and 9, and the four
//! cases; those on collectives are in `planner/tests/it/literature.rs`.
//!
//! The answers are those written by hand into a reader's copy. Where one is wrong the test says why. By hand a gather on a
//! ring of `n` takes `V / 2w`; here it is `(n - 1) / n` of that, what a device has not, and latency comes on top of it.

use super::{COMMAND_LINE, answered, file, numbers};
use polyshard::machine::{Device, Machine};
use polyshard_testing::start::Start;
use serde_json::Value;

fn plan(text: &str, mesh: &str, size: &str, machine: &str, flags: &[&str]) -> Value {
    answered(&[&["matmul", text, "--mesh", mesh, "--size", size, "--machine", machine], flags].concat())
}

/// The sequence that divides the work like this.
fn split<'a>(plan: &'a Value, work: &str) -> &'a Value {
    let sequences = plan["sequences"].as_array().expect("a list");
    sequences.iter().find(|sequence| sequence["work"] == work).unwrap_or_else(|| panic!("no `{work}` in {plan}"))
}

fn seconds(sequence: &Value, what: &str) -> f64 {
    numbers(&sequence[format!("{what}_seconds")])
}

fn written(sequence: &Value) -> Vec<String> {
    sequence["steps"].as_array().expect("a list").iter().map(|step| numbers(&step["step"])).collect()
}

#[track_caller]
fn near(seconds: f64, expected: f64) {
    assert!((seconds - expected).abs() < 1e-3 * expected, "{seconds} s, not {expected}");
}

#[test]
fn the_four_cases_are_told_apart() {
    let check = |text: &str, case: usize| {
        let plan = plan(text, "X=2,Y=2", "I=8,J=8,K=8", "tpu-v5e", &[]);
        assert_eq!(plan["case"], case, "{text}");
    };
    check("A[I, J] * B[J, K] -> C[I, K]", 1);
    check("A[I_X, J] * B[J, K_Y] -> C[I_X, K_Y]", 1);
    check("A[I, J_X] * B[J, K] -> C[I, K]", 2);
    check("A[I, J_X] * B[J_Y, K] -> C[I, K]", 2);
    check("A[I, J_XY] * B[J_YX, K] -> C[I, K]", 2);
    check("A[I_X, J] * B[J_X, K_Y] -> C[I_X, K_Y]", 2);
    check("A[I, J_X] * B[J_X, K] -> C[I, K]", 3);
    check("A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]", 3);
    check("A[I_X, J] * B[J, K_X] -> C[I_X, K]", 4);
    check("A[I_X, J_Y] * B[J_Y, K_X] -> C[I_X, K]", 4);
}

#[test]
fn question_4_gather_a_factor_or_reduce_the_result() {
    let strategies = |b: usize, d: usize| {
        let f = 32_768;
        let plan = plan("L[B, D] * R[D_X, F] -> Z[B, F]", "X=4", &format!("B={b},D={d},F={f}"), "tpu-v4p", &[]);
        let (gather, reduce) = (split(&plan, "B D F"), split(&plan, "B D_X F"));
        let (b, d, f) = (b as f64, d as f64, f as f64);
        near(seconds(gather, "communication"), 0.75 * 2.0 * d * f / 9e10 + 2e-6);
        near(seconds(gather, "arithmetic"), 2.0 * b * d * f / 2.75e14);
        near(seconds(reduce, "communication"), 0.75 * 4.0 * b * f / 9e10 + 4e-6);
        near(seconds(reduce, "arithmetic"), 2.0 * b * d * f / (4.0 * 2.75e14));
        (seconds(gather, "overlapped"), seconds(reduce, "overlapped"))
    };
    // Below a batch of 3000 the reduction wins if D > 2 B, above if D > 6100; so far as by hand.
    let (gather, reduce) = strategies(512, 8192);
    assert!(reduce < gather);
    let (gather, reduce) = strategies(4096, 8192);
    assert!(reduce < gather);
    // By hand "always pick" the reduction for large batches, since D is 8192; at D = 4096 the gather wins. (One line
    // there divides its arithmetic by |X|; every device multiplies the whole, and the next line is right again.)
    let (gather, reduce) = strategies(8192, 4096);
    assert!(gather < reduce);
}

#[test]
fn question_5_the_fastest_product_of_free_factors() {
    let plan = |j: usize| {
        let size = format!("I=16384,J={j},K=16384");
        plan("A[I, J] * B[J, K] -> C[I, K]", "X=4,Y=4,Z=4", &size, "tpu-v5p", &["--search", "both"])
    };
    let ik = 16_384.0f64 * 16_384.0;
    // As by hand, free dimensions are cut by all axes, and the result is gathered in a half of the time of a reduction.
    let long = plan(8192);
    let best = &long["sequences"][0];
    assert_eq!(best["work"], "I_XYZ J K");
    near(seconds(best, "communication"), 63.0 / 64.0 * 2.0 * ik / (3.0 * 1.8e11) + 6e-6);
    near(seconds(best, "arithmetic"), 2.0 * ik * 8192.0 / (64.0 * 4.59e14));
    near(seconds(split(&long, "I J_XYZ K"), "communication"), 2.0 * seconds(best, "communication"));
    // By hand every device multiplies all below |J| = C / 3 W = 850, where that takes as long as the gather.
    assert_eq!(plan(800)["sequences"][0]["work"], "I J K");
    assert_ne!(plan(900)["sequences"][0]["work"], "I J K");
}

#[test]
fn question_6_products_on_a_slice_without_wraparound() {
    let best = |text| plan(text, "X=4,Y=4", "I=8192,J=8192,K=8192", "tpu-v5e", &[])["sequences"][0].clone();
    let n = 8192.0f64;
    let first = best("A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]");
    assert_eq!(
        written(&first),
        ["A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K] {U_Y}", "all_reduce(Y) C[I_X, K] {U_Y} -> C[I_X, K]"]
    );
    // By hand 4 I K / (4 * 9e10), the bandwidth of a ring; a v5e of 4x4 has lines, which take 3/4 of it at 4.5e10.
    near(seconds(&first, "communication"), 2.0 * 0.75 * (2.0 * n / 4.0 * n) / 4.5e10 + 6e-6);
    // I J K / 8 / 1.97e14, as by hand (a line above it has another 4 below the fraction).
    near(seconds(&first, "arithmetic"), n * n * n / 8.0 / 1.97e14);
    let second = best("A[I_X, J] * B[J_X, K_Y] -> C[I_X, K_Y]");
    assert_eq!(written(&second), ["all_gather(X) B[J_X, K_Y] -> B[J, K_Y]", "A[I_X, J] * B[J, K_Y] -> C[I_X, K_Y]"]);
    assert_eq!(written(&best("A[I_X, J] * B[J, K_Y] -> C[I_X, K_Y]")), ["A[I_X, J] * B[J, K_Y] -> C[I_X, K_Y]"]);
}

/// A slice of 2x2 of v5e whose devices have `memory_capacity` bytes each, as a file.
fn small(name: &str, memory_capacity: u64) -> String {
    let slice = Machine::sized("tpu-v5e", &[2, 2]).expect("a slice");
    let device = Device { memory_capacity, ..slice.device().clone() };
    let machine = Machine::new("small", slice.levels().to_vec(), device).expect("a machine");
    file(name, &machine.to_toml())
}

#[test]
fn question_7_a_block_in_little_memory() {
    // By hand the two weights are multiplied first. Both as they are there take 2 * 2^27 bytes and their product, 2^27
    // on every device, does not fit; it would also take 32 times the operations and an all-reduce 64 times as large.
    let (text, size) = ("V[D, F_XY] * W[F_XY, E] -> T[D, E]", "D=8192,E=8192,F=32768");
    let line = ["matmul", text, "--mesh", "X=2,Y=2", "--size", size, "--machine"];
    let refused = COMMAND_LINE.run(Start::Plain, &[&line[..], &[&small("small", 300_000_000)]].concat());
    assert!(!refused.success && refused.stderr.contains("fits into 300000000 bytes per device"), "{}", refused.stderr);
    // Activations first; meanwhile the other weight takes its part of the memory.
    let beside = small("beside", 300_000_000 - (1 << 27));
    let best = |text: &str| {
        let plan = plan(text, "X=2,Y=2", "B=128,D=8192,F=32768", &beside, &["--search", "right"]);
        plan["sequences"][0].clone()
    };
    let first = best("X[B, D] * V[D, F] -> H[B, F_XY]");
    assert_eq!(written(&first), ["X[B, D] * V[D, F_XY] -> H[B, F_XY]"]);
    let second = best("H[B, F_XY] * W[F, D] -> Y[B, D]");
    assert_eq!(
        written(&second),
        ["H[B, F_XY] * W[F_XY, D] -> Y[B, D] {U_XY}", "all_reduce(X, Y) Y[B, D] {U_XY} -> Y[B, D]"]
    );
    // By hand no time is given. The operations take 87 us each; but to load 128 MiB of weights takes 166 us, and both
    // tiles of activations 8 us, of which the one that is written counts twice.
    for sequence in [&first, &second] {
        near(seconds(sequence, "arithmetic"), ((1 << 27) + (3 << 21)) as f64 / 8.1e11);
    }
}

#[test]
fn question_9_reduce_in_place_of_a_gather() {
    let plan = |out: &str| {
        let text = format!("A[N, M_X] * B[M, K] -> {out}");
        plan(&text, "X=4", "N=4096,M=16384,K=8192", "tpu-v4p", &[])
    };
    let replicated = plan("C[N, K]");
    assert_eq!(
        written(split(&replicated, "N M_X K")),
        ["A[N, M_X] * B[M_X, K] -> C[N, K] {U_X}", "all_reduce(X) C[N, K] {U_X} -> C[N, K]"]
    );
    // By hand N K / W against N M / W; bf16 has two bytes, so twice that each. Their ratio K : M is right.
    for out in ["C[N_X, K]", "C[N, K_X]"] {
        let sharded = plan(out);
        let reduced = split(&sharded, "N M_X K");
        assert_eq!(written(reduced)[1], format!("reduce_scatter(X) C[N, K] {{U_X}} -> {out}"));
        near(seconds(reduced, "communication"), 0.75 * 2.0 * 4096.0 * 8192.0 / 9e10 + 2e-6);
        let gathered = seconds(split(&replicated, "N M K"), "communication");
        near(gathered, 0.75 * 2.0 * 4096.0 * 16_384.0 / 9e10 + 2e-6);
    }
}

#[test]
fn sums_stay_open_along_any_axis() {
    // The terms are sums of parts, or parts of the sums.
    for (text, size) in [("A[I, J] * B[J, K] -> C[I, K] {U_Y}", 3), ("A[I, J] * B[J, K] -> C[I, K] {U_{X,Y}}", 16)] {
        let plan = plan(text, "X=2,Y=4", &format!("I=8,J={size},K=8"), "tpu-v5e", &["--run"]);
        assert_eq!(plan["run"]["tiles"], 8, "{text}");
    }
}
