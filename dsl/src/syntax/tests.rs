//! Blocks that cannot be parsed, with the text that the error points at.

use crate::tests::check_checked as check;
use expect_test::expect;

#[test]
fn the_empty_block_is_an_error() {
    check(
        "",
        expect![[r#"
            error on ``: unexpected end of input, expected `fn`
        "#]],
    );
}

#[test]
fn a_kernel_has_a_body() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n]",
        expect![[r#"
            error on ``: unexpected end of input, expected curly braces
        "#]],
    );
}

#[test]
fn attributes_are_docs() {
    check(
        "#[inline] fn f() -> C: f32 { C[] = 1 }",
        expect![[r#"
            error on `#[inline]`: a kernel takes no attributes
              help: write documentation comments only
        "#]],
    );
}

#[test]
fn docs_and_visibility_are_read() {
    check(
        "/// Docs.
 pub(crate) fn f() -> c: f32 { c[] = 1 }",
        expect![[r#"
            c[] = 1
        "#]],
    );
}

#[test]
fn type_parameters_are_not_declared() {
    check(
        "fn f<T>(A: [T; n]) -> C: [T; n] { C[i] = A[i] }",
        expect![[r#"
            error on `<`: a kernel declares no type parameters
              help: use a type of the surroundings, such as the `T` of the function around it
        "#]],
    );
}

#[test]
fn the_output_is_named() {
    check(
        "fn f(A: [f32; n]) -> [f32; n] { C[i] = A[i] }",
        expect![[r#"
            error on `[`: the output has no name
              help: name the output and its extents: `-> C: [f32; m, n]`
        "#]],
    );
}

#[test]
fn the_output_is_given() {
    check(
        "fn f(A: [f32; n]) { C[i] = A[i] }",
        expect![[r#"
            error on `{`: expected the output
              help: name the output and its extents: `-> C: [f32; m, n]`
        "#]],
    );
}

#[test]
fn extents_follow_a_semicolon() {
    check(
        "fn f(A: [f32]) -> C: [f32; n] { C[i] = A[i] }",
        expect![[r#"
            error on `f32`: expected `;` and extents after the element type
              help: write `A: [f32; m, n]`, or `A: f32` for a tensor of no dimensions
        "#]],
    );
}

#[test]
fn extents_are_not_fields_of_a_type() {
    check(
        "fn f(A: [f32, n]) -> C: [f32; n] { C[i] = A[i] }",
        expect![[r#"
            error on `f32`: expected `;` and extents after the element type
              help: write `A: [f32; m, n]`, or `A: f32` for a tensor of no dimensions
        "#]],
    );
}

#[test]
fn the_left_side_is_an_access() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C = A[i] }",
        expect![[r#"
            error on `C`: expected an access to the output
              help: write the statement as `C[m, n] += A[m, k] * B[k, n]`
        "#]],
    );
}

#[test]
fn the_body_is_not_empty() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { }",
        expect![[r#"
            error on `}`: expected an access to the output
              help: write the statement as `C[m, n] += A[m, k] * B[k, n]`
        "#]],
    );
}

#[test]
fn the_assignments_are_listed() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] avg= A[i] }",
        expect![[r#"
            error on `avg=`: no assignment `avg=`
              help: the assignments are `=`, `+=`, `*=`, `max=` and `min=`
        "#]],
    );
}

#[test]
fn subtraction_is_an_addition() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] -= A[i] }",
        expect![[r#"
            error on `-=`: no assignment `-=`
              help: add the negated value: `+= -(..)`
        "#]],
    );
}

#[test]
fn division_is_a_multiplication() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] /= A[i] }",
        expect![[r#"
            error on `/=`: no assignment `/=`
              help: multiply floats by the reciprocal of a scalar: `*= 1 / alpha`
        "#]],
    );
}

#[test]
fn a_comparison_is_no_assignment() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] == A[i] }",
        expect![[r#"
            error on `=`: expected an assignment
              help: the assignments are `=`, `+=`, `*=`, `max=` and `min=`
        "#]],
    );
}

#[test]
fn an_assignment_follows_the_output() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] }",
        expect![[r#"
            error on `}`: expected an assignment
              help: the assignments are `=`, `+=`, `*=`, `max=` and `min=`
        "#]],
    );
}

#[test]
fn a_value_follows_the_assignment() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] = }",
        expect![[r#"
            error on `}`: expected a value
              help: a value is made of `+`, `-`, `*`, `/`, parentheses, numbers, accesses `A[m, k]`, scalars by name, functions such as `exp(..)`, and choices `if a < b { x } else { y }`
        "#]],
    );
}

#[test]
fn a_value_follows_an_operator() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] * (2 + ) }",
        expect![[r#"
            error on `)`: expected a value
              help: a value is made of `+`, `-`, `*`, `/`, parentheses, numbers, accesses `A[m, k]`, scalars by name, functions such as `exp(..)`, and choices `if a < b { x } else { y }`
        "#]],
    );
}

#[test]
fn other_operators_are_unexpected() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] % 2 }",
        expect![[r#"
            error on `%`: `%` has no meaning here
              help: `%` is for indices only: `A[(i + 1) % n]`
        "#]],
    );
}

#[test]
fn blocks_are_unexpected() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] + { 2 } }",
        expect![[r#"
            error on `{ 2 }`: unexpected group
              help: a value is made of `+`, `-`, `*`, `/`, parentheses, numbers, accesses `A[m, k]`, scalars by name, functions such as `exp(..)`, and choices `if a < b { x } else { y }`
        "#]],
    );
}

#[test]
fn keywords_are_unexpected() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] = match x { _ => 1 } }",
        expect![[r#"
            error on `match`: unexpected `match`
              help: a value is made of `+`, `-`, `*`, `/`, parentheses, numbers, accesses `A[m, k]`, scalars by name, functions such as `exp(..)`, and choices `if a < b { x } else { y }`
        "#]],
    );
}

#[test]
fn juxtaposition_is_unexpected() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] = 2 A[i] }",
        expect![[r#"
            error on `A`: unexpected `A`
              help: a value is made of `+`, `-`, `*`, `/`, parentheses, numbers, accesses `A[m, k]`, scalars by name, functions such as `exp(..)`, and choices `if a < b { x } else { y }`
        "#]],
    );
}

#[test]
fn parentheses_hold_one_value() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] = (A[i], 2) }",
        expect![[r#"
            error on `,`: unexpected `,`
              help: a value is made of `+`, `-`, `*`, `/`, parentheses, numbers, accesses `A[m, k]`, scalars by name, functions such as `exp(..)`, and choices `if a < b { x } else { y }`
        "#]],
    );
}

#[test]
fn functions_of_numbers_are_values() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] = sqrt(2.0) * A[i] }",
        expect![[r#"
            C[i] = sqrt(2.0) * A[i]
        "#]],
    );
}

#[test]
fn fields_are_bound_first() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] = config.alpha * A[i] }",
        expect![[r#"
            error on `alpha`: a value holds scalars by name only, no fields
              help: bind it first, `let alpha = ..;`, and write `alpha`
        "#]],
    );
}

#[test]
fn paths_are_bound_first() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] = f32::MAX * A[i] }",
        expect![[r#"
            error on `f32`: a value holds scalars and functions by name only, no paths or macros
              help: bind it first, `let alpha = ..;`, and write `alpha`; the functions are `exp`, `log`, `sqrt`, `tanh`, `sin`, `cos`, `floor`, `abs`, `sign`, `max`, `min` and `pow`
        "#]],
    );
}

#[test]
fn a_kernel_is_one_statement() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i]; C[i] += 1; }",
        expect![[r#"
            error on `C[i] += 1;`: a kernel is one statement
              help: write a kernel for each statement; ranges `for q in 0..n` stand before the `;`
        "#]],
    );
}

#[test]
fn a_range_has_no_block() {
    check(
        "fn f() -> C: [f32; n] { for i in 0..n { C[i] = 1 } }",
        expect![[r#"
            error on `{`: a range has no block
              help: write the statement after the ranges, or the ranges after the statement
        "#]],
    );
}

#[test]
fn indices_are_separated_by_commas() {
    check(
        "fn f(A: [f32; n, n]) -> C: [f32; n] { C[i] = A[i; j] }",
        expect![[r#"
            error on `;`: expected `,`
        "#]],
    );
}
