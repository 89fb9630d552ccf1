//! The machine and the numbers that the command line names.

use polyshard::cli::numbers::{list, whole};
use polyshard::{Machine, Mesh};
use polyshard_testing::example::launch::Stop;

/// Numbers as `2,4`; a type of its own because clap takes a `Vec` for several arguments.
#[derive(Clone, Debug)]
pub(crate) struct Counts(pub(crate) Vec<usize>);

/// Returns the machine of this name or file, with these counts of its levels or with those that fit the ranks.
pub(crate) fn machine(name: &str, hierarchy: Option<&Counts>) -> Result<Machine, Stop> {
    let machine = match name.ends_with(".toml") {
        true => {
            let text = std::fs::read_to_string(name).map_err(|error| format!("cannot read `{name}`: {error}"))?;
            Machine::from_toml(&text).map_err(|error| format!("`{name}`: {error}"))?
        }
        false => Machine::preset(name).map_err(|error| error.to_string())?,
    };
    let launched = polyshard::runtime::launched_ranks();
    let counts = match hierarchy {
        Some(Counts(counts)) => counts.clone(),
        None if launched == Some(machine.devices()) => machine.hierarchy(),
        None => spread(machine.levels().len(), launched.unwrap_or(8)),
    };
    Ok(machine.with_counts(&counts).map_err(|error| error.to_string())?)
}

/// So many devices in two halves, or in one if they have none, on the innermost two of the levels.
fn spread(levels: usize, devices: usize) -> Vec<usize> {
    let mut counts = vec![1; levels];
    let halves = levels > 1 && devices > 2 && devices.is_multiple_of(2);
    counts[levels - 1] = if halves { devices / 2 } else { devices };
    if halves {
        counts[levels - 2] = 2;
    }
    counts
}

/// Reads `2,4`.
pub(crate) fn parse_counts(text: &str) -> Result<Counts, String> {
    let counts = list(text, "2,4").map_err(|why| why.to_string())?;
    if counts.contains(&0) {
        return Err("each is at least 1".into());
    }
    let devices = counts.iter().try_fold(1usize, |devices, &count| devices.checked_mul(count));
    // Ranks of MPI are numbered by a C int, and no machine has more threads than that.
    match devices.filter(|&devices| devices <= i32::MAX as usize) {
        Some(_) => Ok(Counts(counts)),
        None => Err(format!("no more than {} ranks are possible", i32::MAX)),
    }
}

/// Reads the axes `0,2` of a mesh, or `data,tensor`. What position has no axis the planner says.
pub(crate) fn positions(text: &str, mesh: &Mesh) -> Result<Vec<usize>, Stop> {
    let position = |axis: &str| {
        let axis = axis.trim();
        let named = mesh.as_slice().iter().position(|other| other.name.as_str() == axis);
        named.or_else(|| whole(axis).ok()).ok_or_else(|| {
            let names: Vec<_> = mesh.as_slice().iter().map(|axis| axis.name.to_string()).collect();
            let last = mesh.ndim() - 1;
            Stop::Failed(format!(
                "no axis `{axis}` to reduce over; give a name of {} or a number of 0 to {last}",
                names.join(", ")
            ))
        })
    };
    text.split(',').map(position).collect()
}
