//! Blocks that cannot be parsed, with the text that the error points at.

use crate::tests::{check_kernels as check, kernel};
use expect_test::expect;

#[test]
fn the_empty_block_is_an_error() {
    assert_eq!(kernel(""), "error on ``: unexpected end of input, expected `fn`\n");
}

#[test]
fn a_kernel_has_its_parts() {
    check(expect![[r#"
        fn f(A: [f32; n]) -> C: [f32; n]
            error on ``: unexpected end of input, expected curly braces
        #[inline] fn f() -> C: f32 { C[] = 1 }
            error on `#[inline]`: a kernel takes no attributes
              help: write documentation comments only
        /// Docs.⏎ pub(crate) fn f() -> c: f32 { c[] = 1 }
            c[] = 1
        fn f<T>(A: [T; n]) -> C: [T; n] { C[i] = A[i] }
            error on `<`: a kernel declares no type parameters
              help: use a type of the surroundings, such as the `T` of the function around it
        fn f(A: [f32; n]) -> [f32; n] { C[i] = A[i] }
            error on `[`: the output has no name
              help: name the output and its extents: `-> C: [f32; m, n]`
        fn f(A: [f32; n]) { C[i] = A[i] }
            error on `{`: expected the output
              help: name the output and its extents: `-> C: [f32; m, n]`
        fn f(A: [f32]) -> C: [f32; n] { C[i] = A[i] }
            error on `f32`: expected `;` and extents after the element type
              help: write `A: [f32; m, n]`, or `A: f32` for a tensor of no dimensions
        fn f(A: [f32, n]) -> C: [f32; n] { C[i] = A[i] }
            error on `f32`: expected `;` and extents after the element type
              help: write `A: [f32; m, n]`, or `A: f32` for a tensor of no dimensions
    "#]]);
}

#[test]
fn a_statement_assigns_to_the_output() {
    check(expect![[r#"
        fn f(A: [f32; n]) -> C: [f32; n] { C = A[i] }
            error on `C`: `C` has 1 dimension, but 0 indices are given
              help: `C` is declared as `[f32; n]`: write 1 index
        fn f(A: [f32; n]) -> C: [f32; n] { }
            error on `f`: a kernel needs a statement
              help: write the statement as `C[m, n] += A[m, k] * B[k, n]`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] avg= A[i] }
            error on `avg=`: no assignment `avg=`
              help: the assignments are `=`, `+=`, `*=`, `max=` and `min=`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] -= A[i] }
            error on `-=`: no assignment `-=`
              help: add the negated value: `+= -(..)`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] /= A[i] }
            error on `/=`: no assignment `/=`
              help: multiply floats by the reciprocal of a scalar: `*= 1 / alpha`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] == A[i] }
            error on `=`: expected an assignment
              help: the assignments are `=`, `+=`, `*=`, `max=` and `min=`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] }
            error on `}`: expected an assignment
              help: the assignments are `=`, `+=`, `*=`, `max=` and `min=`
    "#]]);
}

#[test]
fn values_are_of_their_form() {
    check(expect![[r#"
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = }
            error on `}`: expected a value
              help: a value is made of `+`, `-`, `*`, `/`, parentheses, numbers, accesses `A[m, k]`, scalars by name, functions such as `exp(..)`, and choices `if a < b { x } else { y }`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] * (2 + ) }
            error on `)`: expected a value
              help: a value is made of `+`, `-`, `*`, `/`, parentheses, numbers, accesses `A[m, k]`, scalars by name, functions such as `exp(..)`, and choices `if a < b { x } else { y }`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] % 2 }
            error on `%`: `%` has no meaning here
              help: `%` is for indices only: `A[(i + 1) % n]`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i] + { 2 } }
            error on `{ 2 }`: unexpected group
              help: a value is made of `+`, `-`, `*`, `/`, parentheses, numbers, accesses `A[m, k]`, scalars by name, functions such as `exp(..)`, and choices `if a < b { x } else { y }`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = match x { _ => 1 } }
            error on `match`: unexpected `match`
              help: a value is made of `+`, `-`, `*`, `/`, parentheses, numbers, accesses `A[m, k]`, scalars by name, functions such as `exp(..)`, and choices `if a < b { x } else { y }`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = 2 A[i] }
            error on `A`: unexpected `A`
              help: a value is made of `+`, `-`, `*`, `/`, parentheses, numbers, accesses `A[m, k]`, scalars by name, functions such as `exp(..)`, and choices `if a < b { x } else { y }`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = (A[i], 2) }
            error on `,`: unexpected `,`
              help: a value is made of `+`, `-`, `*`, `/`, parentheses, numbers, accesses `A[m, k]`, scalars by name, functions such as `exp(..)`, and choices `if a < b { x } else { y }`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = sqrt(2.0) * A[i] }
            C[i] = sqrt(2.0) * A[i]
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = config.alpha * A[i] }
            error on `alpha`: a value holds scalars by name only, no fields
              help: bind it first, `let alpha = ..;`, and write `alpha`
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = f32::MAX * A[i] }
            error on `f32`: a value holds scalars and functions by name only, no paths or macros
              help: bind it first, `let alpha = ..;`, and write `alpha`; the functions are `exp`, `log`, `sqrt`, `tanh`, `sin`, `cos`, `floor`, `abs`, `sign`, `max`, `min` and `pow`
    "#]]);
}

#[test]
fn a_kernel_is_one_statement_with_ranges() {
    check(expect![[r#"
        fn f(A: [f32; n]) -> C: [f32; n] { C[i] = A[i]; C[i] += 1; }
            error on `C[i] += 1`: a kernel is one statement
              help: several statements are for `.poly` files; ranges `for q in 0..n` stand before the `;`
        fn f() -> C: [f32; n] { for i in 0..n { C[i] = 1 } }
            error on `{`: a range has no block
              help: write the statement after the ranges, or the ranges after the statement
        fn f(A: [f32; n, n]) -> C: [f32; n] { C[i] = A[i; j] }
            error on `;`: expected `,`
    "#]]);
}
