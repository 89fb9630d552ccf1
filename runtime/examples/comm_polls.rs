//! Polls flights that have not arrived and flights that arrive meanwhile, and counts allocations: on all ranks that `mpirun` started, on 4
//! threads without it, or with `--emulated` on the devices of a machine.
//!
//! ```text
//! mpirun -n 3 target/debug/examples/comm_polls
//! ```

use polyshard_machine::Machine;
use polyshard_runtime::comm::{Flight, Piece, Rounds};
use polyshard_runtime::{Result, World, spmd, spmd_emulated};
use polyshard_testing::laws;
use std::sync::Arc;

fn main() -> Result<()> {
    if std::env::args().any(|argument| argument == "--emulated") {
        let machine =
            Machine::preset("a100").and_then(|machine| machine.with_counts(&[2, 2])).expect("it is a machine");
        return spmd_emulated(&machine, 1000.0, check).map(drop);
    }
    spmd(laws::ranks(), check).map(drop)
}

fn check(world: &World) -> Result<()> {
    let (comm, rank, size) = (world.comm(), world.rank(), world.size());
    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
    if size == 1 {
        println!("one rank polls for nothing");
        return Ok(());
    }
    let lengths = [0, 8, 1 << 20];
    let receive = |&len: &usize| Ok(comm.post(vec![], vec![(from, Piece::new(len, "a message")?)])?);
    let mut flights = lengths.iter().map(receive).collect::<Result<Vec<Flight>>>()?;
    let mut early: Result<()> = Ok(());
    let before = allocation_counter::measure(|| {
        early = (0..1000).try_for_each(|_| {
            let [first, second, third] = &mut flights[..] else { unreachable!("there are three") };
            let done = comm.poll(&mut [first, second, third])?;
            assert_eq!(done, 0, "nothing has been sent");
            Ok(())
        });
    });
    early?;
    comm.barrier()?;
    let send = |&len: &usize| Ok(comm.post(vec![(to, Arc::new(Piece::new(len, "a message")?))], vec![])?);
    let mut sent = lengths.iter().map(send).collect::<Result<Vec<Flight>>>()?;
    let mut late: Result<()> = Ok(());
    let after = allocation_counter::measure(|| {
        late = (|| {
            let ([a, b, c], [d, e, f]) = (&mut flights[..], &mut sent[..]) else { unreachable!("there are three") };
            while comm.poll(&mut [a, b, c, d, e, f])? < 6 {
                std::thread::yield_now();
            }
            Ok(())
        })();
    });
    late?;
    assert_eq!((before.count_total, after.count_total), (0, 0), "rank {rank} allocates where it polls");
    let rounds = Rounds::circulant(size, rank, 0, Rounds::segments(1000, 5, 1));
    let mut broadcast = rounds.start(Piece::new(1000, "what is broadcast")?, None);
    if rank > 0 {
        // The first poll posts the receives that are possible.
        broadcast.poll(comm)?;
        let mut waiting: Result<()> = Ok(());
        let polls = allocation_counter::measure(|| {
            waiting = (0..1000).try_for_each(|_| {
                assert!(!broadcast.poll(comm)?, "nothing has been sent");
                Ok(())
            });
        });
        waiting?;
        assert_eq!(polls.count_total, 0, "rank {rank} allocates where its rounds wait");
    }
    comm.barrier()?;
    broadcast.wait(comm)?;
    comm.barrier()?;
    if rank == 0 {
        println!("polling allocates nothing on {size} ranks");
    }
    Ok(())
}
