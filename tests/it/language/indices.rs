//! Indices: starts of ranges, reads outside an array, and indices as values.

use super::{bits, executed, inputs, sequential, small};
use polyshard::prelude::*;
use polyshard::schedule::Trace;

kernel! {
    /// Starts at 1, so that both neighbours exist.
    fn blur(A: [f64; 18]) -> B: [f64; 18] { B[i] = A[i - 1] + 2 * A[i] + A[i + 1] for i in 1..17 }
    mesh(x: 3)
    .distribute([i], [io], [ii])
    .shard(A, i @ x)
    .shard(B, i @ x)
    .tensorize([ii])
}

kernel! {
    fn forward(A: [i64; 18]) -> B: [i64; 16] { for i in 0..16 B[i] = A[i] + A[i + 1] + A[i + 2] }
    mesh(x: 4)
    .distribute([i], [io], [ii])
    .split(ii, s, t, 3)
    .shard(A, i @ x)
    .shard(B, i @ x)
    .communicate(A, s)
}

kernel! {
    fn five_points(A: [f32; 9, 12]) -> B: [f32; 9, 12] {
        B[i, j] = A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1] - 4 * A[i, j]
        for i in 1..9 - 1 for j in 1..11
    }
    mesh(x: 2, y: 2)
    .distribute([i, j], [io, jo], [ii, ji])
    .shard(A, i @ x, j @ y)
    .shard(B, i @ y, j @ x)
    .communicate(A, jo)
}

kernel! {
    fn from_below(A: [i32; 7], W: [i32; 3]) -> C: [i32; 5] {
        C[i + 3] += A[i + r + 4] * W[r + 1] for i in -3..2 for r in -1..2
    }
    mesh(x: 2)
    .distribute([i], [io], [ii])
    .shard(A)
    .shard(C, i @ x)
}

kernel! {
    fn numbered(A: [f64; 18]) -> B: [f64; 18] { B[i] = A[i - 1] * i + if i > 8 { i / 3 } else { -i } for i in 1..17 }
    mesh(x: 3)
    .distribute([i], [io], [ii])
    .shard(A, i @ x)
    .shard(B, i @ x)
}

kernel! {
    fn weighted(A: [f32; 40, 700]) -> C: [f32; 40] { C[i] += A[i, j] * (j - 2 * i) }
    mesh(x: 2, y: 2)
    .distribute([i, j], [io, jo], [ii, ji])
    .shard(A, i @ x, j @ y)
    .shard(C, i @ x)
}

kernel! {
    /// Reads nothing but the indices.
    fn table() -> C: [i32; 9, 40] { C[i, j] = 40 * i + j - k for k in -3..2 }
    mesh(x: 2)
    .distribute([j], [jo], [ji])
    .shard(C, j @ cyclic(x, 3))
}

kernel! {
    /// Walls with different values; each row of the last dimension is longer than a block of a leaf.
    fn walls(A: [f32; 9, 1300]) -> B: [f32; 9, 1300] {
        B[i, j] = A[i - 1, j] else v0 + A[i + 1, j] else -v0 - A[i, j - 1] else 0 * 2 + A[i, j + 2] else 2.5
    }
    mesh(x: 2, y: 2)
    .distribute([i, j], [io, jo], [ii, ji])
    .shard(A, i @ x, j @ y)
    .shard(B, i @ x, j @ y)
    .expect(A, halo(x: -1..=1, y: -1..=1))
    .expect(B, local)
}

kernel! {
    /// A filter that reads as many elements outside as inside.
    fn filtered(A: [i64; 20, 3], W: [i64; 5]) -> C: [i64; 20, 3] { C[i, j] += A[i + r - 2, j] else 7 * W[r] }
    mesh(x: 3)
    .distribute([i], [io], [ii])
    .shard(A, dim(0) @ x)
    .shard(C, i @ x)
    .tensorize([ii, j, r])
}

kernel! {
    /// On one rank, where the leaf reads the array in place; steps of two, and backwards.
    fn aslant(A: [i32; 6, 7]) -> C: [i32; 4, 9] { C[i, j] = A[2*i - 1, 7 - j] else 3 - A[j - 2, i] else 0 }
    mesh(x: 1)
    .distribute([i], [io], [ii])
    .tensorize([ii, j])
}

#[test]
fn a_stencil_starts_where_its_range_does() {
    check!(blur(), f64, small, |world, a| blur::run(world, &a[0]));
    check!(five_points(), f32, small, |world, a| five_points::run(world, &a[0]));
    check!(from_below(), i32, small, |world, a| from_below::run(world, &a[0], &a[1]));
}

#[test]
fn a_stated_range_holds_where_extents_differ() {
    check!(forward(), i64, small, |world, a| forward::run(world, &a[0]));
    let program = blur::schedule().lower().expect("a legal schedule");
    let found = sequential::<f64>(&program, small);
    assert_eq!((found[[0]], found[[17]]), (0.0, 0.0), "the range leaves out both ends");
    assert_eq!(found[[1]], small::<f64>(0, 0) + 2.0 * small::<f64>(0, 1) + small::<f64>(0, 2));
}

#[test]
fn what_is_outside_of_an_array_has_the_value_that_is_said() {
    check!(walls(0.5), f32, small, |world, a| walls::run(world, &a[0], 0.5));
    check!(filtered(), i64, small, |world, a| filtered::run(world, &a[0], &a[1]));
    check!(aslant(), i32, small, |world, a| aslant::run(world, &a[0]));
    let program = filtered::schedule().lower().expect("a legal schedule");
    let found = sequential::<i64>(&program, small);
    let [a, w] = [0, 1].map(|tensor| move |i: usize| small::<i64>(tensor, i));
    let first = 7 * (w(0) + w(1)) + a(0) * w(2) + a(3) * w(3) + a(6) * w(4);
    assert_eq!(found[[0, 0]], first);
}

/// With all reads outside the array, and with nothing to read.
#[test]
fn an_array_may_be_missed_altogether() {
    for n in [0usize, 1, 2, 5] {
        let kernel = kernel! {
            fn missed(A: [f64; n], D: [f64; 7]) -> B: [f64; 7] { B[i] = A[i + 4] else 1 + A[i - 9] else 2 * D[i] }
        };
        let mesh = Mesh::new([("x", 3)]);
        let [x] = mesh.axes();
        let schedule = kernel
            .distribute(["i"], ["io"], ["ii"], &mesh)
            .shard("A", [dim(0).at(x)])
            .shard("B", [dim(0).at(x)])
            .communicate("A", "ii");
        let program = schedule.lower().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(executed::<f64>(&program, small), sequential::<f64>(&program, small), "n = {n}");
    }
}

/// Scalars are set when a program runs, also for values outside an array.
#[test]
fn a_value_outside_may_be_a_scalar_of_the_run() {
    let wall = 0.0;
    let kernel = kernel! { fn shifted(A: [f64; 9]) -> B: [f64; 9] { B[i] = A[i - 1] else -wall } };
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    let schedule =
        kernel.distribute(["i"], ["io"], ["ii"], &mesh).shard("A", [dim(0).at(x)]).shard("B", [dim(0).at(x)]);
    let program = schedule.lower().expect("a legal schedule");
    let shards = polyshard::spmd(2, |world| {
        let arrays = inputs::<f64>(world, &program, small)?;
        Ok(program.run_with(world, &[&arrays[0]], &[("wall", 4.5)])?.gather(world)?)
    });
    let found = shards.expect("the program runs").into_iter().flatten().next().expect("rank 0 gathers");
    assert_eq!((found[[0]], found[[1]]), (-4.5, small(0, 0)));
}

#[test]
fn ranges_of_the_running_program_are_any_expressions() {
    for n in [2usize, 3, 9] {
        let kernel = kernel! {
            fn inner(A: [f64; n]) -> B: [f64; n] { B[i] = A[i - 1] + A[i + 1] for i in 1..n - 1 }
        };
        let mesh = Mesh::new([("x", 2)]);
        let schedule = kernel.distribute(["i"], ["io"], ["ii"], &mesh).shard("A", [dim(0).at(mesh.axes::<1>()[0])]);
        let program = schedule.lower().expect("a legal schedule");
        assert_eq!(executed::<f64>(&program, small), sequential::<f64>(&program, small), "n = {n}");
    }
}

#[test]
fn an_index_is_a_number() {
    check!(numbered(), f64, small, |world, a| numbered::run(world, &a[0]));
    check!(weighted(), f32, small, |world, a| weighted::run(world, &a[0]));
    check!(table(), i32, small, |world, _a| table::run(world));
    let program = table::schedule().lower().expect("a legal schedule");
    let found = sequential::<i32>(&program, small);
    assert_eq!(found[[2, 7]], 5 * 87 + 3 + 2 + 1 - 1);
}

#[test]
fn an_index_is_the_same_number_in_every_schedule() {
    vars!(i, j, io, ii, jo, ji, jt, jj);
    let kernel = kernel! {
        fn positions(A: [i64; 13, 17]) -> C: [i64; 13] {
            C[i] += A[i, j] * (100 * i + j) + if j > i { j } else { -i } for j in 2..15
        }
    };
    let (line, grid) = (Mesh::new([("x", 4)]), Mesh::new([("x", 2), ("y", 3)]));
    let [x] = line.axes();
    let [_, y] = grid.axes();
    let rows = kernel.clone().distribute([i], [io], [ii], &line);
    let turned = rows.clone().divide(j, jo, ji, 4).reorder([io, jo, ii, ji]).rotate(jo, [io]);
    let schedules = [
        kernel.clone(),
        kernel.clone().split(j, jo, ji, 5).reorder([jo, i, ji]),
        rows.shard("A", [dim(0).cyclic(x, 2)]).shard("C", [dim(0).cyclic(x, 1)]),
        turned.shard("A", [dim(1).at(x)]).communicate("A", jo),
        kernel
            .clone()
            .distribute([i, j], [io, jo], [ii, ji], &grid)
            .split(ji, jt, jj, 2)
            .shard("A", [dim(1).cyclic(y, 2)]),
        kernel.distribute([j], [jo], [ji], &line).shard("C", [pin(x, 2)]).tensorize([i, ji]),
    ];
    for schedule in schedules {
        let program = schedule.lower().expect("a legal schedule");
        assert_eq!(executed::<i64>(&program, small), sequential::<i64>(&program, small), "{program}");
    }
}

#[test]
fn an_empty_index_makes_no_access() {
    for (m, k) in [(4, 0), (0, 3), (0, 0), (4, 1)] {
        let far = if k == 0 || m == 0 { 100 } else { 0 };
        let schedule = if far == 100 {
            kernel! { fn far(A: [i64; m + 2], W: [i64; k]) -> C: [i64; m] { C[i] += A[i + 100] * W[r] } }
        } else {
            kernel! { fn near(A: [i64; m + 2], W: [i64; k]) -> C: [i64; m] { C[i] += A[i + 2] * W[r] } }
        };
        let mesh = Mesh::new([("x", 3)]);
        let [x] = mesh.axes();
        let schedule = schedule.distribute(["i"], ["io"], ["ii"], &mesh);
        let sharded = schedule.clone().shard("A", [dim(0).at(x)]).shard("W", [dim(0).at(x)]).communicate("A", "ii");
        let expected = sharded.clone().expect("W", Pattern::Permute);
        assert_eq!(expected.lower().is_ok(), k == 0 || m == 0, "there is no transfer to have a pattern");
        for schedule in [schedule, sharded.shard("C", [dim(0).at(x)])] {
            let program = schedule.lower().unwrap_or_else(|error| panic!("{m}, {k}: {error}"));
            assert_eq!(executed::<i64>(&program, small), sequential::<i64>(&program, small));
        }
    }
}
