//! What holds for whatever the ranks of a world are: tests run it on threads, and examples on what `mpirun` starts.

pub mod comm;
#[cfg(feature = "polyshard")]
pub mod large;
pub mod memory;
pub mod nodes;
#[cfg(feature = "polyshard")]
pub mod product;
#[cfg(feature = "polyshard")]
pub mod program;
#[cfg(feature = "polyshard")]
pub mod reduce;

/// Returns the ranks that a program of laws runs on: those of its argument `--ranks=`, or 4.
#[must_use]
pub fn ranks() -> usize {
    let mut asked = std::env::args().filter_map(|argument| argument.strip_prefix("--ranks=").map(String::from));
    match asked.next() {
        Some(ranks) => ranks.parse().unwrap_or_else(|_| panic!("`{ranks}` is not a number of ranks")),
        None => 4,
    }
}
