//! What has come to a rank and was not written since comes once: kernels read it in the tile of the first one that needed it.

use super::rounds::run;
use super::{element, inputs, whole};
use expect_test::expect;
use ndarray::{ArrayD, ArrayViewD, ArrayViewMutD};
use polyshard::leaf::register;
use polyshard::prelude::*;
use polyshard::runtime::Transport;
use polyshard::{Nest, Sequence, parse_kernel, reference};
use proptest::prelude::*;

/// The product of a matrix whose rows lie over the ranks with one whose columns do: all of the first one is gathered.
fn projection(mesh: &Mesh, [rows, inner, columns]: [usize; 3]) -> Program {
    let [x] = mesh.axes();
    vars!(m, n, k, no, ni);
    let projection = kernel! {
        fn projection(X: [i64; rows, inner], W: [i64; inner, columns]) -> Y: [i64; rows, columns] {
            Y[m, n] += X[m, k] * W[k, n]
        }
    };
    let projection = projection.distribute([n], [no], [ni], mesh).shard("X", [m.at(x)]);
    projection.shard("W", [n.at(x)]).shard("Y", [n.at(x)]).tensorize([m, ni, k]).lower().expect("a legal schedule")
}

/// A stencil of this reach on a line.
fn stencil(mesh: &Mesh, points: usize, reach: usize) -> Program {
    let [x] = mesh.axes();
    vars!(i, io, ii);
    let stencil = match reach {
        0 => kernel! { fn own(U: [i64; points]) -> V: [i64; points] { V[i] = 3 * U[i] } },
        1 => {
            kernel! { fn near(U: [i64; points]) -> V: [i64; points] { V[i] = (U[i - 1] else 0) - 2 * (U[i + 1] else 5) } }
        }
        _ => {
            kernel! { fn far(U: [i64; points]) -> V: [i64; points] { V[i] = (U[i - 2] else 1) + U[i] * (U[i + 2] else 0) } }
        }
    };
    let stencil = stencil.distribute([i], [io], [ii], mesh).shard("U", [dim(0).at(x)]).shard("V", [i.at(x)]);
    stencil.lower().expect("a legal schedule")
}

/// Kernels that all read the same arrays, one after the other; what all leave.
fn all_of(stages: &[&Program]) -> Program {
    let names: Vec<String> = (0..stages.len()).map(|nth| format!("R{nth}")).collect();
    let sequence = stages.iter().zip(&names).fold(Sequence::new(), |sequence, (stage, name)| {
        let inputs = stage.kernel().inputs().iter().map(|tensor| tensor.name);
        sequence.stage(stage, inputs, name.as_str()).keep(name.as_str())
    });
    sequence.build().expect("stages that fit")
}

/// How many transfers of a program bring nothing.
fn kept(program: &Program) -> usize {
    program.nests().flat_map(Nest::kept).count()
}

/// The most bytes that a rank receives in a run by messages.
fn received(program: &Program) -> u64 {
    let found = polyshard::spmd(program.mesh().size(), |world| {
        let arrays = inputs(world, program)?;
        let before = world.bytes_received();
        let mut prepared = program.prepare::<i64>(world)?.with_transport(Transport::Messages)?;
        prepared.run_all(&arrays.iter().collect::<Vec<_>>())?;
        Ok(world.bytes_received() - before)
    });
    found.expect("a run").into_iter().max().expect("ranks")
}

#[test]
fn three_products_of_one_matrix_gather_it_once() {
    let mesh = Mesh::new([("x", 3)]);
    let projection = projection(&mesh, [8, 5, 7]);
    let stages = Sequence::new().stage(&projection, ["X", "U"], "Q").stage(&projection, ["X", "V"], "K");
    let program = stages.stage(&projection, ["X", "W"], "Z").keep("Q").keep("K").build().expect("stages that fit");
    assert_eq!(kept(&program), 2, "{program}");
    // What a rank lacks of 8 rows of 5 elements, of which the last has two.
    let once = 6 * 5 * 8;
    assert_eq!((program.report().traffic_bytes, received(&program)), (once, once), "{}", program.explain());
    let alone = Sequence::new().stage(&projection, ["X", "U"], "Q").build().expect("a stage");
    assert_eq!(received(&alone), once);
    assert_eq!(program.report().tile_bytes, alone.report().tile_bytes, "one tile is there for all");
    let explained = program.explain();
    let (_, second) = explained.split_once("2. run").expect("a second kernel");
    let second: String = second.lines().take(5).map(|line| format!("{line}\n")).collect();
    expect![[r#"
         K = projection(X, V), Y[m, n] += X[m, k] * W[k, n]
        X: kept by `projection`, nothing is sent
            it is in the tile of X there, and nothing has written it since
        W: local, once, outside all serial loops
            tile [5, 3] of W[0..5, 3*x..min(7, 3*x + 3)]
    "#]]
    .assert_eq(&second);
    assert!(explained.contains("`projection` has it in a tile already, and nothing has written it since"));
    let [x, u, v, w] = [0, 1, 2, 3].map(|nth| {
        let input = program.inputs().nth(nth).expect("four inputs");
        whole(nth, input.sharding.shape())
    });
    let of = |w: &ArrayD<i64>| reference(projection.kernel(), &[&x, w], None).expect("shapes fit");
    assert_eq!(run(&program, element), [of(&u), of(&v), of(&w)]);
}

#[test]
fn a_halo_that_is_inside_of_another_one_does_not_come_again() {
    let mesh = Mesh::new([("x", 4)]);
    let [own, near, far] = [0, 1, 2].map(|reach| stencil(&mesh, 13, reach));
    let both = |first: &Program, second: &Program| {
        let stages = Sequence::new().stage(first, ["U"], "V").stage(second, ["U"], "W");
        stages.keep("V").build().expect("stages that fit")
    };
    // A wider one is not inside; what is the rank's own does not come anyway.
    for (first, second, expected) in [(&far, &near, 1), (&near, &near, 1), (&near, &far, 0), (&near, &own, 0)] {
        let program = both(first, second);
        assert_eq!(kept(&program), expected, "{program}");
        let found = (program.report().traffic_bytes, received(&program));
        let alone = |one: &Program| one.report().traffic_bytes;
        let brought = alone(first) + if expected == 0 { alone(second) } else { 0 };
        assert_eq!(found, (brought, brought), "{}", program.explain());
        let u = whole(0, &[13]);
        let of = |one: &Program| reference(one.kernel(), &[&u], None).expect("shapes fit");
        assert_eq!(run(&program, element), [of(first), of(second)]);
    }
}

#[test]
fn what_is_written_again_or_lies_elsewhere_comes_again() {
    let mesh = Mesh::new([("x", 3)]);
    let near = stencil(&mesh, 8, 1);
    // Each reads what the one before has written.
    let chain = Sequence::new().stage(&near, ["U"], "V").stage(&near, ["V"], "W").build().expect("stages that fit");
    assert_eq!(kept(&chain), 0, "{chain}");
    // In each round, the first one brings what the round before has left.
    let round = Sequence::new().stage(&near, ["U"], "V").stage(&near, ["U"], "W").carry("V", "U").carry("W", "T");
    let rounds = Sequence::new().repeat(3, round).keep("U").keep("T").build().expect("rounds");
    assert_eq!(kept(&rounds), 1, "{rounds}");
    assert_eq!(received(&rounds), 3 * near.report().traffic_bytes, "{}", rounds.explain());
    assert_eq!(rounds.report().traffic_bytes, 3 * near.report().traffic_bytes);
    let (mut u, mut t) = (whole(0, &[8]), whole(1, &[8]));
    for _ in 0..3 {
        let next = reference(near.kernel(), &[&u], None).expect("shapes fit");
        (u, t) = (next.clone(), next);
    }
    assert_eq!(run(&rounds, element), [u, t]);
}

#[test]
fn a_leaf_that_is_no_nest_does_not_read_the_halo_of_one() {
    // Of that, what a rank owns itself is not in the tile.
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    vars!(i, io, ii, m, n, k, mo, mi);
    let near = kernel! {
        fn near(U: [i64; 8, 4]) -> V: [i64; 8, 4] { V[i, j] = (U[i - 1, j] else 0) - (U[i + 1, j] else 5) }
    };
    let near = near.distribute([i], [io], [ii], &mesh).shard("U", [dim(0).at(x)]).shard("V", [i.at(x)]);
    let product = kernel! {
        fn product(U: [i64; 8, 4], W: [i64; 4, 3]) -> P: [i64; 7, 3] { P[m, n] += U[m + 1, k] * W[k, n] }
    };
    let product = product.distribute([m], [mo], [mi], &mesh).shard("U", [dim(0).at(x)]).shard("P", [m.at(x)]);
    let [near, product] = [near, product.tensorize([mi, n, k])].map(|one| one.lower().expect("a legal schedule"));
    let computes = "fn leaf(L: [i64; 1], next: [i64; 1]) -> D: [i64; 1] { D[i] += L[i] - next[i] }";
    let computes = parse_kernel(computes).expect("a text").check().expect("a kernel");
    let differences = |mut of: ArrayViewMutD<'_, i64>, [one, next]: [ArrayViewD<'_, i64>; 2]| {
        of.zip_mut_with(&(&one - &next), |sum, term| *sum += term);
    };
    register("differences", &computes, differences).expect("a leaf");
    let line = Mesh::new([("x", 3)]);
    let [x] = line.axes();
    let next = kernel! { fn next(L: [i64; 9]) -> D: [i64; 8] { D[i] = 2 * L[i] - L[i + 1] for i in 0..8 } };
    let after = kernel! { fn after(L: [i64; 9]) -> D: [i64; 8] { D[i] = L[i] - L[i + 1] for i in 0..8 } };
    let third = kernel! { fn third(L: [i64; 9]) -> D: [i64; 7] { D[i] = L[i] - L[i + 2] for i in 0..7 } };
    let on_line = |schedule: Schedule| {
        schedule.distribute([i], [io], [ii], &line).shard("L", [dim(0).at(x)]).shard("D", [i.at(x)])
    };
    let named = |schedule: Schedule| on_line(schedule).tensorize_with([ii], "differences");
    let line = [on_line(next), named(after), named(third)].map(|one| one.lower().expect("a legal schedule"));
    let [next, after, third] = &line;
    for stages in [[&near, &product], [next, after], [next, third]] {
        let program = all_of(&stages);
        let alone = stages.map(received);
        assert_eq!((kept(&program), received(&program)), (0, alone.iter().sum()), "{}", program.explain());
        let alone: Vec<_> = stages.iter().flat_map(|one| run(one, element)).collect();
        assert_eq!(run(&program, element), alone);
    }
    // Its own tile is whole, which any leaf reads.
    for stages in [[after, next], [third, after]] {
        let program = all_of(&stages);
        assert_eq!(kept(&program), 1, "{}", program.explain());
        let alone: Vec<_> = stages.iter().flat_map(|one| run(one, element)).collect();
        assert_eq!(run(&program, element), alone);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Kernels in any order on two arrays, each of which is read by several: the same results as one after the other, and what is received is
    /// what is stated.
    #[test]
    fn kernels_that_read_the_same_give_the_sequential_result(
        ranks in 1..5usize, points in 1..12usize, stages in prop::collection::vec((0..3usize, 0..2usize), 1..6), times in 1..4u64,
    ) {
        let mesh = Mesh::new([("x", ranks)]);
        let kernels = [0, 1, 2].map(|reach| stencil(&mesh, points, reach));
        let mut sequence = Sequence::new();
        let names: Vec<String> = (0..stages.len()).map(|nth| format!("R{nth}")).collect();
        for ((reach, array), name) in stages.iter().zip(&names) {
            sequence = sequence.stage(&kernels[*reach], [["A", "B"][*array]], name.as_str());
        }
        let last = names.last().expect("a stage").as_str();
        // Once, with all that they write.
        let all = names.iter().fold(sequence.clone(), |all, name| all.keep(name.as_str())).build().expect("stages");
        let read = |nth: usize| whole(nth, &[points]);
        let inputs: Vec<_> = all.inputs().map(|input| input.name.to_string()).collect();
        let expected: Vec<_> = stages.iter().map(|(reach, array)| {
            let nth = inputs.iter().position(|name| name == ["A", "B"][*array]).expect("it is read");
            reference(kernels[*reach].kernel(), &[&read(nth)], None).expect("shapes fit")
        }).collect();
        prop_assert_eq!(run(&all, element), expected, "{}", all.explain());
        let round = sequence.carry(last, "A");
        let program = Sequence::new().repeat(times, round).build().expect("rounds");
        let given = |name: &str| {
            let nth = program.inputs().position(|input| input.name.as_str() == name);
            nth.map(|nth| whole(nth, &[points]))
        };
        let (mut a, b) = (given("A").expect("it is carried"), given("B"));
        for _ in 0..times {
            let (reach, array) = *stages.last().expect("a stage");
            let read = if array == 0 { &a } else { b.as_ref().expect("it is read") };
            a = reference(kernels[reach].kernel(), &[read], None).expect("shapes fit");
        }
        prop_assert_eq!(run(&program, element), [a], "{}", program.explain());
        prop_assert_eq!(received(&program), program.report().traffic_bytes, "{}", program.explain());
    }
}
