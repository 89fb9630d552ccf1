//! A user's own crate: a stencil, kernels compiled with the crate, and emitted source.
#![deny(warnings)]

use polyshard::ndarray::ArrayD;
use polyshard::prelude::*;

mod emitted;
mod named;

kernel! {
    /// A multiple of a vector, by a scalar that has a name that emitted code uses.
    pub fn scaled(A: [i64; 6]) -> C: [i64; 6] {
        C[i] = v0 * A[i]
    }
    mesh(x: 2)
    .distribute([i], [io], [ii])
    .shard(A, i @ x)
    .shard(C, i @ x)
}

kernel! {
    /// A kernel all of whose names have another meaning as well.
    pub fn run(Tile: [f64; 6], None: [f64; 6]) -> Region: [f64; 6] {
        Region[count] = world * Tile[count] + MESH * None[count]
    }
    mesh(grid: 2)
    .distribute([count], [from], [to])
    .shard(Tile, count @ grid)
    .shard(None, count @ cyclic(grid, 1))
}

fn stencil() -> polyshard::Result<()> {
    vars!(i, io, ii);
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    let sums = kernel! {
        fn stencil(A: [f64; 19]) -> B: [f64; 16] { B[i] = A[i + 1] + A[i + 2] + A[i + 3] }
    };
    let sums = sums.distribute([i], [io], [ii], &mesh).shard("A", [dim(0).at(x)]).shard("B", [i.at(x)]).lower()?;
    let found: Vec<Option<ArrayD<f64>>> = polyshard::spmd(mesh.size(), |world| {
        let a = DistArray::from_fn(world, sums.sharding("A"), |i| (i[0] * i[0]) as f64)?;
        Ok(sums.run(world, &[&a])?.gather(world)?)
    })?;
    let square = |i: usize| (i * i) as f64;
    let expected: Vec<f64> = (0..16).map(|i| square(i + 1) + square(i + 2) + square(i + 3)).collect();
    assert_eq!(found[0].as_ref().and_then(|array| array.as_slice()), Some(&expected[..]));
    Ok(())
}

fn compiled() -> polyshard::Result<()> {
    let found = polyshard::spmd(2, |world| {
        let a = DistArray::from_fn(world, &scaled::sharding_a(), |i| i[0] as i64 + 1)?;
        Ok(scaled::run(world, &a, 2)?.block().to_vec())
    })?;
    assert_eq!(found.concat(), [2, 4, 6, 8, 10, 12]);
    let program = run::schedule(2.0, 3.0).lower()?;
    let found = polyshard::spmd(2, |world| {
        let tile = DistArray::from_fn(world, &run::sharding_tile(), |i| i[0] as f64)?;
        let none = DistArray::from_fn(world, &run::sharding_none(), |i| 10.0 * i[0] as f64)?;
        let compiled = run::run(world, &tile, &none, 2.0, 3.0)?;
        assert_eq!(compiled.block(), program.run(world, &[&tile, &none])?.block());
        Ok(compiled.get(&[5]))
    })?;
    assert!(found.contains(&Some(160.0)), "{found:?}");
    Ok(())
}

fn emitted() -> polyshard::Result<()> {
    let sums = polyshard::spmd(emitted::mesh().size(), |world| {
        let a = DistArray::from_fn(world, &emitted::sharding_a(), |i| (8 * i[0] + i[1]) as f64)?;
        let b = DistArray::from_fn(world, &emitted::sharding_b(), |i| (i[0] * i[1]) as f64)?;
        Ok(emitted::run(world, &a, &b)?.get(&[0, 1]))
    })?;
    assert_eq!(sums[0], Some(140.0));
    Ok(())
}

fn main() -> polyshard::Result<()> {
    stencil()?;
    compiled()?;
    emitted()?;
    named::check()?;
    println!("all of it is right");
    Ok(())
}
