//! What holds for whatever the ranks of a world are: tests run it on threads, and examples on what `mpirun` starts.

pub mod comm;
pub mod nodes;
#[cfg(feature = "polyshard")]
pub mod product;
#[cfg(feature = "polyshard")]
pub mod program;
#[cfg(feature = "polyshard")]
pub mod reduce;
