use super::{Operand, einsum, einsum_broadcast};
use crate::tests::check_all;
use expect_test::{Expect, expect};
use polyshard_layout::DType;

/// The kernel's text, or the error, with arrays `A.npy`, `B.npy`, .. of these shapes.
fn said(text: &str, shapes: &[&[usize]]) -> String {
    let sources = ["A.npy", "B.npy", "C.npy", "D.npy"];
    let operands: Vec<_> = sources.iter().zip(shapes).map(|(source, shape)| Operand { source, shape }).collect();
    match einsum(text, &operands, DType::F64, "out") {
        Ok(spec) => spec.check().map_or_else(|error| format!("no kernel: {error}"), |kernel| kernel.to_string()),
        Err(error) => format!("error: {error}"),
    }
}

/// Compares the answers to texts: `ij,jk->ik of 2x3, 3x4`.
fn check(transcript: Expect) {
    check_all(transcript, |input| {
        let (text, shapes) = input.rsplit_once("of ").expect("a text and its shapes");
        let extents = |shape: &str| shape.split('x').filter_map(|extent| extent.parse().ok()).collect::<Vec<usize>>();
        let shapes: Vec<_> = shapes.split(", ").map(extents).collect();
        said(text.trim_end(), &shapes.iter().map(Vec::as_slice).collect::<Vec<_>>())
    });
}

#[test]
fn what_numpy_takes() {
    let statement = |text: &str, shapes: &[&[usize]]| {
        said(text, shapes).lines().nth(1).map_or_else(|| said(text, shapes), |line| line.trim().to_owned())
    };
    let cases: [(&str, &[&[usize]], &str); 13] = [
        ("ij,jk->ik", &[&[2, 3], &[3, 4]], "out[i, k] = A[i, j] * B[j, k]"),
        (" i j , j k -> k i ", &[&[2, 3], &[3, 4]], "out[k, i] = A[i, j] * B[j, k]"),
        ("ba", &[&[2, 3]], "out[a, b] = A[b, a]"),
        ("ij,jk", &[&[2, 3], &[3, 4]], "out[i, k] = A[i, j] * B[j, k]"),
        ("ii->i", &[&[3, 3]], "out[i] = A[i, i]"),
        ("ii", &[&[3, 3]], "out[] = A[i, i]"),
        ("ij->", &[&[2, 3]], "out[] = A[i, j]"),
        (",i", &[&[], &[3]], "out[i] = A[] * B[i]"),
        ("...ij,...jk->...ik", &[&[7, 2, 3], &[7, 3, 4]], "out[batch0, i, k] = A[batch0, i, j] * B[batch0, j, k]"),
        ("...ij,jk", &[&[5, 7, 2, 3], &[3, 4]], "out[batch1, batch0, i, k] = A[batch1, batch0, i, j] * B[j, k]"),
        ("i...->...", &[&[2, 3]], "out[batch0] = A[i, batch0]"),
        ("αβ,βγ->αγ", &[&[2, 3], &[3, 4]], "out[α, γ] = A[α, β] * B[β, γ]"),
        ("ijk,jr,kr->ir", &[&[2, 3, 4], &[3, 5], &[4, 5]], "out[i, r] = A[i, j, k] * B[j, r] * C[k, r]"),
    ];
    for (text, shapes, expected) in cases {
        assert_eq!(statement(text, shapes), expected, "{text}");
    }
}

#[test]
fn names_of_tensors_are_those_of_files_where_they_can_be() {
    let shape = [3, 3];
    let named = |text: &str, sources: [&str; 2], output: &str| {
        let operands = sources.map(|source| Operand { source, shape: &shape });
        einsum(text, &operands, DType::F64, output).expect("a kernel").check().expect("a kernel").statement()
    };
    let product = "ij,jk->ik";
    assert_eq!(named(product, ["in/left.npy", "in/right.npy"], "C"), "C[i, k] = left[i, j] * right[j, k]");
    // Not possible as names: that of an index, one that is not a word, and one that is taken.
    assert_eq!(named("AB,BC->AC", ["A.npy", "B.npy"], "C"), "T2[A, C] = T0[A, B] * T1[B, C]");
    assert_eq!(named(product, ["my data.npy", "fn.npy"], "7"), "T2[i, k] = T0[i, j] * T1[j, k]");
    assert_eq!(named(product, ["a/X.npy", "b/X.npy"], "X"), "T2[i, k] = X[i, j] * T1[j, k]");
    // One file is one tensor.
    assert_eq!(named("ik,jk->ij", ["A.npy", "A.npy"], "C"), "C[i, j] = A[i, k] * A[j, k]");
}

#[test]
fn statements_take_their_extents_from_arrays() {
    check(expect![[r#"
        C[m, n] += A[m, k] * B[k, n] of 2x3, 3x4
            fn einsum(A: [f64; 2, 3], B: [f64; 3, 4]) -> C: [f64; 2, 4] {
                C[m, n] += A[m, k] * B[k, n]
            }
        y[i] = exp(-x[i]) + b[] of 9, ()
            fn einsum(x: [f64; 9], b: f64) -> y: [f64; 9] {
                y[i] = exp(-x[i]) + b[]
            }
    "#]]);
}

#[test]
fn what_is_wrong_is_said_with_the_files() {
    check(expect![[r#"
        ij,jk->ik of 2x3, 4x5
            error: index `j` is 3 in A.npy (2 x 3) and 4 in B.npy (4 x 5); an index has one extent
        ij,jk->ik of 2x53, 1x5
            error: index `j` is 53 in A.npy (2 x 53) and 1 in B.npy (1 x 5); extents of 1 are broadcast only with `--broadcast`, in Rust by `einsum_broadcast`
        ij,jk->il of 2x3, 3x5
            error: index `l` is only in the output; the operands have i, j, k
        ij,jk->ii of 2x3, 3x5
            error: index `i` is twice in the output; write it once
        ij,jk,kl->il of 2x3, 3x5
            error: 3 terms for 2 arrays; write one term for each array, such as `ij,jk->ik` for two
        ij-> of 2x3, 3x5
            error: 1 term for 2 arrays; write one term for each array, such as `ij,jk->ik` for two
        ij,jk->i->k of 2x3, 3x5
            error: two `->`; write one, between the terms and the output
        i,jk->ik of 2x3, 3x5
            error: the term `i` has 1 index, but A.npy (2 x 3) has 2 dimensions; write one index for each
        i2,jk->ik of 2x3, 3x5
            error: `2` in the term `i2` is not an index; write a letter for each dimension, or `...`
        batch seq, seq dim -> batch dim of 2x3, 3x5
            error: indices are letters, not words; write `bs,sd->bd`
        row rank, rank row -> row of 2x3, 3x5
            error: indices are letters, not words; write `ra,ar->r`
        ij->i of 8
            error: the term `ij` has 2 indices, but A.npy (8) has 1 dimension; write one index for each
        of 2x3, 3x5
            error: 1 term for 2 arrays; write one term for each array, such as `ij,jk->ik` for two
        ...i...,jk of 2x3, 3x5
            error: `...` is twice in the term `...i...`; write it once
        ...j,jk->k of 2x3, 3x5
            error: the operands have `...`, but the output has not; write it there too, or letters to sum over them: `lj,jk->k`
        C[i, k] = A[i, j] * B[j, k] of 2x3, 4x5
            error: index `j` is 3 in A.npy (2 x 3) and 4 in B.npy (4 x 5); an index has one extent
        C[i, k] = A[i, j] of 2x3, 4x5
            error: the statement reads `A`, and 2 arrays are given; give one for each, in this order
        C[i, q] = A[i, j] * B[j, k] of 2x3, 3x5
            error: the extent of index `q` of the output is unknown; it must be alone in a dimension of an input
        C[i, k] = A[i, j] * * B[j, k] of 2x3, 3x5
            error: line 1, column 19: no operator `**`
            help: write `pow(a, b)`, or `a * a`
        ij,jk=>ik of 2x3, 3x5
            error: `=>` is not an einsum arrow; write `->` between the terms and the output
        ij,jk-ik of 2x3, 3x5
            error: `-` is not an einsum arrow; write `->` between the terms and the output
        ij,jk>ik of 2x3, 3x5
            error: `>` is not an einsum arrow; write `->` between the terms and the output
        ij;jk->ik of 2x3, 3x5
            error: `;` in the term `ij;jk` is not an index; write a letter for each dimension, or `...`
        C[i, k] = A[i, j] * B[j, k of 2x3, 3x5
            error: line 1, column 22: `[` is not closed
            help: write `]` where it ends
        C[i, k] = A[i, j] * B'[j, k] of 2x3, 3x5
            error: line 1, column 22: `'` has no meaning here
            help: write names and numbers without quotes
        C[i, k] = A[i, j] * B[j, k]; D[i] = A[i, 0] of 2x3, 3x5
            error: line 1, column 30: a kernel is one statement
            help: several statements are for `.poly` files; ranges `for q in 0..n` stand before the `;`
        = of 2x3, 3x5
            error: no statement; write one such as `C[i, k] = A[i, j] * B[j, k]`, or `ij,jk->ik`
    "#]]);
}

#[test]
fn dimensions_without_letters_are_named_where_they_do_not_fit() {
    check(expect![[r#"
        ...ij,...jk->...ik of 1x2x3, 5x3x4
            error: `...` is 1 in dimension 0 of A.npy (1 x 2 x 3) and 5 in dimension 0 of B.npy (5 x 3 x 4); extents of 1 are broadcast only with `--broadcast`, in Rust by `einsum_broadcast`
        i...->i of 2x3x4
            error: the operands have `...`, but the output has not; write it there too, or letters to sum over them: `ijk->i`
        z...,...z->z of 2x3x4, 4x2
            error: the operands have `...`, but the output has not; write it there too, or letters to sum over them: `zab,bz->z`
    "#]]);
}

#[test]
fn extents_of_1_are_repeated_where_that_is_asked_for() {
    let statement = |text: &str, shapes: &[&[usize]]| {
        let sources = ["A.npy", "B.npy", "C.npy"];
        let operands: Vec<_> = sources.iter().zip(shapes).map(|(source, shape)| Operand { source, shape }).collect();
        match einsum_broadcast(text, &operands, DType::F64, "out") {
            Ok(spec) => {
                let shape = spec.output.1.clone();
                format!("{} of {shape:?}", spec.check().expect("a kernel").statement())
            }
            Err(error) => error.to_string(),
        }
    };
    let cases: [(&str, &[&[usize]], &str); 8] = [
        (
            "bijk,bilm->bjklm",
            &[&[5, 1, 2, 3], &[1, 4, 2, 3]],
            "out[b, j, k, l, m] = A[b, 0, j, k] * B[0, i, l, m] of [5, 2, 3, 2, 3]",
        ),
        (
            "...ij,...jk->...ik",
            &[&[1, 2, 3], &[5, 3, 4]],
            "out[batch0, i, k] = A[0, i, j] * B[batch0, j, k] of [5, 2, 4]",
        ),
        ("ij,jk->ik", &[&[2, 3], &[1, 4]], "out[i, k] = A[i, j] * B[0, k] of [2, 4]"),
        ("i,i,i->i", &[&[1], &[3], &[1]], "out[i] = A[0] * B[i] * C[0] of [3]"),
        ("i,i->i", &[&[1], &[1]], "out[i] = A[i] * B[i] of [1]"),
        ("C[i, k] = A[i, j] * B[ j , k]", &[&[2, 3], &[1, 4]], "C[i, k] = A[i, j] * B[0, k] of [2, 4]"),
        ("C[i] = A[i] + A[0] * B[i]", &[&[1], &[4]], "C[i] = A[0] + A[0] * B[i] of [4]"),
        (
            "ij,jk->ik",
            &[&[2, 3], &[2, 4]],
            "index `j` is 3 in A.npy (2 x 3) and 2 in B.npy (2 x 4); an index has one extent",
        ),
    ];
    for (text, shapes, expected) in cases {
        assert_eq!(statement(text, shapes), expected, "{text}");
    }
}
