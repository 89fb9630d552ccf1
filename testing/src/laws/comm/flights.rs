//! Laws of non-blocking messages, and of rounds that use them.

use super::message;
use polyshard_runtime::comm::{
    self, Arrival, Broadcast, Chain, Combining, Communicator, Flight, Piece, Rounds, SumAlgorithm,
};
use polyshard_runtime::{DType, ReduceOp, Result};
use std::sync::Arc;

/// Lengths of messages: empty, short, and longer than any library sends eagerly.
const LENGTHS: [usize; 4] = [0, 5, 40_000, 300_000];

fn piece(data: &[u8]) -> Result<Arc<Piece>> {
    Ok(Arc::new(Piece::copy_of(data, "a message")?))
}

fn room(bytes: usize) -> Result<Piece> {
    Ok(Piece::new(bytes, "room for a message")?)
}

fn until_done(comm: &dyn Communicator, flights: &mut [&mut Flight]) -> Result<()> {
    while comm.poll(flights)? < flights.len() {
        std::thread::yield_now();
    }
    Ok(())
}

fn received(flight: Flight) -> Vec<Piece> {
    flight.into_pieces().1
}

pub(super) fn posted_and_polled_is_exchanged(comm: &dyn Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    for len in LENGTHS {
        // To every rank, itself included, and two to the next.
        let to: Vec<usize> = (0..size).chain([(rank + 1) % size]).collect();
        let from: Vec<usize> = (0..size).chain([(rank + size - 1) % size]).collect();
        let data: Vec<Vec<u8>> = to.iter().enumerate().map(|(nth, &to)| message(nth / size, rank, to, len)).collect();
        let before = comm.received();
        let mut into = vec![vec![0; len]; from.len()];
        let sends: Vec<_> = to.iter().copied().zip(data.iter().map(|data| &data[..])).collect();
        let mut receives: Vec<_> = from.iter().copied().zip(into.iter_mut().map(|into| &mut into[..])).collect();
        comm.exchange(&sends, &mut receives)?;
        let exchanged = comm.received().since(&before);

        let before = comm.received();
        let sends = sends.iter().map(|(to, data)| Ok((*to, piece(data)?))).collect::<Result<_>>()?;
        let receives = from.iter().map(|&from| Ok((from, room(len)?))).collect::<Result<_>>()?;
        let mut flight = comm.post(sends, receives)?;
        until_done(comm, &mut [&mut flight])?;
        assert!(flight.is_done());
        // Another poll changes nothing, not even the counters.
        assert_eq!(comm.poll(&mut [&mut flight])?, 1);
        let (sent, arrived) = flight.into_pieces();
        assert!(sent.iter().map(|piece| &***piece).eq(data.iter().map(|data| &data[..])), "what was sent comes back");
        assert!(sent.into_iter().all(|piece| Arc::into_inner(piece).is_some()), "nobody else has it");
        assert!(arrived.iter().map(|piece| &**piece).eq(into.iter().map(|into| &into[..])), "{len} bytes each");
        assert_eq!(comm.received().since(&before).bytes(), exchanged.bytes());
    }
    Ok(())
}

pub(super) fn flights_match_in_the_order_posted(comm: &dyn Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
    let len = |nth: usize| [300_000, 0, 17, 90_000, 3][nth % 5];
    let post = |nth: usize| -> Result<_> {
        let send = (to, piece(&message(nth, rank, to, len(nth)))?);
        Ok(comm.post(vec![send], vec![(from, room(len(nth))?)])?)
    };
    // Blocking calls receive their own messages only, whichever arrive first.
    let mut flights = vec![post(0)?];
    let mut into = vec![0; 33];
    comm.exchange(&[(to, &message(99, rank, to, 33))], &mut [(from, &mut into)])?;
    assert_eq!(into, message(99, from, rank, 33), "a message of an exchange");
    for nth in 1..20 {
        flights.push(post(nth)?);
    }
    // They are polled in another order than that in which they were posted.
    let mut last_first: Vec<&mut Flight> = flights.iter_mut().rev().collect();
    until_done(comm, &mut last_first)?;
    for (nth, flight) in flights.into_iter().enumerate() {
        assert_eq!(*received(flight)[0], message(nth, from, rank, len(nth)), "message {nth}");
    }
    if size == 1 {
        return Ok(());
    }
    // A flight may end before one that was posted earlier: the message of the second is sent first, in another group.
    let other = comm.split(0, rank)?;
    let mut late = comm.post(Vec::new(), vec![(from, room(8)?)])?;
    let mut early = other.post(vec![(to, piece(&[3; 8])?)], vec![(from, room(8)?)])?;
    comm.wait(&mut [&mut early])?;
    assert!(early.is_done() && !late.is_done());
    let mut sent = comm.post(vec![(to, piece(&[4; 8])?)], Vec::new())?;
    comm.wait(&mut [&mut late, &mut sent])?;
    assert_eq!((received(late)[0][0], received(early)[0][0]), (4, 3));
    Ok(())
}

pub(super) fn polls_change_nothing(comm: &dyn Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
    for polls in [0, 1, 100] {
        for len in LENGTHS {
            let send = (to, piece(&message(polls, rank, to, len))?);
            let mut flight = comm.post(vec![send], vec![(from, room(len)?)])?;
            for _ in 0..polls * (rank + 1) {
                comm.poll(&mut [&mut flight])?;
            }
            comm.barrier()?;
            comm.wait(&mut [&mut flight])?;
            assert_eq!(*received(flight)[0], message(polls, from, rank, len), "{len} bytes after {polls} polls");
        }
    }
    Ok(())
}

pub(super) fn flights_end_where_all_poll(comm: &dyn Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let mut flights = Vec::new();
    for shift in 0..size {
        let (to, from) = ((rank + shift) % size, (rank + size - shift) % size);
        for len in LENGTHS {
            let send = (to, piece(&message(shift, rank, to, len))?);
            flights.push((shift, len, comm.post(vec![send], vec![(from, room(len)?)])?));
        }
    }
    until_done(comm, &mut flights.iter_mut().map(|flight| &mut flight.2).collect::<Vec<_>>())?;
    for (shift, len, flight) in flights {
        assert_eq!(*received(flight)[0], message(shift, (rank + size - shift) % size, rank, len));
    }
    Ok(())
}

pub(super) fn one_piece_goes_to_many_and_on(comm: &dyn Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    // The same memory to all others, while it is read locally.
    let own = piece(&message(0, rank, rank, 70_000))?;
    let others = || (0..size).filter(|&other| other != rank);
    let receives = others().map(|from| Ok((from, room(70_000)?))).collect::<Result<_>>()?;
    let mut flight = comm.post(others().map(|to| (to, Arc::clone(&own))).collect(), receives)?;
    assert_eq!(own[69_999], message(0, rank, rank, 70_000)[69_999]);
    comm.wait(&mut [&mut flight])?;
    // Received data are sent on to the next rank without a copy.
    let came = received(flight);
    for (from, piece) in others().zip(&came) {
        assert_eq!(**piece, message(0, from, from, 70_000));
    }
    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
    if let Some(first) = came.into_iter().next() {
        let address = first.as_ptr();
        let mut flight = comm.post(vec![(to, Arc::new(first))], vec![(from, room(70_000)?)])?;
        comm.wait(&mut [&mut flight])?;
        let (sent, arrived) = flight.into_pieces();
        let source = usize::from(from == 0);
        assert_eq!((sent[0].as_ptr(), &*arrived[0]), (address, &message(0, source, source, 70_000)[..]));
    }
    Ok(())
}

pub(super) fn bad_arguments_of_a_post_are_refused(comm: &dyn Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let said = |posted: Result<Flight, comm::Error>| posted.expect_err("it should be refused").to_string();
    let no_rank = format!("no rank {size}: the group has ranks 0..{size}");
    assert_eq!(said(comm.post(vec![(size, piece(&[1])?)], Vec::new())), no_rank);
    assert_eq!(said(comm.post(Vec::new(), vec![(size, room(1)?)])), no_rank);
    assert!(said(comm.post(vec![(rank, piece(&[1])?)], Vec::new())).contains("more messages than it receives"));
    let other = comm.post(vec![(rank, piece(&[1])?)], vec![(rank, room(2)?)]);
    assert!(said(other).contains("into a buffer of 2: the ranks disagree on the message"));
    // None of these has begun, and nothing is left in flight.
    Ok(comm.barrier()?)
}

/// Runs rounds to the end, by polls on even ranks and by waiting on odd ones, and returns the data.
fn run(comm: &dyn Communicator, rounds: Rounds, data: &[u8], combining: Option<Combining>) -> Result<Piece> {
    let mut running = rounds.start(Piece::copy_of(data, "the data of a collective")?, combining);
    while comm.rank().is_multiple_of(2) && !running.poll(comm)? {
        std::thread::yield_now();
    }
    Ok(running.wait(comm)?)
}

pub(super) fn rounds_are_the_collectives(comm: &dyn Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    for (bytes, segments) in [(0, 1), (8, 3), (4000, 5), (200_000, 4)] {
        for root in 0..size {
            let expected = message(segments, root, root, bytes);
            let data = if rank == root { expected.clone() } else { vec![0; bytes] };
            let bounds = Rounds::segments(bytes, segments, 1);
            let ranks = (0..size).map(|place| (root + place) % size).collect();
            let before = comm.received();
            assert_eq!(*run(comm, Rounds::chain(ranks, rank, bounds.clone()), &data, None)?, expected[..], "a chain");
            let counted = comm.received().since(&before).bytes();
            assert_eq!(counted, if rank == root { 0 } else { bytes as u64 }, "as a broadcast is counted");
            let circulant = run(comm, Rounds::circulant(size, rank, root, bounds), &data, None)?;
            assert_eq!(*circulant, expected[..], "a circulant graph");
            broadcast(comm, root, &expected, data)?;
        }
        // Ragged blocks of floats whose sum depends on the order.
        let counts: Vec<usize> = (0..size).map(|rank| (bytes / 8 / (rank + 1)) * 8).collect();
        let total: usize = counts.iter().sum();
        let floats = |rank: usize| -> Vec<f64> {
            (0..total / 8).map(|i| 1.0 / ((i % 97 + 1) as f64) * 10f64.powi((rank * 5 + i) as i32 % 17 - 8)).collect()
        };
        let own = floats(rank);
        let (own, sum) = (
            bytemuck::cast_slice(&own),
            Combining { dtype: DType::F64, op: ReduceOp::Sum, by: SumAlgorithm::GatherTerms },
        );
        let start: usize = counts[..rank].iter().sum();
        let mut blocks = vec![0; total];
        let mut gathered = vec![0; total];
        blocks[start..start + counts[rank]].copy_from_slice(&own[start..start + counts[rank]]);
        comm.all_gather(&own[start..start + counts[rank]], &mut gathered, &counts)?;
        assert_eq!(*run(comm, Rounds::ring_all_gather(rank, &counts, 1), &blocks, None)?, gathered[..], "a ring");

        let mut expected = own.to_vec();
        let mut words = vec![0f64; total / 8];
        bytemuck::cast_slice_mut(&mut words).copy_from_slice(&expected);
        comm.all_reduce(bytemuck::cast_slice_mut(&mut words), sum)?;
        expected.copy_from_slice(bytemuck::cast_slice(&words));
        let bounds = || Rounds::segments(total, segments, 8);
        let in_order_sum = |root: usize| {
            let chain = Chain { ranks: (0..size).collect(), segments: 0..segments };
            let sum = Rounds::chains(&[chain], rank, bounds(), Arrival::Combine, |_, _| 1.0);
            sum.then(Rounds::chain(if root == size - 1 { vec![root] } else { vec![size - 1, root] }, rank, bounds()))
        };
        for root in [0, size - 1] {
            let reduced = run(comm, in_order_sum(root), own, Some(sum))?;
            assert!(rank != root || *reduced == expected[..], "a sum in order has the bits of a reduction in order");
        }
        let back = Rounds::chain((0..size).rev().collect(), rank, bounds());
        let all = in_order_sum(size - 1).then(back);
        assert_eq!(*run(comm, all, own, Some(sum))?, expected[..], "and so has one that all get");

        // Sums of integers are the same in any order.
        let scattered = run(
            comm,
            Rounds::ring_reduce_scatter(rank, &counts, 8),
            own,
            Some(Combining::any_order(DType::I64, ReduceOp::Sum)),
        )?;
        let mut words = vec![0i64; counts[rank] / 8];
        let mut terms = vec![0i64; total / 8];
        bytemuck::cast_slice_mut(&mut terms).copy_from_slice(own);
        let (terms, into) = (bytemuck::cast_slice(&terms), bytemuck::cast_slice_mut(&mut words));
        comm.reduce_scatter(terms, into, &counts, Combining::any_order(DType::I64, ReduceOp::Sum))?;
        assert_eq!(scattered[start..start + counts[rank]], *bytemuck::cast_slice::<i64, u8>(&words), "a ring of sums");
    }
    Ok(())
}

/// The blocking broadcast, which receives no message of rounds.
fn broadcast(comm: &dyn Communicator, root: usize, expected: &[u8], mut data: Vec<u8>) -> Result<()> {
    if comm.rank() == root {
        return Ok(comm.broadcast(Broadcast::Send(&data))?);
    }
    comm.broadcast(Broadcast::Receive { root, into: &mut data })?;
    assert_eq!(data, expected);
    Ok(())
}
