//! Chosen schedules give the sequential result, fit into the memory, and receive words near the lower bound.

use crate::kernels::{einsum, formula, hold, numbered, square};
use crate::machines::machine;
use expect_test::expect;
use polyshard::runtime::Transport;
use polyshard_dsl::{Clause, Var, dim, parse_kernel, pin};
use polyshard_layout::{DType, Mesh};
use polyshard_machine::{Device, Interconnect, Level, Machine, PRESETS};
use polyshard_polyhedral::Schedule;
use polyshard_search::{Candidate, Choice, Choose, SearchError, SequenceSearch};
use polyshard_testing::example;
use polyshard_testing::filled::verified;
use polyshard_testing::program::IsAs;
use proptest::prelude::*;
use std::time::Duration;

fn grid(choice: &Choice) -> Vec<usize> {
    grid_of(choice.best())
}

fn grid_of(candidate: &Candidate) -> Vec<usize> {
    candidate.grid().iter().map(|(_, ranks)| *ranks).collect()
}

/// Runs the best schedule of an einsum over arrays filled from their global index, and compares the output with the
/// sequential result.
fn check(text: &str, shapes: &[Vec<usize>], ranks: usize, machine: &Machine) -> Result<(), String> {
    let schedule = numbered(text, shapes, DType::I64);
    let choice = schedule.auto(ranks, machine).find().map_err(|error| error.to_string())?;
    let (program, used) = (choice.program(), choice.best().ranks());
    let bound = choice.bound().words;
    let words = choice.best().words() as f64;
    if used > ranks {
        return Err(format!("{used} of {ranks} ranks are used"));
    }
    is_pasted(&schedule, &choice);
    let element = |_, at: &[usize]| at.iter().fold(3, |sum, &at| (7 * sum + at as i64) % 23 - 11);
    let received = verified(program, Transport::Auto, 0.0, element).map_err(|error| error.to_string())?;
    if received > 8 * choice.best().words() {
        return Err(format!("{received} bytes are received, and {words} words were said"));
    }
    // All ranks have an array without dimensions.
    let even = shapes.iter().all(|shape| shape.is_empty() || shape.iter().product::<usize>().is_multiple_of(used));
    if even && bound > words + 1e-6 * bound {
        return Err(format!("{words} words, fewer than any algorithm moves: {bound}"));
    }
    Ok(())
}

/// Checks that the printed chain is the chosen schedule.
fn is_pasted(kernel: &Schedule, choice: &Choice) {
    let steps = polyshard::text::parse_chain(&choice.chain(), None).expect("steps");
    let pasted = steps.into_iter().fold(kernel.clone(), Schedule::apply);
    assert_eq!(pasted.lower().expect("a program"), *choice.program());
}

/// The sharding of a tensor on a mesh of `x` and `y`: free, on all ranks, on those at one coordinate, or in blocks of
/// its first dimension, equal or not, along one axis or both.
fn home(ndim: usize, choice: usize) -> Option<Vec<Clause>> {
    let rows = dim(0);
    let clauses = match choice % 7 {
        0 => return None,
        1 => vec![],
        2 => vec![pin("x", 0)],
        3 => vec![rows.at("x")],
        4 => vec![rows.at("x"), pin("y", choice % 2)],
        5 => vec![rows.cyclic("y", 3)],
        _ => vec![rows.at("y"), pin("x", 1)],
    };
    (ndim > 0 || choice % 7 < 3).then_some(clauses)
}

#[test]
fn no_choice_that_divides_the_work_evenly_receives_less_than_its_bound() {
    let index = || prop::sample::select(vec!['i', 'j', 'k']);
    let term = || prop::collection::vec(index(), 0..3);
    let extent = || prop::sample::select(vec![1usize, 4, 6, 10, 12]);
    let lies = prop::collection::vec(0usize..14, 4);
    let problem =
        (prop::collection::vec(term(), 1..4), prop::collection::vec(extent(), 3), 0usize..3, any::<u8>(), lies);
    let machine = machine(4, 10.0);
    let meshes = [[2, 2], [2, 1], [4, 1]].map(|[x, y]| Mesh::new([("x", x), ("y", y)]));
    let (compared, bounded) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let law = |(terms, extents, mesh, choice, lies): (Vec<Vec<char>>, Vec<usize>, usize, u8, Vec<usize>)| {
        let extent = |index: &char| extents[*index as usize - 'i' as usize];
        let shapes: Vec<Vec<usize>> = terms.iter().map(|term| term.iter().map(extent).collect()).collect();
        let schedule = numbered(&formula(&terms, choice.into()), &shapes, DType::I64);
        let kernel = schedule.kernel().expect("a kernel");
        let mut search = schedule.auto(4, &machine).on(&meshes[mesh]);
        for (tensor, &choice) in kernel.tensors().zip(&lies) {
            if let Some(clauses) = home(tensor.ndim(), choice) {
                search = search.shard(tensor.name, clauses);
            }
        }
        // Not all of these shardings are legal.
        let Ok(found) = search.find() else { return Ok(()) };
        let extents = kernel.vars().iter().map(|var| var.extent);
        let is_even = found.best().grid().iter().zip(extents).all(|((_, ranks), extent)| extent.is_multiple_of(*ranks));
        if !is_even || found.best().ranks() < meshes[mesh].size() {
            return Ok(());
        }
        let (bound, words) = (found.bound().elements(), found.best().words());
        compared.set(compared.get() + 1);
        bounded.set(bounded.get() + usize::from(bound > 0));
        prop_assert!(bound <= words, "{words} words, fewer than {bound}: {kernel}\n{}", found.chain());
        Ok(())
    };
    hold(400, &problem, law);
    assert!(compared.get() > 80 && bounded.get() > 30, "{compared:?} {bounded:?}");
}

#[test]
fn chosen_schedules_give_the_sequential_result() {
    let index = || prop::sample::select(vec!['i', 'j', 'k', 'l']);
    let term = || prop::collection::vec(index(), 0..4);
    let problem = (prop::collection::vec(term(), 1..4), prop::collection::vec(1usize..9, 4), 1usize..13, any::<u16>());
    let machines = [machine(12, 1.0), machine(12, 100.0)];
    let law = |(terms, extents, ranks, choice): (Vec<Vec<char>>, Vec<usize>, usize, u16)| {
        let extent = |index: &char| extents["ijkl".find(*index).expect("one of these")];
        let (text, shape) = (formula(&terms, choice), |term: &Vec<char>| term.iter().map(extent).collect());
        let shapes: Vec<Vec<usize>> = terms.iter().map(shape).collect();
        let machine = &machines[usize::from(choice >> 9 & 1)];
        check(&text, &shapes, ranks, machine)
            .map_err(|why| TestCaseError::fail(format!("{text} {shapes:?} on {ranks}: {why}")))
    };
    hold(300, &problem, law);
}

#[test]
fn grids_are_those_of_the_bounds_where_words_take_all_the_time() {
    // If only the time of words matters, a square product uses the grids of the literature; with a prime number of
    // ranks, one rank is idle.
    for (ranks, expected, ratio) in [
        (4, vec![1, 2, 2], 1.135),
        (6, vec![1, 2, 3], 1.224),
        (7, vec![1, 2, 3], 1.224),
        (8, vec![2, 2, 2], 1.0),
        (64, vec![4, 4, 4], 1.0),
    ] {
        let machine = machine(ranks, 1e4);
        let choice = square(4032).auto(ranks, &machine).find().expect("a choice");
        // The loops are interchangeable here.
        let mut found = grid(&choice);
        found.sort_unstable();
        assert_eq!(found, expected, "{ranks}");
        let found = choice.best().words() as f64 / choice.bound().words;
        assert!((found - ratio).abs() < 1e-3, "{ranks}: {found}");
        assert_eq!(choice.gap(), 0.0);
    }
}

/// There are too many ranks to visit each, so the words received are a bound: the elements that others own.
#[test]
fn on_many_ranks_what_is_gathered_is_what_others_own() {
    let choice = square(1024).auto(4096, &machine(4096, 1e5)).find().expect("a choice");
    assert_eq!(grid(&choice), [16; 3]);
    assert!(choice.program().nest().volumes().iter().all(|volume| !volume.is_counted), "{}", choice.program());
    // A rank receives the elements that it does not own of a block of 64 x 64 of each of the three.
    assert_eq!(choice.best().words(), 3 * (64 * 64 - 1024 * 1024 / 4096));
    let bound = choice.program().kernel().lower_bound(4096, None).words;
    assert!((choice.best().words() as f64 / bound - 1.0).abs() < 1e-9, "{bound}");
}

#[test]
fn tall_products_are_divided_along_the_long_side() {
    let machine = machine(16, 10.0);
    let tall = Schedule::from_spec(example::matmul(32768, 1024, 1024));
    assert_eq!(grid(&tall.auto(16, &machine).find().expect("a choice")), [16, 1, 1]);
    let inner = Schedule::from_spec(example::matmul(64, 64, 1 << 20));
    assert_eq!(grid(&inner.auto(16, &machine).find().expect("a choice")), [1, 1, 16]);
}

#[test]
fn the_memory_is_kept_and_what_does_not_fit_is_refused() {
    let machine = machine(4, 10.0);
    let free = square(1024).auto(4, &machine).find().expect("a choice");
    let least = free.others().iter().map(|other| other.cost().memory).chain([free.cost().memory]).min().expect("one");
    assert!(free.cost().memory > least);
    let held = square(1024).auto(4, &machine).memory(least).find().expect("a choice");
    assert!(held.cost().memory <= least && held.cost().seconds() >= free.cost().seconds());
    // More panels make tiles smaller; shares stay.
    let shares = 3 * 4 * 1024 * 1024 / 4;
    let tight = square(1024).auto(4, &machine).memory(shares + (256 << 10)).find().expect("a choice");
    assert!(tight.cost().memory <= shares + (256 << 10));
    let refused = square(1024).auto(4, &machine).memory(shares / 2).find().expect_err("it does not fit");
    let SearchError::Memory { least, .. } = refused else { panic!("{refused}") };
    assert!(least > shares / 2);
    square(1024).auto(4, &machine).memory(least).find().expect("what is said to do does");
}

#[test]
fn where_memory_is_short_words_stay_near_the_bound_that_it_leaves() {
    // Ranks keep their shares, so a little more memory only has room for panels: the output, or one input, stays in
    // place, and a square of ranks passes on the two others. A tile shared by two ranks, two thirds of the shares in
    // size, fits if the memory is at least 5/3 of them.
    for (ranks, shares, most) in [
        (16, 1.1, 1.317),
        (16, 1.5, 1.317),
        (16, 1.8, 1.1),
        (64, 1.5, 1.56),
        (64, 2.0, 1.23),
        (64, 2.6, 1.001),
        (64, 4.0, 1.001),
    ] {
        let memory = (shares * 3.0 * 4.0 * 2048.0 * 2048.0 / ranks as f64) as u64;
        let machine = machine(ranks, 1e6);
        let search = square(2048).auto(ranks, &machine).all_ranks().memory(memory);
        let choice = search.find().expect("a choice");
        let ratio = choice.best().words() as f64 / choice.bound().words;
        assert!(choice.cost().memory <= memory && ratio <= most, "{ranks}, {shares}: {ratio}\n{}", choice.chain());
    }
}

#[test]
fn panels_come_while_others_are_computed_where_that_is_clearly_faster() {
    let even = machine(4, 300.0);
    let choice = square(480).auto(4, &even).find().expect("a choice");
    assert!(choice.chain().contains(".pipeline("), "{}", choice.cost());
    let hidden: f64 = choice.cost().parts.iter().map(|part| part.hidden).sum();
    let moving = choice.cost().moving();
    assert!(hidden > moving, "{}", choice.cost());
    // Without the step it is slower, and so is every schedule without overlap.
    let steps = choice.schedule().steps().filter(|step| !step.to_string().starts_with("pipeline("));
    let waiting = steps.cloned().fold(square(480), Schedule::apply);
    let why = choice.why_not(&[waiting]).expect("it is legal");
    assert!(why.contains("the chosen one is faster"), "{why}");
    let waits = |candidate: &&Candidate| !candidate.chain().contains(".pipeline(");
    let others = choice.others().iter().filter(waits).map(|other| other.cost().seconds());
    assert!(others.fold(f64::INFINITY, f64::min) * 0.97 > choice.cost().seconds());
    // The printed chain gives the same program, and it runs.
    is_pasted(&square(480), &choice);
    check_candidate(choice.best());
    // Nothing is pipelined if there is hardly anything to hide, or if ranks share memory.
    for machine in [machine(4, 1.0), machine(4, 300.0).with_shared_memory("rank").expect("a level")] {
        let choice = square(480).auto(4, &machine).find().expect("a choice");
        assert!(!choice.chain().contains(".pipeline("), "{}", choice.cost());
    }
}

#[test]
fn halos_come_while_the_interior_is_computed_where_that_is_clearly_faster() {
    let stencil = |extent: usize| {
        let text = format!(
            "fn sweep(u: [f32; {extent}, {extent}]) -> v: [f32; {extent}, {extent}] {{ v[i, j] = u[i, j] + u[i - 1, j] else 0 \
             + u[i + 1, j] else 0 + u[i, j - 1] else 0 + u[i, j + 1] else 0 }}"
        );
        Schedule::from_spec(parse_kernel(&text).expect("a kernel"))
    };
    let choice = stencil(480).auto(4, &machine(4, 300.0)).find().expect("a choice");
    assert!(choice.chain().contains(".interior_first(u)"), "{}\n{}", choice.chain(), choice.cost());
    assert!(choice.gap() < 1.0 && choice.cost().parts.iter().any(|part| part.hidden > 0.0), "{}", choice.cost());
    is_pasted(&stencil(480), &choice);
    check_candidate(choice.best());
    // The same holds in a sequence.
    let machine = machine(4, 300.0);
    let search = SequenceSearch::new(4, &machine).stage(&stencil(480), ["u"], "v").stage(&stencil(480), ["v"], "w");
    let both = search.find().expect("a choice");
    for schedule in both.schedules() {
        assert!(schedule.steps().any(|step| step.to_string() == "interior_first(u)"), "{}", both.program());
    }
    // If ranks share memory, no halos are sent.
    let machine = machine.with_shared_memory("rank").expect("a level");
    let choice = stencil(480).auto(4, &machine).find().expect("a choice");
    assert!(!choice.chain().contains(".interior_first("), "{}", choice.cost());
}

/// All schedules of a product on a machine that do not overlap transfers with the leaf: those that rotate a loop, and
/// those that write in panels.
fn kinds([m, n, k]: [usize; 3], ranks: usize, memory: u64) -> [Vec<Candidate>; 2] {
    let machine = machine(ranks, 100.0);
    let product = Schedule::from_spec(example::matmul(m, n, k));
    let found = product.auto(ranks, &machine).memory(memory).at_least(usize::MAX).find().expect("a choice");
    let all: Vec<Candidate> = [found.best()].into_iter().chain(found.others()).cloned().collect();
    let has = |candidate: &Candidate, step: &str| {
        candidate.chain().contains(step) && !candidate.chain().contains(".pipeline(")
    };
    let rotated = all.iter().filter(|candidate| has(candidate, ".rotate(")).cloned().collect();
    let in_panels = all.iter().filter(|candidate| has(candidate, ".communicate(C, ")).cloned().collect();
    [rotated, in_panels]
}

/// Runs a schedule by messages and in place, and compares the output with the sequential result.
fn check_candidate(candidate: &Candidate) {
    let program = candidate.schedule().lower().expect("a program");
    for transport in [Transport::Messages, Transport::Auto] {
        let element = |_, at: &[usize]| at.iter().fold(3f32, |sum, &at| (7.0 * sum + at as f32) % 23.0 - 11.0);
        let received = verified(&program, transport, 1e-4, element).expect("it runs");
        assert!(received <= 4 * candidate.words(), "{}: {received} bytes", candidate.chain());
    }
}

#[test]
fn rotated_schedules_are_among_those_that_are_priced_and_begin_with_what_each_rank_has() {
    // Schedules that are equally fast by rows and by columns would be listed once.
    let [rotated, _] = kinds([36, 72, 36], 9, 1 << 30);
    // By rows, by columns, and by both, as PUMMA and Cannon's algorithm do.
    let square: Vec<_> = rotated.iter().filter(|candidate| grid_of(candidate) == [3, 3, 1]).collect();
    assert_eq!(square.len(), 3);
    let patterns = |candidate: &Candidate| {
        let program = candidate.schedule().lower().expect("a program");
        ["A", "B"].map(|tensor| program.pattern(tensor).expect("it moves").to_string())
    };
    let mut found: Vec<_> = square.iter().map(|candidate| patterns(candidate)).collect();
    found.sort_unstable();
    let expected = [["broadcast(y)", "shift(x, 1)"], ["shift(y, 1)", "broadcast(x)"], ["shift(y, 1)", "shift(x, 1)"]];
    assert_eq!(found, expected.map(|patterns| patterns.map(String::from)));
    for candidate in &rotated {
        check_candidate(candidate);
    }
    // They move each input one time less than there are panels, so they are faster than schedules with the same order
    // of panels on all ranks.
    let machine = machine(9, 100.0);
    let all = Schedule::from_spec(example::matmul(36, 36, 36)).auto(9, &machine).at_least(usize::MAX).find();
    let all = all.expect("a choice");
    let plain = |candidate: &&Candidate| grid_of(candidate) == [3, 3, 1] && candidate.steps() == 3;
    let seconds = |rotates: bool| {
        let of_kind = [all.best()].into_iter().chain(all.others()).filter(plain);
        let of_kind = of_kind.filter(|candidate| candidate.chain().contains(".rotate(") == rotates);
        of_kind.map(|candidate| candidate.cost().seconds()).fold(f64::INFINITY, f64::min)
    };
    assert!(seconds(true) < seconds(false), "{} and {}", seconds(true), seconds(false));
}

#[test]
fn where_sums_have_no_room_they_are_written_in_panels() {
    // Each of two ranks has one term of every element. It owns half of the output, and does not have room for all of
    // it.
    let (share, all) = (4 * 64 * 64 / 2, 4 * 64 * 64);
    let [_, in_panels] = kinds([64, 64, 2], 2, share + all / 2);
    let of_sums: Vec<_> = in_panels.iter().filter(|candidate| grid_of(candidate) == [1, 1, 2]).collect();
    assert!(!of_sums.is_empty(), "sums fit if they meet panel by panel");
    for candidate in of_sums {
        check_candidate(candidate);
    }
}

#[test]
fn no_schedule_is_faster_than_what_is_chosen_without_a_gap() {
    let problem = (prop::collection::vec(1usize..30, 3), 1usize..13, 0usize..6, any::<bool>());
    let machines = [machine(12, 1.0), machine(12, 1000.0)];
    let law = |(extents, ranks, kind, slow): (Vec<usize>, usize, usize, bool)| {
        let [i, j, k] = extents[..] else { unreachable!("there are three") };
        let (text, shapes) = [
            ("ij,jk->ik", vec![vec![i, j], vec![j, k]]),
            ("ij,ij->ji", vec![vec![i, j], vec![i, j]]),
            ("ij,j->i", vec![vec![i, j], vec![j]]),
            ("ijk,jk,ik->ij", vec![vec![i, j, k], vec![j, k], vec![i, k]]),
            ("ii,ij->", vec![vec![i, i], vec![i, j]]),
            ("i,j->ij", vec![vec![i], vec![j]]),
        ][kind]
            .clone();
        let schedule = numbered(text, &shapes, DType::F64);
        let search = schedule.auto(ranks, &machines[usize::from(slow)]);
        let (choice, all) = (search.find().expect("a choice"), search.at_least(usize::MAX).find().expect("a choice"));
        prop_assert_eq!(choice.gap(), 0.0);
        prop_assert_eq!(choice.chain(), all.chain());
        Ok(())
    };
    hold(40, &problem, law);
}

#[test]
fn what_lies_somewhere_stays_there_and_the_rest_is_chosen_around_it() {
    let clause = |var: &str, axis: &str| polyshard_dsl::Var::new(var).at(axis);
    let mesh = polyshard_layout::Mesh::new([("p", 2), ("q", 3)]);
    let machine = machine(6, 100.0);
    for (a, b) in [
        (vec![clause("m", "p")], vec![clause("n", "q")]),
        (vec![clause("k", "p")], vec![clause("k", "p"), clause("n", "q")]),
        (vec![clause("m", "q"), clause("k", "p")], vec![]),
    ] {
        let search = square(24).auto(6, &machine).on(&mesh).shard("A", a.clone()).shard("B", b.clone());
        let (choice, all) =
            (search.find().expect("a choice"), search.clone().at_least(usize::MAX).find().expect("a choice"));
        assert_eq!((choice.gap(), choice.chain()), (0.0, all.chain()));
        assert_eq!(*choice.program().mesh(), mesh);
        let given: Vec<_> = choice.schedule().steps().filter(|step| step.to_string().starts_with("shard(")).collect();
        let expected =
            [("A", a), ("B", b)].map(|(tensor, clauses)| polyshard_dsl::Step::Shard { tensor: tensor.into(), clauses });
        assert_eq!(given[..2], [&expected[0], &expected[1]]);
        let element = |_, at: &[usize]| (at[0] * 5 + at[1]) as f32 % 7.0;
        verified(choice.program(), Transport::Auto, 1e-5, element).expect("it runs");
        // A freed tensor is in even shares again.
        let free = search.free("A").free("B").find().expect("a choice");
        assert_eq!(free.chain(), square(24).auto(6, &machine).on(&mesh).find().expect("a choice").chain());
    }
}

#[test]
fn homes_that_contradict_are_refused_with_their_names() {
    let clause = |var: &str, axis: &str| polyshard_dsl::Var::new(var).at(axis);
    let (machine, mesh) = (machine(4, 1.0), polyshard_layout::Mesh::new([("x", 2), ("y", 2)]));
    let product = square(8);
    let search = product.auto(4, &machine);
    let said = |search: polyshard_search::Search<'_>| search.find().expect_err("refused").to_string();
    let twice = search.clone().on(&mesh).shard("A", [clause("m", "x")]).shard("A", [clause("k", "y")]);
    assert_eq!(said(twice), "`A` has two shardings, (m @ x) and (k @ y); give one");
    let none = search.clone().on(&mesh).shard("Q", [clause("m", "x")]);
    assert_eq!(said(none), "no tensor `Q` to shard; the tensors are A, B, C");
    let large = product.auto(3, &machine).on(&mesh);
    assert_eq!(said(large), "the mesh (x: 2, y: 2) needs 4 ranks, but there are 3; give a smaller mesh, or more ranks");
    let axis = search.on(&mesh).shard("A", [clause("m", "z")]);
    assert_eq!(said(axis), "no schedule fits the given shardings: no axis `z`; the axes are x, y");
}

/// If not all ranks and steps are visited, the estimated price equals that of the proved program.
#[test]
fn what_is_priced_on_many_ranks_is_what_is_proved() {
    let machine = machine(64, 30.0);
    let mut compared = 0;
    for (extent, ranks) in [(100, 40), (72, 64)] {
        let choice = square(extent).auto(ranks, &machine).at_least(4).find().expect("a choice");
        for candidate in [choice.best()].into_iter().chain(choice.others()) {
            let schedule = candidate.schedule();
            let (unproved, proved) = (schedule.unproved().expect("it was priced"), schedule.lower().expect("legal"));
            assert!(unproved.is_as(&proved), "{}\n{}\n{}", candidate.chain(), unproved.explain(), proved.explain());
            compared += 1;
        }
    }
    assert!(compared >= 8, "{compared}");
}

#[test]
fn the_same_is_chosen_each_time() {
    let machine = machine(12, 3.0);
    let chosen = || square(480).auto(12, &machine).find().expect("a choice").chain();
    assert_eq!(chosen(), chosen());
}

#[test]
fn a_search_that_ends_early_says_how_much_is_open() {
    let machine = machine(12, 30.0);
    let whole = square(480).auto(12, &machine).find().expect("a choice");
    let early = square(480).auto(12, &machine).at_most(Duration::ZERO).find().expect("a choice");
    assert!(early.gap() > 0.0);
    assert!(early.cost().seconds() <= (1.0 + early.gap()) * whole.cost().seconds());
}

#[test]
fn indices_may_be_called_as_axes_are() {
    let machine = machine(8, 30.0);
    check("xy,yz->xz", &[vec![12, 10], vec![10, 14]], 8, &machine).expect("it is chosen and run");
    // They are divided like any others, even if a tensor has the first fallback name.
    let grids = ["ij,jk->ik", "xy,yz->xz"].map(|text| {
        let product = einsum(text, &["x_", "u"], &[[512, 512]; 2], DType::F64, "v");
        grid(&product.auto(8, &machine).find().expect("a schedule"))
    });
    assert_eq!(grids[0], grids[1]);
    assert_eq!(grids[0].iter().product::<usize>(), 8, "{grids:?}");
    // Seven loops, of which no grid divides more than five.
    check("abcdefg->gfedcba", &[vec![2; 7]], 8, &machine).expect("it is chosen and run");
}

#[test]
fn work_is_replicated_where_nothing_is_worth_sending() {
    let machine = machine(4, 30.0);
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let rows = || [Var::new("m").at("x")];
    // Rows are divided along x and replicated along y: to divide the work along y, parts of C would have to be sent.
    let search =
        |extent| square(extent).auto(4, &machine).on(&mesh).shard("A", rows()).shard("B", []).shard("C", rows()).find();
    let small = search(16).expect("a schedule");
    assert!(small.chain().contains(".replicate(mesh(y: 2))"), "{}", small.chain());
    assert_eq!((small.best().words(), grid(&small)), (0, vec![2, 1, 1]));
    // With enough work, it pays.
    let large = search(4096).expect("a schedule");
    assert_eq!(grid(&large).iter().product::<usize>(), 4, "{}", large.chain());
    is_pasted(&square(16), &small);
}

#[test]
fn several_levels_are_divided_where_it_costs_least() {
    // Two nodes of four: the largest transfers stay inside a node.
    let level = |name: &str, count, bandwidth| Level::new(name, count, Interconnect::Switch, bandwidth, 1e-6);
    let flops = [("f32".to_owned(), 1e12)].into();
    let device = Device { memory_bandwidth: 1e11, memory_capacity: 1 << 40, flops, ..Device::default() };
    let levels = vec![Level { shared_ports: Some(1), ..level("node", 2, 1e8) }, level("rank", 4, 1e10)];
    let nodes = Machine::new("nodes", levels, device).expect("a machine");
    let wide = Schedule::from_spec(example::matmul(512, 8192, 512));
    let choice = wide.auto(8, &nodes).all_ranks().at_least(40).find().expect("a choice");
    // The same grid with its axes in another order sends data between nodes that could stay inside one.
    let same = choice.others().iter().filter(|other| other.grid() == choice.best().grid());
    let slow = same.map(|other| other.cost().seconds()).fold(0.0, f64::max);
    assert!(slow > 1.2 * choice.cost().seconds(), "{}{slow}", choice.cost());
    assert_eq!(choice.gap(), 0.0);
}

#[test]
fn why_not_another() {
    let machine = machine(4, 10.0);
    let choice = square(1024).auto(4, &machine).find().expect("a choice");
    let mesh = polyshard_layout::Mesh::new([("x", 4)]);
    let m = polyshard_dsl::Var::new("m");
    let rows = square(1024).distribute(["m"], ["mo"], ["mi"], &mesh).shard("A", [m.at("x")]).shard("C", [m.at("x")]);
    let rows = rows.shard("B", [polyshard_dsl::Var::new("k").at("x")]).tensorize(["mi", "n", "k"]);
    expect![[r#"
                     chosen     other  difference
        computing  53.75 ms  53.76 ms   +10.49 us
        moving     264.1 us  395.2 us   +131.1 us
        received    2.10 MB   3.15 MB    +1.05 MB
        memory      7.34 MB   7.34 MB        +0 B
        the chosen one is faster, 54.01 ms against 54.16 ms
    "#]]
    .assert_eq(&choice.why_not(&[rows]).expect("it is legal"));
    let illegal = square(1024).tensorize(["q"]);
    assert!(matches!(choice.why_not(&[illegal]), Err(SearchError::Lower(_))));
}

#[test]
fn what_cannot_be_searched_is_refused() {
    let machine = machine(4, 1.0);
    let said = |schedule: Schedule, ranks| schedule.auto(ranks, &machine).find().expect_err("refused").to_string();
    assert_eq!(said(square(8), 0), "cannot search for a schedule on 0 ranks; give at least 1");
    assert_eq!(
        said(square(64), 8),
        "the program is for 8 ranks, but switch has 4 devices; use a larger one, or fewer ranks"
    );
    let one = Schedule::from_spec(example::matmul(3, 1, 1));
    assert_eq!(
        one.auto(4, &machine).all_ranks().find().expect_err("refused").to_string(),
        "the loops of `matmul` cannot be divided over exactly 4 ranks; allow idle ranks"
    );
    assert!(one.auto(4, &machine).find().expect("a choice").best().ranks() <= 3);
    // Twelve loops on a large number of ranks: too many grids to compare.
    let letters: String = ('a'..'m').collect();
    let many = einsum(&letters, &["A"], &[[9; 12]], DType::F64, "C");
    let large = self::machine(1 << 20, 1.0);
    assert_eq!(
        many.auto(1 << 20, &large).find().expect_err("refused").to_string(),
        "`einsum` has 12 loops, which can be divided over 1048576 ranks in too many ways to compare; ask for fewer ranks, or write \
         the schedule"
    );
}

#[test]
fn machines_with_a_name_have_a_rate_for_every_type_that_programs_compute_in() {
    for (name, dtype) in PRESETS.iter().flat_map(|name| DType::NATIVE.map(|dtype| (*name, dtype))) {
        let machine = Machine::preset(name).expect("a machine");
        let choice = einsum("ij,jk->ik", &["A", "B"], &[[8, 8]; 2], dtype, "C").auto(2, &machine).find();
        assert!(choice.expect("a schedule").cost().seconds() > 0.0, "{dtype} on {name}");
    }
}
