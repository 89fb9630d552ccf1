//! Schedules written by hand: those that once gave wrong results, or that random ones seldom include.

use super::{check, distributed};
use polyshard::prelude::*;
use polyshard::program::{Leg, Statement};
use polyshard::schedule::Clause;
use polyshard_testing::laws::program::sequential;
use proptest::prelude::*;

/// More coordinates than the modulus of a placement: the last own the same elements as the first, and may compute none
/// of them.
#[test]
fn every_owner_of_an_element_gets_it() -> Result<(), TestCaseError> {
    vars!(i, k, io, ii, ko, ki);
    for (extent, ranks) in (0..6).flat_map(|extent| [(extent, 3), (extent, 4)]) {
        let line = Mesh::new([("y", ranks)]);
        let grid = Mesh::new([("x", 2), ("y", ranks)]);
        let [y] = line.axes();
        let [gx, gy] = grid.axes();
        let copied = kernel! { fn copied(A: [i64; extent]) -> C: [i64; extent] { C[i] = A[i] } }.distribute(
            [i],
            [io],
            [ii],
            &line,
        );
        let summed = kernel! { fn summed(A: [i64; extent, 3]) -> C: [i64; extent] { C[i] += A[i, k] } }.distribute(
            [i, k],
            [io, ko],
            [ii, ki],
            &grid,
        );
        for home in [i.at(y % 2), i.at((y + 1) % 2), i.at((y + 2) % 3)] {
            check::<i64>(&copied.clone().shard("C", [home]))?;
        }
        for home in [i.at(gy % 2), i.at((gx + gy) % 2), i.at((gx + gy) % 3)] {
            check::<i64>(&summed.clone().shard("C", [home]))?;
        }
    }
    Ok(())
}

/// `distribute` used twice: nodes outside, cores inside, each with its own loops and data.
#[test]
fn an_inner_mesh_level_gives_the_sequential_result() -> Result<(), TestCaseError> {
    vars!(m, n, k, mo, mi, moo, moi, no, ni, ko, ki);
    let nodes = Mesh::new([("node", 2)]);
    let cores = Mesh::new([("row", 2), ("column", 2)]);
    let [node] = nodes.axes();
    let [row, column] = cores.axes();
    let sizes = [(13, 7, 5), (3, 2, 1), (8, 8, 8)].into_iter();
    for ((rows, columns, depth), home) in sizes.flat_map(|size| [(size, m.at([node, row])), (size, m.at(node).at(row))])
    {
        let matmul = kernel! {
            fn matmul(A: [i64; rows, depth], B: [i64; depth, columns]) -> C: [i64; rows, columns] {
                C[m, n] += A[m, k] * B[k, n]
            }
        };
        let schedule = matmul
            .distribute([m], [mo], [mi], &nodes)
            .distribute([mi, n], [moo, no], [moi, ni], &cores)
            .divide(k, ko, ki, 2)
            .reorder([ko, moi, ni, ki])
            .shard("A", [home.clone(), k.at(column)])
            .shard("B", [k.at(row), n.at(column), pin(node, 0)])
            .shard("C", [home.clone(), n.at(column)])
            .communicate("A", ko)
            .communicate("B", ko)
            .tensorize([moi, ni, ki]);
        let program = schedule.lower().expect("a legal schedule");
        assert_eq!(program.mesh().size(), 8);
        // Blocks of blocks are at the loops that use them, whether they divide or not.
        let list = matches!(&home, Clause::Divided { levels, .. } if levels.len() == 1);
        assert_eq!(program.pattern("C") == Some(Pattern::Local), !list || rows != 13, "{home}, {rows} rows");
        check::<i64>(&schedule)?;
    }
    Ok(())
}

/// A product whose `k` has 7 values, on a mesh of 2 by 3.
fn seven() -> (Schedule, Mesh) {
    let matmul = kernel! {
        fn matmul(A: [i64; 5, 7], B: [i64; 7, 6]) -> C: [i64; 5, 6] { C[m, n] += A[m, k] * B[k, n] }
    };
    (matmul, Mesh::new([("x", 2), ("y", 3)]))
}

/// The last tile of a loop that was rotated is as short as that of any other loop.
#[test]
fn rotated_loops_are_split_and_distributed_where_tiles_do_not_divide() -> Result<(), TestCaseError> {
    vars!(m, n, k, mo, mi, no, ni, ka, kb, kc, kd, f);
    let (matmul, mesh) = seven();
    let [x, y] = mesh.axes();
    let grid = || matmul.clone().distribute([m, n], [mo, no], [mi, ni], &mesh);
    let split = || grid().reorder([k, mi, ni]).rotate(k, [mo, no]).split(k, ka, kb, 3);
    let schedules = [
        split(),
        split().shard("A", [m.at(x), k.at(y)]).communicate("A", ka),
        split().shard("A", [m.at(x), k.at(y)]).communicate("A", kb).shard("B", [n.at(y)]).communicate("B", kb),
        split().split(ka, kc, kd, 2).rotate(kb, [kc, mo]),
        split().fuse(ka, kb, f),
        split().rotate(ka, [no]).rotate(ka, [mo]),
        grid().rotate(k, [mo]).divide(k, ka, kb, 1).divide(ka, kc, kd, 2),
        split().fuse(ka, kb, f).rotate(f, [mo]).split(f, kc, kd, 4),
        grid().reorder([mi, k, ni]).rotate(k, [mi]).divide(mi, ka, kb, 2).rotate(kb, [mo]),
        matmul.clone().rotate(m, [] as [Var; 0]).distribute([m, n], [mo, no], [mi, ni], &mesh),
        matmul.clone().rotate(n, [m]).distribute([m], [mo], [mi], &Mesh::new([("x", 3)])).split(n, no, ni, 4),
    ];
    for (number, schedule) in schedules.iter().enumerate() {
        let lowered = schedule.lower();
        prop_assert!(lowered.is_ok(), "schedule {number}: {}\n{schedule}", lowered.expect_err("an error"));
        check::<i64>(schedule)?;
    }
    Ok(())
}

/// Accesses that share a tile need not match it in each dimension on ranks that read nothing.
#[test]
fn accesses_share_tiles_that_are_empty_on_some_ranks() -> Result<(), TestCaseError> {
    vars!(i, j, ib, ii, jb, ji, io, il, jo, jl);
    let mesh = Mesh::new([("x", 2), ("y", 3)]);
    let [x, y] = mesh.axes();
    let kernel = kernel! {
        fn symmetrized(A: [i64; 2, 2], v: [i64; 2]) -> C: [i64; 2] { C[i] += (A[i, j] + A[j, i]) * v[j] }
    };
    let schedule = kernel
        .split(i, ib, ii, 3)
        .split(j, jb, ji, 3)
        .distribute([ib, jb], [io, jo], [il, jl], &mesh)
        .shard("A", [dim(0).cyclic(x, 3), dim(1).at(y)])
        .shard("C", [i.cyclic(x, 3)]);
    prop_assert!(schedule.lower().is_ok(), "{}", schedule.lower().expect_err("an error"));
    check::<i64>(&schedule)
}

/// Blocks whose size varies with a counter leave no gaps if they are as long as their stride.
#[test]
fn a_leaf_walks_over_blocks_that_leave_no_gaps() -> Result<(), TestCaseError> {
    vars!(i, ib, ii, iz, it, io, il, ia, im, r, rz, rl, ra, rb);
    let mesh = Mesh::new([("x", 1), ("y", 1), ("z", 5)]);
    let ([x, y, _], whole) = (mesh.axes(), 1);
    let pooled = kernel! {
        fn pooled(A: [f64; 5], B: [f64; 3]) -> C: [f64; 3] {
            C[i] max= A[2 * i + r - 1] else -3.0 + B[i] for r in 0..3
        }
    };
    let schedule = pooled
        .divide(i, ib, ii, 2)
        .distribute([ib, ii, r], [iz, it, rz], [io, il, rl], &mesh)
        .divide(rl, ra, rb, 2)
        .divide(il, ia, im, 3)
        .reorder([ra, im, io, ia, rb])
        .rotate(ra, [] as [Var; 0])
        .shard("C", [dim(0).at((x + y) % whole)])
        .communicate("C", im)
        .tensorize([io, ia, rb]);
    prop_assert!(schedule.lower().is_ok(), "{}", schedule.lower().expect_err("an error"));
    check::<f64>(&schedule)
}

/// Tiles that are broadcast before they are permuted, and after.
#[test]
fn routes_of_two_steps_give_the_sequential_result() -> Result<(), TestCaseError> {
    vars!(m, n, k, mo, mi, no, ni, kb, ki, kz, kt);
    for ([rows, columns, depth], [q, c]) in
        [([5, 7, 6], [2, 2]), ([6, 6, 6], [3, 3]), ([9, 8, 16], [4, 2]), ([1, 2, 3], [3, 3]), ([7, 5, 4], [3, 2])]
    {
        let (layer, deep) = (Mesh::new([("x", q), ("y", q)]), Mesh::new([("z", c)]));
        let ([x, y], [z]) = (layer.axes(), deep.axes());
        let terms = kernel! {
            fn terms(A: [i64; rows, depth], B: [i64; depth, columns]) -> P: [i64; depth, rows, columns] {
                P[k, m, n] = A[m, k] * B[k, n]
            }
        };
        let layers = terms
            .distribute([m, n], [mo, no], [mi, ni], &layer)
            .divide(k, kb, ki, q)
            .rotate(kb, [mo, no])
            .distribute([kb], [kz], [kt], &deep)
            .reorder([kt, mi, ni, ki])
            .shard("A", [m.at(x), k.at(y), pin(z, 0)])
            .shard("B", [k.at(x), n.at(y), pin(z, c - 1)])
            .shard("P", [m.at(x), n.at(y)])
            .communicate("A", kt)
            .communicate("B", kt);
        check::<i64>(&layers)?;
        let syrk = kernel! {
            fn syrk(A: [i64; rows, depth]) -> C: [i64; rows, rows] { C[m, n] += A[m, k] * A[n, k] }
        };
        let syrk = syrk
            .distribute([m, n], [mo, no], [mi, ni], &layer)
            .divide(k, kb, ki, q)
            .reorder([kb, mi, ni, ki])
            .shard("A", [m.at(x), k.at(y)])
            .shard("C", [m.at(x), n.at(y)])
            .communicate("A", kb)
            .tensorize([mi, ni, ki]);
        let two = Pattern::Permute.then(Pattern::broadcast([x]));
        prop_assert!(syrk.lower().expect("a legal schedule").patterns("A").contains(&two), "{syrk}");
        check::<i64>(&syrk)?;
        let transposed = kernel! {
            fn transposed(A: [i64; columns, rows], B: [i64; depth]) -> P: [i64; rows, columns, depth] {
                P[m, n, k] = A[n, m] * B[k]
            }
        };
        let cube = Mesh::new([("x", q), ("y", q), ("z", c)]);
        let transposed = transposed
            .distribute([m, n, k], [mo, no, kz], [mi, ni, kt], &cube)
            .shard("A", [n.at(x), m.at(y), pin(z, c - 1)])
            .shard("P", [m.at(x), n.at(y), k.at(z)])
            .expect("A", Pattern::Permute.then(Pattern::broadcast([z])));
        prop_assert!(transposed.lower().is_ok(), "{}", transposed.lower().expect_err("an error"));
        check::<i64>(&transposed)?;
    }
    Ok(())
}

/// Both dimensions skewed over the same two axes, by their sum and by their difference.
#[test]
fn homes_skewed_by_sum_and_difference_give_the_sequential_result() -> Result<(), TestCaseError> {
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let (matmul, _) = seven();
    let on = |extent: usize| {
        let mesh = Mesh::new([("x", extent), ("y", extent)]);
        let [x, y] = mesh.axes();
        let by = extent as i64;
        matmul
            .clone()
            .distribute([m, n], [mo, no], [mi, ni], &mesh)
            .divide(k, ko, ki, extent)
            .reorder([ko, mi, ni, ki])
            .rotate(ko, [mo, no])
            .shard("A", [m.at((x + y) % by), k.at((x - y) % by)])
            .shard("B", [k.at((x * 2 + y) % by), n.at((x + y + 1) % by)])
            .shard("C", [m.at(x), n.at((x + y) % by)])
            .communicate("A", ko)
            .communicate("B", ko)
            .tensorize([mi, ni, ki])
    };
    for extent in [3, 5] {
        let lowered = on(extent).lower();
        prop_assert!(lowered.is_ok(), "{}", lowered.expect_err("an error"));
        check::<i64>(&on(extent))?;
    }
    // Modulo 2, the difference is the sum.
    let why = on(2).lower().expect_err("half of the blocks have no owner").to_string();
    prop_assert!(why.contains("some blocks have no owner"), "{why}");
    Ok(())
}

/// Even if the owners of a partial sum are not neighbours, they are at the writer's own coordinate along the sum's
/// axes.
#[test]
fn terms_that_are_exchanged_stay_with_their_rank() -> Result<(), TestCaseError> {
    vars!(i, j, jb, ji, jx, jl, js, jt, jy, it, iz, ii);
    let (line, layer) = (Mesh::new([("x", 3)]), Mesh::new([("y", 2), ("z", 2)]));
    let ([x], [y, z]) = (line.axes(), layer.axes());
    let outer = kernel! {
        fn outer(u: [i64; 5], v: [i64; 4]) -> C: [i64; 5, 4] { C[i, j] = u[i] * v[j] }
    };
    let schedule = outer
        .divide(j, jb, ji, 2)
        .distribute([jb], [jx], [jl], &line)
        .distribute([jl, i], [jy, iz], [jt, ii], &layer)
        .divide(ji, js, it, 2)
        .shard("u", [dim(0).at(x)])
        .communicate("u", jx)
        .shard("v", [dim(0).at((x + y) % 3)])
        .shard("C", [dim(1).cyclic(z, 1), partial(x)]);
    let lowered = schedule.lower();
    prop_assert!(lowered.is_ok(), "{}", lowered.expect_err("an error"));
    let program = lowered.expect("it was just asked");
    let [Leg::Exchange { reach, .. }] = &program.nest().output().route.legs[..] else {
        return Err(TestCaseError::fail(format!("not exchanged\n{program}")));
    };
    prop_assert_eq!(reach.along[0].offsets(), Some((0, 0)), "{}", program);
    check::<i64>(&schedule)
}

/// Two inputs that both begin before one is awaited, as a file may have them.
#[test]
fn inputs_that_are_awaited_later_give_the_sequential_result() {
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let (matmul, mesh) = seven();
    let [x, y] = mesh.axes();
    let summa = matmul
        .distribute([m, n], [mo, no], [mi, ni], &mesh)
        .divide(k, ko, ki, 2)
        .reorder([ko, mi, ni, ki])
        .shard("A", [m.at(x), k.at(y)])
        .shard("B", [k.at(x), n.at(y)])
        .shard("C", [m.at(x), n.at(y)])
        .communicate("A", ko)
        .communicate("B", ko);
    let program = summa.lower().expect("a legal schedule");
    let mut body = program.body().clone();
    let inside = body.statements.iter_mut().find_map(|statement| match statement {
        Statement::Loop(_, body) => Some(body),
        _ => None,
    });
    // Begin, await, begin, await: of A, then of B.
    inside.expect("the loop over ko").swap(1, 2);
    let apart = Program::new(body).expect("nothing reads a tile before it is there");
    let text = serde_json::to_string(&apart).expect("a program is written");
    let apart: Program = serde_json::from_str(&text).expect("a program is read");
    assert!(apart.to_string().contains("await A_tile") && apart != program, "{apart}");
    assert_eq!(distributed::<i64>(&apart, true).expect("it runs"), sequential::<i64>(&program, true));
}
