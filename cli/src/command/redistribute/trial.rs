//! Runs a plan on threads, and compares every element with its global index.

use crate::command::threads::{self, Trial};
use crate::error::{CliError, Result};
use crate::with_type;
use polyshard::program::Program;
use polyshard::runtime::{DistArray, Element, Execute};
use std::ops::RangeInclusive;

/// Limit on ranks: each is a thread.
const RANKS: usize = 256;

/// Runs a program on one thread per rank, on an array whose elements are their global indices. Each rank holds up to `elements` elements,
/// and must receive a number of bytes in `planned` of the rank.
///
/// # Errors
/// If there are too many ranks or too little memory, an element of a tile is wrong, or a rank received more or less than planned.
pub(crate) fn run(program: &Program, elements: u128, planned: impl Fn(usize) -> RangeInclusive<u64>) -> Result<Trial> {
    let (ranks, dtype) = (program.mesh().size(), program.dtype());
    threads::check_ranks("the mesh", ranks, RANKS)?;
    threads::check_memory("the tiles of all ranks", elements * ranks as u128 * dtype.size() as u128)?;
    with_type!(dtype, T => run_on::<T>(program, planned))
}

/// The outcome on one rank.
struct Found {
    /// The first wrong element of its tile: its position and value, and the right value.
    wrong: Option<String>,
    received: u64,
}

fn run_on<T: Element>(program: &Program, planned: impl Fn(usize) -> RangeInclusive<u64>) -> Result<Trial> {
    let shape = program.sharding("A").shape();
    let found = polyshard::spmd(program.mesh().size(), |world| {
        let source = DistArray::from_fn(world, program.sharding("A"), |index| element::<T>(index, shape))?;
        let mut prepared = program.prepare(world)?;
        let before = world.bytes_received();
        let tile = prepared.run(&[&source])?;
        let received = world.bytes_received() - before;
        // What follows has the room of the buffers of the run.
        drop(prepared);
        let expected = DistArray::from_fn(world, tile.sharding(), |index| element::<T>(index, shape))?;
        Ok(Found { wrong: threads::wrong(tile.block(), expected.block()), received })
    })?;
    for (rank, Found { wrong, received }) in found.iter().enumerate() {
        if let Some(wrong) = wrong {
            return Err(CliError::Bug { what: format!("the tile of rank {rank} is wrong: {wrong}") });
        }
        let planned = planned(rank);
        if !planned.contains(received) {
            let what = format!("rank {rank} received {received} bytes, but the plan says {}", planned.end());
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
