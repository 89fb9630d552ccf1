//! Machines and measurements as tables.

use polyshard::lab::{Measured, Row};
use polyshard::layout::joined;
use polyshard::machine::units::{binary, counted, scaled, seconds, table};
use polyshard::machine::{Device, Interconnect, Level, Machine, Products};
use std::collections::{BTreeMap, BTreeSet};

/// Returns one line for each machine.
pub fn list(machines: &[Machine]) -> String {
    let mut rows = vec![["name", "levels", "devices", "memory each", "operations each"].map(String::from).to_vec()];
    for machine in machines {
        let fastest = machine.device().flops.iter().max_by(|left, right| left.1.total_cmp(right.1));
        rows.push(vec![
            machine.name().into(),
            machine.shape(),
            machine.devices().to_string(),
            scaled(machine.device().memory_capacity as f64, "B"),
            fastest.map_or(String::new(), |(kind, rate)| format!("{} in {kind}", operations(kind, *rate))),
        ]);
    }
    table(&rows, &[0, 1, 4])
}

/// Returns a machine's levels, devices and profiles.
pub fn machine(machine: &Machine) -> String {
    let mut rows = vec![["level", "count", "connected by", "bandwidth", "latency"].map(String::from).to_vec()];
    for level in machine.levels() {
        rows.push(vec![
            level.name.clone(),
            level.count.to_string(),
            connection(level),
            scaled(level.bandwidth, "B/s"),
            seconds(level.latency),
        ]);
    }
    let device = machine.device();
    let (capacity, rate) = (scaled(device.memory_capacity as f64, "B"), scaled(device.memory_bandwidth, "B/s"));
    let rates = |of: &BTreeMap<String, f64>| {
        joined(of.iter().map(|(kind, rate)| format!("{kind} {}", operations(kind, *rate))), ", ")
    };
    let flops = rates(&device.flops);
    let mut text = format!(
        "{machine}, {}\n\n{}\ndevice: {capacity} of memory at {rate}",
        counted(machine.devices(), "device"),
        table(&rows, &[0, 2])
    );
    let at = |rate: Option<f64>, what: &str| rate.map(|rate| format!(", {} {what}", scaled(rate, "B/s")));
    let after = |time: f64, before, of| (time > 0.0).then(|| format!("{before} {}{of}", seconds(time)));
    let figures = [
        at(device.memory_alone, "for a device alone"),
        at(device.write_bandwidth, "overwriting"),
        at(device.packing_bandwidth, "packing operands of products"),
        after(device.packing_latency, " after", " per row"),
        at(device.transposing_bandwidth, "transposing"),
        at(device.memory_of_others, "reading other ranks' memory"),
        after(device.in_place_latency, " after", ""),
        after(device.row_latency, ", and", " per non-contiguous row"),
    ];
    text.extend(figures.into_iter().flatten());
    text += &if flops.is_empty() { "\n".into() } else { format!("; {flops}\n") };
    if !device.nests.is_empty() {
        text += &format!("element by element: {}\n", rates(&device.nests));
    }
    if !device.products.is_empty() {
        text += &format!("\n{}\n", thin_products(device));
    }
    if let Some(level) = machine.shared_memory() {
        text += &format!("shared memory: members of the level `{level}` read each other's memory in place\n");
    }
    if let Some(what) = machine.disturbed() {
        text += &format!("figures may be too low: during the measurement, {what}\n");
    }
    if !machine.profiles().is_empty() {
        let head = ["collective", "ranks", "bytes per rank before it", "time relative to its links"];
        let mut rows = vec![head.map(String::from).to_vec()];
        for profile in machine.profiles() {
            let range = |values: &[f64]| [f64::min, f64::max].map(|pick| values.iter().copied().fold(values[0], pick));
            let ([least, most], [low, high]) = (range(&profile.bytes), range(&profile.factor));
            let bytes = format!("{} to {}", binary(least), binary(most));
            let (operation, ranks) = (profile.operation.to_string(), profile.ranks.to_string());
            rows.push(vec![operation, ranks, bytes, format!("{low:.2} to {high:.2}")]);
        }
        text += &format!("\n{}", table(&rows, &[0, 2, 3]));
    }
    text
}

/// The latency of small and thin products, and their rates relative to large ones.
fn thin_products(device: &Device) -> String {
    type Measured = fn(&Products) -> &[(usize, f64)];
    let by: [(&str, Measured); 3] = [("rows", |of| &of.rows), ("columns", |of| &of.columns), ("terms", |of| &of.depth)];
    let columns = by.iter().flat_map(|&(what, measured)| {
        let extents = device.products.values().flat_map(measured).map(|&(extent, _)| extent);
        BTreeSet::from_iter(extents).into_iter().map(move |extent| (what, measured, extent))
    });
    let columns: Vec<_> = columns.collect();
    let heads = columns.iter().map(|(what, _, extent)| format!("{extent} {what}"));
    let mut rows = vec![["products", "latency"].map(String::from).into_iter().chain(heads).collect::<Vec<_>>()];
    for (kind, products) in &device.products {
        let full = device.flops.get(kind).copied();
        let part = |&(_, measured, extent): &(&str, Measured, usize)| {
            let found = measured(products).iter().find(|(other, _)| *other == extent);
            match (found, full) {
                (Some((_, rate)), Some(full)) => format!("{:.0} %", 100.0 * rate / full),
                (Some((_, rate)), None) => operations(kind, *rate),
                (None, _) => String::new(),
            }
        };
        rows.push([kind.clone(), seconds(products.latency)].into_iter().chain(columns.iter().map(part)).collect());
    }
    table(&rows, &[0])
}

/// Returns a measured machine and the errors of its predictions.
pub(crate) fn measured(measured: &Measured, errors: &[Row]) -> String {
    let mut rows = vec![["median error of", "ranks", "sizes", "links alone", "predicted"].map(String::from).to_vec()];
    for row in errors {
        let percent = |part: f64| format!("{:.1} %", 100.0 * part);
        let (ranks, points) = (row.ranks.to_string(), row.points.to_string());
        rows.push(vec![row.call.clone(), ranks, points, percent(row.links), percent(row.predicted)]);
    }
    let Measured { machine: found, topology, .. } = measured;
    format!("{topology}\n{}\n{}\n{NOTE}", machine(found), table(&rows, &[0]))
}

const NOTE: &str = "\
links alone: latency and bandwidth of messages; predicted: each size from the other sizes
";

/// The rate of operations on elements of a type.
fn operations(kind: &str, rate: f64) -> String {
    scaled(rate, if kind.starts_with(['i', 'u']) { "OP/s" } else { "FLOP/s" })
}

fn connection(level: &Level) -> String {
    let mut text = match &level.interconnect {
        Interconnect::Switch => "switch".into(),
        Interconnect::Ring => "ring".into(),
        Interconnect::Line => "line".into(),
        Interconnect::Torus(extents) => format!("torus {}", joined(extents, "x")),
    };
    if let Some(ports) = level.shared_ports {
        text += &format!(", {} shared", counted(ports, "port"));
    }
    if let Some(bypass) = level.bypass {
        text += &format!(", bypass {}", scaled(bypass, "B/s"));
    }
    text
}
