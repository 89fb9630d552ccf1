//! Flags that describe a machine, and how collectives run on it.
//!
//! A machine is a preset or a TOML file, modified by counts and bandwidths from other flags. The planner validates it.

use crate::command::files::failed;
use crate::command::mesh;
use crate::command::print::choices;
use crate::error::{CliError, Result};
use crate::numbers::whole;
use clap::builder::TypedValueParser;
use polyshard::layout::Mesh;
use polyshard::machine::units::counted;
use polyshard::machine::{Algorithm, Machine, MachineError, PRESETS, TPUS};
use polyshard::planner::placement::PlacedMesh;
use std::fs;
use std::path::Path;

/// Limit on devices for timing, which simulates each resource of each message.
const DEVICES: usize = 4096;

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Hardware {
    /// The machine: a preset (a100, v100, tpu-v4p, tpu-v5e, tpu-v5p), or a TOML file.
    #[arg(long, value_name = "NAME|FILE.toml")]
    machine: Option<String>,
    /// Bandwidth of a level's ports or links, in bytes per second in each direction, instead of the machine's.
    #[arg(long, value_name = "LEVEL=BYTES_PER_S", requires = "machine", value_delimiter = ',')]
    bandwidth: Vec<String>,
    /// Algorithm of collectives.
    #[arg(long, value_parser = algorithms(), default_value = "ring")]
    algorithm: Algorithm,
    /// Maximum number of steps of the reduction programs that are considered.
    #[arg(long, default_value = "5", value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    max_steps: usize,
}

/// The algorithms of collectives.
fn algorithms() -> impl TypedValueParser<Value = Algorithm> {
    let tree = "Double binary trees for all-reduces between members of outer levels, rings for the rest";
    choices([("ring", Algorithm::Ring, "Rings"), ("tree", Algorithm::Tree, tree)])
}

impl Hardware {
    /// Returns the machine, if one is named, with the given counts of its levels.
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
            let instead = format!("times are simulated for at most {DEVICES}");
            return Err(CliError::refused(format!("{machine} has {devices} devices"), instead));
        }
        Ok(Some(machine))
    }

    /// Returns the algorithm of collectives.
    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the maximum number of steps of a program that crosses `levels` levels.
    pub(crate) fn max_steps(&self, levels: usize) -> Result<usize> {
        // Five steps over five levels make 16617 programs; over eight levels, a hundred times as many.
        let most = match levels {
            0..=4 => 16,
            5 => 5,
            6..=8 => 1,
            _ => {
                let what = format!("reductions are searched over at most 8 levels, but this one crosses {levels}");
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

/// Returns the machine of a name or a file, with the given counts of its levels.
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
        // With equal counts, the machine keeps its measured profiles.
        Some(counts) if machine.hierarchy() != counts => machine.with_counts(counts)?,
        _ => machine,
    })
}

/// Returns a mesh on the machine of a name or a file: by a matrix if one is given, else with an axis for each of its levels.
pub(crate) fn placed(mesh: &Mesh, name: &str, matrix: Option<&str>) -> Result<PlacedMesh> {
    if let Some(text) = matrix {
        let matrix = mesh::matrix(text)?;
        return Ok(PlacedMesh::new(mesh, &find(name, Some(&matrix.hierarchy()))?, &matrix)?);
    }
    if TPUS.contains(&name) {
        return Ok(PlacedMesh::on_torus(mesh, name)?);
    }
    let machine = find(name, None)?;
    if machine.hierarchy() == mesh.extents().into_iter().filter(|&extent| extent > 1).collect::<Vec<_>>() {
        return Ok(PlacedMesh::straight(mesh, &machine)?);
    }
    let what = format!("no placement of the mesh on {machine}");
    let give = format!("give `--matrix`, a machine with a level for each axis, or one of {}", TPUS.join(", "));
    Err(CliError::missing(what, give))
}
