//! The run-time form as text.

use crate::tests::shared::check_kernel as check;
use expect_test::expect;

#[test]
fn a_kernel_expands_to_its_data() {
    check(
        "fn matmul(A: [f32; 512, 2 * 1024], B: [f32; 2048, n]) -> C: [f32; 512, n] { C[m, n] += A[m, k] * B[k, n] }",
        expect![[r#"
            __::Schedule::from_spec(__::KernelSpec {
                name: __::Name::new("matmul"),
                dtype: __::DType::F32,
                inputs: vec![
                    (__::Name::new("A"),
                    vec![__::extent(512usize),
                    __::extent(2048usize)]),
                    (__::Name::new("B"),
                    vec![__::extent(2048usize),
                    __::extent(n)])
                ],
                output: (
                    __::Name::new("C"),
                    vec![
                        __::extent(512usize),
                        __::extent(n)
                    ],
                ),
                ranges: vec![],
                scalars: vec![],
                moduli: vec![],
                target: __::Access::plain("C", &["m", "n"]),
                assign: __::Assign::Add,
                value: __::Value::Mul(
                    Box::new(
                        __::Value::Access(
                            __::Access::plain("A", &["m", "k"]),
                        ),
                    ),
                    Box::new(
                        __::Value::Access(
                            __::Access::plain("B", &["k", "n"]),
                        ),
                    ),
                ),
            })
        "#]],
    );
}

#[test]
fn scalars_are_of_the_element_type() {
    check(
        "fn f(A: [T; n.len()]) -> C: [T; n.len()] { C[i] max= -alpha * (A[i] + 2.5) / beta - 3 }",
        expect![[r#"
            __::Schedule::from_spec(__::KernelSpec {
                name: __::Name::new("f"),
                dtype: <T as __::ScalarType>::DTYPE,
                inputs: vec![
                    (__::Name::new("A"),
                    vec![__::extent(n.len())])
                ],
                output: (
                    __::Name::new("C"),
                    vec![__::extent(n.len())],
                ),
                ranges: vec![],
                scalars: vec![
                    (__::Name::new("alpha"), { let scalar : T = alpha;
                    __::ScalarType::number(scalar) }),
                    (__::Name::new("beta"), { let scalar : T = beta;
                    __::ScalarType::number(scalar) })
                ],
                moduli: vec![],
                target: __::Access::plain("C", &["i"]),
                assign: __::Assign::Max,
                value: __::Value::Sub(
                    Box::new(
                        __::Value::Div(
                            Box::new(
                                __::Value::Mul(
                                    Box::new(
                                        __::Value::Neg(
                                            Box::new(
                                                __::Value::Scalar(
                                                    __::Name::new("alpha"),
                                                ),
                                            ),
                                        ),
                                    ),
                                    Box::new(
                                        __::Value::Add(
                                            Box::new(
                                                __::Value::Access(
                                                    __::Access::plain("A", &["i"]),
                                                ),
                                            ),
                                            Box::new(
                                                __::Value::Literal(
                                                    __::Number::Float(2.5f64),
                                                ),
                                            ),
                                        ),
                                    ),
                                ),
                            ),
                            Box::new(
                                __::Value::Scalar(
                                    __::Name::new("beta"),
                                ),
                            ),
                        ),
                    ),
                    Box::new(
                        __::Value::Literal(
                            __::Number::Int(3i64),
                        ),
                    ),
                ),
            })
        "#]],
    );
}

#[test]
fn affine_indices_and_ranges_expand() {
    check(
        "fn f(A: [i64; 2 * n]) -> c: i64 { c[] = A[2*i + r - 1] for r in 0..3 for i in 0..n }",
        expect![[r#"
            __::Schedule::from_spec(__::KernelSpec {
                name: __::Name::new("f"),
                dtype: __::DType::I64,
                inputs: vec![
                    (__::Name::new("A"),
                    vec![__::extent(2 * n)])
                ],
                output: (__::Name::new("c"), vec![]),
                ranges: vec![
                    (__::Name::new("r"),
                    __::extent(0usize)..
                    __::extent(3usize)),
                    (__::Name::new("i"),
                    __::extent(0usize).. __::extent(n))
                ],
                scalars: vec![],
                moduli: vec![],
                target: __::Access::plain("c", &[]),
                assign: __::Assign::Set,
                value: __::Value::Access(
                    __::Access::new(
                        __::Name::new("A"),
                        vec![
                            __::Affine::new([(__::Name::new("i"),
                            2i64), (__::Name::new("r"), 1i64)], - 1i64)
                        ],
                    ),
                ),
            })
        "#]],
    );
}

#[test]
fn a_captured_modulus_is_an_expression_of_the_user() {
    check(
        "fn ring(A: [f64; n]) -> B: [f64; n] { B[i] = A[(i + 1) % n] }",
        expect![[r#"
            __::Schedule::from_spec(__::KernelSpec {
                name: __::Name::new("ring"),
                dtype: __::DType::F64,
                inputs: vec![
                    (__::Name::new("A"),
                    vec![__::extent(n)])
                ],
                output: (
                    __::Name::new("B"),
                    vec![__::extent(n)],
                ),
                ranges: vec![],
                scalars: vec![],
                moduli: vec![
                    (__::Name::new("n"), __::extent(n))
                ],
                target: __::Access::plain("B", &["i"]),
                assign: __::Assign::Set,
                value: __::Value::Access(
                    __::Access::new(
                        __::Name::new("A"),
                        vec![
                            __::Affine::new([(__::Name::new("i"),
                            1i64)], 1i64)
                            .modulo(__::Modulus::Captured(__::Name::new("n")))
                        ],
                    ),
                ),
            })
        "#]],
    );
}

#[test]
fn errors_take_the_place_of_the_kernel() {
    check(
        "fn f(A: [f32; n]) -> C: [f32; n] { C[i] = B[i] }",
        expect![[r#"
        error on `B`: no tensor `B`
          help: the inputs are `A`
    "#]],
    );
}
