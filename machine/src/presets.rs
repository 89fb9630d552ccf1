//! Machines from the literature.
//!
//! The GPU nodes are those of Xie et al., section 5: 100 Gbit/s network cards at 60%, "yielding an effective 8 GB/s";
//! 270 GB/s that an A100 sends through its switch, 90% of 300; 135 GB/s that a V100 sends over its ring, 90% of 150, so
//! 67.5 GB/s on each of its two links; and 32 GB/s through the PCIe switches that connect V100s which are not
//! neighbours, 16 in each direction. Latencies are negligible for the paper's payloads, and it states none; those here
//! are typical of such networks.
//!
//! The TPUs' links (4.5e10 bytes/s each way, twice that for v5p, and about 1 us per hop) and the operations per second
//! in bf16 are from J. Austin et al., "How to Scale Your Model", part 3. Memory and the other rates are the makers'.
//! Rates of types for which they state none are derived: `f32` takes six products of `bf16` and `f64` sixteen of `f32`,
//! `i32` is as fast as `f32`, `i64` takes four products of `i32`, and smaller types are as fast as the next larger one.
//! Every figure can be replaced.

use super::{Device, Interconnect, Level, Machine, MachineError};
use std::collections::BTreeMap;

/// The names that [`Machine::preset`] accepts.
pub const PRESETS: &[&str] = &["a100", "v100", "tpu-v4p", "tpu-v5e", "tpu-v5p"];

/// Those of [`PRESETS`] that are slices of a torus.
pub const TPUS: &[&str] = &["tpu-v4p", "tpu-v5e", "tpu-v5p"];

impl Machine {
    /// Returns the machine of this name, one of [`PRESETS`].
    ///
    /// | name | levels |
    /// | --- | --- |
    /// | `a100` | 4 nodes of 16 GPUs on a switch, one network card per node |
    /// | `v100` | 4 nodes of 8 GPUs in a ring, one network card per node |
    /// | `tpu-v4p`, `tpu-v5p` | a torus of 4 x 4 x 4 chips |
    /// | `tpu-v5e` | 4 x 4 chips, not wrapped |
    ///
    /// # Errors
    /// If no preset has this name; the error lists the presets.
    pub fn preset(name: &str) -> Result<Self, MachineError> {
        let counts: &[usize] = match name {
            "a100" => &[4, 16],
            "v100" => &[4, 8],
            "tpu-v5e" => &[4, 4],
            _ => &[4, 4, 4],
        };
        Self::sized(name, counts)
    }

    /// Returns the machine of this name, one of [`PRESETS`], with at least `devices` devices: it has more nodes if it
    /// needs them, and a torus doubles along its shortest dimension until it is large enough.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// assert_eq!(Machine::grown("a100", 64)?.hierarchy(), [4, 16]);
    /// assert_eq!(Machine::grown("a100", 4096)?.hierarchy(), [256, 16]);
    /// assert_eq!(Machine::grown("tpu-v5e", 100)?.hierarchy(), [8, 16]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`preset`](Self::preset), or if the number of devices overflows.
    pub fn grown(name: &str, devices: usize) -> Result<Self, MachineError> {
        let machine = Self::preset(name)?;
        let mut counts = machine.hierarchy();
        if !TPUS.contains(&name) {
            let inside: usize = counts[1..].iter().product();
            counts[0] = counts[0].max(devices.div_ceil(inside));
        }
        while counts.iter().try_fold(1usize, |all, &count| all.checked_mul(count)).is_some_and(|all| all < devices) {
            let shortest = (0..counts.len()).rev().min_by_key(|&level| counts[level]).unwrap_or(0);
            counts[shortest] *= 2;
        }
        Self::sized(name, &counts)
    }

    /// Returns the machine of this name, one of [`PRESETS`], with these counts of its levels, outermost first.
    ///
    /// A machine of [`TPUS`] is a slice with these extents, one level per dimension, `x` first. Chips along a dimension
    /// form a ring if the torus wraps there, else a line: on v4p and v5p a multiple of 4 chips is a ring, on v5e only
    /// the 16 of a whole dimension.
    ///
    /// ```
    /// use polyshard::machine::Interconnect;
    /// use polyshard::prelude::*;
    /// let machine = Machine::sized("tpu-v5e", &[8, 16])?;
    /// let wires: Vec<_> = machine.levels().iter().map(|level| &level.interconnect).collect();
    /// assert_eq!(wires, [&Interconnect::Line, &Interconnect::Ring]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// If no machine has this name, a count is 0, the number of counts is not that of the levels, or the torus has
    /// fewer dimensions.
    pub fn sized(name: &str, counts: &[usize]) -> Result<Self, MachineError> {
        match name {
            "a100" => {
                let gpu = Level::new("gpu", 16, Interconnect::Switch, 270e9, 3e-6);
                let floats =
                    [("f64", 9.7e12), ("f32", 1.95e13), ("tf32", 1.56e14), ("f16", 3.12e14), ("bf16", 3.12e14)];
                let device = device(1.555e12, 40_000_000_000, &[&floats[..], &[("i8", 6.24e14)]].concat());
                Self::new(name, vec![node(), gpu], device)?.with_counts(counts)
            }
            "v100" => {
                let gpu = Level { bypass: Some(16e9), ..Level::new("gpu", 8, Interconnect::Ring, 67.5e9, 3e-6) };
                let device = device(9e11, 16_000_000_000, &[("f64", 7.8e12), ("f32", 1.57e13), ("f16", 1.25e14)]);
                Self::new(name, vec![node(), gpu], device)?.with_counts(counts)
            }
            "tpu-v4p" => {
                let device = device(1.2e12, 32_000_000_000, &[("bf16", 2.75e14), ("i8", 2.75e14)]);
                tpu(name, counts, 3, |extent| extent.is_multiple_of(4), 4.5e10, device)
            }
            "tpu-v5e" => {
                let device = device(8.1e11, 16_000_000_000, &[("bf16", 1.97e14), ("i8", 3.94e14)]);
                tpu(name, counts, 2, |extent| extent == 16, 4.5e10, device)
            }
            "tpu-v5p" => {
                let device = device(2.8e12, 96_000_000_000, &[("bf16", 4.59e14), ("i8", 9.18e14)]);
                tpu(name, counts, 3, |extent| extent.is_multiple_of(4), 9e10, device)
            }
            _ => Err(MachineError::UnknownPreset { name: name.into(), presets: PRESETS }),
        }
    }
}

/// Nodes that share one network card each, on the network of a data centre.
fn node() -> Level {
    Level { shared_ports: Some(1), ..Level::new("node", 4, Interconnect::Switch, 8e9, 2e-5) }
}

fn device(memory_bandwidth: f64, memory_capacity: u64, flops: &[(&str, f64)]) -> Device {
    let mut flops: BTreeMap<_, _> = flops.iter().map(|&(name, rate)| (name.to_string(), rate)).collect();
    // Each follows from a rate that the maker states, or from one derived before it.
    let derived = [("f32", "bf16", 1.0 / 6.0), ("bf16", "f32", 1.0), ("f64", "f32", 1.0 / 16.0), ("i32", "f32", 1.0)];
    for (name, from, part) in derived.into_iter().chain([("i64", "i32", 0.25), ("i8", "i32", 1.0)]) {
        if let (false, Some(&rate)) = (flops.contains_key(name), flops.get(from)) {
            flops.insert(name.to_string(), part * rate);
        }
    }
    Device { memory_bandwidth, memory_capacity, flops, streams: true, ..Device::default() }
}

/// A slice of a torus of `dimensions` dimensions; extents that wrap are rings.
fn tpu(
    name: &str,
    extents: &[usize],
    dimensions: usize,
    wraps: fn(usize) -> bool,
    bandwidth: f64,
    device: Device,
) -> Result<Machine, MachineError> {
    if extents.len() > dimensions {
        return Err(MachineError::Dimensions { name: name.into(), dimensions, extents: extents.to_vec() });
    }
    let level = |(&count, dimension): (&usize, &str)| {
        let interconnect = if wraps(count) { Interconnect::Ring } else { Interconnect::Line };
        Level::new(dimension, count, interconnect, bandwidth, 1e-6)
    };
    Machine::new(name, extents.iter().zip(["x", "y", "z"]).map(level).collect(), device)
}
