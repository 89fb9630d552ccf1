//! Laws of plans that are run, for any ranks of a world: on threads, on emulated machines and under `mpirun`.

mod emulated;
#[cfg(feature = "mpi")]
mod mpi;
mod plans;
mod products;
mod programs_of_reductions;
mod reductions;
mod refused;
mod threads;
