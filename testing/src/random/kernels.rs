//! Random kernels: every form of index notation and of values that the crate supports, over random extents.

use super::Choices;
use polyshard::kernel;
use polyshard::runtime::Element;
use polyshard::schedule::Schedule;

/// A kernel over random extents: from 0 and 1 upwards, mostly not dividing evenly.
pub fn kernel_of<T: Element>(choices: &mut Choices<'_>) -> Schedule {
    let extents = [5, 7, 1, 2, 3, 4, 6, 8, 11, 13, 0];
    let [m, n, k, b] = [(); 4].map(|()| choices.pick(&extents));
    let two = number::<T>(2);
    let three = number::<T>(3);
    match choices.below(52) {
        0 => kernel! { fn nn(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] { C[i, j] += A[i, l] * B[l, j] } },
        1 => kernel! { fn tn(A: [T; k, m], B: [T; k, n]) -> C: [T; m, n] { C[i, j] += A[l, i] * B[l, j] } },
        2 => kernel! { fn nt(A: [T; m, k], B: [T; n, k]) -> C: [T; m, n] { C[i, j] = A[i, l] * B[j, l] } },
        3 => kernel! { fn tt(A: [T; k, m], B: [T; n, k]) -> C: [T; m, n] { C[i, j] += -A[l, i] * B[j, l] } },
        4 => kernel! { fn nn_t(A: [T; m, k], B: [T; k, n]) -> C: [T; n, m] { C[j, i] += two * A[i, l] * B[l, j] } },
        5 => kernel! {
            fn batched(A: [T; b, m, k], B: [T; b, k, n]) -> C: [T; b, m, n] { C[h, i, j] += A[h, i, l] * B[h, l, j] }
        },
        6 => kernel! {
            fn batched_inside(A: [T; m, b, k], B: [T; k, n, b]) -> C: [T; m, n, b] {
                C[i, j, h] += A[i, h, l] * B[l, j, h]
            }
        },
        7 => kernel! { fn matvec(A: [T; m, k], x: [T; k]) -> z: [T; m] { z[i] += A[i, l] * x[l] } },
        8 => kernel! { fn outer(u: [T; m], v: [T; n]) -> C: [T; m, n] { C[i, j] = u[i] * v[j] } },
        9 => kernel! {
            fn axpy(A: [T; m, n], B: [T; n, m], d: [T; n]) -> C: [T; m, n] {
                C[i, j] = two * A[i, j] - (B[j, i] + three) * d[j]
            }
        },
        10 => kernel! {
            fn mttkrp(X: [T; m, k, b], B: [T; k, n], D: [T; b, n]) -> C: [T; m, n] {
                C[i, r] += X[i, j, l] * B[j, r] * D[l, r]
            }
        },
        11 => kernel! { fn ttv(X: [T; m, n, k], v: [T; k]) -> C: [T; m, n] { C[i, j] += X[i, j, l] * v[l] } },
        12 => kernel! {
            fn ttm(X: [T; m, n, k], U: [T; b, k]) -> C: [T; m, n, b] { C[i, j, r] += X[i, j, l] * U[r, l] }
        },
        13 => {
            let (m, k) = (m.max(1), k.max(1));
            kernel! {
                fn conv(A: [T; m + k - 1], W: [T; k, n]) -> C: [T; m, n] { C[i, f] += A[i + r] * W[r, f] }
            }
        }
        14 => {
            let (m, k) = (m.max(1), k.max(1));
            kernel! { fn strided(A: [T; 2 * m + k], W: [T; k]) -> C: [T; m] { C[i] += A[2*i + r] * W[r] } }
        }
        15 => kernel! {
            fn stencil(A: [T; m + 2, n]) -> C: [T; m, n] { C[i, j] = A[i, j] - two * A[i + 1, j] + A[i + 2, j] }
        },
        16 => kernel! { fn toeplitz(A: [T; m + 12]) -> C: [T; m, n] { C[i, j] = A[i - j + 12] } },
        17 => kernel! { fn diagonal(A: [T; m, m], v: [T; m]) -> C: [T; m] { C[i] = A[i, i] * v[i] } },
        18 => kernel! { fn greatest(A: [T; m, k]) -> C: [T; m] { C[i] max= A[i, l] } },
        19 => kernel! { fn least(A: [T; k, m], v: [T; k]) -> C: [T; m] { C[i] min= A[l, i] - v[l] } },
        20 => kernel! { fn product(A: [T; m, k]) -> C: [T; m] { C[i] *= A[i, l] } },
        21 => kernel! { fn every_other(A: [T; m]) -> C: [T; 2 * m + 1] { C[2*i + 1] = A[i] } },
        22 => kernel! { fn spread(A: [T; m]) -> C: [T; n, m] { C[q, i] = A[i] / two for q in 0..n } },
        23 => kernel! {
            fn blur(A: [T; m + 2, n]) -> C: [T; m + 2, n] {
                C[i, j] = A[i - 1, j] + two * A[i, j] - A[i + 1, j] for i in 1..m + 1
            }
        },
        24 => kernel! { fn window(A: [T; m + 1]) -> C: [T; m] { C[i] = A[i] - two * A[i + 1] for i in 0..m } },
        25 => {
            let (m, k) = (m.max(1) as i64, k.max(1) as i64);
            kernel! {
                fn centred(A: [T; m + k], W: [T; k, n]) -> C: [T; m, n] {
                    C[i + 1, j] += A[i + r + 3] * W[r + 2, j] for i in -1..m - 1 for r in -2..k - 2
                }
            }
        }
        26 => kernel! { fn inside(A: [T; m + 4, m + 4]) -> C: [T; m] { C[i - 3] = A[i, 2*i - i] for i in 3..m + 3 } },
        27 => kernel! {
            fn clipped(A: [T; m, n], v: [T; n]) -> C: [T; m, n] { C[i, j] = min(max(A[i, j], 0 - two), abs(v[j])) }
        },
        28 => kernel! {
            fn chosen(A: [T; m, n], v: [T; m]) -> C: [T; n, m] {
                C[j, i] = if A[i, j] < v[i] { three } else if A[i, j] == v[i] { A[i, j] } else { -v[i] } - two
            }
        },
        29 => kernel! {
            fn divided(A: [T; m, n], B: [T; n, m]) -> C: [T; m, n] {
                C[i, j] = if B[j, i] != 0 { A[i, j] / B[j, i] } else { two }
            }
        },
        30 => kernel! { fn farthest(A: [T; m, k]) -> C: [T; m] { C[i] max= abs(A[i, l]) * min(A[i, l], two) } },
        31 => kernel! {
            fn ring(A: [T; m]) -> C: [T; m] { C[i] = A[(i + m - 1) % m] - two * A[i] + A[(i + 1) % m] }
        },
        32 => kernel! {
            fn torus(A: [T; m, n], v: [T; n]) -> C: [T; m, n] {
                C[i, j] = A[(i + 1) % m, (j - 2) % n] + A[i, j] * v[(i + j) % n]
            }
        },
        33 => kernel! {
            fn circulant(c: [T; k], V: [T; k, n]) -> C: [T; k, n] { C[i, f] += c[(i - l) % k] * V[l, f] }
        },
        34 => {
            let period = 1 + choices.below(m + 3);
            kernel! {
                fn table(A: [T; m + 3], B: [T; n, k]) -> C: [T; n, k] { C[i, j] = B[i, j] - A[(3*i - 2*j + 5) % period] }
            }
        }
        35 => {
            let (m, k) = (m.max(1), k.max(1));
            kernel! { fn scatter(A: [T; m, n], W: [T; k]) -> C: [T; m + k - 1, n] { C[i + r, j] += A[i, j] * W[r] } }
        }
        36 => {
            let (m, k) = (m.max(1), k.max(1));
            kernel! { fn spread(A: [T; m], W: [T; k]) -> C: [T; 2 * m + 3 * k] { C[2*i + 3*r + 1] max= A[i] - W[r] } }
        }
        37 => kernel! { fn syrk(A: [T; m, k]) -> C: [T; m, m] { C[i, j] += A[i, l] * A[j, l] } },
        38 => kernel! { fn symmetrized(A: [T; m, m], v: [T; m]) -> C: [T; m] { C[i] += (A[i, j] + A[j, i]) * v[j] } },
        39 => kernel! { fn antisymmetric(A: [T; m, m]) -> C: [T; m, m] { C[i, j] = A[i, j] - two * A[j, i] } },
        40 => kernel! {
            fn corners(A: [T; 2 * m + 2, n]) -> C: [T; m, n] { C[i, j] = A[i, j] - A[2*i, j] + A[i + 1, j] * A[2*i + 1, 0] }
        },
        41 => kernel! {
            fn interior(A: [T; m + 2, n + 2]) -> C: [T; m + 2, n + 2] {
                C[i, j] = A[i - 1, j] + A[i + 1, j] - two * A[i, j - 1] + A[i, j + 1]
                for i in 1..m + 1 for j in 1..n + 1
            }
        },
        42 => kernel! {
            fn part(A: [T; m + n + 3]) -> C: [T; m + n + 5] { C[i + 2] = A[i + 2] - two * A[i] for i in 0..m + 1 }
        },
        43 => kernel! {
            fn some_rows(A: [T; m + 4, k], B: [T; k, n]) -> C: [T; m + 4, n] {
                C[i, j] += A[i, l] * B[l, j] for i in 2..m + 2
            }
        },
        44 => kernel! {
            fn zeros_around(A: [T; m]) -> C: [T; m] { C[i] = A[i - 1] else 0 - two * A[i] + A[i + 1] else 0 }
        },
        45 => kernel! {
            fn walls(A: [T; m, n]) -> C: [T; m, n] {
                C[i, j] = A[i - 1, j] else two + A[i + 1, j] else two - A[i, j - 1] else 0 - A[i, j + 1] else -three + A[i, j]
            }
        },
        46 => kernel! {
            fn same(A: [T; m, n], W: [T; k]) -> C: [T; m, n] { C[i, j] += A[i + r - 1, j] else 0 * W[r] }
        },
        47 => kernel! {
            fn aslant(A: [T; m, k], B: [T; n, k]) -> C: [T; n, k] { C[i, j] = A[2*i - j + 1, j] else two + B[i, j] }
        },
        48 => kernel! {
            fn channel(A: [T; m, n]) -> C: [T; m, n] { C[i, j] = A[(i + 1) % m, j - 1] else 1 - A[(i - 1) % m, j] }
        },
        49 => kernel! {
            fn pooled(A: [T; m], B: [T; n]) -> C: [T; n] { C[i] max= A[2*i + r - 1] else -three + B[i] for r in 0..3 }
        },
        50 => kernel! {
            fn far(A: [T; m, m]) -> C: [T; m, m] { C[i, j] = A[j - 1, i + 2] else 0 + A[i + 7, j] else three - A[i, j] }
        },
        _ => kernel! { fn inner(u: [T; k], v: [T; k]) -> s: [T;] { s[] += u[l] * v[l] } },
    }
}

fn number<T: Element>(value: i64) -> T {
    num_traits::NumCast::from(value).expect("a small integer is of every type")
}
