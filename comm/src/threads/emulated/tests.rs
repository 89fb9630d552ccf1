//! Checks how long messages take on an emulated machine's ports, and that ranks wait for them.

use super::*;
use crate::ranks::on_threads;
use crate::{DType, ReduceOp};
use polyshard_machine::{Algorithm, Collective, Device, GroupedCollective, Interconnect, Level, Machine, seconds};

/// A machine of levels (count, interconnect, bytes per second, shared ports), without latency.
fn machine(levels: &[(usize, Interconnect, f64, Option<usize>)]) -> Machine {
    let level = |(nth, (count, interconnect, bandwidth, shared_ports)): (usize, &(_, Interconnect, _, _))| Level {
        shared_ports: *shared_ports,
        ..Level::new(format!("level{nth}"), *count, interconnect.clone(), *bandwidth, 0.0)
    };
    let device = Device { memory_bandwidth: 1e9, memory_capacity: 1 << 30, ..Device::default() };
    Machine::new("test", levels.iter().enumerate().map(level).collect(), device).unwrap()
}

/// Runs `f` once per device of the network, on threads.
fn on_network<R: Send>(network: &Arc<Network>, f: impl Fn(&ThreadComm) -> Result<R> + Sync) -> Result<Vec<R>, String> {
    on_threads(network.devices(), |comm| f(&comm.emulated(Arc::clone(network))?))
}

/// Carries out an operation of a group whose ranks hold `bytes` each.
fn carry_out(comm: &dyn Communicator, operation: Collective, bytes: usize) -> Result<()> {
    let (n, dtype, op) = (comm.size(), DType::F32, ReduceOp::Sum);
    let mut data = vec![1.0f32; bytes / 4];
    let data: &mut [u8] = bytemuck::cast_slice_mut(&mut data);
    let part = vec![bytes / n; n];
    match operation {
        Collective::AllReduce => comm.all_reduce(data, Combining::any_order(dtype, op)),
        Collective::ReduceScatter => {
            let mut into = vec![0.0f32; bytes / n / 4];
            comm.reduce_scatter(data, bytemuck::cast_slice_mut(&mut into), &part, Combining::any_order(dtype, op))
        }
        Collective::AllGather => comm.all_gather(data, &mut vec![0; n * bytes], &vec![bytes; n]),
        Collective::Reduce => comm.reduce(0, data, Combining::any_order(dtype, op)),
        Collective::Broadcast if comm.rank() == 0 => comm.broadcast(Broadcast::Send(data)),
        Collective::Broadcast => comm.broadcast(Broadcast::Receive { root: 0, into: data }),
        Collective::AllToAll => comm.all_to_all(data, &part, &mut vec![0; bytes], &part),
        other => unreachable!("{other} is not carried out here"),
    }
}

/// The planner predicts the load of the busiest port in seconds; the emulated port has the same load.
#[test]
fn collectives_load_the_busiest_port_as_the_planner_expects() {
    use Collective::{AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter};
    use Interconnect::{Line, Ring, Switch};
    let nodes = |count, inside, shared| machine(&[(count, Switch, 1e6, shared), (inside, Switch, 1e7, None)]);
    let machines = [
        nodes(2, 2, Some(1)),
        nodes(2, 4, Some(1)),
        nodes(3, 2, Some(2)),
        nodes(2, 3, None),
        machine(&[(2, Switch, 1e6, Some(1)), (2, Switch, 3e6, Some(1)), (2, Switch, 1e7, None)]),
        machine(&[(6, Ring, 1e6, None)]),
        machine(&[(5, Line, 1e6, None)]),
        machine(&[(2, Switch, 1e6, Some(1)), (4, Ring, 2e6, None)]),
    ];
    // Each operation loads ports for thousands of emulated seconds, which pass in almost no time.
    const SLOWDOWN: f64 = 1e-9;
    for machine in &machines {
        let ranks = machine.devices();
        let inner = machine.levels().last().unwrap().count;
        let divisions: [&(dyn Fn(usize) -> usize + Sync); 4] =
            [&|_| 0, &|rank| rank / inner, &|rank| rank % inner, &|rank| usize::from(rank % 3 == 1)];
        for label in divisions {
            let groups: Vec<Vec<usize>> =
                (0..ranks).map(|group| (0..ranks).filter(|&rank| label(rank) == group).collect()).collect();
            for operation in [AllReduce, ReduceScatter, AllGather, Reduce, Broadcast, AllToAll] {
                // Whole elements in every division: 840 is a multiple of all numbers up to 8.
                let bytes = 2 * 4 * 16 * 840;
                let network = Arc::new(Network::new(machine, SLOWDOWN).unwrap());
                on_network(&network, |comm| {
                    let group = comm.split(label(comm.rank()), comm.rank())?;
                    carry_out(&*group, operation, bytes)
                })
                .unwrap();
                let collective = GroupedCollective { operation, groups: groups.clone(), bytes: bytes as f64 };
                let expected = seconds(machine, &collective, Algorithm::Ring).unwrap().transfer;
                let taken = network.most_taken() / SLOWDOWN;
                assert!((taken - expected).abs() <= 1e-9 * expected, "{operation} in {groups:?}: {taken}, {expected}");
            }
        }
    }
}

#[test]
fn a_message_is_not_there_before_it_has_arrived() {
    let machine = machine(&[(2, Interconnect::Switch, 1e6, Some(1)), (2, Interconnect::Switch, 1e7, None)]);
    let network = Arc::new(Network::new(&machine, 1.0).unwrap());
    let sizes = [3000, 100, 2000];
    let arrived = on_network(&network, |comm| match comm.rank() {
        0 => sizes.iter().try_for_each(|&size| comm.send(3, &vec![7; size])).map(|()| vec![]),
        3 => sizes.iter().map(|&size| comm.receive(0, &mut vec![0; size]).map(|()| network.now())).collect(),
        _ => Ok(vec![]),
    })
    .unwrap();
    // The clock is the network's own, and started before the first was sent.
    for (nth, time) in arrived[3].iter().enumerate() {
        let bytes: usize = sizes[..=nth].iter().sum();
        assert!(*time >= bytes as f64 / 1e6, "message {nth} was there at {time}");
    }
}

#[test]
fn collectives_do_not_take_the_callers_messages() {
    let network = Arc::new(Network::new(&machine(&[(3, Interconnect::Switch, 1e12, None)]), 1.0).unwrap());
    on_network(&network, |comm| {
        let (next, before) = ((comm.rank() + 1) % 3, (comm.rank() + 2) % 3);
        comm.send(next, &[comm.rank() as u8; 4])?;
        let mut all = [9; 12];
        comm.all_gather(&[10 + comm.rank() as u8; 4], &mut all, &[4; 3])?;
        let mut late = [9; 4];
        comm.receive(before, &mut late)?;
        assert_eq!((all, late), ([10, 10, 10, 10, 11, 11, 11, 11, 12, 12, 12, 12], [before as u8; 4]));
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_rank_that_waits_for_a_message_is_told_of_a_failure() {
    // The message would arrive after a year.
    let network = Arc::new(Network::new(&machine(&[(2, Interconnect::Switch, 1.0, None)]), 1.0).unwrap());
    let result = on_network(&network, |comm| {
        if comm.rank() == 0 {
            comm.send(1, &vec![0; 32_000_000])?;
            comm.abort("the disk is full");
            return Ok(());
        }
        let error = comm.receive(0, &mut vec![0; 32_000_000]).unwrap_err();
        assert_eq!(error.to_string(), "rank 0 failed: the disk is full");
        Err(error)
    });
    assert_eq!(result.unwrap_err(), "rank 0: the disk is full");
}

#[test]
fn segments_are_whole_units_and_make_up_the_half() {
    for (half, unit, hops, count) in
        [(8..8, 8, 3, 1), (0..4000, 8, 3, 8), (16..100_016, 8, 2, 16), (3..9000, 1, 1, 1), (4..516, 4, 9, 1)]
    {
        let bounds = segments(half.clone(), unit, hops);
        assert_eq!(bounds.len(), count + 1, "{half:?}");
        assert_eq!((bounds[0], bounds[count]), (half.start, half.end));
        assert!(bounds.windows(2).all(|pair| pair[0] <= pair[1] && (pair[1] - pair[0]) % unit == 0));
    }
}
