//! The machine that flags describe, and how collectives run on it.
//!
//! A machine is a preset or a file of TOML, with the counts and bandwidths that other flags give. What it cannot be is
//! for the planner to say; here it is only found.

use crate::command::files::failed;
use crate::error::{CliError, Result};
use crate::numbers::whole;
use clap::ValueEnum;
use polyshard::machine::units::counted;
use polyshard::machine::{Algorithm, Machine, MachineError, PRESETS};
use std::fs;
use std::path::Path;

/// The most devices on which times are asked for: each resource of each message is counted.
const DEVICES: usize = 4096;

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Hardware {
    /// The machine: a preset (a100, v100, tpu-v4p, tpu-v5e, tpu-v5p), or a TOML file.
    #[arg(long, value_name = "NAME|FILE.toml")]
    machine: Option<String>,
    /// Bandwidth of a level's ports or links, in bytes per second and direction, instead of the machine's.
    #[arg(long, value_name = "LEVEL=BYTES_PER_S", requires = "machine", value_delimiter = ',')]
    bandwidth: Vec<String>,
    /// Algorithm of collectives.
    #[arg(long, value_enum, default_value_t = Carried::Ring)]
    algorithm: Carried,
    /// Maximum number of steps of a reduction program.
    #[arg(long, default_value = "5", value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    max_steps: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Carried {
    /// Rings.
    Ring,
    /// Double binary trees for all-reduces between members of outer levels, rings for the rest.
    Tree,
}

impl Hardware {
    /// Returns the machine, if one is named, with these counts of its levels if some are given.
    ///
    /// # Errors
    /// If there is no such machine, the counts or bandwidths do not fit it, or it has too many devices.
    pub(crate) fn machine(&self, hierarchy: Option<&[usize]>) -> Result<Option<Machine>> {
        let Some(name) = &self.machine else { return Ok(None) };
        let mut machine = find(name, hierarchy)?;
        for text in &self.bandwidth {
            let wrong = || {
                let form = format!("a level and its bytes per second, such as {}=8e9", machine.levels()[0].name);
                CliError::unreadable(format!("the bandwidth `{text}`"), form)
            };
            let (level, number) = text.split_once('=').ok_or_else(wrong)?;
            let number: f64 = number.trim().parse().map_err(|_| wrong())?;
            machine = machine.with_bandwidth(level.trim(), number)?;
        }
        let devices = machine.devices();
        if devices > DEVICES {
            let instead = format!("times are simulated for {DEVICES} at most");
            return Err(CliError::refused(format!("{machine} makes {devices} devices"), instead));
        }
        Ok(Some(machine))
    }

    /// Returns how collectives are carried out.
    pub(crate) fn algorithm(&self) -> Algorithm {
        match self.algorithm {
            Carried::Ring => Algorithm::Ring,
            Carried::Tree => Algorithm::Tree,
        }
    }

    /// Returns the most steps of a program that crosses `levels` levels.
    ///
    /// # Errors
    /// If no program has so few, or there are too many to be sought.
    pub(crate) fn max_steps(&self, levels: usize) -> Result<usize> {
        // Five steps over five levels are 16617 programs, eight are a hundred times as many.
        let most = match levels {
            0..=4 => 16,
            5 => 5,
            6..=8 => 1,
            _ => {
                let what = format!("reductions are sought over 8 levels at most, and this one crosses {levels}");
                return Err(CliError::refused(what, "join some of them"));
            }
        };
        match self.max_steps {
            0 => Err(CliError::refused("a reduction takes at least one step", "give `--max-steps 1` or more")),
            steps if steps > most => {
                let levels = counted(levels, "level");
                let what = format!("there are too many programs of {steps} steps over {levels} to search");
                Err(CliError::refused(what, format!("give `--max-steps {most}` or less")))
            }
            steps => Ok(steps),
        }
    }
}

/// Returns the machine of a name or a file, with these counts if some are given.
///
/// # Errors
/// If there is no such machine, or it cannot have these counts.
pub(crate) fn find(name: &str, hierarchy: Option<&[usize]>) -> Result<Machine> {
    if PRESETS.contains(&name) || !(name.ends_with(".toml") || Path::new(name).exists()) {
        let preset = hierarchy.map_or_else(|| Machine::preset(name), |counts| Machine::sized(name, counts));
        return preset.map_err(|why| match why {
            MachineError::UnknownPreset { .. } => CliError::UnknownMachine(Box::new(why)),
            why => why.into(),
        });
    }
    let path = Path::new(name);
    let text = fs::read_to_string(path).map_err(|why| failed("read", path, why))?;
    let machine = Machine::from_toml(&text).map_err(|why| CliError::invalid(format!("`{name}`"), why))?;
    Ok(match hierarchy {
        // A machine that has these counts already stays as it is, with all that is known of it.
        Some(counts) if machine.hierarchy() != counts => machine.with_counts(counts)?,
        _ => machine,
    })
}
