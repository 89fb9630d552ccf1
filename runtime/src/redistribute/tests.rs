//! Redistributions compared with the function of the index that fills the arrays, over both transports.

use super::*;
use crate::Region;
use crate::layout::{AxisExpr, Mesh, Placement, Reach};
use crate::sample::{indices, on_ranks, sharding_pairs};
use polyshard_program::{Algorithm, Leg, Owners, Route, common_mesh, summed_up};
use proptest::prelude::*;

/// The number of the rank's term among those of an element, from 1.
fn term(sharding: &Sharding, coordinates: &[usize]) -> u32 {
    sharding.partial().iter().fold(0, |n, &axis| n * sharding.mesh().extents()[axis] as u32 + coordinates[axis] as u32)
        + 1
}

fn terms(sharding: &Sharding) -> u32 {
    sharding.partial().iter().map(|&axis| sharding.mesh().extents()[axis] as u32).product()
}

/// A multiple of the element at an index; elements are distinct everywhere, even in the narrowest type.
fn value<T: Element>(index: &[usize], times: u32) -> T {
    let value = index.iter().fold(1u32, |value, &i| value * 14 + i as u32) * times;
    T::from(value).expect("every element type holds it")
}

fn element<T: Element>(index: &[usize]) -> T {
    value(index, 1)
}

/// Each rank's own term of `sharding`: the function of the index times the term's number.
fn opened_array<T: Element>(world: &World, sharding: &Sharding) -> Result<DistArray<T>> {
    let times = term(sharding, &sharding.mesh().coordinates(world.rank()));
    let filled = DistArray::from_fn(world, &sharding.closed(), |index| value::<T>(index, times))?;
    let mut array = DistArray::filled(world, sharding, T::ZERO)?;
    array.block_mut().copy_from_slice(filled.block());
    Ok(array)
}

/// The elements that a rank needs and does not have, counted one by one.
fn lacking(source: &Sharding, target: &Sharding, rank: usize) -> usize {
    let [has, gets] = [source, target].map(|sharding| sharding.mesh().coordinates(rank));
    let lacks = |index: &&Vec<usize>| target.owns(&gets, index) && !source.owns(&has, index);
    indices(&Region::whole(source.shape())).iter().filter(lacks).count()
}

/// Every route for arrays of `T`, among them the one that is chosen.
fn routes<T: Element>(source: &Sharding, target: &Sharding) -> Vec<Route> {
    let mesh = common_mesh(source, target);
    let axes = mesh.ndim();
    let closed = source.closed_axes(target).unwrap_or_default();
    let parts = |axes: Vec<usize>| vec![Leg::collective(axes, Owners::Parts)];
    let pins = closed.iter().map(|axis| target.pins().iter().find(|pin| pin.0 == *axis).map(|pin| pin.1));
    let meet = match pins.collect::<Option<Vec<_>>>() {
        Some(owner) => Leg::with_one(closed.clone(), &owner),
        None => Leg::collective(closed.clone(), Owners::All),
    };
    let over = |sharding: &Sharding| sharding.over(&mesh).unwrap_or_else(|| sharding.clone());
    let exchange = || Leg::exchange_with(over(source).owners_of(&over(target)));
    let anywhere = || Leg::exchange(vec![Reach::All; axes]);
    let mut routes = vec![
        vec![exchange()],
        vec![anywhere()],
        parts(closed.clone()),
        vec![meet.clone()],
        vec![Leg::exchange_with(summed_up(source, target, &closed).owners_of(target)), meet.clone()],
        vec![anywhere(), meet],
    ];
    let among = |set: usize| (0..axes).filter(|axis| set >> axis & 1 == 1).collect();
    routes.extend((0..1 << axes).map(|set| parts(among(set))));
    let by = |algorithm: Algorithm| {
        let by = move |route: &Vec<Leg>| route.iter().cloned().map(|leg| leg.by(algorithm.clone())).collect::<Vec<_>>();
        routes.iter().map(by).collect::<Vec<_>>()
    };
    let summed = [Algorithm::GatherTerms, Algorithm::ReduceScatterGather].map(by).concat();
    routes.extend(summed);
    let laid_out = routes.iter().map(|route| route.iter().cloned().map(Leg::laid_out).collect()).collect::<Vec<_>>();
    routes.extend(laid_out);
    let mut routes: Vec<_> = routes.into_iter().map(Route::between_arrays).collect();
    routes.retain(|route| route.check_between(source, target).is_ok());
    assert!(routes.contains(&Route::between(source, target, size_of::<T>())), "{source} to {target}: {routes:?}");
    routes
}

/// Runs from `source` to `target` by every route, with arrays of `T`.
fn check<T: Element>(world: &World, source: &Sharding, target: &Sharding, transport: Transport) -> Result<()> {
    let mut routes = routes::<T>(source, target).into_iter();
    routes.try_for_each(|route| check_route::<T>(world, [source, target], &route, transport))
}

/// Runs from one to the other twice, by this route, with arrays of `T`, and checks everything.
fn check_route<T: Element>(
    world: &World,
    [source, target]: [&Sharding; 2],
    route: &Route,
    transport: Transport,
) -> Result<()> {
    let there = Redistribution::by(world, source, None, target, route)?.with_transport(transport);
    let a = opened_array::<T>(world, source)?;
    let before = a.block().to_vec();
    // The sum of the terms that the target closes; those that it keeps open stay separate.
    let closing = terms(source) / terms(target);
    let kept = |coordinates: &[usize]| -> u32 {
        let all = (0..source.mesh().size()).map(|rank| source.mesh().coordinates(rank));
        let same = |other: &Vec<usize>| {
            (0..other.len()).all(|axis| {
                let open = source.partial().contains(&axis);
                other[axis] == coordinates[axis] || open && !target.partial().contains(&axis)
            })
        };
        all.filter(same).map(|other| term(source, &other)).sum()
    };
    let times = kept(a.coordinates());
    assert!(times >= closing * (closing + 1) / 2);
    let expected = DistArray::from_fn(world, &target.closed(), |index| value::<T>(index, times))?;
    let lacking = (lacking(source, target, world.rank()) * size_of::<T>()) as u64;

    let what = format!("rank {} over {transport:?}: {source} to {target}", world.rank());
    let mut second = there.output(world)?;
    assert!(second.block().iter().all(|&x| x == T::ZERO), "an output is zeros");
    let start = world.received();
    let first = there.run(world, &a)?;
    let between = world.received();
    there.run_into(world, &a, &mut second)?;
    for got in [between.since(&start), world.received().since(&between)] {
        assert!(got.in_place == 0 || transport != Transport::Messages, "{what}");
        if source.partial().is_empty() {
            assert_eq!(got.bytes(), lacking, "a rank gets what it lacks, each once: {what}");
        }
    }
    assert_eq!(first.block(), expected.block(), "{what}");
    assert_eq!(second.block(), expected.block(), "{what}, again");
    assert_eq!(a.block(), before, "the source is not written");
    let (held, staging) = (there.staged(), there.staging_bytes(size_of::<T>()));
    assert!(held <= staging, "{held} bytes are held, but {staging} are said");
    first.expect("the output", target)
}

/// A part that is scattered in its shard is packed, in as much memory as reported.
#[test]
fn what_is_kept_of_shards_is_gathered() {
    let mesh = Mesh::new([("x", 2), ("y", 3)]);
    let [x, y] = mesh.axes();
    let of = |placements: &[Placement]| Sharding::new(&mesh, &[7, 8], placements).expect("a sharding");
    let (rows, columns) = (of(&[Placement::block(0, x)]), of(&[Placement::block(1, y)]));
    let kept = of(&[Placement::block(0, x), Placement::block(1, y)]);
    on_ranks(6, |world| {
        let a = DistArray::from_fn(world, &rows, element::<i32>)?;
        let expected = DistArray::from_fn(world, &columns, element::<i32>)?;
        for transport in [Transport::Messages, Transport::Shared] {
            let there = Redistribution::by(
                world,
                &rows,
                Some(&kept),
                &columns,
                &Leg::collective(vec![0], Owners::Parts).into(),
            )?;
            let there = there.with_transport(transport);
            assert_eq!(there.run(world, &a)?.block(), expected.block(), "{transport:?}");
            let packed =
                if transport == Transport::Messages { kept.local_len(&mesh.coordinates(world.rank())) } else { 0 };
            let held = (packed * size_of::<i32>()).next_multiple_of(size_of::<u64>());
            assert_eq!((there.staged(), there.staging_bytes(4)), (held, 4 * 3 * size_of::<i32>()));
        }
        Ok(())
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    /// Every rank ends with exactly its tile, having received only the elements that it lacked.
    #[test]
    fn every_rank_ends_with_its_tile([source, target] in sharding_pairs(), kind in 0usize..4) {
        on_ranks(source.mesh().size(), |world| {
            for transport in [Transport::Messages, Transport::Shared, Transport::Auto] {
                let check = [check::<f32>, check::<f64>, check::<i32>, check::<i64>][kind];
                check(world, &source, &target, transport)?;
            }
            Ok(())
        });
    }
}

mod refusals;
mod sums;
