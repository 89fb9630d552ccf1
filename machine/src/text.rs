//! Machines as TOML.
//!
//! One table `device`, one table `level` for each level, outermost first, and one for each `profile`. Their keys are
//! the fields of [`Device`], [`Level`] and [`Profile`]; optional fields may be left out.
//!
//! | key | holds |
//! | --- | --- |
//! | `name` | the machine's name |
//! | `shared_memory` | optional: the level whose devices read each other's memory inside one member of the level outside |
//! | `disturbed` | the disturbance during the measurement of the figures; optional |
//! | `[device]` | `memory_bandwidth`, `memory_capacity`, `flops = { f64 = 1e10 }` by type, and optional figures |
//! | `[[level]]` | `name`, `count`, `interconnect`, `bandwidth`, `latency`, and `shared_ports`, `bypass` |
//! | `[[profile]]` | `operation`, `ranks`, `bytes`, `factor` |
//!
//! Numbers keep all their digits, so writing and reading a machine returns it unchanged. An invalid machine is refused
//! on reading as [`Machine::new`] refuses it, and an unknown key is an error, since it is most likely misspelt.

use super::{Device, Level, Machine, MachineError, Profile};
use serde::Deserialize;

/// A machine as read from a file, not yet checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    name: String,
    shared_memory: Option<String>,
    disturbed: Option<String>,
    device: Device,
    level: Vec<Level>,
    #[serde(default)]
    profile: Vec<Profile>,
}

impl Machine {
    /// Reads a machine.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let machine = Machine::from_toml(r#"
    ///     name = "two boards"
    ///     shared_memory = "core" # cores of a board read one another's
    ///     [device]
    ///     memory_bandwidth = 2e10
    ///     memory_capacity = 8_000_000_000
    ///     flops = { f64 = 1e10 }
    ///     [[level]]
    ///     name = "board"
    ///     count = 2
    ///     interconnect = "switch"
    ///     bandwidth = 1.25e8
    ///     latency = 5e-5
    ///     shared_ports = 1
    ///     [[level]]
    ///     name = "core"
    ///     count = 4
    ///     interconnect = { torus = [2, 2] }
    ///     bandwidth = 4e9
    ///     latency = 1e-7
    /// "#)?;
    /// assert_eq!(machine.to_string(), "two boards: 2 boards x 4 cores");
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the text is not TOML, lacks a key or has an unknown one (the error gives the place), or describes a machine
    /// that [`new`](Self::new) or [`with_profiles`](Self::with_profiles) refuse.
    pub fn from_toml(text: &str) -> Result<Self, MachineError> {
        // The message ends in a line break.
        let syntax = |error: toml::de::Error| MachineError::Syntax { why: error.to_string().trim_end().into() };
        let text: Text = toml::from_str(text).map_err(syntax)?;
        let machine = Self::new(text.name, text.level, text.device)?.with_profiles(text.profile)?;
        let machine = match text.shared_memory {
            Some(level) => machine.with_shared_memory(&level)?,
            None => machine,
        };
        Ok(Self { disturbed: text.disturbed, ..machine })
    }

    /// Writes the machine so that [`from_toml`](Self::from_toml) reads it.
    ///
    /// # Panics
    /// Never: every machine can be written.
    #[must_use]
    pub fn to_toml(&self) -> String {
        match toml::to_string(self) {
            Ok(text) => text,
            Err(error) => panic!("machine `{}` cannot be written: {error}; this is a bug in polyshard", self.name),
        }
    }
}
