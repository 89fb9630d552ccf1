//! Runs the laws of communicators on all ranks that `mpirun` started, or on 4 threads without it.
//!
//! ```text
//! mpirun -n 3 target/debug/examples/comm_laws
//! ```
//!
//! On MPI the laws run twice more with small limits on the counts that MPI gets, so that messages of some kilobytes are
//! sent like those of gigabytes. With `--long`, ranks also pass messages of 2.5 GiB; each rank holds two.

use polyshard_runtime::comm::{Broadcast, Communicator};
use polyshard_runtime::{Collectives, Error, Result, spmd};
use polyshard_testing::laws::{self, comm};

fn main() -> Result<()> {
    let ranks = laws::ranks();
    spmd(ranks, |world| {
        comm::hold(world.comm())?;
        #[cfg(feature = "mpi")]
        if world.backend() == polyshard_runtime::Backend::Mpi {
            use polyshard_runtime::comm::mpi::MpiCommunicator;
            for limit in [64, 1000] {
                comm::hold(&MpiCommunicator::world()?.with_count_limit(limit))?;
            }
        }
        if std::env::args().any(|argument| argument == "--long") {
            long_messages(world.comm())?;
        }
        if world.rank() == 0 {
            println!("{} laws hold on {} ranks", comm::LAWS.len(), world.size());
        }
        Ok::<(), Error>(())
    })?;
    // A second program in one process finds MPI as the first one left it.
    spmd(ranks, |world| world.barrier()).map(drop)
}

/// Passes messages whose length does not fit in a C `int`.
fn long_messages(comm: &dyn Communicator) -> Result<()> {
    let words = (5usize << 28) + 1;
    let (rank, size) = (comm.rank(), comm.size());
    let word = |rank: usize, i: usize| (i as u16).wrapping_mul(31) ^ rank as u16;
    let holds = |data: &[u16], from: usize| data.iter().enumerate().all(|(i, &x)| x == word(from, i));
    let mine: Vec<u16> = (0..words).map(|i| word(rank, i)).collect();
    let mut into = vec![0u16; words];
    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
    comm.exchange(&[(to, bytemuck::cast_slice(&mine))], &mut [(from, bytemuck::cast_slice_mut(&mut into))])?;
    assert!(holds(&into, from), "a shift of {} bytes came broken", 2 * words);
    if rank == 0 {
        return Ok(comm.broadcast(Broadcast::Send(bytemuck::cast_slice(&mine)))?);
    }
    comm.broadcast(Broadcast::Receive { root: 0, into: bytemuck::cast_slice_mut(&mut into) })?;
    assert!(holds(&into, 0), "a broadcast of {} bytes came broken", 2 * words);
    Ok(())
}
