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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    /// Wherever the target puts the sums, they are those of all terms, and open sums stay separate.
    #[test]
    fn sums_are_closed_on_the_way([source, target] in sharding_pairs(), seed in any::<u64>(), kind in 0usize..4) {
        let source = opened(&source, seed, |_| true);
        let target = opened(&target, seed + 1, |axis| source.partial().contains(&axis) && pick(seed, axis, 3) == 0);
        on_ranks(source.mesh().size(), |world| {
            for transport in [Transport::Messages, Transport::Auto] {
                let check = [check::<f32>, check::<f64>, check::<i32>, check::<i64>][kind];
                check(world, &source, &target, transport)?;
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
