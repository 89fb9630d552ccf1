//! The example `megatron`: right on any mesh, size and type, and plain about what was planned.

use super::{LIMIT, TYPES, check_run};
use polyshard_testing::example_path;
use polyshard_testing::start::{Ended, Start, run};

/// Runs the perceptron, and all its products were compared.
#[track_caller]
fn check_perceptron(start: Start, arguments: &str) -> String {
    let stdout = check_run(start, &format!("megatron {arguments}"));
    for product in ["Z", "Y", "dW2", "dH", "dW1", "dX"] {
        let checked = format!("\n{product}: largest error against the sequential reference: ");
        assert_eq!(stdout.matches(&checked).count(), 1, "`megatron {arguments}`:\n{stdout}");
    }
    stdout
}

#[test]
fn the_perceptron_is_right_on_threads_on_any_mesh_size_and_type() {
    // Sizes that divide and that do not, with fewer rows than ranks, with nothing to compute and nothing to sum.
    let sizes = ["24,12,36", "50,41,34", "2,3,1", "0,5,2", "5,0,3", "4,3,0"];
    let mut types = TYPES.into_iter().cycle();
    for size in sizes {
        for mesh in ["1x1", "1x2", "2x1", "2x2", "2x3", "4x2", "1x5"] {
            let dtype = types.next().expect("it is endless");
            check_perceptron(Start::Plain, &format!("--mesh {mesh} --size {size} --type {dtype}"));
        }
    }
    check_perceptron(Start::Plain, "--repeat 2");
}

#[cfg(feature = "mpi")]
#[test]
fn the_perceptron_is_right_under_mpirun() {
    let mut types = TYPES.into_iter().cycle();
    for processes in [1, 2, 3, 4, 6] {
        for size in ["50,41,34", "3,2,5"] {
            let dtype = types.next().expect("it is endless");
            check_perceptron(Start::Mpi(processes), &format!("--size {size} --type {dtype}"));
        }
    }
}

#[test]
fn the_perceptron_tells_what_was_planned_and_receives_that_alone() {
    let stdout = check_perceptron(Start::Plain, "--mesh 2x4 --size 16,24,32 --type f64");
    let lines: Vec<_> = stdout.lines().collect();
    assert_eq!(
        lines[..10],
        [
            "megatron: Y = relu(X * W1) * W2, forward and backward, f64, batch = 16, model = 24, hidden = 32",
            "mesh (d: 2, t: 4), 8 ranks on threads",
            "X[B_d, M] * W1[M, F_t] -> Z[B_d, F_t]",
            "H[B_d, F_t] * W2[F_t, M] -> Y[B_d, M] {U_t}; AllReduce_t Y[B_d, M] {U_t} -> Y[B_d, M]",
            "H[B_d, F_t] * dY[B_d, M] -> dW2[F_t, M] {U_d}",
            "dY[B_d, M] * W2[F_t, M] -> dH[B_d, F_t]",
            "X[B_d, M] * dZ[B_d, F_t] -> dW1[M, F_t] {U_d}",
            "dZ[B_d, F_t] * W1[M, F_t] -> dX[B_d, M] {U_t}; AllReduce_t dX[B_d, M] {U_t} -> dX[B_d, M]",
            "AllReduce_d dW2[F_t, M] {U_d} -> dW2[F_t, M]",
            "AllReduce_d dW1[M, F_t] {U_d} -> dW1[M, F_t]",
        ]
    );
    // Short terms are gathered whole: of Y and dX, 8 rows of 24, those of three others; of both gradients, that of one.
    let bytes = 8 * (2 * 3 * (8 * 24) + 2 * (8 * 24));
    assert_eq!(lines[11], format!("received per rank: at most {bytes} bytes; planned for whole tiles: {bytes}"));
}

#[test]
fn a_perceptron_that_cannot_be_planned_is_refused_with_what_would_fit() {
    let check = |arguments: &[&str], expected: &str| {
        let Ended { success, stderr, .. } = run(Start::Plain, &example_path!("megatron"), arguments, LIMIT);
        assert!(!success);
        assert_eq!(stderr, format!("error: {expected}\n"));
    };
    check(&["--mesh", "2x2x2"], "`megatron` runs on a mesh of 2 axes, but `--mesh 2x2x2` has 3; give one like 2x2");
    check(
        &["--size", "1000000,1000000,1000000"],
        "no sequence fits into 40000000000 bytes per device: `X * W1` takes least, 5000000000000 bytes; even with `X[B_d, \
         M]` and `W1[M, F_t]` it would take 5000000000000: use more devices or smaller sizes",
    );
}
