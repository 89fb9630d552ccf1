//! Laws of plans over random problems, and plans against exhaustive searches.

use crate::oracle::{cheapest_typed, cheapest_weak};
use polyshard_layout::Mesh;
use polyshard_machine::{Device, Interconnect, Level};
use polyshard_planner::placement::PlacedMesh;
use polyshard_planner::{Collective, CostModel, DistType, MemoryBound, Ops, Plan, PlanError, PlanOptions};
use polyshard_program::DType;
use polyshard_testing::planner::problems::problems;
use polyshard_testing::planner::steps::{check_steps, tile};
use proptest::prelude::*;
use std::sync::Arc;

fn plan(source: &DistType, target: &DistType, ops: Ops) -> Plan {
    Plan::new(source, target, &PlanOptions { ops, ..PlanOptions::default() }).expect("a plan")
}

/// A mesh whose axes are switches of this latency and of these bandwidths, by axis.
fn switches(mesh: &Mesh, latency: f64, bandwidth: impl Fn(usize) -> f64) -> PlacedMesh {
    // Copies take no time compared with messages.
    let device = Device { memory_bandwidth: f64::MAX, memory_capacity: 1, ..Device::default() };
    let level = |axis| Level::new("", 1, Interconnect::Switch, bandwidth(axis), latency);
    PlacedMesh::along_axes(mesh, "switches", device, level).expect("a machine")
}

/// The position of an operation in the normal form.
fn stage(op: Collective) -> usize {
    match op {
        Collective::Slice => 0,
        Collective::AllToAll | Collective::Permute => 1,
        Collective::AllGather => 2,
        other => panic!("{other} in a plan of collectives"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn every_step_can_be_run_and_the_last_ends_in_the_target((source, target) in problems(2..7, 1..4, 36)) {
        for ops in [Ops::Paper, Ops::Fused, Ops::Exchange, Ops::Any] {
            check_steps(&plan(&source, &target, ops));
        }
    }

    #[test]
    fn plans_are_in_normal_form_with_one_permutation_at_most((source, target) in problems(2..7, 1..5, 64)) {
        let tiles = source.tile_len().max(target.tile_len());
        for ops in [Ops::Paper, Ops::Fused] {
            let plan = plan(&source, &target, ops);
            // With mixed primes in one dimension it may be impossible to split digits; then ranks exchange directly.
            if plan.steps().iter().any(|step| step.op() == Collective::Exchange) {
                prop_assert_eq!(plan.steps().len(), 1);
                continue;
            }
            prop_assert!(plan.steps().iter().map(|step| stage(step.op())).is_sorted(), "{}", plan.explain(8));
            let permutes: Vec<_> = plan.steps().iter().filter(|step| step.op() == Collective::Permute).collect();
            prop_assert!(permutes.len() <= 1);
            // It is at the point where tiles are smallest.
            let smallest = plan.steps().iter().map(|step| step.from().tile_len().min(step.to().tile_len())).min();
            prop_assert!(permutes.iter().all(|permute| Some(permute.from().tile_len()) == smallest));
            prop_assert!(plan.peak() <= tiles);
            prop_assert!(plan.total_cost() <= plan.weak_cost() + source.tile_len().min(target.tile_len()) as u128);
            prop_assert!(plan.total_cost() >= plan.weak_cost());
        }
    }

    #[test]
    fn more_operations_never_cost_more((source, target) in problems(2..7, 1..6, 216)) {
        let (paper, fused) = (plan(&source, &target, Ops::Paper), plan(&source, &target, Ops::Fused));
        prop_assert!(fused.total_cost() <= paper.total_cost(), "{}{}", paper.explain(8), fused.explain(8));
        prop_assert!(plan(&source, &target, Ops::Any).total_cost() <= fused.total_cost());
        prop_assert!(fused.weak_cost() <= paper.weak_cost());
        prop_assert!(paper.total_cost() <= paper.naive_cost().max(paper.weak_cost()), "{}", paper.explain(8));
    }

    #[test]
    fn an_exchange_moves_what_is_lacking_and_nothing_else((source, target) in problems(2..7, 1..4, 36)) {
        let plan = plan(&source, &target, Ops::Exchange);
        let ranks = source.mesh().size();
        let lacking = |rank| tile(&target, rank).difference(&tile(&source, rank)).count();
        prop_assert_eq!(plan.exchange_total(), (0..ranks).map(|rank| lacking(rank) as u128).sum::<u128>());
        for rank in 0..ranks {
            prop_assert_eq!(plan.received(rank), lacking(rank));
        }
        prop_assert_eq!(plan.total_cost(), (0..ranks).map(|rank| lacking(rank) as u128).max().unwrap_or(0));
    }

    #[test]
    fn no_sequence_of_operations_is_cheaper_up_to_a_permutation((source, target) in problems(2..9, 1..4, 64)) {
        prop_assert_eq!(plan(&source, &target, Ops::Paper).weak_cost(), cheapest_weak(&source, &target));
    }

    #[test]
    fn plans_judged_by_time_take_no_longer((source, target) in problems(2..5, 1..4, 36), slow in 0..3usize, latency in 0..3) {
        let slow = |axis| if axis == slow { 1e6 } else { 1e9 };
        let links = switches(source.mesh(), [0.0, 1e-7, 1e-4][latency as usize], slow);
        for ops in [Ops::Paper, Ops::Fused, Ops::Exchange, Ops::Any] {
            let model = CostModel::Seconds(Arc::new(links.clone()));
            let timed = Plan::new(&source, &target, &PlanOptions { ops, model, ..PlanOptions::default() }).expect("a plan");
            check_steps(&timed);
            prop_assert!(timed.peak() <= source.tile_len().max(target.tile_len()));
            for step in timed.steps().iter().filter(|step| ops == Ops::Paper && step.op() == Collective::AllGather) {
                let changed = step.from().dims().iter().zip(step.to().dims()).filter(|(from, to)| from != to);
                prop_assert_eq!(changed.count(), 1, "{}", timed.explain(8));
            }
            prop_assert!(timed.seconds(&links, DType::F64) <= plan(&source, &target, ops).seconds(&links, DType::F64));
        }
    }

    #[test]
    fn a_type_is_what_it_prints((source, _) in problems(2..7, 1..6, 1000)) {
        prop_assert_eq!(&DistType::parse(&source.to_string(), source.mesh()).expect("a type"), &source);
        let sharding = source.cut(&source.shape());
        prop_assert_eq!(&DistType::try_from(&sharding).expect("a type"), &source);
        for rank in 0..source.mesh().size().min(50) {
            let coordinates = source.mesh().coordinates(rank);
            prop_assert_eq!(sharding.local_shape(&coordinates), source.tile_shape());
            prop_assert!(source.is_empty() || sharding.owns(&coordinates, &source.offset(&coordinates)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_over_mesh_axes_is_cheaper((source, target) in problems(2..5, 1..4, 16)) {
        let plan = plan(&source, &target, Ops::Paper);
        let cheapest = cheapest_typed(&source, &target);
        prop_assert!(plan.total_cost() <= cheapest, "{} over axes\n{}", cheapest, plan.explain(8));
    }
}

#[test]
fn latency_and_loose_memory_make_small_arrays_gather_and_slice() {
    let mesh = Mesh::new([("x", 2), ("y", 4)]);
    let of = |text: &str| DistType::parse(text, &mesh).expect("a type");
    // Either one step, the all-gather; or slices moved by an all-to-all and a permutation.
    let (source, target) = (of("[24, 6{y}24, 24]"), of("[3{x,y}24, 24, 24]"));
    let ops = |latency, memory| {
        let model = CostModel::Seconds(Arc::new(switches(&mesh, latency, |_| 1e10)));
        let plan =
            Plan::new(&source, &target, &PlanOptions { memory, model, ..PlanOptions::default() }).expect("a plan");
        check_steps(&plan);
        plan.steps().iter().map(|step| step.op()).collect::<Vec<_>>()
    };
    let loose = MemoryBound::Bytes(8 * source.len());
    assert_eq!(ops(1.0, loose), [Collective::AllGather, Collective::Slice]);
    assert!(!ops(0.0, loose).contains(&Collective::AllGather));
    assert!(!ops(1.0, MemoryBound::Strict).contains(&Collective::AllGather));
}

#[test]
fn a_gather_wins_only_where_a_permutation_is_needed() {
    // Rink et al., figure 13: in all three, gathering beats a slice, an all-to-all and a permutation, but two of them
    // need no permutation.
    let mesh = Mesh::new([("a", 2), ("b", 2), ("c", 2)]);
    let one = [Collective::Slice, Collective::AllToAll];
    for (source, target, expected) in [
        ("[360, 184{c:2}368, 320]", "[90{c:2,a:2}360, 368, 160{b:2}320]", one),
        ("[80, 40{c:2}80, 72, 64]", "[40{b:2}80, 80, 36{c:2}72, 64]", one),
        ("[296, 360, 156{c:2}312]", "[74{b:2,c:2}296, 180{a:2}360, 312]", [Collective::AllGather, Collective::Slice]),
    ] {
        let [source, target] = [source, target].map(|text| DistType::parse(text, &mesh).expect("a type"));
        let model = CostModel::Seconds(Arc::new(switches(&mesh, 1.0, |_| 1e10)));
        let memory = MemoryBound::Bytes(8 * source.len());
        let plan =
            Plan::new(&source, &target, &PlanOptions { memory, model, ..PlanOptions::default() }).expect("a plan");
        assert_eq!(plan.steps().iter().map(|step| step.op()).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn the_slowest_axis_that_a_step_crosses_counts() {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let of = |text: &str| DistType::parse(text, &mesh).expect("a type");
    let plan = plan(&of("[4{x}8, 8]"), &of("[8, 4{x}8]"), Ops::Paper);
    // Each device sends half of its 32 elements of 8 bytes to one other.
    let seconds =
        |x: f64, y: f64| plan.seconds(&switches(&mesh, 0.5, |axis| if axis == 0 { x } else { y }), DType::F64);
    assert_eq!(seconds(128.0, 128.0), 1.5);
    assert_eq!(seconds(64.0, 128.0), 2.5);
    assert_eq!(seconds(128.0, 64.0), 1.5);
    assert_eq!(seconds(256.0, 128.0), 1.0);
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let mesh = Mesh::new([("x", 4), ("y", 6)]);
    let of = |text: &str| DistType::parse(text, &mesh).expect("a type");
    let said = |source: &DistType, target: &DistType, options: &PlanOptions| {
        Plan::new(source, target, options).expect_err("refused").to_string()
    };
    let (rows, columns) = (of("[3{x}12, 2{y}12]"), of("[2{y}12, 3{x}12]"));
    assert_eq!(
        said(&rows, &of("[2{y}12, 24]"), &PlanOptions::default()),
        "the source [3{x}12, 2{y}12] has shape [12, 12], but the target [2{y}12, 24] has [12, 24]; a redistribution \
         keeps the shape"
    );
    let other = DistType::parse("[12, 12]", &Mesh::new([("x", 4)])).expect("a type");
    assert_eq!(
        said(&rows, &other, &PlanOptions::default()),
        "the source is on the mesh (x: 4, y: 6), but the target is on (x: 4); put both on one mesh"
    );
    let options = PlanOptions { memory: MemoryBound::Bytes(40), ..PlanOptions::default() };
    assert_eq!(
        said(&rows, &columns, &options),
        "no plan fits into 40 bytes per device: the source tile takes 48 and the target tile 48; allow at least 48"
    );
    let exact = PlanOptions { memory: MemoryBound::Bytes(48), ..PlanOptions::default() };
    assert!(Plan::new(&rows, &columns, &exact).is_ok());
    let placed = switches(&Mesh::new([("x", 4)]), 0.0, |_| 1.0);
    let options = PlanOptions { model: CostModel::Seconds(Arc::new(placed)), ..PlanOptions::default() };
    assert!(matches!(Plan::new(&rows, &columns, &options), Err(PlanError::Placed { .. })));
    assert_eq!(
        said(&rows, &columns, &options),
        "the plan is for the mesh (x: 4, y: 6), but the placement is of (x: 4); place the plan's mesh"
    );
}
