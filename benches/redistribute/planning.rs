//! The time to find plans.

use polyshard::planner::{DistType, Ops, Plan, PlanOptions};
use polyshard_testing::bench::record::{Case, Record};
use polyshard_testing::planner::problems::{mesh, problems_over};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::time::Instant;

/// Prints the seconds to plan `count` random problems of three axes and up to six dimensions, and the slowest of as
/// many on meshes of 4096 ranks.
pub(crate) fn measure(count: usize) {
    let mut random = TestRunner::deterministic();
    let small: Vec<_> = (0..count)
        .map(|_| {
            let extents = proptest::collection::vec(2..9usize, 3);
            let problem = (extents, 1..7usize).prop_flat_map(|(extents, ndim)| problems_over(mesh(extents), ndim));
            problem.new_tree(&mut random).expect("a problem").current()
        })
        .collect();
    let large: Vec<_> = (0..count)
        .map(|nth| {
            let extents = [&[16, 16, 16][..], &[4, 32, 32], &[64, 64], &[8, 8, 8, 8]][nth % 4];
            let problem = (1..7usize).prop_flat_map(move |ndim| problems_over(mesh(extents.iter().copied()), ndim));
            problem.new_tree(&mut random).expect("a problem").current()
        })
        .collect();
    for (contestant, ops) in [("paper", Ops::Paper), ("fused", Ops::Fused)] {
        let options = PlanOptions { ops, ..PlanOptions::default() };
        let all = |problems: &[(DistType, DistType)]| -> Vec<f64> {
            let planned = problems.iter().map(|(source, target)| {
                let start = Instant::now();
                std::hint::black_box(Plan::new(source, target, &options).expect("a plan"));
                start.elapsed().as_secs_f64()
            });
            planned.collect()
        };
        let record = |quantity: &str, grid: &str, value: f64| {
            let [backend, dtype] = ["plan", "-"].map(String::from);
            let case = Case { backend, grid: grid.into(), dtype, size: count.to_string() };
            println!("{}", Record { quantity: quantity.into(), case, contestant: contestant.into(), value });
        };
        record("all", "3-axes", all(&small).iter().sum());
        record("slowest", "4096-ranks", all(&large).into_iter().fold(0.0, f64::max));
    }
}
