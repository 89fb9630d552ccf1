//! `polyshard matmul`: the cost of each way to multiply two sharded matrices.
//!
//! The planner finds sequences and their costs, and the runtime runs them; this module handles arguments and output.

mod device;
mod trial;

use crate::command::files::{self, drawn};
use crate::command::mesh::{named_mesh, pairs};
use crate::command::print::json;
use crate::command::threads::Trial;
use crate::error::Result;
use clap::ValueEnum;
use device::Device;
use polyshard::draw;
use polyshard::draw::MeshStep;
use polyshard::layout::DType;
use polyshard::machine::units::{bytes, counted, seconds};
use polyshard::search::product::{Free, Product, ProductPlan, ProductReport, ProductStep};
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `polyshard matmul`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  polyshard matmul 'A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]' --mesh X=4,Y=4 --size I=8192,J=8192,K=8192 --machine tpu-v5e
  polyshard matmul 'A[I,J_X] * B[J_X,K] -> C[I,K]' --mesh 4 --size I=24,J=36,K=48 --machine tpu-v5p --run
  polyshard matmul 'A[I,J] * B[J,K] -> C[I_X,K_Y]' --mesh 2x2 --size I=64,J=64,K=64 --machine tpu-v4p --search both
  polyshard matmul 'A[I_X,J] * B[J,K] -> C[I_X,K]' --mesh X=8 --size I=512,J=512,K=512 --machine a100 \
      --matrix '[[2,4]]' --draw steps.svg")]
pub struct Arguments {
    /// The product, with the mesh axes that divide each dimension: 'A[I_X, J] * B[J_X, K_Y] -> C[I_X, K_Y]'. A result
    /// `C[I, K] {U_X}` keeps partial sums along X.
    product: String,
    /// The mesh: name and extent of each axis, outermost first; `4x4` is `X=4,Y=4`.
    #[arg(long, value_name = "X=4,Y=4", allow_hyphen_values = true)]
    mesh: String,
    /// Sizes of the dimensions.
    #[arg(long, value_name = "I=8192,J=8192,K=8192")]
    size: String,
    /// Element type of the estimate: i8, bf16, f32, f64, i32 or i64.
    #[arg(long = "type", value_name = "TYPE", default_value = "bf16")]
    dtype: String,
    #[command(flatten)]
    device: Device,
    /// Also choose the sharding of these factors, which are then written without axes.
    #[arg(long, value_enum, value_name = "FACTORS")]
    search: Option<Factors>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Run the cheapest sequence in `f64` on one thread per rank, and compare with the sequential product.
    #[arg(long)]
    run: bool,
    /// Draw which ranks communicate in each step of the cheapest sequence.
    #[arg(long, value_name = "FILE.svg")]
    draw: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Factors {
    /// The first factor.
    Left,
    /// The second factor.
    Right,
    /// Both factors.
    Both,
}

/// A plan and the outcome of its run, as JSON.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    report: ProductReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Trial>,
}

/// Runs the command and returns the text to print.
///
/// # Errors
/// If the product, the mesh or the machine is invalid, or nothing fits into memory.
pub fn matmul(arguments: &Arguments) -> Result<String> {
    files::check(arguments.draw.as_deref())?;
    let mesh = named_mesh(&arguments.mesh, ["X", "Y", "Z"])?;
    let sizes = pairs("size", &arguments.size, "I=8192,J=8192,K=8192")?;
    let sizes: Vec<_> = sizes.iter().map(|(name, size)| (name.as_str(), *size)).collect();
    let dtype: DType = arguments.dtype.parse()?;
    let product = Product::new(&arguments.product, &mesh, &sizes, dtype)?;
    let placed = arguments.device.placed(&mesh, dtype)?;
    let plan = match arguments.search {
        None => product.plan(&placed),
        Some(Factors::Left) => product.search(&placed, Free::Left),
        Some(Factors::Right) => product.search(&placed, Free::Right),
        Some(Factors::Both) => product.search(&placed, Free::Both),
    }?;
    let trial = if arguments.run { Some(trial::run(&plan)?) } else { None };
    if let Some(path) = &arguments.draw {
        files::save(path, &drawn(drawing(&plan))?)?;
    }
    if arguments.json {
        return Ok(json(&Answer { report: plan.report(), run: trial }) + "\n");
    }
    let trial = trial.map(|trial| {
        let tiles = counted(trial.tiles, "tile");
        format!("ran in f64, checked {tiles} of the product\n{trial}\n")
    });
    Ok(plan.explain() + &trial.unwrap_or_default())
}

/// The steps of the cheapest sequence as a picture.
fn drawing(plan: &ProductPlan) -> Result<String, draw::DrawError> {
    let mesh = plan.product().mesh();
    let step = |step: &ProductStep| MeshStep {
        title: step.to_string(),
        cost: format!("{} in {}", bytes(step.bytes.into()), seconds(step.seconds)),
        groups: step.groups(mesh),
    };
    draw::product(&plan.product().to_string(), mesh, &plan.best().steps().iter().map(step).collect::<Vec<_>>())
}
