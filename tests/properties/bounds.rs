//! Lower bounds hold of every schedule that divides the work evenly, wherever arrays lie.

use super::{algorithm, anything, choices, cyclic, summed};
use polyshard::prelude::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// The instances that each rank computes, with those that it computes again.
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

#[test]
fn no_schedule_moves_less_than_the_bound_of_where_its_arrays_lie() {
    let mut runner = TestRunner::deterministic();
    // How many divide the work evenly, of these how many begin or end elsewhere than in one copy, and how many must move something then.
    let [mut even, mut elsewhere, mut bounded, mut tight] = [0; 4];
    for case in 0..3000 {
        let drawn = choices().new_tree(&mut runner).expect("choices need no filter").current();
        let schedule = match case % 4 {
            0 => anything::<i64>(&drawn),
            1 => algorithm::<i64>(&drawn),
            2 => cyclic::<i64>(&drawn),
            _ => summed::<i64>(&drawn),
        };
        let Ok(program) = schedule.lower() else { continue };
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
        assert!(!is_single || here == single, "{here:?} and {single:?}\n{program}");
        even += 1;
        elsewhere += usize::from(!is_single);
        bounded += usize::from(!is_single && here.words > 0.0);
        tight += usize::from(here.words > 0.0 && here.elements() == words);
    }
    println!("{even} even, {elsewhere} not in one copy, {bounded} of them bounded, {tight} attained");
    assert!(even > 100 && elsewhere > 50 && bounded > 10 && tight > 10, "{even} {elsewhere} {bounded} {tight}");
}
