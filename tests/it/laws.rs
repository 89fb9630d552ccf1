//! What holds for whatever the ranks of a world are, of plans that are run: on threads, on emulated machines and under
//! `mpirun`.

mod emulated;
#[cfg(feature = "mpi")]
mod mpi;
mod plans;
mod products;
mod programs_of_reductions;
mod reductions;
mod refused;
mod threads;
