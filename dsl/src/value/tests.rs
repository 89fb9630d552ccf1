//! Functions, choices and ranges as written, and the errors on invalid ones.

use crate::tests::check_kernels as check;
use expect_test::expect;

#[test]
fn functions_and_choices_keep_their_meaning() {
    check(expect![[r#"
        fn f(A: [f32; n], B: [f32; n]) -> C: [f32; n] { C[i] = -exp(A[i] + 1) * max(A[i], min(B[i], alpha)) / if A[i] <= 2 * B[i] { 1 } else if A[i] != 0 { sqrt(B[i]) } else { tanh(-A[i]) } + (if A[i] > 0 { 1 } else { 2 }) }
            C[i] = -exp(A[i] + 1) * max(A[i], min(B[i], alpha)) / (if A[i] <= 2 * B[i] { 1 } else if A[i] != 0 { sqrt(B[i]) } else { tanh(-A[i]) }) + (if A[i] > 0 { 1 } else { 2 })
            scalars: alpha
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = if i != 2 { A[i] } else if alpha != i { 1 } else { 0 } }
            C[i] = if i != 2 { A[i] } else if alpha != i { 1 } else { 0 }
            scalars: alpha
    "#]]);
}

#[test]
fn functions_have_their_arguments() {
    check(expect![[r#"
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = tan(A[i]) + A(i) * expm1(alpha) }
            error on `tan`: no function `tan`
              help: write `sin(a) / cos(a)`
            error on `A`: the tensor `A` is called like a function
              help: an access is written with brackets: `A[..]`
            error on `expm1`: no function `expm1`
              help: the functions are `exp`, `log`, `sqrt`, `tanh`, `sin`, `cos`, `floor`, `abs`, `sign`, `max`, `min` and `pow`; bind values that depend on no index first, `let alpha = expm1(..);`, and write `alpha`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = max(A[i]) + exp() * abs(A[i], 1) }
            error on `max`: `max` takes 2 arguments, but 1 is given
              help: write `max(a, b)`
            error on `exp`: `exp` takes 1 argument, but 0 are given
              help: write `exp(a)`
            error on `abs`: `abs` takes 1 argument, but 2 are given
              help: write `abs(a)`
        fn f(A: [i32; n]) -> C: [i32; n] { C[i] = exp(A[i]) + abs(A[i]) - sqrt(log(A[i])) }
            error on `exp`: `exp` is a function of floats, but the elements are `i32`
              help: let the tensors hold `f32` or `f64`
            error on `log`: `log` is a function of floats, but the elements are `i32`
              help: let the tensors hold `f32` or `f64`
            error on `sqrt`: `sqrt` is a function of floats, but the elements are `i32`
              help: let the tensors hold `f32` or `f64`
        fn f(A: [i32; n]) -> C: [i32; n] { C[i] = max(A, 1.5) + if A[i] < Q[i] { C[i] } else { A[i] / 0 } }
            error on `Q`: no tensor `Q`
              help: the inputs are `A`
            error on `C[i]`: the output `C` is read on the right
              help: use `+=`, `*=`, `max=` or `min=` to update it
            error on `A`: the tensor `A` is used without indices
              help: write `A[..]`
            error on `1.5`: `1.5` is a float in a kernel of integers
              help: write an integer, or let the tensors hold `f32` or `f64`
            error on `0`: division by 0 in a kernel of integers
              help: divide by another number
    "#]]);
}

#[test]
fn a_choice_has_one_comparison_and_both_values() {
    check(expect![[r#"
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] < 2 }
            error on `<`: a comparison is not a number
              help: choose by it: `if a < b { x } else { y }`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = (A[i] == 2) * A[i] }
            error on `=`: a comparison is not a number
              help: choose by it: `if a < b { x } else { y }`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = if A[i] < 2 { 1 } }
            error on `if`: a choice without `else` has no value
              help: write `if a < b { x } else { y }`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = if A[i] < 2 && A[i] > 0 { 1 } else { 2 } }
            C[i] = if (if A[i] < 2 { 1 } else { 0 }) * (if A[i] > 0 { 1 } else { 0 }) > 0 { 1 } else { 2 }
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = if A[i] { 1 } else { 2 } }
            error on `{ 1 }`: expected a comparison
              help: a choice compares two values by `<`, `<=`, `>`, `>=`, `==` or `!=`: `if a < b { x } else { y }`
    "#]]);
}

#[test]
fn functions_and_indices_are_written_in_one_way() {
    check(expect![[r#"
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i].max(0) }
            error on `max`: a value has no methods
              help: functions stand before their arguments: `max(a, b)`; they are `exp`, `log`, `sqrt`, `tanh`, `sin`, `cos`, `floor`, `abs`, `sign`, `max`, `min` and `pow`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = f32::exp(A[i]) }
            error on `f32`: a value holds scalars and functions by name only, no paths or macros
              help: bind it first, `let alpha = ..;`, and write `alpha`; the functions are `exp`, `log`, `sqrt`, `tanh`, `sin`, `cos`, `floor`, `abs`, `sign`, `max`, `min` and `pow`
        fn f(A: [f32; m, n]) -> C: [f32; m, n] { C[i][2*j + 1] += A[i, j] }
            error on `C[i][2*j + 1]`: the indices of `C` stand in one pair of brackets
              help: write `C[i, 2*j + 1]`
        fn f(A: [f32; m, n]) -> C: [f32; m, n] { C[i, j] += A[i][j] }
            error on `A[i][j]`: the indices of `A` stand in one pair of brackets
              help: write `A[i, j]`
    "#]]);
}

#[test]
fn ranges_are_of_one_index_and_start_anywhere() {
    check(expect![[r#"
        fn f(A: [f32; m, n]) -> C: [f32; m, n] { C[i, j] = A[i, j] for i in 0..m, j in 0..n }
            error on `,`: ranges are not joined by commas
              help: write one after the other: `for i in 0..m for j in 0..n`
        fn f(A: [f32; m, n]) -> C: [f32; m, n] { C[i, j] = A[i, j] for i, j in 0..n }
            error on `,`: a range is of one index
              help: write one after the other: `for i in 0..m for j in 0..n`
        fn f(A: [f32; n], W: [f32; 3]) -> C: [f32; n] { C[i] += A[i - 1] * W[r + 1] for i in 1..n - 1 for r in -1..2 }
            C[i] += A[i - 1] * W[r + 1]
            ranges: i in 1..n - 1, r in - 1..2
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] for i in 5..3 }
            error on `3`: the range of `i` ends before it starts: 5..3
              help: an empty range is `5..5`
    "#]]);
}

#[test]
fn a_stated_range_holds_and_stays_inside() {
    check(expect![[r#"
        fn f(A: [f32; 18]) -> C: [f32; 16] { C[i] = A[i] + A[i + 2] for i in 0..16 }
            C[i] = A[i] + A[i + 2]
            ranges: i in 0..16
        fn f(A: [f32; 18]) -> C: [f32; 16] { C[i] = A[i] + A[i + 2] for i in 0..17 }
            error on `C[i]`: `C[i]` leaves `C`: index `i` spans 0..17, but dimension 0 has extent 16
              help: make `C` larger, or the ranges of the indices smaller
        fn f(A: [f32; 18]) -> C: [f32; 16] { C[i] = A[i] + A[i + 1] + A[i + 2] }
            error on `i`: index `i` has extent 16 in `C[i]`, but 18 in `A[i]`
              help: let the extents agree, use two indices, or state the range that fits: `for i in 0..16`
        fn f(A: [f32; 18]) -> C: [f32; 18] { C[i] = A[i - 1] + A[i] + A[i + 1] }
            error on `A[i - 1]`: `A[i - 1]` leaves `A`: index `i - 1` spans -1..17, but dimension 0 has extent 18
              help: state the range that fits: `for i in 1..17`
    "#]]);
}

#[test]
fn a_name_given_twice_is_one_error() {
    check(expect![[r#"
        fn f(A: [f32; m], A: [f64; n, n]) -> C: [f32; m] { C[i] = A[i] }
            error on `A`: the name `A` is given twice
              help: give each tensor a name of its own
    "#]]);
}

#[test]
fn an_access_to_an_input_may_have_a_value_outside() {
    check(expect![[r#"
        fn f(A: [f32; n, n], B: [f32; n]) -> C: [f32; n, n] { C[i, j] = -A[i - 1, j] else 0.5 * 2 + if B[i + 1] else -alpha < 0 { A[i, j + 7] else beta } else { 0 } }
            C[i, j] = -(A[i - 1, j] else 0.5) * 2 + (if (B[i + 1] else -alpha) < 0 { A[i, j + 7] else beta } else { 0 })
            scalars: alpha, beta
        fn f(A: [i32; n], B: [i32; n]) -> C: [i32; n] { C[i] = A[i - 1] else B[i] }
            error on `B`: the value outside of `A` is a number or a scalar
              help: write `A[i - 1] else 0`
        fn f(A: [i32; n]) -> C: [i32; n] { C[i] = A[i - 1] else (1 + 2) }
            error on `(1 + 2)`: the value outside of `A` is a number or a scalar
              help: write `A[i - 1] else 0`
        fn f(A: [i32; n]) -> C: [i32; n] { C[i] = A[i - 1] else exp(1) }
            error on `exp`: the value outside of `A` is a number or a scalar
              help: write `A[i - 1] else 0`
        fn f(A: [i32; n]) -> C: [i32; n] { C[i] = A[i - 1] else 0.5 }
            error on `0.5`: `0.5` is a float in a kernel of integers
              help: write an integer, or let the tensors hold `f32` or `f64`
        fn f(A: [i32; n]) -> C: [i32; n] { C[i] = A[i - 1] else }
            error on `else`: the value outside of `A` is a number or a scalar
              help: write `A[i - 1] else 0`
        fn f(A: [i32; n]) -> C: [i32; n] { C[i] = (2 * A[i - 1]) else 0 }
            error on `else`: unexpected `else`
              help: the value outside is written directly after an access: `A[i - 1] else 0`
        fn f(A: [i32; n]) -> C: [i32; n] { C[i - 1] else 0 = A[i] }
            error on `else`: nothing is written outside of the output
              help: only inputs may have a value outside
        fn f(A: [i32; 9]) -> C: [i32; 12] { C[i] += A[i] else 0 * A[r] else 1 }
            error on `r`: index `r` never appears alone, so its extent is unknown
              help: give its range: `for r in 0..n`; a constant in an index is written as a number, and `A[(n - 1 - i) % n]` reads a dimension backwards
    "#]]);
}
