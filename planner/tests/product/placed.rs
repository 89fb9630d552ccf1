//! Rooflines of placed meshes against the simulator of machines.

use polyshard_layout::{DType, Mesh};
use polyshard_machine::{Algorithm, Collective, Device, GroupedCollective, Interconnect, Level, Machine, seconds};
use polyshard_planner::placement::matrices;
use polyshard_planner::product::{Roofline, Sharded, reshard};
use proptest::prelude::*;

/// One or two levels of all kinds, without latency.
fn machines() -> impl Strategy<Value = Machine> {
    let level =
        (prop::sample::select(vec![2usize, 4, 6, 8]), 0..5usize, 1..5u32, prop::option::of(1..3usize), any::<bool>());
    prop::collection::vec(level, 1..3).prop_map(|levels| {
        let level = |(nth, (count, kind, speed, ports, bypass)): (usize, (usize, usize, u32, Option<usize>, bool))| {
            let interconnect = match kind {
                0 | 1 => Interconnect::Switch,
                2 => Interconnect::Ring,
                3 => Interconnect::Line,
                _ => Interconnect::Torus(vec![count / 2, 2]),
            };
            let bypass = (bypass && matches!(kind, 2 | 3)).then_some(5e8);
            let shared_ports = ports.filter(|_| kind < 2);
            let bandwidth = 1e9 * f64::from(speed);
            Level { name: format!("l{nth}"), count, interconnect, bandwidth, latency: 0.0, shared_ports, bypass }
        };
        let levels = levels.into_iter().enumerate().map(level).collect();
        let flops = [("f32".to_owned(), 1e12)].into();
        let device = Device { memory_bandwidth: 1e11, memory_capacity: 1 << 40, flops, ..Device::default() };
        Machine::new("drawn", levels, device).expect("a machine")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// A gather along one axis is planned with the seconds that it takes when all groups gather at once. On a ring the
    /// literature leaves out that a rank has its own part already.
    #[test]
    fn gathers_take_what_is_simulated(machine in machines(), nth: prop::sample::Index) {
        let devices = machine.devices();
        let across = (1..=devices).filter(|x| devices.is_multiple_of(*x)).collect::<Vec<_>>();
        let x = across[nth.index(across.len())];
        for matrix in matrices(&machine.hierarchy(), &[x, devices / x]).expect("they divide") {
            let mesh = Mesh::new([("X", x), ("Y", devices / x)]);
            let roofline = Roofline::on_machine(&machine, &matrix, &mesh, DType::F32).expect("it is placed");
            for (axis, name) in ["X", "Y"].into_iter().enumerate().filter(|(axis, _)| mesh.extents()[*axis] > 1) {
                let ranks = mesh.extents()[axis] as f64;
                let parse = |text: String| Sharded::parse(&text, &mesh, &[("I", devices)]).expect("an array");
                let steps = reshard(&parse(format!("A[I_{name}]")), &parse("A[I]".into()), DType::F32, &roofline);
                let planned = steps.expect("a way")[0].1.communication;
                let groups = matrix.groups(&[axis]).expect("an axis");
                let gather = GroupedCollective { operation: Collective::AllGather, groups, bytes: 4.0 * devices as f64 / ranks };
                let simulated = seconds(&machine, &gather, Algorithm::Ring).expect("a collective").total();
                let most = simulated * ranks / (ranks - 1.0) * (1.0 + 1e-9);
                prop_assert!(
                    simulated * (1.0 - 1e-9) <= planned && planned <= most,
                    "{planned} planned, {simulated} simulated along {name} of {matrix} on {machine:?}"
                );
            }
        }
    }
}
