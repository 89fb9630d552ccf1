//! `auto` alone, and at the end of a chain whose mesh and shardings it keeps.

use super::{COMMAND_LINE, Folder};
use expect_test::expect;
use polyshard_testing::start::Start;
use polyshard_testing::test_folder;

const PRODUCT: &str =
    "fn product(A: [f64; 4096, 4096], B: [f64; 4096, 4096]) -> C: [f64; 4096, 4096] { C[i, j] = A[i, k] * B[k, j] }\n";
const POWER: &str = "fn power(M: [f64; 16384, 16384], v: [f64; 16384]) -> v {
    repeat(4) {
        let y[i] = M[i, j] * v[j];
        let s = y[i] * y[i];
        s = sqrt(s);
        v[i] = y[i] / s;
    }
}
";

/// The chosen program of a file, on at most four ranks.
fn lowered(folder: &Folder, text: &str) -> String {
    COMMAND_LINE.said(Start::Plain, &["lower", &folder.poly(text), "--ranks", "4", "--machine", "a100"])
}

#[test]
fn shardings_before_auto_are_kept() {
    let folder = Folder(test_folder!("poly_auto_kept"));
    for (chain, expected) in [
        ("mesh(x: 4).shard(A, k @ x).auto", "A[4096, 4096]: k @ x"),
        (".shard(A, k @ x).auto", "A[4096, 4096]: k @ x"),
        ("mesh(p: 2, q: 2).shard(B).auto", "B[4096, 4096]: replicated"),
    ] {
        let said = lowered(&folder, &format!("{PRODUCT}{chain}"));
        assert!(said.contains(expected), "{chain}:\n{said}");
    }
    let said = lowered(&folder, &format!("{POWER}mesh(x: 4).shard(M, i @ x).shard(v, i @ x).auto"));
    assert!(said.contains("M[16384, 16384]: [0 @ x]"), "{said}");
}

#[test]
fn a_block_with_a_statement_without_indices_runs_on_all_ranks() {
    let folder = Folder(test_folder!("poly_auto_scalars"));
    let said = lowered(&folder, &format!("{POWER}auto"));
    assert!(said.contains("program over (x: 4)"), "{said}");
    // Beside a kernel with a schedule, it runs on the mesh of that.
    let scale =
        "fn scale(u: [f64; 16384]) -> v: [f64; 16384] { v[i] = u[i] / 2 }\nmesh(x: 4).distribute([i], [io], [ii])\n";
    let said = lowered(&folder, &format!("{scale}{POWER}auto"));
    assert!(said.contains("program over (x: 4)"), "{said}");
}

#[test]
fn steps_that_are_not_kept_are_refused() {
    let folder = Folder(test_folder!("poly_auto_refused"));
    let refused = |text: &str| folder.refusal(&["lower", &folder.poly(text), "--ranks", "4", "--machine", "a100"]);
    let two = PRODUCT.replace("product", "other").replace("C:", "D:").replace("C[", "D[");
    let refusals = [
        refused(&format!("{PRODUCT}mesh(x: 4).distribute([i], [io], [ii]).shard(A, i @ x).split(k, ko, ki, 2).auto")),
        refused(&format!("{POWER}.split(j, jo, ji, 2).auto")),
        refused(&format!("{POWER}mesh(x: 4).shard(w, i @ x).auto")),
        refused(&format!("{PRODUCT}mesh(x: 4).auto.shard(A, i @ x)")),
        refused(&format!("{PRODUCT}mesh(x: 4).auto()")),
        refused(&format!("{PRODUCT}auto mesh(x: 4)")),
        refused(&format!("{PRODUCT}mesh(x: 4).shard(A, i @ y).auto")),
        refused(&format!("{PRODUCT}mesh(x: 8).auto")),
        refused(&format!("{PRODUCT}mesh(x: 4).auto\n{two}mesh(x: 2).auto")),
        refused(&format!("{PRODUCT}.shard(A, i @ x).auto\n{two}.shard(A, k @ x).auto")),
    ];
    expect![[r#"
        error: `distribute([i], [io], [ii], mesh(x: 4))` is not kept by `.auto`
         --> kernels.poly:2:12
          |
        2 | mesh(x: 4).distribute([i], [io], [ii]).shard(A, i @ x).split(k, ko, ki, 2).auto
          |            ^^^^^^^^^^
          |
          = help: leave the step out, or write the whole schedule; `mesh(..)` and `.shard(..)` are kept

        error: `split(k, ko, ki, 2)` is not kept by `.auto`
         --> kernels.poly:2:56
          |
        2 | mesh(x: 4).distribute([i], [io], [ii]).shard(A, i @ x).split(k, ko, ki, 2).auto
          |                                                        ^^^^^
          |
          = help: leave the step out, or write the whole schedule; `mesh(..)` and `.shard(..)` are kept
        error: `split(j, jo, ji, 2)` is not kept by `.auto`
         --> kernels.poly:9:2
          |
        9 | .split(j, jo, ji, 2).auto
          |  ^^^^^
          |
          = help: leave the step out, or write the whole schedule; `mesh(..)` and `.shard(..)` are kept
        error: the block has no array `w`
         --> kernels.poly:9:12
          |
        9 | mesh(x: 4).shard(w, i @ x).auto
          |            ^^^^^
          |
          = help: the arrays are `M`, `v`, `y` and `s`
        error: unexpected tokens after `.auto`
         --> kernels.poly:2:16
          |
        2 | mesh(x: 4).auto.shard(A, i @ x)
          |                ^^^^^^^^^^^^^^^^
          |
          = help: `.auto` ends the schedule, and has no parentheses
        error: unexpected tokens after `.auto`
         --> kernels.poly:2:16
          |
        2 | mesh(x: 4).auto()
          |                ^^
          |
          = help: `.auto` ends the schedule, and has no parentheses
        error: unexpected tokens after `auto`
         --> kernels.poly:2:6
          |
        2 | auto mesh(x: 4)
          |      ^^^^
          |
          = help: write what it keeps before it: `mesh(x: 2).shard(A, i @ x).auto`
        error: no schedule fits the given shardings: no axis `y`; the axes are x
        error: the mesh has 8 ranks, but the program runs on 4 ranks; give `--ranks 8`, or leave the mesh out to have one chosen
        error: this schedule is on mesh(x: 2), an earlier one on mesh(x: 4)
         --> kernels.poly:4:12
          |
        4 | mesh(x: 2).auto
          |            ^^^^
          |
          = help: all kernels of a file run on one mesh: write the same, or leave it out
        error: `A` has two shardings
         --> kernels.poly:4:18
          |
        4 | .shard(A, k @ x).auto
          |                  ^^^^
          |
          = help: `.auto` keeps one sharding of an array in the whole file: write it once
    "#]].assert_eq(&refusals.concat());
}
