//! Invalid schedules, and the messages of `lower`.

use expect_test::{Expect, expect};
use polyshard::prelude::*;

/// The message of `lower`, below the step that is refused, which stands in this file. The call site has its own test.
pub(crate) fn refusal(schedule: Schedule, file: &str) -> String {
    let error = schedule.lower().expect_err("the schedule should be refused");
    assert_eq!(error.location().file(), file, "the call site is the caller's");
    let said = error.to_string();
    let (message, _) = said.split_once("\n  --> ").expect("an error ends in its call site");
    message.replacen("`: ", "`:\n    ", 1) + "\n"
}

/// Compares the messages of these schedules.
#[track_caller]
fn check<const COUNT: usize>(schedules: [Schedule; COUNT], expected: Expect) {
    expected.assert_eq(&schedules.map(|schedule| refusal(schedule, file!())).concat());
}

fn matmul() -> Schedule {
    kernel! {
        fn matmul(A: [f64; 6, 8], B: [f64; 8, 5]) -> C: [f64; 6, 5] { C[m, n] += A[m, k] * B[k, n] }
    }
}

fn mesh() -> Mesh {
    Mesh::new([("x", 2), ("y", 2)])
}

/// The product on a grid: loops mo, no, mi, ni, ko, ki.
fn tiled() -> Schedule {
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    matmul().distribute([m, n], [mo, no], [mi, ni], &mesh()).divide(k, ko, ki, 2)
}

#[test]
fn the_error_names_the_step_its_number_and_the_callers_line() {
    vars!(q, qo, qi);
    let line = line!() + 1;
    let error = tiled().divide(q, qo, qi, 4).lower().expect_err("there is no loop `q`");
    assert_eq!(error.step(), Some(3));
    assert_eq!((error.location().file(), error.location().line()), (file!(), line));
    let expected = format!(
        "schedule step 3, `divide(q, qo, qi, 4)`: no loop `q`; the loops are mo, no, mi, ni, ko, ki\n  --> {}:{line}:25",
        file!()
    );
    assert_eq!(error.to_string(), expected);
    assert_eq!(format!("{error:?}"), expected, "what `main` prints");
}

#[test]
fn a_misspelled_loop_tensor_or_axis_is_asked_about() {
    vars!(koo, inner_rows, innr_rows, mo);
    let mesh = Mesh::new([("nodes", 2), ("ranks", 2)]);
    let distributed = matmul().distribute(["m", "n"], ["mo", "no"], ["mi", "ni"], &mesh);
    check(
        [
            tiled().reorder([koo, mo]),
            tiled().split("ki", inner_rows, "k2", 2).reorder([innr_rows]),
            tiled().communicate("c", mo),
            distributed.shard("A", [dim(0).at("node")]),
        ],
        expect![[r#"
            schedule step 3, `reorder([koo, mo])`:
                no loop `koo`; did you mean `ko`? the loops are mo, no, mi, ni, ko, ki
            schedule step 4, `reorder([innr_rows])`:
                no loop `innr_rows`; did you mean `inner_rows`? the loops are mo, no, mi, ni, ko, inner_rows, k2
            schedule step 3, `communicate(c, mo)`:
                no tensor `c`; did you mean `C`? the tensors are A, B, C
            schedule step 2, `shard(A, dim(0) @ node)`:
                no axis `node`; did you mean `nodes`? the axes are nodes, ranks
        "#]],
    );
}

#[test]
fn the_first_step_that_is_wrong_is_reported() {
    vars!(p, q);
    check(
        [tiled().reorder([p]).reorder([q])],
        expect![[r#"
            schedule step 3, `reorder([p])`:
                no loop `p`; the loops are mo, no, mi, ni, ko, ki
        "#]],
    );
}

#[test]
fn unknown_tensors_and_axes_are_told_those_that_there_are() {
    vars!(m, ko);
    let [x, _] = mesh().axes();
    let z = polyshard::layout::AxisExpr::axis("z");
    check(
        [
            tiled().shard("D", [m.at(x)]),
            tiled().communicate("D", ko),
            tiled().expect("D", Pattern::Local),
            tiled().shard("A", [m.at(z)]),
            tiled().expect("A", Pattern::Shift { axis: "z".into(), by: 1 }),
        ],
        expect![[r#"
            schedule step 3, `shard(D, m @ x)`:
                no tensor `D`; the tensors are A, B, C
            schedule step 3, `communicate(D, ko)`:
                no tensor `D`; the tensors are A, B, C
            schedule step 3, `expect(D, local)`:
                no tensor `D`; the tensors are A, B, C
            schedule step 3, `shard(A, m @ z)`:
                no axis `z`; the axes are x, y
            schedule step 3, `expect(A, shift(z, 1))`:
                no axis `z`; the axes are x, y
        "#]],
    );
}

#[test]
fn axes_divide_once_and_blocks_are_divided_again_by_axes_that_are_left() {
    vars!(m, k, mi, a, b);
    let [x, y] = mesh().axes();
    check(
        [
            tiled().shard("A", [m.at(x), k.at(x)]),
            tiled().shard("A", [m.at(x).at([y, x])]),
            tiled().shard("A", [m.at(x).at(y).at(0)]),
            tiled().shard("A", [m.at(x).cyclic(y, 0)]),
            tiled().shard("A", [m.at(x).at(x + y)]),
            tiled().shard("A", [m.at(x), m.at(y)]),
            tiled().distribute([mi], [a], [b], &Mesh::new([("x", 2)])),
        ],
        expect![[r#"
            schedule step 3, `shard(A, m @ x, k @ x)`:
                axis `x` is used twice, so elements off the diagonal would have no owner; use each axis once, or skew the second, `(x + y) % parts`
            schedule step 3, `shard(A, m @ x @ [y, x])`:
                axis `x` is used twice, so elements off the diagonal would have no owner; use each axis once, or skew the second, `(x + y) % parts`
            schedule step 3, `shard(A, m @ x @ y @ 0)`:
                dimension 0 is divided into 3 levels, but each needs an axis of its own, and the mesh has 2; leave some out
            schedule step 3, `shard(A, m @ x @ cyclic(y, 0))`:
                dimension 0 is block-cyclic in blocks of 0; a block has at least one index
            schedule step 3, `shard(A, m @ x @ (x + y))`:
                cannot place by `x + y`: it is neither an axis, a list of axes nor a remainder; add `% parts`
            schedule step 3, `shard(A, m @ x, m @ y)`:
                dimension 0 is placed twice; list several axes, major first, or chain levels in one clause, `.at(x).at(y)`
            schedule step 3, `distribute([mi], [a], [b], mesh(x: 2))`:
                axis `x` is an axis of the mesh already; distribute over other axes, or give the inner mesh its own names
        "#]],
    );
}

#[test]
fn what_has_no_sharding_or_no_mesh_is_told_the_step_that_is_missing() {
    vars!(m, ko);
    let [x, _] = mesh().axes();
    check(
        [tiled().communicate("A", ko), matmul().shard("A", [m.at(x)])],
        expect![[r#"
            schedule step 3, `communicate(A, ko)`:
                `A` has no sharding, so there is nothing to communicate; `shard` it first (a tensor that no step shards is replicated)
            schedule step 1, `shard(A, m @ x)`:
                the mesh is not defined yet; call `distribute` first
        "#]],
    );
}

#[test]
fn distributed_loops_are_neither_reordered_nor_tensorized_nor_divided() {
    vars!(no, ko, ki, mi, ni, a, b);
    check(
        [tiled().reorder([ko, no]), tiled().tensorize([no, mi, ni, ko, ki]), tiled().divide(no, a, b, 2)],
        expect![[r#"
            schedule step 3, `reorder([ko, no])`:
                loop `no` is bound to mesh axis `y` and cannot be moved or changed; list it in its place, or leave it out
            schedule step 3, `tensorize([no, mi, ni, ko, ki])`:
                loop `no` is bound to mesh axis `y` and cannot be moved or changed; tensorize its inner loop
            schedule step 3, `divide(no, a, b, 2)`:
                loop `no` is bound to mesh axis `y` and cannot be moved or changed; use its inner loop
        "#]],
    );
}

#[test]
fn copies_own_what_they_compute() {
    let [m, n] = ["m", "n"].map(Var::new);
    let copied = || {
        let rows = matmul().distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", 2)]));
        rows.replicate(&Mesh::new([("y", 2)]))
    };
    check(
        [
            copied().shard("C", [m.at("x"), n.at("y")]),
            copied().shard("C", [m.at("x"), partial("y")]),
            copied().replicate(&Mesh::new([("mo", 2)])),
        ],
        expect![[r#"
            schedule step 3, `shard(C, m @ x, n @ y)`:
                all ranks along `y` compute `C`, but it is sharded [0 @ x, 1 @ y]; each rank has to own its result: leave `y` out of the sharding of `C`, or distribute a loop over `y` instead of `replicate`
            schedule step 3, `shard(C, m @ x, partial(y))`:
                all ranks along `y` compute `C`, but it is sharded [0 @ x, partial(y)]; each rank has to own its result: leave `y` out of the sharding of `C`, or distribute a loop over `y` instead of `replicate`
            schedule step 3, `replicate(mesh(mo: 2))`:
                the name `mo` is taken by a loop or an index of the kernel; give the new loop another
        "#]],
    );
}

#[test]
fn a_loop_rotates_by_loops_outside_it_alone() {
    vars!(ko, ki, no);
    check(
        [tiled().rotate(ko, [no, ki]), tiled().rotate(ko, [ko])],
        expect![[r#"
            schedule step 3, `rotate(ko, [no, ki])`:
                cannot rotate `ko` by `ki`, which is not outside it; reorder it outside first: the loops are mo, no, mi, ni, ko, ki
            schedule step 3, `rotate(ko, [ko])`:
                cannot rotate `ko` by `ko`, which is not outside it; reorder it outside first: the loops are mo, no, mi, ni, ko, ki
        "#]],
    );
}

#[test]
fn extents_that_cannot_be_are_refused_and_zero_is_not() {
    let (huge, n) = (1u64 << 40, 3 - 7);
    check(
        [
            kernel! { fn matrix(A: [f32; huge, huge]) -> C: [f32; huge] { C[i] += A[i, j] } },
            kernel! { fn outer(A: [f32; huge], B: [f32; huge]) -> c: f32 { c[] += A[i] * B[j] } },
            kernel! { fn one(A: [f32; u64::MAX]) -> c: f32 { c[] += A[i] } },
            kernel! { fn sum(A: [f32; 4, n]) -> C: [f32; 4] { C[i] += A[i, j] } },
        ],
        expect![[r#"
            kernel `matrix`:
                the extents of `A` overflow: 1099511627776 * 1099511627776 * 4 bytes does not fit 63 bits; make them smaller
            kernel `outer`:
                the extents of the index variables overflow: 1099511627776 * 1099511627776 does not fit 63 bits; make them smaller
            kernel `one`:
                the extents of `A` overflow: 18446744073709551615 * 4 bytes does not fit 63 bits; make them smaller
            kernel `sum`:
                dimension 1 of `A` has extent -4; an extent is at least 0
        "#]],
    );
    let n = 0;
    assert!(kernel! { fn sum(A: [f32; 4, n]) -> C: [f32; 4] { C[i] += A[i, j] } }.lower().is_ok());
}

#[test]
fn parts_and_tiles_of_no_size_are_refused() {
    vars!(k, ko, ki);
    check(
        [matmul().divide(k, ko, ki, 0), matmul().split(k, ko, ki, 0)],
        expect![[r#"
            schedule step 1, `divide(k, ko, ki, 0)`:
                cannot use a number of parts of 0; give a number from 1 to 2^62
            schedule step 1, `split(k, ko, ki, 0)`:
                cannot use a tile of 0; give a number from 1 to 2^62
        "#]],
    );
}

#[test]
fn a_loop_at_which_a_tensor_is_communicated_stays_out_of_the_leaf() {
    vars!(m, k, mi, ni, ko, ki);
    let [x, y] = mesh().axes();
    check(
        [
            tiled()
                .reorder([ko, mi, ni, ki])
                .shard("A", [m.at(x), k.at(y)])
                .communicate("A", ko)
                .tensorize([ko, ni, ki]),
            tiled().shard("A", [m.at(x), k.at(y)]).tensorize([mi, ni, ko, ki]).communicate("A", ki),
        ],
        expect![[r#"
            schedule step 6, `tensorize([ko, ni, ki])`:
                loop `ko` cannot be tensorized, since `A` is communicated at it; leave `ko` out of `tensorize`, or communicate `A` at a loop outside the leaf
            schedule step 5, `communicate(A, ki)`:
                loop `ki` is tensorized, so it is inside the leaf; communicate at a loop outside it
        "#]],
    );
}
