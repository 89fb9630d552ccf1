//! Machines of the literature.
//!
//! The GPU nodes are those of Xie et al., section 5: 100 Gbit/s network cards at 60%, "yielding an effective
//! 8 GB/s"; 270 GB/s that an A100 sends through its switch, 90% of 300; 135 GB/s that a V100 sends over its ring,
//! 90% of 150, so 67.5 GB/s on each of its two links; and 32 GB/s through the PCIe switches by which V100s talk
//! that are not neighbours, 16 in each direction. The paper's payloads make latencies vanish and it states none;
//! those here are of the order that such networks have.
//!
//! The TPUs' links (4.5e10 bytes/s each way, twice that for v5p, and about 1 us per hop) and the operations per
//! second in bf16 are from J. Austin et al., "How to Scale Your Model", part 3. Memory and the other rates are
//! the makers'. Every figure can be replaced, and [`calibrate`](super::calibrate) fits bandwidths to
//! measurements.

use super::{Device, Interconnect, Level, Machine, MachineError};

/// The names that [`Machine::preset`] knows.
pub const PRESETS: &[&str] = &["a100", "v100", "tpu-v4p", "tpu-v5e", "tpu-v5p"];

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
    /// For other counts there is [`with_counts`](Self::with_counts), for other slices of TPUs
    /// [`tpu_v4p`](Self::tpu_v4p) and its like.
    ///
    /// # Errors
    /// If there is none of this name; the error says which there are.
    pub fn preset(name: &str) -> Result<Self, MachineError> {
        match name {
            "a100" => Self::new(name, vec![node(4), a100(16)], a100_device()),
            "v100" => Self::new(name, vec![node(4), v100(8)], v100_device()),
            "tpu-v4p" => Self::tpu_v4p(&[4, 4, 4]),
            "tpu-v5e" => Self::tpu_v5e(&[4, 4]),
            "tpu-v5p" => Self::tpu_v5p(&[4, 4, 4]),
            _ => Err(MachineError::UnknownPreset { name: name.into(), presets: PRESETS }),
        }
    }

    /// Returns a slice of TPU v4p with these extents: one level per dimension, `x` first.
    ///
    /// A dimension of a multiple of 4 chips is a ring, any other a line.
    ///
    /// # Errors
    /// If there are no extents, more than three, or an extent is 0.
    pub fn tpu_v4p(extents: &[usize]) -> Result<Self, MachineError> {
        let device = device(1.2e12, 32_000_000_000, &[("bf16", 2.75e14), ("i8", 2.75e14)]);
        tpu("tpu-v4p", extents, 4.5e10, |extent| extent.is_multiple_of(4), device)
    }

    /// Returns a slice of TPU v5e with these extents: one level per dimension, `x` first.
    ///
    /// A dimension of 16 chips is a ring, any shorter one a line.
    ///
    /// ```
    /// use polyshard_machine::{Interconnect, Machine};
    /// let machine = Machine::tpu_v5e(&[8, 16])?;
    /// let wires: Vec<_> = machine.levels().iter().map(|level| &level.interconnect).collect();
    /// assert_eq!(wires, [&Interconnect::Line, &Interconnect::Ring]);
    /// # Ok::<(), polyshard_machine::MachineError>(())
    /// ```
    ///
    /// # Errors
    /// If there are no extents, more than three, or an extent is 0.
    pub fn tpu_v5e(extents: &[usize]) -> Result<Self, MachineError> {
        let device = device(8.1e11, 16_000_000_000, &[("bf16", 1.97e14), ("i8", 3.94e14)]);
        tpu("tpu-v5e", extents, 4.5e10, |extent| extent == 16, device)
    }

    /// Returns a slice of TPU v5p with these extents: one level per dimension, `x` first.
    ///
    /// A dimension of a multiple of 4 chips is a ring, any other a line.
    ///
    /// # Errors
    /// If there are no extents, more than three, or an extent is 0.
    pub fn tpu_v5p(extents: &[usize]) -> Result<Self, MachineError> {
        let device = device(2.8e12, 96_000_000_000, &[("bf16", 4.59e14), ("i8", 9.18e14)]);
        tpu("tpu-v5p", extents, 9e10, |extent| extent.is_multiple_of(4), device)
    }
}

/// Nodes that share one network card each, on the network of a data centre.
fn node(count: usize) -> Level {
    let interconnect = Interconnect::Switch;
    let (bandwidth, latency) = (8e9, 2e-5);
    Level { name: "node".into(), count, interconnect, bandwidth, latency, shared_ports: Some(1), bypass: None }
}

fn a100(count: usize) -> Level {
    let interconnect = Interconnect::Switch;
    let (bandwidth, latency) = (270e9, 3e-6);
    Level { name: "gpu".into(), count, interconnect, bandwidth, latency, shared_ports: None, bypass: None }
}

fn v100(count: usize) -> Level {
    let interconnect = Interconnect::Ring;
    let (bandwidth, latency) = (67.5e9, 3e-6);
    Level { name: "gpu".into(), count, interconnect, bandwidth, latency, shared_ports: None, bypass: Some(16e9) }
}

fn a100_device() -> Device {
    let flops = [("f64", 9.7e12), ("f32", 1.95e13), ("tf32", 1.56e14), ("f16", 3.12e14), ("bf16", 3.12e14)];
    device(1.555e12, 40_000_000_000, &flops)
}

fn v100_device() -> Device {
    device(9e11, 16_000_000_000, &[("f64", 7.8e12), ("f32", 1.57e13), ("f16", 1.25e14)])
}

fn device(memory_bandwidth: f64, memory_capacity: u64, flops: &[(&str, f64)]) -> Device {
    let flops = flops.iter().map(|&(name, rate)| (name.to_string(), rate)).collect();
    Device { memory_bandwidth, memory_capacity, flops }
}

fn tpu(
    name: &str,
    extents: &[usize],
    bandwidth: f64,
    wraps: impl Fn(usize) -> bool,
    device: Device,
) -> Result<Machine, MachineError> {
    const DIMENSIONS: [&str; 3] = ["x", "y", "z"];
    if extents.len() > DIMENSIONS.len() {
        let levels = DIMENSIONS.map(String::from).to_vec();
        return Err(MachineError::Counts { counts: extents.to_vec(), levels });
    }
    let level = |(&count, dimension): (&usize, &str)| {
        let interconnect = if wraps(count) { Interconnect::Ring } else { Interconnect::Line };
        let name = dimension.to_string();
        Level { name, count, interconnect, bandwidth, latency: 1e-6, shared_ports: None, bypass: None }
    };
    Machine::new(name, extents.iter().zip(DIMENSIONS).map(level).collect(), device)
}
