//! Fails in one of several ways, to show how a program ends: on 4 ranks, under `mpirun` or on threads.
//!
//! ```text
//! mpirun -n 4 target/debug/examples/comm_failures panic
//! ```

use polyshard_runtime::comm::{Piece, Rounds};
use polyshard_runtime::layout::{Mesh, Placement, Sharding};
use polyshard_runtime::leaf::Vectors;
use polyshard_runtime::{DistArray, Redistribution, Result, World, spmd};
use std::sync::Arc;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let way = std::env::args().nth(1).unwrap_or_default();
    spmd(4, |world| fail(&way, world))?;
    if way == "later" {
        let ranks = spmd(4, |world| Ok::<_, Failure>(world.rank()))?;
        // On MPI this process has one of the results, its own rank; rank 1 stops here.
        if ranks == [1] {
            return Err("trouble after the ranks had joined".into());
        }
        spmd(4, |world| Ok::<_, Failure>(world.comm().barrier()?))?;
    }
    println!("no failure in `{way}`");
    Ok(())
}

/// Fails on some ranks; the others wait for them.
fn fail(way: &str, world: &World) -> Result<(), Failure> {
    let comm = world.comm();
    match (way, world.rank()) {
        ("panic", 2) => panic!("boom on purpose"),
        ("vectors", rank) => println!("rank {rank} multiplies with {}", Vectors::in_use()),
        ("panic in a group", rank) => {
            let group = comm.split(rank / 2, rank)?;
            assert!(rank != 3, "boom on purpose");
            group.barrier()?;
        }
        ("error", 1) => return Err("the moon is full".into()),
        ("error of the library", 3) => comm.send(9, &[])?,
        ("error on all ranks", _) => return Err("the moon is full".into()),
        ("file", 1) => drop(std::fs::read("/no such file")?),
        ("length", 0) => comm.send(3, &[0; 64])?,
        ("length", 3) => comm.receive(0, &mut [0; 48])?,
        ("length in an exchange", 0) => comm.exchange(&[(1, &[0; 64]), (2, &[0; 64])], &mut [])?,
        ("length in an exchange", 1) => comm.exchange(&[], &mut [(0, &mut [0; 65])])?,
        ("longer among several", 0) => comm.exchange(&[(1, &[0; 66]), (2, &[0; 64])], &mut [])?,
        ("longer among several", 1) => comm.exchange(&[], &mut [(0, &mut [0; 65]), (2, &mut [0; 8])])?,
        ("longer among several", 2) => comm.exchange(&[(1, &[0; 8])], &mut [(0, &mut [0; 64])])?,
        ("longer in a shift", 0) => comm.exchange(&[(1, &[0; 66])], &mut [(1, &mut [0; 8])])?,
        ("longer in a shift", 1) => comm.exchange(&[(0, &[0; 8])], &mut [(0, &mut [0; 65])])?,
        ("abort", 2) => comm.abort("enough"),
        ("panic while others poll", rank) => {
            assert!(rank != 2, "boom on purpose");
            poll_for_ever(world, 2, 8)?;
        }
        ("error while others poll", 1) => return Err("the moon is full".into()),
        ("error while others poll", _) => poll_for_ever(world, 1, 8)?,
        ("length of a flight", 0) => comm.wait(&mut [&mut comm.post(vec![(3, message(64)?)], vec![])?])?,
        ("length of a flight", 3) => {
            let mut flight = comm.post(vec![], vec![(0, Piece::new(48, "a message")?)])?;
            while comm.poll(&mut [&mut flight])? == 0 {}
        }
        ("dropped flight", 1) => {
            drop(comm.post(vec![], vec![(0, Piece::new(8, "a message")?)])?);
            comm.split(0, 0)?.barrier()?;
        }
        ("dropped flight at the end", 1) => {
            drop(comm.post(vec![(0, message(1 << 20)?)], vec![])?);
            return Ok(());
        }
        ("dropped flight at the end", _) => poll_for_ever(world, 1, 1 << 20)?,
        ("dropped rounds", 2) => {
            let mut running = Rounds::circulant(4, 2, 0, vec![0, 8]).start(Piece::new(8, "the data")?, None);
            running.poll(comm)?;
            drop(running);
            comm.send(0, &[1])?;
        }
        ("panic in a redistribution" | "error between redistributions" | "different redistributions", _) => {
            redistribute(way, world)?
        }
        ("memory", 2) => drop(DistArray::filled(world, &whole(world, &[1 << 30, 1 << 25])?, 0.0)?),
        ("unwritable", _) => DistArray::filled(world, &whole(world, &[4])?, 0.0)?.to_npy(world, "/none/a.npy")?,
        ("nested", _) => drop(spmd(2, |_| Ok::<_, Failure>(()))?),
        _ => {}
    }
    if way != "later" {
        comm.barrier()?;
    }
    Ok(())
}

/// A message of this many bytes.
fn message(bytes: usize) -> Result<Arc<Piece>> {
    Ok(Arc::new(Piece::copy_of(&vec![1; bytes], "a message")?))
}

/// Polls for a message of this many bytes, and does not end when it arrives.
fn poll_for_ever(world: &World, from: usize, bytes: usize) -> Result<()> {
    let mut flight = world.comm().post(vec![], vec![(from, Piece::new(bytes, "a message")?)])?;
    loop {
        world.comm().poll(&mut [&mut flight])?;
        std::thread::yield_now();
    }
}

/// An array that every rank has a copy of.
fn whole(world: &World, shape: &[usize]) -> Result<Sharding, Failure> {
    Ok(Sharding::new(&Mesh::new([("x", world.size())]), shape, &[])?)
}

/// Fails while arrays are in shared memory, and other ranks wait to write into it.
fn redistribute(way: &str, world: &World) -> Result<(), Failure> {
    let mesh = Mesh::new([("x", world.size())]);
    let [x] = mesh.axes();
    let by = |dim| Sharding::new(&mesh, &[64, 96], &[Placement::block(dim, x)]);
    let (rows, columns) = (by(0)?, by(1)?);
    if way == "different redistributions" && world.rank() >= 2 {
        Redistribution::new(world, &rows, &rows)?;
    }
    let there = Redistribution::new(world, &rows, &columns)?;
    let a = DistArray::from_fn(world, &rows, |index| (index[0] * 100 + index[1]) as f64)?;
    let mut b = there.run(world, &a)?;
    assert!(world.rank() != 2 || way != "panic in a redistribution", "boom on purpose");
    there.run_into(world, &a, &mut b)?;
    drop(b);
    if world.rank() == 1 {
        return Err("the moon is full".into());
    }
    Ok(there.run(world, &a).map(drop)?)
}
