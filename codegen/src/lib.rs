//! From a program to Rust source, and from a program to execution.
//!
//! Both back ends are plain recursion over a [`Program`](polyshard_polyhedral::Program) and make the same
//! calls of the runtime in the same order, so they give the same bits. Neither analyses anything: what a
//! program does not say is not done. A [`Pipeline`] runs several programs in sequence, and redistributes what
//! they hand to one another.

#[cfg(feature = "execute")]
mod execute;
#[cfg(feature = "execute")]
pub mod pipeline;
#[cfg(feature = "execute")]
mod reference;
mod source;

#[cfg(feature = "execute")]
pub use execute::{Execute, TypedProgram};
#[cfg(feature = "execute")]
pub use pipeline::{Pipeline, PipelineError};
#[cfg(feature = "execute")]
pub use reference::reference;
pub use source::{SourceOptions, rust_source, scalar_parameters};
