//! The example `megatron`: right on any mesh, size and type, with its plan printed.

use super::{LIMIT, check_run};
use polyshard_testing::example_path;
use polyshard_testing::start::{Ended, Start, run};

const PRODUCTS: [&str; 6] = [
    "Z[b, f] += X[b, m] * W1[m, f]",
    "Y[b, m] += H[b, f] * W2[f, m]",
    "dW2[f, m] += H[b, f] * dY[b, m]",
    "dH[b, f] += dY[b, m] * W2[f, m]",
    "dW1[m, f] += X[b, m] * dZ[b, f]",
    "dX[b, m] += dZ[b, f] * W1[m, f]",
];

/// Runs the perceptron, and checks that all its products were compared.
#[track_caller]
fn check_perceptron(start: Start, arguments: &str) -> String {
    let stdout = check_run(start, &format!("megatron {arguments}"));
    for product in PRODUCTS {
        let checked = format!("{product}: largest error against the sequential reference: ");
        assert_eq!(stdout.matches(&checked).count(), 1, "`megatron {arguments}`:\n{stdout}");
    }
    stdout
}

#[test]
fn the_perceptron_is_right_on_threads_on_any_mesh_and_size() {
    // Sizes that divide and that do not, with fewer rows than ranks, with nothing to compute and nothing to sum.
    let sizes = ["24,12,36", "50,41,34", "2,3,1", "0,5,2", "5,0,3", "4,3,0"];
    for size in sizes {
        for mesh in ["1x1", "1x2", "2x1", "2x2", "2x3", "4x2", "1x5"] {
            check_perceptron(Start::Plain, &format!("--mesh {mesh} --size {size}"));
        }
    }
    check_perceptron(Start::Plain, "");
}

#[test]
fn the_perceptron_tells_what_was_planned_and_receives_that_alone() {
    let stdout = check_perceptron(Start::Plain, "--mesh 2x4 --size 16,24,32");
    let lines: Vec<_> = stdout.lines().collect();
    let moved = |nth: usize| ["nothing moves", "all_reduce(t) Y", "all_reduce(t) dX"][[0, 1, 0, 0, 0, 2][nth]];
    let planned: Vec<_> =
        PRODUCTS.iter().enumerate().map(|(nth, product)| format!("{product}: {}", moved(nth))).collect();
    assert_eq!(lines[..6], planned);
    // With so few elements a rank receives all terms whole: those of three others for 8 rows of Y and dX, and the
    // other's for both gradients.
    let bytes = 4 * (2 * 3 * (8 * 24) + 2 * (8 * 24));
    let said = format!(" s, {bytes} bytes received by rank 0; planned for the busiest ranks: {bytes}");
    assert!(lines[6].ends_with(&said), "{stdout}");
}

#[test]
fn a_perceptron_that_cannot_be_planned_is_refused_with_what_would_fit() {
    let check = |arguments: &[&str], expected: &str| {
        let Ended { success, stderr, .. } = run(Start::Plain, &example_path!("megatron"), arguments, LIMIT);
        assert!(!success);
        assert_eq!(stderr, format!("error: {expected}\n"));
    };
    check(
        &["--mesh", "2x2x2"],
        "invalid value '2x2x2' for '--mesh <MESH>': the mesh takes an extent for each of d, t, but `2x2x2` has 3\n\n\
         For more information, try '--help'.",
    );
    check(
        &["--size", "1000000,1000000,1000000"],
        "no schedule of `z` on up to 4 ranks fits into 40 GB a rank; the smallest needs 5 TB: allow that, or give a larger mesh",
    );
}
