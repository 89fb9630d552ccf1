//! A plan run on threads, and every element that it brought compared with its global index.

use crate::command::threads::{self, Trial};
use crate::error::{CliError, Result};
use crate::with_type;
use polyshard::{DType, DistArray, Element, Execute, Plan};

/// The most ranks: each is a thread.
const RANKS: usize = 256;

/// Runs `plan` on one thread per rank, on an array of elements that say where they belong.
///
/// # Errors
/// If there are too many ranks or too little memory, an element of a tile is wrong, or a rank received another number of bytes than the plan says.
pub(crate) fn run(plan: &Plan, dtype: DType) -> Result<Trial> {
    threads::check_ranks("the mesh", plan.source().mesh().size(), RANKS)?;
    check_memory(plan, dtype)?;
    with_type!(dtype, T => run_on::<T>(plan))
}

/// What one rank found.
struct Found {
    /// The first wrong element of its tile: the index, what is there and what should be.
    wrong: Option<String>,
    received: u64,
}

fn run_on<T: Element>(plan: &Plan) -> Result<Trial> {
    let shape = plan.source().shape();
    let program = plan.program("A", T::DTYPE);
    let found = polyshard::spmd(plan.source().mesh().size(), |world| {
        let source = DistArray::from_fn(world, program.sharding("A"), |index| element::<T>(index, &shape))?;
        let mut prepared = program.prepare(world)?;
        let before = world.bytes_received();
        let tile = prepared.run(&[&source])?;
        let received = world.bytes_received() - before;
        let expected = |index: &[usize]| element::<T>(index, &shape);
        Ok(Found { wrong: threads::wrong(tile.block(), tile.sharding(), world.rank(), expected), received })
    })?;
    for (rank, Found { wrong, received }) in found.iter().enumerate() {
        if let Some(wrong) = wrong {
            return Err(CliError::Bug { what: format!("the tile of rank {rank} is wrong: {wrong}") });
        }
        let planned = plan.received(rank) as u64 * size_of::<T>() as u64;
        if *received != planned {
            let what = format!("rank {rank} received {received} bytes, but the plan says {planned}");
            return Err(CliError::Bug { what });
        }
    }
    Ok(Trial { tiles: found.len(), received_bytes: found.into_iter().map(|found| found.received).collect() })
}

/// Returns the number of the element, row-major, modulo a prime below 2^24 that every element type holds exactly.
fn element<T: Element>(index: &[usize], shape: &[usize]) -> T {
    let number = index.iter().zip(shape).fold(0, |number, (&i, &extent)| number * extent + i);
    T::from(number % 16_777_213).expect("the number is exact in each type")
}

/// Checks that the tiles of all ranks fit into the memory that is free, as far as the system tells.
fn check_memory(plan: &Plan, dtype: DType) -> Result<()> {
    // Input, output, and at most two tiles on the way.
    let elements = [plan.source().tile_len(), plan.target().tile_len(), plan.peak(), plan.peak()];
    let elements: u128 = elements.iter().map(|&elements| elements as u128).sum();
    let needed = elements * plan.source().mesh().size() as u128 * dtype.size() as u128;
    threads::check_memory("the tiles of all ranks", needed)
}
