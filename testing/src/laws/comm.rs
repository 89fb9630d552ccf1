//! Laws of every communicator, whatever its ranks: one function per law.
//!
//! The runtime's tests run them on threads, and its example `comm_laws` under `mpirun`. Data are a function of sender,
//! receiver and the position in the message, so a misdirected piece is detected.

mod flights;
mod reductions;
mod typed;

use polyshard_runtime::comm::{Broadcast, Communicator, Received, exchange_words};
use polyshard_runtime::{Element, Result};

/// A law, to be called on all ranks of the group at once. Panics where it does not hold.
pub type Law = fn(&dyn Communicator) -> Result<()>;

/// All laws by name.
pub const LAWS: [(&str, Law); 28] = [
    ("a ring shift gives each rank its neighbour's data", ring_shift),
    ("a ring shift by send and receive does too", ring_by_send_and_receive),
    ("messages between two ranks keep their order", messages_keep_their_order),
    ("an exchange delivers many messages, also to oneself", exchange_of_many_messages),
    ("empty messages are messages", empty_messages),
    ("a broadcast from each root reaches all", broadcast_from_each_root),
    ("a large broadcast and a large shift arrive whole", large_messages),
    ("an all-gather of equal blocks is in rank order", all_gather_of_equal_blocks),
    ("an all-gather of ragged blocks is in rank order", all_gather_of_ragged_blocks),
    ("an all-to-all transposes", all_to_all_of_ragged_blocks),
    ("a reduction combines all ranks' elements", reductions::reduce_to_each_root),
    ("an all-reduction gives all ranks the same", reductions::all_reduce),
    ("a reduce-scatter gives each rank its part", reductions::reduce_scatter),
    ("rows and columns are groups", rows_and_columns),
    ("a split orders by key", split_orders_by_key),
    ("bytes received are counted alike everywhere", bytes_are_counted),
    ("notes reach all ranks and are not counted", notes_reach_all),
    ("every rank has its number in the world", world_ranks_are_known),
    ("typed sums are in rank order, with the same bits everywhere", typed::sums_are_in_rank_order),
    ("typed gathers and scatters are in rank order", typed::gathers_and_scatters_are_in_rank_order),
    ("typed messages arrive", typed::typed_messages_arrive),
    ("a flight that is polled to its end is an exchange", flights::posted_and_polled_is_exchanged),
    ("flights match in the order posted and end in any", flights::flights_match_in_the_order_posted),
    ("polls change nothing", flights::polls_change_nothing),
    ("flights end where all poll and nobody waits", flights::flights_end_where_all_poll),
    ("one piece goes to many ranks, and on to others", flights::one_piece_goes_to_many_and_on),
    ("bad arguments of a post are refused", flights::bad_arguments_of_a_post_are_refused),
    ("rounds are the collectives that they stand for", flights::rounds_are_the_collectives),
];

/// Runs all laws on the group, and then on its halves, whose ranks have other numbers than in the world.
pub fn hold(comm: &dyn Communicator) -> Result<()> {
    for (_, law) in LAWS {
        law(comm)?;
        comm.barrier()?;
    }
    let half = comm.split(comm.rank() % 2, comm.size() - comm.rank())?;
    for (_, law) in LAWS {
        law(&*half)?;
    }
    Ok(comm.barrier()?)
}

/// Byte `i` of the message numbered `nth` from `from` to `to`.
fn byte(nth: usize, from: usize, to: usize, i: usize) -> u8 {
    // The factors are odd primes, so a change of any one of the four changes the byte.
    (nth.wrapping_mul(131) ^ from.wrapping_mul(29) ^ to.wrapping_mul(53) ^ i.wrapping_mul(7) ^ (i >> 8)) as u8
}

/// The bytes of a slice, which differ for all distinct values.
fn bits<T: Element>(data: &[T]) -> &[u8] {
    bytemuck::cast_slice(data)
}

fn message(nth: usize, from: usize, to: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| byte(nth, from, to, i)).collect()
}

fn ring_shift(comm: &dyn Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    for shift in 0..size {
        let (to, from) = ((rank + shift) % size, (rank + size - shift) % size);
        let mut into = vec![0; 100];
        comm.exchange(&[(to, &message(shift, rank, to, 100))], &mut [(from, &mut into)])?;
        assert_eq!(into, message(shift, from, rank, 100), "shift by {shift}");
    }
    Ok(())
}

fn ring_by_send_and_receive(comm: &dyn Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    if size == 1 {
        return Ok(());
    }
    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut into = vec![0; 1000];
    // Rank 0 sends first and the others after they have received, so no send needs a buffer.
    if rank == 0 {
        comm.send(to, &message(0, rank, to, 1000))?;
    }
    comm.receive(from, &mut into)?;
    if rank != 0 {
        comm.send(to, &message(0, rank, to, 1000))?;
    }
    assert_eq!(into, message(0, from, rank, 1000));
    Ok(())
}

fn messages_keep_their_order(comm: &dyn Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    if rank == 0 {
        for nth in 0..50 {
            for to in 1..size {
                comm.send(to, &message(nth, 0, to, nth * 3))?;
            }
        }
    } else {
        for nth in 0..50 {
            let mut into = vec![0; nth * 3];
            comm.receive(0, &mut into)?;
            assert_eq!(into, message(nth, 0, rank, nth * 3), "message {nth}");
        }
    }
    Ok(())
}

fn exchange_of_many_messages(comm: &dyn Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    // The number of messages from one rank to another, and their lengths.
    let number = |from: usize, to: usize| (from * 2 + to) % 4;
    let len = |nth: usize, from: usize, to: usize| nth * 40 + from * 5 + to;
    let sent: Vec<_> = (0..size)
        .flat_map(|to| (0..number(rank, to)).map(move |nth| (to, message(nth, rank, to, len(nth, rank, to)))))
        .collect();
    let mut received: Vec<_> = (0..size)
        .rev()
        .flat_map(|from| (0..number(from, rank)).map(move |nth| (from, nth, vec![0; len(nth, from, rank)])))
        .collect();
    let sends: Vec<_> = sent.iter().map(|(to, data)| (*to, &data[..])).collect();
    let mut receives: Vec<_> = received.iter_mut().map(|(from, _, data)| (*from, &mut data[..])).collect();
    comm.exchange(&sends, &mut receives)?;
    for (from, nth, data) in received {
        assert_eq!(data, message(nth, from, rank, data.len()), "message {nth} from {from}");
    }
    Ok(())
}

fn empty_messages(comm: &dyn Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
    let (mut first, mut second) = ([], [0; 1]);
    let sends: [(usize, &[u8]); 2] = [(to, &[]), (to, &[rank as u8])];
    comm.exchange(&sends, &mut [(from, &mut first), (from, &mut second)])?;
    assert_eq!(second, [from as u8], "an empty message takes its turn");
    comm.exchange(&[], &mut [])?;
    let part = if rank == 0 { Broadcast::Send(&[]) } else { Broadcast::Receive { root: 0, into: &mut [] } };
    comm.broadcast(part)?;
    comm.all_gather(&[], &mut [], &vec![0; size])?;
    Ok(comm.all_to_all(&[], &vec![0; size], &mut [], &vec![0; size])?)
}

fn broadcast_from_each_root(comm: &dyn Communicator) -> Result<()> {
    for root in 0..comm.size() {
        for len in [1, 77, 5000] {
            broadcast(comm, root, len)?;
        }
    }
    Ok(())
}

fn broadcast(comm: &dyn Communicator, root: usize, len: usize) -> Result<()> {
    let data = message(len, root, root, len);
    if comm.rank() == root {
        return Ok(comm.broadcast(Broadcast::Send(&data))?);
    }
    let mut into = vec![0; len];
    comm.broadcast(Broadcast::Receive { root, into: &mut into })?;
    assert!(into == data, "a broadcast of {len} bytes from {root} came broken");
    Ok(())
}

fn large_messages(comm: &dyn Communicator) -> Result<()> {
    const LEN: usize = (3 << 20) + 5;
    let (rank, size) = (comm.rank(), comm.size());
    broadcast(comm, size - 1, LEN)?;
    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut into = vec![0; LEN];
    comm.exchange(&[(to, &message(1, rank, to, LEN))], &mut [(from, &mut into)])?;
    assert!(into == message(1, from, rank, LEN), "a shift of {LEN} bytes came broken");
    Ok(())
}

fn all_gather_of_equal_blocks(comm: &dyn Communicator) -> Result<()> {
    all_gather(comm, &vec![33; comm.size()])
}

fn all_gather_of_ragged_blocks(comm: &dyn Communicator) -> Result<()> {
    let size = comm.size();
    all_gather(comm, &(0..size).map(|rank| rank * 17).collect::<Vec<_>>())?;
    all_gather(comm, &(0..size).map(|rank| (rank % 3) * 1000).collect::<Vec<_>>())?;
    // Only the last rank has data.
    all_gather(comm, &(0..size).map(|rank| usize::from(rank + 1 == size)).collect::<Vec<_>>())
}

fn all_gather(comm: &dyn Communicator, counts: &[usize]) -> Result<()> {
    let blocks: Vec<_> = counts.iter().enumerate().map(|(rank, &len)| message(0, rank, rank, len)).collect();
    let mut into = vec![0; counts.iter().sum()];
    comm.all_gather(&blocks[comm.rank()], &mut into, counts)?;
    assert_eq!(into, blocks.concat(), "counts {counts:?}");
    Ok(())
}

fn all_to_all_of_ragged_blocks(comm: &dyn Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let lengths: [fn(usize, usize) -> usize; 3] =
        [|_, _| 21, |from, to| from * 11 + to * 3, |from, to| if (from + to) % 3 == 0 { 0 } else { 300 * from + 1 }];
    for len in lengths {
        let send_counts: Vec<_> = (0..size).map(|to| len(rank, to)).collect();
        let receive_counts: Vec<_> = (0..size).map(|from| len(from, rank)).collect();
        let send: Vec<_> = (0..size).flat_map(|to| message(0, rank, to, len(rank, to))).collect();
        let expected: Vec<_> = (0..size).flat_map(|from| message(0, from, rank, len(from, rank))).collect();
        let mut into = vec![0; expected.len()];
        comm.all_to_all(&send, &send_counts, &mut into, &receive_counts)?;
        assert_eq!(into, expected);
    }
    Ok(())
}

fn rows_and_columns(comm: &dyn Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    for columns in 1..=size {
        let row = comm.split(rank / columns, rank)?;
        let column = comm.split(rank % columns, rank)?;
        assert_eq!((row.rank(), column.rank()), (rank % columns, rank / columns));
        assert_eq!(row.size(), columns.min(size - rank / columns * columns));
        // Both are in use at once, and receive none of each other's messages.
        let (mut along, mut down) = (vec![0; row.size()], vec![0; column.size()]);
        row.all_gather(&[rank as u8], &mut along, &vec![1; row.size()])?;
        column.all_gather(&[rank as u8], &mut down, &vec![1; column.size()])?;
        assert!(along.iter().all(|&other| usize::from(other) / columns == rank / columns), "{along:?}");
        assert!(down.iter().all(|&other| usize::from(other) % columns == rank % columns), "{down:?}");
    }
    Ok(())
}

fn split_orders_by_key(comm: &dyn Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let reversed = comm.split(0, size - rank)?;
    assert_eq!((reversed.rank(), reversed.size()), (size - 1 - rank, size));
    let equal = comm.split(7, 7)?;
    assert_eq!((equal.rank(), equal.size()), (rank, size));
    broadcast(&*reversed, 0, 9)
}

fn bytes_are_counted(comm: &dyn Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let others = size as u64 - 1;
    let expect = |before: u64, bytes: u64, what: &str| {
        assert_eq!(comm.bytes_received() - before, bytes, "{what}");
        comm.bytes_received()
    };
    let before = comm.bytes_received();
    broadcast(comm, 0, 10)?;
    let before = expect(before, if rank == 0 { 0 } else { 10 }, "broadcast");
    all_gather(comm, &vec![5; size])?;
    let before = expect(before, 5 * others, "all-gather");
    let counts = vec![3; size];
    comm.all_to_all(&vec![1; 3 * size], &counts, &mut vec![0; 3 * size], &counts)?;
    let before = expect(before, 3 * others, "all-to-all");
    comm.exchange(&[(rank, &[1, 2])], &mut [(rank, &mut [0, 0])])?;
    let before = expect(before, 0, "a message to oneself");
    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
    comm.exchange(&[(to, &[1, 2])], &mut [(from, &mut [0, 0])])?;
    let before = expect(before, if size == 1 { 0 } else { 2 }, "shift");
    let part = comm.split(0, rank)?;
    broadcast(&*part, 0, 10)?;
    expect(before, if rank == 0 { 0 } else { 10 }, "broadcast in a part");
    Ok(())
}

fn notes_reach_all(comm: &dyn Communicator) -> Result<()> {
    let note = |rank: usize| [rank as u64, u64::MAX - rank as u64, 7, (rank as u64) << 40, 1, 2, 3, 4];
    let before = comm.bytes_received();
    let mut notes = Vec::new();
    for _ in 0..3 {
        comm.exchange_headers("notes".into(), note(comm.rank()), &mut notes)?;
        assert_eq!(notes, (0..comm.size()).map(note).collect::<Vec<_>>());
    }
    assert_eq!(comm.bytes_received(), before, "notes are no data");
    let received = comm.received();
    comm.count_in_place(24);
    assert_eq!(comm.bytes_received(), before + 24, "what came without a message is counted when it is said");
    let since = comm.received().since(&received);
    assert_eq!(since, Received { in_place: 1, bytes_in_place: 24, ..Received::default() });
    Ok(())
}

fn world_ranks_are_known(comm: &dyn Communicator) -> Result<()> {
    let numbers = exchange_words(comm, "world ranks", [comm.world_rank(comm.rank()) as u64])?;
    for (rank, number) in numbers.iter().enumerate() {
        assert_eq!(comm.world_rank(rank) as u64, number[0]);
    }
    Ok(())
}
