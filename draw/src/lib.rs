//! Pictures of programs, plans, placements, reductions and measurements, as SVG.
//!
//! Each function takes the thing to draw and returns the text of a picture; nothing here reads or writes files, plans,
//! or runs.
//!
//! | function | draws |
//! | --- | --- |
//! | [`Draw::draw`] | a program: its arrays on the mesh, its transfers, and the bound |
//! | [`redistribution()`] | the data that each rank holds before and after each step of a plan |
//! | [`reduction()`] | which ranks communicate in each step |
//! | [`placements()`] | the groups of devices along each axis of a mesh |
//! | [`devices()`] | any groups of the devices of a machine, or of the ranks of a mesh |
//! | `chart`, with the feature of this name | times by size, measured and predicted |

#[cfg(feature = "chart")]
mod chart;
mod devices;
mod error;
mod placement;
mod program;
mod redistribution;
mod reduction;
mod shapes;
mod tiles;

#[cfg(feature = "chart")]
pub use chart::{Curve, Timing, chart};
pub use devices::{Panel, Talk, devices};
pub use error::DrawError;
pub use placement::placements;
pub use program::Draw;
pub use redistribution::redistribution;
pub use reduction::{reduction, reduction_panels};
