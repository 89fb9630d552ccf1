//! The threads communicator: the laws of all communicators, and the disagreements that only it detects.

use polyshard_runtime::comm::{Broadcast, Combining, Communicator, Error, Piece, Result};
use polyshard_runtime::{DType, ReduceOp, World};
use polyshard_testing::laws::comm;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs a function that returns errors of communicators on threads.
fn spmd<R: Send>(ranks: usize, f: impl Fn(&World) -> Result<R> + Sync) -> Result<Vec<R>, polyshard_runtime::Error> {
    polyshard_runtime::spmd(ranks, |world| Ok(f(world)?))
}

#[test]
fn the_laws_hold_on_one_to_eight_threads() {
    for ranks in 1..=8 {
        polyshard_runtime::spmd(ranks, |world| comm::hold(world.comm())).unwrap();
    }
}

/// The error may be set between two looks at the flight, which happens about once in 450 times.
#[test]
fn a_flight_that_fails_while_it_is_polled_is_not_done() {
    for turn in 0..2000 {
        let failed = spmd(2, |world| -> Result<()> {
            let comm = world.comm();
            if world.rank() == 0 {
                let sent = Arc::new(Piece::new(64, "a message")?);
                return comm.wait(&mut [&mut comm.post(vec![(1, sent)], vec![])?]);
            }
            let mut flight = comm.post(vec![], vec![(0, Piece::new(48, "a message")?)])?;
            while comm.poll(&mut [&mut flight])? == 0 {}
            Ok(())
        });
        let error = failed.expect_err("the lengths differ").to_string();
        assert!(error.contains("rank 1 receives 64 bytes from rank 0 into a buffer of 48"), "turn {turn}: {error}");
    }
}

#[test]
fn sixty_four_ranks_run_on_few_cores() {
    let sums = spmd(64, |world| -> Result<i64> {
        let mut sum = world.rank() as i64;
        for _ in 0..20 {
            world
                .comm()
                .all_reduce(bytemuck::bytes_of_mut(&mut sum), Combining::any_order(DType::I64, ReduceOp::Max))?;
            world.comm().barrier()?;
        }
        Ok(sum)
    });
    assert_eq!(sums.unwrap(), [63; 64]);
}

#[test]
fn float_sums_are_in_rank_order() {
    // In any other order the small number is lost elsewhere, and the sum differs.
    let values = [1.0f32, 1e8, -1e8, 0.5, 3e-8];
    let in_order = values.iter().copied().reduce(|left, right| left + right).unwrap();
    for _ in 0..20 {
        let sums = spmd(5, |world| -> Result<f32> {
            let mut sum = values[world.rank()];
            world
                .comm()
                .all_reduce(bytemuck::bytes_of_mut(&mut sum), Combining::any_order(DType::F32, ReduceOp::Sum))?;
            Ok(sum)
        });
        assert_eq!(sums.unwrap(), [in_order; 5]);
    }
}

/// Runs `f` on `ranks` threads, where every rank must get the same error, and returns its message.
fn said(ranks: usize, f: impl Fn(&World) -> Result<()> + Sync) -> String {
    let began = Instant::now();
    let errors =
        spmd(ranks, |world| -> Result<_> { Ok(f(world).expect_err("every rank should get an error")) }).unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "the error took {:?}", began.elapsed());
    let messages: Vec<_> = errors
        .into_iter()
        .map(|error| if let Error::Mismatch(message) = error { message } else { panic!("not a mismatch: {error}") })
        .collect();
    assert!(messages.iter().all(|message| *message == messages[0]), "{messages:?}");
    messages[0].clone()
}

#[test]
fn ranks_that_call_different_collectives_are_told_what_each_calls() {
    let different = said(2, |world| match world.rank() {
        0 => world.comm().broadcast(Broadcast::Send(&[7; 4096])),
        _ => world.comm().all_gather(&[7; 32], &mut [0; 64], &[32; 2]),
    });
    let expected = "rank 0 calls broadcast from 0 of 4096 bytes, rank 1 calls all-gather of 64 bytes: \
                    ranks of one group must call the same";
    assert_eq!(different, expected);

    let roots = said(3, |world| match world.rank() {
        0 => world.comm().broadcast(Broadcast::Receive { root: 1, into: &mut [0; 8] }),
        1 => world.comm().broadcast(Broadcast::Receive { root: 2, into: &mut [0; 8] }),
        _ => world.comm().broadcast(Broadcast::Send(&[7; 8])),
    });
    let expected = "rank 0 calls broadcast from 1 of 8 bytes, ranks 1 and 2 call broadcast from 2 of 8 bytes: \
                    ranks of one group must call the same";
    assert_eq!(roots, expected);

    let lengths = said(4, |world| {
        let mut data = [1i32; 4];
        let len = if world.rank() == 2 { 3 } else { 4 };
        world
            .comm()
            .all_reduce(bytemuck::cast_slice_mut(&mut data[..len]), Combining::any_order(DType::I32, ReduceOp::Sum))
    });
    let expected = "ranks 0, 1 and 3 call all-reduce of 16 bytes (sum of i32), \
                    rank 2 calls all-reduce of 12 bytes (sum of i32): ranks of one group must call the same";
    assert_eq!(lengths, expected);

    let operations = said(2, |world| {
        let op = if world.rank() == 0 { ReduceOp::Max } else { ReduceOp::Min };
        world.comm().reduce(1, bytemuck::cast_slice_mut(&mut [1.0f64]), Combining::any_order(DType::F64, op))
    });
    assert!(operations.starts_with(
        "rank 0 calls reduce to 1 of 8 bytes (max of f64), rank 1 calls reduce to 1 of 8 bytes (min of f64)"
    ));
}

#[test]
fn groups_name_their_ranks_as_the_world_does() {
    let message = said(6, |world| {
        let group = world.comm().split(world.rank() % 2, 0)?;
        if world.rank() % 2 == 0 {
            // The other group gets the error, too, because the world has failed.
            return world.comm().barrier();
        }
        match world.rank() {
            3 => group.broadcast(Broadcast::Send(&[1, 2])),
            _ => group.barrier(),
        }
    });
    let expected = "ranks 1 and 5 call barrier, rank 3 calls broadcast from 3 of 2 bytes: \
                    ranks of one group must call the same";
    assert_eq!(message, expected);
}

#[test]
fn an_all_to_all_that_does_not_match_names_the_pair() {
    let message = said(2, |world| match world.rank() {
        0 => world.comm().all_to_all(&[1, 2, 3], &[1, 2], &mut [0; 2], &[1, 1]),
        _ => world.comm().all_to_all(&[1, 2], &[1, 1], &mut [0; 2], &[1, 1]),
    });
    let expected = "in an all-to-all, rank 0 sends 2 bytes to rank 1, which expects 1: both ranks must count the same";
    assert_eq!(message, expected);
}

#[test]
fn a_circle_of_receives_is_an_error_that_names_each_rank() {
    let message = said(3, |world| world.comm().receive((world.rank() + 1) % 3, &mut [0; 16]));
    let expected = "the ranks wait for each other: rank 0 waits to receive 16 bytes from rank 1; \
                    rank 1 waits to receive 16 bytes from rank 2; rank 2 waits to receive 16 bytes from rank 0";
    assert_eq!(message, expected);
}

#[test]
fn waiting_for_a_rank_that_has_ended_is_an_error() {
    let results = spmd(4, |world| -> Result<String> {
        Ok(match world.rank() {
            0 => world.comm().receive(2, &mut [0; 16]).unwrap_err().to_string(),
            1 | 3 => world.comm().barrier().unwrap_err().to_string(),
            _ => String::new(),
        })
    });
    let expected = "the ranks wait for each other: rank 0 waits to receive 16 bytes from rank 2; \
                    ranks 1 and 3 wait in barrier; rank 2 has ended";
    assert_eq!(results.unwrap(), [expected, expected, "", expected]);
}

#[test]
fn a_deadlock_across_groups_is_found() {
    let message = said(4, |world| {
        let row = world.comm().split(world.rank() / 2, world.rank())?;
        let column = world.comm().split(world.rank() % 2, world.rank())?;
        // Ranks 0 and 3 call their rows first, ranks 1 and 2 their columns.
        if matches!(world.rank(), 0 | 3) { row.barrier() } else { column.barrier() }
    });
    let expected = "the ranks wait for each other: rank 0 waits in barrier with ranks 0 and 1; \
                    rank 1 waits in barrier with ranks 1 and 3; rank 2 waits in barrier with ranks 0 and 2; \
                    rank 3 waits in barrier with ranks 2 and 3";
    assert_eq!(message, expected);
}

#[test]
fn a_message_of_another_length_is_an_error_with_both_lengths() {
    let results = spmd(3, |world| -> Result<()> {
        let group = world.comm().split(usize::from(world.rank() == 0), 0)?;
        match world.rank() {
            1 => group.send(1, &[0; 4096]),
            2 => group.receive(0, &mut [0; 4032]),
            _ => Ok(()),
        }
    });
    let expected = "rank 2 receives 4096 bytes from rank 1 into a buffer of 4032: the ranks disagree on the message";
    assert_eq!(results.unwrap_err().to_string(), expected);
}

/// So long that it is read in place at the sender.
const LONG: usize = 1 << 20;

#[test]
fn a_long_message_waits_for_its_receiver() {
    let message = said(3, |world| match world.rank() {
        0 => world.comm().exchange(&[(1, &[1; LONG]), (2, &[2; LONG])], &mut []),
        1 => world.comm().exchange(&[], &mut [(0, &mut [0; LONG]), (0, &mut [0; 8])]),
        _ => world.comm().barrier(),
    });
    let expected = "the ranks wait for each other: rank 0 waits for rank 2 to receive 1048576 bytes; \
                    rank 1 waits to receive 8 bytes from rank 0; rank 2 waits in barrier";
    assert_eq!(message, expected);
}

#[test]
fn long_messages_and_short_ones_keep_their_order() {
    let results = spmd(2, |world| -> Result<[u8; 4]> {
        let (mut first, mut second, mut third) = (vec![0; LONG], [0; 2], vec![0; LONG]);
        match world.rank() {
            0 => world.comm().exchange(&[(1, &vec![1; LONG]), (1, &[2; 2]), (1, &vec![3; LONG])], &mut [])?,
            _ => {
                world.comm().receive(0, &mut first)?;
                world.comm().exchange(&[], &mut [(0, &mut second), (0, &mut third)])?;
            }
        }
        Ok([first[LONG - 1], second[0], second[1], third[0]])
    });
    assert_eq!(results.unwrap(), [[0; 4], [1, 2, 2, 3]]);
}

#[test]
fn a_world_that_fails_withdraws_its_messages() {
    let aborted = Error::Aborted { rank: 2, message: "the disk is full".into() };
    for send in [
        |comm: &dyn Communicator, data: &[u8]| comm.exchange(&[(1 - comm.rank(), data)], &mut []),
        |comm: &dyn Communicator, data: &[u8]| comm.all_gather(data, &mut vec![0; 3 * LONG], &[LONG; 3]),
    ] {
        let result = spmd(3, |world| -> Result<()> {
            let data = vec![world.rank() as u8; LONG];
            if world.rank() == 2 {
                std::thread::sleep(Duration::from_millis(50));
                world.comm().abort("the disk is full");
                return Ok(());
            }
            assert_eq!(send(world.comm(), &data), Err(aborted.clone()));
            drop(data);
            // No rank reads it any more.
            assert_eq!(world.comm().receive(1 - world.rank(), &mut vec![0; LONG]), Err(aborted.clone()));
            Ok(())
        });
        assert_eq!(result.unwrap_err().to_string(), "rank 2: the disk is full");
    }
}

#[test]
fn an_abort_ends_all_waits() {
    let waits: [fn(&dyn Communicator) -> Result<()>; 3] =
        [|comm| comm.barrier(), |comm| comm.receive(0, &mut [0]), |comm| comm.split(0, 0).map(drop)];
    for wait in waits {
        let errors = std::sync::Mutex::new(Vec::new());
        let result = spmd(3, |world| -> Result<()> {
            if world.rank() == 1 {
                world.comm().abort("the disk is full");
                return Ok(());
            }
            let error =
                if world.rank() == 0 { world.comm().barrier().unwrap_err() } else { wait(world.comm()).unwrap_err() };
            errors.lock().unwrap().push(error);
            Ok(())
        });
        let aborted = Error::Aborted { rank: 1, message: "the disk is full".into() };
        assert_eq!(errors.into_inner().unwrap(), [aborted.clone(), aborted]);
        assert_eq!(result.unwrap_err().to_string(), "rank 1: the disk is full");
    }
}

#[test]
fn an_error_that_several_ranks_found_is_told_by_the_first_of_them() {
    for panics in [false, true] {
        let result = polyshard_runtime::spmd(4, |world| -> Result<(), Box<dyn std::error::Error>> {
            // Rank 1 is last, and knows by then that another failed; rank 0 has an error of its own.
            let message = match world.rank() {
                0 => format!("told of {}", world.comm().barrier().unwrap_err()),
                1 => {
                    world.comm().barrier().unwrap_err();
                    "the moon is full".into()
                }
                _ => "the moon is full".into(),
            };
            if panics { panic!("{message}") } else { Err(message.into()) }
        });
        let expected = if panics { "rank 1 panicked: the moon is full" } else { "rank 1: the moon is full" };
        assert_eq!(result.unwrap_err().to_string(), expected);
    }
}

#[test]
fn polling_for_a_message_of_a_rank_that_has_ended_is_an_error() {
    for sends in [false, true] {
        let results = spmd(2, |world| -> Result<String> {
            if world.rank() == 1 {
                return Ok(String::new());
            }
            let piece = Piece::new(8, "a message")?;
            let post = match sends {
                true => world.comm().post(vec![(1, Arc::new(piece))], vec![]),
                false => world.comm().post(vec![], vec![(1, piece)]),
            };
            let polled = post.and_then(|mut flight| {
                loop {
                    world.comm().poll(&mut [&mut flight])?;
                    std::thread::yield_now();
                }
            });
            Err(polled.map(|()| "it is never done").expect_err("rank 1 posts nothing"))
        });
        let what = if sends { "rank 0 sends 8 bytes to rank 1" } else { "rank 0 receives 8 bytes from rank 1" };
        let expected = format!("{what}, which has ended without posting its side: post both sides of each message");
        assert_eq!(results.expect_err("rank 0 fails").to_string(), expected);
    }
}

#[test]
fn a_flight_that_is_not_done_keeps_its_pieces() {
    let failed = spmd(1, |world| -> Result<()> {
        let (sends, receives) = (Piece::new(8, "a message")?, Piece::new(8, "a message")?);
        drop(world.comm().post(vec![(0, Arc::new(sends))], vec![(0, receives)])?.into_pieces());
        Ok(())
    });
    let message = "rank 0 panicked: a flight gives its pieces back when a poll has found it done";
    assert_eq!(failed.expect_err("it should be refused").to_string(), message);
}

#[test]
fn a_group_that_is_gone_leaves_its_flights_done() {
    let received = spmd(2, |world| -> Result<u8> {
        let (rank, group) = (world.rank(), world.comm().split(0, world.rank())?);
        let own = Arc::new(Piece::copy_of(&[rank as u8 + 5], "a message")?);
        let mut flight = group.post(vec![(1 - rank, own)], vec![(1 - rank, Piece::new(1, "a message")?)])?;
        drop(group);
        world.comm().wait(&mut [&mut flight])?;
        let (_, received) = flight.into_pieces();
        Ok(received[0][0])
    });
    assert_eq!(received.expect("both go on"), [6, 5]);
}
