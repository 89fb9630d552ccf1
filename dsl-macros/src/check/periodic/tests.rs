//! Periodic indices as they are read, and every mistake with the text that its error points at.

use crate::testing::{check_checked as check, check_kernel};
use expect_test::expect;

#[test]
fn a_remainder_is_a_periodic_index() {
    check(
        "fn ring(A: [f64; 8]) -> B: [f64; 8] { B[i] = A[(i - 1) % 8] + A[((2 * i + 1) % (4 + 4))] }",
        expect![[r#""#]],
    );
}

#[test]
fn a_modulus_may_be_captured() {
    check(
        "fn torus(A: [f64; n, 2 * m]) -> B: [f64; n, 2 * m] {
            B[i, j] = A[(i + n - 1) % n, j] + A[i, (j - 1 + 2*m) % (2 * m)] + A[(3*n - i) % n, (j + 1) % (2 * m)]
        }",
        expect![[r#""#]],
    );
}

#[test]
fn a_captured_modulus_is_an_expression_of_the_user() {
    check_kernel("fn ring(A: [f64; n]) -> B: [f64; n] { B[i] = A[(i + 1) % n] }", expect![[r#""#]]);
}

#[test]
fn an_index_under_a_remainder_has_no_extent() {
    check("fn f(A: [f32; 4]) -> s: [f32;] { s[] += A[i % 4] }", expect![[r#""#]]);
}

#[test]
fn a_modulus_is_between_1_and_the_extent() {
    check(
        "fn f(A: [f32; 8]) -> B: [f32; 8] { B[i] = A[(i + 1) % 0] + A[i % -3] + A[i % (4 * 3)] + A[i % 18446744073709551616] }",
        expect![[r#""#]],
    );
}

#[test]
fn a_modulus_is_no_index() {
    check(
        "fn f(A: [f32; n, m]) -> B: [f32; n, m] { B[i, j] = A[(i + 1) % j, j] + A[i % (n + j), j] }",
        expect![[r#""#]],
    );
}

#[test]
fn a_part_of_the_modulus_is_no_index() {
    check(
        "fn f(A: [f32; n]) -> B: [f32; n] { B[i] = A[(i + n) % (2 * n)] + A[(i + m) % (n / m)] + A[(i + 2*n + 3) % (n + 1)] }",
        expect![[r#""#]],
    );
}

#[test]
fn a_remainder_is_taken_of_the_whole_index() {
    check(
        "fn f(A: [f32; n]) -> B: [f32; n] { B[i] = A[i + 1 % n] + A[(i % 4 + 1) % n] + A[2 * (i % 3)] }",
        expect![[r#""#]],
    );
}

#[test]
fn an_output_does_not_wrap() {
    check("fn f(A: [f32; n]) -> B: [f32; n] { B[(i + 1) % n] = A[i] }", expect![[r#""#]]);
}

#[test]
fn a_dimension_wraps_at_one_place() {
    check("fn f(A: [f32; 8]) -> B: [f32; 8] { B[i] = A[(i + 1) % 8] + A[(i + 1) % 4] }", expect![[r#""#]]);
}
