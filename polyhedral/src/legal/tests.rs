//! What each step allows and a later one breaks, and expectations.

use crate::Schedule;
use expect_test::{Expect, expect};
use polyshard_dsl::Var;
use polyshard_layout::Mesh;
use polyshard_program::{Pattern, example};

fn rows() -> Schedule {
    Schedule::from_spec(example::matmul(8, 6, 4)).distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", 2)]))
}

/// The step that is to blame, and why.
#[track_caller]
fn check(schedule: &Schedule, expect: Expect) {
    let error = schedule.lower().expect_err("the schedule is illegal");
    expect.assert_eq(&format!("{:?}: {}", error.step(), error.kind()));
}

#[test]
fn a_rotation_stays_inside_of_what_it_rotates_by() {
    let rotated = rows().rotate("k", ["n"]);
    rotated.lower().expect("`n` is outside of `k`");
    check(
        &rotated.reorder(["k", "n"]),
        expect![
            "Some(2): cannot rotate `k` by `n`, which is not outside it; reorder it outside first: the loops are mo, mi, k, n"
        ],
    );
}

#[test]
fn loops_of_the_leaf_stay_innermost() {
    check(
        &rows().tensorize(["mi", "n"]),
        expect![
            "Some(2): the loops mi, n are not the innermost ones: `k` is inside; reorder it out, or tensorize it too"
        ],
    );
    let innermost = rows().tensorize(["n", "k"]);
    innermost.lower().expect("`n` and `k` are innermost");
    check(
        &innermost.reorder(["k", "mi"]),
        expect![
            "Some(2): the loops n, k are not the innermost ones: `mi` is inside; reorder it out, or tensorize it too"
        ],
    );
}

#[test]
fn a_transfer_has_the_pattern_that_is_expected() {
    let [x] = Mesh::new([("x", 2)]).axes();
    let gathered = rows().shard("B", [Var::new("k").at(x)]);
    gathered.clone().expect("B", Pattern::all_gather([x])).lower().expect("it is an all-gather");
    check(
        &gathered.clone().expect("B", Pattern::broadcast([x])),
        expect![
            "Some(3): the transfer of `B` is all_gather(x), not broadcast(x); `explain()` prints the tests that led to it"
        ],
    );
    check(
        &gathered.clone().expect("B", Pattern::Local),
        expect![
            "Some(3): the transfer of `B` is all_gather(x), not local; `explain()` prints the tests that led to it"
        ],
    );
    // What stays is no exchange, either.
    check(
        &gathered.expect("A", Pattern::Exchange),
        expect!["Some(3): the transfer of `A` is local, not exchange; `explain()` prints the tests that led to it"],
    );
}
