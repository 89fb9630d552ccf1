//! Elements of another kernel's output have been written before a kernel reads them, or the report states that they
//! have not.

use super::element;
use super::rounds::run;
use expect_test::{Expect, expect};
use ndarray::ArrayD;
use polyshard::prelude::*;
use polyshard::program::{Hint, Property};
use polyshard::runtime::reference;

/// The mean of two neighbours, for all points but the first and the last.
fn inner(mesh: &Mesh) -> Program {
    let [x] = mesh.axes();
    vars!(i, io, ii);
    let inner = kernel! { fn inner(U: [i64; 10]) -> V: [i64; 10] { V[i] = U[i - 1] + 3 * U[i + 1] for i in 1..9 } };
    let inner = inner.distribute([i], [io], [ii], mesh).shard("U", [dim(0).at(x)]).shard("V", [dim(0).at(x)]);
    inner.lower().expect("a legal schedule")
}

/// A kernel on a tensor of 10 elements, in blocks.
fn by_blocks(schedule: Schedule, mesh: &Mesh) -> Program {
    let [x] = mesh.axes();
    vars!(i, io, ii);
    let placed = schedule.distribute([i], [io], [ii], mesh).shard("V", [dim(0).at(x)]).shard("W", [dim(0).at(x)]);
    placed.lower().expect("a legal schedule")
}

/// The report's lines on the flow, and its hints.
#[track_caller]
fn check(program: &Program, expected: Expect) {
    let proofs = program.report().proofs.iter().filter(|proof| proof.property == Property::Flow);
    let proofs = proofs.map(|proof| match proof.tensor {
        Some(tensor) => format!("{tensor}: {}\n", proof.claim),
        None => format!("{}\n", proof.claim),
    });
    let hints = program.hints().iter().filter(|hint| matches!(hint, Hint::NotWritten { .. }));
    expected.assert_eq(&proofs.chain(hints.map(|hint| format!("hint: {hint}\n"))).collect::<String>());
}

#[test]
fn what_is_read_of_a_part_is_in_what_is_written_or_a_hint_says_it_is_not() {
    let mesh = Mesh::new([("x", 3)]);
    let first = inner(&mesh);
    let squares = kernel! { fn squares(V: [i64; 10]) -> W: [i64; 10] { W[i] = V[i] * V[i] for i in 1..9 } };
    let squares = by_blocks(squares, &mesh);
    let inside =
        Sequence::new().stage(&first, ["U"], "V").stage(&squares, ["V"], "W").build().expect("stages that fit");
    check(
        &inside,
        expect![[r#"
        U: no more of it is read than [0..8], [2..10]
        V: all of [1..9] is written
        V: no more of it is read than [1..9]
        W: all of [1..9] is written
        V: all that `squares` reads of it is in [1..9], which `inner` writes
        all that is read is of an input, or was written by an earlier statement
    "#]],
    );
    let doubled = kernel! { fn doubled(V: [i64; 10]) -> W: [i64; 10] { W[i] = 2 * V[i] } };
    let doubled = by_blocks(doubled, &mesh);
    let beyond =
        Sequence::new().stage(&first, ["U"], "V").stage(&doubled, ["V"], "W").build().expect("stages that fit");
    check(
        &beyond,
        expect![[r#"
        U: no more of it is read than [0..8], [2..10]
        V: all of [1..9] is written
        each array that is read is an input, or was written by an earlier statement
        hint: `doubled` reads [0..10] of `V`, of which `inner` writes [1..9]; the other elements hold 0: write all elements that are read, or read only those that are written
    "#]],
    );
    // The values that the hint states.
    let u = ArrayD::from_shape_fn([10].as_slice(), |at| element(0, &[at[0]]));
    let v = reference(first.kernel(), &[&u], None).expect("shapes fit");
    assert_eq!([v[[0]], v[[9]]], [0, 0]);
    let w = reference(doubled.kernel(), &[&v], None).expect("shapes fit");
    assert_eq!(run(&beyond, element), [w]);
    let whole = Sequence::new().stage(&doubled, ["V"], "W").stage(&first, ["W"], "X").build().expect("stages that fit");
    check(
        &whole,
        expect![[r#"
        U: no more of it is read than [0..8], [2..10]
        V: all of [1..9] is written
        all that is read is of an input, or was written by an earlier statement
    "#]],
    );
}

/// The rim that a step does not write has the values of the round before, if it is carried; without `carry` it starts
/// undefined.
#[test]
fn rims_that_rounds_do_not_write_have_values_if_they_are_carried() {
    let mesh = Mesh::new([("x", 2)]);
    let step = inner(&mesh);
    let round = Sequence::new().stage(&step, ["U"], "V").carry("V", "U");
    check(
        &Sequence::new().repeat(3, round).build().expect("rounds"),
        expect![[r#"
        U: no more of it is read than [0..8], [2..10]
        V: all of [1..9] is written
        all that is read is of an input, or was written by an earlier statement
        each round writes all arrays that it carries to the next
    "#]],
    );
    let doubled = kernel! { fn doubled(V: [i64; 10]) -> W: [i64; 10] { W[i] = 2 * V[i] } };
    let doubled = by_blocks(doubled, &mesh);
    let round = Sequence::new().stage(&step, ["U"], "V").stage(&doubled, ["V"], "W").carry("W", "U");
    check(
        &Sequence::new().repeat(3, round).build().expect("rounds"),
        expect![[r#"
        U: no more of it is read than [0..8], [2..10]
        V: all of [1..9] is written
        each array that is read is an input, or was written by an earlier statement
        each round writes all arrays that it carries to the next
        hint: `doubled` reads [0..10] of `V`, of which `inner` writes [1..9]; the other elements hold 0: write all elements that are read, or read only those that are written
    "#]],
    );
    // All points are written, and reads beyond the ends have a value.
    let [x] = mesh.axes();
    vars!(i, io, ii);
    let fixed = kernel! {
        fn fixed(U: [i64; 10]) -> V: [i64; 10] { V[i] = (U[i - 1] else 0) + 3 * (U[i + 1] else 0) }
    };
    let fixed = fixed.distribute([i], [io], [ii], &mesh).shard("U", [dim(0).at(x)]).shard("V", [i.at(x)]);
    let fixed = fixed.lower().expect("a legal schedule");
    let round = Sequence::new().stage(&fixed, ["U"], "V").carry("V", "U");
    check(
        &Sequence::new().repeat(3, round).build().expect("rounds"),
        expect![[r#"
        U: no more of it is read than [0..9], [1..10]
        all that is read is of an input, or was written by an earlier statement
        each round writes all arrays that it carries to the next
    "#]],
    );
}

/// Every second element is written by one kernel and read by the next; a diagonal cannot be followed in terms of boxes.
#[test]
fn elements_at_distances_are_followed_and_diagonals_are_not() {
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    vars!(i, io, ii);
    let spread = kernel! { fn spread(A: [i64; 6]) -> V: [i64; 12] { V[2 * i + 1] = A[i] } };
    let gathered = kernel! { fn gathered(V: [i64; 12]) -> W: [i64; 3] { W[i] = V[4 * i + 3] } };
    let shifted = kernel! { fn shifted(V: [i64; 12]) -> W: [i64; 3] { W[i] = V[4 * i + 2] } };
    let placed = |schedule: Schedule, input: &str, output: &str| {
        let placed = schedule.distribute([i], [io], [ii], &mesh).shard(input, [dim(0).at(x)]);
        placed.shard(output, [dim(0).at(x)]).lower().expect("a legal schedule")
    };
    let spread = placed(spread, "A", "V");
    for (next, expected) in [
        (
            gathered,
            expect![[r#"
        V: all of [1..12 by 2] is written
        V: no more of it is read than [3..12 by 4]
        V: all that `gathered` reads of it is in [1..12 by 2], which `spread` writes
        all that is read is of an input, or was written by an earlier statement
    "#]],
        ),
        (
            shifted,
            expect![[r#"
        V: all of [1..12 by 2] is written
        V: no more of it is read than [2..11 by 4]
        each array that is read is an input, or was written by an earlier statement
        hint: `shifted` reads [2..11 by 4] of `V`, of which `spread` writes [1..12 by 2]; the other elements hold 0: write all elements that are read, or read only those that are written
    "#]],
        ),
    ] {
        let next = placed(next, "V", "W");
        let both = Sequence::new().stage(&spread, ["A"], "V").stage(&next, ["V"], "W").build();
        check(&both.expect("stages that fit"), expected);
    }
    let diagonal = kernel! { fn diagonal(A: [i64; 4]) -> V: [i64; 4, 4] { V[i, i] = A[i] } };
    let rows = kernel! { fn rows(V: [i64; 4, 4]) -> W: [i64; 4] { W[i] += V[i, j] } };
    let [diagonal, rows] = [placed(diagonal, "A", "V"), placed(rows, "V", "W")];
    let both = Sequence::new().stage(&diagonal, ["A"], "V").stage(&rows, ["V"], "W").build();
    check(
        &both.expect("stages that fit"),
        expect![[r#"
        each array that is read is an input, or was written by an earlier statement
        hint: `rows` reads [0..4, 0..4] of `V`, of which `diagonal` is not known to write all; the other elements hold 0: write all elements that are read, or read only those that are written
    "#]],
    );
}
