//! The examples, as a user runs them: on threads and under `mpirun`, each judging its own answer.

mod perceptron;
mod reduction;

use expect_test::{ExpectFile, expect_file};
use ndarray::{Array2, ArrayD};
use polyshard::cli::values;
use polyshard_testing::example::check;
use polyshard_testing::start::{Ended, Start, command_line, run};
use polyshard_testing::{example_path, test_folder};
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// Ways to get four ranks.
const STARTS: &[Start] = &[
    Start::Plain,
    #[cfg(feature = "mpi")]
    Start::Mpi(4),
];
const ON_A_GRID: [&str; 4] = ["summa", "pumma", "cannon", "cannon --home plain"];
/// Products on meshes of three axes.
const ON_A_CUBE: [&str; 4] = ["johnson", "solomonik", "cosma", "cosma --memory 200"];
/// Products on meshes of one axis.
const ON_A_LINE: [&str; 3] = ["ag_gemm", "gemm_rs", "gemm_rs --ring"];
/// What is no product of two matrices, each with sizes of which the first divides.
const TENSORS: [(&str, [&str; 3]); 7] = [
    ("mttkrp", ["12,24,6,8", "13,7,10,5", "2,1,3,1"]),
    ("tucker", ["12,24,6,6,4,12", "13,7,10,5,3,2", "2,1,3,1,2,1"]),
    ("syrk", ["24,12", "37,23", "2,3"]),
    ("inner", ["24,12", "37,23", "2,3"]),
    ("heat", ["24,12", "37,23", "2,3"]),
    ("heat --points 9", ["24,12", "37,23", "2,3"]),
    ("heat --points 9 --steps 1", ["12,24", "11,17", "1,1"]),
];
const TYPES: [&str; 4] = ["f32", "f64", "i32", "i64"];

/// Runs an example, given with its arguments, and returns what it printed.
#[track_caller]
fn check_run(start: Start, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let Ended { success, stdout, stderr, .. } = run(start, &example_path!(words[0]), &words[1..], LIMIT);
    assert!(success, "`{line}` on {start:?}:\n{stdout}\n{stderr}");
    stdout
}

/// As [`check_run`], and the answer was compared with the sequential reference.
#[track_caller]
fn check_answer(start: Start, line: &str) {
    let stdout = check_run(start, line);
    assert_eq!(stdout.matches("largest error against the sequential reference").count(), 1, "`{line}`:\n{stdout}");
}

#[test]
fn every_example_is_right_on_threads_on_any_mesh_size_and_type() {
    // Sizes that divide and that do not, with fewer rows than ranks, with nothing to compute and nothing to sum.
    let sizes = ["12,24,36", "50,41,34", "2,3,1", "0,5,2", "7,0,3"];
    let mut types = TYPES.into_iter().cycle();
    for size in sizes {
        for mesh in ["1x1", "1x2", "2x1", "2x2", "2x3", "3x2", "4x1", "3x3"] {
            for name in ON_A_GRID {
                let dtype = types.next().expect("it is endless");
                check_answer(Start::Plain, &format!("{name} --mesh {mesh} --size {size} --type {dtype}"));
            }
            // A type more than there are grid examples, so that each meets all types.
            types.next();
        }
        for mesh in ["1", "2", "3", "5"] {
            let dtype = types.next().expect("it is endless");
            for name in ON_A_LINE {
                check_answer(Start::Plain, &format!("{name} --mesh {mesh} --size {size} --type {dtype}"));
            }
        }
        for mesh in ["1x1x1", "1x2x2", "2x2x2", "3x1x2", "2x2x3"] {
            let dtype = types.next().expect("it is endless");
            for name in ON_A_CUBE {
                check_answer(Start::Plain, &format!("{name} --mesh {mesh} --size {size} --type {dtype}"));
            }
        }
    }
}

#[test]
fn every_example_is_right_on_the_sizes_it_has_by_default() {
    for line in ["summa", "johnson", "solomonik", "cosma", "gemm_rs", "gemm_rs --ring"] {
        check_answer(Start::Plain, line);
    }
    for (name, _) in TENSORS {
        check_answer(Start::Plain, name);
    }
}

#[test]
fn tensors_are_right_on_threads_on_any_mesh_size_and_type() {
    let meshes = |name: &str| match name {
        "mttkrp" => &["1x1x2x1", "1x2x2x2", "2x1x2x2", "1x3x1x2"][..],
        "tucker" => &["1x2x1", "2x2x2", "3x1x2"],
        _ => &["1x1", "2x1", "2x3", "3x2", "1x4", "4x4"],
    };
    let mut types = TYPES.into_iter().cycle();
    for (name, sizes) in TENSORS {
        for size in sizes {
            for mesh in meshes(name.split(' ').next().expect("a name")) {
                let dtype = types.next().expect("it is endless");
                // Weights are fractions.
                let dtype = if name.starts_with("heat") { dtype.replace('i', "f") } else { dtype.to_owned() };
                check_answer(Start::Plain, &format!("{name} --mesh {mesh} --size {size} --type {dtype}"));
            }
        }
    }
    // Nothing to compute, and nothing to sum.
    for line in [
        "mttkrp --size 0,3,2,4",
        "mttkrp --size 4,0,2,3",
        "tucker --size 3,0,4,2,2,2",
        "syrk --size 0,5",
        "syrk --size 5,0",
        "inner --size 0,7",
    ] {
        check_answer(Start::Plain, line);
    }
}

#[cfg(feature = "mpi")]
#[test]
fn every_example_is_right_under_mpirun_with_the_mesh_of_its_ranks() {
    let products: Vec<_> = ON_A_GRID.into_iter().chain(ON_A_LINE).chain(ON_A_CUBE).collect();
    for ((processes, size), dtype) in
        [1, 2, 3, 4, 6, 8].into_iter().zip(["50,41,34", "24,48,72"].into_iter().cycle()).zip(TYPES.into_iter().cycle())
    {
        for name in &products {
            check_answer(Start::Mpi(processes), &format!("{name} --size {size} --type {dtype}"));
        }
        for (nth, (name, sizes)) in TENSORS.into_iter().enumerate() {
            let size = sizes[(processes + nth) % 2];
            check_answer(Start::Mpi(processes), &format!("{name} --size {size} --type f64"));
        }
    }
}

#[cfg(feature = "mpi")]
#[test]
fn sixty_four_processes_compute_products_on_the_notebooks_mesh() {
    for name in ["summa", "pumma", "cannon"] {
        check_answer(Start::Mpi(64), &format!("{name} --mesh 8x8 --size 128,256,192"));
    }
}

#[test]
fn the_compiled_kernels_are_right_on_threads_and_under_mpirun() {
    for &start in STARTS {
        let stdout = check_run(start, "compiled");
        assert_eq!(stdout.matches("largest error against the sequential reference").count(), 4, "{stdout}");
    }
}

/// Runs the Fourier transform, and both its answers were compared.
#[track_caller]
fn check_transform(start: Start, arguments: &str) {
    let stdout = check_run(start, &format!("fft3d {arguments}"));
    for checked in ["largest error against a sequential transform", "largest error of the way there and back"] {
        assert_eq!(stdout.matches(checked).count(), 1, "`fft3d {arguments}`:\n{stdout}");
    }
}

#[test]
fn the_fourier_transform_is_right_on_threads_on_any_slabs_and_pencils() {
    // Extents that divide and that do not, prime ones, fewer rows than ranks, and nothing at all.
    let sizes = ["8,12,16", "13,7,10", "3,2,5", "1,1,1", "0,4,3", "5,0,0", "31,2,37"];
    let mut types = ["f64", "f32"].into_iter().cycle();
    for size in sizes {
        for mesh in ["1", "2", "3", "4", "7", "1x1", "2x2", "1x3", "3x2", "2x5"] {
            let dtype = types.next().expect("it is endless");
            check_transform(Start::Plain, &format!("--mesh {mesh} --size {size} --type {dtype}"));
        }
        // A type more than there are meshes, so that each meets both.
        types.next();
    }
    check_transform(Start::Plain, "");
}

#[cfg(feature = "mpi")]
#[test]
fn the_fourier_transform_is_right_under_mpirun() {
    for (processes, mesh) in [(1, "1"), (2, "2"), (3, "3"), (4, "2x2"), (6, "2x3"), (8, "4x2")] {
        for (size, dtype) in [("13,7,10", "f64"), ("8,16,12", "f32"), ("2,3,2", "f64")] {
            check_transform(Start::Mpi(processes), &format!("--mesh {mesh} --size {size} --type {dtype}"));
        }
    }
    // Slabs of as many ranks as there are.
    check_transform(Start::Mpi(3), "--size 10,11,12");
}

#[test]
fn the_fourier_transform_tells_its_stages_and_where_the_time_goes() {
    let stdout = check_run(Start::Plain, "fft3d --mesh 2x2 --size 6,7,8 --repeat 3 --no-check");
    let lines: Vec<_> = stdout.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "fft3d: 6 x 7 x 8 complex f64, forward and back",
            "mesh (p0: 2, p1: 2), 4 ranks on threads",
            "[0 @ p0, 1 @ p1]: lines along 2",
            "[0 @ p0, 2 @ p1]: lines along 1",
            "[1 @ p0, 2 @ p1]: lines along 0",
        ]
    );
    for (line, way) in lines[5..7].iter().zip(["forward", "back"]) {
        assert!(line.starts_with(&format!("{way}: best of 3 runs ")), "{line}");
        for part in ["(FFT ", ", packing ", ", communication ", "; median "] {
            assert!(line.contains(part), "{line}");
        }
    }
    assert!(lines[7].starts_with("received per rank: at most "), "{stdout}");
    assert_eq!(lines.len(), 8, "{stdout}");
}

#[test]
fn a_fourier_transform_on_a_mesh_of_three_axes_is_refused_with_one_that_fits() {
    let Ended { success, stderr, .. } = run(Start::Plain, &example_path!("fft3d"), &["--mesh", "2x1x2"], LIMIT);
    assert!(!success);
    let (said, place) = stderr.split_once("\n  --> ").expect("a place");
    assert!(place.starts_with("examples/fft3d/main.rs:"), "{place}");
    assert_eq!(
        said,
        "error: rank 0: a sweep of 3 dimensions keeps at least one whole, so the mesh has at most 2 axes, but the mesh \
         (p0: 2, p1: 1, p2: 2) has 3; put its 4 ranks on at most 2 axes"
    );
}

/// Runs the chain, and both its products were compared.
#[track_caller]
fn check_chain(start: Start, arguments: &str) {
    let stdout = check_run(start, &format!("chain {arguments}"));
    for product in ["Y", "Z"] {
        let checked = format!("{product}: largest error against the sequential reference: ");
        assert_eq!(stdout.matches(&checked).count(), 1, "`chain {arguments}`:\n{stdout}");
    }
}

#[test]
fn the_chain_is_right_on_threads_on_any_mesh_size_and_type() {
    // Sizes that divide and that do not, with fewer rows than ranks, with nothing to compute and nothing to sum.
    let sizes = ["12,24,36,8", "50,41,34,7", "2,3,1,4", "3,0,7,2", "0,5,2,3", "5,2,0,3"];
    let mut types = TYPES.into_iter().cycle();
    for size in sizes {
        for mesh in [1, 2, 3, 4, 7] {
            let dtype = types.next().expect("it is endless");
            check_chain(Start::Plain, &format!("--mesh {mesh} --size {size} --type {dtype}"));
        }
    }
    check_chain(Start::Plain, "");
    check_chain(Start::Plain, "--mesh 32 --repeat 2");
}

#[cfg(feature = "mpi")]
#[test]
fn the_chain_is_right_under_mpirun() {
    let mut types = TYPES.into_iter().cycle();
    for processes in [1, 2, 3, 4, 6] {
        for size in ["50,41,34,7", "2,3,1,4", "24,12,36,8"] {
            let dtype = types.next().expect("it is endless");
            check_chain(Start::Mpi(processes), &format!("--size {size} --type {dtype}"));
        }
    }
}

#[test]
fn the_chain_tells_what_it_redistributes_and_receives_that_alone() {
    let stdout = check_run(Start::Plain, "chain --mesh 4 --size 8,5,12,3 --type f64 --repeat 3 --no-check");
    let lines: Vec<_> = stdout.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "chain: Y = X * W1, Z = Y * W2, f64, m = 8, k = 5, h = 12, n = 3",
            "mesh (devs: 4), 4 ranks on threads",
            "Y: [1 @ devs] to [0 @ devs], all_to_all(devs)",
        ]
    );
    assert!(lines[3].starts_with("best of 3 runs ") && lines[3].contains(" GFLOP/s; median "), "{stdout}");
    // Three quarters of two rows of 12.
    assert_eq!(lines[4..], [format!("received per rank: at most {} bytes", 8 * 18)]);
}

#[test]
fn explanations_on_the_notebooks_mesh() {
    let check = |line: &str, expected: ExpectFile| expected.assert_eq(&check_run(Start::Plain, line));
    check("summa --mesh 8x8 --print explain", expect_file!["../golden/explain/summa.txt"]);
    check("pumma --mesh 8x8 --print explain", expect_file!["../golden/explain/pumma.txt"]);
    check("cannon --mesh 8x8 --print explain", expect_file!["../golden/explain/cannon_skewed.txt"]);
    check("cannon --mesh 8x8 --home plain --print explain", expect_file!["../golden/explain/cannon_plain.txt"]);
    check("ag_gemm --mesh 8 --size 2048,1024,4096 --print explain", expect_file!["../golden/explain/ag_gemm.txt"]);
    check("johnson --mesh 8x8x8 --size 4096,4096,4096 --print explain", expect_file!["../golden/explain/johnson.txt"]);
    check(
        "solomonik --mesh 4x4x2 --size 4096,4096,4096 --print explain",
        expect_file!["../golden/explain/solomonik.txt"],
    );
    check("cosma --mesh 4x4x4 --size 4096,4096,4096 --print explain", expect_file!["../golden/explain/cosma.txt"]);
    check(
        "cosma --mesh 16x4x1 --size 1024,64,256 --memory 6144 --print explain",
        expect_file!["../golden/explain/cosma_panels.txt"],
    );
    check("gemm_rs --mesh 8 --size 2048,1024,4096 --print explain", expect_file!["../golden/explain/gemm_rs.txt"]);
    check(
        "gemm_rs --ring --mesh 8 --size 2048,1024,4096 --print explain",
        expect_file!["../golden/explain/gemm_rs_ring.txt"],
    );
    check("mttkrp --mesh 1x4x4x4 --size 256,256,256,64 --print explain", expect_file!["../golden/explain/mttkrp.txt"]);
    check(
        "mttkrp --mesh 2x3x2x4 --size 251,133,97,35 --print explain",
        expect_file!["../golden/explain/mttkrp_ragged.txt"],
    );
    check(
        "tucker --mesh 4x4x4 --size 256,256,256,16,16,16 --print explain",
        expect_file!["../golden/explain/tucker.txt"],
    );
    check("syrk --mesh 8x8 --size 2048,1024 --print explain", expect_file!["../golden/explain/syrk.txt"]);
    check("inner --mesh 8x8 --size 2048,1024 --print explain", expect_file!["../golden/explain/inner.txt"]);
    check("heat --mesh 8x8 --size 2048,1024 --print explain", expect_file!["../golden/explain/heat_5.txt"]);
    check("heat --points 9 --mesh 8x8 --size 2048,1024 --print explain", expect_file!["../golden/explain/heat_9.txt"]);
    check("chain --mesh 32 --print explain", expect_file!["../golden/explain/chain.txt"]);
    check("megatron --mesh 2x2 --print explain", expect_file!["../golden/explain/megatron.txt"]);
}

#[test]
fn a_trace_shows_what_the_example_prints() {
    let folder = test_folder!("traces");
    for line in ["summa --mesh 2x3", "pumma", "cannon --type i64", "ag_gemm --size 5,6,7", "solomonik", "heat"] {
        let path = folder.join("trace.json");
        std::fs::write(&path, check_run(Start::Plain, &format!("{line} --print trace"))).expect("the folder is ours");
        for what in ["program", "source", "explain"] {
            let shown = polyshard(&["show", text(&path), "--print", what]);
            assert!(shown.success, "{}", shown.stderr);
            assert_eq!(shown.stdout, check_run(Start::Plain, &format!("{line} --print {what}")), "{line}, {what}");
        }
    }
}

#[cfg(feature = "mpi")]
#[test]
fn what_is_printed_under_mpirun_is_printed_once_and_needs_no_ranks() {
    let line = "cannon --mesh 8x8 --print program";
    assert_eq!(check_run(Start::Mpi(3), line), check_run(Start::Plain, line));
}

#[test]
fn files_of_either_order_give_the_answer_of_random_inputs_with_the_same_seed() {
    let folder = test_folder!("round_trip");
    let file = |name: &str| folder.join(name).to_str().expect("cargo's folder has a plain name").to_owned();
    for (name, dtype, shape_of_a) in
        [("summa", "f64", "50,41"), ("cannon", "f32", "50,41"), ("ag_gemm", "i32", "41,50")]
    {
        let random = |shape: &str, seed: &str, out: &str, order: &[&str]| {
            let words = ["random", "--shape", shape, "--type", dtype, "--seed", seed, "--out", &file(out)];
            let ended = polyshard(&[&words[..], order].concat());
            assert!(ended.success, "{}", ended.stderr);
        };
        random(shape_of_a, "7", "A.npy", &[]);
        random(shape_of_a, "7", "A_fortran.npy", &["--fortran"]);
        random("41,34", "8", "B.npy", &[]);
        random("41,34", "8", "B_fortran.npy", &["--fortran"]);
        assert_ne!(std::fs::read(file("A.npy")).unwrap(), std::fs::read(file("A_fortran.npy")).unwrap());

        let made = file("made.npy");
        check_answer(Start::Plain, &format!("{name} --size 50,41,34 --type {dtype} --seed 7 --out {made}"));
        for &start in STARTS {
            for (a, b) in [("A.npy", "B.npy"), ("A.npy", "B_fortran.npy"), ("A_fortran.npy", "B.npy")] {
                let out = file("C.npy");
                // Size and type are those of the files.
                check_answer(start, &format!("{name} --a {} --b {} --out {out}", file(a), file(b)));
                let compared = polyshard(&["compare", &made, &out]);
                assert_eq!(
                    compared.stdout, "largest difference 0e0\n",
                    "{name} {a} {b} {start:?}: {}",
                    compared.stderr
                );
            }
        }
    }
}

#[test]
fn a_run_tells_its_mesh_patterns_time_and_bytes() {
    let stdout = check_run(Start::Plain, "pumma --mesh 3x3 --size 30,60,90 --repeat 3 --no-check");
    let lines: Vec<_> = stdout.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "pumma: C[m, n] += A[m, k] * B[k, n], f32, m = 30, n = 90, k = 60",
            "mesh (x: 3, y: 3), 9 ranks on threads",
            "A: shift(y, 1)",
            "B: broadcast(x)",
            "C: local",
        ]
    );
    let [time, bytes] = lines[5..] else { panic!("{stdout}") };
    assert!(time.starts_with("best of 3 runs ") && time.contains(" GFLOP/s; median "), "{time}");
    // Three tiles of 10x20 of A, all but the first from elsewhere, and two of three tiles of 20x30 of B.
    assert_eq!(bytes, format!("received per rank: at most {} bytes", 4 * (2 * 10 * 20 + 2 * 20 * 30)));
}

#[test]
fn compared_arrays_that_differ_are_an_error_that_says_where() {
    let folder = test_folder!("compared");
    let (one, other) = (folder.join("one.npy"), folder.join("other.npy"));
    for (path, seed) in [(&one, "1"), (&other, "2")] {
        assert!(polyshard(&["random", "--shape", "2,3", "--type", "i32", "--seed", seed, "--out", text(path)]).success);
    }
    let compared = polyshard(&["compare", text(&one), text(&other)]);
    assert!(!compared.success && compared.stdout.is_empty());
    let says = compared.stderr.strip_prefix("error: largest difference ").expect("it says how far they are apart");
    assert!(says.contains(" at [") && says.ends_with("; at most 0e0 is allowed\n"), "{says}");
    assert!(polyshard(&["compare", text(&one), text(&other), "--tolerance", "18"]).success);
}

#[test]
fn one_product_too_few_is_a_wrong_answer_and_rounding_is_none() {
    let (m, k, n) = (5, 2048, 4);
    let a = Array2::from_shape_fn((m, k), |(i, j)| values::element::<f32>(1, &[i, j])).into_dyn();
    let b = Array2::from_shape_fn((k, n), |(i, j)| values::element::<f32>(2, &[i, j])).into_dyn();
    let product = |inputs: &[&ArrayD<f32>], terms: &dyn Fn() -> Box<dyn Iterator<Item = usize>>| {
        let [a, b] = inputs else { panic!("a product has two inputs") };
        Array2::from_shape_fn((m, n), |(i, j)| terms().map(|l| a[[i, l]] * b[[l, j]]).sum::<f32>()).into_dyn()
    };
    let judge = |c: &ArrayD<f32>| {
        check::check(&[&a, &b], c, k, |inputs| Ok(product(inputs, &|| Box::new(0..k))))
            .map_err(|error| error.to_string())
    };
    let backwards = product(&[&a, &b], &|| Box::new((0..k).rev()));
    let said = judge(&backwards).expect("rounding is no error");
    assert!(said.starts_with("largest error against the sequential reference: ") && !said.contains(": 0e0 "), "{said}");

    let mut short = backwards.clone();
    // Not any one: some products are so small that rounding hides them.
    let lost = (0..k).map(|l| a[[2, l]] * b[[l, 1]]).fold(0.0, f32::max);
    short[[2, 1]] -= lost;
    let said = judge(&short).expect_err("a product is missing");
    assert!(said.starts_with("the answer is wrong: element [2, 1] is off by "), "{said}");

    let mut nan = backwards;
    nan[[0, 0]] = f32::NAN;
    let said = judge(&nan).expect_err("no number is none");
    assert!(said.starts_with("the answer is wrong: element [0, 0] is off by inf, but"), "{said}");

    let whole = ArrayD::from_elem(vec![2], 3_i64);
    let exact = check::check(&[&whole], &whole, 1, |inputs| Ok(inputs[0].clone())).expect("it is equal");
    assert_eq!(exact, "largest error against the sequential reference: 0e0 (integers are exact)");
    let other = check::check(&[&whole], &whole, 1, |inputs| Ok(inputs[0].mapv(|x| x + 1)));
    let said = other.expect_err("it differs by 1").to_string();
    assert!(said.starts_with("the answer is wrong: element [0] is off by 1e0"), "{said}");
}

/// Runs the command line.
fn polyshard(arguments: &[&str]) -> Ended {
    run(Start::Plain, &command_line(cfg!(feature = "mpi")), arguments, LIMIT)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("cargo's folder has a plain name")
}
