//! Properties that a step ensures and a later one breaks, and expectations.

use crate::Schedule;
use expect_test::{Expect, expect};
use polyshard_dsl::Var;
use polyshard_layout::Mesh;
use polyshard_program::Pattern;
use polyshard_testing::example;

fn rows() -> Schedule {
    Schedule::from_spec(example::matmul(8, 6, 4)).distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", 2)]))
}

/// The number of the faulty step of each schedule, and the error.
#[track_caller]
fn check(schedules: impl IntoIterator<Item = Schedule>, expect: Expect) {
    let errors = schedules.into_iter().map(|schedule| {
        let error = schedule.lower().expect_err("the schedule is illegal");
        format!("{}: {}\n", error.step().expect("a step"), error.kind())
    });
    expect.assert_eq(&errors.collect::<String>());
}

#[test]
fn a_rotation_stays_inside_of_what_it_rotates_by() {
    let rotated = rows().rotate("k", ["n"]);
    rotated.lower().expect("`n` is outside of `k`");
    check(
        [rotated.reorder(["k", "n"])],
        expect![[r#"
            2: cannot rotate `k` by `n`, which is not outside it; reorder it outside first: the loops are mo, mi, k, n
        "#]],
    );
}

#[test]
fn loops_of_the_leaf_stay_innermost() {
    let innermost = rows().tensorize(["n", "k"]);
    check(
        [rows().tensorize(["mi", "n"])],
        expect![[r#"
            2: the loops mi, n are not the innermost ones: `k` is inside; reorder it out, or tensorize it too
        "#]],
    );
    innermost.lower().expect("`n` and `k` are innermost");
    check(
        [innermost.reorder(["k", "mi"])],
        expect![[r#"
            2: the loops n, k are not the innermost ones: `mi` is inside; reorder it out, or tensorize it too
        "#]],
    );
}

#[test]
fn a_transfer_has_the_pattern_that_is_expected() {
    let [x] = Mesh::new([("x", 2)]).axes();
    let gathered = rows().shard("B", [Var::new("k").at(x)]);
    gathered.clone().expect("B", Pattern::all_gather([x])).lower().expect("it is an all-gather");
    check(
        [
            gathered.clone().expect("B", Pattern::broadcast([x])),
            gathered.clone().expect("B", Pattern::Local),
            // A tensor that stays in place is not an exchange, either.
            gathered.expect("A", Pattern::Exchange),
        ],
        expect![[r#"
            3: the transfer of `B` is all_gather(x), not broadcast(x); `explain()` prints the tests that led to it
            3: the transfer of `B` is all_gather(x), not local; `explain()` prints the tests that led to it
            3: the transfer of `A` is local, not exchange; `explain()` prints the tests that led to it
        "#]],
    );
}

#[test]
fn as_much_of_a_transfer_can_be_hidden_as_is_expected() {
    let (mesh, k) = (Mesh::new([("x", 2)]), Var::new("k"));
    let [x] = mesh.axes();
    let placed = || rows().divide("k", "ko", "ki", 3).reorder(["ko", "mi", "n", "ki"]).shard("B", [k.at(x)]);
    let panels = || placed().communicate("B", "ko");
    let ahead = || panels().pipeline("ko", 1);
    ahead().expect_overlap("B", 0.66).lower().expect("two of three panels");
    ahead().expect_overlap("B", 0.0).lower().expect("some");
    // With one panel nothing is hidden, whether it begins ahead or not.
    let alone = rows().divide("k", "ko", "ki", 1).reorder(["ko", "mi", "n", "ki"]).shard("B", [k.at(x)]);
    check(
        [ahead().expect_overlap("B", 0.7), ahead().expect_overlap("B", 1.0)],
        expect![[r#"
            7: at most 66.7 % of the transfer of `B`, broadcast(x), can be hidden, not 70.0 %: nothing is computed during the transfer of the first of 3 iterations of `ko`; divide into 4 iterations of `ko` or more, or expect 0.666 or less
            7: at most 66.7 % of the transfer of `B`, broadcast(x), can be hidden, not 100.0 %: nothing is computed during the transfer of the first of 3 iterations of `ko`; expect 0.666 or less
        "#]],
    );
    let alone = || alone.clone().communicate("B", "ko");
    check(
        [alone().pipeline("ko", 1).expect_overlap("B", 0.8), alone().expect_overlap("B", 1.0)],
        expect![[r#"
            7: at most 0.0 % of the transfer of `B`, all_gather(x), can be hidden, not 80.0 %: `ko` has one iteration, so no other one is computed while it is in flight; divide into 5 iterations of `ko` or more, and `pipeline` it
            6: at most 0.0 % of the transfer of `B`, all_gather(x), can be hidden, not 100.0 %: `ko` has one iteration, so no other one is computed while it is in flight; divide into several iterations of `ko`, `pipeline` it, and expect less than all
        "#]],
    );
    alone().pipeline("ko", 1).expect_overlap("B", 0.0).lower().expect("nothing is expected");
    // A neighbour's part, fetched while the rank's own is computed, is hidden.
    let travels = rows().divide("k", "ko", "ki", 2).reorder(["ko", "mi", "n", "ki"]).rotate("ko", ["mo"]);
    check(
        [panels().expect_overlap("B", 0.1), placed().expect_overlap("B", 0.1), ahead().expect_overlap("A", 1.0)],
        expect![[r#"
            6: at most 0.0 % of the transfer of `B`, broadcast(x), can be hidden, not 10.0 %: each iteration of `ko` waits for it; add `pipeline(ko, 1)`
            5: at most 0.0 % of the transfer of `B`, all_gather(x), can be hidden, not 10.0 %: it is fetched before all loops; `communicate` it at a serial loop, and `pipeline` that
            7: `A` is not moved, since each rank owns all that it uses of it; leave `expect_overlap` out
        "#]],
    );
    let travels = travels.shard("B", [k.at(x)]).communicate("B", "ko").pipeline("ko", 1);
    travels.expect_overlap("B", 1.0).lower().expect("the first is there");
    let summed = Schedule::from_spec(example::matmul(8, 6, 4)).distribute(["k"], ["ko"], ["ki"], &mesh);
    let summed = summed.divide("m", "mo", "mi", 4).reorder(["mo", "mi", "n", "ki"]).shard("C", [Var::new("n").at(x)]);
    summed.clone().communicate("C", "mo").pipeline("mo", 2).expect_overlap("C", 0.75).lower().expect("three of four");
    check(
        [
            summed.clone().communicate("C", "mo").pipeline("mo", 2).expect_overlap("C", 0.8),
            summed.clone().communicate("C", "mo").expect_overlap("C", 0.5),
            summed.expect_overlap("C", 0.5),
            ahead().expect_overlap("B", 80.0),
            ahead().expect_overlap("D", 0.8),
        ],
        expect![[r#"
            7: at most 75.0 % of the transfer of `C`, reduce_scatter(x), can be hidden, not 80.0 %: nothing is computed during the transfer of the last of 4 iterations of `mo`; divide into 5 iterations of `mo` or more, or expect 0.750 or less
            6: at most 0.0 % of the transfer of `C`, reduce_scatter(x), can be hidden, not 50.0 %: each iteration of `mo` waits until it is sent; add `pipeline(mo, 1)`
            5: at most 0.0 % of the transfer of `C`, reduce_scatter(x), can be hidden, not 50.0 %: it is sent after all loops; `communicate` it at a serial loop, and `pipeline` that
            7: 80 is not a share of a transfer; give a number from 0 to 1: 0.8 is four fifths
            7: no tensor `D`; the tensors are A, B, C
        "#]],
    );
}
