//! Calls communicators out of step in one of several ways, to show the messages of a checked program, or of an unchecked one: on 4 ranks,
//! under `mpirun` or on threads.
//!
//! ```text
//! mpirun -n 4 target/debug/examples/comm_checked roots
//! mpirun -n 4 target/debug/examples/comm_checked circle unchecked
//! ```

use polyshard_program::{DType, Program};
use polyshard_runtime::comm::{Broadcast, Piece};
use polyshard_runtime::layout::{Mesh, Placement, Sharding};
use polyshard_runtime::{Collectives, DistArray, Error, Execute, ReduceOp, Result, World, spmd, spmd_checked};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let way = std::env::args().nth(1).unwrap_or_default();
    match std::env::args().nth(2).as_deref() {
        Some("unchecked") => spmd(4, |world| go(&way, world))?,
        _ => spmd_checked(4, |world| go(&way, world))?,
    };
    // The next program of the process is checked if it requests that.
    spmd(4, |world| world.barrier())?;
    println!("`{way}` is in step");
    Ok(())
}

fn go(way: &str, world: &World) -> Result<(), Failure> {
    let (comm, rank) = (world.comm(), world.rank());
    match (way, rank) {
        ("operations", 0) => comm.broadcast(Broadcast::Send(&[7; 4096]))?,
        ("operations", _) => comm.all_gather(&[7; 8], &mut [0; 32], &[8; 4])?,
        ("typed operations", 2) => drop(world.gather(&[1.0], 0)?),
        ("typed operations", _) => drop(world.all_gather(&[1.0])?),
        ("roots", 2) => comm.broadcast(Broadcast::Send(&[7; 8]))?,
        ("roots", 1) => comm.broadcast(Broadcast::Receive { root: 0, into: &mut [0; 8] })?,
        ("roots", _) => comm.broadcast(Broadcast::Receive { root: 2, into: &mut [0; 8] })?,
        ("typed roots", rank) => drop(world.gather(&[rank as i32], rank / 3)?),
        ("typed elements", 3) => drop(world.all_gather(&[1.0])?),
        ("typed elements", _) => drop(world.all_gather(&[1.0f32])?),
        ("counts", rank) => world.all_reduce(&mut [1.0; 4][..if rank == 2 { 3 } else { 4 }], ReduceOp::Sum)?,
        ("reductions", rank) => {
            world.reduce(&mut [1, 2], if rank == 0 { ReduceOp::Max } else { ReduceOp::Min }, 1)?;
        }
        ("lengths of an all-to-all", rank) => {
            let count = if rank == 1 { 2 } else { 1 };
            comm.all_to_all(&vec![0; 3 + count], &[1, 1, count, 1], &mut [0; 4], &[1; 4])?;
        }
        ("groups", rank) => {
            let group = comm.split(rank % 2, 0)?;
            match rank {
                3 => group.broadcast(Broadcast::Send(&[1, 2]))?,
                _ => group.barrier()?,
            }
        }
        ("crossed groups", rank) => {
            let (row, column) = (comm.split(rank / 2, rank)?, comm.split(rank % 2, rank)?);
            if matches!(rank, 0 | 3) { row.barrier()? } else { column.barrier()? }
        }
        ("circle", rank) => comm.receive((rank + 1) % 4, &mut [0; 16])?,
        ("circle of flights", rank) => {
            let receive = (rank + 1) % 4;
            comm.wait(&mut [&mut comm.post(vec![], vec![(receive, Piece::new(16, "a message")?)])?])?;
        }
        // Rank 1's message arrives while it is in the barrier; rank 3 waits for another one after it.
        ("a flight that is not posted", 1) => {
            let sends = vec![(3, Arc::new(Piece::copy_of(&[1; 4], "a message")?))];
            let _flight = comm.post(sends, vec![])?;
            comm.barrier()?;
        }
        ("a flight that is not posted", 3) => {
            let receives = || Ok::<_, Error>(vec![(1, Piece::new(4, "a message")?)]);
            let (mut first, mut second) = (comm.post(vec![], receives()?)?, comm.post(vec![], receives()?)?);
            comm.wait(&mut [&mut first, &mut second])?;
        }
        ("a missing call", 3) => comm.receive(0, &mut [0; 16])?,
        ("sends that nobody receives", rank) => comm.send((rank + 1) % 4, &vec![0; 1 << 24])?,
        ("a lonely gather", 0) => drop(world.gather(&[1.0], 0)?),
        ("a lonely gather", _) => return Ok(()),
        ("another program", _) => return another_program(world),
        ("an early return", 3) | ("a message from one that has ended", 1..) => return Ok(()),
        ("a message from one that has ended", _) => comm.receive(2, &mut [0])?,
        ("exit of 0", 0) | ("exit of 1", 1) => std::process::exit(0),
        ("exit of 2 at the end", 2) => std::process::exit(0),
        ("exit of 2 at the end", _) => return Ok(()),
        ("exit of 3 from a message", 3) => std::process::exit(0),
        ("exit of 3 from a message", 0) => comm.receive(3, &mut [0; 16])?,
        ("work", 2) => compute(Duration::from_secs(3)),
        _ => {}
    }
    Ok(world.barrier()?)
}

/// Runs a program that moves an array along `x`, and on rank 3 one that moves it along `y`.
fn another_program(world: &World) -> Result<(), Failure> {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let program = |axis| {
        let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, axis)]);
        Ok::<_, Failure>(Program::redistribution("A", [&by(0)?, &by(1)?], DType::F64)?)
    };
    let programs = mesh.axes::<2>().map(program);
    let [x, y] = programs;
    let (x, y) = (x?, y?);
    let (mut along_x, mut along_y) = (x.prepare(world)?, y.prepare(world)?);
    let (mine, own) = if world.rank() == 3 { (&mut along_y, &y) } else { (&mut along_x, &x) };
    let a = DistArray::filled(world, own.sharding("A"), 1.0)?;
    mine.run(&[&a])?;
    Ok(())
}

/// Computes without communicating.
fn compute(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::thread::sleep(Duration::from_millis(10));
    }
}
