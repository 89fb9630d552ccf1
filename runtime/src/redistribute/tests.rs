//! Redistributions against the function of the index that fills the arrays, over both transports.

use super::*;
use crate::Execute;
use crate::Region;
use crate::layout::{AxisExpr, Mesh, Placement};
use crate::sample::{indices, on_ranks, pick, sharding_pairs};
use piece::Side;
use polyshard_planner::{AxisPart, DistDim, DistType, Ops, Options, Plan};
use polyshard_program::DType;
use proptest::prelude::*;

/// The element at an index: another one everywhere, also in the type that holds the fewest.
fn element<T: Element>(index: &[usize]) -> T {
    let value = index.iter().fold(1u32, |value, &i| value * 100 + i as u32);
    T::from(value).expect("every element type holds it")
}

/// The elements that a rank needs and lacks, counted one by one.
fn lacking(source: &Sharding, target: &Sharding, rank: usize) -> usize {
    let [has, gets] = [source, target].map(|sharding| sharding.mesh().coordinates(rank));
    let lacks = |index: &&Vec<usize>| target.owns(&gets, index) && !source.owns(&has, index);
    indices(&Region::whole(source.shape())).iter().filter(lacks).count()
}

/// Runs from `source` to `target` twice, with arrays of `T`, and checks all that there is to check.
fn check<T: Element>(world: &World, source: &Sharding, target: &Sharding, transport: Transport) -> Result<()> {
    let there = Redistribution::new(world, source, target)?.over(transport);
    let a = DistArray::from_fn(world, source, element::<T>)?;
    let before = a.block().to_vec();
    let expected = DistArray::from_fn(world, target, element::<T>)?;
    let lacking = lacking(source, target, world.rank()) * size_of::<T>();

    let gets = |run: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let received = world.bytes_received();
        run()?;
        let got = world.bytes_received() - received;
        assert_eq!(got, lacking as u64, "rank {} gets what it lacks over {transport:?}, each once", world.rank());
        Ok(())
    };
    let mut second = there.output(world)?;
    assert!(second.block().iter().all(|&x| x == T::ZERO), "an output is zeros");
    let mut first = None;
    gets(&mut || {
        first = Some(there.run(world, &a)?);
        Ok(())
    })?;
    gets(&mut || there.run_into(world, &a, &mut second))?;
    let first = first.expect("it has run");
    assert_eq!(first.block(), expected.block(), "rank {} over {transport:?}", world.rank());
    assert_eq!(second.block(), expected.block(), "rank {} over {transport:?}, again", world.rank());
    assert_eq!(a.block(), before, "the source is not written");
    let (held, staging) = (there.staging.borrow().held(), there.staging_bytes(size_of::<T>()));
    assert!(held <= staging, "{held} bytes are held, but {staging} are said");
    first.expect("the output", target)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    /// Every rank ends with exactly its tile, having received what it lacked and nothing else.
    #[test]
    fn every_rank_ends_with_its_tile([source, target] in sharding_pairs(), kind in 0u8..4) {
        on_ranks(source.mesh().size(), |world| {
            for transport in [Transport::Messages, Transport::Shared, Transport::Auto] {
                match kind {
                    0 => check::<f32>(world, &source, &target, transport)?,
                    1 => check::<f64>(world, &source, &target, transport)?,
                    2 => check::<i32>(world, &source, &target, transport)?,
                    _ => check::<i64>(world, &source, &target, transport)?,
                }
            }
            Ok(())
        });
    }
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
                // Each axis numbers blocks of one dimension or of none, before or after the axes that are there.
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

/// The sharding in blocks, and its type, of an array that is as much larger as it takes to divide.
fn block_sharding(mesh: &Mesh, shape: &[usize], sides: &[Vec<Vec<usize>>; 2], side: usize) -> (Sharding, DistType) {
    let name = |&axis: &usize| mesh.as_slice()[axis].name;
    let placed = sides[side].iter().enumerate().filter(|(_, axes)| !axes.is_empty());
    let placements: Vec<_> =
        placed.map(|(dim, axes)| Placement::block(dim, AxisExpr::List(axes.iter().map(name).collect()))).collect();
    let pieces = |axes: &Vec<usize>| axes.iter().map(|&axis| mesh.extents()[axis]).product::<usize>();
    let dims = shape.iter().enumerate().map(|(dim, &extent)| {
        let parts = sides[side][dim].iter().rev().map(|&axis| AxisPart::whole(mesh, axis)).collect();
        // The larger array must be the same on both sides; where it divides neither, tiles differ, and there is no plan.
        let least = [0, 1].map(|side| extent.div_ceil(pieces(&sides[side][dim])) * pieces(&sides[side][dim]));
        let size = least[0].max(least[1]);
        DistDim { tile: size / pieces(&sides[side][dim]), parts, size }
    });
    let dims: Vec<_> = dims.collect();
    let sharding = Sharding::new(mesh, shape, &placements).expect("a sharding");
    (sharding, DistType::new(mesh, dims).unwrap_or_else(|_| DistType::replicated(mesh, &[0]).expect("a type")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    /// Plans of all kinds lead to the same tiles, and move what they say.
    #[test]
    fn every_rank_ends_with_its_tile_by_a_plan((mesh, shape, sides) in blocks(), ops in 0usize..3) {
        let [(source, from), (target, to)] = [0, 1].map(|side| block_sharding(&mesh, &shape, &sides, side));
        let fits = from.ndim() == shape.len() && to.ndim() == shape.len()
            && Plan::new(&from, &to, &Options::default()).is_ok_and(|plan| plan.program_between("A", [&source, &target], DType::F64).is_ok());
        prop_assume!(fits);
        let ops = [Ops::Paper, Ops::Fused, Ops::Exchange][ops];
        let plan = Plan::new(&from, &to, &Options { ops, ..Options::default() }).expect("a plan");
        let divides = from.shape() == shape;
        let program = plan.program_between("A", [&source, &target], DType::F64).expect("the plan is for these");
        on_ranks(mesh.size(), |world| {
            let a = DistArray::from_fn(world, &source, element::<f64>)?;
            let expected = DistArray::from_fn(world, &target, element::<f64>)?;
            for transport in [Transport::Messages, Transport::Shared] {
                let mut there = program.prepare::<f64>(world)?.over(transport)?;
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

proptest! {
    /// However a piece is cut into messages, they have its rows in order.
    #[test]
    fn pieces_can_be_cut_anywhere([source, target] in sharding_pairs(), limit in 1usize..9, seed in any::<u64>()) {
        let mesh = source.mesh();
        let [owner, reader] = [0, 1].map(|side| pick(seed, side, mesh.size()));
        let piece = Piece::between(&source, &source, owner, &target, reader);
        let elements = |limit: usize| {
            let (mut rows, mut elements) = (piece.rows(), Vec::new());
            loop {
                let mut given = 0;
                rows.next(limit, |row| {
                    given += row.len;
                    elements.extend((0..row.len).map(|i| (row.from + i, row.to + i)));
                });
                if given < limit {
                    return elements;
                }
            }
        };
        let whole = elements(usize::MAX);
        prop_assert_eq!(whole.len(), piece.len());
        prop_assert!(whole.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1), "rows are in order");
        for (side, position) in [(Side::Source, whole.first().map(|first| first.0)), (Side::Target, whole.first().map(|first| first.1))] {
            if let (Some(range), Some(first)) = (piece.together(side), position) {
                prop_assert_eq!(range, first..first + piece.len(), "what lies together starts with the first row");
            }
        }
        prop_assert_eq!(elements(limit), whole);
    }
}

mod refusals;
mod sums;
