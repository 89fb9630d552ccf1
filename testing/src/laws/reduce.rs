//! Laws of reductions and placements, for threads and MPI alike.
//!
//! Every rank knows all initial values, so each checks its own result and nothing is sent for the check.

pub mod values;

use super::nodes::{nodes, unless_apart};
use polyshard::Result;
use polyshard::planner::placement::place;
use polyshard::planner::reduce::{Reduction, Strategy};
use polyshard_machine::{Device, Interconnect, Level, Machine};
use polyshard_planner::placement::{PlacedMesh, matrices};
use polyshard_planner::reduce::{AllowedMasters, Hierarchy, ReductionProgram, synthesize};
use polyshard_program::reduction::{Collective, Lowered};
use polyshard_runtime::layout::{Mesh, Placement, Sharding};
use polyshard_runtime::{DistArray, Element, Redistribution, ReduceOp, Transport, World};
use values::{Value, agree, element, folded};

/// All operations.
pub const OPS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min];

/// A machine of switches, each level ten times as slow as the one inside it.
pub fn machine(counts: &[usize]) -> Machine {
    let level = |(nth, &count): (usize, &usize)| {
        Level::new(format!("level{nth}"), count, Interconnect::Switch, 1e8 * 10f64.powi(nth as i32), 1e-6)
    };
    let device = Device { memory_bandwidth: 1e11, memory_capacity: 1 << 34, ..Device::default() };
    Machine::new("switches", counts.iter().enumerate().map(level).collect(), device).expect("a machine")
}

/// All placements of axes of these extents, named `a`, `b`, .., on a machine of these counts.
pub fn placements(counts: &[usize], extents: &[usize]) -> Vec<PlacedMesh> {
    let mesh = Mesh::new(["a", "b", "c"].into_iter().zip(extents.iter().copied()));
    let matrices = matrices(counts, extents).expect("the extents multiply to the devices");
    let placed = |matrix| PlacedMesh::new(&mesh, &machine(counts), matrix).expect("the matrix is for both");
    matrices.iter().map(placed).collect()
}

/// The ways to write `n` as a product of at most `most` factors of at least 2; 1 is written as itself.
pub fn factorizations(n: usize, most: usize) -> Vec<Vec<usize>> {
    let mut found = vec![vec![n]];
    if most > 1 {
        for first in (2..n).filter(|&first| n.is_multiple_of(first)) {
            found.extend(factorizations(n / first, most - 1).into_iter().map(|rest| [&[first], &rest[..]].concat()));
        }
    }
    found
}

/// The sets of axes of a mesh, by their positions.
pub fn subsets(ndim: usize) -> impl Iterator<Item = Vec<usize>> {
    (0..1usize << ndim).map(move |set| (0..ndim).filter(|axis| set >> axis & 1 == 1).collect())
}

/// All programs of a reduction.
pub fn programs(placed: &PlacedMesh, axes: &[usize]) -> Vec<ReductionProgram> {
    let hierarchy = Hierarchy::on_machine(placed.machine(), placed.matrix(), axes).expect("the axes exist");
    synthesize(&hierarchy, 5, AllowedMasters::OthersIdle)
}

/// This process' rank of the mesh.
pub fn mesh_rank(world: &World, placed: &PlacedMesh) -> usize {
    if world.numbering().is_some() { world.rank() } else { placed.mesh_rank(world.rank()) }
}

/// A reduction by `strategy` has the result of the direct one: equal, or within the rounding bound; and it receives the
/// bytes that it states. In mesh order it has the bits of a loop over the ranks.
pub fn reduces<T: Value>(
    world: &World,
    placed: &PlacedMesh,
    axes: &[usize],
    elements: usize,
    op: ReduceOp,
    strategy: Strategy,
) -> Result<()> {
    let case = format!("{op:?} of {elements} {} over {axes:?} of {placed} by {strategy:?}", T::DTYPE.name());
    let in_order = strategy == Strategy::Deterministic;
    let reduction = Reduction::<T>::new(world, placed, axes, elements, strategy)?;
    let rank = mesh_rank(world, placed);
    let begin: Vec<T> = (0..elements).map(|i| element(op, rank, i)).collect();
    let run = |reduction: &Reduction<T>| -> Result<Vec<T>> {
        let (mut data, before) = (begin.clone(), world.bytes_received());
        reduction.run(&mut data, op)?;
        let received = world.bytes_received() - before;
        assert_eq!(received, reduction.bytes_received() as u64, "{case}");
        Ok(data)
    };
    let data = run(&reduction)?;
    assert!(run(&reduction)?.iter().zip(&data).all(|(again, first)| again.same(*first)), "a second time: {case}");
    let direct = run(&Reduction::new(world, placed, axes, elements, Strategy::Direct)?)?;

    let mut members: Vec<usize> = Vec::new();
    for group in placed.groups(axes).expect("the axes exist") {
        let group: Vec<usize> = group.into_iter().map(|device| placed.mesh_rank(device)).collect();
        if group.contains(&rank) {
            members = group;
        }
    }
    assert!(members.is_sorted(), "groups are in the order of the mesh: {case}");
    for (i, (&reduced, &direct)) in data.iter().zip(&direct).enumerate() {
        let terms: Vec<T> = members.iter().map(|&member| element(op, member, i)).collect();
        let expected = folded(op, &terms);
        assert!(agree(op, &terms, reduced, direct), "element {i} is {reduced}, directly {direct}: {case}");
        assert!(agree(op, &terms, reduced, expected), "element {i} is {reduced}, not {expected}: {case}");
        assert!(!in_order || reduced.same(expected), "element {i} is {reduced}, in order {expected}: {case}");
    }
    if let Some(lowered) = reduction.lowered().filter(|lowered| elements.is_multiple_of(lowered.chunks())) {
        let device = placed.ranks()[rank];
        let bytes = received(lowered, device, elements) * size_of::<T>();
        assert_eq!(reduction.bytes_received(), bytes, "by the program's parts: {case}");
    }
    Ok(())
}

/// The elements that a device receives, by the parts of the steps.
fn received(lowered: &Lowered, device: usize, elements: usize) -> usize {
    let layout = lowered.layout().expect("the program is proved");
    let steps = lowered.steps().iter().zip(&layout).map(|(step, held)| {
        let Some(group) = step.groups.iter().find(|group| group.contains(&device)) else { return 0 };
        // A group that holds nothing has nothing to add.
        if held[group[0]].is_empty() {
            return 0;
        }
        let (others, held, first) = (group.len() - 1, elements / step.parts, group[0] == device);
        match (step.collective, first) {
            (Collective::AllReduce | Collective::AllGather, _) | (Collective::Reduce, true) => others * held,
            (Collective::ReduceScatter, _) => others * held / group.len(),
            (Collective::Broadcast, false) => held,
            (Collective::Reduce, false) | (Collective::Broadcast, true) => 0,
            (other, _) => panic!("{other} in a reduction"),
        }
    });
    steps.sum()
}

/// As [`reduces`], with the element type chosen by number.
pub fn reduces_of(
    dtype: usize,
    world: &World,
    placed: &PlacedMesh,
    axes: &[usize],
    elements: usize,
    op: ReduceOp,
    strategy: Strategy,
) -> Result<()> {
    let reduces = [reduces::<f32>, reduces::<f64>, reduces::<i32>, reduces::<i64>][dtype % 4];
    reduces(world, placed, axes, elements, op, strategy)
}

/// Every `stride`-th program of a reduction, and the strategies that choose a program, with lengths, types and
/// operations in turn. Returns their number.
pub fn every(world: &World, placed: &PlacedMesh, axes: &[usize], stride: usize) -> Result<usize> {
    // None, fewer than there are chunks, and lengths that divide and that do not.
    const LENGTHS: [usize; 9] = [0, 37, 24, 1, 7, 1000, 2, 144, 3];
    let programs = programs(placed, axes).into_iter().step_by(stride).map(Strategy::Program);
    let strategies: Vec<_> = programs.chain([Strategy::Best, Strategy::Deterministic]).collect();
    for (nth, strategy) in strategies.iter().enumerate() {
        // 9 lengths, 4 types and 4 operations; the quotients keep them from cycling in step.
        let (dtype, op) = (nth / 3, OPS[nth % 4]);
        reduces_of(dtype, world, placed, axes, LENGTHS[nth % 9], op, strategy.clone())?;
    }
    Ok(strategies.len())
}

/// Arrays that are made, redistributed and gathered under a placement are the same as without one.
pub fn arrays_are_whole(world: &World, placed: &PlacedMesh) -> Result<()> {
    let mesh = placed.mesh();
    let axes: Vec<_> = mesh.as_slice().iter().map(|axis| mesh.axis(axis.name.as_str()).expect("its own")).collect();
    let value = |index: &[usize]| (31 * index[0] + index[1]) as i64;
    let shape = [7, 5];
    let by = |places: &[Placement]| Sharding::new(mesh, &shape, places).expect("a sharding");
    let rows = by(&[Placement::block(0, &axes[..])]);
    let columns = by(&[Placement::block(1, &axes[..])]);
    let under = place(world, placed)?;
    let nodes = nodes(&under)?;
    assert_eq!(placed.ranks()[under.rank()], world.rank(), "{placed}");
    for (target, transport) in
        [(&columns, Transport::Messages), (&columns, Transport::Shared), (&rows, Transport::Auto)]
    {
        let array = DistArray::from_fn(&under, &rows, value)?;
        let moved = Redistribution::new(&under, &rows, target)?.with_transport(transport).run(&under, &array);
        let Some(moved) = unless_apart(&under, &nodes, moved)? else {
            assert_eq!(transport, Transport::Shared, "{placed}");
            continue;
        };
        let wanted = DistArray::from_fn(&under, target, value)?;
        assert_eq!(moved.block(), wanted.block(), "{transport:?} to rank {} of {placed}", under.rank());
        if let Some(whole) = moved.gather(&under)? {
            assert_eq!(under.rank(), 0);
            let right = whole.indexed_iter().all(|(index, &x)| x == value(&[index[0], index[1]]));
            assert!(right && whole.shape() == shape, "{placed}: {whole}");
        }
    }
    // A line of the mesh has the devices given by the matrix.
    for axis in 0..mesh.ndim() {
        let group = under.group(mesh, &[axis])?;
        let mut devices = vec![0u8; group.size()];
        group.comm().all_gather(&[world.rank() as u8], &mut devices, &vec![1; group.size()])?;
        let groups = placed.groups(&[axis]).expect("the axis exists");
        let line = groups.into_iter().find(|line| line.contains(&world.rank())).expect("each device is in one");
        assert_eq!(devices.iter().map(|&device| usize::from(device)).collect::<Vec<_>>(), line, "{placed}");
    }
    Ok(())
}

/// All laws on all ranks of the world, with at most `most` programs of each reduction. Returns the number of
/// reductions.
pub fn hold(world: &World, most: usize) -> Result<usize> {
    let mut reductions = 0;
    for counts in factorizations(world.size(), 3) {
        for extents in factorizations(world.size(), 2) {
            for placed in placements(&counts, &extents) {
                arrays_are_whole(world, &placed)?;
                for axes in subsets(extents.len()) {
                    let stride = programs(&placed, &axes).len().div_ceil(most);
                    reductions += every(world, &placed, &axes, stride)?;
                    // In the placement's rank numbers the reduction is the same.
                    let (under, length) = (place(world, &placed)?, 5 + reductions % 23);
                    reduces::<f32>(&under, &placed, &axes, length, ReduceOp::Sum, Strategy::Best)?;
                    reduces::<f64>(&under, &placed, &axes, length, ReduceOp::Sum, Strategy::Deterministic)?;
                    reductions += 2;
                }
            }
        }
    }
    Ok(reductions)
}

/// The result of a reduction over these axes on this rank, with its rank of the mesh.
pub fn result<T: Element + Value>(
    world: &World,
    placed: &PlacedMesh,
    axes: &[usize],
    elements: usize,
    op: ReduceOp,
    strategy: Strategy,
) -> Result<(usize, Vec<T>)> {
    let rank = mesh_rank(world, placed);
    let mut data: Vec<T> = (0..elements).map(|i| element(op, rank, i)).collect();
    Reduction::new(world, placed, axes, elements, strategy)?.run(&mut data, op)?;
    Ok((rank, data))
}
