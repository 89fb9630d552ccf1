//! Programs run under placements, unchanged.

use ndarray::Array2;
use polyshard::planner::placement::{PlacedMesh, matrices, place};
use polyshard::planner::reduce::{Strategy, all_reduce};
use polyshard::prelude::*;

const SIZE: [usize; 3] = [7, 11, 5];

/// The product of two matrices on a mesh, by SUMMA.
fn summa(mesh: &Mesh) -> Program {
    let [rows, inner, columns] = SIZE;
    let matmul = kernel! {
        fn matmul(A: [i64; rows, inner], B: [i64; inner, columns]) -> C: [i64; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let [x, y] = mesh.axes();
    let schedule = matmul
        .distribute([m, n], [mo, no], [mi, ni], mesh)
        .divide(k, ko, ki, 3)
        .reorder([mo, no, ko, mi, ni, ki])
        .shard("A", [m.at(x), k.at(y)])
        .shard("B", [k.at(x), n.at(y)])
        .shard("C", [m.at(x), n.at(y)])
        .communicate("A", ko)
        .communicate("B", ko)
        .tensorize([mi, ni, ki]);
    schedule.lower().expect("the schedule is legal")
}

#[test]
fn a_product_is_the_sequential_one_under_every_placement() {
    let [rows, inner, columns] = SIZE;
    let element = |index: &[usize]| (17 * index[0] * index[0] + 5 * index[1]) as i64 - 100;
    let matrix = |m: usize, n: usize| Array2::from_shape_fn((m, n), |(i, j)| element(&[i, j]));
    let expected = matrix(rows, inner).dot(&matrix(inner, columns)).into_dyn();
    let mut placements = 0;
    for (counts, extents) in [([2, 2], [2, 2]), ([2, 3], [2, 3]), ([3, 2], [2, 3]), ([1, 6], [3, 2])] {
        let mesh = Mesh::new([("x", extents[0]), ("y", extents[1])]);
        let program = summa(&mesh);
        let machine = Machine::preset("a100").and_then(|machine| machine.with_counts(&counts)).expect("a machine");
        for matrix in matrices(&counts, &extents).expect("as many ranks as devices") {
            let placed = PlacedMesh::new(&mesh, &machine, &matrix).expect("the matrix is for both");
            let results = polyshard::spmd(mesh.size(), |world| {
                let world = place(world, &placed)?;
                let a = DistArray::from_fn(&world, program.sharding("A"), element)?;
                let b = DistArray::from_fn(&world, program.sharding("B"), element)?;
                let c = program.run(&world, &[&a, &b])?;
                // The minimum of all ranks' first elements, in the same world.
                let mut least = [c.block().iter().copied().min().unwrap_or(i64::MAX)];
                all_reduce(&world, &placed, &["x", "y"], &mut least, ReduceOp::Min, Strategy::Best)?;
                Ok((c.gather(&world)?, least[0]))
            });
            let results = results.unwrap_or_else(|error| panic!("{placed}: {error}"));
            assert_eq!(results[0].0.as_ref(), Some(&expected), "{placed}");
            let least = expected.iter().copied().min();
            assert!(results.iter().all(|result| Some(result.1) == least), "{placed}");
            placements += 1;
        }
    }
    assert_eq!(placements, 5);
}
