//! Communicators, and long pieces.

mod comm_checked;
mod comm_emulated;
mod comm_failures;
#[cfg(feature = "mpi")]
mod comm_mpi;
mod comm_polls;
mod comm_threads;
#[cfg(feature = "mpi")]
mod comm_waits;
mod long_pieces;
#[cfg(feature = "mpi")]
mod nodes;
