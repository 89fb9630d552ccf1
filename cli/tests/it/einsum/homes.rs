//! `--mesh` and `--shard`: arrays with given shardings, and errors.

use super::Files;
use expect_test::expect;
use polyshard::layout::DType;
use polyshard_testing::start::Start;
use polyshard_testing::test_folder;

#[test]
fn arrays_that_lie_on_a_mesh_stay_there() {
    let files = Files::new(test_folder!("einsum_homes"), DType::I64, &[&[13, 10], &[10, 7]]);
    let out = files.path("out.npy");
    let more = ["--mesh", "p=2,q=2", "--shard", "A=i @ q, j @ p", "--shard", "B=", "--out", &out, "--check"];
    let said = files.said(Start::Plain, "ij,jk->ik", &["A.npy", "B.npy"], &more);
    assert!(
        said.contains("\nchecked  8 of 13 rows against a sequential computation: largest error 0, relative to "),
        "{said}"
    );
    let more = ["--mesh", "p=2,q=2", "--shard", "A=i @ q, j @ p", "--shard", "B=", "--print", "chain"];
    let chain = files.said(Start::Plain, "ij,jk->ik", &["A.npy", "B.npy"], &more);
    assert!(chain.contains(".shard(A, i @ q, j @ p)\n.shard(B)\n"), "{chain}");
    assert!(chain.contains("mesh(p: 2, q: 2)"), "{chain}");
}

#[test]
fn shardings_are_written_as_methods_too() {
    let files = Files::new(test_folder!("einsum_methods"), DType::F32, &[&[13, 10], &[10, 7]]);
    let program = |shard: &[&str]| {
        let more = [&["--mesh", "p=2,q=2", "--machine", "a100", "--print", "program"], shard].concat();
        files.said(Start::Plain, "ij,jk->ik", &["A.npy", "B.npy"], &more)
    };
    let methods = program(&["--shard", "A=i.at(q), j.cyclic(p, 2)", "--shard", "B=j.at([p, q])"]);
    assert_eq!(methods, program(&["--shard", "A = i @ q, j @ cyclic(p, 2)", "--shard", "B=j @ [p, q]"]));
}

#[test]
fn what_contradicts_is_shown_where_it_stands() {
    let files = Files::new(test_folder!("einsum_contradicting"), DType::F64, &[&[4, 6], &[5, 3], &[6, 3]]);
    let refused = |more: &[&str]| {
        let more = [&["--dry-run", "--machine", "a100", "--mesh", "x=2,y=2"], more].concat();
        files.refusal("ij,jk->ik", &["A.npy", "C.npy"], &more)
    };
    let refusals = [
        refused(&["--shard", "A=i @ x", "--shard", "A=j.at(y)"]),
        refused(&["--shard", "A=i.at(x), j.at(x)"]),
        refused(&["--shard", "A=i.at(x), i.at(y)"]),
        refused(&["--shard", "A=i.at(x), j.at(z)"]),
        // If a word occurs twice, the error marks the wrong one.
        refused(&["--shard", "A=i.at(y), j.at(j)"]),
        refused(&["--shard", "A=i.at((x + A) % 2), j.at(x)"]),
        refused(&["--shard", "A=dim(0).at((x + y) % 2), dim(1).cyclic([y, y], 2)"]),
        refused(&["--shard", "A=i.at(x), q.at(y)"]),
        refused(&["--shard", "A=i.at(x), j.on(y)"]),
        refused(&["--shard", "A=i.at(x, j.at(y)"]),
        refused(&["--shard", "A=i.at(x), j"]),
        refused(&["--shard", "A"]),
        refused(&["--shard", "Q=i.at(x)"]),
        refused(&["--ranks", "3"]),
    ]
    .concat();
    expect![[r#"
        error: `A` has two shardings, (i @ x) and (j @ y); give one
        error: `i @ x` and `j @ x` both use the axis `x`, so that some elements have no owner
         --> --shard:1:17
          |
        1 | A=i.at(x), j.at(x)
          |                 ^
          |
          = help: use each axis once, or skew the second, `(x + y) % parts`
        error: `i @ x` and `i @ y` both place the dimension `i`
         --> --shard:1:12
          |
        1 | A=i.at(x), i.at(y)
          |            ^
          |
          = help: write one list of axes, `i @ [x, y]`, or blocks of blocks, `i @ x @ y`
        error: no axis `z`
         --> --shard:1:17
          |
        1 | A=i.at(x), j.at(z)
          |                 ^
          |
          = help: the axes are x, y
        error: no axis `j`
         --> --shard:1:17
          |
        1 | A=i.at(y), j.at(j)
          |                 ^
          |
          = help: the axes are x, y
        error: no axis `A`
         --> --shard:1:13
          |
        1 | A=i.at((x + A) % 2), j.at(x)
          |             ^
          |
          = help: the axes are x, y
        error: `dim(1) @ cyclic([y, y], 2)` uses the axis `y` twice
         --> --shard:1:45
          |
        1 | A=dim(0).at((x + y) % 2), dim(1).cyclic([y, y], 2)
          |                                             ^
          |
          = help: use each axis once, or skew the second, `(x + y) % parts`
        error: no dimension of `A` is indexed by `q` alone
         --> --shard:1:12
          |
        1 | A=i.at(x), q.at(y)
          |            ^
          |
          = help: it is `A[i, j]`; a dimension can be named by number, `dim(0) @ x`
        error: unknown division of a dimension, `on`
         --> --shard:1:14
          |
        1 | A=i.at(x), j.on(y)
          |              ^^
          |
          = help: write `.at(x)` or `.cyclic(x, 16)`
        error: `(` is not closed
         --> --shard:1:7
          |
        1 | A=i.at(x, j.at(y)
          |       ^
          |
          = help: write `)` where it ends
        error: expected a dimension and its axes
         --> --shard:1:12
          |
        1 | A=i.at(x), j
          |            ^
          |
          = help: write `j @ x`, `j @ [x, y]`, `j @ x @ y`, `j @ cyclic(x, 16)`, `pin(z, 0)`, or `partial(z)`
        error: cannot read `--shard A`; write a name and clauses, such as 'A=i.at(x), j.at(y)'
        error: no tensor `Q`
         --> --shard:1:1
          |
        1 | Q=i.at(x)
          | ^
          |
          = help: the tensors are A, C, out
        error: the mesh has 4 ranks, but the program runs on 3 ranks; give `--ranks 4`, or leave the mesh out to have one chosen
    "#]].assert_eq(&refusals);
}

#[test]
fn sums_that_stay_apart_are_not_written_and_axes_are_no_indices() {
    let files = Files::new(test_folder!("einsum_partial"), DType::F64, &[&[6, 8], &[8, 4]]);
    let out = files.path("out.npy");
    let refused = |more: &[&str]| {
        let more = [more, &["--machine", "a100", "--out", &out]].concat();
        files.refusal("ij,jk->ik", &["A.npy", "B.npy"], &more)
    };
    let refusals = [refused(&["--mesh", "x=2", "--shard", "out=partial(x)"]), refused(&["--mesh", "x=2,j=1"])].concat();
    expect![[r#"
        error: `partial(x)` leaves `out` in partial sums, but `--out` writes it
         --> --shard:1:13
          |
        1 | out=partial(x)
          |             ^
          |
          = help: leave the clause out, so that the sums are added up, or give `--dry-run`
        error: axis `j` of `--mesh` has the name of an index of `out[i, k] = A[i, j] * B[j, k]`; give the axis another name
    "#]].assert_eq(&refusals);
    // This command writes no file.
    files.said(
        Start::Plain,
        "ij,jk->ik",
        &["A.npy", "B.npy"],
        &["--mesh", "x=2", "--shard", "out=partial(x)", "--dry-run", "--machine", "a100"],
    );
}
