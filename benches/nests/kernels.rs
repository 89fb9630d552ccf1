//! The kernels, compiled for each element type and number of ranks, with hand-written loops.

use crate::contest::Kernel;
use crate::hand;
use polyshard::kernel;

/// Rows and columns of the arrays. Compiled kernels have constant extents.
pub(crate) const SIZE: usize = 2048;

/// Runs an emitted program that was prepared once, on the inputs with these numbers.
macro_rules! prepared {
    ($module:path, $world:ident, $($input:literal),+) => {{
        use $module as module;
        let mut prepared = module::Prepared::new($world)?;
        Ok(Box::new(move |inputs, c| prepared.run_into($(&inputs[$input]),+, c)))
    }};
}

/// A function that returns the kernels over elements of type `$t` on `$ranks` ranks, which own blocks of rows.
macro_rules! kernels {
    ($name:ident, $t:ident, $ranks:tt) => {
        pub(crate) fn $name() -> Vec<Kernel<$t>> {
            vec![
                Kernel {
                    name: "axpy",
                    schedule: $name::axpy::schedule(),
                    compiled: |world| prepared!($name::axpy, world, 0, 1),
                    hand: |a, b, c| hand::pointwise(a, b, c, |a, b| 2.0 * a + b),
                    inner: None,
                },
                Kernel {
                    name: "quotient",
                    schedule: $name::quotient::schedule(),
                    compiled: |world| prepared!($name::quotient, world, 0, 1),
                    hand: |a, b, c| hand::pointwise(a, b, c, |a, b| (a / (b + 1.0)).max(0.5)),
                    inner: None,
                },
                Kernel {
                    name: "exponential",
                    schedule: $name::exponential::schedule(),
                    compiled: |world| prepared!($name::exponential, world, 0, 1),
                    hand: |a, b, c| hand::pointwise(a, b, c, |a, b| (-a).exp() * b),
                    inner: None,
                },
                Kernel {
                    name: "5-points",
                    schedule: $name::five_points::schedule(),
                    compiled: |world| prepared!($name::five_points, world, 0),
                    hand: |a, _, c| hand::stencil(a, c, |[_, n, _], [w, m, e], [_, s, _]| 0.5 * m + 0.125 * (n + s + w + e)),
                    inner: Some(|a, c| hand::inner(a, c, |[_, n, _], [w, m, e], [_, s, _]| 0.5 * m + 0.125 * (n + s + w + e))),
                },
                Kernel {
                    name: "9-points",
                    schedule: $name::nine_points::schedule(),
                    compiled: |world| prepared!($name::nine_points, world, 0),
                    hand: |a, _, c| {
                        hand::stencil(a, c, |[nw, n, ne], [w, m, e], [sw, s, se]| {
                            0.25 * m + 0.125 * (n + s + w + e) + 0.0625 * (nw + ne + sw + se)
                        })
                    },
                    inner: Some(|a, c| {
                        hand::inner(a, c, |[nw, n, ne], [w, m, e], [sw, s, se]| {
                            0.25 * m + 0.125 * (n + s + w + e) + 0.0625 * (nw + ne + sw + se)
                        })
                    }),
                },
                Kernel {
                    name: "torus",
                    schedule: $name::torus::schedule(),
                    compiled: |world| prepared!($name::torus, world, 0),
                    hand: |a, _, c| hand::stencil(a, c, |[_, n, _], [w, m, e], [_, s, _]| 0.5 * m + 0.125 * (n + s + w + e)),
                    inner: Some(|a, c| hand::inner(a, c, |[_, n, _], [w, m, e], [_, s, _]| 0.5 * m + 0.125 * (n + s + w + e))),
                },
            ]
        }

        mod $name {
            use super::kernel;

            kernel! {
                pub(crate) fn axpy(A: [$t; 2048, 2048], B: [$t; 2048, 2048]) -> C: [$t; 2048, 2048] {
                    C[i, j] = 2 * A[i, j] + B[i, j]
                }
                mesh(x: $ranks)
                .distribute([i], [io], [ii])
                .shard(A, i @ x)
                .shard(B, i @ x)
                .shard(C, i @ x)
            }

            kernel! {
                pub(crate) fn quotient(A: [$t; 2048, 2048], B: [$t; 2048, 2048]) -> C: [$t; 2048, 2048] {
                    C[i, j] = max(A[i, j] / (B[i, j] + 1), 0.5)
                }
                mesh(x: $ranks)
                .distribute([i], [io], [ii])
                .shard(A, i @ x)
                .shard(B, i @ x)
                .shard(C, i @ x)
            }

            kernel! {
                pub(crate) fn exponential(A: [$t; 2048, 2048], B: [$t; 2048, 2048]) -> C: [$t; 2048, 2048] {
                    C[i, j] = exp(-A[i, j]) * B[i, j]
                }
                mesh(x: $ranks)
                .distribute([i], [io], [ii])
                .shard(A, i @ x)
                .shard(B, i @ x)
                .shard(C, i @ x)
            }

            kernel! {
                pub(crate) fn five_points(A: [$t; 2048, 2048]) -> C: [$t; 2048, 2048] {
                    C[i, j] = 0.5 * A[i, j] + 0.125 * (A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1])
                        for i in 1..2047 for j in 1..2047
                }
                mesh(x: $ranks)
                .distribute([i], [io], [ii])
                .shard(A, dim(0) @ x)
                .shard(C, dim(0) @ x)
            }

            kernel! {
                pub(crate) fn nine_points(A: [$t; 2048, 2048]) -> C: [$t; 2048, 2048] {
                    C[i, j] = 0.25 * A[i, j]
                        + 0.125 * (A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1])
                        + 0.0625 * (A[i - 1, j - 1] + A[i - 1, j + 1] + A[i + 1, j - 1] + A[i + 1, j + 1])
                        for i in 1..2047 for j in 1..2047
                }
                mesh(x: $ranks)
                .distribute([i], [io], [ii])
                .shard(A, dim(0) @ x)
                .shard(C, dim(0) @ x)
            }

            kernel! {
                pub(crate) fn torus(A: [$t; 2048, 2048]) -> C: [$t; 2048, 2048] {
                    C[i, j] = 0.5 * A[i, j]
                        + 0.125 * (A[(i - 1) % 2048, j] + A[(i + 1) % 2048, j] + A[i, (j - 1) % 2048] + A[i, (j + 1) % 2048])
                }
                mesh(x: $ranks)
                .distribute([i], [io], [ii])
                .shard(A, dim(0) @ x)
                .shard(C, i @ x)
            }
        }
    };
}

kernels!(f64_on_1, f64, 1);
kernels!(f64_on_2, f64, 2);
kernels!(f32_on_1, f32, 1);
kernels!(f32_on_2, f32, 2);
