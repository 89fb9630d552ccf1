//! Transfers that no procedure can carry out.

use super::*;
use polyshard_dsl::pin;
use polyshard_program::StagedLeg;
use polyshard_program::reduction::{Collective, Lowered, LoweredStep};

/// A product of 4 by 4 matrices whose sums meet along `x`.
fn summed() -> Schedule {
    let (mesh, x) = mesh();
    let k = Var::new("k");
    let product = Schedule::from_spec(example::matmul(4, 4, 4)).distribute(["k"], ["ko"], ["ki"], &mesh);
    product.divide("m", "mo", "mi", 2).reorder(["mo", "mi", "n", "ki"]).shard("A", [k.at(x)]).shard("B", [k.at(x)])
}

/// One all-reduce in these groups.
fn direct(groups: &[Vec<usize>]) -> Procedure {
    let step = LoweredStep { collective: Collective::AllReduce, groups: groups.to_vec().into(), parts: 1 };
    let steps = Lowered::from_steps(groups.to_vec(), 1, vec![step]).expect("each rank is in a group");
    Procedure::by_steps(steps).expect("it adds up all once")
}

fn in_order(groups: &[Vec<usize>]) -> Procedure {
    Procedure::in_order(groups.to_vec()).expect("each rank is in a group")
}

/// Checks that a procedure cannot carry out a transfer: refused when asked for, and in a program from a file.
fn refused(schedule: Schedule, tile: usize, procedure: Procedure, why: &str) {
    let program = schedule.lower().expect("a program");
    let by = Algorithm::Procedure(procedure);
    let leg = StagedLeg { transfer: TransferId(tile), leg: LegId(0), by: by.clone(), why: "it is tried".into() };
    let asked = program.in_stages(&[leg]).expect_err("it cannot be").to_string();
    let mut body = program.body().clone();
    let Leg::Collective { by: place, .. } = &mut body.transfers[tile].route.legs[0] else {
        panic!("no collective\n{program}")
    };
    *place = by;
    let made = Program::new(body);
    for said in [asked, made.expect_err("it cannot be").to_string()] {
        assert!(said.starts_with("statement 1: `matmul` has ") && said.ends_with(why), "{said}");
    }
}

#[test]
fn procedures_that_do_not_add_up_an_output_of_all() {
    let ([x], m, both) = (mesh().0.axes(), Var::new("m"), [vec![0, 1]]);
    let everywhere = || summed().shard("C", []);
    let gathered = Schedule::from_spec(example::matmul(4, 4, 4))
        .distribute(["m"], ["mo"], ["mi"], &mesh().0)
        .shard("A", [m.at(x)])
        .shard("B", [Var::new("n").at(x)])
        .shard("C", [m.at(x)]);
    let number = |tile: usize, why: &str| format!(" a transfer, number {tile}, by an invalid procedure: {why}");
    for (schedule, tile, procedure, why) in [
        (gathered, 1, direct(&both), number(1, "it adds up sums, but this is an input")),
        (
            summed().shard("C", [pin(x, 1)]),
            2,
            direct(&both),
            number(2, "it leaves the sums on all its ranks, but only one of them owns them"),
        ),
        (
            summed().shard("C", [m.at(x)]),
            2,
            direct(&both),
            number(2, "it leaves the sums on all its ranks, but each owns a part of them"),
        ),
        (
            everywhere().communicate("C", "mo").pipeline("mo", 1),
            2,
            direct(&both),
            ": it is awaited 1 iteration later, but a step of its procedure waits for the one before it".into(),
        ),
        (
            everywhere().reassociate("C"),
            2,
            in_order(&both),
            number(2, "it adds in the order of the ranks, but the communication library is to choose the order"),
        ),
        (everywhere(), 2, direct(&[vec![0], vec![1]]), " combines the groups {0} {1}; it must combine {0 1}".into()),
        (everywhere(), 2, direct(&[vec![0, 1, 2]]), " is for 3 ranks, but the mesh (x: 2) has 2".into()),
        (everywhere(), 2, in_order(&[vec![1, 0]]), " combines the groups {1 0}; it must combine {0 1}".into()),
    ] {
        refused(schedule, tile, procedure, &why);
    }
}

/// Steps may list the ranks of a group in any order.
#[test]
fn procedures_in_another_order_of_ranks_are_programs() {
    let program = summed().shard("C", []).reassociate("C").lower().expect("a program");
    let by = Algorithm::Procedure(direct(&[vec![1, 0]]));
    let leg = StagedLeg { transfer: TransferId(2), leg: LegId(0), by, why: "rank 1 is near".into() };
    let made = program.in_stages(&[leg]).expect("it adds up all");
    let shown = made.explain();
    assert!(shown.contains("all-reduce along x by AllReduce, in any order\n"), "{shown}");
    assert!(
        shown.contains("    1. AllReduce in {1 0}\n") && shown.contains("    - procedure: rank 1 is near\n"),
        "{shown}"
    );
    let claim = "what is summed up is independent of x, and its procedure combines the ranks along x once";
    assert!(shown.contains(claim), "{shown}");
    // As one call again, the program is the original except for the reasons that it states.
    let at_once =
        StagedLeg { transfer: TransferId(2), leg: LegId(0), by: Algorithm::Library, why: "it was tried".into() };
    let again = made.in_stages(&[at_once]).expect("it is at once");
    assert_eq!(again.to_string(), program.to_string());
    assert!(!again.explain().contains("procedure: ") && again.explain().contains("stages: it was tried"));
}
