//! Laws of memory that ranks read in place: its contents are correct, however short and however many the arrays are,
//! and ranks that run different programs get an error before any of them reads.

use super::nodes::is_one_node;
use polyshard_runtime::engine::{Algorithm, Assign, Engine, InPlace, Kernel, Leg, Owners, TileId, Transfer};
use polyshard_runtime::layout::{Mesh, Placement, Sharding};
use polyshard_runtime::leaf::{nest, pointwise};
use polyshard_runtime::{
    Backend, Collectives, DistArray, Element, Error, ReduceOp, Region, Result, Transport, ViewMut, World,
};

/// A vector in blocks over all ranks.
fn blocks(ranks: usize, elements: usize) -> Sharding {
    let mesh = Mesh::new([("x", ranks)]);
    Sharding::new(&mesh, &[elements], &[Placement::block(0, mesh.axes::<1>()[0])]).expect("a sharding")
}

fn all(elements: usize) -> Region {
    Region::new(std::iter::once(0..elements as i64))
}

/// A kernel that gathers all of a vector with this sharding.
fn gathers(sharding: &Sharding) -> Kernel<'static> {
    let elements = sharding.shape()[0];
    let gathered = Transfer::input("A", 0).region(move |_: [i64; 1], _: [i64; 0]| all(elements));
    let gathered = gathered.by([Leg::collective([0], Owners::Parts)]).tile(elements);
    let kernel = Kernel::new("gather", "B[i] = A[i]", sharding.mesh(), Assign::Set, [sharding, sharding]);
    let in_place = InPlace::of_bytes((elements * size_of::<f64>()) as u64);
    kernel.transfers([gathered, Transfer::output("B")]).in_place(in_place)
}

/// A kernel that sums tiles of all members along an axis of a mesh of `A` axes, each of which receives its part of a vector.
#[must_use]
pub fn sums<const A: usize>(sharding: &Sharding, axis: usize) -> Kernel<'static> {
    let elements = sharding.shape()[0];
    let summed = Transfer::output("C").region(move |_: [i64; A], _: [i64; 0]| all(elements));
    let by = Algorithm::GatherTerms;
    let summed = summed.by([Leg::collective([axis], Owners::Parts).by(by)]).tile(elements);
    Kernel::new("sum", "C[i] += 1", sharding.mesh(), Assign::Add, [sharding]).transfers([summed])
}

/// Publishes an array of this many elements of `T`, and reads all of it on every rank.
pub fn read_all<T: Element>(world: &World, elements: usize) -> Result<()> {
    let sharding = blocks(world.size(), elements);
    let a = DistArray::filled(world, &sharding, T::ONE)?;
    let mut unused = DistArray::filled(world, &sharding, T::ZERO)?;
    let mut engine = Engine::new(world, [gathers(&sharding)])?;
    let mut run = engine.run(0, &[&a], &mut unused)?;
    run.transfer(TileId(0), &[])?;
    run.finish()
}

/// Sums tiles of this many elements of `T`, of which each rank receives its part.
pub fn sum_all<T: Element>(world: &World, elements: usize) -> Result<()> {
    let sharding = blocks(world.size(), elements);
    let mut sums = DistArray::filled(world, &sharding, T::ZERO)?;
    let mut engine = Engine::new(world, [self::sums::<1>(&sharding, 0)])?;
    let mut run = engine.run(0, &[], &mut sums)?;
    run.fill(TileId(0), &[])?;
    run.transfer(TileId(0), &[])?;
    run.finish()
}

/// Rank 0 calls `one`, and the others `other`; all get the same error, and continue in step. Returns the error.
fn told(world: &World, one: impl Fn() -> Result<()>, other: impl Fn() -> Result<()>) -> Result<String> {
    let told = if world.rank() == 0 { one() } else { other() };
    let Err(Error::Mismatch(message)) = told else { panic!("rank {} goes on: {told:?}", world.rank()) };
    let texts = world.all_gather(&[message.len() as i64])?;
    assert!(texts.iter().all(|&len| len == message.len() as i64), "ranks are told different things, as: {message}");
    read_all::<f64>(world, 6)?;
    Ok(message)
}

/// Inputs and tiles of other lengths and other types: 16 bytes where `long` elements are expected, for instance.
pub fn what_differs_is_told(world: &World, long: usize) -> Result<()> {
    let ranks = world.size();
    if ranks == 1 {
        return Ok(());
    }
    // Between nodes in-place reads must not be requested; without a request, short inputs are not read in place.
    let before = world.transport();
    let one_node = is_one_node(world)?;
    let own = if one_node { 2 } else { 1 << 16 };
    world.set_transport(if one_node { Transport::Shared } else { before });
    for elements in [4 * own * ranks, long] {
        let message = told(world, || read_all::<f64>(world, own * ranks), || read_all::<f64>(world, elements))?;
        let [bytes, other] = [8 * own, 8 * elements / ranks];
        assert!(message.starts_with(&format!("rank 0 publishes 1 input of f64 of {bytes} bytes")), "{message}");
        assert!(message.contains(&format!("1 input of f64 of {other} bytes")), "{message}");
    }
    let message = told(world, || read_all::<f32>(world, 2 * own * ranks), || read_all::<f64>(world, own * ranks))?;
    assert!(message.contains("publishes 1 input of f32 of") && message.contains("1 input of f64 of"), "{message}");
    world.set_transport(before);
    if one_node {
        let message = told(world, || sum_all::<f64>(world, 1 << 16), || sum_all::<f32>(world, 1 << 17))?;
        assert!(message.starts_with("rank 0 publishes partial sums of f64 of 524288 bytes, "), "{message}");
    }
    Ok(())
}

/// Inputs of a few bytes are read in place if requested, and received as messages if messages are requested, as the
/// counters show.
pub fn short_inputs_are_read_in_place(world: &World) -> Result<()> {
    if !is_one_node(world)? {
        return Ok(());
    }
    let (before, others) = (world.transport(), (world.size() - 1) as u64);
    for transport in [Transport::Shared, Transport::Messages, Transport::Auto] {
        world.set_transport(transport);
        let received = world.received();
        read_all::<f64>(world, 2 * world.size())?;
        let received = world.received().since(&received);
        let by_messages = match transport {
            Transport::Shared => false,
            Transport::Messages => true,
            Transport::Auto => world.backend() == Backend::Mpi,
        };
        let expected = if by_messages { [0, 16 * others] } else { [16 * others, 0] };
        assert_eq!([received.bytes_in_place, received.bytes_by_messages], expected, "{transport:?}: {received:?}");
        assert_eq!((received.in_place > 0, received.messages > 0), (expected[0] > 0, expected[1] > 0), "{received:?}");
    }
    world.set_transport(before);
    Ok(())
}

/// Many arrays are alive together, each long enough for its own pages, and all are read.
pub fn many_arrays_live(world: &World, count: usize) -> Result<()> {
    let before = world.transport();
    if is_one_node(world)? {
        world.set_transport(Transport::Shared);
    }
    let elements = world.size() << 13;
    let sharding = blocks(world.size(), elements);
    let value = |nth: usize, index: usize| (nth * 7 + index % 5) as f64;
    let arrays = (0..count).map(|nth| DistArray::from_fn(world, &sharding, |index| value(nth, index[0])));
    let arrays = arrays.collect::<Result<Vec<_>>>()?;
    let (mut engine, mut unused) =
        (Engine::new(world, [gathers(&sharding)])?, DistArray::filled(world, &sharding, 0.0)?);
    for (nth, array) in arrays.iter().enumerate() {
        let mut sum = [0.0];
        let mut run = engine.run(0, &[array], &mut unused)?;
        run.transfer(TileId(0), &[])?;
        run.compute(&[], &[elements], |leaf| {
            let target = ViewMut::new(&mut sum, vec![0], vec![1]).strided(&[0], &[&[0]]);
            let terms = leaf.read(TileId(0), &[0], &[&[1]]);
            nest(&leaf.counts(), target, ReduceOp::Sum, &[terms], &pointwise(|[term]: [f64; 1]| term));
        })?;
        run.finish()?;
        assert_eq!(sum[0], (0..elements).map(|index| value(nth, index)).sum::<f64>(), "array {nth} of {count}");
    }
    world.set_transport(before);
    Ok(())
}
