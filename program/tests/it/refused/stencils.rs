//! Stencils whose interior is computed first, and stencils of several time steps.

use super::{array, run, sharding};
use expect_test::{Expect, expect};
use polyshard_dsl::{Var, parse_kernel};
use polyshard_layout::Placement;
use polyshard_polyhedral::Schedule;
use polyshard_program::{
    ArrayKind, Body, DType, Expr, LoopId, Nest, NestId, Program, Statement, TileId, TimeSteps, TransferId,
};

fn in_blocks() -> Schedule {
    let (mesh, x) = super::mesh();
    let blur = "fn blur(u: [f32; 16]) -> v: [f32; 16] { v[i] = u[i - 1] else 0 + u[i + 1] else 0 }";
    Schedule::from_spec(parse_kernel(blur).expect("a kernel"))
        .distribute(["i"], ["io"], ["ii"], &mesh)
        .shard("u", [Var::new("i").at(x)])
        .shard("v", [Var::new("i").at(x)])
}

fn with(schedule: &Schedule, change: impl Fn(&mut Nest), then: impl Fn(&mut Body)) -> Result<Program, String> {
    let mut nest = schedule.lower().expect("a program").nest().clone();
    change(&mut nest);
    let mut body = run(nest, &[0, 1]);
    then(&mut body);
    let blocks = || sharding(&[16], &[Placement::block(0, "x")]);
    let arrays = vec![array("u", blocks(), ArrayKind::Input), array("v", blocks(), ArrayKind::Output)];
    let made = Program::new(&super::mesh().0, DType::F32, arrays, body).map_err(|error| error.to_string())?;
    let text = serde_json::to_string(&made).expect("it is written");
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

#[test]
fn an_interior_is_that_of_what_the_rank_owns() {
    let first = in_blocks().interior_first("u");
    let refused = |change: &dyn Fn(&mut Nest), expect: Expect| {
        expect.assert_eq(&with(&first, change, |_| ()).expect_err("it is no program"));
    };
    with(&first, |_| (), |_| ()).expect("it is as it was derived");
    refused(
        &|nest| nest.leaf.interior.as_mut().expect("an interior").ranges[0].0 = Expr::constant(0),
        expect!["statement 1: `blur` has tiles or bounds that do not follow from its transfers"],
    );
    refused(
        &|nest| nest.leaf.interior = None,
        expect!["statement 1: `blur` has tiles or bounds that do not follow from its transfers"],
    );
    refused(
        &|nest| nest.transfers[1].interior_first = true,
        expect![
            "statement 1: `blur` has ranks that differ on the transfer of `v`: the interior of the leaf is computed while it is in flight, but it is not fetched as a halo"
        ],
    );
    let ahead = |body: &mut Body| body.nests[0].transfers[0].ahead = 1;
    expect!["statement 1: `blur` has ranks that differ on the transfer of `u`: it begins 1 iteration ahead, but no loop is around it"].assert_eq(&with(&first, |_| (), ahead).expect_err("it is no program"));
    // It may be awaited before the rims, and no later.
    let begun = Statement::Await(TransferId::Tile { nest: NestId(0), tile: TileId(0) });
    let place = |body: &Body| body.statements.iter().position(|statement| *statement == begun).expect("it is awaited");
    let moved = |to: usize| {
        let change = |body: &mut Body| {
            let awaited = body.statements.remove(place(body));
            body.statements.insert(to, awaited);
        };
        with(&first, |_| (), change)
    };
    assert_eq!(moved(1).expect("it waits earlier than it has to").body().statements[1], begun);
    expect!["statement 1: `blur` does not await its transfer, number 0, once between its begin and its use"]
        .assert_eq(&moved(3).expect_err("it is no program"));
}

#[test]
fn time_steps_find_what_they_read() {
    let steps = in_blocks().halo("u", 3);
    fn of(nest: &mut Nest) -> &mut TimeSteps {
        nest.time_steps.as_mut().expect("time steps")
    }
    let refused = |change: &dyn Fn(&mut Nest), expect: Expect| {
        expect.assert_eq(&with(&steps, change, |_| ()).expect_err("it is no program"));
    };
    with(&steps, |_| (), |_| ()).expect("it is as it was derived");
    refused(
        &|nest| nest.loops[0].extent = 1,
        expect!["statement 1: `blur` has time steps, but no loop that counts them"],
    );
    refused(
        &|nest| nest.time_steps = None,
        expect!["statement 1: `blur` has tiles or bounds that do not follow from its transfers"],
    );
    refused(
        &|nest| of(nest).counter = LoopId(1),
        expect!["statement 1: `blur` has time steps, but no loop that counts them"],
    );
    refused(
        &|nest| of(nest).tile = TileId(1),
        expect!["statement 1: `blur` has time steps, but its transfers do not surround them"],
    );
    refused(
        &|nest| of(nest).capacity = 3,
        expect!["statement 1: `blur` has time steps of 12 elements in buffers of 3"],
    );
    refused(
        &|nest| of(nest).region.ranges[0].0 = Expr::constant(5),
        expect!["statement 1: `blur` has time steps, of which the last does not compute its rank's part"],
    );
    refused(
        &|nest| nest.loops[0].extent = 5,
        expect!["statement 1: `blur` has time steps, of which the last does not compute its rank's part"],
    );
    let once = in_blocks();
    let stepped = |nest: &mut Nest| nest.time_steps = steps.lower().expect("a program").nest().time_steps.clone();
    expect!["statement 1: `blur` has time steps, but no loop that counts them"]
        .assert_eq(&with(&once, stepped, |_| ()).expect_err("it is no program"));
}
