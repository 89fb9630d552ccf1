//! Pieces that are longer than the packing buffers arrive complete: between arrays, to tiles and from them.

use polyshard_runtime::layout::{Mesh, Neighbours, Placement, Reach, Sharding};
use polyshard_runtime::leaf::{nest, pointwise};
use polyshard_runtime::{DistArray, Error, Grid, OutTile, Redistribution, ReduceOp, Region, Tile, Transport, spmd};

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
    let columns_of =
        |at: &[i64]| Region::new([0..SHAPE[0] as i64, third * at[0]..(third * (at[0] + 1)).min(SHAPE[1] as i64)]);
    let anywhere = Neighbours::in_box([Reach::All]);
    spmd(3, |world| {
        let grid = Grid::new(world, &mesh)?;
        let by_rows = DistArray::from_fn(world, &rows, element)?;
        let expected = DistArray::from_fn(world, &columns, element)?;
        let there = Redistribution::new(world, &rows, &columns)?.with_transport(Transport::Messages);
        for _ in 0..2 {
            assert_eq!(there.run(world, &by_rows)?.block(), expected.block());
        }
        let back = Redistribution::new(world, &columns, &rows)?.with_transport(Transport::Messages);
        assert_eq!(back.run(world, &expected)?.block(), by_rows.block());

        let own = columns_of(grid.coords());
        let mut tile = Tile::new("A", own.len())?;
        tile.exchange(&grid, &anywhere, &by_rows, columns_of)?;
        // The tile's data is sent to the block of the columns, and from there to the output's tile.
        let (counts, first) = (own.shape(), [own.range(0).start, own.range(1).start]);
        let (counts, steps): (_, [&[i64]; 2]) = (&counts[..], [&[1, 0], &[0, 1]]);
        let copy = pointwise(|[element]: [f64; 1]| element);
        let mut found = DistArray::filled(world, &columns, 0.0)?;
        let operand = tile.view(&by_rows).strided(&first, &steps);
        nest(counts, found.view_mut().strided(&first, &steps), ReduceOp::Sum, &[operand], &copy);
        assert!(found.block() == expected.block(), "rank {} has another tile", world.rank());

        let mut sums = DistArray::filled(world, &rows, 0.0)?;
        let mut tile = OutTile::<f64>::new("C", own.len())?;
        tile.reset(&own, ReduceOp::Sum);
        let operand = found.view().strided(&first, &steps);
        nest(counts, tile.view_mut().strided(&first, &steps), ReduceOp::Sum, &[operand], &copy);
        tile.write_back(&grid, &anywhere, &mut sums, columns_of, ReduceOp::Sum)?;
        assert!(sums.block() == by_rows.block(), "rank {} has other sums", world.rank());
        Ok::<_, Error>(())
    })
    .expect("all pieces come");
}
