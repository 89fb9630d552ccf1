//! Figures computed from times of links and devices, and the list of timings.

use super::*;
use crate::clock::Watch;
use crate::progress::Progress;
use polyshard_runtime::spmd;
use std::time::Duration;

/// A link of 1 us and `bandwidth` bytes per second, between ranks of one node or between nodes.
fn link(level: &'static str, bandwidth: f64) -> LinkTimes {
    let timed = |bytes: usize| Timed { seconds: 1e-6 + bytes as f64 / bandwidth, median: 1.0 };
    LinkTimes { level, sharing: 1, times: [1 << 10, 1 << 20].map(|bytes| (bytes, timed(bytes))).to_vec() }
}

fn topology_of(level: &str) -> Topology {
    match level {
        "rank" => Topology { nodes: 1, ranks_per_node: 2, cores: 2, memory: 1 << 30 },
        _ => Topology { nodes: 2, ranks_per_node: 1, cores: 2, memory: 1 << 30 },
    }
}

/// A device with this link, whose 125 rows were copied in a millisecond.
fn device_beside(link: &LinkTimes) -> Device {
    let topology = topology_of(link.level);
    let once = |seconds| Timed { seconds, median: seconds };
    let products = DType::NATIVE.map(|dtype| (dtype, once(1e-3))).to_vec();
    let times = DeviceTimes {
        nests: products.clone(),
        products,
        rows: 64,
        thin: DType::NATIVE.map(|dtype| (dtype, [once(1e-4); SHAPES.len()])).to_vec(),
        copies: [1e-3, 5e-4, 1.5e-3, 1.625e-3].map(once),
        bytes: 125 * ROW,
        written: once(8e-4),
        // Thirty-one times as many rows as the cached product has: 31 blocks of 64 rows.
        packed: [31.0 * 1e-4 + 4e-4, 31.0 * 1e-4 + 2.5e-4, 31.0 * 1e-4 + 2e-3].map(once),
        others: Some([4.1e-3, 1e-4 + 4e-3 / 125.0].map(once)),
    };
    let machine =
        machine("made up", &topology, std::slice::from_ref(link), times.device(&topology)).expect("a machine");
    machine.device().clone()
}

#[test]
fn memory_is_as_fast_as_copies_of_rows_that_follow_one_another() {
    // Messages may fit into a cache, so they do not measure it.
    for of in [link("rank", 17e9), link("rank", 1e9), link("node", 17e9)] {
        let device = device_beside(&of);
        assert!((device.memory_bandwidth / (250.0 * ROW as f64 / 1e-3) - 1.0).abs() < 1e-6);
        let shares = topology_of(of.level).ranks_per_node > 1;
        assert_eq!(device.memory_alone.is_some(), shares, "a rank that has its node to itself is always alone");
        assert!((device.row_latency / 1e-6 - 1.0).abs() < 1e-6, "{} s for each of 125 rows", device.row_latency);
        let packing = device.packing_bandwidth.expect("the larger product does not fit a cache");
        let rows = 31.0 * 64.0;
        let latency = 1.5e-4 / (rows - rows / 16.0);
        assert!((device.packing_latency / latency - 1.0).abs() < 1e-6, "{}", device.packing_latency);
        assert!((packing / (124.0 * ROW as f64 / (4e-4 - rows * latency)) - 1.0).abs() < 1e-6, "{packing}");
        // A transposed operand may take longer than the memory takes.
        let transposing = device.transposing_bandwidth.expect("it is measured together with the other one");
        assert!((transposing / (124.0 * ROW as f64 / 2e-3) - 1.0).abs() < 1e-6, "{transposing}");
        let written = device.write_bandwidth.expect("it is measured everywhere");
        assert!((written / (125.0 * ROW as f64 / 8e-4) - 1.0).abs() < 1e-6, "{written}");
        let others = device.memory_of_others.expect("ranks see one another's memory");
        assert!((others / (250.0 * ROW as f64 / 4e-3) - 1.0).abs() < 1e-6, "{others}");
        assert!((device.in_place_latency / 1e-4 - 1.0).abs() < 1e-6, "{}", device.in_place_latency);
    }
}

#[test]
fn nodes_are_a_level_whose_ranks_share_a_port() {
    let machines = spmd(4, |world| {
        // Threads share one node, so the two nodes are made up; times are those of threads.
        let topology = Topology { nodes: 2, ranks_per_node: 2, cores: 2, memory: 1 << 30 };
        let (round, budget) = (Duration::ZERO, Duration::ZERO);
        let watch = &Watch::new(None);
        let clock = Clock { comm: world.comm(), round, rounds: 1, budget, extra: 0, watch, computes: false };
        let mut told = Vec::new();
        let mut tell = |progress: &Progress| told.push(progress.next.clone());
        let steps = &mut Steps { done: 0, total: 48, tell: &mut tell };
        let links = links(&clock, &topology, &mut Buffers::new(1 << 14), &[1 << 10, 1 << 14], 1, steps)?;
        let sharing: Vec<_> = links.iter().map(|link| (link.level, link.sharing)).collect();
        assert_eq!(sharing, [("node", 2), ("rank", 1)]);
        assert_eq!(links[0].of_port()[1].0, f64::from(1 << 15), "two ranks send through the port of their node");
        let device = device(&clock, &topology, &DType::NATIVE, 8, 1 << 12, 1, steps)?.device(&topology);
        assert_eq!(
            [&told[0], told.last().unwrap()],
            ["message of 1 KiB to the next node", "product of 128 x 8, in transposed blocks, by 8 x 16 in f64"]
        );
        assert_eq!(told.len(), 48);
        machine("made up", &topology, &links, device)
    });
    let machines = machines.unwrap();
    assert!(machines.iter().all(|machine| *machine == machines[0]), "{machines:?}");
    let ports: Vec<_> = machines[0].levels().iter().map(|level| (level.count, level.shared_ports)).collect();
    assert_eq!(ports, [(2, Some(1)), (2, None)]);
    assert_eq!(machines[0].device().memory_capacity, 1 << 29);
}
