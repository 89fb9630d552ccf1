//! Programs with long blocks and partial sums: long enough for processes to map them, and for ranks to sum them piece
//! by piece.

use polyshard::prelude::*;

/// The programs on a mesh of `ranks` ranks in a row, each with its name.
#[must_use]
pub fn large<T: Element>(ranks: usize) -> Vec<(&'static str, Schedule)> {
    vars!(i, j, k, io, ii, ko, ki);
    let mesh = Mesh::new([("x", ranks)]);
    let [x] = mesh.axes();
    let rows = |schedule: Schedule| schedule.distribute([i], [io], [ii], &mesh).shard("C", [i.at(x)]);
    let torus = kernel! {
        fn torus(A: [T; 399, 401]) -> C: [T; 399, 401] { C[i, j] = A[(i - 1) % 399, j] + A[(i + 1) % 399, j] }
    };
    let walls = kernel! {
        fn walls(A: [T; 399, 401]) -> C: [T; 399, 401] { C[i, j] = A[i - 1, j] else 2 + A[i + 1, j] else 3 - A[i, j + 1] else 1 }
    };
    let transpose = kernel! { fn transpose(A: [T; 401, 399]) -> C: [T; 399, 401] { C[i, j] = A[j, i] } };
    let copy = kernel! { fn copy(A: [T; 399, 401]) -> C: [T; 399, 401] { C[i, j] = A[i, j] } };
    let sum = kernel! { fn sum(A: [T; 9, 203, 201]) -> C: [T; 203, 201] { C[i, j] += A[k, i, j] } };
    let terms = sum.distribute([k], [ko], [ki], &mesh).shard("A", [k.at(x)]);
    vec![
        ("a torus", rows(torus).shard("A", [dim(0).at(x)])),
        ("values outside", rows(walls).shard("A", [dim(0).at(x)])),
        ("a transpose", rows(transpose).shard("A", [j.at(x)])),
        ("a copy of what one rank has", rows(copy).shard("A", [pin(x, ranks / 2)])),
        ("sums to one rank", terms.clone().shard("C", [pin(x, ranks / 2)])),
        ("sums to all ranks", terms.clone()),
        ("sums to each its rows", terms.clone().shard("C", [i.at(x)])),
        ("sums to each its columns", terms.shard("C", [j.at(x)])),
    ]
}
