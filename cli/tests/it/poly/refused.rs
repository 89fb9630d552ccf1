//! Mistakes in files of kernels and in their names, shown in place.

use super::{COMMAND_LINE, Folder, example, words};
use expect_test::expect;
use polyshard_testing::start::{Ended, Start};
use polyshard_testing::test_folder;
use std::fs;
use std::path::Path;

#[test]
fn mistakes_are_shown_where_they_stand() {
    let folder = Folder(test_folder!("poly_mistakes"));
    let (arrays, out) = (folder.arrays("f32", &["6,7", "7,5"]), folder.path("out.npy"));
    let summa = fs::read_to_string(example("summa")).expect("the example");
    let refused = |text: &str| folder.refusal(&words(&["run", &folder.poly(text)], &arrays, &["--out", &out]));
    // Kernels that do not fit together.
    let second = "fn second(C: [T; m, m], A: [T; m, k]) -> D: [T; m, k] { D[i, j] = C[i, l] * A[l, j] }\n";
    let refusals = [
        // An unknown step, and a kernel without mesh.
        refused(&summa.replace(".divide(k, ko, ki, 2)", ".tile(k, ko, ki, 2)")),
        refused(&summa[..summa.find("mesh").expect("a mesh")]),
        // A step that cannot be applied, and a schedule that is not legal as a whole.
        refused(&summa.replace("communicate(A, ko)", "communicate(A, kq)")),
        refused(&summa.replace("[mi, ni, ki]", "[mi, ni, ko]")),
        refused(&summa.replace("A[m, k] *", "A[k, m] *")),
        refused(&summa.replace("[T; k, n]", "[T; n, k]")),
        refused(&summa.replace("[T; ", "[f64; ")),
        refused(&summa.replace("T; m, n]", "T; m, q]")),
        refused(&format!("{summa}{second}auto")),
    ]
    .concat();
    expect![[r#"
        error: no schedule step `tile`
         --> kernels.poly:8:2
          |
        8 | .tile(k, ko, ki, 2)
          |  ^^^^
          |
          = help: the steps are `split`, `divide`, `reorder`, `fuse`, `distribute`, `replicate`, `rotate`, `shard`, `communicate`, `pipeline`, `halo`, `interior_first`, `reassociate`, `tensorize`, `tensorize_as`, `tensorize_with`, `expect`, `expect_overlap`, `together`, `apart`, `of` and `of_all`
        error: `summa` has no mesh and no schedule
         --> kernels.poly:3:4
          |
        3 | fn summa(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] {
          |    ^^^^^
          |
          = help: write `mesh(x: 2)` and steps after it, or `auto`
        error: no loop `kq`
          --> kernels.poly:13:2
           |
        13 | .communicate(A, kq)
           |  ^^^^^^^^^^^
           |
           = help: the loops are mo, no, ko, mi, ni, ki
        error: loop `ko` cannot be tensorized, since `A` is communicated at it
          --> kernels.poly:15:2
           |
        15 | .tensorize([mi, ni, ko])
           |  ^^^^^^^^^
           |
           = help: leave `ko` out of `tensorize`, or communicate `A` at a loop outside the leaf
        error: index `m` has extent 6 in `C[m, n]`, but 7 in `A[k, m]`
         --> kernels.poly:4:7
          |
        4 |     C[m, n] += A[k, m] * B[k, n]
          |       ^
          |
          = help: let the extents agree, use two indices, or state the range that fits: `for m in 0..6`

        error: index `k` has extent 7 in `B[k, n]`, but 6 in `A[k, m]`
         --> kernels.poly:4:28
          |
        4 |     C[m, n] += A[k, m] * B[k, n]
          |                            ^
          |
          = help: let the extents agree, use two indices, or state the range that fits: `for k in 0..6`
        error: `k` is 7 in 0.npy (6 x 7) and 5 in 1.npy (7 x 5)
         --> kernels.poly:3:34
          |
        3 | fn summa(A: [T; m, k], B: [T; n, k]) -> C: [T; m, n] {
          |                                  ^
          |
          = help: give arrays that match, or use two names
        error: `summa` computes in f64, but `0.npy` holds f32
         --> kernels.poly:3:4
          |
        3 | fn summa(A: [f64; m, k], B: [f64; k, n]) -> C: [f64; m, n] {
          |    ^^^^^
          |
          = help: write `T` for the type that the arrays have, or convert them
        error: `q` has no value
         --> kernels.poly:3:51
          |
        3 | fn summa(A: [T; m, k], B: [T; k, n]) -> C: [T; m, q] {
          |                                                   ^
          |
          = help: declare an input with the extent `q`, or set it: `--let q=10`
        error: stage 2, `second`: `C` has shape [6, 6], but `C` has [6, 5], the output of stage 1, `summa`; make them match
    "#]].assert_eq(&refusals);
    let chain = fs::read_to_string(example("chain")).expect("the example");
    let at = chain.rfind("mesh(d: 2)").expect("a mesh");
    let other = format!("{}mesh(d: 3){}", &chain[..at], &chain[at + "mesh(d: 2)".len()..]);
    let arrays = folder.arrays("f32", &["6,7", "7,5", "5,4"]);
    expect![[r#"
        error: stage 2, `second` runs on the mesh (d: 3), but stage 1, `first` on (d: 2); lower all stages for one mesh
          --> kernels.poly:11:4
           |
        11 | fn second(Y: [T; m, h], V: [T; h, n]) -> Z: [T; m, n] {
           |    ^^^^^^
    "#]]
    .assert_eq(&folder.refusal(&words(&["run", &folder.poly(&other)], &arrays, &["--out", &out])));
}

#[test]
fn files_and_arrays_that_do_not_fit_are_refused() {
    let folder = Folder(test_folder!("poly_files"));
    let (arrays, out) = (folder.arrays("f32", &["6,7", "7,5"]), folder.path("out.npy"));
    let summa = example("summa");
    let refusals = [
        folder.refusal(&words(&["run", &summa], &arrays[..1], &["--out", &out])),
        folder.refusal(&["run", &summa, &arrays[0], &arrays[0], "--out", &out]),
        folder.refusal(&["run", &folder.path("none.poly"), "--out", &out]),
        folder.refusal(&words(&["run", &summa], &arrays, &["--out", &arrays[0]])),
        folder.refusal(&words(&["run", &summa], &arrays, &["--out", &out, "--let", "alpha"])),
    ]
    .concat();
    expect![[r#"
        error: the kernels read `A` and `B`, but 1 array is given
         --> summa.poly:3:4
          |
        3 | fn summa(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] {
          |    ^^^^^
          |
          = help: give one array for each, in this order
        error: `k` is 7 in 0.npy (6 x 7) and 6 in 0.npy (6 x 7)
         --> summa.poly:3:31
          |
        3 | fn summa(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] {
          |                               ^
          |
          = help: give arrays that match, or use two names
        error: cannot read `none.poly`: No such file or directory (os error 2)
        error: cannot write `0.npy`: it is the input `0.npy`; write to another file
        error: invalid value 'alpha' for '--let <NAME=VALUE>': cannot read `alpha`; write a name and a number, such as n=10 or alpha=0.5

        For more information, try '--help'.
    "#]].assert_eq(&refusals);
    assert!(!Path::new(&out).exists());
}

#[test]
fn a_mistake_is_said_once_by_all_processes() {
    if !cfg!(feature = "mpi") {
        return;
    }
    let folder = Folder(test_folder!("poly_once"));
    let (arrays, out) = (folder.arrays("f32", &["6,7", "7,5"]), folder.path("out.npy"));
    let file = folder
        .poly("fn f(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] { C[i, j] = A[i, l] * B[l, j] }\nmesh(x: 2).tile(i)");
    let Ended { success, stdout, stderr, .. } =
        COMMAND_LINE.run(Start::Mpi(2), &words(&["run", &file], &arrays, &["--out", &out]));
    assert!(!success && stdout.is_empty(), "{stdout}");
    assert!(stderr.starts_with("error: no schedule step `tile`"), "{stderr}");
    assert_eq!(stderr.matches("no schedule step `tile`").count(), 1, "{stderr}");
}

#[test]
fn values_are_checked_before_arrays_are_opened() {
    let folder = Folder(test_folder!("poly_let"));
    let (file, out) = (example("summa"), folder.path("out.npy"));
    let refuse = |values: &[&str]| {
        let lets = values.iter().flat_map(|value| ["--let", value]);
        let arguments: Vec<_> = ["run", &file, "none.npy", "--out", &out].into_iter().chain(lets).collect();
        folder.refusal(&arguments)
    };
    let scaled = "fn scaled(A: [i64; n]) -> B: [i64; n] { B[i] = w * A[i] }\nauto";
    let values = ["--let", "n=4", "--let", "w=99999999999999999999"];
    let refusals = [
        refuse(&["q=3"]),
        refuse(&["C=3"]),
        refuse(&["m=2.5"]),
        refuse(&["m=99999999999999999999"]),
        folder.refusal(&[&["lower", &folder.poly(scaled)][..], &values].concat()),
        refuse(&["m=2", "m=3"]),
    ]
    .concat();
    expect![[r#"
        error: no name `q` in `summa.poly` for `--let` to set; the names for numbers are `m`, `k`, `n`
        error: no name `C` in `summa.poly` for `--let` to set; the names for numbers are `m`, `k`, `n`
        error: `--let m=2.5`: extents, moduli and rounds are whole numbers of 64 bits; give such a number
        error: `--let m=99999999999999999999`: extents, moduli and rounds are whole numbers of 64 bits; give such a number
        error: `1e20` does not fit `i64`
         --> kernels.poly:1:48
          |
        1 | fn scaled(A: [i64; n]) -> B: [i64; n] { B[i] = w * A[i] }
          |                                                ^
          |
          = help: write a smaller number
        error: two values are given for `m`; give one
    "#]].assert_eq(&refusals);
    let plain = folder.poly("fn f(A: [f32; 4]) -> B: [f32; 4] { B[i] = A[i] }\nauto");
    expect![[r#"
        error: no name `i` in `kernels.poly` for `--let` to set; all numbers in the file are written out
    "#]]
    .assert_eq(&folder.refusal(&["run", &plain, "none.npy", "--out", &out, "--let", "i=3"]));
}

#[test]
fn extents_of_one_and_open_brackets_are_answered_with_what_to_write() {
    let folder = Folder(test_folder!("poly_advice"));
    let (arrays, out) = (folder.arrays("f32", &["6,7", "1,5"]), folder.path("out.npy"));
    let summa = fs::read_to_string(example("summa")).expect("the example");
    let refuse = |text: &str| folder.refusal(&words(&["run", &folder.poly(text)], &arrays, &["--out", &out]));
    let refusals = [
        refuse(&summa),
        refuse(&summa.replace("shard(A, m @ x, k @ y)", "shard(A, m @ x, k @ y")),
        refuse(&summa.replace("* B[k, n]\n}", "* B[k, n]\n")),
    ]
    .concat();
    expect![[r#"
        error: `k` is 7 in 0.npy (6 x 7) and 1 in 1.npy (1 x 5)
         --> kernels.poly:3:31
          |
        3 | fn summa(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] {
          |                               ^
          |
          = help: extents of 1 do not broadcast: declare that dimension as 1, and write 0 for its index, `A[0, j]`
        error: `(` is not closed
          --> kernels.poly:10:7
           |
        10 | .shard(A, m @ x, k @ y
           |       ^
           |
           = help: write `)` where it ends
        error: `{` is not closed
         --> kernels.poly:3:54
          |
        3 | fn summa(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] {
          |                                                      ^
          |
          = help: write `}` where it ends
    "#]]
    .assert_eq(&refusals);
}

#[test]
fn results_in_partial_sums_are_not_written() {
    let folder = Folder(test_folder!("poly_partial"));
    let (arrays, out) = (folder.arrays("f64", &["6,8", "8,4"]), folder.path("out.npy"));
    let poly = folder.poly(
        "fn product(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] { C[m, n] += A[m, k] * B[k, n] }\n\
         mesh(x: 2).distribute([k], [ko], [ki]).shard(A, k @ x).shard(B, k @ x).shard(C, partial(x))",
    );
    expect![[r#"
        error: `C` is left in partial sums over x, but `--out` writes it; leave `partial` out of its `shard`
    "#]]
    .assert_eq(&folder.refusal(&words(&["run", &poly], &arrays, &["--out", &out])));
    assert!(!Path::new(&out).exists());
}

#[test]
fn chains_of_blocks_are_not_printed() {
    let folder = Folder(test_folder!("poly_chain_of_a_block"));
    let file = folder.poly("fn f(A: [f64; 4]) -> A { A[0] = 7; }\nauto");
    let refused = folder.refusal(&["lower", &file, "--print", "chain"]);
    assert!(refused.starts_with("error: `--print chain` prints kernels of one statement, but the file has a block"));
}

#[test]
fn a_parameter_that_a_block_returns_is_written_under_its_name() {
    let folder = Folder(test_folder!("poly_block_returns"));
    let array = folder.arrays("f64", &["5"]).remove(0);
    let out = folder.path("out.npy");
    // One kernel whose output is a version, kernels that continue one, and two blocks that return the same array.
    let texts = [
        "fn f(A: [T; n]) -> A { A[i] = A[i] + 1; }\nauto",
        "fn f(A: [T; n]) -> A { A[0] = 7; A[i] += A[0]; }\nmesh(x: 2).distribute([i], [io], [ii]).shard(A, i @ x)",
        "fn f(A: [T; n]) -> A { A[i] = 2 * A[i]; }\nauto\nfn g(A: [T; n]) -> A { A[i] = A[i] + 1; }\nauto",
    ];
    for text in texts {
        let file = folder.poly(text);
        let named = format!("A={out}");
        let options = ["run", &file, &array, "--out", &named, "--check", "--ranks", "2", "--machine", "a100"];
        let said = COMMAND_LINE.said(Start::Plain, &options);
        assert!(said.contains(": A, 5, f64\n") && said.contains("\nchecked "), "{said}");
    }
}
