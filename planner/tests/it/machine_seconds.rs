//! The time of exchanges: seconds that can be computed by hand, laws, and bandwidths recovered by calibration.

use expect_test::{Expect, expect};
use polyshard_machine::{
    Algorithm, Collective, GroupedCollective, Interconnect, Level, Machine, Measurement, Profile, seconds,
};
use polyshard_testing::planner::calibration::calibrate;
use polyshard_testing::planner::machines::machines;
use proptest::prelude::*;

fn took(machine: &Machine, operation: Collective, group: &[usize], bytes: f64) -> (f64, f64) {
    let collective = GroupedCollective { operation, groups: vec![group.to_vec()], bytes };
    let seconds = seconds(machine, &collective, Algorithm::Ring).expect("it can be done");
    (seconds.transfer, seconds.latency)
}

fn near(left: f64, right: f64) -> bool {
    (left / right - 1.0).abs() < 1e-9
}

#[test]
fn a_gather_on_a_torus_takes_the_bytes_over_both_directions_of_all_dimensions() {
    let machine = Machine::preset("tpu-v4p").expect("a preset");
    // Each holds a quarter of 4 MB and receives three quarters, over two links of 45 GB/s.
    let z: Vec<_> = (0..4).collect();
    let (transfer, latency) = took(&machine, Collective::AllGather, &z, 1e6);
    assert!(near(transfer, 3e6 / 9e10), "{transfer}");
    // Two hops reach halfway around a ring of four: question 3 of the book.
    assert!(near(latency, 2e-6), "{latency}");
    let plane: Vec<_> = (0..16).collect();
    let (transfer, _) = took(&machine, Collective::AllGather, &plane, 1e6);
    assert!(near(transfer, 15e6 / (2.0 * 9e10)), "{transfer}");
    let all: Vec<_> = (0..64).collect();
    let (transfer, latency) = took(&machine, Collective::AllReduce, &all, 64e6);
    assert!(near(transfer, 2.0 * 63e6 / (3.0 * 9e10)), "{transfer}");
    assert!(near(latency, 2.0 * 3.0 * 2e-6), "{latency}");
}

#[test]
fn a_line_has_half_of_the_bandwidth_of_a_ring() {
    let machine = Machine::sized("tpu-v5e", &[4, 16]).expect("a slice");
    let (line, _) = took(&machine, Collective::AllGather, &[0, 16, 32, 48], 1e6);
    assert!(near(line, 3e6 / 4.5e10), "{line}");
    let ring: Vec<_> = (0..16).collect();
    let (ring, _) = took(&machine, Collective::AllGather, &ring, 1e6);
    assert!(near(ring, 15e6 / 9e10), "{ring}");
}

#[test]
fn an_all_to_all_on_a_ring_takes_a_quarter_of_a_gather() {
    // Question 10 of the book: N^2 / 4 chunks of bytes / N^2 against bytes, both in both directions.
    let machine = Machine::sized("tpu-v5e", &[16]).expect("a slice");
    let all: Vec<_> = (0..16).collect();
    let (gather, _) = took(&machine, Collective::AllGather, &all, 1e6);
    let (all_to_all, latency) = took(&machine, Collective::AllToAll, &all, 1e6);
    assert!(near(all_to_all / gather, 0.25 * 16.0 / 15.0), "{}", all_to_all / gather);
    assert!(near(latency, 8e-6), "{latency}");
}

#[test]
fn one_level_that_is_a_torus_is_as_fast_as_levels_of_rings() {
    let rings = Machine::preset("tpu-v5p").expect("a preset");
    let mut chip: Level = rings.levels()[0].clone();
    (chip.name, chip.count, chip.interconnect) = ("chip".into(), 64, Interconnect::Torus(vec![4, 4, 4]));
    let torus = Machine::new("torus", vec![chip], rings.device().clone()).expect("a machine");
    let groups: [&[usize]; 4] = [&[0, 1, 2, 3], &[0, 16, 32, 48], &[0, 3, 48, 51], &[0, 7, 21, 58]];
    for operation in [Collective::AllReduce, Collective::AllGather, Collective::Broadcast, Collective::AllToAll] {
        for group in groups {
            assert_eq!(
                took(&rings, operation, group, 1e6),
                took(&torus, operation, group, 1e6),
                "{operation} {group:?}"
            );
        }
    }
}

#[test]
fn shared_ports_of_all_levels_are_passed_on_the_way_out() {
    let level = |name: &str, bandwidth, shared_ports| Level {
        shared_ports,
        ..Level::new(name, 2, Interconnect::Switch, bandwidth, 1e-6)
    };
    let levels = vec![level("rack", 4e9, Some(1)), level("server", 1e9, Some(1)), level("gpu", 1e8, None)];
    let device = Machine::preset("a100").expect("a preset").device().clone();
    let machine = Machine::new("racks", levels, device).expect("a machine");
    // Between racks the server's card is the bottleneck, not its GPUs' own ports.
    let (transfer, _) = took(&machine, Collective::Broadcast, &[0, 4], 1e9);
    assert!(near(transfer, 1.0), "{transfer}");
    let collective =
        GroupedCollective { operation: Collective::AllReduce, groups: vec![vec![0, 4], vec![1, 5]], bytes: 1e9 };
    let shared = seconds(&machine, &collective, Algorithm::Ring).expect("it can be done");
    assert!(near(shared.transfer, 2.0), "{shared}");
    assert_eq!(shared.bottleneck.as_deref(), Some("the ports out of server 0"));
    // From two servers to one.
    let groups = vec![vec![0, 4], vec![2, 5]];
    let collective = GroupedCollective { operation: Collective::Broadcast, groups, bytes: 1e9 };
    let shared = seconds(&machine, &collective, Algorithm::Ring).expect("it can be done");
    assert!(near(shared.transfer, 2.0), "{shared}");
    assert_eq!(shared.bottleneck.as_deref(), Some("the ports into server 2"));
}

#[test]
fn rooted_operations_send_one_way() {
    let machine = Machine::preset("a100").expect("a preset");
    // One root in each of two nodes: outgoing and incoming data of a node use different ports.
    for operation in [Collective::Reduce, Collective::Broadcast] {
        let collective = GroupedCollective { operation, groups: vec![vec![0, 16], vec![17, 1]], bytes: 8e9 };
        let both = seconds(&machine, &collective, Algorithm::Ring).expect("it can be done");
        assert!(near(both.transfer, 1.0), "{operation}: {both}");
        let collective = GroupedCollective { groups: vec![vec![0, 16], vec![1, 17]], ..collective };
        let same = seconds(&machine, &collective, Algorithm::Ring).expect("it can be done");
        assert!(near(same.transfer, 2.0), "{operation}: {same}");
    }
}

#[test]
fn what_a_root_sends_takes_the_longer_way_too() {
    let machine = Machine::preset("a100").expect("a preset");
    let [card, inside] = [0, 1].map(|level: usize| machine.levels()[level].latency);
    let all = [0, 1, 16, 17];
    // Half of the data takes the path 0, 1, 16, 17 and the other half 0, 17, 16, 1.
    let chain = f64::max(2.0 * inside + card, inside + 2.0 * card);
    for operation in [Collective::Reduce, Collective::Broadcast] {
        let (_, latency) = took(&machine, operation, &all, 1e6);
        assert!(near(latency, chain), "{operation}: {latency}");
    }
    // Blocks of all ranks take the shorter way.
    let (_, latency) = took(&machine, Collective::AllGather, &all, 1e6);
    assert!(near(latency, inside + card), "{latency}");
}

#[test]
fn exchanges_that_cannot_be_are_refused() {
    let machine = Machine::preset("a100").expect("a preset");
    let refused = |groups: Vec<Vec<usize>>, bytes, expect: Expect| {
        let collective = GroupedCollective { operation: Collective::AllReduce, groups, bytes };
        expect.assert_eq(&seconds(&machine, &collective, Algorithm::Ring).expect_err("impossible").to_string());
    };
    refused(vec![vec![0, 64]], 1.0, expect!["group [0, 64] has rank 64, but the machine `a100` has ranks 0..64"]);
    refused(
        vec![vec![0, 1], vec![1, 2]],
        1.0,
        expect!["rank 1 is in the groups of one collective twice; groups of one collective must be disjoint"],
    );
    refused(vec![vec![0, 1]], f64::NAN, expect!["an amount of data must be 0 bytes or more, found NaN"]);
}

#[test]
fn measurements_that_say_nothing_are_refused() {
    let machine = Machine::preset("a100").expect("a preset");
    let measured = |groups, seconds| {
        let collective = GroupedCollective { operation: Collective::Broadcast, groups, bytes: 8.0 };
        Measurement { collective, algorithm: Algorithm::Ring, seconds }
    };
    let refused = |measured: Measurement, expect: Expect| {
        expect.assert_eq(&calibrate(&machine, &[measured]).expect_err("nothing to fit").to_string());
    };
    refused(
        measured(vec![vec![3]], 1.0),
        expect!["measurement 0 cannot be fitted: it sends nothing; give groups of two ranks or more, and bytes"],
    );
    refused(
        measured(vec![vec![0, 16]], 1e-6),
        expect![
            "measurement 0 cannot be fitted: it took 0.000001 s, but its messages alone take 0.00002 s on `a100`; \
             give lower latencies"
        ],
    );
}

#[test]
fn bandwidths_are_calibrated_under_profiles() {
    let (operation, ranks) = (Collective::AllReduce, 4);
    let profile = Profile { operation, ranks, bytes: vec![1e3, 1e8], factor: vec![2.0, 6.0] };
    let truth = Machine::preset("a100").and_then(|machine| machine.with_profiles(vec![profile])).expect("a machine");
    let measured = |bytes: f64| {
        let collective = GroupedCollective { operation, groups: vec![(0..ranks).collect()], bytes };
        let seconds = seconds(&truth, &collective, Algorithm::Ring).expect("it can be done").total();
        Measurement { collective, algorithm: Algorithm::Ring, seconds }
    };
    let started = truth.clone().with_bandwidth("gpu", 1e9).expect("more than 0");
    let found = calibrate(&started, &[1e3, 1e5, 1e7].map(measured)).expect("it can be fitted").machine;
    assert!(near(found.levels()[1].bandwidth, truth.levels()[1].bandwidth));
    assert_eq!(found.profiles(), truth.profiles());
}

proptest! {
    /// Calibration recovers the bandwidths of the measurements, whatever the initial machine.
    #[test]
    fn calibration_finds_the_bandwidths_that_made_the_seconds(node in 1e8..1e10, gpu in 1e11..1e12) {
        let thought = Machine::preset("a100").expect("a preset");
        let truth = thought.clone().with_bandwidth("node", node).expect("more than 0");
        let truth = truth.with_bandwidth("gpu", gpu).expect("more than 0");
        let groups = [vec![vec![0, 1, 2, 3]], vec![vec![0, 16]], vec![vec![0, 16, 32], vec![5, 21, 37]], vec![vec![7, 9]]];
        let measured: Vec<_> = groups.into_iter().map(|groups| {
            let collective = GroupedCollective { operation: Collective::AllReduce, groups, bytes: 1e9 };
            let seconds = seconds(&truth, &collective, Algorithm::Ring).expect("it can be done").total();
            Measurement { collective, algorithm: Algorithm::Ring, seconds }
        }).collect();
        let fitted = calibrate(&thought, &measured).expect("it can be fitted");
        prop_assert!(fitted.median_error() < 1e-9);
        for (found, true_level) in fitted.machine.levels().iter().zip(truth.levels()) {
            prop_assert!((found.bandwidth / true_level.bandwidth - 1.0).abs() < 1e-9);
        }
    }

    /// More bytes never take less time, and a machine with more bandwidth never takes more.
    #[test]
    fn seconds_grow_with_bytes_and_shrink_with_bandwidth(
        machine in machines(), bytes in 1.0f64..1e9, more in 1.0f64..4.0, operation in 0usize..6, tree in any::<bool>(),
    ) {
        let operation = [
            Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather,
            Collective::Reduce, Collective::Broadcast, Collective::AllToAll,
        ][operation];
        let algorithm = if tree { Algorithm::Tree } else { Algorithm::Ring };
        let groups = vec![(0..machine.devices()).step_by(2).take(24).collect::<Vec<_>>()];
        let took = |machine: &Machine, bytes| {
            let collective = GroupedCollective { operation, groups: groups.clone(), bytes };
            seconds(machine, &collective, algorithm).expect("it can be done").total()
        };
        let base = took(&machine, bytes);
        prop_assert!(took(&machine, bytes * more) >= base * (1.0 - 1e-12));
        let mut broader = machine.clone();
        for level in machine.levels() {
            broader = broader.with_bandwidth(&level.name, level.bandwidth * more).expect("more than 0");
        }
        prop_assert!(took(&broader, bytes) <= base * (1.0 + 1e-12));
    }
}
