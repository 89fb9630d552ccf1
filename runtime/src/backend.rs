//! The kinds of ranks.

/// The kind of ranks in a world.
///
/// ```
/// use polyshard::runtime::Backend;
/// // Not started by `mpirun`, so ranks are threads.
/// assert_eq!(polyshard::spmd(2, |world| Ok(world.backend()))?, [Backend::Threads; 2]);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Threads of this process.
    Threads,
    /// MPI processes.
    Mpi,
}
