//! Pieces that are longer than the packing buffers arrive complete: between arrays, to tiles and from them.

use polyshard_runtime::engine::{Assign, Engine, Kernel, Leg, TileId, Transfer};
use polyshard_runtime::layout::{Mesh, Placement, Reach, Sharding};
use polyshard_runtime::leaf::{nest, pointwise};
use polyshard_runtime::{DistArray, Error, Redistribution, ReduceOp, Region, Transport, spmd};

const SHAPE: [usize; 2] = [1300, 1301];

fn element(at: &[usize]) -> f64 {
    (at[0] * SHAPE[1] + at[1]) as f64
}

/// Each of 3 ranks sends some 1.5 MB to each other one, scattered in its own rows or in the other's columns.
#[test]
fn what_lies_apart_comes_in_several_messages() {
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let [rows, columns] = [0, 1].map(|dim| Sharding::new(&mesh, &SHAPE, &[Placement::block(dim, x)]).expect("legal"));
    let third = SHAPE[1].div_ceil(3) as i64;
    let columns_of = move |[x]: [i64; 1], _: [i64; 0]| {
        Region::new([0..SHAPE[0] as i64, third * x..(third * (x + 1)).min(SHAPE[1] as i64)])
    };
    // The first kernel fetches columns of an array by rows, and the second one sends them back.
    let by_exchange = |transfer: Transfer<'static>| {
        transfer.region(columns_of).by([Leg::exchange([Reach::All])]).tile(SHAPE[0] * third as usize)
    };
    let fetch = || {
        let transfers = [by_exchange(Transfer::input("A", 0)), Transfer::output("B")];
        Kernel::new("fetch", "B[i, j] += A[i, j]", &mesh, Assign::Add, [&rows, &columns]).transfers(transfers)
    };
    let send = || {
        let transfers = [Transfer::input("B", 0), by_exchange(Transfer::output("C"))];
        Kernel::new("send", "C[i, j] += B[i, j]", &mesh, Assign::Add, [&columns, &rows]).transfers(transfers)
    };
    spmd(3, |world| {
        let by_rows = DistArray::from_fn(world, &rows, element)?;
        let expected = DistArray::from_fn(world, &columns, element)?;
        let there = Redistribution::new(world, &rows, &columns)?.with_transport(Transport::Messages);
        for _ in 0..2 {
            assert_eq!(there.run(world, &by_rows)?.block(), expected.block());
        }
        let back = Redistribution::new(world, &columns, &rows)?.with_transport(Transport::Messages);
        assert_eq!(back.run(world, &expected)?.block(), by_rows.block());

        let mut engine = Engine::new(world, [fetch(), send()])?;
        let mut found = DistArray::filled(world, &columns, 0.0)?;
        let mut sums = DistArray::filled(world, &rows, 0.0)?;
        for kernel in [0, 1] {
            let mut run = match kernel {
                0 => engine.run(0, &[&by_rows], &mut found)?,
                _ => engine.run(1, &[&found], &mut sums)?,
            };
            let [x] = run.coordinates();
            let own = columns_of([x], []);
            if kernel == 0 {
                run.transfer(TileId(0), &[])?;
            } else {
                run.fill(TileId(1), &[])?;
            }
            run.compute(&[], &own.shape(), |leaf| {
                let (first, steps): (_, [&[i64]; 2]) = ([0, third * x], [&[1, 0], &[0, 1]]);
                let (operand, target) = (leaf.read(TileId(0), &first, &steps), leaf.write(&first, &steps));
                nest(&leaf.counts(), target, ReduceOp::Sum, &[operand], &pointwise(|[element]: [f64; 1]| element));
            })?;
            if kernel == 1 {
                run.transfer(TileId(1), &[])?;
            }
            run.finish()?;
        }
        assert!(found.block() == expected.block(), "rank {} has another tile", world.rank());
        assert!(sums.block() == by_rows.block(), "rank {} has other sums", world.rank());
        Ok::<_, Error>(())
    })
    .expect("all pieces come");
}
