//! Emulated machines: the laws of all communicators, and refused arguments.

use polyshard_machine::{Device, Interconnect, Level, Machine};
use polyshard_runtime::comm::{Broadcast, Piece};
use polyshard_runtime::layout::{Mesh, Placement, Sharding};
use polyshard_runtime::{
    DistArray, Error, Redistribution, Result, Transport, World, spmd_emulated, spmd_emulated_shaken,
};
use polyshard_testing::laws::comm;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A machine of these levels: count, interconnect, shared ports. They pass a gigabyte per second.
fn machine(levels: &[(usize, Interconnect, Option<usize>)]) -> Machine {
    let level = |(nth, (count, interconnect, shared_ports)): (usize, &(usize, Interconnect, Option<usize>))| Level {
        shared_ports: *shared_ports,
        ..Level::new(format!("level{nth}"), *count, interconnect.clone(), 1e9, 1e-6)
    };
    let device = Device { memory_bandwidth: 1e9, memory_capacity: 1 << 30, ..Device::default() };
    Machine::new("test", levels.iter().enumerate().map(level).collect(), device).expect("a machine")
}

fn nodes(count: usize, inside: usize) -> Machine {
    machine(&[(count, Interconnect::Switch, Some(1)), (inside, Interconnect::Switch, None)])
}

/// The laws send some ten thousand messages, so they run on a network that hardly delays them.
const FAST: f64 = 1e-6;

#[test]
fn the_laws_hold_on_nodes_that_share_a_port() {
    for (count, inside) in [(1, 1), (2, 1), (3, 1), (2, 2), (1, 5), (3, 2), (2, 4)] {
        spmd_emulated(&nodes(count, inside), FAST, |world| comm::hold(world.comm())).unwrap();
    }
}

#[test]
fn the_laws_hold_on_rings_and_tori() {
    for levels in [
        vec![(5, Interconnect::Ring, None)],
        vec![(4, Interconnect::Torus(vec![2, 2]), None)],
        vec![(2, Interconnect::Switch, Some(2)), (3, Interconnect::Line, None)],
    ] {
        spmd_emulated(&machine(&levels), FAST, |world| comm::hold(world.comm())).unwrap();
    }
}

#[test]
fn the_laws_hold_where_messages_overtake_one_another() {
    for seed in 0..3 {
        let most = Duration::from_micros(100);
        spmd_emulated_shaken(&nodes(2, 2), FAST, seed, most, |world| comm::hold(world.comm())).unwrap();
    }
}

/// The numbers of ten flights of one message each from rank 0 to rank 1, in the order in which rank 1 finds them done.
fn order(seed: Option<u64>) -> Vec<usize> {
    let run = |world: &World| -> Result<Vec<usize>> {
        let comm = world.comm();
        let mut flights = Vec::new();
        for _ in 0..10 {
            let piece = Piece::new(8, "a message")?;
            flights.push(match world.rank() {
                0 => comm.post(vec![(1, Arc::new(piece))], vec![])?,
                _ => comm.post(vec![], vec![(0, piece)])?,
            });
        }
        let mut order = Vec::new();
        while order.len() < flights.len() {
            comm.poll(&mut flights.iter_mut().collect::<Vec<_>>())?;
            order.extend(
                (0..flights.len()).filter(|nth| flights[*nth].is_done() && !order.contains(nth)).collect::<Vec<_>>(),
            );
            std::thread::yield_now();
        }
        Ok(order)
    };
    let machine = nodes(1, 2);
    let orders = match seed {
        None => spmd_emulated(&machine, 1.0, run),
        Some(seed) => spmd_emulated_shaken(&machine, 1.0, seed, Duration::from_millis(200), run),
    };
    orders.unwrap().swap_remove(1)
}

#[test]
fn flights_end_in_another_order_for_each_seed() {
    assert_eq!(
        order(None),
        (0..10).collect::<Vec<_>>(),
        "without delays of their own, messages of one link stay in order"
    );
    let orders: std::collections::HashSet<_> = (0..4).map(|seed| order(Some(seed))).collect();
    assert!(orders.len() >= 3, "{orders:?}");
}

/// Here every rank sleeps for every message.
#[test]
fn a_slow_network_gives_the_same_results() {
    spmd_emulated(&nodes(2, 2), 100.0, |world| {
        for root in 0..4 {
            let mut data: Vec<u8> = (0..5000).map(|i| (i * 7 + root) as u8).collect();
            if world.rank() == root {
                world.comm().broadcast(Broadcast::Send(&data))?;
            } else {
                let expected = std::mem::replace(&mut data, vec![0; 5000]);
                world.comm().broadcast(Broadcast::Receive { root, into: &mut data })?;
                assert!(data == expected, "broadcast from {root}");
            }
        }
        let row = world.comm().split(world.rank() / 2, world.rank())?;
        let mut both = [0; 4];
        row.all_gather(&[world.rank() as u8; 2], &mut both, &[2; 2])?;
        let first = world.rank() as u8 / 2 * 2;
        assert_eq!(both, [first, first, first + 1, first + 1]);
        Ok::<_, Error>(world.comm().barrier()?)
    })
    .unwrap();
}

#[test]
fn arrays_are_redistributed_by_messages_and_not_through_memory() {
    let mesh = Mesh::new([("x", 4)]);
    let [x] = mesh.axes();
    let blocks = |dim| Sharding::new(&mesh, &[9, 7], &[Placement::block(dim, x)]).expect("a sharding");
    let (rows, columns) = (blocks(0), blocks(1));
    let said = spmd_emulated(&nodes(2, 2), FAST, |world| -> Result<String> {
        let source = DistArray::from_fn(world, &rows, |index| (index[0] * 7 + index[1]) as i64)?;
        let there = Redistribution::new(world, &rows, &columns)?;
        let before = world.bytes_received();
        let target = there.run(world, &source)?;
        assert_eq!(target.block(), DistArray::from_fn(world, &columns, |at| (at[0] * 7 + at[1]) as i64)?.block());
        assert!(world.bytes_received() > before, "the others' rows came by messages");
        let shared = Redistribution::new(world, &rows, &columns)?.with_transport(Transport::Shared);
        Ok(shared.run(world, &source).expect_err("it should be refused").cause().to_string())
    });
    let expected = "cannot redistribute through shared memory: ranks 0 and 1 share none; use `Transport::Auto`";
    assert_eq!(said.unwrap(), [expected; 4]);
}

#[test]
fn a_deadlock_is_found_and_names_what_each_waits_for() {
    let result =
        spmd_emulated(&nodes(2, 1), 1.0, |world| Ok::<_, Error>(world.comm().receive(1 - world.rank(), &mut [0; 16])?));
    assert_eq!(
        result.unwrap_err().to_string(),
        "the ranks wait for each other: rank 0 waits to receive 16 bytes from rank 1; \
         rank 1 waits to receive 16 bytes from rank 0"
    );
}

#[test]
fn a_message_of_another_length_is_an_error_with_both_lengths() {
    let result = spmd_emulated(&nodes(1, 2), 1.0, |world| match world.rank() {
        0 => Ok::<_, Error>(world.comm().send(1, &[0; 4096])?),
        _ => Ok(world.comm().receive(0, &mut [0; 4032])?),
    });
    let expected = "rank 1 receives 4096 bytes from rank 0 into a buffer of 4032: the ranks disagree on the message";
    assert_eq!(result.unwrap_err().to_string(), expected);
}

#[test]
fn an_emulation_inside_of_ranks_and_a_slowdown_that_is_none_are_refused() {
    let error = spmd_emulated(&nodes(1, 2), 0.0, |_| -> Result<()> { Ok(()) }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a machine cannot be slowed by a factor of 0: give one that is more than 0, such as 1"
    );
    let inside = |_: &_| spmd_emulated(&nodes(1, 1), 1.0, |_| -> Result<(), Error> { Ok(()) });
    let error = spmd_emulated(&nodes(1, 1), 1.0, inside).unwrap_err();
    assert!(error.to_string().starts_with("rank 0: `spmd` was called inside of `spmd`"), "{error}");
}

/// Posts a receive of 8 bytes from rank 0 on the other ranks, and polls until it gets an error.
fn poll_for_ever(world: &World) -> Result<()> {
    let mut flight = world.comm().post(vec![], vec![(0, Piece::new(8, "a message")?)])?;
    loop {
        world.comm().poll(&mut [&mut flight])?;
        std::thread::yield_now();
    }
}

#[test]
fn a_failure_ends_the_polls_of_all() {
    let failed = spmd_emulated(&nodes(2, 2), 1.0, |world| match world.rank() {
        0 => Err(Error::Mismatch("the moon is full".into())),
        _ => poll_for_ever(world),
    });
    assert_eq!(failed.expect_err("rank 0 fails").to_string(), "rank 0: the moon is full");
    let failed = spmd_emulated(&nodes(2, 2), 1.0, |world| match world.rank() {
        0 => panic!("boom on purpose"),
        _ => poll_for_ever(world),
    });
    assert_eq!(failed.expect_err("rank 0 panics").to_string(), "rank 0 panicked: boom on purpose");
    // Including ranks whose flights are done.
    let failed = spmd_emulated(&nodes(2, 2), 1.0, |world| -> Result<()> {
        let rank = world.rank();
        let own = Arc::new(Piece::copy_of(&[1], "a message")?);
        let mut flight = world.comm().post(vec![(rank, own)], vec![(rank, Piece::new(1, "a message")?)])?;
        world.comm().wait(&mut [&mut flight])?;
        if rank == 0 {
            return Err(Error::Mismatch("the moon is full".into()));
        }
        loop {
            world.comm().poll(&mut [&mut flight])?;
            std::thread::yield_now();
        }
    });
    assert_eq!(failed.expect_err("rank 0 fails").to_string(), "rank 0: the moon is full");
}

#[test]
fn a_message_that_has_not_arrived_ends_with_the_others_failure() {
    // 8 MB take more than a day to pass the node's port.
    let failed = spmd_emulated(&nodes(2, 1), 1e7, |world| -> Result<()> {
        let piece = Piece::new(8_000_000, "a message")?;
        if world.rank() == 0 {
            let mut flight = world.comm().post(vec![(1, Arc::new(piece))], vec![])?;
            world.comm().wait(&mut [&mut flight])?;
            return Err(Error::Mismatch("the moon is full".into()));
        }
        let mut flight = world.comm().post(vec![], vec![(0, piece)])?;
        loop {
            assert_eq!(world.comm().poll(&mut [&mut flight])?, 0, "it is not there yet");
            std::thread::yield_now();
        }
    });
    assert_eq!(failed.expect_err("rank 0 fails").to_string(), "rank 0: the moon is full");
}

#[test]
fn a_flight_takes_its_time_and_keeps_nobody_waiting() {
    // A megabyte takes a second, so that a rank gets a processor in the meantime.
    let took = spmd_emulated(&nodes(2, 1), 1000.0, |world| -> Result<_> {
        let (other, data) = (1 - world.rank(), Arc::new(Piece::new(1_000_000, "what is sent")?));
        // No rank posts before all have begun.
        let began = Instant::now();
        world.comm().barrier()?;
        let post = Instant::now();
        let mut flight = world.comm().post(vec![(other, data)], vec![(other, Piece::new(1_000_000, "a message")?)])?;
        let (posted, mut polls) = (post.elapsed(), 0);
        while world.comm().poll(&mut [&mut flight])? == 0 {
            polls += 1;
            std::thread::yield_now();
        }
        Ok((posted, began.elapsed(), polls))
    });
    for (posted, arrived, polls) in took.expect("both go on") {
        assert!(arrived >= Duration::from_secs(1), "it was there after {arrived:?}");
        assert!(
            posted < arrived / 2 && polls > 0,
            "posting took {posted:?} of {arrived:?}, with {polls} polls after it"
        );
    }
}

#[test]
fn a_dropped_flight_is_told_by_the_next_call_or_at_the_end() {
    let expected = "rank 1 dropped a flight before it completed: `poll` it until it has, or `wait` for it";
    for calls in [true, false] {
        let failed = spmd_emulated(&nodes(2, 2), 1.0, |world| -> Result<()> {
            match world.rank() {
                0 => return Ok(world.comm().barrier()?),
                1 => {}
                _ => return poll_for_ever(world),
            }
            drop(world.comm().post(vec![], vec![(0, Piece::new(8, "a message")?)])?);
            if calls { Ok(world.comm().split(0, 0)?.barrier()?) } else { Ok(()) }
        });
        assert_eq!(failed.expect_err("rank 1 fails").to_string(), expected);
    }
}
