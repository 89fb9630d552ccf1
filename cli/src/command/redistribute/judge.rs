//! Flags: what a plan may do, and what it minimises.

use crate::dtypes::dtype_parser;
use crate::error::{CliError, Result};
use crate::numbers::{real, whole};
use clap::ValueEnum;
use polyshard::planner::{CostModel, Links, MemoryBound, Ops};
use polyshard::{DType, DistType, Mesh, Plan, PlanOptions};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Judge {
    /// Operations that a plan may use.
    #[arg(long, value_enum, default_value_t = Operations::Fused)]
    ops: Operations,
    /// Memory that a tile may take on each device [default: that of the larger of source and target tile].
    #[arg(long, value_name = "BYTES", value_parser = whole::<usize>, allow_negative_numbers = true)]
    memory: Option<usize>,
    /// Element type, used to convert elements to bytes.
    #[arg(long = "type", value_parser = dtype_parser(), default_value = "f64", value_name = "TYPE")]
    dtype: DType,
    /// Latency per message in seconds; minimise time.
    #[arg(long, value_name = "S", value_parser = real, requires = "bandwidth", allow_negative_numbers = true)]
    latency: Option<f64>,
    /// Bandwidth per rank in bytes per second; minimise time. For single axes as `x=1e9`, with a plain number for the
    /// others.
    #[arg(long, value_name = "BYTES_PER_S", allow_hyphen_values = true)]
    bandwidth: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Operations {
    /// Those of the literature: all-to-alls between two dimensions, all-gathers of one dimension.
    Paper,
    /// Also all-to-alls and all-gathers of several dimensions at once.
    Fused,
    /// One exchange between all pairs of ranks.
    Exchange,
    /// Any of these, whichever is cheapest.
    Any,
}

impl Judge {
    /// Returns the type of elements.
    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the best plan.
    ///
    /// # Errors
    /// If the arrays are not the same, no plan fits into the memory, or a latency or bandwidth cannot be one.
    pub(crate) fn plan(&self, source: &DistType, target: &DistType) -> Result<Plan> {
        let options = PlanOptions {
            ops: match self.ops {
                Operations::Paper => Ops::Paper,
                Operations::Fused => Ops::Fused,
                Operations::Exchange => Ops::Exchange,
                Operations::Any => Ops::Any,
            },
            memory: self.memory.map_or(MemoryBound::Strict, MemoryBound::Bytes),
            model: self.links(source.mesh())?.map_or(CostModel::Elements, CostModel::Links),
            element_bytes: self.dtype.size(),
        };
        Ok(Plan::new(source, target, &options)?)
    }

    /// Returns the seconds that a plan takes, if links are given.
    ///
    /// # Errors
    /// If a latency or bandwidth cannot be one.
    pub(crate) fn seconds(&self, plan: &Plan) -> Result<Option<f64>> {
        let links = self.links(plan.source().mesh())?;
        Ok(links.map(|links| plan.seconds(&links, self.dtype.size())))
    }

    fn links(&self, mesh: &Mesh) -> Result<Option<Links>> {
        let Some(text) = &self.bandwidth else { return Ok(None) };
        let (mut along, mut rest) = (Vec::new(), None);
        for part in text.split(',') {
            let (name, number) =
                part.split_once('=').map_or((None, part), |(name, number)| (Some(name.trim()), number));
            let number: f64 = number.trim().parse().map_err(|_| {
                let what = format!("`{part}` in the bandwidth `{text}`");
                CliError::unreadable(what, "bytes per second, such as x=1e9,1e10")
            })?;
            let before = match name {
                Some(name) if along.iter().any(|(other, _)| *other == name) => true,
                Some(name) => {
                    along.push((name, number));
                    false
                }
                None => rest.replace(number).is_some(),
            };
            if before {
                let subject = name.unwrap_or("all other axes").into();
                return Err(CliError::Twice { what: "bandwidths", subject });
            }
        }
        for axis in mesh.as_slice() {
            let name = axis.name.as_str();
            if along.iter().all(|(other, _)| *other != name) {
                let rest = rest.ok_or_else(|| {
                    let what = format!("no bandwidth is given for axis `{name}`");
                    CliError::missing(what, "add one, or a plain number for all other axes")
                })?;
                along.push((name, rest));
            }
        }
        // An axis counts if it is slower than what all links have, so that is the fastest.
        let fastest = along.iter().map(|(_, number)| *number).chain(rest).fold(f64::NEG_INFINITY, f64::max);
        let links = Links::new(self.latency.unwrap_or(0.0), fastest);
        Ok(Some(along.into_iter().fold(links, |links, (name, number)| links.along(name, number))))
    }
}
