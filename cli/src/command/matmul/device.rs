//! The device and the links that a product is planned for, as flags: a TPU, or figures of one's own.

use crate::command::hardware;
use crate::error::{CliError, Result};
use crate::numbers::real;
use polyshard::machine::TPUS;
use polyshard::planner::product::{Link, Roofline, Wiring};
use polyshard::{DType, Mesh};

/// The flags.
#[derive(clap::Args)]
pub(super) struct Device {
    /// The machine: tpu-v4p, tpu-v5e or tpu-v5p, whose torus then has a dimension for each axis of the mesh; or with
    /// `--matrix` any that has levels, a100, v100 or a file.
    #[arg(long, value_name = "NAME|FILE.toml")]
    machine: Option<String>,
    /// How the mesh is placed on the machine's levels; `polyshard placement` lists the ways.
    #[arg(long, value_name = "[[1,4],[4,4]]", requires = "machine")]
    matrix: Option<String>,
    /// A device's operations per second for the type of elements, instead of the machine's.
    #[arg(long, value_name = "PER_S", value_parser = real, allow_negative_numbers = true)]
    flops: Option<f64>,
    /// The bytes per second between a device and its memory, instead of the machine's.
    #[arg(long, value_name = "BYTES_PER_S", value_parser = real, allow_negative_numbers = true)]
    memory_bandwidth: Option<f64>,
    /// A device's bytes of memory, instead of the machine's.
    #[arg(long, value_name = "BYTES", value_parser = real, allow_negative_numbers = true)]
    memory_bytes: Option<f64>,
    /// The links along an axis, instead of the machine's: bytes per second in each direction, seconds per hop, and
    /// ring, line or switch. May be given for each axis.
    #[arg(long, value_name = "X=9e10:1e-6:ring")]
    link: Vec<String>,
}

impl Device {
    /// Returns what these flags say of the devices and links of a mesh.
    ///
    /// # Errors
    /// If there is no machine, it has no such mesh or no rate for the type, a link cannot be read, or an axis has none.
    pub(super) fn roofline(&self, mesh: &Mesh, dtype: DType) -> Result<Roofline> {
        let mut roofline = match &self.machine {
            Some(name) => self.preset(name, mesh, dtype)?,
            None if self.flops.is_none() || self.memory_bandwidth.is_none() || self.memory_bytes.is_none() => {
                let give = "give `--machine tpu-v5e` or another, or all of `--flops`, `--memory-bandwidth`, \
                            `--memory-bytes` and a `--link` for each axis";
                return Err(CliError::missing("no machine to plan the product for", give));
            }
            None => Roofline { flops: 0.0, memory_bandwidth: 0.0, memory_bytes: 0, links: Vec::new() },
        };
        roofline.flops = self.flops.unwrap_or(roofline.flops);
        roofline.memory_bandwidth = self.memory_bandwidth.unwrap_or(roofline.memory_bandwidth);
        if let Some(bytes) = self.memory_bytes {
            if !(bytes >= 1.0 && bytes.is_finite()) {
                return Err(CliError::OutOfRange { what: "`--memory-bytes`", range: "1 or more", found: bytes });
            }
            // Fractions of a byte hold nothing.
            roofline.memory_bytes = bytes as u128;
        }
        for (nth, text) in self.link.iter().enumerate() {
            let (axis, link) = link(text)?;
            let Some(position) = mesh.position(axis.into()) else {
                return Err(CliError::unknown(
                    format!("axis `{axis}` to give a link"),
                    format!("the mesh is ({mesh})"),
                ));
            };
            let again = |other: &&String| other.split_once('=').is_some_and(|(name, _)| name.trim() == axis);
            if self.link[..nth].iter().any(|other| again(&other)) {
                return Err(CliError::Twice { what: "links", subject: format!("axis `{axis}`") });
            }
            roofline = roofline.with_link(mesh.as_slice()[position].name, link);
        }
        let linked = |axis: polyshard::Name| roofline.links.iter().any(|(name, _)| *name == axis);
        match mesh.as_slice().iter().find(|axis| axis.extent > 1 && !linked(axis.name)) {
            Some(axis) => {
                let give = format!("give some, as `--link {}=9e10:1e-6:ring`", axis.name);
                Err(CliError::missing(format!("axis `{}` has no links", axis.name), give))
            }
            None => Ok(roofline),
        }
    }

    /// The figures of a machine, before flags replace some.
    fn preset(&self, name: &str, mesh: &Mesh, dtype: DType) -> Result<Roofline> {
        if let Some(text) = &self.matrix {
            return self.placed(name, text, mesh, dtype);
        }
        if !TPUS.contains(&name) {
            let machine = hardware::find(name, None)?;
            let give = format!(
                "without it there are {}, or give `--flops`, `--memory-bandwidth`, `--memory-bytes` and a `--link` for \
                 each axis",
                TPUS.join(", ")
            );
            return Err(CliError::missing(
                format!("{machine}: say with `--matrix` how the mesh lies on these levels"),
                give,
            ));
        }
        let dtype = match (dtype, self.flops) {
            (DType::F32 | DType::F64, None) => {
                let what = format!("{name} states no FLOP/s for {dtype}");
                return Err(CliError::missing(what, "take bf16 or i8, or give `--flops`"));
            }
            // The rate that the machine states is replaced, so it may be that of another type.
            (_, Some(_)) => DType::Bf16,
            (dtype, None) => dtype,
        };
        Ok(Roofline::preset(name, mesh, dtype)?)
    }

    /// The figures of a machine with levels.
    fn placed(&self, name: &str, matrix: &str, mesh: &Mesh, dtype: DType) -> Result<Roofline> {
        let matrix = crate::command::mesh::matrix(matrix)?;
        let machine = hardware::find(name, Some(&matrix.hierarchy()))?;
        let stated = |dtype: &DType| machine.device().flops.contains_key(&dtype.to_string());
        let dtype = match self.flops {
            // As above; of a machine that states no rate at all, the planner says so.
            Some(_) => DType::ALL.into_iter().find(stated).unwrap_or(dtype),
            None => dtype,
        };
        Ok(Roofline::on_machine(&machine, &matrix, mesh, dtype)?)
    }
}

/// Reads `X=9e10:1e-6:ring`.
fn link(text: &str) -> Result<(&str, Link)> {
    let wrong = || {
        let form = "an axis, bytes per second, seconds per hop, and ring, line or switch, such as X=9e10:1e-6:ring";
        CliError::unreadable(format!("the link `{text}`"), form)
    };
    let (axis, figures) = text.split_once('=').ok_or_else(wrong)?;
    let [bandwidth, latency, wiring] = figures.split(':').map(str::trim).collect::<Vec<_>>()[..] else {
        return Err(wrong());
    };
    let number = |text: &str| text.parse::<f64>().map_err(|_| wrong());
    let wiring = match wiring {
        "ring" => Wiring::Ring,
        "line" => Wiring::Line,
        "switch" => Wiring::Switch,
        _ => return Err(wrong()),
    };
    Ok((axis.trim(), Link { wiring, bandwidth: number(bandwidth)?, latency: number(latency)? }))
}
