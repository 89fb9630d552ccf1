//! Tensor kernels, schedules, and the polyhedral analysis that turns them into programs.
//!
//! Data flow: a [`KernelSpec`](polyshard_program::KernelSpec) is checked into a [`Kernel`](polyshard_program::Kernel); a [`Schedule`] adds
//! steps to it, each checked as it is added; [`Schedule::lower`] derives the communication, proves it with isl and returns a
//! [`Program`](polyshard_program::Program), which is plain data. Nothing here knows MPI, arrays or how code is printed.
//!
//! | word | meaning |
//! | --- | --- |
//! | instance | one execution of the kernel's statement, for one value of every index variable |
//! | loop | one dimension of the schedule: distributed over a mesh axis, serial, or inside the leaf |
//! | step | one schedule method |
//! | region | a box of a tensor that one iteration touches |
//! | transfer | one `communicate` made concrete: a region and its route |
//! | route | how a region gets to its reader; its name is the pattern |
//! | leaf | the operation inside a tensorized nest |
//! | home | the sharding before the program starts |
//!
//! | module | holds |
//! | --- | --- |
//! | `schedule`, `state`, `nest`, `named`, `bounds`, `error` | steps, each checked as it is added |
//! | `lower`, `context`, `legal`, `leaf` | the passes of lowering, and checks of the whole schedule |
//! | `range`, `region`, `source`, `reach`, `flow`, `interior` | closed forms: regions, their owners, how far away they are |
//! | `isl`, `conditions`, `relation`, `sampled`, `written`, `proofs` | relations, which decide, and their proofs |
//! | `input`, `output`, `need`, `classify`, `compose` | routes of inputs and outputs: the cheapest pattern that can be proved |
//! | `ahead`, `applications`, `time_steps`, `planned`, `periodic`, `products` | transfers ahead, several time steps, indices that wrap, several operands |
//! | `sequence`, `passes` | kernels of files and blocks, put together in their rounds, and those that run together |
//! | `hints` | hints on parts that are likely slow |

mod ahead;
mod applications;
mod bounds;
mod classify;
mod compose;
mod conditions;
mod context;
mod error;
mod flow;
mod hints;
mod input;
mod interior;
mod isl;
mod leaf;
mod legal;
mod lower;
mod named;
mod need;
mod nest;
mod output;
mod passes;
mod periodic;
mod planned;
mod products;
mod proofs;
mod range;
mod reach;
mod region;
mod relation;
mod sampled;
mod schedule;
mod sequence;
mod source;
mod state;
mod time_steps;
mod written;

pub use error::{ErrorKind, LowerError};
pub use passes::{Member, PANEL, Passes, Refused};
pub use schedule::block::Block;
pub use schedule::{OneKernel, Schedule, Subject, Trace};
pub use sequence::in_rounds;
