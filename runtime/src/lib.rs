//! The library that a running Polyshard program links: communicators, distributed arrays, tiles, leaf kernels.
//!
//! It knows nothing of schedules or isl: a program states which region of which array to move along which axes, and its maker has proved
//! that all ranks state the same. Programs are executed directly ([`Execute`]), or emitted as Rust that makes the same calls.
//!
//! Communicators, leaves and memory are crates of their own, whose items users find here.
//!
//! | module | holds |
//! | --- | --- |
//! | `spmd`, `emulate`, `world`, `grid`, `groups`, `backend` | ranks: how they start, and how each sees the others |
//! | `comm`, `collectives`, `exchange`, `reduce`, `publish` | communication, from messages to legs |
//! | `engine`, `emitted` | what runs of kernels need, and their transfers; all that emitted source names |
//! | `array`, `block`, `npy`, `output`, `sample` | arrays, their blocks, and files |
//! | `redistribute`, `subarray`, `transport` | arrays from one sharding to another |
//! | `tile`, `shared_inputs`, `shared_tiles` | the data that a step reads and writes, fetched or in place |
//! | `leaf`, `instances` | the computation of a rank |
//! | `execute`, `reference` | programs executed directly, and their sequential meaning |
//! | `room`, `error` | memory for intermediate arrays, and errors |

mod array;
mod backend;
mod block;
mod collectives;
pub mod comm;
pub mod emitted;
mod emulate;
pub mod engine;
mod error;
mod exchange;
mod execute;
mod grid;
mod groups;
mod instances;
pub mod leaf;
mod npy;
mod output;
mod publish;
mod redistribute;
mod reduce;
mod reference;
mod room;
#[cfg(test)]
mod sample;
mod shared_inputs;
mod shared_tiles;
mod spmd;
mod subarray;
mod tile;
mod transport;
mod world;

pub use array::{CompleteNpy, DistArray};
pub use backend::Backend;
pub use collectives::Collectives;
pub use emulate::{spmd_emulated, spmd_emulated_shaken};
pub(crate) use error::at_caller;
pub use error::{
    ArrayError, CommError, DetectError, Error, FileError, FileErrorKind, GroupError, LaunchError, LeafError,
    RedistributionError, ReductionRunError, Result, RunError, WrongElement,
};
pub use execute::{Execute, Prepared, TypedProgram};
pub(crate) use grid::Grid;
pub use grid::count;
pub use npy::{NpyFile, npy_header, wider};
pub use output::{CompleteFile, Output, OutputFile, remove_partial_files};
pub use polyshard_comm::Progress;
pub(crate) use polyshard_comm::{PollHandle, Polled};
pub use polyshard_layout as layout;
pub use polyshard_layout::{DType, ReduceOp};
pub use polyshard_leaf::{Element, Region, Strided, StridedMut, View, ViewMut};
use polyshard_leaf::{region, view};
use polyshard_memory as memory;
pub use polyshard_memory::{MemoryError, Segment, free_memory};
pub use polyshard_program::{Leg, Owners, Packing, Route, reduction};
pub(crate) use shared_inputs::{InputTable, Shards, SharedInputs};

pub use redistribute::Redistribution;
pub use reduce::Reduction;
pub use reference::reference;
pub use room::Room;
pub use spmd::{exit, launched_rank, launched_ranks, spmd, spmd_checked};
pub use transport::Transport;
pub use world::{Group, Numbering, World};
