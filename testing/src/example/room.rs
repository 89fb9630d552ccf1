//! Memory for a run, looked at before it begins: Linux gives what it does not have, and ends the program later.

use super::launch::failure;
use polyshard::machine::units;
use polyshard::runtime::free_memory;
use polyshard::{Backend, DType, World};

/// Checks that so many bytes on each rank, and so many more for the check on the first, fit the memory that is free;
/// collective.
///
/// Ranks that are processes may be on machines of their own, so each is asked for its own.
///
/// # Errors
/// If they do not.
pub fn check_room(world: &World, rank: u128, checking: u128) -> polyshard::Result<()> {
    let (ranks, whose) = match world.backend() {
        Backend::Threads => (world.size() as u128, "all ranks together hold"),
        Backend::Mpi => (1, "a rank holds"),
    };
    let checking = if world.is_root() { checking } else { 0 };
    let needed = rank.saturating_mul(ranks);
    match free_memory() {
        // Threads share what is free, so one of them asks for all.
        Some(free) if needed.saturating_add(checking) > free.into() && (ranks == 1 || world.is_root()) => {
            let check = match checking {
                0 => String::new(),
                bytes => format!(", and the check takes {} more (`--no-check` omits it)", units::bytes(bytes)),
            };
            let [held, free] = [needed, free.into()].map(units::bytes);
            let message = format!("{whose} up to {held}{check}, but {free} of memory are free; run a smaller size");
            Err(failure(message))
        }
        // Nobody makes arrays before all have looked.
        _ => Ok(world.comm().barrier()?),
    }
}

/// Returns the bytes of an array of `T`; too many to count are the most that there are.
pub fn bytes_of<T>(shape: &[usize]) -> u128 {
    saturating(size_of::<T>(), shape)
}

/// As [`bytes_of`], of an element type that is a value.
pub fn bytes(dtype: DType, shape: &[usize]) -> u128 {
    saturating(dtype.size(), shape)
}

fn saturating(element: usize, shape: &[usize]) -> u128 {
    shape.iter().fold(element as u128, |bytes, &extent| bytes.saturating_mul(extent as u128))
}
