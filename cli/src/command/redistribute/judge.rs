//! Flags for the operations of a plan and its objective.

use crate::command::print::choices;
use crate::dtypes::dtype_parser;
use crate::error::{CliError, Result};
use crate::numbers::{real, size};
use clap::builder::TypedValueParser;
use polyshard::layout::{DType, Mesh};
use polyshard::machine::{Device, Interconnect, Level};
use polyshard::planner::cost::{PartCost, Spent};
use polyshard::planner::placement::PlacedMesh;
use polyshard::planner::{CostModel, DistType, MemoryBound, Ops, Plan, PlanOptions, cost_on};
use polyshard::program::Program;
use std::sync::Arc;

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Judge {
    /// Operations that a plan may use.
    #[arg(long, value_parser = operations(), default_value = "fused")]
    ops: Ops,
    /// Memory limit for a tile on each rank [default: the larger of the source and the target tile].
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    memory: Option<usize>,
    /// Element type, which sets the bytes per element.
    #[arg(long = "type", value_parser = dtype_parser(), default_value = "f64", value_name = "TYPE")]
    pub(super) dtype: DType,
    /// Latency per message in seconds: minimise time instead of bytes.
    #[arg(long, value_name = "S", value_parser = real, requires = "bandwidth", allow_negative_numbers = true)]
    latency: Option<f64>,
    /// Bandwidth per rank in bytes per second: minimise time instead of bytes. `x=1e9` sets it for one axis; a plain
    /// number is for the others.
    #[arg(long, value_name = "BYTES_PER_S", allow_hyphen_values = true)]
    bandwidth: Option<String>,
}

/// The operations that a plan may use.
fn operations() -> impl TypedValueParser<Value = Ops> {
    let paper = "Those of the literature: all-to-alls between two dimensions, all-gathers of one dimension";
    choices([
        ("paper", Ops::Paper, paper),
        ("fused", Ops::Fused, "Also all-to-alls and all-gathers of several dimensions at once"),
        ("exchange", Ops::Exchange, "One exchange between all pairs of ranks"),
        ("any", Ops::Any, "Any of these, whichever is cheapest"),
    ])
}

impl Judge {
    /// Returns the best plan.
    pub(crate) fn plan(&self, source: &DistType, target: &DistType) -> Result<Plan> {
        Ok(Plan::new(source, target, &self.options(source.mesh())?)?)
    }

    /// Returns the options for plans on this mesh.
    pub(super) fn options(&self, mesh: &Mesh) -> Result<PlanOptions> {
        Ok(PlanOptions {
            ops: self.ops,
            memory: self.memory.map_or(MemoryBound::Strict, MemoryBound::Bytes),
            model: self.links(mesh)?.map_or(CostModel::Elements, |placed| CostModel::Seconds(Arc::new(placed))),
            dtype: self.dtype,
        })
    }

    /// Returns the seconds of a plan's program over the links, if they are given.
    pub(crate) fn seconds(&self, program: &Program) -> Result<Option<f64>> {
        let placed = self.links(program.mesh())?;
        let Some(placed) = placed else { return Ok(None) };
        let cost = cost_on(program, &placed).map_err(polyshard::Error::from)?;
        let by_messages = cost.parts.iter().filter(|part| matches!(part.spent, Spent::Messages(_)));
        Ok(Some(by_messages.map(PartCost::added).sum()))
    }

    /// The mesh on a machine that has a switch with the given links along each axis.
    fn links(&self, mesh: &Mesh) -> Result<Option<PlacedMesh>> {
        let Some(text) = &self.bandwidth else { return Ok(None) };
        // A number without a name is for all axes that are not named.
        let mut given: Vec<(Option<&str>, f64)> = Vec::new();
        for part in text.split(',') {
            let (name, number) =
                part.split_once('=').map_or((None, part), |(name, number)| (Some(name.trim()), number));
            let number: f64 = number.trim().parse().map_err(|_| {
                let what = format!("`{part}` in the bandwidth `{text}`");
                CliError::unreadable(what, "bytes per second, such as x=1e9,1e10")
            })?;
            if given.iter().any(|(other, _)| *other == name) {
                let subject = name.unwrap_or("all other axes").into();
                return Err(CliError::Twice { what: "bandwidths", subject });
            }
            given.push((name, number));
        }
        let mut names = given.iter().filter_map(|(name, _)| *name);
        if let Some(name) = names.find(|name| mesh.position((*name).into()).is_none()) {
            let what = format!("axis `{name}` to give a bandwidth");
            return Err(CliError::unknown(what, format!("the mesh is ({mesh})")));
        }
        let of = |name: Option<&str>| given.iter().find(|(other, _)| *other == name).map(|(_, number)| *number);
        let mut bandwidths = Vec::new();
        for axis in mesh.as_slice() {
            bandwidths.push(of(Some(axis.name.as_str())).or(of(None)).ok_or_else(|| {
                let what = format!("no bandwidth is given for axis `{}`", axis.name);
                CliError::missing(what, "add one, or a plain number for all other axes")
            })?);
        }
        let latency = self.latency.unwrap_or(0.0);
        // Only messages count: the device computes and holds nothing, and copies take no time.
        let device = Device { memory_bandwidth: f64::MAX, memory_capacity: 1, ..Device::default() };
        let switch = |axis: usize| Level::new("", 1, Interconnect::Switch, bandwidths[axis], latency);
        Ok(Some(PlacedMesh::along_axes(mesh, "links", device, switch)?))
    }
}
