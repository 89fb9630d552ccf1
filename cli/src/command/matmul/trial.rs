//! Runs the cheapest sequence of a product on threads, and compares every element of the result.
//!
//! Elements are small whole numbers as `f64`, so that sums are exact in any order and the comparison is bit by bit. A plan for smaller
//! types moves the same elements, in more bytes.

use crate::command::threads::{self, Trial};
use crate::error::{CliError, Result};
use polyshard::layout::DType;
use polyshard::machine::units::scaled;
use polyshard::ndarray::{ArrayD, Dimension};
use polyshard::planner::Sharded;
use polyshard::program::Array;
use polyshard::runtime::{DistArray, Element, Execute};
use polyshard::search::product::ProductPlan;

/// Limit on ranks: each is a thread.
const RANKS: usize = 64;
/// Limit on operations, which the comparison repeats one by one.
const FLOPS: f64 = 1e9;
/// Seeds of the factors, so that they differ.
const SEEDS: [u64; 2] = [1, 2];

/// Runs the best sequence of `plan` on one thread per rank.
///
/// # Errors
/// If there are too many ranks or operations or too little memory, or an element of the result is wrong.
pub(super) fn run(plan: &ProductPlan) -> Result<Trial> {
    let planned = plan.product();
    let mesh = planned.mesh();
    threads::check_ranks("the mesh", mesh.size(), RANKS)?;
    if planned.flops() > FLOPS {
        let [most, found] = [FLOPS, planned.flops()].map(|flops| scaled(flops, "FLOP"));
        let what = format!("`--run` checks {most} one by one, but the product has {found}");
        return Err(CliError::refused(what, "run a smaller one"));
    }
    let arrays = [planned.left(), planned.right(), planned.out()];
    let whole: u128 = arrays.iter().map(|array| elements(array) as u128).sum();
    let tiles = u128::from(plan.best().total().memory) / planned.dtype().size() as u128 * mesh.size() as u128;
    threads::check_memory("all arrays and the tiles of all ranks", (whole + tiles) * size_of::<f64>() as u128)?;
    let program = plan.best().program_in(DType::F64)?;
    let factors: Vec<ArrayD<f64>> = program.inputs().zip(SEEDS).map(factor).collect();
    let multiply = &program.nests().next().expect("a product multiplies").kernel;
    let answer = polyshard::runtime::reference(multiply, &factors.iter().collect::<Vec<_>>(), None)?;
    let found = polyshard::spmd(mesh.size(), |world| {
        let factors = program.inputs().zip(&factors);
        let factors = factors.map(|(array, whole)| DistArray::from_array(world, whole, &array.sharding));
        let factors = factors.collect::<Result<Vec<_>, _>>()?;
        let mut prepared = program.prepare(world)?;
        let before = world.bytes_received();
        let terms = prepared.run(&factors.iter().collect::<Vec<_>>())?;
        let received = world.bytes_received() - before;
        // Partial sums are added up for the comparison.
        let whole = terms.redistribute(world, &terms.sharding().closed())?;
        let wrong = threads::wrong(whole.block(), whole.sharding(), world.rank(), |index| answer[index]);
        Ok((wrong, received))
    })?;
    if let Some((rank, wrong)) = found.iter().enumerate().find_map(|(rank, (wrong, _))| Some((rank, wrong.as_ref()?))) {
        return Err(CliError::Bug { what: format!("the product on rank {rank} is wrong: {wrong}") });
    }
    Ok(Trial { tiles: found.len(), received_bytes: found.into_iter().map(|(_, received)| received).collect() })
}

/// The whole of a factor: numbers from -9 to 9.
fn factor((array, seed): (&Array, u64)) -> ArrayD<f64> {
    ArrayD::from_shape_fn(array.sharding.shape(), |index| i64::random(seed, index.slice()) as f64)
}

fn elements(array: &Sharded) -> usize {
    array.shape().iter().product()
}
