//! Partial sums, closed on the way to any sharding.

use super::*;
use crate::Error;
use crate::sample::pick;

/// The sharding with partial sums along axes of `free` that `seed` picks, unless they are used otherwise.
fn opened(sharding: &Sharding, seed: u64, free: impl Fn(usize) -> bool) -> Sharding {
    let used = |axis: usize| sharding.places(axis) || sharding.pins().iter().any(|pin| pin.0 == axis);
    let mesh = sharding.mesh();
    let axes = (0..mesh.ndim()).filter(|&axis| free(axis) && !used(axis) && pick(seed, axis, 4) > 0);
    let partial = axes.map(|axis| Placement::partial(mesh.as_slice()[axis].name));
    let placements: Vec<_> = sharding.placements().into_iter().chain(partial).collect();
    Sharding::new(mesh, sharding.shape(), &placements).expect("a sharding")
}

/// The number of the rank's term among those of an element, from 1.
fn term(sharding: &Sharding, coordinates: &[usize]) -> u32 {
    sharding.partial().iter().fold(0, |n, &axis| n * sharding.mesh().extents()[axis] as u32 + coordinates[axis] as u32)
        + 1
}

fn terms(sharding: &Sharding) -> u32 {
    sharding.partial().iter().map(|&axis| sharding.mesh().extents()[axis] as u32).product()
}

fn value<T: Element>(index: &[usize], times: u32) -> T {
    let value = index.iter().fold(1u32, |value, &i| value * 14 + i as u32) * times;
    T::from(value).expect("every element type holds it")
}

/// Each rank's own term of `sharding`: the function of the index times the term's number.
fn opened_array<T: Element>(world: &World, sharding: &Sharding) -> Result<DistArray<T>> {
    let times = term(sharding, &sharding.mesh().coordinates(world.rank()));
    let filled = DistArray::from_fn(world, &sharding.closed(), |index| value::<T>(index, times))?;
    let mut array = DistArray::filled(world, sharding, T::ZERO)?;
    array.block_mut().copy_from_slice(filled.block());
    Ok(array)
}

/// Every route that is possible.
fn check<T: Element>(world: &World, source: &Sharding, target: &Sharding, transport: Transport) -> Result<()> {
    let mut routes = routes::<T>(source, target).into_iter();
    routes.try_for_each(|route| check_route::<T>(world, [source, target], &route, transport))
}

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
    for _ in 0..2 {
        let received = world.received();
        let b = there.run(world, &a)?;
        if transport == Transport::Messages {
            assert_eq!(world.received().since(&received).in_place, 0, "{source} to {target}");
        }
        assert_eq!(b.block(), expected.block(), "rank {} over {transport:?}: {source} to {target}", world.rank());
        assert_eq!(b.sharding(), target);
    }
    assert_eq!(a.block(), before, "the source is not written");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    /// Wherever the target puts the sums, they are those of all terms, and open sums stay separate.
    #[test]
    fn sums_are_closed_on_the_way([source, target] in sharding_pairs(), seed in any::<u64>(), kind in 0u8..4) {
        let source = opened(&source, seed, |_| true);
        let target = opened(&target, seed + 1, |axis| source.partial().contains(&axis) && pick(seed, axis, 3) == 0);
        on_ranks(source.mesh().size(), |world| {
            for transport in [Transport::Messages, Transport::Auto] {
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

/// To one of four ranks, to all of them, or a quarter to each: a reduction's volume, and no more.
#[test]
fn sums_move_what_a_reduction_has_to_move() {
    let mesh = Mesh::new([("z", 4)]);
    let sharding = |placement: &[Placement]| Sharding::new(&mesh, &[1 << 16], placement).expect("a sharding");
    let open = sharding(&[Placement::partial("z")]);
    let bytes = 8 << 16;
    let targets = [
        (sharding(&[Placement::pin("z", 2)]), [0, 0, bytes * 3 / 4, 0]),
        (sharding(&[]), [bytes * 3 / 4; 4]),
        (sharding(&[Placement::block(0, AxisExpr::axis("z"))]), [0; 4]),
    ];
    for (target, gathered) in targets {
        on_ranks(4, |world| {
            let a = opened_array::<f64>(world, &open)?;
            let before = world.bytes_received();
            let b = a.redistribute(world, &target)?;
            // Each rank adds up a quarter of the elements, and receives the others' terms of it.
            assert_eq!(world.bytes_received() - before, (bytes * 3 / 4 + gathered[world.rank()]) as u64, "{target}");
            assert_eq!(
                b.block(),
                DistArray::from_fn(world, &target, |index| value::<f64>(index, 1 + 2 + 3 + 4))?.block()
            );
            Ok(())
        });
    }
}

#[test]
fn open_sums_are_not_taken_for_elements() {
    let mesh = Mesh::new([("x", 2), ("z", 2)]);
    let open = Sharding::new(&mesh, &[6], &[Placement::block(0, AxisExpr::axis("x")), Placement::partial("z")])
        .expect("a sharding");
    let closed = open.closed();
    on_ranks(4, |world| {
        let a = DistArray::from_fn(world, &open, |index| index[0] as f64 + 1.0)?;
        assert!(a.block().iter().all(|&x| (x == 0.0) == (world.rank() % 2 == 1)), "the first term has the values");
        let refused = a.gather(world).expect_err("sums are open").cause().to_string();
        assert_eq!(
            refused,
            "an array sharded [0 @ x, partial(z)] cannot be gathered: its elements are partial sums along z; \
             `redistribute` it to a sharding without `partial` first"
        );
        let path = std::env::temp_dir().join("polyshard-open-sums.npy");
        assert!(a.to_npy(world, &path).expect_err("sums are open").to_string().contains("written to a file"));
        assert!(!path.exists());
        let opening = Redistribution::new(world, &closed, &open).err().expect("nothing is opened").cause().to_string();
        assert!(opening.contains("its elements are not partial sums along z"), "{opening}");
        let whole = a.redistribute(world, &closed)?.gather(world)?;
        assert!(whole.is_none_or(|whole| whole.iter().copied().eq((1..7).map(f64::from))));
        Ok(())
    });
    let indexed = crate::spmd(4, |world| Ok::<_, Error>(DistArray::filled(world, &open, 1.0)?.get(&[2])));
    let message = indexed.expect_err("sums are open").to_string();
    assert!(message.contains("cannot be indexed: its elements are partial sums along z"), "{message}");
}
