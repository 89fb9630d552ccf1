//! Errors of machine descriptions.

use crate::units::counted;
use polyshard_layout::Collective;
use std::fmt;

/// Why a machine, or a question about it, is invalid.
///
/// ```
/// use polyshard::machine::MachineError;
/// use polyshard::prelude::*;
/// assert!(matches!(Machine::preset("a1000"), Err(MachineError::UnknownPreset { .. })));
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum MachineError {
    /// The text is not TOML, or does not describe a machine.
    #[error("cannot read the machine: {why}")]
    Syntax { why: String },
    /// No preset has this name.
    #[error("no machine `{name}`; the presets are {}", .presets.join(", "))]
    UnknownPreset { name: String, presets: &'static [&'static str] },
    /// No level has this name.
    #[error("no level `{name}`; the levels are {}", .levels.join(", "))]
    UnknownLevel { name: String, levels: Vec<String> },
    /// The number of counts differs from the number of levels.
    #[error("{counts:?} gives {} for {}; give one for each of {}",
        counted(.counts.len(), "count"), counted(.levels.len(), "level"), .levels.join(", "))]
    Counts { counts: Vec<usize>, levels: Vec<String> },
    /// A slice of a torus has more dimensions than the torus.
    #[error("{name} is a torus of {dimensions} dimensions, but {extents:?} has {}; join some", .extents.len())]
    Dimensions { name: String, dimensions: usize, extents: Vec<usize> },
    /// A machine has no levels.
    #[error("a machine without levels has no devices; give at least one level")]
    NoLevels,
    /// Two levels have one name.
    #[error("two levels are named `{name}`; give each its own name")]
    LevelTwice { name: String },
    /// A field of a level is wrong.
    #[error("level `{level}`: `{what}` is {value}; {instead}")]
    Level { level: String, what: &'static str, value: String, instead: &'static str },
    /// A field of the device is wrong.
    #[error("device: {what} is {value}; {instead}")]
    Device { what: String, value: String, instead: &'static str },
    /// The number of devices overflows.
    #[error("levels of {counts:?} members make more devices than fit in 64 bits; give smaller counts")]
    TooManyDevices { counts: Vec<usize> },
    /// A group names a device that the machine lacks.
    #[error("group {group:?} has rank {rank}, but the machine `{machine}` has ranks 0..{devices}")]
    NoDevice { group: Vec<usize>, rank: usize, machine: String, devices: usize },
    /// A rank is in two groups, or twice in one.
    #[error("rank {rank} is in the groups of one collective twice; groups of one collective must be disjoint")]
    RankTwice { rank: usize },
    /// Bytes are negative or not finite.
    #[error("an amount of data must be 0 bytes or more, found {bytes}")]
    Bytes { bytes: String },
    /// A measurement cannot be fitted.
    #[error("measurement {number} cannot be fitted: {why}")]
    Measurement {
        /// Its number, counted from 0.
        number: usize,
        why: String,
    },
    /// An invalid profile.
    #[error("invalid profile of {operation} on {}: {why}", counted(ranks, "rank"))]
    Profile { operation: Collective, ranks: usize, why: String },
}

impl fmt::Debug for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
