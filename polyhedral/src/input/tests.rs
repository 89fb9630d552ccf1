//! How many transfers an input has: `C[m, n] += A[..] * A[..]` of 12 by 12, with rows over 3 ranks.

use super::*;
use crate::Schedule;
use polyshard_dsl::Var;
use polyshard_layout::{Mesh, Name};
use polyshard_program::{Affine, KernelSpec, Value};
use polyshard_testing::example;

/// The operands that each transfer of `A` serves, and the pattern of each.
#[track_caller]
fn check(accesses: [[(&str, i64); 2]; 2], rows: i128, homed: bool, expect: &[(&[usize], &str)]) {
    let access = |index: [(&str, i64); 2]| {
        let index = index.map(|(name, offset)| Affine::new([(Name::new(name), 1)], offset));
        Value::Access(Access::new(Name::new("A"), index.into()))
    };
    let [first, second] = accesses.map(access);
    let spec = KernelSpec {
        inputs: vec![(Name::new("A"), vec![rows, 12])],
        ranges: ["m", "n", "k"].map(|name| (Name::new(name), 0..12)).into(),
        value: Value::Mul(Box::new(first), Box::new(second)),
        ..example::matmul(12, 12, 12)
    };
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let mut schedule = Schedule::from_spec(spec).distribute(["m"], ["mo"], ["mi"], &mesh);
    if homed {
        schedule = schedule.shard("A", [polyshard_dsl::dim(0).at(x)]);
    }
    let context = Context::new(&schedule).expect("the steps are legal");
    let (transfers, _) = transfers(&context).expect("there are routes");
    let found = transfers.iter().map(|transfer| {
        let operands: Vec<_> = transfer.operands.iter().map(|operand| operand.0).collect();
        (operands, transfer.route.pattern(transfer.direction, &mesh).to_string())
    });
    let found: Vec<_> = found.collect();
    let expect: Vec<_> = expect.iter().map(|&(operands, pattern)| (operands.to_vec(), pattern.to_owned())).collect();
    assert_eq!(found, expect);
}

#[test]
fn accesses_that_differ_in_constants_share_a_transfer() {
    check([[("m", 0), ("k", 0)], [("m", 1), ("k", 0)]], 13, true, &[(&[0, 1], "exchange")]);
}

#[test]
fn rows_that_a_rank_owns_are_not_read_from_the_tile_of_all() {
    check([[("m", 0), ("k", 0)], [("n", 0), ("k", 0)]], 12, true, &[(&[0], "local"), (&[1], "all_gather(x)")]);
}

#[test]
fn what_is_inside_of_a_tile_that_moves_is_read_from_it() {
    // One access reads some columns of `A`, the other all; `A` is sharded by rows.
    check([[("k", 0), ("m", 0)], [("k", 0), ("n", 0)]], 12, true, &[(&[0, 1], "all_gather(x)")]);
}

#[test]
fn what_every_rank_owns_is_read_where_it_lies() {
    check([[("m", 0), ("k", 0)], [("n", 0), ("k", 0)]], 12, false, &[(&[0], "local"), (&[1], "local")]);
}

#[test]
fn a_transfer_says_which_loops_it_is_outside_of() {
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let rows = Schedule::from_spec(example::matmul(12, 4, 4))
        .distribute(["m"], ["mo"], ["mi"], &mesh)
        .shard("B", [Var::new("k").at(x)])
        .communicate("B", "mi");
    let context = Context::new(&rows).expect("the steps are legal");
    let (transfers, _) = transfers(&context).expect("there are routes");
    assert_eq!((transfers[1].level, transfers[1].tile.capacity), (Depth(0), 16));
    assert_eq!(transfers[1].tests[0], "the 1 inner loops do not change what is read, so it is fetched outside them");
}
