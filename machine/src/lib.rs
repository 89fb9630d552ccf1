//! Machines: a hierarchy of levels, the interconnect of each, and the capabilities of one device.
//!
//! The hierarchy and its switched interconnects are after N. Xie, T. Norman, D. Grewe and D. Vytiniotis,
//! "Synthesizing optimal parallelism placement and reduction strategies on hierarchical systems for deep
//! learning", MLSys 2022; rings, lines and tori are added, so that a torus of TPUs is a machine too. Ranks are
//! numbered as the levels nest: the outermost level is the most significant digit.
//!
//! A machine is a description: this crate does not query the hardware, and no figure affects results.
//!
//! | module | holds |
//! | --- | --- |
//! | `presets`, `text`, `units`, `error` | machines: presets, files, amounts, errors |
//! | `path`, `route`, `flow` | the ports and links that a message passes |
//! | `collective`, `time` | collectives, and their times |
//! | `link`, `profile`, `products` | figures from measurements |
//! | `scaled` | machines on which one element type stands for another |
//!
//! Tests: `planner/tests/it/machines.rs`.

mod collective;
mod error;
mod flow;
mod link;
mod path;
mod presets;
mod products;
mod profile;
mod route;
mod scaled;
mod text;
mod time;
pub mod units;

pub use collective::{Algorithm, GroupedCollective, Measurement};
pub use error::MachineError;
pub use link::{Link, fit_link};
pub use path::{Passage, Path, Port};
pub use polyshard_layout::Collective;
pub use presets::{PRESETS, TPUS};
pub use products::Products;
pub use profile::{Profile, fit_profiles, leave_one_out, median};
pub use time::{Seconds, seconds, seconds_of_messages};

use polyshard_layout::joined;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The connection between the members of a level that have the same parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interconnect {
    /// Each member has ports to a switch that is never the bottleneck.
    Switch,
    /// Each member has a link to the next and one to the one before it; the last is next to the first. Two members
    /// have two links.
    Ring,
    /// A ring without the link between the last member and the first.
    Line,
    /// A ring along each dimension; members are numbered row-major, and these extents multiply to the count.
    Torus(Vec<usize>),
}

/// One level of a machine.
///
/// ```
/// use polyshard::machine::{Device, Interconnect, Level};
/// use polyshard::prelude::*;
/// let node = Level::new("node", 4, Interconnect::Switch, 1.25e10, 2e-6);
/// let core = Level::new("core", 8, Interconnect::Switch, 5e9, 3e-7);
/// let device = Device { memory_bandwidth: 1e10, memory_capacity: 4 << 30, ..Device::default() };
/// assert_eq!(Machine::new("cluster", vec![node, core], device)?.devices(), 32);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// The name of its members: `node`, `gpu`.
    pub name: String,
    /// Members in one member of the next outer level.
    pub count: usize,
    /// How these members are connected.
    pub interconnect: Interconnect,
    /// Bytes per second in each direction: of one port of a switch, of one link of a ring, line or torus.
    pub bandwidth: f64,
    /// Seconds per message.
    pub latency: f64,
    /// Ports or links in each direction that all devices inside a member share, such as the network cards of a node. If
    /// none, each device has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_ports: Option<usize>,
    /// For a ring or a line: bytes per second in each direction of a second network, for members that are not neighbours.
    /// If none, their messages pass through the members between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bypass: Option<f64>,
}

impl Level {
    /// Returns a level of these members, in which each device has its own ports or links.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        count: usize,
        interconnect: Interconnect,
        bandwidth: f64,
        latency: f64,
    ) -> Self {
        Self { name: name.into(), count, interconnect, bandwidth, latency, shared_ports: None, bypass: None }
    }
}

/// The speeds and the memory of one device.
///
/// ```
/// use polyshard::prelude::*;
/// let a100 = Machine::preset("a100")?;
/// assert!(a100.device().flops["f32"] > 1e13 && a100.device().memory_capacity > 32 << 30);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Memory bandwidth of a device in bytes per second, while all devices use theirs.
    pub memory_bandwidth: f64,
    /// Memory bandwidth of a device alone, in bytes per second, if higher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_alone: Option<f64>,
    /// Bytes per second, read and written, while all devices that share memory copy between their own memory and that
    /// of others. If none, the bandwidth of their own; NUMA machines are slower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_of_others: Option<f64>,
    /// Bytes per second of elements that all devices overwrite one by one. If none, as fast as other accesses; most
    /// processors first read the memory that they overwrite, which takes the time of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bandwidth: Option<f64>,
    /// Fixed latency in seconds of one shared-memory exchange (address exchange and barrier); 0 if unmeasured.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub in_place_latency: f64,
    /// Bytes of memory.
    pub memory_capacity: u64,
    /// Extra latency in seconds per contiguous row where part of an array is read, since prefetching ends with the row; 0 if
    /// unmeasured.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub row_latency: f64,
    /// Floating-point (or integer) operations per second, by the elements' type: `f32`, `bf16`, `i8`.
    #[serde(default)]
    pub flops: BTreeMap<String, f64>,
    /// Operations per second of loop nests that run element by element, not as matrix products, by element type. For a missing
    /// type, its `flops`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nests: BTreeMap<String, f64>,
    /// How much slower products of small and thin matrices are, by element type. If a type is missing, they are as fast
    /// as others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub products: BTreeMap<String, Products>,
    /// Bytes per second at which operands in memory, not in a cache, lengthen a product. If none, the memory bandwidth; it can be
    /// higher, since processors read ahead while they pack and multiply. Unused for devices that [stream](Self::streams) operands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packing_bandwidth: Option<f64>,
    /// Extra latency in seconds per contiguous row of such an operand, along the terms of a sum or the elements of the result;
    /// 0 if unmeasured. Rows of fewer than 256 elements count once per 256 elements.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub packing_latency: f64,
    /// [`packing_bandwidth`](Self::packing_bandwidth) of transposed operands, contiguous neither along the terms of a sum nor in
    /// the order of the result. If none, as fast as others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transposing_bandwidth: Option<f64>,
    /// Whether a device loads operands of products while it multiplies others, as accelerators do, so that the slower of the two
    /// counts; otherwise operands are packed first, and both count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub streams: bool,
}

/// A machine: its levels, outermost first, and its devices, which are identical.
///
/// ```
/// use polyshard::prelude::*;
/// let machine = Machine::preset("a100")?;
/// assert_eq!(machine.hierarchy(), [4, 16]);
/// assert_eq!(machine.devices(), 64);
/// assert_eq!(machine.coordinates(35), [2, 3]); // the 4th GPU of the 3rd node
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_memory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disturbed: Option<String>,
    device: Device,
    #[serde(rename = "level")]
    levels: Vec<Level>,
    #[serde(rename = "profile", skip_serializing_if = "Vec::is_empty")]
    profiles: Vec<Profile>,
}

impl Machine {
    /// Returns the machine with these levels, outermost first, and this device.
    ///
    /// # Errors
    /// If there are no levels, two have one name, a count or a number of ports is 0, a bandwidth is not positive, a
    /// latency is negative, extents of a torus do not multiply to the count, a level with a bypass is neither ring nor
    /// line, or the number of devices overflows.
    pub fn new(name: impl Into<String>, levels: Vec<Level>, device: Device) -> Result<Self, MachineError> {
        let machine =
            Self { name: name.into(), levels, device, profiles: Vec::new(), shared_memory: None, disturbed: None };
        machine.check()?;
        Ok(machine)
    }

    /// Returns the machine's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the levels, outermost first.
    #[must_use]
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Returns the speeds and the memory of one device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the number of members of each level per member of the next outer one, outermost first.
    #[must_use]
    pub fn hierarchy(&self) -> Vec<usize> {
        self.levels.iter().map(|level| level.count).collect()
    }

    /// Returns the number of devices.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.levels.iter().map(|level| level.count).product()
    }

    /// Returns the coordinates of `rank`: its member's number at each level, outermost first.
    ///
    /// # Panics
    /// If `rank` is not in `0..self.devices()`.
    #[must_use]
    pub fn coordinates(&self, rank: usize) -> Vec<usize> {
        assert!(rank < self.devices(), "rank {rank} is not one of the machine's {} devices", self.devices());
        let mut rest = rank;
        let mut coordinates: Vec<usize> = Vec::with_capacity(self.levels.len());
        for level in self.levels.iter().rev() {
            coordinates.push(rest % level.count);
            rest /= level.count;
        }
        coordinates.reverse();
        coordinates
    }

    /// Returns the position of the level named `name`.
    ///
    /// # Errors
    /// If there is no such level; the error lists the levels.
    pub fn level(&self, name: &str) -> Result<usize, MachineError> {
        let position = self.levels.iter().position(|level| level.name == name);
        position.ok_or_else(|| MachineError::UnknownLevel { name: name.into(), levels: self.names() })
    }

    /// Returns the machine with these counts, outermost first.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// assert_eq!(Machine::preset("a100")?.with_counts(&[2, 16])?.devices(), 32);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is not one count per level, or [`new`](Self::new) would refuse the machine.
    pub fn with_counts(mut self, counts: &[usize]) -> Result<Self, MachineError> {
        if counts.len() != self.levels.len() {
            return Err(MachineError::Counts { counts: counts.to_vec(), levels: self.names() });
        }
        for (level, &count) in self.levels.iter_mut().zip(counts) {
            level.count = count;
        }
        self.check()?;
        Ok(self)
    }

    /// Returns the machine with this bandwidth, in bytes per second, at the level named `level`.
    ///
    /// # Errors
    /// If there is no such level, or the bandwidth is not positive.
    pub fn with_bandwidth(mut self, level: &str, bandwidth: f64) -> Result<Self, MachineError> {
        let position = self.level(level)?;
        self.levels[position].bandwidth = bandwidth;
        self.check()?;
        Ok(self)
    }

    /// Returns the machine whose devices read each other's memory if they are in the same member of the level outside
    /// `level`, as the ranks of a node do.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let machine = Machine::preset("a100")?.with_counts(&[2, 4])?.with_shared_memory("gpu")?;
    /// assert!(machine.shares_memory(&[4, 6, 7]));
    /// assert!(!machine.shares_memory(&[3, 4])); // on two nodes
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such level.
    pub fn with_shared_memory(mut self, level: &str) -> Result<Self, MachineError> {
        self.level(level)?;
        self.shared_memory = Some(level.into());
        Ok(self)
    }

    /// Returns the level whose devices read each other's memory, if stated.
    #[must_use]
    pub fn shared_memory(&self) -> Option<&str> {
        self.shared_memory.as_deref()
    }

    /// Returns the machine, marked as measured under this disturbance: its figures may understate it.
    #[must_use]
    pub fn with_disturbance(mut self, what: impl Into<String>) -> Self {
        self.disturbed = Some(what.into());
        self
    }

    /// Returns the disturbance during the measurement of the figures, if any.
    #[must_use]
    pub fn disturbed(&self) -> Option<&str> {
        self.disturbed.as_deref()
    }

    /// Returns whether all of these ranks read each other's memory; one rank always reads its own.
    ///
    /// # Panics
    /// If a rank is not in `0..self.devices()`.
    #[must_use]
    pub fn shares_memory(&self, ranks: &[usize]) -> bool {
        let Some((first, others)) = ranks.split_first() else { return true };
        let outside = self.shared_level();
        let node = |rank: usize| outside.map(|outside| self.coordinates(rank)[..outside].to_vec());
        others.iter().all(|&rank| rank == *first || (outside.is_some() && node(rank) == node(*first)))
    }

    /// Returns the bytes per second between each of the first `ranks` devices and its memory, while the others are
    /// idle. The time per byte grows linearly with the number of active devices that share memory, from that of a
    /// device alone to that of all.
    ///
    /// ```
    /// use polyshard::machine::Device;
    /// use polyshard::prelude::*;
    /// let text = "name = 'one node'
    /// [device]
    /// memory_bandwidth = 1e10
    /// memory_alone = 1.5e10
    /// memory_capacity = 1000000000
    /// [[level]]
    /// name = 'core'
    /// count = 4
    /// interconnect = 'switch'
    /// bandwidth = 1e10
    /// latency = 1e-6";
    /// let node = Machine::from_toml(text)?.with_shared_memory("core")?;
    /// assert_eq!([4, 3, 1].map(|ranks| node.memory_bandwidth(ranks).round()), [1e10, 1.125e10, 1.5e10]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn memory_bandwidth(&self, ranks: usize) -> f64 {
        let Device { memory_bandwidth: all, memory_alone, .. } = self.device;
        let sharing =
            self.shared_level().map_or(1, |outside| self.levels[outside..].iter().map(|level| level.count).product());
        let (active, alone) = (ranks.clamp(1, sharing), memory_alone.unwrap_or(all));
        if active == sharing || alone <= all {
            return all;
        }
        let of_each_other = (1.0 / all - 1.0 / alone) / (sharing - 1) as f64;
        1.0 / (1.0 / alone + (active - 1) as f64 * of_each_other)
    }

    /// Returns the bytes per second between each of the first `ranks` devices and the visible memory of another, while
    /// the others are idle.
    #[must_use]
    pub fn bandwidth_of_others(&self, ranks: usize) -> f64 {
        let Device { memory_bandwidth: all, memory_of_others, .. } = self.device;
        self.memory_bandwidth(ranks) * memory_of_others.map_or(1.0, |others| others / all)
    }

    /// The position of the level whose devices read each other's memory.
    fn shared_level(&self) -> Option<usize> {
        let shared = self.shared_memory.as_ref()?;
        self.levels.iter().position(|level| level.name == *shared)
    }

    fn names(&self) -> Vec<String> {
        self.levels.iter().map(|level| level.name.clone()).collect()
    }

    fn check(&self) -> Result<(), MachineError> {
        if self.levels.is_empty() {
            return Err(MachineError::NoLevels);
        }
        for (position, level) in self.levels.iter().enumerate() {
            level.check()?;
            if self.levels[..position].iter().any(|other| other.name == level.name) {
                return Err(MachineError::LevelTwice { name: level.name.clone() });
            }
        }
        if self.levels.iter().try_fold(1usize, |devices, level| devices.checked_mul(level.count)).is_none() {
            return Err(MachineError::TooManyDevices { counts: self.hierarchy() });
        }
        self.device.check()
    }
}

impl Level {
    fn check(&self) -> Result<(), MachineError> {
        let wrong = |what: &'static str, value: String, instead: &'static str| {
            Err(MachineError::Level { level: self.name.clone(), what, value, instead })
        };
        if self.name.is_empty() {
            return wrong("name", "``".into(), "give it a name, such as `node`");
        }
        if self.count == 0 {
            return wrong("count", "0".into(), "a level has at least one member");
        }
        if !positive(self.bandwidth) {
            return wrong("bandwidth", format!("{} bytes/s", self.bandwidth), "give more than 0");
        }
        if !(self.latency >= 0.0 && self.latency.is_finite()) {
            return wrong("latency", format!("{} s", self.latency), "give 0 or more");
        }
        if self.shared_ports == Some(0) {
            return wrong("shared_ports", "0".into(), "leave it out if each device has its own port");
        }
        if let Some(bypass) = self.bypass {
            if !matches!(self.interconnect, Interconnect::Ring | Interconnect::Line) {
                return wrong("bypass", format!("{bypass} bytes/s"), "only a ring or a line has one; leave it out");
            }
            if !positive(bypass) {
                return wrong("bypass", format!("{bypass} bytes/s"), "give more than 0, or leave it out");
            }
        }
        match &self.interconnect {
            Interconnect::Torus(extents) if !multiply_to(extents, self.count) => {
                wrong("torus", format!("{extents:?}"), "give extents that multiply to the count")
            }
            _ => Ok(()),
        }
    }
}

impl Device {
    fn check(&self) -> Result<(), MachineError> {
        let wrong = |what: String, value: String, instead| Err(MachineError::Device { what, value, instead });
        let flops = self.flops.iter().map(|(name, value)| (format!("flops of `{name}`"), *value));
        let nests = self.nests.iter().map(|(name, value)| (format!("nests of `{name}`"), *value));
        let stated = [
            ("memory_bandwidth", Some(self.memory_bandwidth)),
            ("memory_alone", self.memory_alone),
            ("memory_of_others", self.memory_of_others),
            ("write_bandwidth", self.write_bandwidth),
            ("packing_bandwidth", self.packing_bandwidth),
            ("transposing_bandwidth", self.transposing_bandwidth),
        ];
        let stated = stated.into_iter().filter_map(|(what, value)| Some((what.to_string(), value?)));
        for (what, value) in stated.chain(flops).chain(nests) {
            if !positive(value) {
                return wrong(what, value.to_string(), "give more than 0");
            }
        }
        let latencies = [
            ("row_latency", self.row_latency),
            ("in_place_latency", self.in_place_latency),
            ("packing_latency", self.packing_latency),
        ];
        for (what, value) in latencies {
            if !(value >= 0.0 && value.is_finite()) {
                return wrong(what.into(), format!("{value} s"), "give 0 or more");
            }
        }
        self.products.iter().try_for_each(|(dtype, products)| products.check(dtype))?;
        // TOML's integers are signed; a machine that cannot be written cannot be read either.
        if self.memory_capacity == 0 || i64::try_from(self.memory_capacity).is_err() {
            let instead = "give 1 byte or more, and less than 2^63";
            return wrong("memory_capacity".into(), self.memory_capacity.to_string(), instead);
        }
        Ok(())
    }
}

impl Machine {
    /// Returns the levels with their counts, outermost first, as text.
    ///
    /// ```
    /// use polyshard::machine::Machine;
    /// assert_eq!(Machine::preset("v100")?.shape(), "4 nodes x 8 gpus");
    /// assert_eq!(Machine::preset("tpu-v5e")?.shape(), "4 x, 4 y");
    /// # Ok::<(), polyshard::machine::MachineError>(())
    /// ```
    #[must_use]
    pub fn shape(&self) -> String {
        let levels = self.levels.iter().map(|level| units::counted(level.count, &level.name));
        // For a torus, `4 x x 4 y` would be hard to read.
        joined(levels, if self.levels.iter().any(|level| level.name.len() == 1) { ", " } else { " x " })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.shape())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a function of a reference")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn positive(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

fn multiply_to(extents: &[usize], count: usize) -> bool {
    extents.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent)) == Some(count)
}
