//! Measures the cost of recording where a program on MPI waits: short calls of the world, and of MPI's communicator itself, alternating.
//!
//! ```text
//! mpirun -n 2 target/release/examples/comm_cost
//! ```

#[cfg(feature = "mpi")]
fn main() -> polyshard_runtime::Result<()> {
    use polyshard_runtime::comm::mpi::MpiCommunicator;
    use polyshard_runtime::comm::{Communicator, Result};
    use polyshard_runtime::{Error, launched_ranks, spmd};
    use std::time::{Duration, Instant};

    const CALLS: u32 = 2000;
    type Call = fn(&dyn Communicator) -> Result<()>;
    let calls: [(&str, Call); 3] = [
        ("barrier", |comm| comm.barrier()),
        ("all-gather of 8 bytes", |comm| {
            comm.all_gather(&[1; 8], &mut vec![0; 8 * comm.size()], &vec![8; comm.size()])
        }),
        ("exchange of 8 bytes", |comm| {
            let other = (comm.rank() + 1) % comm.size();
            let back = (comm.rank() + comm.size() - 1) % comm.size();
            comm.exchange(&[(other, &[1; 8])], &mut [(back, &mut [0; 8])])
        }),
    ];
    spmd(launched_ranks().unwrap_or(1), |world| {
        let plain = MpiCommunicator::world()?;
        for (name, call) in calls {
            let time = |comm: &dyn Communicator| {
                let began = Instant::now();
                (0..CALLS).try_for_each(|_| call(comm)).map(|()| began.elapsed() / CALLS)
            };
            let mut least = [Duration::MAX; 2];
            for _ in 0..50 {
                let taken = [time(&plain)?, time(world.comm())?];
                least = [0, 1].map(|which| least[which].min(taken[which]));
            }
            if world.is_root() {
                println!("{name}: {} ns as it is, {} ns noted", least[0].as_nanos(), least[1].as_nanos());
            }
        }
        Ok::<_, Error>(())
    })?;
    Ok(())
}

#[cfg(not(feature = "mpi"))]
fn main() {}
