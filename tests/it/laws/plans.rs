//! Plans of redistributions, run and compared with the function of the index that fills the arrays, over both
//! transports.

use polyshard::layout::{AxisExpr, DType, Mesh, Placement, Sharding};
use polyshard::planner::{Ops, Plan, PlanError, PlanOptions, TypeError};
use polyshard::runtime::{DistArray, Execute, Result, Transport, World, spmd};
use proptest::prelude::*;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The element at an index: different everywhere.
fn element(index: &[usize]) -> f64 {
    f64::from(index.iter().fold(1u32, |value, &i| value * 100 + i as u32))
}

/// Runs `f` on this many threads.
fn on_ranks(ranks: usize, f: impl Fn(&World) -> Result<()> + Sync) {
    spmd(ranks, f).unwrap_or_else(|error| panic!("{error}"));
}

/// A number in `0..bound` that is a function of its arguments.
fn pick(seed: u64, salt: impl Hash, bound: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    (seed, salt).hash(&mut hasher);
    (hasher.finish() % bound.max(1) as u64) as usize
}

/// A mesh, a shape, and for each dimension the axes that number its blocks on both sides, major first.
type Blocks = (Mesh, Vec<usize>, [Vec<Vec<usize>>; 2]);

/// Shardings in blocks over several axes each, with extents that mostly do not divide.
fn blocks() -> impl Strategy<Value = Blocks> {
    let mesh = prop::collection::vec(1usize..7, 1..4).prop_filter("few ranks", |e| e.iter().product::<usize>() <= 24);
    (mesh, prop::collection::vec(1usize..20, 1..4), any::<bool>(), any::<u64>()).prop_map(
        |(extents, shape, divides, seed)| {
            let axes = extents.len();
            let place = |side: usize| {
                let mut dims = vec![Vec::new(); shape.len()];
                // Each axis, in varying order, numbers blocks of one dimension or of none, after the axes already
                // there.
                for nth in 0..axes {
                    let axis = (nth + pick(seed, (side, 0), axes)) % axes;
                    let dim = pick(seed, (side, axis), shape.len() + 1);
                    if let Some(dim) = dims.get_mut(dim) {
                        dim.push(axis);
                    }
                }
                dims
            };
            let sides = [place(0), place(1)];
            let all: usize = extents.iter().product();
            let shape = shape.iter().map(|&extent| if divides { (extent % 3 + 1) * all } else { extent }).collect();
            (Mesh::new(["x", "y", "z"].into_iter().zip(extents)), shape, sides)
        },
    )
}

/// The sharding in blocks.
fn block_sharding(mesh: &Mesh, shape: &[usize], dims: &[Vec<usize>]) -> Sharding {
    let name = |&axis: &usize| mesh.as_slice()[axis].name;
    let placed = dims.iter().enumerate().filter(|(_, axes)| !axes.is_empty());
    let placements: Vec<_> =
        placed.map(|(dim, axes)| Placement::block(dim, AxisExpr::List(axes.iter().map(name).collect()))).collect();
    Sharding::new(mesh, shape, &placements).expect("a sharding")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    /// Plans of all kinds give the same tiles, and move the stated amounts.
    #[test]
    fn every_rank_ends_with_its_tile_by_a_plan((mesh, shape, sides) in blocks(), ops in 0usize..3) {
        let [source, target] = [0, 1].map(|side: usize| block_sharding(&mesh, &shape, &sides[side]));
        let ops = [Ops::Paper, Ops::Fused, Ops::Exchange][ops];
        let plan = match Plan::between(&source, &target, &PlanOptions { ops, ..PlanOptions::default() }) {
            Ok(plan) => plan,
            // The larger array must be the same on both sides: where tiles differ, no plan exists.
            Err(error) => {
                prop_assert!(matches!(error, PlanError::Type(TypeError::Ends { .. })), "{error}");
                return Err(TestCaseError::reject("there is no plan"));
            }
        };
        let divides = plan.source().shape() == shape;
        let program = plan.program("A", DType::F64);
        let ends: Vec<_> = program.inputs().chain(program.outputs()).map(|array| &array.sharding).collect();
        prop_assert_eq!(ends, [&source, &target]);
        on_ranks(mesh.size(), |world| {
            let a = DistArray::from_fn(world, &source, element)?;
            let expected = DistArray::from_fn(world, &target, element)?;
            for transport in [Transport::Messages, Transport::Shared] {
                let mut there = program.prepare::<f64>(world)?.with_transport(transport);
                for _ in 0..2 {
                    let received = world.bytes_received();
                    let b = there.run(&[&a])?;
                    let received = world.bytes_received() - received;
                    assert_eq!(b.block(), expected.block(), "rank {}, {transport:?}:\n{plan:?}", world.rank());
                    if divides {
                        assert_eq!(received as usize, plan.received(world.rank()) * size_of::<f64>(), "{plan:?}");
                    }
                }
            }
            Ok(())
        });
    }
}
