//! Every mistake with the text that its error points at.

use crate::tests::check_kernels as check;
use expect_test::expect;

#[test]
fn a_good_kernel_is_its_statement() {
    check(expect![[r#"
        fn mm(A: [f32; m, k], B: [f32; k, n]) -> C: [f32; m, n] { C[i, j] += A[i, r] * B[r, j] }
            C[i, j] += A[i, r] * B[r, j]
        fn f(A: [f32; 2 * n], B: [f32; n]) -> C: [f32; n] { C[i] += A[2*i + r + 1] * B[(i - r) + i*3 - 4*i + 2*(r - 1)] for r in 0..3 }
            C[i] += A[2*i + r + 1] * B[r - 2]
            ranges: r in 0..3
        fn fill() -> C: [i32; m, n] { for i in 0..m C[i, j] = 7 for j in 0..n; }
            C[i, j] = 7
            ranges: i in 0..m, j in 0..n
        fn dot(s: f32, A: [f32; n]) -> c: [f32;] { c[] += s[] * A[i] * A[i] }
            c[] += s[] * A[i] * A[i]
        fn f(A: [T; n]) -> C: [T; n] { C[i] = A[i] / 2.5 }
            C[i] = A[i] / 2.5
    "#]]);
}

#[test]
fn every_index_has_one_extent() {
    check(expect![[r#"
        fn f(A: [f32; m]) -> C: [f32; m, n] { C[i, q] = A[i] }
            error on `q`: index `q` of output `C` appears in no input, so its extent is unknown
              help: use it in an input access or give its range: `for q in 0..n`
        fn f() -> C: [f32; m, n] { C[i, j] = 1.0 for i in 0..m }
            error on `j`: index `j` of output `C` appears in no input, so its extent is unknown
              help: use it in an input access or give its range: `for j in 0..n`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i + r] + A[2*r + OFFSET] }
            error on `r`: index `r` never appears alone, so its extent is unknown
              help: give its range: `for r in 0..n`; a constant in an index is written as a number, and `A[(n - 1 - i) % n]` reads a dimension backwards
            error on `OFFSET`: index `OFFSET` never appears alone, so its extent is unknown
              help: give its range: `for OFFSET in 0..n`; a constant in an index is written as a number, and `A[(n - 1 - i) % n]` reads a dimension backwards
        fn f(A: [f32; m, k], s: f32) -> C: [f32; m] { C[i, j] = A[i] * s[i] }
            error on `C[i, j]`: `C` has 1 dimension, but 2 indices are given
              help: `C` is declared as `[f32; m]`: write 1 index
            error on `A[i]`: `A` has 2 dimensions, but 1 index is given
              help: `A` is declared as `[f32; m, k]`: write 2 indices
            error on `s[i]`: `s` has 0 dimensions, but 1 index is given
              help: write `s[]`
        fn f(A: [f32; 512, 2048], B: [f32; 1024, n]) -> C: [f32; 500 + 1, n] { C[m, n] += A[m, k] * B[k, n] }
            error on `k`: index `k` has extent 1024 in `B[k, n]`, but 2048 in `A[m, k]`
              help: let the extents agree, use two indices, or state the range that fits: `for k in 0..1024`
            error on `m`: index `m` has extent 501 in `C[m, n]`, but 512 in `A[m, k]`
              help: let the extents agree, use two indices, or state the range that fits: `for m in 0..501`
        fn f(A: [f32; 8]) -> C: [f32; 8] { C[i] = A[i] for i in 0..9 }
            error on `C[i]`: `C[i]` leaves `C`: index `i` spans 0..9, but dimension 0 has extent 8
              help: make `C` larger, or the ranges of the indices smaller
        fn f(A: [f32; m], B: [f32; 4]) -> C: [f32; n] { C[i] = A[i] * B[i] }
            C[i] = A[i] * B[i]
    "#]]);
}

#[test]
fn names_are_those_of_tensors_and_indices() {
    check(expect![[r#"
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = C[i] + A[i] }
            error on `C[i]`: the output `C` is read on the right
              help: use `+=`, `*=`, `max=` or `min=` to update it
        fn f(A: [f32; n], B: [f32; n], D: [f32; n]) -> C: [f32; n] { C[i] = A[i] + E[i] + B[i] }
            error on `E`: no tensor `E`
              help: the inputs are `A`, `B` and `D`
        fn f(A: [f32; n], B: [f32; n]) -> C: [f32; n] { C[i] = A[i % 2] + A[i * i] + A[B[i]] + A[i / 2] + A[f(i)] + A[1.5] + A[x.y] }
            error on `i * i`: this index is not affine
              help: an index is a sum of multiples of variables and a number, such as `2*i + r - 1`
            error on `B[i]`: this index is an element of an array
              help: gathers such as `A[P[i]]` do not exist; reorder the array first
            error on `i / 2`: this index is not affine
              help: an index is a sum of multiples of variables and a number, such as `2*i + r - 1`
            error on `f(i)`: this index is not affine
              help: an index is a sum of multiples of variables and a number, such as `2*i + r - 1`
            error on `1.5`: this index is not affine
              help: an index is a sum of multiples of variables and a number, such as `2*i + r - 1`
            error on `x.y`: this index is not affine
              help: an index is a sum of multiples of variables and a number, such as `2*i + r - 1`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[9223372036854775808 * i] + A[99999999999999999999 * 99999999999999999999 * i] }
            error on `9223372036854775808 * i`: 9223372036854775808 does not fit 64 bits
              help: use smaller numbers
            error on `99999999999999999999 * 99999999999999999999`: this index is too large
              help: use smaller numbers
        fn f(A: [f32; n], A: [f32; n]) -> A: [f32; n] { A[i] = 1 for i in 0..n for i in 0..n }
            error on `A`: the name `A` is given twice
              help: give each tensor a name of its own
            error on `A`: the name `A` is given twice
              help: give each tensor a name of its own
            error on `i`: index `i` has two ranges
              help: keep one of them
        fn f(A: [f32; n], B: [f32; n], s: f32) -> C: [f32; n] { C[i] = A[i] }
            error on `B`: input `B` is never read
              help: read it on the right, or remove it
            error on `s`: input `s` is never read
              help: read it on the right, or remove it
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] for q in 0..n }
            error on `q`: index `q` has a range, but is never used
              help: use `q` in an access, or remove its range
        fn f() -> C: [f32; n, n, n, n] { C[i, j, k, l] = 1 for i in ..n for j in 0..=n for l in n for k in 0.. }
            error on `..n`: the range of `i` is not of the form `start..end`
              help: give the range a start
            error on `0..=n`: the range of `j` is not of the form `start..end`
              help: ranges are half-open: write `0..n + 1` for `0..=n`
            error on `n`: the range of `l` is not of the form `start..end`
              help: write `for l in 0..n`
            error on `0..`: the range of `k` is not of the form `start..end`
              help: give the range an end
        fn f(A: [f32; n]) -> C: [f32; n] { A[i] = A[i] }
            error on `A`: the statement writes the input `A`
              help: the output is `C`: write `C[..]` on the left
        fn f(A: [f32; n]) -> C: [f32; n] { D[i] = A[i] }
            error on `D`: the statement writes `D`, which is not the output
              help: the output is `C`: write `C[..]` on the left
        fn f(A: [f32; n], B: [f32; n]) -> C: [f32; n] { C[B] = A[B] for B in 0..n }
            error on `B`: index `B` has the name of a tensor
              help: rename one of them; an index expression reads no tensor
    "#]]);
}

#[test]
fn elements_and_extents_are_of_their_kind() {
    check(expect![[r#"
        fn f(A: [u8; n], B: [&f32; n], D: [[f32; 3]; n]) -> C: [bool; n] { C[i] = A[i] + B[i] + D[i] }
            error on `u8`: `u8` is not an element type
              help: elements are `f32`, `f64`, `i32` or `i64`, or a name that stands for one of them
            error on `&f32`: `& f32` is not an element type
              help: elements are `f32`, `f64`, `i32` or `i64`, or a name that stands for one of them
            error on `[f32; 3]`: `[f32 ; 3]` is not an element type
              help: elements are `f32`, `f64`, `i32` or `i64`, or a name that stands for one of them
            error on `bool`: `bool` is not an element type
              help: elements are `f32`, `f64`, `i32` or `i64`, or a name that stands for one of them
        fn f(A: [f32; n], B: [f64; n]) -> C: [i32; n] { C[i] = A[i] + B[i] }
            error on `f64`: `B` has elements of `f64`, but `A` of `f32`
              help: a kernel has one element type; convert one of the arrays before
            error on `i32`: `C` has elements of `i32`, but `A` of `f32`
              help: a kernel has one element type; convert one of the arrays before
        fn f(A: [f32; -4]) -> C: [f32; 3 - 5, n] { C[i, j] = A[i] for j in 0..-(1) }
            error on `-4`: `A` has the extent -4
              help: an extent is at least 0
            error on `3 - 5`: `C` has the extent -2
              help: an extent is at least 0
            error on `-(1)`: the range of `j` ends before it starts: 0..-1
              help: an empty range is `0..0`
        fn f(A: [f32; 8]) -> C: [f32; 8] { C[i] = alpha * A[i + 1] }
            error on `A[i + 1]`: `A[i + 1]` leaves `A`: index `i + 1` spans 1..9, but dimension 0 has extent 8
              help: state the range that fits: `for i in 0..7`
        fn f(A: [f32; 8, 4], B: [f32; 4], E: [f32; 2]) -> C: [f32; 9] { C[i] += A[i, k, 1] * B[k * k] / D[q] + C[i] }
            error on `A[i, k, 1]`: `A` has 2 dimensions, but 3 indices are given
              help: `A` is declared as `[f32; 8, 4]`: write 2 indices
            error on `k * k`: this index is not affine
              help: an index is a sum of multiples of variables and a number, such as `2*i + r - 1`
            error on `D`: no tensor `D`
              help: the inputs are `A`, `B` and `E`
            error on `C[i]`: the output `C` is read on the right
              help: use `+=`, `*=`, `max=` or `min=` to update it
    "#]]);
}

#[test]
fn what_other_languages_have_is_answered_with_the_form_to_write() {
    check(expect![[r#"
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = relu(A[i]) }
            error on `relu`: no function `relu`
              help: write `max(a, 0)`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = where(A[i] > 0, A[i], 0) }
            error on `where`: no function `where`
              help: write a choice, `if a < b { x } else { y }`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = sqtr(A[i]) }
            error on `sqtr`: no function `sqtr`
              help: did you mean `sqrt`? the functions are `exp`, `log`, `sqrt`, `tanh`, `sin`, `cos`, `floor`, `abs`, `sign`, `max`, `min` and `pow`; bind values that depend on no index first, `let alpha = sqtr(..);`, and write `alpha`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] ** 2 }
            error on `**`: no operator `**`
              help: write `pow(a, b)`, or `a * a`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] ^ 2 }
            error on `^`: `^` has no meaning here
              help: write `pow(a, b)`, or `a * a`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] # twice }
            error on `#`: `#` has no meaning here
              help: comments begin with `//`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[P[i]] }
            error on `P[i]`: this index is an element of an array
              help: gathers such as `A[P[i]]` do not exist; reorder the array first
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[n - 1 - i] }
            error on `n`: index `n` never appears alone, so its extent is unknown
              help: give its range: `for n in 0..n`; a constant in an index is written as a number, and `A[(n - 1 - i) % n]` reads a dimension backwards
        fn f(A: [f32; n]) -> (C: [f32; n], D: [f32; n]) { C[i] = A[i] }
            error on `D`: a kernel has one output
              help: write a kernel for each output; a later one may read what an earlier one writes
        fn f(A: [f32; n]) -> C: [f32; n], D: [f32; n] { C[i] = A[i] }
            error on `,`: several outputs stand in parentheses
              help: write `-> (X: [f32; n], s: f32)`
        fn f(A: [bf16; n]) -> C: [f32; n] { C[i] = A[i] }
            error on `bf16`: `bf16` is not an element type
              help: elements are `f32`, `f64`, `i32` or `i64`, or a name that stands for one of them
    "#]]);
}
