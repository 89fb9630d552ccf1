//! Redistributes arrays of many shardings on all ranks that `mpirun` started, or on 4 threads without it, and
//! checks every tile.
//!
//! ```text
//! mpirun -n 6 target/debug/examples/redistribute_laws --ranks=6
//! ```
//!
//! Shardings and sizes are drawn from a fixed sequence, so all ranks and all runs see the same ones. Shared memory is
//! refused where ranks on different nodes have elements for each other, and nowhere else. With `--long`, an array of
//! more than 2^31 bytes per rank is also redistributed.

use polyshard::layout::{AxisExpr, DType, Mesh, Name, Placement, Reach, Sharding};
use polyshard::planner::{Ops, Plan, PlanOptions};
use polyshard::program::{Leg, Program, Route};
use polyshard::runtime::{Backend, DistArray, Element, Execute, Redistribution, Transport, World, spmd};
use polyshard::{Error, Result};
use polyshard_testing::laws;
use polyshard_testing::laws::nodes::{even, nodes, unless_apart};
use std::sync::Mutex;

/// Redistributions drawn per number of axes.
const CASES: usize = 40;

fn main() -> Result<()> {
    let ranks = laws::ranks();
    let outlives = spmd(ranks, |world| {
        let nodes = &nodes(world)?[..];
        let mut draw = Draw(7);
        let mut held = Vec::new();
        for mesh in meshes(world.size()) {
            for case in 0..CASES {
                let shape: Vec<usize> = (0..draw.below(4)).map(|_| draw.below(40)).collect();
                let (source, target) = (draw.sharding(&mesh, &shape), draw.sharding(&mesh, &shape));
                match case % 4 {
                    0 => drop(check::<f32>(world, nodes, &source, &target)?),
                    1 => drop(check::<i32>(world, nodes, &source, &target)?),
                    2 => drop(check::<i64>(world, nodes, &source, &target)?),
                    // Some arrays live for a while, so that memory is freed in another order than it was allocated.
                    _ => held.push(check::<f64>(world, nodes, &source, &target)?),
                }
                // Ranks drop different arrays at different times.
                let nth = draw.below(1000);
                if (nth + world.rank()).is_multiple_of(4) && !held.is_empty() {
                    held.remove(nth % held.len());
                }
            }
        }
        chunks(world, nodes)?;
        plans(world, nodes)?;
        inside(world, nodes)?;
        open_sums(world)?;
        refusals(world, nodes)?;
        if std::env::args().any(|argument| argument == "--long") {
            long(world)?;
        }
        if world.rank() == 0 {
            println!("redistributions hold on {} ranks", world.size());
        }
        let rows = rows(world)?;
        let array = DistArray::from_fn(world, &rows, element::<f64>)?;
        let whole = array.redistribute(world, &Sharding::replicated(rows.mesh(), rows.shape()))?;
        Ok::<_, Error>(Mutex::new(whole))
    })?;
    spmd(ranks, |world| outlived(world, &outlives)).map(drop)
}

/// An array that outlives its world keeps its memory, even when a new world is made, which does not share it.
fn outlived(world: &World, outlives: &[Mutex<DistArray<f64>>]) -> Result<()> {
    let nth = if world.backend() == Backend::Threads { world.rank() } else { 0 };
    let array = &mut *outlives[nth].lock().expect("no rank panics before");
    assert_eq!(array.get(&[49, 6]), Some(element(&[49, 6])), "an array outlives its world");
    let rows = rows(world)?;
    let negated = DistArray::from_fn(world, &rows, |index| -element::<f64>(index))?;
    let there = Redistribution::new(world, &rows, array.sharding())?;
    let other = there.run(world, &negated)?;
    assert_eq!(array.get(&[49, 6]), Some(element(&[49, 6])), "a new array is elsewhere");
    there.run_into(world, &negated, array)?;
    assert_eq!(array.block(), other.block());
    Ok(())
}

/// An array in blocks of rows.
fn rows(world: &World) -> Result<Sharding> {
    let mesh = line(world);
    Ok(Sharding::new(&mesh, &[50, 7], &[Placement::block(0, mesh.axes::<1>()[0])])?)
}

/// A sequence of numbers that only look random (Knuth's linear congruential generator).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % bound as u64) as usize
    }

    /// The first drawn sharding that is legal.
    fn sharding(&mut self, mesh: &Mesh, shape: &[usize]) -> Sharding {
        let axes: Vec<Name> = mesh.as_slice().iter().map(|axis| axis.name).collect();
        let parts = mesh.as_slice()[0].extent as i64;
        loop {
            let mut placements = Vec::new();
            for dim in 0..shape.len() {
                let at = AxisExpr::Axis(axes[self.below(axes.len())]);
                match self.below(8) {
                    0 | 1 => placements.push(Placement::block(dim, at)),
                    2 => placements.push(Placement::block_cyclic(dim, at, 1 + self.below(3))),
                    3 => placements.push(Placement::block(dim, AxisExpr::List(axes.clone()))),
                    4 => {
                        let skewed = (AxisExpr::Axis(axes[0]) + AxisExpr::Axis(axes[axes.len() - 1])) % parts;
                        placements.push(Placement::block(dim, skewed));
                    }
                    5 => placements.push(Placement::block(dim, at).at(AxisExpr::Axis(axes[axes.len() - 1]))),
                    6 => {
                        placements.push(Placement::block_cyclic(dim, at, 1 + self.below(5)).at(AxisExpr::Axis(axes[0])))
                    }
                    _ => {}
                }
            }
            if self.below(8) == 0 {
                placements.push(Placement::pin(axes[0], 0));
            }
            if let Ok(sharding) = Sharding::new(mesh, shape, &placements) {
                return sharding;
            }
        }
    }
}

/// The meshes of one and of two axes with this many ranks.
fn meshes(ranks: usize) -> Vec<Mesh> {
    let across = (1..=ranks).filter(|x| ranks.is_multiple_of(*x));
    let two = across.map(|x| Mesh::new([("x", x), ("y", ranks / x)]));
    std::iter::once(Mesh::new([("x", ranks)])).chain(two).collect()
}

fn line(world: &World) -> Mesh {
    Mesh::new([("x", world.size())])
}

/// The element at an index: different everywhere.
fn element<T: Element>(index: &[usize]) -> T {
    let value = index.iter().fold(1u64, |value, &i| value * 64 + i as u64);
    T::from(value).expect("every element type holds it")
}

/// Redistributes over both transports, twice each, and returns the last result.
fn check<T: Element>(world: &World, nodes: &[usize], source: &Sharding, target: &Sharding) -> Result<DistArray<T>> {
    let array = DistArray::from_fn(world, source, element::<T>)?;
    let expected = DistArray::from_fn(world, target, element::<T>)?;
    let mut last = expected.clone();
    let mut counts = Vec::new();
    // An array of no dimensions has no rows to lay out.
    let packed = Leg::exchange(vec![Reach::All; source.mesh().ndim()]);
    let laid_out = if source.shape().is_empty() { packed.clone() } else { packed.clone().laid_out() };
    let by_messages = [packed, laid_out].map(|leg| (Transport::Messages, leg.into()));
    let chosen = Route::between(source, target, size_of::<T>());
    let chosen = [Transport::Shared, Transport::Auto].map(|transport| (transport, chosen.clone()));
    for (transport, route) in by_messages.into_iter().chain(chosen) {
        let there = Redistribution::by(world, source, None, target, &route)?.with_transport(transport);
        let mut output = there.output(world)?;
        assert!(output.block().iter().all(|&x| x == T::ZERO), "an output is zeros");
        let before = world.bytes_received();
        if unless_apart(world, nodes, there.run_into(world, &array, &mut output))?.is_none() {
            assert_eq!(transport, Transport::Shared);
            assert!(output.block().iter().all(|&x| x == T::ZERO), "nothing has moved");
            continue;
        }
        counts.push(world.bytes_received() - before);
        let again = there.run(world, &array)?;
        for got in [&output, &again] {
            let rank = world.rank();
            assert_eq!(
                got.block(),
                expected.block(),
                "rank {rank}: {source} to {target} over {transport:?}, {route:?}"
            );
        }
        last = again;
    }
    assert!(counts.iter().all(|&count| count == counts[0]), "both transports move the same bytes: {counts:?}");
    Ok(last)
}

/// An array whose pieces are longer than the chunks of messages, and than caches.
fn chunks(world: &World, nodes: &[usize]) -> Result<()> {
    let [x] = line(world).axes();
    let by = |dim| Sharding::new(&line(world), &[1501, 2003], &[Placement::block(dim, x)]);
    let value = |index: &[usize]| (index[0] * 4096 + index[1]) as i64;
    let dealt = Sharding::new(&line(world), &[1501, 2003], &[Placement::block_cyclic(1, x, 5)])?;
    for (source, target) in [(by(0)?, by(1)?), (by(1)?, by(0)?), (by(1)?, dealt)] {
        let array = DistArray::from_fn(world, &source, value)?;
        let expected = DistArray::from_fn(world, &target, value)?;
        for transport in [Transport::Messages, Transport::Shared, Transport::Auto] {
            let got = Redistribution::new(world, &source, &target)?.with_transport(transport).run(world, &array);
            match unless_apart(world, nodes, got)? {
                Some(got) => {
                    assert!(got.block() == expected.block(), "{source} to {target} over {transport:?} came broken")
                }
                None => assert_eq!(transport, Transport::Shared),
            }
        }
    }
    Ok(())
}

/// Plans of several steps, with tiles between them.
fn plans(world: &World, nodes: &[usize]) -> Result<()> {
    for mesh in meshes(world.size()).into_iter().filter(|mesh| mesh.ndim() == 2) {
        let [x, y] = mesh.axes();
        let n = 6 * world.size();
        let by = |placements: &[Placement]| Sharding::new(&mesh, &[n, n], placements);
        let corners = [
            by(&[Placement::block(0, [x, y])])?,
            by(&[Placement::block(1, [y, x])])?,
            by(&[Placement::block(0, y), Placement::block(1, x)])?,
            by(&[Placement::block(0, x), Placement::block(1, y)])?,
            by(&[Placement::block(1, y)])?,
        ];
        for (source, target) in corners.iter().flat_map(|source| corners.iter().map(move |target| (source, target))) {
            for ops in [Ops::Paper, Ops::Fused] {
                let plan = Plan::between(source, target, &PlanOptions { ops, ..PlanOptions::default() })?;
                follow::<f32>(world, nodes, source, target, &plan)?;
                follow::<i64>(world, nodes, source, target, &plan)?;
            }
        }
    }
    Ok(())
}

fn follow<T: Element>(world: &World, nodes: &[usize], source: &Sharding, target: &Sharding, plan: &Plan) -> Result<()> {
    let array = DistArray::from_fn(world, source, element::<T>)?;
    let expected = DistArray::from_fn(world, target, element::<T>)?;
    let program = plan.program("A", T::DTYPE);
    for transport in [Transport::Messages, Transport::Shared, Transport::Auto] {
        let mut there = program.prepare(world)?.with_transport(transport);
        for _ in 0..2 {
            let before = world.bytes_received();
            let Some(got) = unless_apart(world, nodes, there.run(&[&array]))? else {
                assert_eq!(transport, Transport::Shared);
                continue;
            };
            let received = world.bytes_received() - before;
            assert_eq!(got.block(), expected.block(), "over {transport:?}:\n{plan:?}");
            assert_eq!(
                received as usize,
                plan.received(world.rank()) * size_of::<T>(),
                "over {transport:?}:\n{plan:?}"
            );
        }
    }
    Ok(())
}

/// Ranks of one node can share memory, also if there are several nodes: a redistribution inside nodes is not refused,
/// and one between nodes is.
fn inside(world: &World, nodes: &[usize]) -> Result<()> {
    let Some(members) = even(nodes) else { return Ok(()) };
    let (count, each) = (members.len(), members[0].len());
    let mesh = if nodes.is_sorted() {
        Mesh::new([("node", count), ("rank", each)])
    } else if nodes.iter().enumerate().all(|(rank, &node)| node == rank % count) {
        Mesh::new([("rank", each), ("node", count)])
    } else {
        // Nodes do not correspond to an axis of a mesh.
        return Ok(());
    };
    let axis = |name| mesh.axis(name).expect("an axis of the mesh");
    let by = |node, rank| {
        Sharding::new(
            &mesh,
            &[12, 14, 10],
            &[Placement::block(node, axis("node")), Placement::block(rank, axis("rank"))],
        )
    };
    for (source, target, apart) in
        [(by(0, 1)?, by(0, 2)?, false), (by(1, 2)?, by(1, 0)?, false), (by(0, 2)?, by(1, 2)?, count > 1)]
    {
        let array = DistArray::from_fn(world, &source, element::<i64>)?;
        let there = Redistribution::new(world, &source, &target)?.with_transport(Transport::Shared);
        let got = unless_apart(world, nodes, there.run(world, &array))?;
        assert_eq!(got.is_none(), apart, "{source} to {target} on nodes {members:?}");
        if let Some(got) = got {
            assert_eq!(
                got.block(),
                DistArray::from_fn(world, &target, element::<i64>)?.block(),
                "{source} to {target}"
            );
        }
    }
    Ok(())
}

/// Sums stay open in a redistribution to another mesh if each term stays on its ranks; otherwise they are refused.
fn open_sums(world: &World) -> Result<()> {
    let mut open = Vec::new();
    for mesh in meshes(world.size()).into_iter().chain(three_axes(world.size())) {
        for axes in 1..1 << mesh.ndim() {
            let named = mesh.as_slice().iter().enumerate().filter(|(axis, _)| axes >> axis & 1 == 1);
            let partial: Vec<_> = named.map(|(_, axis)| Placement::partial(axis.name)).collect();
            open.push(Sharding::new(&mesh, &[7], &partial)?);
        }
    }
    // The lowest rank that holds the same term: one that differs along no axis of terms.
    let first = |sharding: &Sharding, rank: usize| {
        let term =
            |rank| sharding.partial().iter().map(|&axis| sharding.mesh().coordinates(rank)[axis]).collect::<Vec<_>>();
        (0..world.size()).find(|&other| term(other) == term(rank)).expect("a rank holds its own term")
    };
    for (source, target) in open.iter().flat_map(|source| open.iter().map(move |target| (source, target))) {
        if source.mesh() == target.mesh() {
            continue;
        }
        // One byte per term, times a different factor for each element.
        let holders = |sharding: &Sharding| (0..world.size()).map(|rank| first(sharding, rank)).collect::<Vec<_>>();
        let byte = |holder: usize| 1i64 << (8 * (holder % 8));
        let mut array = DistArray::filled(world, source, 0)?;
        let own = byte(first(source, world.rank()));
        array.block_mut().iter_mut().zip(1..).for_each(|(element, times)| *element = own * times);
        let made = Redistribution::new(world, source, target);
        let program = Program::redistribution("A", [source, target], DType::I64);
        if holders(source) != holders(target) {
            let error = made.err().expect("terms would be lost").cause().to_string();
            let why = ["have their terms on other ranks", "not partial sums along", "cannot be added up on the mesh"];
            assert!(why.iter().any(|why| error.contains(why)), "{error}");
            let refused = program.expect_err("terms would be lost").to_string();
            assert_eq!(refused, format!("statement 1: {error}"));
            continue;
        }
        let mut terms = holders(source);
        terms.sort_unstable();
        terms.dedup();
        let sum = terms.into_iter().map(byte).fold(0, i64::wrapping_add);
        let expected: Vec<i64> = (1..8).map(|times| sum.wrapping_mul(times)).collect();
        let moved = [made?.run(world, &array)?, program?.run(world, &[&array])?];
        for moved in moved {
            assert_eq!(moved.block(), array.block(), "{source} to {target}: each rank keeps its term");
            let closed = moved.redistribute(world, &target.closed())?;
            assert_eq!(closed.block(), expected, "{source} on ({}) to {target} on ({})", source.mesh(), target.mesh());
        }
    }
    Ok(())
}

/// The meshes of three axes with this many ranks.
fn three_axes(ranks: usize) -> impl Iterator<Item = Mesh> {
    let pairs = (1..=ranks).flat_map(move |x| (1..=ranks / x).map(move |y| (x, y)));
    let whole = pairs.filter(move |(x, y)| ranks.is_multiple_of(x * y));
    whole.map(move |(x, y)| Mesh::new([("x", x), ("y", y), ("z", ranks / (x * y))]))
}

/// An output that other ranks cannot map is refused if shared memory is requested, and sent by messages otherwise.
fn refusals(world: &World, nodes: &[usize]) -> Result<()> {
    if world.backend() == Backend::Threads || world.size() == 1 {
        return Ok(());
    }
    let [x] = line(world).axes();
    let by = |dim| Sharding::new(&line(world), &[40, 48], &[Placement::block(dim, x)]);
    let (rows, columns) = (by(0)?, by(1)?);
    let array = DistArray::from_fn(world, &rows, element::<f32>)?;
    let there = Redistribution::new(world, &rows, &columns)?;
    let mut own = DistArray::filled(world, &columns, 0.0)?;
    there.run_into(world, &array, &mut own)?;
    assert_eq!(own.block(), DistArray::from_fn(world, &columns, element::<f32>)?.block());
    let mut own = DistArray::filled(world, &columns, 0.0)?;
    let shared = there.with_transport(Transport::Shared).run_into(world, &array, &mut own);
    // Every rank has elements for every other.
    let Some(other) = (0..world.size()).find(|&rank| nodes[rank] != nodes[0]) else {
        shared?;
        assert_eq!(own.block(), DistArray::from_fn(world, &columns, element::<f32>)?.block());
        return Ok(());
    };
    let why = format!("ranks 0 and {other} share none; use `Transport::Auto`");
    let error = shared.expect_err("there are several nodes");
    assert_eq!(error.cause().to_string(), format!("cannot redistribute through shared memory: {why}"));
    assert!(own.block().iter().all(|&x| x == 0.0), "nothing has moved");
    Ok(())
}

/// One piece of more bytes than a C `int` can hold, between the first two ranks.
fn long(world: &World) -> Result<()> {
    let mesh = line(world);
    let pinned = |rank: usize| Sharding::new(&mesh, &[(5 << 28) + 3, 2], &[Placement::pin("x", rank)]);
    let (source, target) = (pinned(0)?, pinned(world.size() - 1)?);
    let value = |index: &[usize]| (index[0] * 2 + index[1]) as i32;
    let array = DistArray::from_fn(world, &source, value)?;
    let got = Redistribution::new(world, &source, &target)?.with_transport(Transport::Messages).run(world, &array)?;
    let whole = got.block().iter().enumerate().all(|(i, &x)| x == i as i32);
    assert!(whole, "an array of {} bytes came broken", size_of_val(got.block()));
    Ok(())
}
