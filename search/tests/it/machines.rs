//! Machines for the tests of the search.

use polyshard_machine::{Device, Interconnect, Level, Machine};

/// Nodes of four devices; words take ten times as long between nodes, through a port that the devices of a node share.
pub(crate) fn nodes(count: usize, slow: f64) -> Machine {
    let inside = machine(4, slow);
    let device = inside.levels()[0].clone();
    let node = Level::new("node", count, Interconnect::Switch, device.bandwidth / 10.0, 1e-5);
    let node = Level { shared_ports: Some(1), ..node };
    Machine::new("nodes", vec![node, device], inside.device().clone()).expect("a machine")
}

/// This many devices, each with its own port to a switch; a word takes `slow` times as long as an operation.
pub(crate) fn machine(devices: usize, slow: f64) -> Machine {
    let level = Level::new("rank", devices, Interconnect::Switch, 8e10 / slow, 1e-6);
    let flops = ["f32", "f64", "i32", "i64"].map(|dtype| (dtype.to_owned(), 1e10)).into();
    let device = Device { memory_bandwidth: 1e11, memory_capacity: 1 << 40, flops, ..Device::default() };
    Machine::new("switch", vec![level], device).expect("a machine")
}
