//! Lower bounds hold for every schedule that divides the work evenly, whatever the shardings.

use super::{algorithm, anything, choices, cyclic, summed};
use polyshard::prelude::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// The instances that each rank computes, including those that it repeats.
fn computed(program: &Program) -> Vec<u64> {
    let nest = program.nest();
    let extents: Vec<i64> = nest.loops.iter().map(|one| one.extent).collect();
    let of_rank = |rank: usize| {
        let coordinates: Vec<i64> = nest.mesh.coordinates(rank).into_iter().map(|at| at as i64).collect();
        let (mut counters, mut sum) = (vec![0; extents.len()], 0u64);
        if extents.contains(&0) {
            return 0;
        }
        loop {
            let counts = nest.leaf.loops.iter().map(|inner| inner.count.eval(&coordinates, &counters).max(0) as u64);
            sum += counts.product::<u64>();
            let Some(next) = (0..extents.len()).rev().find(|&nth| counters[nth] + 1 < extents[nth]) else {
                return sum;
            };
            counters[next] += 1;
            counters[next + 1..].fill(0);
        }
    };
    (0..nest.mesh.size()).map(of_rank).collect()
}

/// The same schedule, but with one of its tensors on the ranks at one coordinate only.
fn on_few_ranks(schedule: &Schedule, mesh: &Mesh, nth: usize) -> Option<Schedule> {
    let kernel = schedule.kernel().ok()?;
    let tensors: Vec<_> = kernel.tensors().map(|tensor| tensor.name).collect();
    let (tensor, axes) = (tensors[nth % tensors.len()], mesh.as_slice());
    let axis = &axes[nth / tensors.len() % axes.len().max(1)..].first()?;
    let is_other = |step: &&Step| !matches!(step, Step::Shard { tensor: of, .. } if *of == tensor);
    let others = schedule.steps().filter(is_other).cloned().fold(Schedule::new(kernel.clone()), Schedule::apply);
    // Some are divided along other axes, so that few ranks have all of it.
    let parts =
        axes.iter().filter(|other| other.name != axis.name).take(nth % 2).map(|other| dim(0).at(other.name.as_str()));
    let clauses = [pin(axis.name, nth % axis.extent)].into_iter().chain(parts).collect();
    Some(others.apply(Step::Shard { tensor, clauses }))
}

#[test]
fn no_schedule_moves_less_than_the_bound_of_where_its_arrays_lie() {
    let mut runner = TestRunner::deterministic();
    // How many schedules divide the work evenly; how many of these begin or end with other than one copy of each array;
    // how many of those have a nonzero bound; and how many attain a nonzero bound.
    let [mut even, mut elsewhere, mut bounded, mut tight] = [0; 4];
    // How many do not begin and end in even shares, how many of them have a higher bound for it, and how many of these
    // attain it.
    let [mut uneven, mut more, mut no_more] = [0; 3];
    for case in 0..3000 {
        let drawn = choices().new_tree(&mut runner).expect("choices need no filter").current();
        let schedule = match case % 4 {
            0 => anything::<i64>(&drawn),
            1 => algorithm::<i64>(&drawn),
            2 => cyclic::<i64>(&drawn),
            _ => summed::<i64>(&drawn),
        };
        let Ok(mut program) = schedule.lower() else { continue };
        if case % 3 == 0 {
            let Some(Ok(other)) = on_few_ranks(&schedule, program.mesh(), case).map(|other| other.lower()) else {
                continue;
            };
            program = other;
        }
        let instances: u64 = program.kernel().vars().iter().map(|var| var.extent as u64).product();
        let (computed, ranks) = (computed(&program), program.mesh().size() as u64);
        assert!(computed.iter().sum::<u64>() >= instances, "{program}");
        if computed.iter().any(|&own| own * ranks != instances) {
            continue;
        }
        let [here, single] = program.nest().lower_bounds();
        let words = program.report().traffic_bytes / 8;
        assert!(here.elements() <= words, "{words} words are fewer than {here:?}\n{schedule}\n{program}");
        let is_single =
            program.shardings().all(|sharding| sharding.copies() == [1, 1] && sharding.partial().is_empty());
        let is_even = program.shardings().all(Sharding::is_in_even_shares);
        assert!(!is_even || here == single, "{here:?} and {single:?}\n{program}");
        uneven += usize::from(is_single && !is_even);
        more += usize::from(is_single && here.words > single.words);
        no_more += usize::from(is_single && here.words > single.words && here.elements() == words);
        even += 1;
        elsewhere += usize::from(!is_single);
        bounded += usize::from(!is_single && here.words > 0.0);
        tight += usize::from(here.words > 0.0 && here.elements() == words);
    }
    println!("{even} even, {elsewhere} not in one copy, {bounded} of them bounded, {tight} attained");
    println!("{uneven} not divided evenly, {more} of them bounded by more, {no_more} of these attained");
    assert!(uneven > 100 && more > 30, "{uneven} {more}");
    assert!(even > 100 && elsewhere > 50 && bounded > 10 && tight > 10, "{even} {elsewhere} {bounded} {tight}");
}
