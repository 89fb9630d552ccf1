//! Machines that schedules are chosen for.

use polyshard_machine::{Device, Interconnect, Level, Machine};

/// So many devices, each with a port of its own to a switch, whose words take `slow` times as long as operations.
pub(crate) fn machine(devices: usize, slow: f64) -> Machine {
    let level = Level {
        name: "rank".into(),
        count: devices,
        interconnect: Interconnect::Switch,
        bandwidth: 8e10 / slow,
        latency: 1e-6,
        shared_ports: None,
        bypass: None,
    };
    let flops = ["f32", "f64", "i32", "i64"].map(|dtype| (dtype.to_owned(), 1e10)).into();
    let device = Device { memory_bandwidth: 1e11, memory_capacity: 1 << 40, flops, ..Device::default() };
    Machine::new("switch", vec![level], device).expect("a machine")
}
