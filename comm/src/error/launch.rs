//! Errors of starting ranks.

use polyshard_layout::counted;

/// Why ranks cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum LaunchError {
    /// A rank calls `spmd`.
    #[error("`spmd` was called inside of `spmd`: a rank cannot start ranks, so move the call out of the closure")]
    Nested,
    /// `spmd` on 0 ranks.
    #[error("`spmd` was asked for 0 ranks: it takes at least 1")]
    NoRanks,
    /// The process cannot have that many threads.
    #[error(
        "{ranks} ranks cannot be threads of one process, which has at most {max} ({limit}): use a smaller mesh, or \
         processes, `mpirun -n {ranks}`"
    )]
    TooManyThreads { ranks: usize, max: usize, limit: &'static str },
    /// An MPI launcher started a process that was built without MPI.
    #[error(
        "the process was started by {launcher} (`{variable}` is set), but polyshard was built without MPI: build it with \
         the feature `mpi`, or start the program without a launcher"
    )]
    WithoutMpi {
        launcher: &'static str,
        /// The environment variable that identifies it.
        variable: &'static str,
    },
    /// An MPI launcher started a process that emulates a machine on threads.
    #[error(
        "the process was started by {launcher} (`{variable}` is set), but the ranks of an emulated machine are threads \
         of one process: start the program without a launcher"
    )]
    Emulated {
        launcher: &'static str,
        /// The environment variable that identifies it.
        variable: &'static str,
    },
    /// An emulated machine cannot be slowed by the factor.
    #[error("a machine cannot be slowed by a factor of {factor}: give one that is more than 0, such as 1")]
    Slowdown { factor: String },
    /// MPI sees another number of processes than the launcher started.
    #[error(
        "{launcher} started {started} processes, but MPI sees {size}: the launcher and the MPI library that the program \
         is linked with must belong together"
    )]
    OtherMpi { launcher: &'static str, started: usize, size: usize },
    /// The program is for more or fewer ranks than there are MPI processes.
    #[error("the program is for {}, but runs on {size}: start it with `mpirun -n {ranks}`", counted(*.ranks, "rank"))]
    Processes { ranks: usize, size: usize },
    /// Another thread of the process uses MPI.
    #[error("MPI belongs to the thread that used it first: call `spmd` on that thread")]
    OtherThread,
    /// MPI has been finalised.
    #[error("MPI has been finalised: call `spmd` before `MPI_Finalize`")]
    Finalized,
    /// A variable of the environment has an invalid value.
    #[error("`{name}` is `{value}`: set it to {expected}")]
    Variable { name: &'static str, value: Box<str>, expected: Box<str> },
    /// The system refuses to start a progress thread.
    #[error("cannot start a progress thread: {why}; use fewer ranks, or set `POLYSHARD_PROGRESS=slices`")]
    ProgressThread { why: String },
    /// A progress thread needs `MPI_THREAD_SERIALIZED`.
    #[error(
        "a progress thread calls MPI while the rank computes, but MPI was initialised for one thread only: initialise \
         it with MPI_THREAD_SERIALIZED or more, leave that to polyshard, or set `POLYSHARD_PROGRESS=slices`"
    )]
    ThreadLevel,
}
