//! Halos for several time steps: the same bits as single steps in sequence, with fewer messages.

use crate::bad_input::schedules::refusal;
use expect_test::expect;
use polyshard::prelude::*;
use polyshard::runtime::Transport;
use polyshard_testing::laws::product::Draw;
use polyshard_testing::random::Choices;
use polyshard_testing::random::pipelined::in_time_steps;
use polyshard_testing::random::stencils::stencil_of;
use polyshard_testing::written::read_back;

fn in_blocks(schedule: Schedule, mesh: &Mesh) -> Schedule {
    vars!(i, j, io, ii, jo, ji);
    let [x, y] = mesh.axes();
    schedule.distribute([i, j], [io, jo], [ii, ji], mesh).shard("u", [i.at(x), j.at(y)]).shard("v", [i.at(x), j.at(y)])
}

/// Rows end, columns wrap around, and the mean is of points at different distances.
fn blur(rows: usize, columns: usize, mesh: &Mesh) -> Schedule {
    let blur = kernel! {
        fn blur(u: [f64; rows, columns]) -> v: [f64; rows, columns] {
            v[i, j] = 0.3 * (u[i - 1, j] else 0.5) + 0.2 * (u[i + 2, j] else 0.25) + 0.4 * u[i, (j - 1) % columns] - 0.1 * u[i, j]
        }
    };
    in_blocks(blur, mesh)
}

fn element(at: &[usize]) -> f64 {
    let mixed = at.iter().fold(7u64, |all, &at| all.wrapping_mul(31).wrapping_add(at as u64 * 0x9e37_79b9));
    (mixed % 1021) as f64 / 1021.0
}

/// The bits of the output on each rank after this many runs, each of which reads the output of the one before, and the
/// bytes that ranks received.
fn bits(program: &Program, runs: usize, transport: Transport) -> Vec<(Vec<u64>, u64)> {
    let found = polyshard::spmd(program.mesh().size(), |world| {
        let mut prepared = program.prepare::<f64>(world)?.with_transport(transport);
        let mut array = DistArray::from_fn(world, program.sharding("u"), element)?;
        let before = world.bytes_received();
        for _ in 0..runs {
            array = prepared.run(&[&array])?;
        }
        Ok((array.block().iter().map(|element| element.to_bits()).collect(), world.bytes_received() - before))
    });
    found.unwrap_or_else(|error| panic!("{error}\n{program}"))
}

#[test]
fn several_steps_with_one_halo_give_the_bits_of_one_after_the_other() {
    for ranks in [[1, 1], [2, 1], [1, 3], [3, 2], [4, 3]] {
        let mesh = Mesh::new([("x", ranks[0]), ("y", ranks[1])]);
        // Blocks of rows are 7 or more, so that three steps of 2 rows stay inside.
        for (rows, columns) in [(7 * ranks[0], 5 * ranks[1]), (8 * ranks[0] - 1, 6 * ranks[1] - 2)] {
            let one = blur(rows, columns, &mesh).lower().expect("a legal schedule");
            for steps in 1..=3 {
                let several = blur(rows, columns, &mesh).halo("u", steps).lower();
                let several = read_back(&several.unwrap_or_else(|error| panic!("{rows} {columns} {mesh}: {error}")));
                for transport in [Transport::Messages, Transport::Auto] {
                    let (expected, found) = (bits(&one, 2 * steps, transport), bits(&several, 2, transport));
                    let of = |ranks: &[(Vec<u64>, u64)]| ranks.iter().map(|rank| rank.0.clone()).collect::<Vec<_>>();
                    assert_eq!(of(&found), of(&expected), "{steps} steps, {transport:?}\n{several}");
                }
            }
        }
    }
}

/// One message instead of three, with the three rims and corners.
#[test]
fn a_halo_for_several_steps_is_as_wide_as_these_reach_together() {
    let mesh = Mesh::new([("x", 3), ("y", 2)]);
    let [one, three] = [1, 3].map(|steps| blur(24, 12, &mesh).halo("u", steps).lower().expect("a legal schedule"));
    // For the rank in the middle: a row above, two below, and a column on the left.
    assert_eq!(one.report().traffic_bytes, 8 * (3 * 6 + 8));
    assert_eq!(three.report().traffic_bytes, 8 * (9 * (6 + 3) + 8 * 3));
    let received = |program: &Program| bits(program, 1, Transport::Messages).iter().map(|rank| rank.1).max();
    assert_eq!([&one, &three].map(received), [&one, &three].map(|program| Some(program.report().traffic_bytes)));
    let work = [&one, &three].map(|program| program.nest().work().operations);
    assert!(work[1] > 3 * work[0] && work[1] < 6 * work[0], "{work:?}");
    expect![[r#"
        // blur: v[i, j] = 0.3 * (u[i - 1, j] else 0.5) + 0.2 * (u[i + 2, j] else 0.25) + 0.4 * u[i, (j - 1) % 12] - 0.1 * u[i, j], f64
        // mesh(x: 3, y: 2), 6 ranks
        // u[24, 12]: dim(0) @ x, j @ y
        // v[24, 12]: i @ x, j @ y
        on each rank (x, y):
            u_tile[17, 9] = u[max(0, 8*x - 3)..min(24, 8*x + 14), (6*y - 3 .. +9) % 12]: halo from x - 1..=x + 1, y - 1..=y around the axis
            for step in 0..3:    // halo(u, 3)
                v[i, j] = 0.3 * (u[i - 1, j] else 0.5) + 0.2 * (u[i + 2, j] else 0.25) + 0.4 * u[i, (j - 1) % 12] - 0.1 * u[i, j]    // nest
                    over i: min(24, 8*x - 2*step + 12) - max(0, 8*x + step - 2) from max(0, 8*x + step - 2); j: -step + 8 from 6*y + step - 2
                    into [max(0, 8*x + step - 2)..min(24, 8*x - 2*step + 12), 6*y + step - 2..6*y + 6] of a buffer, where the next step reads it as u; at step = 2 into v
    "#]].assert_eq(&three.to_string());
}

/// Rounds of several steps each.
#[test]
fn rounds_of_time_steps_are_verified() {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let rounds = |steps: usize, times| {
        let step = blur(20, 14, &mesh).halo("u", steps).lower().expect("a legal schedule");
        Sequence::new().repeat(times, Sequence::new().stage(&step, ["u"], "v").carry("v", "u")).build()
    };
    let [one, three] = [rounds(1, 6), rounds(3, 2)].map(|program| program.expect("a program"));
    let run = |program: &Program| {
        polyshard::spmd(4, |world| {
            let begin = DistArray::from_fn(world, program.sharding("u"), element)?;
            let end = program.prepare(world)?.run(&[&begin])?;
            assert_eq!(program.verify(world, &[&begin], &[&end], 1e-12)?.max(1e-12), 1e-12);
            Ok(end.block().iter().map(|element| element.to_bits()).collect::<Vec<_>>())
        })
        .expect("it runs")
    };
    assert_eq!(run(&three), run(&one));
}

#[test]
fn random_stencils_take_several_steps_as_often_as_their_halos_are_near() {
    let (mut draw, mut taken) = (Draw(3), 0);
    for _ in 0..300 {
        let choices: Vec<u32> = (0..40).map(|_| draw.below(5040) as u32).collect();
        let schedule = stencil_of(DType::F64, &mut Choices::new(&choices));
        taken += usize::from(in_time_steps(&schedule, 2).is_some());
    }
    assert!(taken > 15, "{taken}");
}

#[test]
fn kernels_that_cannot_be_applied_to_what_they_write_are_refused() {
    let said = |schedule| refusal(schedule, file!());
    vars!(ii, it, ie);
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let square = || blur(20, 14, &mesh);
    let wider = kernel! { fn f(u: [f64; 20, 15]) -> v: [f64; 20, 14] { v[i, j] = u[i, j + 1] } };
    let turned = kernel! { fn f(u: [f64; 20, 20]) -> v: [f64; 20, 20] { v[i, j] = u[j, i] } };
    let added = kernel! { fn f(u: [f64; 20, 14]) -> v: [f64; 20, 14] { v[i, j] += u[i, j] } };
    let two = kernel! { fn f(u: [f64; 20, 14], w: f64) -> v: [f64; 20, 14] { v[i, j] = w[] * u[i, j] } };
    let refusals = [
        said(square().halo("w", 2)),
        said(square().halo("u", 0)),
        said(square().halo("u", 2).halo("u", 2)),
        said(blur(20, 14, &Mesh::new([("x", 5), ("y", 1)])).halo("u", 3)),
        said(square().halo("u", 2).interior_first("u")),
        said(in_blocks(wider, &mesh).halo("u", 2)),
        said(in_blocks(turned, &mesh).halo("u", 2)),
        said(in_blocks(added, &mesh).halo("u", 2)),
        said(in_blocks(two, &mesh).halo("u", 2)),
        said(square().split(ii, it, ie, 2).halo("u", 2).communicate("u", it)),
    ];
    expect![[r#"
        schedule step 4, `halo(w, 2)`:
            no tensor `w`; the tensors are u, v
        schedule step 4, `halo(u, 0)`:
            a halo cannot serve 0 time steps; give a number from 1 to 64
        schedule step 5, `halo(u, 2)`:
            `u` already has a halo for several steps in step 4; remove one of the two
        schedule step 4, `halo(u, 3)`:
            the kernel cannot be applied several times with one halo of `u`: a halo for that many steps reaches beyond the neighbours' blocks; apply it once, and `repeat` that; or make it a stencil in blocks at least as wide as the halo
        schedule step 5, `interior_first(u)`:
            the interior cannot be computed before `u` has arrived: loops around the leaf reuse the fetched tile; leave `interior_first` out, or communicate `u` as a halo at the innermost loop around a nest
        schedule step 4, `halo(u, 2)`:
            the kernel cannot be applied several times with one halo of `u`: its input and its output have different shapes, or the input is another one; apply it once, and `repeat` that; or make it a stencil in blocks at least as wide as the halo
        schedule step 4, `halo(u, 2)`:
            the kernel cannot be applied several times with one halo of `u`: it reads elements that are not at a fixed distance from the one that it writes; apply it once, and `repeat` that; or make it a stencil in blocks at least as wide as the halo
        schedule step 4, `halo(u, 2)`:
            the kernel cannot be applied several times with one halo of `u`: it does not assign each element of its output once, with one index per dimension; apply it once, and `repeat` that; or make it a stencil in blocks at least as wide as the halo
        schedule step 4, `halo(u, 2)`:
            the kernel cannot be applied several times with one halo of `u`: it reads other tensors, which do not change with the steps; apply it once, and `repeat` that; or make it a stencil in blocks at least as wide as the halo
        schedule step 5, `halo(u, 2)`:
            the kernel cannot be applied several times with one halo of `u`: there are loops around its leaf, or the leaf is not a nest; apply it once, and `repeat` that; or make it a stencil in blocks at least as wide as the halo
    "#]]
    .assert_eq(&refusals.concat());
}
