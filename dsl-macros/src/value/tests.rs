//! Functions, choices and ranges as they are written, and the errors on what is not one.

use crate::testing::check_checked as check;
use expect_test::expect;

#[test]
fn functions_and_choices_keep_their_meaning() {
    check(
        "fn f(A: [f32; n], B: [f32; n]) -> C: [f32; n] { C[i] = -exp(A[i] + 1) * max(A[i], min(B[i], alpha)) / if A[i] <= 2 * B[i] { 1 } else if A[i] != 0 { sqrt(B[i]) } else { tanh(-A[i]) } + (if A[i] > 0 { 1 } else { 2 }) }",
        expect![""],
    );
}

#[test]
fn an_unknown_function_lists_the_functions() {
    check("fn f(A: [f32; n]) -> C: [f32; n] { C[i] = sin(A[i]) + A(i) * expm1(alpha) }", expect![""]);
}

#[test]
fn a_function_takes_so_many_arguments() {
    check("fn f(A: [f32; n]) -> C: [f32; n] { C[i] = max(A[i]) + exp() * abs(A[i], 1) }", expect![""]);
}

#[test]
fn integers_have_no_functions_of_floats() {
    check("fn f(A: [i32; n]) -> C: [i32; n] { C[i] = exp(A[i]) + abs(A[i]) - sqrt(log(A[i])) }", expect![""]);
}

#[test]
fn mistakes_inside_calls_and_choices_are_found() {
    check(
        "fn f(A: [i32; n]) -> C: [i32; n] { C[i] = max(A, 1.5) + if A[i] < Q[i] { C[i] } else { A[i] / 0 } }",
        expect![""],
    );
}

#[test]
fn a_comparison_is_no_number() {
    check("fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] < 2 }", expect![""]);
}

#[test]
fn equality_is_no_number() {
    check("fn f(A: [f32; n]) -> C: [f32; n] { C[i] = (A[i] == 2) * A[i] }", expect![""]);
}

#[test]
fn a_choice_has_both_values() {
    check("fn f(A: [f32; n]) -> C: [f32; n] { C[i] = if A[i] < 2 { 1 } }", expect![""]);
}

#[test]
fn a_choice_has_one_comparison() {
    check("fn f(A: [f32; n]) -> C: [f32; n] { C[i] = if A[i] < 2 && A[i] > 0 { 1 } else { 2 } }", expect![""]);
}

#[test]
fn a_choice_compares() {
    check("fn f(A: [f32; n]) -> C: [f32; n] { C[i] = if A[i] { 1 } else { 2 } }", expect![""]);
}

#[test]
fn a_value_has_no_methods() {
    check("fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i].max(0) }", expect![""]);
}

#[test]
fn a_function_has_no_path() {
    check("fn f(A: [f32; n]) -> C: [f32; n] { C[i] = f32::exp(A[i]) }", expect![""]);
}

#[test]
fn an_output_has_its_indices_in_one_pair_of_brackets() {
    check("fn f(A: [f32; m, n]) -> C: [f32; m, n] { C[i][2*j + 1] += A[i, j] }", expect![""]);
}

#[test]
fn an_input_has_its_indices_in_one_pair_of_brackets() {
    check("fn f(A: [f32; m, n]) -> C: [f32; m, n] { C[i, j] += A[i][j] }", expect![""]);
}

#[test]
fn ranges_are_not_joined_by_commas() {
    check("fn f(A: [f32; m, n]) -> C: [f32; m, n] { C[i, j] = A[i, j] for i in 0..m, j in 0..n }", expect![""]);
}

#[test]
fn a_range_is_of_one_index() {
    check("fn f(A: [f32; m, n]) -> C: [f32; m, n] { C[i, j] = A[i, j] for i, j in 0..n }", expect![""]);
}

#[test]
fn ranges_start_anywhere() {
    check(
        "fn f(A: [f32; n], W: [f32; 3]) -> C: [f32; n] { C[i] += A[i - 1] * W[r + 1] for i in 1..n - 1 for r in -1..2 }",
        expect![""],
    );
}

#[test]
fn a_range_does_not_end_before_it_starts() {
    check("fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] for i in 5..3 }", expect![""]);
}

#[test]
fn a_stated_range_holds_where_extents_differ() {
    check("fn f(A: [f32; 18]) -> C: [f32; 16] { C[i] = A[i] + A[i + 2] for i in 0..16 }", expect![""]);
}

#[test]
fn a_stated_range_stays_inside() {
    check("fn f(A: [f32; 18]) -> C: [f32; 16] { C[i] = A[i] + A[i + 2] for i in 0..17 }", expect![""]);
}

#[test]
fn where_extents_differ_the_range_that_fits_is_offered() {
    check("fn f(A: [f32; 18]) -> C: [f32; 16] { C[i] = A[i] + A[i + 1] + A[i + 2] }", expect![""]);
}

#[test]
fn where_an_access_leaves_its_tensor_the_range_that_fits_is_offered() {
    check("fn f(A: [f32; 18]) -> C: [f32; 18] { C[i] = A[i - 1] + A[i] + A[i + 1] }", expect![""]);
}

#[test]
fn a_name_given_twice_is_one_error() {
    check("fn f(A: [f32; m], A: [f64; n, n]) -> C: [f32; m] { C[i] = A[i] }", expect![""]);
}
