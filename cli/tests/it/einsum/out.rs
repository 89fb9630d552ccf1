//! The output file: its path is checked before a schedule is chosen, and an error is printed once.

use super::{COMMAND_LINE, Files};
use expect_test::expect;
use polyshard::layout::DType;
use polyshard::ndarray::arr2;
use polyshard::runtime::spmd;
use polyshard_testing::start::{Ended, Start};
use polyshard_testing::test_folder;
use std::fs;

const PRODUCT: &str = "fn product(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] { C[m, n] += A[m, k] * B[k, n] }\nauto";

#[test]
fn places_that_cannot_be_written_to_are_refused_before_the_search() {
    let files = Files::new(test_folder!("einsum_places"), DType::F64, &[&[4, 6], &[6, 3]]);
    let poly = files.path("product.poly");
    fs::write(&poly, PRODUCT).expect("the folder is ours");
    let inputs = ["A.npy", "B.npy"].map(|name| files.path(name));
    let both = |out: &str| {
        let out = files.path(out);
        let [einsum, run] = [["einsum", "ij,jk->ik"], ["run", &poly]].map(|command| {
            // No machine is measured if the result cannot be written.
            let arguments = [&command[..], &[&*inputs[0], &*inputs[1], "--out", &out, "--measure"]].concat();
            COMMAND_LINE.refusal(&arguments, &[&files.folder])
        });
        assert_eq!(einsum, run);
        einsum
    };
    fs::create_dir_all(files.path("folder")).expect("the folder is ours");
    fs::create_dir_all(files.path("folder.npy")).expect("the folder is ours");
    // The superuser may write to read-only files.
    let locked = files.path("locked.npy");
    let refusals =
        [both("no/folder/out.npy"), both("A.npy"), both("out.txt"), both("folder"), both("folder.npy")].concat();
    expect![[r#"
        error: cannot write `no/folder/out.npy`: the folder `no/folder` does not exist; create it first
        error: cannot write `A.npy`: it is the input `A.npy`; write to another file
        error: `--out out.txt` does not end in `.npy`, which is what is written; write `--out out.npy`
        error: `--out folder` is a folder; write `--out folder/out.npy`
        error: cannot write `folder.npy`: it is a folder; name a file in it
    "#]]
    .assert_eq(&refusals);
    fs::write(&locked, "kept").expect("the folder is ours");
    let mut permissions = fs::metadata(&locked).expect("it is there").permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&locked, permissions).expect("it is ours");
    if fs::OpenOptions::new().write(true).open(&locked).is_err() {
        let refused = both("locked.npy");
        expect![[r#"
            error: cannot write `locked.npy`: no permission to write to it; write elsewhere, or change the permission
        "#]]
        .assert_eq(&refused);
    }
    assert_eq!(fs::read_to_string(&locked).expect("it is there"), "kept");
}

#[test]
fn sums_that_cancel_pass_the_check() {
    let files = Files::new(test_folder!("einsum_cancels"), DType::F64, &[&[1, 4], &[4, 1]]);
    // 1e8 + 0.1 - 1e8 - 0.1 depends on the order of its terms, and is close to 0.
    let write = |name: &str, values: [f64; 4], by_rows: bool| {
        let whole = if by_rows { arr2(&[values]) } else { arr2(&values.map(|value| [value])) }.into_dyn();
        let path = files.path(name);
        let done = spmd(1, |world| {
            let sharding =
                polyshard::layout::Sharding::replicated(&polyshard::layout::Mesh::new([("x", 1)]), whole.shape());
            polyshard::runtime::DistArray::from_fn(world, &sharding, |index| whole[index])?.to_npy(world, &path)
        });
        done.expect("the folder is ours");
    };
    write("A.npy", [1e8, 0.1, -1e8, -0.1], true);
    write("B.npy", [1.0; 4], false);
    for ranks in ["1", "2", "3"] {
        let more = ["--ranks", ranks, "--out", &files.path("C.npy"), "--check"];
        let said = files.said(Start::Plain, "ij,jk->ik", &["A.npy", "B.npy"], &more);
        let line = said.lines().find(|line| line.starts_with("checked")).expect("it is checked");
        assert!(line.starts_with("checked  1 of 1 row against a sequential computation: largest error "), "{line}");
        assert!(line.ends_with(", relative to the sum of the absolute values of its terms"), "{line}");
    }
}

#[test]
#[cfg(feature = "mpi")]
fn what_is_wrong_is_said_once_by_all_processes() {
    let files = Files::new(test_folder!("einsum_once"), DType::F64, &[&[4, 6], &[6, 3]]);
    let [a, b, nowhere] = ["A.npy", "B.npy", "no/C.npy"].map(|name| files.path(name));
    let poly = files.path("product.poly");
    fs::write(&poly, PRODUCT).expect("the folder is ours");
    let out = ["--out", "C.npy"];
    let cases: [(&[&str], &str); 6] = [
        // Errors of clap, of missing files or indices, of output paths, and of the search.
        (&["einsum", "ij,jk->ik", &a, &b, "--otu", "C.npy"], "error: unexpected argument '--otu' found"),
        (&["einsum", "ij,jk->il", &a, &b, "--out", "C.npy"], "error: index `l` is only in the output"),
        (&["einsum", "ij,jk->ik", &a, &b, "--out", &nowhere], "error: cannot write `"),
        (
            &["einsum", "ij,jk->ik", &a, &b, "--memory", "8B", "--machine", "a100", out[0], out[1]],
            "error: no schedule of `einsum` on up to 3 ranks",
        ),
        (
            &["run", &poly, &a, &b, "--memory", "8B", "--machine", "a100", out[0], out[1]],
            "error: no schedule of `product` on up to 3 ranks",
        ),
        (&["run", &poly, &a, &b, "--let", "q=1", out[0], out[1]], "error: no name `q` in `"),
    ];
    for (arguments, expected) in cases {
        let Ended { success, stdout, stderr, .. } = COMMAND_LINE.run(Start::Mpi(3), arguments);
        assert!(!success && stdout.is_empty(), "{arguments:?} should be refused:\n{stdout}");
        // The output of mpirun about processes that ended may precede their own.
        assert!(stderr.lines().any(|line| line.starts_with(expected)), "{arguments:?}:\n{stderr}");
        assert_eq!(stderr.matches("error: ").count(), 1, "{arguments:?}:\n{stderr}");
    }
    assert!(!std::path::Path::new("C.npy").exists());
    // Help is not an error, and is printed once as well.
    let Ended { success, stdout, .. } = COMMAND_LINE.run(Start::Mpi(3), &["einsum", "--help"]);
    assert!(success && stdout.matches("Examples:").count() == 1, "{stdout}");
}

#[test]
fn hints_are_printed_on_standard_error() {
    let files = Files::new(test_folder!("einsum_hints"), DType::F64, &[&[40, 60], &[60, 50], &[30]]);
    let out = files.path("out.npy");
    let hinted = |text: &str, names: &[&str], more: &[&str]| {
        let Ended { success, stderr, .. } =
            files.run(Start::Plain, text, names, &[more, &["--ranks", "2", "--machine", "a100"]].concat());
        assert!(success, "{stderr}");
        stderr
    };
    let lone = expect![[r#"
        hint: `j` occurs only in `A[i, j]`, so `A[i, j]` is summed over `j` again for each value of k: if you meant another index, write that one; else sum first, in a kernel of its own
        hint: `k` occurs only in `C[k]`, so `C[k]` is summed over `k` again for each value of i, j: if you meant another index, write that one; else sum first, in a kernel of its own
    "#]];
    lone.assert_eq(&hinted("ij,k->i", &["A.npy", "C.npy"], &["--out", &out]));
    lone.assert_eq(&hinted("ij,k->i", &["A.npy", "C.npy"], &["--dry-run"]));
    expect![[r#"
        hint: the statement runs element by element, and would be a matrix product but for the factor `max(A[i, l], 0.0)`: compute it in a kernel of its own before, `T[i, l] = max(A[i, l], 0.0)`, and write `T[i, l]` here
    "#]]
    .assert_eq(&hinted("C[i, j] = max(A[i, l], 0.0) * B[l, j]", &["A.npy", "B.npy"], &["--out", &out]));
    assert_eq!(hinted("ij,jk->ik", &["A.npy", "B.npy"], &["--out", &out]), "");
    // No kernel writes the rim; rounds would keep that of `A`.
    let poly = files.path("rim.poly");
    let jacobi = "fn jacobi(A: [T; n]) -> B: [T; n] { B[i] = 0.5 * (A[i - 1] + A[i + 1]) for i in 1..n - 1 }\nauto\n";
    let twice = "fn twice(B: [T; n]) -> D: [T; n] { D[i] = 2 * B[i] }\nauto\n";
    let run = ["run", &poly, &files.path("C.npy"), "--out", &out, "--ranks", "2", "--machine", "a100"];
    for (text, hint) in
        [(format!("{jacobi}{twice}"), "hint: `twice` reads "), (format!("repeat(3, A = B) {{ {jacobi} }}"), "")]
    {
        fs::write(&poly, text).expect("the folder is ours");
        let Ended { success, stderr, .. } = COMMAND_LINE.run(Start::Plain, &run);
        assert!(success && stderr.starts_with(hint) && stderr.is_empty() == hint.is_empty(), "{stderr}");
    }
}

#[test]
fn extents_of_1_broadcast_where_that_is_asked_for_and_an_einsum_may_begin_as_an_option() {
    let files = Files::new(test_folder!("einsum_broadcast"), DType::F64, &[&[1, 2, 3], &[5, 3, 4]]);
    let out = files.path("out.npy");
    expect![[r#"
        error: `...` is 1 in dimension 0 of A.npy (1 x 2 x 3) and 5 in dimension 0 of B.npy (5 x 3 x 4); extents of 1 are broadcast only with `--broadcast`, in Rust by `einsum_broadcast`
    "#]].assert_eq(&files.refusal("...ij,...jk->...ik", &["A.npy", "B.npy"], &["--out", &out]));
    for ranks in ["1", "3"] {
        let more = ["--broadcast", "--out", &out, "--ranks", ranks, "--machine", "a100"];
        files.said(Start::Plain, "...ij,...jk->...ik", &["A.npy", "B.npy"], &more);
        let (a, b, found) = (files.read("A.npy"), files.read("B.npy"), files.read("out.npy"));
        assert_eq!(found.shape(), [5, 2, 4]);
        for (index, found) in found.indexed_iter() {
            let expected: f64 = (0..3).map(|j| a[[0, index[1], j]] * b[[index[0], j, index[2]]]).sum();
            assert!((found - expected).abs() < 1e-12, "{index:?}");
        }
    }
    let more = ["--machine", "a100", "--ranks", "1", "--out"];
    files.said(Start::Plain, "ijk->", &["A.npy"], &[&more[..], &[&files.path("S.npy")]].concat());
    files.said(Start::Plain, "->", &["S.npy"], &[&more[..], &[&out]].concat());
    assert_eq!(files.read("out.npy"), files.read("S.npy"));
}

#[test]
#[cfg(feature = "mpi")]
fn a_check_that_fails_is_said_once() {
    let files = Files::new(test_folder!("einsum_fails"), DType::F64, &[&[4]]);
    // Summed in order this is infinite; summed by halves it is NaN.
    let path = files.path("A.npy");
    let values = [1e308, 1e308, -1e308, -1e308];
    let done = spmd(1, |world| {
        let sharding = polyshard::layout::Sharding::replicated(&polyshard::layout::Mesh::new([("x", 1)]), &[4]);
        polyshard::runtime::DistArray::from_fn(world, &sharding, |index| values[index[0]])?.to_npy(world, &path)
    });
    done.expect("the folder is ours");
    let poly = files.path("sum.poly");
    let steps = "mesh(x: 2).distribute([i], [io], [ii]).shard(A, i @ x)";
    let text = format!(
        "fn sum(A: [T; 4]) -> s: T {{ s[] += A[i] }}\n{steps}.shard(s, pin(x, 0))\n\
         fn twice(A: [T; 4], s: T) -> B: [T; 4] {{ B[i] = A[i] * 0 + s[] }}\n{steps}.shard(B, i @ x)\n"
    );
    fs::write(&poly, text).expect("the folder is ours");
    let arguments = ["run", &poly, &path, "--out", &files.path("out.npy"), "--check"];
    let Ended { success, stderr, .. } = COMMAND_LINE.run(Start::Mpi(2), &arguments);
    assert!(!success && stderr.contains("wrong result: `B` at [0] is NaN, but inf"), "{stderr}");
    assert_eq!(stderr.matches("error: ").count(), 1, "{stderr}");
}
