//! What a running Polyshard program links: communicators, distributed arrays, tiles, leaf kernels.
//!
//! It knows nothing of kernels, schedules or isl: the program that calls it says which region of which
//! array to move along which axes, and the analysis has proved that all ranks say the same.

pub mod comm;
mod element;
mod error;
pub mod leaf;
mod region;
mod spmd;
mod view;
mod world;

pub use element::{Element, ElementKind, ReduceOp};
pub use error::{Error, Result};
pub use polyshard_layout as layout;
pub use region::Region;
pub use spmd::spmd;
pub use view::{Strided, StridedMut, View, ViewMut};
pub use world::{Backend, Group, World};
