//! The examples, as a user runs them on threads, each checking its own answer; `scripts/examples` runs them under
//! `mpirun`.

mod perceptron;
mod reduction;

use expect_test::{ExpectFile, expect_file};
use polyshard::prelude::*;
use polyshard_testing::start::{Ended, Start, command_line, run};
use polyshard_testing::{example_path, test_folder};
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// Ways to start four ranks.
const STARTS: &[Start] = &[
    Start::Plain,
    #[cfg(feature = "mpi")]
    Start::Mpi(4),
];
const ON_A_GRID: [&str; 5] = ["summa", "summa --ahead 2", "pumma", "cannon", "cannon --home plain"];
/// Products on meshes of three axes.
const ON_A_CUBE: [&str; 4] = ["johnson", "solomonik", "cosma", "cosma --memory 200"];
/// Products on meshes of one axis.
const ON_A_LINE: [&str; 3] = ["ag_gemm", "gemm_rs", "gemm_rs --ring"];
/// Examples other than products of two matrices, each with sizes of which the first divides.
const TENSORS: [(&str, [&str; 3]); 15] = [
    ("mttkrp", ["12,24,6,8", "13,7,10,5", "2,1,3,1"]),
    ("tucker", ["12,24,6,6,4,12", "13,7,10,5,3,2", "2,1,3,1,2,1"]),
    ("syrk", ["24,12", "37,23", "2,3"]),
    ("inner", ["24,12", "37,23", "2,3"]),
    ("heat", ["24,12", "37,23", "2,3"]),
    ("heat --points 9", ["24,12", "37,23", "2,3"]),
    ("heat --interior-first", ["24,12", "37,23", "25,30"]),
    ("heat --steps 6 --halo 2", ["24,12", "37,23", "25,30"]),
    ("heat --points 9 --steps 1", ["12,24", "11,17", "1,1"]),
    ("heat --steps 0 --cold", ["12,24", "11,17", "1,1"]),
    ("heat --steps 7", ["8,6,4", "7,5,6", "2,1,3"]),
    ("heat --points 27", ["8,6,4", "7,5,6", "2,1,3"]),
    ("cg", ["12,8", "7,11", "2,3"]),
    ("plate", ["12,6", "11,7", "3,4"]),
    ("wave", ["24,12", "37,23", "2,3"]),
];
/// Examples in rows on meshes of one axis, each with sizes of which the first divides.
const IN_ROWS: [(&str, [&str; 3]); 7] = [
    ("kmeans", ["48,6,4", "53,7,3", "2,3,1"]),
    ("layernorm", ["24,12", "37,23", "2,3"]),
    ("attention", ["2,12,24,8", "3,17,23,5", "1,2,3,1"]),
    ("attention --causal", ["2,12,24,8", "3,17,23,5", "1,2,3,1"]),
    ("attention --ring", ["2,12,24,8", "3,17,23,5", "1,2,3,1"]),
    ("attention --ring --causal", ["2,12,24,8", "3,17,23,5", "1,3,2,1"]),
    ("mlp", ["24,12,6,8", "37,13,23,5", "2,3,1,1"]),
];
/// Rounds on meshes of one axis.
const ROUNDS: [&str; 3] = ["power", "jacobi", "restarted"];
const TYPES: [&str; 4] = ["f32", "f64", "i32", "i64"];

/// Runs an example, given with its arguments, and returns what it printed.
#[track_caller]
fn check_run(start: Start, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let Ended { success, stdout, stderr, .. } = run(start, &example_path!(words[0]), &words[1..], LIMIT);
    assert!(success, "`{line}` on {start:?}:\n{stdout}\n{stderr}");
    stdout
}

/// As [`check_run`], and checks that the answer was compared with the sequential reference.
#[track_caller]
fn check_answer(start: Start, line: &str) {
    let stdout = check_run(start, line);
    assert_eq!(stdout.matches("largest error against the sequential reference").count(), 1, "`{line}`:\n{stdout}");
}

#[test]
fn every_example_is_right_on_threads_on_any_mesh_and_size() {
    // Sizes that divide and that do not, with fewer rows than ranks, with nothing to compute and nothing to sum.
    let sizes = ["12,24,36", "50,41,34", "2,3,1", "0,5,2", "7,0,3"];
    let mut types = TYPES.into_iter().cycle();
    for size in sizes {
        for mesh in ["1x1", "1x2", "2x1", "2x2", "2x3", "3x2", "4x1", "3x3"] {
            for name in ON_A_GRID {
                let dtype = if name == "summa" { types.next() } else { None };
                let dtype = dtype.map_or(String::new(), |dtype| format!("--type {dtype}"));
                check_answer(Start::Plain, &format!("{name} --mesh {mesh} --size {size} {dtype}"));
            }
        }
        // One type more than there are meshes, so that each mesh gets all types.
        types.next();
        for mesh in ["1", "2", "3", "5"] {
            for name in ON_A_LINE {
                check_answer(Start::Plain, &format!("{name} --mesh {mesh} --size {size}"));
            }
        }
        for mesh in ["1x1x1", "1x2x2", "2x2x2", "3x1x2", "2x2x3"] {
            for name in ON_A_CUBE {
                check_answer(Start::Plain, &format!("{name} --mesh {mesh} --size {size}"));
            }
        }
    }
}

#[test]
fn every_example_is_right_on_the_sizes_it_has_by_default() {
    for line in ["summa", "johnson", "solomonik", "cosma", "gemm_rs", "gemm_rs --ring"] {
        check_answer(Start::Plain, line);
    }
    for (name, _) in TENSORS.into_iter().chain(IN_ROWS) {
        check_answer(Start::Plain, name);
    }
    for name in ROUNDS {
        check_answer(Start::Plain, name);
        for (mesh, size) in [(1, 5), (3, 20), (5, 3), (2, 17)] {
            check_answer(Start::Plain, &format!("{name} --mesh {mesh} --size {size}"));
        }
    }
}

#[test]
fn tensors_are_right_on_threads_on_any_mesh_and_size() {
    let meshes = |name: &str| match name {
        "mttkrp" => &["1x1x2x1", "1x2x2x2", "2x1x2x2", "1x3x1x2"][..],
        "tucker" => &["1x2x1", "2x2x2", "3x1x2"],
        _ => &["1x1", "2x1", "2x3", "3x2", "1x4", "4x4"],
    };
    for (name, sizes) in TENSORS {
        for size in sizes {
            for mesh in meshes(name.split(' ').next().expect("a name")) {
                check_answer(Start::Plain, &format!("{name} --mesh {mesh} --size {size}"));
            }
        }
    }
    for (name, sizes) in IN_ROWS {
        for size in sizes {
            for mesh in [1, 2, 3, 5] {
                check_answer(Start::Plain, &format!("{name} --mesh {mesh} --size {size}"));
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

#[test]
fn the_compiled_kernels_are_right_on_threads_and_under_mpirun() {
    for &start in STARTS {
        let stdout = check_run(start, "compiled");
        assert_eq!(stdout.matches("largest error against the sequential reference").count(), 4, "{stdout}");
    }
}

/// Runs the Fourier transform, and checks that both its answers were compared.
#[track_caller]
fn check_transform(start: Start, arguments: &str) {
    let stdout = check_run(start, &format!("fft3d {arguments}"));
    for checked in ["largest error of the spectrum", "largest error of the way there and back"] {
        assert_eq!(stdout.matches(checked).count(), 1, "`fft3d {arguments}`:\n{stdout}");
    }
}

#[test]
fn the_fourier_transform_is_right_on_threads_on_any_slabs_and_pencils() {
    // Extents that divide and that do not, prime ones, fewer rows than ranks, and empty arrays.
    let sizes = ["8,12,16", "13,7,10", "3,2,5", "1,1,1", "0,4,3", "5,0,0", "31,2,37"];
    for size in sizes {
        for mesh in ["1", "2", "3", "4", "7", "1x1", "2x2", "1x3", "3x2", "2x5"] {
            check_transform(Start::Plain, &format!("--mesh {mesh} --size {size}"));
        }
    }
    check_transform(Start::Plain, "");
}

#[test]
fn the_fourier_transform_tells_its_stages_and_where_the_time_goes() {
    let stdout = check_run(Start::Plain, "fft3d --mesh 2x2 --size 6,7,8");
    let lines: Vec<_> = stdout.lines().collect();
    assert_eq!(
        lines[..3],
        ["[0 @ p0, 1 @ p1]: lines along [2]", "[0 @ p0, 2 @ p1]: lines along [1]", "[1 @ p0, 2 @ p1]: lines along [0]"]
    );
    for (line, way) in [(lines[3], "forward: "), (lines[5], "back: ")] {
        assert!(line.starts_with(way) && line.contains(" of them in moves"), "{line}");
    }
    assert_eq!(lines.len(), 7, "{stdout}");
}

#[test]
fn a_fourier_transform_on_a_mesh_of_three_axes_is_refused_with_one_that_fits() {
    let Ended { success, stderr, .. } = run(Start::Plain, &example_path!("fft3d"), &["--mesh", "2x1x2"], LIMIT);
    assert!(!success);
    assert_eq!(
        stderr.trim_end(),
        "error: `--mesh` takes one axis for slabs or two for pencils, but (p0: 2, p1: 1, p2: 2) has 3"
    );
}

#[test]
fn the_chain_is_right_on_threads_on_any_mesh_and_size() {
    // Sizes that divide and that do not, with fewer rows than ranks, with nothing to compute and nothing to sum.
    let sizes = ["12,24,36,8", "50,41,34,7", "2,3,1,4", "3,0,7,2", "0,5,2,3", "5,2,0,3"];
    for size in sizes {
        for mesh in [1, 2, 3, 4, 7] {
            check_answer(Start::Plain, &format!("chain --mesh {mesh} --size {size}"));
        }
    }
    check_answer(Start::Plain, "chain");
    check_answer(Start::Plain, "chain --mesh 32");
}

#[test]
fn an_example_receives_what_its_transfers_take_and_nothing_else() {
    // Three tiles of 10x20 of A, all but the first from other ranks, and two of three tiles of 20x30 of B.
    let pumma = ("pumma --mesh 3x3 --size 30,60,90", 2 * 10 * 20 + 2 * 20 * 30);
    // Three quarters of two rows of 12, between the products.
    let chain = ("chain --mesh 4 --size 8,5,12,3", 18);
    for (line, elements) in [pumma, chain] {
        let stdout = check_run(Start::Plain, line);
        assert!(stdout.contains(&format!(" s, {} bytes received by rank 0\n", 4 * elements)), "{line}: {stdout}");
    }
}

#[test]
fn explanations_on_the_notebooks_mesh() {
    let check = |line: &str, expected: ExpectFile| expected.assert_eq(&check_run(Start::Plain, line));
    check("summa --mesh 8x8 --print explain", expect_file!["../golden/explain/summa.txt"]);
    check("pumma --mesh 8x8 --explain", expect_file!["../golden/explain/pumma.txt"]);
    check("cannon --mesh 8x8 --explain", expect_file!["../golden/explain/cannon_skewed.txt"]);
    check("cannon --mesh 8x8 --home plain --explain", expect_file!["../golden/explain/cannon_plain.txt"]);
    check("ag_gemm --mesh 8 --size 2048,1024,4096 --explain", expect_file!["../golden/explain/ag_gemm.txt"]);
    check("johnson --mesh 8x8x8 --size 4096,4096,4096 --explain", expect_file!["../golden/explain/johnson.txt"]);
    check("solomonik --mesh 4x4x2 --size 4096,4096,4096 --explain", expect_file!["../golden/explain/solomonik.txt"]);
    check("cosma --mesh 4x4x4 --size 4096,4096,4096 --explain", expect_file!["../golden/explain/cosma.txt"]);
    check(
        "cosma --mesh 16x4x1 --size 1024,64,256 --memory 6144 --explain",
        expect_file!["../golden/explain/cosma_panels.txt"],
    );
    check("gemm_rs --mesh 8 --size 2048,1024,4096 --explain", expect_file!["../golden/explain/gemm_rs.txt"]);
    check(
        "gemm_rs --ring --mesh 8 --size 2048,1024,4096 --explain",
        expect_file!["../golden/explain/gemm_rs_ring.txt"],
    );
    check("mttkrp --mesh 1x4x4x4 --size 256,256,256,64 --explain", expect_file!["../golden/explain/mttkrp.txt"]);
    check("mttkrp --mesh 2x3x2x4 --size 251,133,97,35 --explain", expect_file!["../golden/explain/mttkrp_ragged.txt"]);
    check("tucker --mesh 4x4x4 --size 256,256,256,16,16,16 --explain", expect_file!["../golden/explain/tucker.txt"]);
    check("syrk --mesh 8x8 --size 2048,1024 --explain", expect_file!["../golden/explain/syrk.txt"]);
    check("inner --mesh 8x8 --size 2048,1024 --explain", expect_file!["../golden/explain/inner.txt"]);
    check("heat --mesh 8x8 --size 2048,1024 --explain", expect_file!["../golden/explain/heat_5.txt"]);
    check("heat --points 9 --mesh 8x8 --size 2048,1024 --explain", expect_file!["../golden/explain/heat_9.txt"]);
    check("chain --mesh 32 --explain", expect_file!["../golden/explain/chain.txt"]);
    check("megatron --mesh 2x2 --explain", expect_file!["../golden/explain/megatron.txt"]);
}

#[cfg(feature = "mpi")]
#[test]
fn what_is_printed_under_mpirun_is_printed_once_and_needs_no_ranks() {
    for line in ["summa --mesh 8x8 --print program", "cannon --mesh 8x8 --explain", "chain --help"] {
        assert_eq!(check_run(Start::Mpi(3), line), check_run(Start::Plain, line));
    }
}

#[test]
fn files_of_either_order_give_the_answer_of_random_inputs_with_the_same_seed() {
    let folder = test_folder!("round_trip");
    let file = |name: &str| folder.join(name).to_str().expect("cargo's folder has a plain name").to_owned();
    for dtype in ["f64", "f32", "i32"] {
        let random = |shape: &str, seed: &str, out: &str, order: &[&str]| {
            let words = ["random", "--shape", shape, "--type", dtype, "--seed", seed, "--out", &file(out)];
            let ended = polyshard(&[&words[..], order].concat());
            assert!(ended.success, "{}", ended.stderr);
        };
        random("50,41", "1", "A.npy", &[]);
        random("50,41", "1", "A_fortran.npy", &["--fortran"]);
        random("41,34", "2", "B.npy", &[]);
        random("41,34", "2", "B_fortran.npy", &["--fortran"]);
        assert_ne!(std::fs::read(file("A.npy")).unwrap(), std::fs::read(file("A_fortran.npy")).unwrap());

        let made = file("made.npy");
        check_answer(Start::Plain, &format!("summa --size 50,41,34 --type {dtype} --out {made}"));
        for &start in STARTS {
            for (a, b) in [("A.npy", "B.npy"), ("A.npy", "B_fortran.npy"), ("A_fortran.npy", "B.npy")] {
                let out = file("C.npy");
                // Size and type are taken from the files.
                check_answer(start, &format!("summa --a {} --b {} --out {out}", file(a), file(b)));
                let compared = polyshard(&["compare", &made, &out]);
                assert_eq!(compared.stdout, "largest difference 0\n", "{dtype} {a} {b} {start:?}: {}", compared.stderr);
            }
        }
    }
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
    assert!(says.contains(" at [") && says.ends_with("; at most 0 is allowed\n"), "{says}");
    assert!(polyshard(&["compare", text(&one), text(&other), "--tolerance", "18"]).success);
}

#[test]
fn one_product_too_few_is_a_wrong_answer_and_rounding_is_none() {
    let (m, k, n) = (5, 2048, 4);
    let matmul = kernel! {
        fn matmul(A: [f32; m, k], B: [f32; k, n]) -> C: [f32; m, n] { C[i, j] += A[i, l] * B[l, j] }
    };
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    let rows = matmul.distribute(["i"], ["io"], ["ii"], &mesh).shard("A", [dim(0).at(x)]).shard("C", [dim(0).at(x)]);
    let program = rows.lower().expect("a legal schedule");
    // Adds `more` to the element at [2, 1] of the product, summed from the last term to the first.
    let verified = |more: f32| {
        let all = polyshard::spmd(2, |world| {
            let element = |seed: u64| move |at: &[usize]| f32::random(seed, at);
            let a = DistArray::from_fn(world, program.sharding("A"), element(1))?;
            let b = DistArray::from_fn(world, program.sharding("B"), element(2))?;
            let c = DistArray::from_fn(world, program.sharding("C"), |at| {
                let terms = (0..k).rev().map(|l| element(1)(&[at[0], l]) * element(2)(&[l, at[1]]));
                terms.sum::<f32>() + if at == [2, 1] { more } else { 0.0 }
            })?;
            Ok(program.verify(world, &[&a, &b], &[&c], 1e-5)?)
        });
        all.map_err(|error| error.to_string())
    };
    let errors = verified(0.0).expect("rounding is no error");
    assert!(errors[0] > 0.0 && errors[0] == errors[1], "all ranks are told: {errors:?}");
    // The largest term: some products are so small that rounding hides them.
    let lost = (0..k).map(|l| f32::random(1, &[2, l]) * f32::random(2, &[l, 1])).fold(0.0, f32::max);
    for (more, found) in [(-lost, ""), (f32::NAN, " is NaN, ")] {
        let said = verified(more).expect_err("it is wrong");
        assert!(said.contains(": wrong result: `C` at [2, 1] is ") && said.contains(found), "{said}");
    }
}

/// Runs the command line.
fn polyshard(arguments: &[&str]) -> Ended {
    run(Start::Plain, &command_line(cfg!(feature = "mpi")), arguments, LIMIT)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("cargo's folder has a plain name")
}
