//! `polyshard matmul`: the ways to multiply two sharded arrays over a mesh, and their costs.
//!
//! After J. Austin et al., "How to Scale Your Model", part 3, Google DeepMind, 2025, whose notation and four cases it uses.
//! `search` prices each way to divide the loops of the product over the mesh, with the arrays as they are written; this
//! module reports them. Types that programs do not compute in, `bf16` and `i8`, are priced as `i32` on a machine whose
//! bandwidths are larger by the ratio of their bytes. Tests: `cli/tests/it/placement/products.rs`.

mod ways;

use crate::command::files;
use crate::command::hardware::placed;
use crate::command::mesh::{named_mesh, pairs};
use crate::command::print::{self, without_nulls};
use crate::command::threads::{Trial, check_memory, check_ranks};
use crate::error::{CliError, Result};
use crate::notation::product::Product;
use polyshard::draw::{Panel, devices};
use polyshard::layout::DType;
use polyshard::machine::units::{bytes, counted, scaled, seconds, table};
use polyshard::runtime::{self, DistArray, Element, Execute};
use serde_json::json;
use std::path::PathBuf;
use ways::{Way, WayStep, ways};

/// Limit on the ways that are listed.
const LISTED: usize = 16;
/// Limits on ranks of `--run`, each a thread, and on operations, which the comparison repeats one by one.
const RANKS: usize = 64;
const FLOPS: f64 = 1e9;

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
    /// The machine: tpu-v4p, tpu-v5e or tpu-v5p, with one torus dimension per mesh axis, or a TOML file with one level per mesh
    /// axis; with `--matrix`, any preset or file, such as a100.
    #[arg(long, value_name = "NAME|FILE.toml")]
    machine: String,
    /// Placement of the mesh on the machine's levels, as `polyshard placement` lists them.
    #[arg(long, value_name = "[[1,4],[4,4]]")]
    matrix: Option<String>,
    /// Also choose the sharding of these factors, which are then written without axes.
    #[arg(long, value_name = "FACTORS", value_parser = ["left", "right", "both"])]
    search: Option<String>,
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

/// Runs the command and returns the text to print.
///
/// # Errors
/// If the product, the mesh or the machine is invalid, or nothing fits into memory.
pub fn matmul(arguments: &Arguments) -> Result<String> {
    files::check(arguments.draw.as_deref())?;
    let mesh = named_mesh(&arguments.mesh, ["X", "Y", "Z"])?;
    let product = Product::read(&arguments.product, &mesh, &pairs("size", &arguments.size, "I=8192,J=8192,K=8192")?)?;
    let free = arguments.search.as_deref();
    let free = [free.is_some_and(|free| free != "right"), free.is_some_and(|free| free != "left"), false];
    product.check_free(free)?;
    let dtype: DType = arguments.dtype.parse()?;
    let on = placed(&mesh, &arguments.machine, arguments.matrix.as_deref())?;
    let (ways, capacity) = (ways(&product, dtype, &on, free)?, on.machine().device().memory_capacity);
    let best = &ways[0];
    if !best.fits {
        let (steps, least) = (best.brief(), best.memory_bytes);
        let what = format!("no sequence fits into {capacity} bytes per device: `{steps}`, the smallest, takes {least}");
        return Err(CliError::refused(what, "use more devices or smaller sizes, or `--search` for other shardings"));
    }
    let run = if arguments.run { Some(run(&product, dtype, best)?) } else { None };
    files::draw(arguments.draw.as_deref(), || {
        // The axes of the mesh are drawn as levels.
        let levels: Vec<_> = mesh.as_slice().iter().map(|axis| (axis.name.to_string(), axis.extent)).collect();
        let panel = |step: &WayStep| Panel::around(step.step.clone(), step.groups.clone(), &format!(": {}", step.cost));
        devices(&product.to_string(), &levels, &[best.steps.iter().map(panel).collect()])
    })?;
    // Free factors belong to no case yet.
    let case = arguments.search.is_none().then(|| product.case());
    if arguments.json {
        // The ways are listed best first; the case is the number of the literature's.
        let answer = json!({
            "product": product.to_string(),
            "mesh": mesh.to_string(),
            "dtype": dtype.to_string(),
            "case": case.map(|(number, _)| number),
            "capacity_bytes": capacity,
            "sequences": ways,
            "run": run,
        });
        return Ok(print::json(&without_nulls(answer, &["run"])) + "\n");
    }
    let free = if case.is_none() { ", factors sharded freely" } else { "" };
    let mut text = format!("{product} over ({mesh}), {dtype}, {}{free}\n", product.sizes());
    text += &case.map_or_else(String::new, |(number, what)| format!("case {number}: {what}\n"));
    let mut rows = vec![["", "work", "moved", "comm", "math", "max", "sum", "memory", "steps"].map(String::from)];
    rows.extend(ways.iter().take(LISTED).enumerate().map(|(nth, way)| row(nth, way, case.is_none())));
    text += &table(&rows, &[1, 8]);
    if ways.len() > LISTED {
        text += &format!("and {} more\n", ways.len() - LISTED);
    }
    text += &format!("best, of {} per device:\n", bytes(capacity.into()));
    for (nth, WayStep { step, cost, .. }) in best.steps.iter().enumerate() {
        text += &format!("{} {step}: {cost}\n", nth + 1);
    }
    let run = run.map(|run| format!("ran in f64, checked {} of the product\n{run}\n", counted(run.tiles, "tile")));
    Ok(text + &run.unwrap_or_default())
}

/// A line of the table.
fn row(nth: usize, way: &Way, is_free: bool) -> [String; 9] {
    let factors = if is_free { format!("{}, {}: ", way.left, way.right) } else { String::new() };
    [
        if nth == 0 { "*1".to_owned() } else { (nth + 1).to_string() },
        way.work.clone(),
        bytes(way.bytes.into()),
        seconds(way.communication_seconds),
        seconds(way.arithmetic_seconds),
        seconds(way.overlapped_seconds),
        seconds(way.sequential_seconds),
        bytes(way.memory_bytes.into()) + if way.fits { "" } else { " too much" },
        factors + &way.brief(),
    ]
}

/// Runs a way in `f64` on one thread per rank. Elements are small whole numbers, so that sums are exact in any order.
fn run(product: &Product, dtype: DType, way: &Way) -> Result<Trial> {
    let ranks = product.mesh().size();
    check_ranks("the mesh", ranks, RANKS)?;
    if product.flops() > FLOPS {
        let [most, found] = [FLOPS, product.flops()].map(|flops| scaled(flops, "FLOP"));
        let what = format!("`--run` checks {most} one by one, but the product has {found}");
        return Err(CliError::refused(what, "run a smaller one"));
    }
    let whole: usize = product.arrays.iter().map(|array| array.sharding.shape().iter().product::<usize>()).sum();
    let tiles = u128::from(way.memory_bytes) / dtype.size() as u128 * ranks as u128;
    check_memory("all arrays and the tiles of all ranks", (whole as u128 + tiles) * size_of::<f64>() as u128)?;
    let program = way.program(product, DType::F64)?;
    let received_bytes = polyshard::spmd(ranks, |world| {
        let factor = |(array, seed): (&polyshard::program::Array, u64)| {
            DistArray::from_fn(world, &array.sharding, |index| i64::random(seed, index) as f64)
        };
        let factors = program.inputs().zip(1..).map(factor).collect::<runtime::Result<Vec<_>>>()?;
        let factors: Vec<_> = factors.iter().collect();
        let mut prepared = program.prepare(world)?;
        let before = world.bytes_received();
        let terms = prepared.run(&factors)?;
        let received = world.bytes_received() - before;
        // Partial sums are added up for the comparison.
        let whole = terms.redistribute(world, &terms.sharding().closed())?;
        program.verify(world, &factors, &[&whole], 0.0)?;
        Ok(received)
    })?;
    Ok(Trial { tiles: received_bytes.len(), received_bytes })
}
