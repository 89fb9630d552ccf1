//! Every mistake with the text that its error points at.

use crate::tests::check_checked as check;
use expect_test::expect;

#[test]
fn a_good_kernel_is_its_statement() {
    check(
        "fn mm(A: [f32; m, k], B: [f32; k, n]) -> C: [f32; m, n] { C[i, j] += A[i, r] * B[r, j] }",
        expect![[r#"
            C[i, j] += A[i, r] * B[r, j]
        "#]],
    );
}

#[test]
fn affine_indices_are_added_up() {
    check(
        "fn f(A: [f32; 2 * n], B: [f32; n]) -> C: [f32; n] { C[i] += A[2*i + r + 1] * B[(i - r) + i*3 - 4*i + 2*(r - 1)] for r in 0..3 }",
        expect![[r#"
            C[i] += A[2*i + r + 1] * B[r - 2]
            ranges: r in 0..3
        "#]],
    );
}

#[test]
fn ranges_stand_before_or_after() {
    check(
        "fn fill() -> C: [i32; m, n] { for i in 0..m C[i, j] = 7 for j in 0..n; }",
        expect![[r#"
            C[i, j] = 7
            ranges: i in 0..m, j in 0..n
        "#]],
    );
}

#[test]
fn tensors_of_no_dimensions_are_written_both_ways() {
    check(
        "fn dot(s: f32, A: [f32; n]) -> c: [f32;] { c[] += s[] * A[i] * A[i] }",
        expect![[r#"
            c[] += s[] * A[i] * A[i]
        "#]],
    );
}

#[test]
fn an_element_type_may_be_a_name() {
    check(
        "fn f(A: [T; n]) -> C: [T; n] { C[i] = A[i] / 2.5 }",
        expect![[r#"
            C[i] = A[i] / 2.5
        "#]],
    );
}

#[test]
fn an_output_index_in_no_input_needs_a_range() {
    check(
        "fn f(A: [f32; m]) -> C: [f32; m, n] { C[i, q] = A[i] }",
        expect![[r#"
            error on `q`: index `q` of output `C` appears in no input, so its extent is unknown
              help: use it in an input access or give its range: `for q in 0..n`
        "#]],
    );
}

#[test]
fn with_no_inputs_every_index_needs_a_range() {
    check(
        "fn f() -> C: [f32; m, n] { C[i, j] = 1.0 for i in 0..m }",
        expect![[r#"
            error on `j`: index `j` of output `C` appears in no input, so its extent is unknown
              help: use it in an input access or give its range: `for j in 0..n`
        "#]],
    );
}

#[test]
fn an_input_index_that_stands_nowhere_alone_needs_a_range() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i + r] + A[2*r + OFFSET] }",
        expect![[r#"
            error on `r`: index `r` never appears alone, so its extent is unknown
              help: give its range: `for r in 0..n`; a constant in an index is written as a number, and `A[(n - 1 - i) % n]` reads a dimension backwards
            error on `OFFSET`: index `OFFSET` never appears alone, so its extent is unknown
              help: give its range: `for OFFSET in 0..n`; a constant in an index is written as a number, and `A[(n - 1 - i) % n]` reads a dimension backwards
        "#]],
    );
}

#[test]
fn the_wrong_number_of_indices_is_counted() {
    check(
        "fn f(A: [f32; m, k], s: f32) -> C: [f32; m] { C[i, j] = A[i] * s[i] }",
        expect![[r#"
            error on `C[i, j]`: `C` has 1 dimension, but 2 indices are given
              help: `C` is declared as `[f32; m]`: write 1 index
            error on `A[i]`: `A` has 2 dimensions, but 1 index is given
              help: `A` is declared as `[f32; m, k]`: write 2 indices
            error on `s[i]`: `s` has 0 dimensions, but 1 index is given
              help: write `s[]`
        "#]],
    );
}

#[test]
fn one_index_has_one_literal_extent() {
    check(
        "fn f(A: [f32; 512, 2048], B: [f32; 1024, n]) -> C: [f32; 500 + 1, n] { C[m, n] += A[m, k] * B[k, n] }",
        expect![[r#"
            error on `k`: index `k` has extent 1024 in `B[k, n]`, but 2048 in `A[m, k]`
              help: let the extents agree, use two indices, or state the range that fits: `for k in 0..1024`
            error on `m`: index `m` has extent 501 in `C[m, n]`, but 512 in `A[m, k]`
              help: let the extents agree, use two indices, or state the range that fits: `for m in 0..501`
        "#]],
    );
}

#[test]
fn a_range_holds_but_stays_inside() {
    check(
        "fn f(A: [f32; 8]) -> C: [f32; 8] { C[i] = A[i] for i in 0..9 }",
        expect![[r#"
            error on `C[i]`: `C[i]` leaves `C`: index `i` spans 0..9, but dimension 0 has extent 8
              help: make `C` larger, or the ranges of the indices smaller
        "#]],
    );
}

#[test]
fn extents_that_are_no_numbers_are_compared_at_run_time() {
    check(
        "fn f(A: [f32; m], B: [f32; 4]) -> C: [f32; n] { C[i] = A[i] * B[i] }",
        expect![[r#"
            C[i] = A[i] * B[i]
        "#]],
    );
}

#[test]
fn the_output_is_not_read() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] = C[i] + A[i] }",
        expect![[r#"
            error on `C[i]`: the output `C` is read on the right
              help: use `+=`, `*=`, `max=` or `min=` to update it
        "#]],
    );
}

#[test]
fn an_unknown_tensor_lists_the_inputs() {
    check(
        "fn f(A: [f32; n], B: [f32; n], D: [f32; n]) -> C: [f32; n] { C[i] = A[i] + E[i] + B[i] }",
        expect![[r#"
            error on `E`: no tensor `E`
              help: the inputs are `A`, `B` and `D`
        "#]],
    );
}

#[test]
fn indices_are_affine() {
    check(
        "fn f(A: [f32; n], B: [f32; n]) -> C: [f32; n] { C[i] = A[i % 2] + A[i * i] + A[B[i]] + A[i / 2] + A[f(i)] + A[1.5] + A[x.y] }",
        expect![[r#"
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
        "#]],
    );
}

#[test]
fn index_numbers_that_overflow_are_errors() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[9223372036854775808 * i] + A[99999999999999999999 * 99999999999999999999 * i] }",
        expect![[r#"
            error on `9223372036854775808 * i`: 9223372036854775808 does not fit 64 bits
              help: use smaller numbers
            error on `99999999999999999999 * 99999999999999999999`: this index is too large
              help: use smaller numbers
        "#]],
    );
}

#[test]
fn names_are_given_once() {
    check(
        "fn f(A: [f32; n], A: [f32; n]) -> A: [f32; n] { A[i] = 1 for i in 0..n for i in 0..n }",
        expect![[r#"
            error on `A`: the name `A` is given twice
              help: give each tensor a name of its own
            error on `A`: the name `A` is given twice
              help: give each tensor a name of its own
            error on `i`: index `i` has two ranges
              help: keep one of them
        "#]],
    );
}

#[test]
fn inputs_are_read() {
    check(
        "fn f(A: [f32; n], B: [f32; n], s: f32) -> C: [f32; n] { C[i] = A[i] }",
        expect![[r#"
            error on `B`: input `B` is never read
              help: read it on the right, or remove it
            error on `s`: input `s` is never read
              help: read it on the right, or remove it
        "#]],
    );
}

#[test]
fn ranges_are_used() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] for q in 0..n }",
        expect![[r#"
            error on `q`: index `q` has a range, but is never used
              help: use `q` in an access, or remove its range
        "#]],
    );
}

#[test]
fn ranges_have_two_ends_and_are_half_open() {
    check(
        "fn f() -> C: [f32; n, n, n, n] { C[i, j, k, l] = 1 for i in ..n for j in 0..=n for l in n for k in 0.. }",
        expect![[r#"
            error on `..n`: the range of `i` is not of the form `start..end`
              help: give the range a start
            error on `0..=n`: the range of `j` is not of the form `start..end`
              help: ranges are half-open: write `0..n + 1` for `0..=n`
            error on `n`: the range of `l` is not of the form `start..end`
              help: write `for l in 0..n`
            error on `0..`: the range of `k` is not of the form `start..end`
              help: give the range an end
        "#]],
    );
}

#[test]
fn only_the_output_is_written() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { A[i] = A[i] }",
        expect![[r#"
            error on `A`: the statement writes the input `A`
              help: the output is `C`: write `C[..]` on the left
        "#]],
    );
}

#[test]
fn what_is_written_is_declared() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { D[i] = A[i] }",
        expect![[r#"
            error on `D`: the statement writes `D`, which is not the output
              help: the output is `C`: write `C[..]` on the left
        "#]],
    );
}

#[test]
fn an_index_is_no_tensor() {
    check(
        "fn f(A: [f32; n], B: [f32; n]) -> C: [f32; n] { C[B] = A[B] for B in 0..n }",
        expect![[r#"
            error on `B`: index `B` has the name of a tensor
              help: rename one of them; an index expression reads no tensor
        "#]],
    );
}

#[test]
fn elements_are_of_four_types() {
    check(
        "fn f(A: [u8; n], B: [&f32; n], D: [[f32; 3]; n]) -> C: [bool; n] { C[i] = A[i] + B[i] + D[i] }",
        expect![[r#"
            error on `u8`: `u8` is not an element type
              help: elements are `f32`, `f64`, `i32` or `i64`, or a name that stands for one of them
            error on `&f32`: `& f32` is not an element type
              help: elements are `f32`, `f64`, `i32` or `i64`, or a name that stands for one of them
            error on `[f32; 3]`: `[f32 ; 3]` is not an element type
              help: elements are `f32`, `f64`, `i32` or `i64`, or a name that stands for one of them
            error on `bool`: `bool` is not an element type
              help: elements are `f32`, `f64`, `i32` or `i64`, or a name that stands for one of them
        "#]],
    );
}

#[test]
fn elements_are_of_one_type() {
    check(
        "fn f(A: [f32; n], B: [f64; n]) -> C: [i32; n] { C[i] = A[i] + B[i] }",
        expect![[r#"
            error on `f64`: `B` has elements of `f64`, but `A` of `f32`
              help: a kernel has one element type; convert one of the arrays before
            error on `i32`: `C` has elements of `i32`, but `A` of `f32`
              help: a kernel has one element type; convert one of the arrays before
        "#]],
    );
}

#[test]
fn extents_are_not_negative() {
    check(
        "fn f(A: [f32; -4]) -> C: [f32; 3 - 5, n] { C[i, j] = A[i] for j in 0..-(1) }",
        expect![[r#"
            error on `-4`: `A` has the extent -4
              help: an extent is at least 0
            error on `3 - 5`: `C` has the extent -2
              help: an extent is at least 0
            error on `-(1)`: the range of `j` ends before it starts: 0..-1
              help: an empty range is `0..0`
        "#]],
    );
}

#[test]
fn constant_kernels_are_checked_whole() {
    check(
        "fn f(A: [f32; 8]) -> C: [f32; 8] { C[i] = alpha * A[i + 1] }",
        expect![[r#"
            error on `A[i + 1]`: `A[i + 1]` leaves `A`: index `i + 1` spans 1..9, but dimension 0 has extent 8
              help: state the range that fits: `for i in 0..7`
        "#]],
    );
}

#[test]
fn all_mistakes_come_at_once() {
    check(
        "fn f(A: [f32; 8, 4], B: [f32; 4], E: [f32; 2]) -> C: [f32; 9] { C[i] += A[i, k, 1] * B[k * k] / D[q] + C[i] }",
        expect![[r#"
            error on `A[i, k, 1]`: `A` has 2 dimensions, but 3 indices are given
              help: `A` is declared as `[f32; 8, 4]`: write 2 indices
            error on `k * k`: this index is not affine
              help: an index is a sum of multiples of variables and a number, such as `2*i + r - 1`
            error on `D`: no tensor `D`
              help: the inputs are `A`, `B` and `E`
            error on `C[i]`: the output `C` is read on the right
              help: use `+=`, `*=`, `max=` or `min=` to update it
        "#]],
    );
}

#[test]
fn what_other_languages_have_is_answered_with_the_form_to_write() {
    let kernel = |value: &str| format!("fn f(A: [f32; n]) -> C: [f32; n] {{ C[i] = {value} }}");
    check(
        &kernel("relu(A[i])"),
        expect![[r#"
            error on `relu`: no function `relu`
              help: write `max(a, 0)`
        "#]],
    );
    check(
        &kernel("where(A[i] > 0, A[i], 0)"),
        expect![[r#"
            error on `where`: no function `where`
              help: write a choice, `if a < b { x } else { y }`
        "#]],
    );
    check(
        &kernel("sqtr(A[i])"),
        expect![[r#"
            error on `sqtr`: no function `sqtr`
              help: did you mean `sqrt`? the functions are `exp`, `log`, `sqrt`, `tanh`, `sin`, `cos`, `floor`, `abs`, `sign`, `max`, `min` and `pow`; bind values that depend on no index first, `let alpha = sqtr(..);`, and write `alpha`
        "#]],
    );
    check(
        &kernel("A[i] ** 2"),
        expect![[r#"
            error on `**`: no operator `**`
              help: write `pow(a, b)`, or `a * a`
        "#]],
    );
    check(
        &kernel("A[i] ^ 2"),
        expect![[r#"
            error on `^`: `^` has no meaning here
              help: write `pow(a, b)`, or `a * a`
        "#]],
    );
    check(
        &kernel("A[i] # twice"),
        expect![[r#"
            error on `#`: `#` has no meaning here
              help: comments begin with `//`
        "#]],
    );
    check(
        &kernel("A[P[i]]"),
        expect![[r#"
            error on `P[i]`: this index is an element of an array
              help: gathers such as `A[P[i]]` do not exist; reorder the array first
        "#]],
    );
    check(
        &kernel("A[n - 1 - i]"),
        expect![[r#"
            error on `n`: index `n` never appears alone, so its extent is unknown
              help: give its range: `for n in 0..n`; a constant in an index is written as a number, and `A[(n - 1 - i) % n]` reads a dimension backwards
        "#]],
    );
    let one_output = expect![[r#"
        error on `(`: a kernel has one output
          help: write a kernel for each output; a later one may read what an earlier one writes
    "#]];
    check("fn f(A: [f32; n]) -> (C: [f32; n], D: [f32; n]) { C[i] = A[i] }", one_output);
    check(
        "fn f(A: [f32; n]) -> C: [f32; n], D: [f32; n] { C[i] = A[i] }",
        expect![[r#"
            error on `,`: a kernel has one output
              help: write a kernel for each output; a later one may read what an earlier one writes
        "#]],
    );
    check(
        "fn f(A: [bf16; n]) -> C: [f32; n] { C[i] = A[i] }",
        expect![[r#"
            error on `bf16`: `bf16` is not an element type
              help: elements are `f32`, `f64`, `i32` or `i64`, or a name that stands for one of them
        "#]],
    );
}
