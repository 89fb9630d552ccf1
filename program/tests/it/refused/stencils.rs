//! Stencils whose interior is computed first, and stencils of several time steps.

use expect_test::expect;
use polyshard_dsl::{Var, parse_kernel};
use polyshard_polyhedral::Schedule;
use polyshard_program::{At, Body, CounterId, Expr, Program, Statement, TileId, TimeSteps, TransferId};

fn in_blocks() -> Schedule {
    let (mesh, x) = super::mesh();
    let blur = "fn blur(u: [f32; 16]) -> v: [f32; 16] { v[i] = u[i - 1] else 0 + u[i + 1] else 0 }";
    Schedule::from_spec(parse_kernel(blur).expect("a kernel"))
        .distribute(["i"], ["io"], ["ii"], &mesh)
        .shard("u", [Var::new("i").at(x)])
        .shard("v", [Var::new("i").at(x)])
}

fn with(schedule: &Schedule, change: impl Fn(&mut Body)) -> Result<Program, String> {
    let mut body = schedule.lower().expect("a program").body().clone();
    change(&mut body);
    let made = Program::new(body).map_err(|error| error.to_string())?;
    let text = serde_json::to_string(&made).expect("it is written");
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

#[test]
fn an_interior_is_that_of_what_the_rank_owns() {
    let first = in_blocks().interior_first("u");
    let refused = |change: &dyn Fn(&mut Body)| with(&first, change).expect_err("it is not a program") + "\n";
    with(&first, |_| ()).expect("it is as it was derived");
    // It may be awaited before the rims, and no later.
    let begun = Statement::End(TransferId(0), At::NOW);
    let place = |body: &Body| body.statements.iter().position(|statement| *statement == begun).expect("it is awaited");
    let moved = |to: usize| {
        let change = |body: &mut Body| {
            let awaited = body.statements.remove(place(body));
            body.statements.insert(to, awaited);
        };
        with(&first, change)
    };
    let refusals = [
        refused(&|body| body.kernels[0].leaf.interior.as_mut().expect("an interior").ranges[0].0 = Expr::constant(0)),
        refused(&|body| body.kernels[0].leaf.interior = None),
        refused(&|body| body.transfers[1].interior_first = true),
        refused(&|body| body.transfers[0].ahead = 1),
    ]
    .concat();
    expect![[r#"
        statement 1: `blur` has tiles or bounds that do not follow from its transfers
        statement 1: `blur` has tiles or bounds that do not follow from its transfers
        statement 1: `blur` has ranks that differ on the transfer of `v`: the interior of the leaf is computed while it is in flight, but it is not fetched as a halo
        statement 1: `blur` has ranks that differ on the transfer of `u`: it begins 1 iteration ahead, but no loop is around it
    "#]].assert_eq(&refusals);
    assert_eq!(moved(1).expect("it waits earlier than it has to").body().statements[1], begun);
    expect!["statement 1: `blur` runs its leaf before its transfer, number 0, has ended"]
        .assert_eq(&moved(3).expect_err("it is not a program"));
}

#[test]
fn time_steps_find_what_they_read() {
    let steps = in_blocks().halo("u", 3);
    fn of(body: &mut Body) -> &mut TimeSteps {
        body.kernels[0].time_steps.as_mut().expect("time steps")
    }
    let refused = |change: &dyn Fn(&mut Body)| with(&steps, change).expect_err("it is not a program") + "\n";
    with(&steps, |_| ()).expect("it is as it was derived");
    let once = in_blocks();
    let stepped =
        |body: &mut Body| body.kernels[0].time_steps = steps.lower().expect("a program").nest().time_steps.clone();
    let refusals = [
        refused(&|body| body.loops[0].extent = 1),
        refused(&|body| body.kernels[0].time_steps = None),
        refused(&|body| of(body).counter = CounterId(1)),
        refused(&|body| of(body).tile = TileId(1)),
        refused(&|body| of(body).capacity = 3),
        refused(&|body| of(body).region.ranges[0].0 = Expr::constant(5)),
        refused(&|body| body.loops[0].extent = 5),
    ]
    .concat();
    expect![[r#"
        statement 1: `blur` has time steps, but no loop that counts them
        statement 1: `blur` has tiles or bounds that do not follow from its transfers
        statement 1: `blur` has time steps, but no loop that counts them
        statement 1: `blur` has time steps, but its transfers do not surround them
        statement 1: `blur` has time steps of 12 elements in buffers of 3
        statement 1: `blur` has time steps, of which the last does not compute its rank's part
        statement 1: `blur` has time steps, of which the last does not compute its rank's part
    "#]]
    .assert_eq(&refusals);
    expect!["statement 1: `blur` has time steps, but no loop that counts them"]
        .assert_eq(&with(&once, stepped).expect_err("it is not a program"));
}
