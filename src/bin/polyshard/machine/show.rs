//! Machines and measurements as text: tables whose columns are as wide as what is in them.

use super::units::{binary, decimal, seconds};
use polyshard::planner::machine::{Interconnect, Level, Machine};
use polyshard::runtime::machine::{Measured, Row};

/// Returns one line for each machine.
pub(crate) fn list(machines: &[Machine]) -> String {
    let mut rows = vec![["name", "levels", "devices", "memory each", "operations each"].map(String::from).to_vec()];
    for machine in machines {
        let levels = machine.levels().iter().map(|level| format!("{} {}", level.count, level.name));
        let fastest = machine.device().flops.iter().max_by(|left, right| left.1.total_cmp(right.1));
        rows.push(vec![
            machine.name().into(),
            levels.collect::<Vec<_>>().join(" x "),
            machine.devices().to_string(),
            decimal(machine.device().memory_capacity as f64, "B"),
            fastest.map_or(String::new(), |(kind, rate)| format!("{} in {kind}", operations(kind, *rate))),
        ]);
    }
    table(&rows)
}

/// Returns a machine's levels, devices and profiles.
pub(crate) fn machine(machine: &Machine) -> String {
    let mut rows = vec![["level", "count", "connected by", "bandwidth", "latency"].map(String::from).to_vec()];
    for level in machine.levels() {
        rows.push(vec![
            level.name.clone(),
            level.count.to_string(),
            connection(level),
            decimal(level.bandwidth, "B/s"),
            seconds(level.latency),
        ]);
    }
    let device = machine.device();
    let (capacity, rate) = (decimal(device.memory_capacity as f64, "B"), decimal(device.memory_bandwidth, "B/s"));
    let flops = device.flops.iter().map(|(kind, rate)| format!("{kind} {}", operations(kind, *rate)));
    let flops = flops.collect::<Vec<_>>().join(", ");
    let mut text =
        format!("{machine}, {} devices\n\n{}\ndevice: {capacity} of memory at {rate}", machine.devices(), table(&rows));
    text += &if flops.is_empty() { "\n".into() } else { format!("; {flops}\n") };
    if !machine.profiles().is_empty() {
        let mut rows = vec![
            ["collective", "ranks", "bytes per rank before it", "times what its links take"].map(String::from).to_vec(),
        ];
        for profile in machine.profiles() {
            let range = |values: &[f64]| [f64::min, f64::max].map(|pick| values.iter().copied().fold(values[0], pick));
            let ([least, most], [low, high]) = (range(&profile.bytes), range(&profile.factor));
            let bytes = format!("{} to {}", binary(least), binary(most));
            let (operation, ranks) = (profile.operation.to_string(), profile.ranks.to_string());
            rows.push(vec![operation, ranks, bytes, format!("{low:.2} to {high:.2}")]);
        }
        text += &format!("\n{}", table(&rows));
    }
    text
}

/// Returns a measured machine, and how far its predictions are off.
pub(crate) fn measured(measured: &Measured, errors: &[Row]) -> String {
    let mut rows = vec![["median error of", "ranks", "sizes", "links alone", "predicted"].map(String::from).to_vec()];
    for row in errors {
        let percent = |part: f64| format!("{:.1} %", 100.0 * part);
        let (ranks, points) = (row.ranks.to_string(), row.points.to_string());
        rows.push(vec![row.call.clone(), ranks, points, percent(row.links), percent(row.predicted)]);
    }
    let Measured { machine: found, topology, .. } = measured;
    format!("{topology}\n{}\n{}\n{NOTE}", machine(found), table(&rows))
}

const NOTE: &str = "\
links alone: latency and bandwidth of messages; predicted: each size from the other sizes
";

/// The rate of operations on elements of a type.
fn operations(kind: &str, rate: f64) -> String {
    decimal(rate, if kind.starts_with(['i', 'u']) { "OP/s" } else { "FLOP/s" })
}

fn connection(level: &Level) -> String {
    let mut text = match &level.interconnect {
        Interconnect::Switch => "switch".into(),
        Interconnect::Ring => "ring".into(),
        Interconnect::Line => "line".into(),
        Interconnect::Torus(extents) => {
            format!("torus {}", extents.iter().map(usize::to_string).collect::<Vec<_>>().join("x"))
        }
    };
    match level.shared_ports {
        Some(1) => text += ", 1 port shared",
        Some(ports) => text += &format!(", {ports} ports shared"),
        None => {}
    }
    if let Some(bypass) = level.bypass {
        text += &format!(", bypass {}", decimal(bypass, "B/s"));
    }
    text
}

/// Columns, two spaces apart; those of a number and at most a unit are set to the right.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows[0].len();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let is_number = |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit()) && cell.split(' ').count() <= 2;
    let number = |column: usize| rows.iter().skip(1).all(|row| is_number(&row[column]));
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| match number(column) {
            true => format!("{cell:>width$}", width = widths[column]),
            false => format!("{cell:<width$}", width = widths[column]),
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}
