//! Periodic indices as parsed, and every mistake with the text that its error points at.

use crate::tests::check_kernels as check;
use expect_test::expect;

#[test]
fn a_remainder_is_a_periodic_index() {
    check(expect![[r#"
        fn ring(A: [f64; 8]) -> B: [f64; 8] { B[i] = A[(i - 1) % 8] + A[((2 * i + 1) % (4 + 4))] }
            B[i] = A[(i - 1) % 8] + A[(2*i + 1) % 8]
        fn torus(A: [f64; n, 2 * m]) -> B: [f64; n, 2 * m] {⏎    B[i, j] = A[(i + n - 1) % n, j] + A[i, (j - 1 + 2*m) % (2 * m)] + A[(3*n - i) % n, (j + 1) % (2 * m)]⏎}
            B[i, j] = A[(i - 1) % n, j] + A[i, (j - 1) % (2 * m)] + A[(-i) % n, (j + 1) % (2 * m)]
            moduli: n, (2 * m)
        fn f(A: [f32; 4]) -> s: [f32;] { s[] += A[i % 4] }
            error on `i`: index `i` never appears alone, so its extent is unknown
              help: give its range: `for i in 0..n`; a constant in an index is written as a number, and `A[(n - 1 - i) % n]` reads a dimension backwards
    "#]]);
}

#[test]
fn a_modulus_is_between_1_and_the_extent() {
    check(expect![[r#"
        fn f(A: [f32; 8]) -> B: [f32; 8] { B[i] = A[(i + 1) % 0] + A[i % -3] + A[i % (4 * 3)] + A[i % 18446744073709551616] }
            error on `0`: the index wraps at 0
              help: a modulus is between 1 and the extent
            error on `-3`: the index wraps at -3
              help: a modulus is between 1 and the extent
            error on `18446744073709551616`: this modulus does not fit 64 bits
              help: use a smaller number
            error on `(4 * 3)`: the index wraps at 12, but dimension 0 of `A` has extent 8
              help: a modulus is between 1 and the extent
    "#]]);
}

#[test]
fn a_whole_index_of_an_input_wraps() {
    check(expect![[r#"
        fn f(A: [f32; n, m]) -> B: [f32; n, m] { B[i, j] = A[(i + 1) % j, j] + A[i % (n + j), j] }
            error on `j`: the modulus `j` is an index
              help: a modulus is a number, or captured from the surroundings as extents are
            error on `j`: the modulus `j` is an index
              help: a modulus is a number, or captured from the surroundings as extents are
        fn f(A: [f32; n]) -> B: [f32; n] { B[i] = A[(i + n) % (2 * n)] + A[(i + m) % (n / m)] + A[(i + 2*n + 3) % (n + 1)] }
            error on `(i + n)`: `n` is part of the modulus, so it is not an index
              help: in the index, it may only occur in multiples of the modulus, such as `(i + n - 1) % n`
            error on `(i + m)`: `m` is part of the modulus, so it is not an index
              help: in the index, it may only occur in multiples of the modulus, such as `(i + n - 1) % n`
        fn f(A: [f32; n]) -> B: [f32; n] { B[i] = A[i + 1 % n] + A[(i % 4 + 1) % n] + A[2 * (i % 3)] }
            error on `1 % n`: this remainder is inside of an index
              help: an index may be the remainder of a sum as a whole, such as `(2*i + r - 1) % n`
            error on `i % 4`: this remainder is inside of an index
              help: an index may be the remainder of a sum as a whole, such as `(2*i + r - 1) % n`
            error on `i % 3`: this remainder is inside of an index
              help: an index may be the remainder of a sum as a whole, such as `(2*i + r - 1) % n`
        fn f(A: [f32; n]) -> B: [f32; n] { B[(i + 1) % n] = A[i] }
            error on `(i + 1) % n`: the output `B` is written at an index that wraps
              help: only indices of inputs may wrap; let the other side of the statement wrap
        fn f(A: [f32; 8]) -> B: [f32; 8] { B[i] = A[(i + 1) % 8] + A[(i + 1) % 4] }
            error on `A[(i + 1) % 4]`: `A[(i + 1) % 8]` and `A[(i + 1) % 4]` read dimension 0 of `A`, but do not wrap at the same place
              help: pass the array twice, under two names
    "#]]);
}
