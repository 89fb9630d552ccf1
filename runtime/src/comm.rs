//! Communicators: what a group of ranks can do together.
//!
//! One trait, [`Communicator`], for threads of one process, which may be the devices of an emulated machine, and for MPI. Data are
//! bytes; typed callers cast. Counts are in bytes and may differ by rank; both sides of a message know its length.

#[cfg(feature = "mpi")]
pub mod mpi {
    //! The communicator on MPI.

    pub use polyshard_comm::mpi::MpiCommunicator;
}

pub use polyshard_comm::{
    Arrival, Broadcast, Carrier, Chain, CollectiveCall, Combining, Communicator, Error, Flight, Header, Lane, Layout,
    LayoutLevel, Located, Piece, Receive, Received, Result, Round, Rounds, Running, SharedMemory, Stranded,
    SumAlgorithm, Work, exchange_words,
};
pub(crate) use polyshard_comm::{
    CHUNK, Links, combine, combine_in_chunks, combine_terms, connect, connect_with, received_in_sum, sentence,
};
