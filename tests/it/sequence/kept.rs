//! Data that a rank still holds is not fetched again: kernels read it in the tile of the first kernel that needed it.

use super::rounds::run;
use super::{element, whole};
use expect_test::expect;
use ndarray::{ArrayD, ArrayViewD, ArrayViewMutD};
use polyshard::leaf::register;
use polyshard::prelude::*;
use polyshard::runtime::{Transport, reference};
use polyshard::text::parse_kernel;
use polyshard_testing::filled;
use proptest::prelude::*;

/// The product of a matrix with rows over the ranks and one with columns over the ranks: all of the first one is
/// gathered.
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

/// A stencil of this reach on a line of points.
fn stencil(mesh: &Mesh, points: usize, reach: usize) -> Program {
    stencil_by(mesh, points, reach, |schedule| schedule)
}

/// The same with more steps.
fn stencil_by(mesh: &Mesh, points: usize, reach: usize, then: impl Fn(Schedule) -> Schedule) -> Program {
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
    then(stencil).lower().expect("a legal schedule")
}

/// Kernels that all read the same arrays, in sequence; keeps all their outputs.
fn all_of(stages: &[&Program]) -> Program {
    let names: Vec<String> = (0..stages.len()).map(|nth| format!("R{nth}")).collect();
    let sequence = stages.iter().zip(&names).fold(Sequence::new(), |sequence, (stage, name)| {
        let inputs = stage.kernel().inputs().iter().map(|tensor| tensor.name);
        sequence.stage(stage, inputs, name.as_str()).keep(name.as_str())
    });
    sequence.build().expect("stages that fit")
}

/// Kernels that read around an element of a matrix in blocks, with their names.
fn around(mesh: &Mesh, [rows, columns]: [usize; 2]) -> [(&'static str, Program); 6] {
    let [x, y] = mesh.axes();
    vars!(i, j, io, jo, ii, ji);
    let plus = kernel! {
        fn plus(U: [f64; rows, columns]) -> V: [f64; rows, columns] {
            V[i, j] = 0.3 * (U[i - 1, j] else 0.5 + U[i + 1, j] else 0.7) - 0.7 * (U[i, j - 1] else 0.1 + U[i, j + 1] else 0.2)
        }
    };
    let full = kernel! {
        fn full(U: [f64; rows, columns]) -> V: [f64; rows, columns] {
            V[i, j] = 0.3 * (U[i - 1, j - 1] else 0.5 + U[i + 1, j + 1] else 0.7) - 0.7 * (U[i - 1, j + 1] else 0.1 + U[i + 1, j - 1] else 0.2)
        }
    };
    let wide = kernel! {
        fn wide(U: [f64; rows, columns]) -> V: [f64; rows, columns] {
            V[i, j] = 0.3 * (U[i - 2, j] else 0.5 + U[i + 2, j] else 0.7) - 0.7 * (U[i, j - 2] else 0.1 + U[i, j + 2] else 0.2)
        }
    };
    let three = kernel! {
        fn three(U: [f64; rows, columns], W: [f64; 5]) -> V: [f64; rows, columns] {
            V[i, j] += U[i, j + d - 1] else 0.0 * W[d] for d in 0..3
        }
    };
    let five = kernel! {
        fn five(U: [f64; rows, columns], W: [f64; 5]) -> V: [f64; rows, columns] {
            V[i, j] += U[i, j + d - 2] else 0.0 * W[d] for d in 0..5
        }
    };
    let largest = kernel! {
        fn largest(U: [f64; rows, columns]) -> V: [f64; rows, columns] {
            V[i, j] max= U[i + c - 1, j + d - 1] else 0.0 for c in 0..3 for d in 0..3
        }
    };
    let lower = |schedule: Schedule| {
        let tiles = schedule.distribute([i, j], [io, jo], [ii, ji], mesh).shard("U", [dim(0).at(x), dim(1).at(y)]);
        tiles.shard("V", [i.at(x), j.at(y)]).lower().expect("a legal schedule")
    };
    let all = [("plus", plus), ("full", full), ("wide", wide), ("three", three), ("five", five), ("largest", largest)];
    all.map(|(name, kernel)| (name, lower(kernel)))
}

/// Elements whose sums are rounded.
fn rounded(array: usize, at: &[usize]) -> f64 {
    f64::random(array as u64 + 1, at)
}

/// The number of transfers of a program that fetch nothing.
fn kept(program: &Program) -> usize {
    program.nests().map(|nest| nest.kept().count()).sum()
}

/// The maximum of the bytes that a rank receives in a run by messages.
fn received(program: &Program) -> u64 {
    received_of(program, element)
}

/// The same for a program over elements of this type.
fn received_of<T: Element>(program: &Program, fill: impl Fn(usize, &[usize]) -> T + Sync) -> u64 {
    let found = polyshard::spmd(program.mesh().size(), |world| {
        let arrays = filled::inputs(world, program, &fill)?;
        let before = world.bytes_received();
        let mut prepared = program.prepare::<T>(world)?.with_transport(Transport::Messages);
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
    // The part that a rank lacks of 8 rows of 5 elements, of which the last rank owns two.
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
        X: reused from `projection`, nothing is sent
            its tile of X holds it, and nothing has written it since
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
fn of_two_halos_of_one_array_the_wider_one_comes_whichever_is_first() {
    let mesh = Mesh::new([("x", 4)]);
    let [own, near, far] = [0, 1, 2].map(|reach| stencil(&mesh, 13, reach));
    // The rank's own elements are never fetched.
    for (stages, expected, widest) in [
        (vec![&far, &near], 1, &far),
        (vec![&near, &near], 1, &near),
        (vec![&near, &far], 1, &far),
        (vec![&near, &own], 0, &near),
        (vec![&near, &near, &own, &far, &near], 3, &far),
    ] {
        let program = all_of(&stages);
        assert_eq!(kept(&program), expected, "{program}");
        let brought = widest.report().traffic_bytes;
        let found = (program.report().traffic_bytes, received(&program));
        assert_eq!(found, (brought, brought), "{}", program.explain());
        let tiles = stages.iter().map(|one| one.report().tile_bytes).max();
        assert_eq!(Some(program.report().tile_bytes), tiles, "one tile is there for all");
        let u = whole(0, &[13]);
        let of = |one: &&Program| reference(one.kernel(), &[&u], None).expect("shapes fit");
        assert_eq!(run(&program, element), stages.iter().map(of).collect::<Vec<_>>());
    }
}

#[test]
fn a_halo_that_a_later_kernel_needs_says_so() {
    let mesh = Mesh::new([("x", 4)]);
    let [near, far] = [1, 2].map(|reach| stencil(&mesh, 13, reach));
    let explained = all_of(&[&near, &far]).explain();
    let lines: Vec<_> = explained.lines().collect();
    let begin = lines.iter().position(|line| line.starts_with("U: halo")).expect("a halo");
    let first: String = lines[begin..].iter().take(13).map(|line| format!("{line}\n")).collect();
    expect![[r#"
        U: halo(x: -1..=1), once, outside all serial loops
            halo from x - 1..=x + 1
            tile [8] of U[max(0, 4*x - 2)..min(13, min(15, 4*x + 6))]
            at most 32 bytes received per rank and step
            messages with at most 2 other ranks
            a rank's own elements are read in place
            the same in all iterations: messages are planned once
            read in place by threads, sent in messages between processes
            - `far` needs more of it later and reuses this, so all that it needs is fetched here:
            -   the needed region has several owners
            -   axis x: neither aligned, nor the same region for all x
            -   owners are at the offsets x: -1..=1 from the rank
            -   a few neighbours own it, around the rank's own elements: halo
    "#]]
    .assert_eq(&first);
    let (_, second) = explained.split_once("2. run").expect("a second kernel");
    assert!(second.contains("U: reused from `near`, nothing is sent"), "{explained}");
    let (_, proved) = explained.split_once("proved").expect("proofs");
    let of_u = proved.lines().filter(|line| line.contains(" of U:"));
    let of_u: String = of_u.map(|line| format!("{}\n", line.trim())).collect();
    expect![[r#"
        - flow of U: no more of it is read than [0..12], [1..13]
        - residency of U: the rank that an element is read from owns it; what the leaf reads is in the tile; the tile is inside U; the region needed of it is inside the region that `far` needs, which is fetched whole; `near` has it in a tile already, and nothing has written it since
        - matching of U: sender and receiver work out the same pieces; owners are at the offsets x: -1..=1 from the rank
    "#]]
    .assert_eq(&of_u);
}

#[test]
fn what_comes_in_another_way_or_while_its_leaf_computes_comes_again() {
    let mesh = Mesh::new([("x", 4)]);
    let [near, far] = [1, 2].map(|reach| stencil(&mesh, 29, reach));
    let [near_first, far_first] = [1, 2].map(|reach| stencil_by(&mesh, 29, reach, |one| one.interior_first("U")));
    let steps = stencil_by(&mesh, 29, 1, |one| one.halo("U", 3));
    // A kernel that waits for its halo does not fetch that of a kernel which hides it behind its interior.
    for (stages, expected) in [
        ([&near_first, &far], 1),
        ([&near_first, &far_first], 1),
        ([&near, &far_first], 0),
        ([&near, &steps], 0),
        ([&steps, &near], 0),
    ] {
        let program = all_of(&stages);
        assert_eq!(kept(&program), expected, "{program}");
        let alone: u64 = stages.iter().map(|one| one.report().traffic_bytes).sum();
        let brought = if expected == 1 { far.report().traffic_bytes } else { alone };
        let found = (program.report().traffic_bytes, received(&program));
        assert_eq!(found, (brought, brought), "{}", program.explain());
        let hides = program.nests().map(|nest| nest.inputs()[0].is_interior_first()).collect::<Vec<_>>();
        let hid = stages.map(|one| one.nest().inputs()[0].interior_first);
        assert_eq!(hides, [hid[0], hid[1] && expected == 0], "{program}");
        let expected: Vec<_> = stages.iter().flat_map(|one| run(one, element)).collect();
        assert_eq!(run(&program, element), expected);
    }
    // On three ranks, all have parts of the region of the wider one, so it is not a halo.
    let mesh = Mesh::new([("x", 3)]);
    let [near, far] = [1, 2].map(|reach| stencil(&mesh, 3, reach));
    let program = all_of(&[&near, &far]);
    assert_eq!((kept(&program), received(&program)), (0, near.report().traffic_bytes + far.report().traffic_bytes));
}

#[test]
fn what_is_written_again_or_lies_elsewhere_comes_again() {
    let mesh = Mesh::new([("x", 3)]);
    let near = stencil(&mesh, 8, 1);
    // Each reads the output of the one before.
    let chain = Sequence::new().stage(&near, ["U"], "V").stage(&near, ["V"], "W").build().expect("stages that fit");
    assert_eq!(kept(&chain), 0, "{chain}");
    // In each round, the first one fetches the values of the round before.
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
fn corners_come_with_the_first_kernel_that_reads_around_an_element() {
    let all = around(&Mesh::new([("x", 3), ("y", 3)]), [9, 9]);
    for (stages, kept_ones) in [
        (["plus", "full"], 1),
        (["full", "plus"], 1),
        (["plus", "wide"], 1),
        (["wide", "plus"], 1),
        (["full", "largest"], 1),
        (["largest", "full"], 1),
        (["plus", "three"], 1),
        // A star has no corners, and a square of nine points does not reach as far.
        (["wide", "full"], 0),
        (["full", "wide"], 0),
        // In a wider tile, the terms of sums might be in another order.
        (["three", "five"], 0),
        (["three", "plus"], 0),
        (["five", "three"], 1),
    ] {
        let of = |name: &str| &all.iter().find(|(other, _)| *other == name).expect("a kernel").1;
        let [first, second] = stages.map(of);
        let program = all_of(&[first, second]);
        assert_eq!(kept(&program), kept_ones, "{stages:?}\n{}", program.explain());
        let [one, other, both] = [first, second, &program].map(|program| received_of(program, rounded));
        assert_eq!(both, if kept_ones == 0 { one + other } else { one.max(other) }, "{}", program.explain());
    }
}

#[test]
fn a_leaf_that_is_no_nest_does_not_read_the_halo_of_one() {
    // The elements that a rank owns are not in the tile of a halo.
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
    // Its own tile is complete, and any leaf can read it.
    for stages in [[after, next], [after, third], [third, after]] {
        let program = all_of(&stages);
        assert_eq!(kept(&program), 1, "{}", program.explain());
        let alone: Vec<_> = stages.iter().flat_map(|one| run(one, element)).collect();
        assert_eq!(run(&program, element), alone);
    }
}

#[test]
fn sums_of_whole_numbers_read_wider_tiles() {
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    vars!(i, io, ii);
    let near = kernel! { fn near(U: [i64; 10]) -> V: [i64; 10] { V[i] += U[i + d - 1] else 0 for d in 0..3 } };
    let far = kernel! { fn far(U: [i64; 10]) -> V: [i64; 10] { V[i] += U[i + d - 2] else 0 for d in 0..5 } };
    let [near, far] = [near, far].map(|sum| {
        let sum = sum.distribute([i], [io], [ii], &mesh).shard("U", [dim(0).at(x)]).shard("V", [i.at(x)]);
        sum.lower().expect("a legal schedule")
    });
    let program = all_of(&[&near, &far]);
    assert_eq!((kept(&program), received(&program)), (1, received(&far)), "{}", program.explain());
    let alone = [&near, &far].map(|one| run(one, element).swap_remove(0));
    assert_eq!(run(&program, element), alone);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Kernels in any order that read around an element: each gives the same bits as alone; no rank receives more, or
    /// holds more.
    #[test]
    fn kernels_that_read_around_an_element_leave_the_bits_that_they_leave_alone(
        x in 1..4usize, y in 1..4usize, size in [1..9usize, 1..9usize], stages in prop::collection::vec(0..6usize, 2..5),
    ) {
        let all = around(&Mesh::new([("x", x), ("y", y)]), size);
        let stages: Vec<&Program> = stages.iter().map(|&kind| &all[kind].1).collect();
        let program = all_of(&stages);
        let found = run(&program, rounded);
        for (stage, found) in stages.iter().zip(&found) {
            prop_assert_eq!(&run(stage, rounded)[0], found, "{}\n{}", stage, program.explain());
        }
        let together = received_of(&program, rounded);
        let alone: Vec<_> = stages.iter().map(|stage| received_of(stage, rounded)).collect();
        prop_assert!(together <= alone.iter().sum() && together <= program.report().traffic_bytes, "{}", program.explain());
        if kept(&program) + 1 == stages.len() && stages.iter().all(|stage| stage.kernel().inputs().len() == 1) {
            prop_assert_eq!(Some(&together), alone.iter().max(), "{}", program.explain());
        }
        let held: u64 = stages.iter().map(|stage| stage.report().tile_bytes).sum();
        prop_assert!(program.report().tile_bytes <= held, "{}", program.explain());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Kernels in any order on two arrays, each of which is read by several: the sequential results, and the stated
    /// number of bytes received.
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
        // Once, with all their outputs.
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
