//! Laws that hold for any ranks of a world: tests run them on threads, and examples on the processes of `mpirun`.

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

/// Returns the number of ranks that a program of laws runs on: that of its argument `--ranks=`, or 4.
#[must_use]
pub fn ranks() -> usize {
    let mut asked = std::env::args().filter_map(|argument| argument.strip_prefix("--ranks=").map(String::from));
    match asked.next() {
        Some(ranks) => ranks.parse().unwrap_or_else(|_| panic!("`{ranks}` is not a number of ranks")),
        None => 4,
    }
}
