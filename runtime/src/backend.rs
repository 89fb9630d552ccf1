//! What ranks are.

/// What the ranks of a world are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Threads of this process.
    Threads,
    /// MPI processes.
    Mpi,
}
