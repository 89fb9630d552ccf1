//! The algorithms with partial sums across ranks, as schedules for any mesh and any extents.

use polyshard::prelude::*;
use polyshard_testing::bench::products::{Algorithm, Grid, Sizes, product, schedule};

/// The product on a grid in m, n and k: A gathered along n's axis, B along m's, C reduce-scattered along k's.
pub(crate) fn grid<T: Element>([p, q, r]: [usize; 3], sizes: Sizes) -> Schedule {
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let mesh = Mesh::new([("x", p), ("y", q), ("z", r)]);
    let [x, y, z] = mesh.axes();
    product::<T>(sizes)
        .distribute([m, n, k], [mo, no, ko], [mi, ni, ki], &mesh)
        .shard("A", [m.at([x, y]), k.at(z)])
        .shard("B", [k.at(z), n.at([y, x])])
        .shard("C", [m.at([x, z]), n.at(y)])
        .tensorize([mi, ni, ki])
}

/// Solomonik and Demmel's algorithm: `c` layers share the steps of Cannon's algorithm on `q` x `q` ranks.
fn layers<T: Element>([q, _, c]: [usize; 3], sizes: Sizes) -> Schedule {
    vars!(m, n, k, mo, mi, no, ni, kb, kz, kt, ki);
    let mesh = Mesh::new([("x", q), ("y", q), ("z", c)]);
    let [x, y, z] = mesh.axes();
    product::<T>(sizes)
        .distribute([m, n], [mo, no], [mi, ni], &Mesh::new([("x", q), ("y", q)]))
        .divide(k, kb, ki, q.max(c))
        .rotate(kb, [mo, no])
        .distribute([kb], [kz], [kt], &Mesh::new([("z", c)]))
        .reorder([mo, no, kz, kt, mi, ni, ki])
        .shard("A", [m.at(x), k.at(y), pin(z, 0)])
        .shard("B", [k.at(x), n.at(y), pin(z, 0)])
        .shard("C", [m.at(x), n.at(y), pin(z, 0)])
        .communicate("A", kt)
        .communicate("B", kt)
        .tensorize([mi, ni, ki])
}

/// MTTKRP on a grid for the columns and the three indices of the tensor; only parts of factors move along it if the
/// first axis is one rank.
pub(crate) fn mttkrp<T: Element>([p0, p1, p2, p3]: [usize; 4], [n1, n2, n3, rank]: [usize; 4]) -> Schedule {
    let kernel = kernel! {
        fn mttkrp(X: [T; n1, n2, n3], C: [T; n2, rank], D: [T; n3, rank]) -> B: [T; n1, rank] {
            B[i, r] += X[i, j, k] * C[j, r] * D[k, r]
        }
    };
    vars!(i, j, k, r, io, jo, ko, ro, ii, ji, ki, ri);
    let mesh = Mesh::new([("p", p0), ("x", p1), ("y", p2), ("z", p3)]);
    let [p, x, y, z] = mesh.axes();
    kernel
        .distribute([r, i, j, k], [ro, io, jo, ko], [ri, ii, ji, ki], &mesh)
        .shard("X", [i.at([x, p]), j.at(y), k.at(z)])
        .shard("C", [j.at([y, x, z]), r.at(p)])
        .shard("D", [k.at([z, x, y]), r.at(p)])
        .shard("B", [i.at([x, y, z]), r.at(p)])
        .tensorize([ii, ri, ji, ki])
}

/// One tensor-matrix product of a chain, along the first index of the tensor.
fn ttm<T: Element>([p, q, r]: [usize; 3], n: usize, rank: usize) -> Schedule {
    let kernel = kernel! {
        fn ttm(X: [T; n, n, n], A: [T; n, rank]) -> U: [T; rank, n, n] { U[a, j, k] += X[i, j, k] * A[i, a] }
    };
    vars!(i, j, k, a, io, jo, ko, ii, ji, ki);
    let mesh = Mesh::new([("x", p), ("y", q), ("z", r)]);
    let [x, y, z] = mesh.axes();
    kernel
        .distribute([i, j, k], [io, jo, ko], [ii, ji, ki], &mesh)
        .shard("X", [i.at(x), j.at(y), k.at(z)])
        .shard("A", [i.at([x, y, z])])
        .shard("U", [a.at(x), j.at(y), k.at(z)])
        .tensorize([a, ji, ki, ii])
}

fn syrk<T: Element>([p, q]: [usize; 2], rows: usize, terms: usize) -> Schedule {
    let kernel = kernel! {
        fn syrk(A: [T; rows, terms]) -> C: [T; rows, rows] { C[i, j] += A[i, k] * A[j, k] }
    };
    vars!(i, j, k, io, ii, jo, ji, ko, ki);
    let mesh = Mesh::new([("x", p), ("y", q)]);
    let [x, y] = mesh.axes();
    kernel
        .distribute([i, j], [io, jo], [ii, ji], &mesh)
        .divide(k, ko, ki, q)
        .reorder([io, jo, ko, ii, ji, ki])
        .shard("A", [dim(0).at(x), dim(1).at(y)])
        .shard("C", [i.at(x), j.at(y)])
        .communicate("A", ko)
        .tensorize([ii, ji, ki])
}

fn inner<T: Element>([p, q]: [usize; 2], rows: usize, columns: usize) -> Schedule {
    let kernel = kernel! {
        fn inner(A: [T; rows, columns], B: [T; rows, columns]) -> s: [T;] { s[] += A[i, j] * B[i, j] }
    };
    vars!(i, j, io, ii, jo, ji);
    let mesh = Mesh::new([("x", p), ("y", q)]);
    let [x, y] = mesh.axes();
    kernel
        .distribute([i, j], [io, jo], [ii, ji], &mesh)
        .shard("A", [i.at(x), j.at(y)])
        .shard("B", [i.at(x), j.at(y)])
        .shard("s", [])
        .tensorize([ii, ji])
}

/// One step of a periodic 5-point stencil, on blocks of `block` x `block`.
pub(crate) fn heat<T: Element>([p, q]: [usize; 2], block: usize) -> Schedule {
    let (rows, columns) = (p * block, q * block);
    let kernel = kernel! {
        fn heat(A: [T; rows, columns]) -> B: [T; rows, columns] {
            B[i, j] = A[i, j] + A[(i - 1) % rows, j] + A[(i + 1) % rows, j] + A[i, (j - 1) % columns]
                + A[i, (j + 1) % columns]
        }
    };
    vars!(i, j, io, ii, jo, ji);
    let mesh = Mesh::new([("x", p), ("y", q)]);
    let [x, y] = mesh.axes();
    kernel
        .distribute([i, j], [io, jo], [ii, ji], &mesh)
        .shard("A", [dim(0).at(x), dim(1).at(y)])
        .shard("B", [i.at(x), j.at(y)])
}

/// Each algorithm on 64 ranks: its name, its mesh and its schedule, with sizes that are not divisible if `ragged`.
pub(crate) fn on_64_ranks(ragged: bool) -> Vec<(&'static str, &'static str, Schedule)> {
    let odd = usize::from(ragged);
    let (m, n, k) = (512 + 3 * odd, 1024 + 5 * odd, 2048 + 7 * odd);
    let sizes = Sizes { m, k, n };
    let of = |algorithm, extents: &[usize]| schedule::<f64>(algorithm, &Grid { extents: extents.to_vec() }, sizes);
    let cube = [4; 3];
    vec![
        ("summa", "8x8", of(Algorithm::Summa, &[8, 8])),
        ("pumma", "8x8", of(Algorithm::Pumma, &[8, 8])),
        ("cannon", "8x8", of(Algorithm::Cannon, &[8, 8])),
        ("ag_gemm", "64", of(Algorithm::AgGemm, &[64])),
        ("gemm_rs", "64", of(Algorithm::GemmRs, &[64])),
        ("gemm_rs_ring", "64", of(Algorithm::GemmRsRing, &[64])),
        ("johnson", "4x4x4", of(Algorithm::Johnson, &cube)),
        ("solomonik", "4x4x4", layers::<f64>(cube, sizes)),
        ("cosma", "4x4x4", grid::<f64>(cube, sizes)),
        ("mttkrp", "1x4x4x4", mttkrp::<f64>([1, 4, 4, 4], [m, m, m, 16 + odd])),
        ("ttm", "4x4x4", ttm::<f64>(cube, m, 16 + odd)),
        ("syrk", "8x8", syrk::<f64>([8, 8], m, k)),
        ("inner", "8x8", inner::<f64>([8, 8], m, n)),
        ("heat", "8x8", heat::<f64>([8, 8], 64 + odd)),
    ]
}
