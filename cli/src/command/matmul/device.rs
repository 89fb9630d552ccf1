//! Flags for the device and the links that a product is planned for: a preset, or the user's figures.

use crate::command::hardware;
use crate::error::{CliError, Result};
use crate::numbers::real;
use polyshard::layout::{DType, Mesh, Name};
use polyshard::machine::{self, Interconnect, Level, Machine, TPUS};
use polyshard::planner::placement::PlacedMesh;

/// The flags.
#[derive(clap::Args)]
pub(super) struct Device {
    /// The machine: tpu-v4p, tpu-v5e or tpu-v5p, with one torus dimension per mesh axis; with `--matrix`, any preset or
    /// TOML file with levels, such as a100.
    #[arg(long, value_name = "NAME|FILE.toml")]
    machine: Option<String>,
    /// Placement of the mesh on the machine's levels, as `polyshard placement` lists them.
    #[arg(long, value_name = "[[1,4],[4,4]]", requires = "machine")]
    matrix: Option<String>,
    /// Operations per second of a device for `--type`, instead of the machine's.
    #[arg(long, value_name = "PER_S", value_parser = real, allow_negative_numbers = true)]
    flops: Option<f64>,
    /// Memory bandwidth of a device in bytes per second, instead of the machine's.
    #[arg(long, value_name = "BYTES_PER_S", value_parser = real, allow_negative_numbers = true)]
    memory_bandwidth: Option<f64>,
    /// Memory of a device in bytes, instead of the machine's.
    #[arg(long, value_name = "BYTES", value_parser = real, allow_negative_numbers = true)]
    memory_bytes: Option<f64>,
    /// Links along an axis, instead of the machine's: bytes per second and direction, seconds per hop, and ring, line or
    /// switch. Repeat it for each axis.
    #[arg(long, value_name = "X=9e10:1e-6:ring", conflicts_with = "matrix")]
    link: Vec<String>,
}

impl Device {
    /// Returns the mesh on the machine that these flags describe.
    ///
    /// # Errors
    /// If the machine is missing or unknown, cannot hold the mesh or has no rate for the type, or a link is invalid or missing.
    pub(super) fn placed(&self, mesh: &Mesh, dtype: DType) -> Result<PlacedMesh> {
        let placed = match &self.machine {
            Some(name) => Some(self.preset(name, mesh)?),
            None if self.flops.is_none() || self.memory_bandwidth.is_none() || self.memory_bytes.is_none() => {
                let give = "give `--machine tpu-v5e` or another, or all of `--flops`, `--memory-bandwidth`, \
                            `--memory-bytes` and a `--link` for each axis";
                return Err(CliError::missing("no machine to plan the product for", give));
            }
            None => None,
        };
        let device = self.device(placed.as_ref(), dtype)?;
        let links = self.links(mesh)?;
        let Some(placed) = placed else { return on_links(mesh, &links, "links", device) };
        let machine = placed.machine();
        if !links.is_empty() {
            // Each axis is a level: `--matrix` conflicts with `--link`.
            let levels = machine.levels();
            let mut all = links.clone();
            for axis in mesh.as_slice().iter().filter(|axis| axis.extent > 1) {
                let nth = mesh.as_slice().iter().filter(|axis| axis.extent > 1).position(|other| other == axis);
                if all.iter().all(|(name, _)| *name != axis.name) {
                    all.extend(nth.map(|nth| (axis.name, levels[nth].clone())));
                }
            }
            return on_links(mesh, &all, machine.name(), device);
        }
        let changed = Machine::new(machine.name(), machine.levels().to_vec(), device)?;
        let changed = changed.with_profiles(machine.profiles().to_vec())?;
        Ok(PlacedMesh::new(mesh, &changed, placed.matrix())?)
    }

    /// The device, with the figures that flags replace.
    fn device(&self, placed: Option<&PlacedMesh>, dtype: DType) -> Result<machine::Device> {
        let own = || machine::Device { streams: true, ..machine::Device::default() };
        let mut device = placed.map_or_else(own, |placed| placed.machine().device().clone());
        if let Some(flops) = self.flops {
            device.flops.insert(dtype.to_string(), flops);
        }
        device.memory_bandwidth = self.memory_bandwidth.unwrap_or(device.memory_bandwidth);
        if let Some(bytes) = self.memory_bytes {
            if !(bytes >= 1.0 && bytes.is_finite()) {
                return Err(CliError::OutOfRange { what: "`--memory-bytes`", range: "1 or more", found: bytes });
            }
            // Fractions of a byte are dropped.
            device.memory_capacity = bytes as u64;
        }
        Ok(device)
    }

    /// The links of `--link`, by axis, as levels.
    fn links(&self, mesh: &Mesh) -> Result<Vec<(Name, Level)>> {
        let mut links: Vec<(Name, Level)> = Vec::new();
        for text in &self.link {
            let (axis, level) = link(text)?;
            let Some(position) = mesh.position(axis.into()) else {
                return Err(CliError::unknown(
                    format!("axis `{axis}` to give a link"),
                    format!("the mesh is ({mesh})"),
                ));
            };
            let described = mesh.as_slice()[position];
            if links.iter().any(|(other, _)| *other == described.name) {
                return Err(CliError::Twice { what: "links", subject: format!("axis `{axis}`") });
            }
            links.push((described.name, level));
        }
        Ok(links)
    }

    /// The mesh on a named machine.
    fn preset(&self, name: &str, mesh: &Mesh) -> Result<PlacedMesh> {
        if let Some(text) = &self.matrix {
            let matrix = crate::command::mesh::matrix(text)?;
            let machine = hardware::find(name, Some(&matrix.hierarchy()))?;
            return Ok(PlacedMesh::new(mesh, &machine, &matrix)?);
        }
        if !TPUS.contains(&name) {
            let machine = hardware::find(name, None)?;
            let give = format!(
                "give `--matrix`, choose one of {}, or give `--flops`, `--memory-bandwidth`, `--memory-bytes` and a \
                 `--link` for each axis",
                TPUS.join(", ")
            );
            return Err(CliError::missing(format!("no placement of the mesh on {machine}"), give));
        }
        Ok(PlacedMesh::on_torus(mesh, name)?)
    }
}

/// The mesh on a machine with these links.
fn on_links(mesh: &Mesh, links: &[(Name, Level)], name: &str, device: machine::Device) -> Result<PlacedMesh> {
    let given = |axis: Name| links.iter().find(|(other, _)| *other == axis).map(|(_, level)| level.clone());
    if let Some(axis) = mesh.as_slice().iter().find(|axis| axis.extent > 1 && given(axis.name).is_none()) {
        let give = format!("give some, as `--link {}=9e10:1e-6:ring`", axis.name);
        return Err(CliError::missing(format!("axis `{}` has no links", axis.name), give));
    }
    let level = |axis: usize| given(mesh.as_slice()[axis].name).expect("links that were looked for");
    Ok(PlacedMesh::along_axes(mesh, name, device, level)?)
}

/// Reads `X=9e10:1e-6:ring`.
fn link(text: &str) -> Result<(&str, Level)> {
    let wrong = || {
        let form = "an axis, bytes per second, seconds per hop, and ring, line or switch, such as X=9e10:1e-6:ring";
        CliError::unreadable(format!("the link `{text}`"), form)
    };
    let (axis, figures) = text.split_once('=').ok_or_else(wrong)?;
    let [bandwidth, latency, wiring] = figures.split(':').map(str::trim).collect::<Vec<_>>()[..] else {
        return Err(wrong());
    };
    let number = |text: &str| text.parse::<f64>().map_err(|_| wrong());
    let interconnect = match wiring {
        "ring" => Interconnect::Ring,
        "line" => Interconnect::Line,
        "switch" => Interconnect::Switch,
        _ => return Err(wrong()),
    };
    Ok((axis.trim(), Level::new("", 1, interconnect, number(bandwidth)?, number(latency)?)))
}
