//! Periodic indices: rings and tori, of any size on any mesh, against the sequential result; and the bytes received.

use polyshard::prelude::*;
use polyshard::program::{Leg, Owners};
use polyshard_testing::filled::{self, sequential};
use polyshard_testing::program::ByExchange;

/// A different value for every element of a tensor, small enough for sums to be exact.
fn value<T: Element>(tensor: usize, index: &[usize]) -> T {
    let sum: usize = index.iter().zip([7, 3]).map(|(i, factor)| i * factor).sum::<usize>() + 4 * tensor;
    num_traits::NumCast::from((sum % 23) as i64 - 9).expect("a small integer is of every type")
}

/// Runs the program as derived, and with every route replaced by an exchange; returns the bytes that each rank received
/// in the first run.
fn check<T: Element>(schedule: &Schedule) -> Vec<u64> {
    let program = schedule.lower().unwrap_or_else(|error| panic!("{error}\n{schedule}"));
    let expected = sequential::<T>(&program, false, value);
    let run = |program: &Program| {
        let (found, received) = filled::run::<T>(program, value);
        assert_eq!(found, expected, "{schedule}\n{program}");
        let most = program.report().traffic_bytes;
        assert!(received.iter().all(|&bytes| bytes <= most), "{received:?} bytes received, at most {most} foretold");
        received
    };
    let received = run(&program);
    run(&program.by_exchange());
    received
}

fn ring<T: Element>(n: usize) -> Schedule {
    kernel! { fn ring(A: [T; n]) -> B: [T; n] { B[i] = A[(i + n - 1) % n] - A[i] + A[(i + 1) % n] * A[(i - 2) % n] } }
}

fn divided(schedule: Schedule, mesh: &Mesh) -> Schedule {
    schedule.distribute(["i"], ["io"], ["ii"], mesh)
}

fn torus<T: Element>(m: usize, n: usize) -> Schedule {
    let four: T = num_traits::NumCast::from(4).expect("a small integer is of every type");
    kernel! {
        fn torus(A: [T; m, n]) -> B: [T; m, n] {
            B[i, j] = A[(i - 1) % m, j] + A[(i + 1) % m, j] + A[i, (j - 1) % n] + A[i, (j + 1) % n] - four * A[i, j]
        }
    }
}

const SIZES: [usize; 6] = [1, 2, 5, 7, 8, 12];

#[test]
fn a_ring_of_any_size_on_any_ranks_is_the_sequential_one() {
    for ranks in [1, 2, 3, 8] {
        let mesh = Mesh::new([("x", ranks)]);
        let [x] = mesh.axes();
        for n in SIZES {
            let start = divided(ring::<i64>(n), &mesh);
            let blocks = start.clone().shard("A", [dim(0).at(x)]).shard("B", [dim(0).at(x)]);
            check::<i64>(&blocks);
            check::<i64>(&start.shard("A", [dim(0).cyclic(x, 2)]).shard("B", [dim(0).cyclic(x, 1)]));
            let start = divided(ring::<f64>(n), &mesh);
            check::<f64>(&start.clone());
            check::<f64>(&start.shard("A", [pin(x, ranks - 1)]).shard("B", [dim(0).at(x)]));
        }
    }
}

#[test]
fn a_ring_in_panels_is_the_sequential_one() {
    for ranks in [1, 3, 4] {
        let mesh = Mesh::new([("x", ranks)]);
        let [x] = mesh.axes();
        for n in SIZES {
            let start = divided(ring::<i64>(n), &mesh).split("ii", "it", "ie", 2);
            let placed = start.shard("A", [dim(0).at(x)]).shard("B", [dim(0).at(x)]);
            check::<i64>(&placed.clone().communicate("A", "it").tensorize(["ie"]));
            check::<i64>(&placed.rotate("it", ["io"]).communicate("A", "it").communicate("B", "it"));
        }
    }
}

#[test]
fn a_torus_of_any_size_on_any_mesh_is_the_sequential_one() {
    for [rows, columns] in [[1, 1], [1, 2], [2, 1], [3, 2]] {
        let mesh = Mesh::new([("x", rows), ("y", columns)]);
        let [x, y] = mesh.axes();
        for [m, n] in [[7, 5], [1, 1], [2, 9], [6, 4]] {
            let start = torus::<f64>(m, n).distribute(["i", "j"], ["io", "jo"], ["ii", "ji"], &mesh);
            let blocks = [dim(0).at(x), dim(1).at(y)];
            check::<f64>(&start.clone().shard("A", blocks.clone()).shard("B", blocks));
            let start = torus::<i64>(m, n).distribute(["i", "j"], ["io", "jo"], ["ii", "ji"], &mesh);
            check::<i64>(&start.clone().shard("A", [dim(1).cyclic(x, 1), dim(0).cyclic(y, 2)]));
            check::<i64>(&start);
        }
    }
}

/// A circulant matrix: each row reads all of `c`, starting at a different element.
#[test]
fn what_all_ranks_read_is_gathered_once() {
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    for n in [1_usize, 5, 7] {
        let circulant = kernel! {
            fn circulant(c: [i64; n], V: [i64; n, 4]) -> B: [i64; n, 4] { B[i, f] += c[(i - j) % n] * V[j, f] }
        };
        let schedule = circulant
            .distribute(["f"], ["fo"], ["fi"], &mesh)
            .shard("c", [dim(0).at(x)])
            .shard("V", [dim(1).at(x)])
            .shard("B", [dim(1).at(x)]);
        let received = check::<i64>(&schedule);
        let block = n.div_ceil(3);
        let own = |rank: usize| block.min(n.saturating_sub(rank * block));
        let missing: Vec<u64> = (0..3).map(|rank| 8 * (n - own(rank)) as u64).collect();
        assert_eq!(received, missing);
    }
    let schedule = kernel! {
        fn circulant(c: [i64; 6], V: [i64; 6, 4]) -> B: [i64; 6, 4] { B[i, f] += c[(i - j) % 6] * V[j, f] }
    };
    let schedule = schedule.distribute(["f"], ["fo"], ["fi"], &mesh).shard("c", [dim(0).at(x)]);
    let program = schedule.lower().expect("a legal schedule");
    assert_eq!(program.nest().transfers[0].route, Leg::collective(vec![0], Owners::Parts).into());
}

/// Tables shorter than the loop, strides, and indices that wrap around several times.
#[test]
fn an_index_may_go_round_many_times() {
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    for (n, period) in [(7, 7), (16, 5), (16, 1), (5, 4)] {
        let table = kernel! {
            fn table(T: [i64; 7], A: [i64; n]) -> B: [i64; n] { B[i] = T[(3*i - 40) % period] * A[i] + T[(5 - i) % period] }
        };
        let placed = divided(table, &mesh).shard("A", [dim(0).at(x)]).shard("B", [dim(0).at(x)]);
        check::<i64>(&placed.clone().shard("T", [dim(0).at(x)]));
        check::<i64>(&placed.clone().shard("T", [dim(0).cyclic(x, 1)]));
        let received = check::<i64>(&placed);
        assert_eq!(received, [0, 0, 0], "a table that all ranks have");
    }
}

#[test]
fn ranks_receive_what_they_read_and_nothing_else() {
    let mesh = Mesh::new([("x", 4)]);
    let [x] = mesh.axes();
    let n = 4000;
    let ring = kernel! { fn ring(A: [f64; n]) -> B: [f64; n] { B[i] = A[(i + n - 1) % n] + A[(i + 1) % n] } };
    let placed = divided(ring, &mesh).shard("A", [dim(0).at(x)]).shard("B", [dim(0).at(x)]);
    assert_eq!(check::<f64>(&placed), [16; 4], "one element from either side");
    let (m, n) = (30, 20);
    let nine = kernel! {
        fn nine(A: [f64; m, n]) -> B: [f64; m, n] {
            B[i, j] = A[(i - 1) % m, (j - 1) % n] + A[(i + 1) % m, (j - 1) % n] + A[(i - 1) % m, (j + 1) % n]
                + A[(i + 1) % m, (j + 1) % n] - A[i, j]
        }
    };
    let cold = kernel! {
        fn cold(A: [f64; m, n]) -> B: [f64; m, n] {
            B[i, j] = (A[i - 1, j] else 0.0) + (A[i + 1, j] else 0.0) + (A[i, j - 1] else 0.0) + (A[i, j + 2] else 0.0)
        }
    };
    for (rows, columns) in [(2, 2), (3, 2)] {
        let mesh = Mesh::new([("x", rows), ("y", columns)]);
        let [x, y] = mesh.axes();
        let received = |schedule: &Schedule| {
            let blocks = [dim(0).at(x), dim(1).at(y)];
            let tiled = schedule.clone().distribute(["i", "j"], ["io", "jo"], ["ii", "ji"], &mesh);
            check::<f64>(&tiled.shard("A", blocks.clone()).shard("B", blocks))
        };
        let (height, width) = (m / rows, n / columns);
        let rim = 2 * (height + width) as u64;
        assert_eq!(received(&torus::<f64>(m, n)), vec![8 * rim; rows * columns], "the rim of a tile");
        assert_eq!(received(&nine), vec![8 * (rim + 4); rows * columns], "with its corners");
        // Nothing is read beyond the edges; two columns are read from the ranks to the right.
        let edges = (0..rows * columns).map(|rank| {
            let (row, column) = (rank / columns, rank % columns);
            let above_and_below = width * (usize::from(row > 0) + usize::from(row + 1 < rows));
            let beside = height * (usize::from(column > 0) + 2 * usize::from(column + 1 < columns));
            8 * (above_and_below + beside) as u64
        });
        assert_eq!(received(&cold), edges.collect::<Vec<_>>());
    }
}

#[test]
fn a_tensor_of_no_elements_has_nothing_to_wrap() {
    let mesh = Mesh::new([("x", 2)]);
    check::<i64>(&divided(ring::<i64>(0), &mesh));
    check::<f64>(&torus::<f64>(0, 3).distribute(["i"], ["io"], ["ii"], &mesh));
}

#[test]
fn mistakes_in_captured_moduli_are_refused_by_lower() {
    let refused = |period: i64| {
        let schedule = kernel! { fn ring(A: [f64; 8]) -> B: [f64; 8] { B[i] = A[(i + 1) % period] + A[i] } };
        schedule.lower().expect_err("the modulus is wrong").to_string()
    };
    assert!(refused(9).contains("wraps at 9, but dimension 0 of `A` has extent 8"), "{}", refused(9));
    assert!(refused(0).contains("a modulus is between 1 and the extent"), "{}", refused(0));
    assert!(refused(-8).contains("wraps at -8"), "{}", refused(-8));
    assert!(refused(4).contains("do not wrap at the same place; pass the array twice"), "{}", refused(4));
}
