//! One cost model: the times stated by plans, reductions and placements are the costs of their programs.

use polyshard_layout::{AxisExpr, Mesh, Placement, Sharding};
use polyshard_machine::{Collective, Interconnect, Level, Machine};
use polyshard_planner::placement::{PlacedMesh, Traffic, best, matrices};
use polyshard_planner::reduce::{ReduceOptions, Strategy as How, best as programs};
use polyshard_planner::{CostModel, MemoryBound, Ops, Plan, PlanOptions, cost_on};
use polyshard_program::{DType, Program};
use polyshard_testing::planner::machines::machines;
use polyshard_testing::planner::problems::problems;
use proptest::prelude::*;
use std::sync::Arc;

fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-9 * expected.abs()
}

/// A machine of any kind with one level per axis of a mesh; its devices may share memory inside some level.
fn on_levels(mesh: &Mesh, machine: &Machine, shared: Option<usize>) -> PlacedMesh {
    let levels = machine.levels();
    let level = |axis: usize| {
        let like = &levels[axis % levels.len()];
        let interconnect = match &like.interconnect {
            Interconnect::Torus(_) => Interconnect::Torus(vec![mesh.extents()[axis]]),
            other => other.clone(),
        };
        Level { interconnect, ..like.clone() }
    };
    let placed = PlacedMesh::along_axes(mesh, "any", machine.device().clone(), level).expect("a level for each axis");
    let Some(outside) = shared else { return placed };
    let levels = placed.machine().levels();
    let name = levels[outside % levels.len()].name.clone();
    let machine = placed.machine().clone().with_shared_memory(&name).expect("it has the level");
    PlacedMesh::new(mesh, &machine, placed.matrix()).expect("the matrix was for both")
}

/// A small machine, a mesh placed on it, and axes to communicate along.
fn placements() -> impl Strategy<Value = (PlacedMesh, Vec<usize>)> {
    let along = prop::sample::subsequence(vec![0, 1], 1..=2);
    (
        machines(),
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        any::<Option<prop::sample::Index>>(),
        along,
    )
        .prop_filter_map("small ones", |(machine, cut, pick, shared, along)| {
            let devices = machine.devices();
            if devices > 64 {
                return None;
            }
            let extents: Vec<[usize; 2]> =
                (1..=devices).filter(|x| devices.is_multiple_of(*x)).map(|x| [x, devices / x]).collect();
            let [x, y] = *cut.get(&extents);
            let all = matrices(&machine.hierarchy(), &[x, y]).ok()?;
            let machine = match shared {
                Some(level) => {
                    let name = level.get(machine.levels()).name.clone();
                    machine.with_shared_memory(&name).expect("it has the level")
                }
                None => machine,
            };
            let mesh = Mesh::new([("x", x), ("y", y)]);
            let placed = PlacedMesh::new(&mesh, &machine, pick.get(&all)).expect("the matrix is for both");
            Some((placed, along))
        })
}

const TYPES: [DType; 3] = [DType::F32, DType::F64, DType::Bf16];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn plans_take_what_their_programs_cost(
        (source, target) in problems(2..5, 1..4, 24), machine in machines(), shared in prop::option::of(0usize..3),
        dtype in prop::sample::select(&TYPES[..]), cut in prop::collection::vec(0usize..3, 3),
    ) {
        let placed = on_levels(source.mesh(), &machine, shared);
        let model = CostModel::Seconds(Arc::new(placed.clone()));
        let bytes = 2 * dtype.size() * source.len().max(1);
        // Blocks need not divide the array.
        let shape: Vec<usize> = source.shape().iter().zip(&cut).map(|(&size, cut)| size.saturating_sub(*cut).max(1)).collect();
        let ends = [&source, &target].map(|side| side.cut(&shape));
        for ops in [Ops::Paper, Ops::Fused, Ops::Exchange, Ops::Any] {
            let options = PlanOptions { ops, model: model.clone(), dtype, memory: MemoryBound::Bytes(bytes) };
            let whole = Plan::new(&source, &target, &options).expect("a plan");
            let ragged = Plan::between(&ends[0], &ends[1], &options).ok();
            for plan in [Some(whole), ragged].into_iter().flatten() {
                let cost = cost_on(&plan.program("A", dtype), &placed).expect("a price");
                prop_assert_eq!(plan.seconds(&placed, dtype), cost.seconds());
            }
        }
    }

    #[test]
    fn reductions_take_what_their_programs_cost(
        (placed, axes) in placements(), elements in 1usize..100_000, dtype in prop::sample::select(&TYPES[..]),
    ) {
        let plan = |strategy| placed.reduction(&axes, elements, dtype, strategy).expect("a plan");
        let best = plan(How::Best);
        let lowered = best.lowered().expect("it has steps").clone();
        for plan in [plan(How::Direct), plan(How::Deterministic), plan(How::Lowered(lowered)), best.clone()] {
            let cost = cost_on(&plan.program("G"), &placed).expect("a price");
            let total = plan.simulation().total();
            prop_assert!(close(total, cost.seconds()), "{} of {}\n{}", total, plan.explain(), cost);
            let direct = format!("as one all-reduce, {:.3e} s", placed_seconds(&placed, &axes, elements, dtype));
            prop_assert!(*plan.strategy() == How::Direct || total == 0.0 || plan.explain().ends_with(&direct), "{}", plan.explain());
        }
        // Each ranked program, none of them faster than the first.
        let bytes = elements as f64 * dtype.size() as f64;
        for ranked in programs(placed.machine(), placed.matrix(), &axes, bytes, &ReduceOptions::default()).expect("programs") {
            let plan = plan(How::Lowered(ranked.lowered.clone()));
            let cost = cost_on(&plan.program("G"), &placed).expect("a price");
            prop_assert!(close(ranked.simulation.total(), cost.seconds()), "{}", ranked.program);
            prop_assert!(best.simulation().total() <= cost.seconds() * (1.0 + 1e-8));
        }
    }

    #[test]
    fn placements_take_what_their_programs_cost(
        (placed, axes) in placements(), elements in 1usize..1000, dtype in prop::sample::select(&TYPES[..]),
    ) {
        let (mesh, machine) = (placed.mesh(), placed.machine());
        let members = mesh.group_size(&axes) as usize;
        // Each rank has the same number of elements, divisible into one piece per member.
        let shape = [members * elements, members];
        let along = |dim| {
            let placements = [Placement::block(dim, AxisExpr::List(mesh.names(&axes)))];
            Sharding::new(mesh, &shape, &placements).expect("a sharding")
        };
        let size = dtype.size() as f64;
        let held = (elements * members) as f64 * size;
        let traffic = |operation| Traffic { operation, axes: axes.clone(), bytes: held };
        let traffic = [traffic(Collective::AllGather), traffic(Collective::AllToAll), traffic(Collective::AllReduce)];
        let to_all = Program::redistribution("A", [&along(0), &Sharding::replicated(mesh, &shape)], dtype);
        let to_columns = Program::redistribution("A", [&along(0), &along(1)], dtype);
        for max_steps in [1, 5] {
            let options = ReduceOptions { max_steps, ..ReduceOptions::default() };
            for ranked in best(machine, &mesh.extents(), &traffic, &options).expect("placements") {
                let placed = PlacedMesh::new(mesh, machine, &ranked.matrix).expect("the matrix is for both");
                let strategy = if max_steps == 1 { How::Direct } else { How::Best };
                let sum = placed.reduction(&axes, elements * members, dtype, strategy).expect("a plan").program("G");
                let programs = [to_all.clone().expect("it gathers"), to_columns.clone().expect("it moves"), sum];
                for ((program, each), traffic) in programs.iter().zip(&ranked.each).zip(&traffic) {
                    let cost = cost_on(program, &placed).expect("a price");
                    // With a single rank along the axes, the program copies an array.
                    let expected = if members == 1 { 0.0 } else { cost.seconds() };
                    prop_assert!(close(*each, expected), "{} of {:?}\n{}\n{}", each, traffic, program, cost);
                }
                prop_assert!(close(ranked.seconds, ranked.each.iter().sum()));
            }
        }
    }
}

/// The cost of one all-reduce as a program.
fn placed_seconds(placed: &PlacedMesh, axes: &[usize], elements: usize, dtype: DType) -> f64 {
    let direct = placed.reduction(axes, elements, dtype, How::Direct).expect("a plan");
    cost_on(&direct.program("G"), placed).expect("a price").seconds()
}
