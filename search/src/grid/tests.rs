//! Bounds of grids against prices of schedules on them.

use super::{Bounds, exactly};
use crate::found::Found;
use crate::space::Space;
use crate::variant::{Variant, axis_names};
use polyshard_dsl::parse_kernel;
use polyshard_machine::{Interconnect, Level, Machine};
use polyshard_planner::cost::Prices;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// A machine of this many devices, each with its own port.
fn machine(devices: usize) -> Machine {
    let level = Level::new("rank", devices, Interconnect::Switch, 1e9, 1e-6);
    Machine::new("switch", vec![level], Machine::preset("a100").expect("a preset").device().clone()).expect("a machine")
}

#[test]
fn no_schedule_on_a_grid_needs_less_memory_than_its_bound() {
    let problem = (prop::collection::vec(1usize..9, 3), 0usize..8, 1usize..17);
    let machine = machine(16);
    let seen = std::cell::Cell::new(0);
    let law = |(extents, kind, ranks): (Vec<usize>, usize, usize)| {
        let [m, n, k] = extents[..] else { unreachable!("there are three") };
        let kernels = [
            format!("A: [f64; {m}, {k}], B: [f64; {k}, {n}]) -> C: [f64; {m}, {n}] {{ C[i, j] += A[i, k] * B[k, j] }}"),
            format!("A: [f64; {m}, {k}], B: [f64; {n}, {k}]) -> C: [f64; {m}] {{ C[i] += A[i, k] * B[j, k] }}"),
            format!("A: [f64; {m}, {n}]) -> C: [f64; {m}, {k}] {{ C[i, k] += A[i, j] * A[i, j] for k in 0..{k} }}"),
            format!("A: [f64; {m}, {n}]) -> C: [f64; {m}, {m}] {{ C[i, j] += A[i, k] * A[j, k] }}"),
            format!("A: [f64; {}], B: [f64; {n}]) -> C: [f64; {m}] {{ C[i] += A[i + j] * B[j] }}", m + n),
            format!("A: [f64; {m}, {n}]) -> C: [f64; {m}, {n}] {{ C[i, j] = A[i, j] + A[i - 1, j + 2] else 0 }}"),
            format!("A: [f64; {m}]) -> C: [f64; {n}, {k}] {{ C[i, j] = A[i + j - 2] else 0 for i in 0..{n} }}"),
            format!("A: [f64; {m}]) -> C: [f64; {n}, {k}] {{ C[i, j] = A[(2 * i + j) % {m}] }}"),
        ];
        let spec =
            parse_kernel(&format!("fn f({}", kernels[kind])).map_err(|why| TestCaseError::fail(why.to_string()))?;
        let kernel = spec.check().map_err(|why| TestCaseError::fail(why.to_string()))?;
        let bounds = Bounds::new(&kernel, &machine, 16, []);
        let (space, prices) = (Space { kernel: &kernel, homes: &[], rotates: true }, Prices::new(&machine));
        for grid in exactly(&kernel, ranks) {
            let mut found = Found::new(0, f64::INFINITY);
            let whole = Variant::of_grid(&grid, &Space::divided(&grid), &axis_names(&[&kernel]));
            found.add(&space, &whole, &prices).map_err(|why| TestCaseError::fail(why.to_string()))?;
            let Some(least) = found.least else { continue };
            let bound = bounds.memory(&grid);
            prop_assert!(bound <= least as f64, "{:?} of {}: {} but {}", grid, kernels[kind], least, bound);
            seen.set(seen.get() + 1);
        }
        Ok(())
    };
    let config = Config { cases: 256, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    runner.run(&problem, law).unwrap_or_else(|error| panic!("{error}"));
    assert!(seen.get() > 300, "{}", seen.get());
}
