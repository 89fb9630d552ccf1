//! Reductions as programs: the executor gives the result of a reduction in place, and the report counts its bytes.

use polyshard::layout::{DType, Mesh, Placement, Sharding};
use polyshard::planner::placement::{PlacedMesh, place};
use polyshard::planner::reduce::{Reduction, Strategy};
use polyshard::program::Program;
use polyshard::program::reduction::Procedure;
use polyshard::runtime::{DistArray, Execute, ReduceOp, spmd};
use polyshard::{Error, Result};
use polyshard_testing::laws::reduce::{placements, programs};

const ELEMENTS: usize = 37;

/// The value of a rank of the mesh at an index: sums are exact in any order.
fn element(rank: usize, index: usize) -> f64 {
    ((rank * 31 + 7) * (index + 3) % 101) as f64
}

fn agrees(placed: &PlacedMesh, axes: &[usize], strategy: &Strategy) -> Result<()> {
    let plan = placed.reduction(axes, ELEMENTS, DType::F64, strategy.clone()).expect("it can be planned");
    let program = plan.program("A");
    let received = spmd(placed.ranks().len(), |world| {
        let world = place(world, placed)?;
        let mut data: Vec<f64> = (0..ELEMENTS).map(|index| element(world.rank(), index)).collect();
        let mut array = DistArray::filled(&world, program.sharding("A"), 0.0)?;
        array.block_mut().copy_from_slice(&data);
        let reduction = Reduction::new(&world, placed, axes, ELEMENTS, strategy.clone())?;
        reduction.run(&mut data, ReduceOp::Sum)?;
        let mut prepared = program.prepare(&world)?;
        assert!(prepared.staging_bytes() as u64 <= program.report().tile_bytes, "{program}");
        for _ in 0..2 {
            let before = world.bytes_received();
            let sums = prepared.run(&[&array])?;
            assert_eq!((world.bytes_received() - before) as usize, reduction.bytes_received(), "{program}");
            assert_eq!(sums.block(), data, "{program}");
        }
        let device = placed.ranks()[world.rank()];
        assert_eq!(
            plan.procedure().received(|_| ELEMENTS)[device] * size_of::<f64>(),
            reduction.bytes_received(),
            "{program}"
        );
        Ok::<_, Error>(reduction.bytes_received() as u64)
    })?;
    assert_eq!(received.into_iter().max(), Some(program.report().traffic_bytes), "{program}");
    Ok(())
}

#[test]
fn programs_of_reductions_compute_what_reductions_in_place_do() -> Result<()> {
    for (counts, extents) in [(&[2, 2][..], &[4][..]), (&[2, 2], &[2, 2]), (&[2, 3], &[3, 2])] {
        for placed in placements(counts, extents) {
            for axes in [&[][..], &[0], &[1], &[0, 1]] {
                if axes.iter().any(|&axis| axis >= extents.len()) {
                    continue;
                }
                let some = programs(&placed, axes).into_iter().step_by(7).map(Strategy::Program);
                for strategy in some.chain([Strategy::Direct, Strategy::Best, Strategy::Deterministic]) {
                    agrees(&placed, axes, &strategy)?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn tiles_of_other_lengths_are_reduced_and_any_operation_combines() -> Result<()> {
    let mesh = Mesh::new([("x", 2), ("y", 3)]);
    let [_, y] = mesh.axes();
    let by = |placements: &[Placement]| Sharding::new(&mesh, &[7], placements).expect("a sharding");
    // Of 7 elements, ranks hold 3, 3 and 1 along y.
    let (source, target) = (by(&[Placement::block(0, y), Placement::partial("x")]), by(&[Placement::block(0, y)]));
    let procedure = Procedure::in_order(vec![vec![0, 3], vec![1, 4], vec![2, 5]]).expect("each rank is in one group");
    for (op, combined) in [
        (polyshard::program::Assign::Add, [7.0, 12.0]),
        (polyshard::program::Assign::Mul, [12.0, 35.0]),
        (polyshard::program::Assign::Max, [4.0, 7.0]),
        (polyshard::program::Assign::Min, [3.0, 5.0]),
    ] {
        let by = procedure.clone();
        let program = Program::reduction("A", [&source, &target], DType::F64, op, by).expect("it fits");
        spmd(6, |world| {
            let mut array = DistArray::filled(world, &source, 0.0)?;
            let (first, second) = if world.rank() < 3 { (3.0, 5.0) } else { (4.0, 7.0) };
            let fill = |(index, value): (usize, &mut f64)| *value = if index == 0 { first } else { second };
            array.block_mut().iter_mut().enumerate().for_each(fill);
            let got = program.run(world, &[&array])?;
            let expected: Vec<f64> = (0..got.block().len()).map(|index| combined[usize::from(index > 0)]).collect();
            assert_eq!(got.block(), expected, "{program}");
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}
