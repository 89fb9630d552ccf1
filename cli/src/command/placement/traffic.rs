//! Collectives of a workload on a command line: `all-reduce:0:1e9`, or `all-reduce:data:1e9`.

use crate::error::{CliError, Result};
use polyshard::layout::joined;
use polyshard::machine::Collective;
use polyshard::machine::units::scaled;
use polyshard::planner::placement::Traffic;

/// The operations and their names.
const OPERATIONS: [(&str, Collective); 6] = [
    ("all-reduce", Collective::AllReduce),
    ("reduce-scatter", Collective::ReduceScatter),
    ("all-gather", Collective::AllGather),
    ("reduce", Collective::Reduce),
    ("broadcast", Collective::Broadcast),
    ("all-to-all", Collective::AllToAll),
];

/// Reads `all-reduce:0,2:1e9`: an operation, the axes that it runs along, by name or by number, and the bytes that each
/// rank holds before it.
///
/// Case, hyphens and underscores of the operation do not matter: `AllReduce` is `all-reduce`.
pub(crate) fn traffic(text: &str, names: &[String]) -> Result<Traffic> {
    let wrong = || {
        let form = "operation, axes and bytes per rank, such as all-reduce:0,2:1e9";
        CliError::unreadable(format!("the traffic `{text}`"), form)
    };
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    let [name, axes, bytes] = parts[..] else { return Err(wrong()) };
    let plain = |name: &str| name.to_lowercase().replace(['-', '_'], "");
    let operation = OPERATIONS.into_iter().find(|(written, _)| plain(written) == plain(name));
    let (_, operation) = operation.ok_or_else(|| {
        let known = format!("there are {}", OPERATIONS.map(|(written, _)| written).join(", "));
        CliError::unknown(format!("operation `{name}` in the traffic `{text}`"), known)
    })?;
    let axis = |axis: &str| {
        let axis = axis.trim();
        match names.iter().position(|name| name == axis) {
            Some(position) => Ok(position),
            // The planner checks the number.
            None if axis.bytes().all(|byte| byte.is_ascii_digit()) => axis.parse().map_err(|_| wrong()),
            None if axis.contains(char::is_whitespace) => Err(wrong()),
            None => {
                let known = format!("the axes are {}", names.join(", "));
                Err(CliError::unknown(format!("axis `{axis}` in the traffic `{text}`"), known))
            }
        }
    };
    let axes = axes.split(',').map(axis).collect::<Result<_>>()?;
    Ok(Traffic { operation, axes, bytes: bytes.parse().map_err(|_| wrong())? })
}

/// Returns a collective and its axes: `AllReduce 0,2`.
pub(crate) fn brief(traffic: &Traffic, names: &[String]) -> String {
    let axes = traffic.axes.iter().filter_map(|&axis| names.get(axis));
    format!("{} {}", traffic.operation, joined(axes, ","))
}

/// Returns a collective as text, with its bytes.
pub(crate) fn describe(traffic: &Traffic, names: &[String]) -> String {
    format!("{} of {}", brief(traffic, names), scaled(traffic.bytes, "B"))
}
