//! The files from which a run reads its arrays, and to which it writes its results.

use super::{COMMAND_LINE, Folder};
use expect_test::expect;
use polyshard::ndarray::{Array1, Array2, Ix1, Ix2};
use polyshard::runtime::NpyFile;
use polyshard_testing::start::{Ended, Start};
use polyshard_testing::test_folder;
use std::fs;
use std::path::Path;

/// Rounds that carry a value and its predecessor, with this header.
fn leapfrog(header: &str) -> String {
    format!(
        "{header} {{
            fn onward(before: [T; n], U: [T; n]) -> after: [T; n] {{ after[i] = 2 * U[i] - before[i] + U[(i + 1) % n] }}
            mesh(x: 2).distribute([i], [io], [ii]).shard(before, i @ x).shard(U, dim(0) @ x).shard(after, i @ x)
        }}"
    )
}

fn vector(path: &str) -> Array1<i64> {
    let array = NpyFile::open(path).expect("the file is there").read::<i64>().expect("it is an array");
    array.into_dimensionality::<Ix1>().expect("a vector")
}

/// The `--out` arguments for arrays and their files in a folder.
fn outs(folder: &Folder, files: &[&str]) -> Vec<String> {
    let one = |file: &&str| match file.split_once('=') {
        Some((name, file)) if !file.starts_with('/') => ["--out".to_owned(), format!("{name}={}", folder.path(file))],
        Some(_) => ["--out".to_owned(), (*file).to_owned()],
        None => ["--out".to_owned(), folder.path(file)],
    };
    files.iter().flat_map(one).collect()
}

#[test]
fn a_run_writes_what_the_last_kernel_computes_or_the_arrays_of_these_names() {
    let folder = Folder(test_folder!("poly_results"));
    let arrays = folder.arrays("i64", &["7", "7"]);
    let [mut before, mut now] = [0, 1].map(|nth| vector(&arrays[nth]));
    for _ in 0..5 {
        let after = Array1::from_shape_fn(7, |i| 2 * now[i] - before[i] + now[(i + 1) % 7]);
        (before, now) = (now, after);
    }
    for header in ["repeat(5, before = U, U = after)", "repeat(5, U = after, before = U)"] {
        let file = folder.poly(&leapfrog(header));
        let run = |files: &[&str]| {
            let outs = outs(&folder, files);
            let words: Vec<&str> = ["run", &file, &arrays[0], &arrays[1], "--check"].into_iter().collect();
            let words: Vec<&str> = words.into_iter().chain(outs.iter().map(String::as_str)).collect();
            let Ended { success, stdout, stderr, .. } = COMMAND_LINE.run(Start::Plain, &words);
            (success, (stdout + &stderr).replace(&format!("{}/", folder.0.display()), ""))
        };
        let (_, said) = run(&["out.npy"]);
        assert!(said.contains("\nread     before from 0.npy, U from 1.npy\n"), "{said}");
        assert!(said.ends_with("\nwrote    out.npy: U after 5 rounds, 7, i64\n"), "{said}");
        assert_eq!(vector(&folder.path("out.npy")), now, "{header}");
        let (_, said) = run(&["before=b.npy", "U=u.npy"]);
        let expected = "\nwrote    b.npy: before after 5 rounds, 7, i64\nwrote    u.npy: U after 5 rounds, 7, i64\n";
        assert!(said.ends_with(expected), "{said}");
        assert_eq!([vector(&folder.path("b.npy")), vector(&folder.path("u.npy"))], [before.clone(), now.clone()]);
        // All of several files are written, or none.
        let refused = [
            &["U=x.npy", "before=/dev/full"][..],
            &["U=x.npy", "before=no/x.npy"],
            &["U=x.npy", "before=x.npy"],
            &["U=x.npy", "U=y.npy"],
            &["x.npy", "before=y.npy"],
            &["after=x.npy"],
        ];
        let said: String = refused
            .map(|files| {
                let (success, said) = run(files);
                assert!(!success && !Path::new(&folder.path("x.npy")).exists(), "{files:?}: {said}");
                said.lines()
                    .filter(|line| line.starts_with("error"))
                    .map(|line| format!("{line}\n"))
                    .collect::<String>()
            })
            .concat();
        let said = said.replace("`before` and `U`", "`U` and `before`").replace("`before`, `U`", "`U`, `before`");
        expect![[r#"
            error: rank 0: cannot write `/dev/full`: the file system is full; write elsewhere, or make room
            error: cannot write `no/x.npy`: the folder `no` does not exist; create it first
            error: `U` and `before` cannot both be written to `x.npy`; give each `--out` a file of its own
            error: two files are given for the result `U`; give one
            error: `--out x.npy` does not say which of the results `U`, `before`; write `--out NAME=x.npy`
            error: no result `after` in `kernels.poly`; the results are `U`, `before`
        "#]]
        .assert_eq(&said);
    }
}

#[test]
fn what_a_kernel_before_the_last_one_writes_is_a_result_too() {
    let folder = Folder(test_folder!("poly_intermediate"));
    let arrays = folder.arrays("i64", &["6"]);
    let kernel = |name: &str, [from, to]: [&str; 2], value: &str| {
        let schedule = format!("mesh(x: 2).distribute([i], [io], [ii]).shard({from}, i @ x).shard({to}, i @ x)");
        format!("fn {name}({from}: [T; n]) -> {to}: [T; n] {{ {to}[i] = {value} }} {schedule}")
    };
    let kernels = [
        kernel("twice", ["A", "B"], "2 * A[i]"),
        "repeat(3, B = D) {".into(),
        kernel("more", ["B", "C"], "B[i] + 1"),
        "repeat(2, C = D) {".into(),
        kernel("most", ["C", "D"], "3 * C[i]"),
        "}".into(),
        kernel("over", ["C", "D"], "C[i] - 1"),
        "fn norm(D: [T; n]) -> s: T { s[] += D[i] } mesh(x: 2).distribute([i], [io], [ii]).shard(D, i @ x) }".into(),
        kernel("copy", ["B", "E"], "-B[i]"),
    ];
    let a = vector(&arrays[0]);
    let mut b = 2 * &a;
    for _ in 0..3 {
        b = 9 * (b + 1) - 1;
    }
    let (file, out) = (folder.poly(&kernels.join("\n")), folder.path("E.npy"));
    let more = [format!("E={out}"), format!("B={}", folder.path("B.npy"))];
    let words = ["run", &file, &arrays[0], "--out", &more[0], "--out", &more[1], "--check"];
    let said = COMMAND_LINE.said(Start::Plain, &words);
    assert!(said.contains("B.npy: B after 3 rounds, 6, i64\n"), "{said}");
    assert_eq!([vector(&out), vector(&folder.path("B.npy"))], [-b.clone(), b]);
    // Without a name, it is the output of the last kernel.
    let said = COMMAND_LINE.said(Start::Plain, &["run", &file, &arrays[0], "--out", &out]);
    assert!(said.ends_with("E.npy: E, 6, i64\n"), "{said}");
    let chain = "fn twice(A: [T; n]) -> B: [T; n] { B[i] = 2 * A[i] } auto fn more(B: [T; n]) -> C: [T; n] { C[i] = B[i] + 1 } auto";
    let (file, out) = (folder.poly(chain), folder.path("B.npy"));
    let (arrays, named) = (folder.arrays("f64", &["6"]), format!("B={out}"));
    let words = ["run", &file, &arrays[0], "--out", &named, "--ranks", "2", "--machine", "a100"];
    COMMAND_LINE.said(Start::Plain, &words);
    let [a, twice] = [&arrays[0], &out].map(|path| NpyFile::open(path).expect("it is there").read::<f64>());
    assert_eq!(2.0 * a.expect("an array"), twice.expect("an array"));
}

#[test]
fn a_chain_that_is_printed_says_which_files_it_reads_in_which_order() {
    let folder = Folder(test_folder!("poly_order"));
    let arrays = folder.arrays("f64", &["6,6", "6,6", "6,6"]);
    let [a, b, c] = [0, 1, 2].map(|nth| {
        let array = NpyFile::open(&arrays[nth]).expect("the file is there").read::<f64>().expect("it is an array");
        array.into_dimensionality::<Ix2>().expect("a matrix")
    });
    let expected: Array2<f64> = a.dot(&b).dot(&c);
    let order = ["--order", "jk,kl; ij,jl", "--ranks", "3", "--machine", "a100", "--print", "chain"];
    let words = [&["einsum", "ij,jk,kl->il", &arrays[0], &arrays[1], &arrays[2]][..], &order].concat();
    let chain = COMMAND_LINE.said(Start::Plain, &words);
    let (comment, _) = chain.split_once('\n').expect("lines");
    let files = comment.strip_prefix("// files in this order: ").expect("a comment");
    let named: Vec<String> =
        ["T1", "T2", "T0"].iter().zip([1, 2, 0]).map(|(name, nth)| format!("{name}={}", arrays[nth])).collect();
    assert_eq!(files, named.join(" "));
    let (file, out) = (folder.poly(&chain), folder.path("out.npy"));
    let run = |files: &[&str]| {
        let said = COMMAND_LINE.said(Start::Plain, &[&["run", &file][..], files, &["--out", &out]].concat());
        assert!(said.contains("read     T1 from ") && said.contains(", T0 from "), "{said}");
        let found = NpyFile::open(&out).expect("it was written").read::<f64>().expect("it is an array");
        let error = found.iter().zip(&expected).map(|(found, expected)| (found - expected).abs()).fold(0.0, f64::max);
        assert!(error < 1e-12, "off by {error}: {said}");
    };
    // By position in the order of the comment, with the names in the comment, and by name in any order.
    run(&[&arrays[1], &arrays[2], &arrays[0]]);
    run(&files.split(' ').collect::<Vec<_>>());
    run(&[&named[2], &named[0], &named[1]]);
    let lowered =
        COMMAND_LINE.said(Start::Plain, &["lower", &file, &named[2], &named[1], &named[0], "--print", "chain"]);
    assert_eq!(lowered.lines().next(), Some(comment));
    // Errors about names.
    let refused = |files: &[&str]| folder.refusal(&[&["run", &file][..], files, &["--out", &out]].concat());
    let refusals = [
        refused(&[&named[0], &arrays[0], &named[1]]),
        refused(&[&named[0], "Q=0.npy", &named[1]]),
        refused(&[&named[0], &named[0], &named[1]]),
        refused(&[&named[0], &named[1]]),
    ]
    .concat();
    expect![[r#"
        error: `T1` is given by name, but `0.npy` is not; write `NAME=0.npy`, or leave out all names
        error: no array `Q` is read in `kernels.poly`; the arrays that it reads are `T1`, `T2`, `T0`
        error: two files are given for `T1`; give one
        error: no file for `T0`; give `T0=FILE.npy`
    "#]]
    .assert_eq(&refusals);
    fs::remove_file(&out).expect("it was written");
}

/// The first state has a rim without values; rounds continue from it, and it is `P` in the second round.
#[test]
fn rounds_go_on_from_a_state_with_a_rim_that_was_written_before_them() {
    let folder = Folder(test_folder!("poly_rim_before_rounds"));
    let schedule = "mesh(x: 2) .distribute([i], [io], [ii]).shard(P, i @ x).shard(U, i @ x)";
    let text = format!(
        "fn begin(P: [T; n]) -> U: [T; n] {{ U[i] = P[i] + 1 for i in 1..n - 1 }} {schedule}
        repeat(3, P = U, U = N) {{
            fn step(P: [T; n], U: [T; n]) -> N: [T; n] {{ N[i] = (U[i - 1] else 0) + (U[i + 1] else 0) - P[i] }}
            {schedule}.shard(N, i @ x)
        }}"
    );
    let (file, arrays, out) = (folder.poly(&text), folder.arrays("i64", &["9"]), folder.path("U.npy"));
    let named = format!("U={out}");
    COMMAND_LINE.said(Start::Plain, &["run", &file, &arrays[0], "--out", &named, "--check"]);
    let mut p = vector(&arrays[0]);
    let n = p.len();
    let mut u = Array1::from_shape_fn(n, |i| if (1..n - 1).contains(&i) { p[i] + 1 } else { 0 });
    for _ in 0..3 {
        let at = |i: usize| if i < n { u[i] } else { 0 };
        let next = Array1::from_shape_fn(n, |i| at(i.wrapping_sub(1)) + at(i + 1) - p[i]);
        p = std::mem::replace(&mut u, next);
    }
    assert_eq!(vector(&out), u);
}
