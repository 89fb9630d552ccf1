//! Meshes and shardings: which rank owns which element of an array.
//!
//! Plain arithmetic that every other crate shares: the analysis turns a [`Sharding`] into a
//! relation, the runtime into local blocks, the planner into distributed types. It knows neither isl
//! nor MPI, and it never enumerates ranks or elements.
//!
//! | word | meaning |
//! | --- | --- |
//! | rank | a process, `0..mesh.size()`; row-major over the mesh, the last axis fastest |
//! | coordinate | position of a rank along one axis, `0..extent` |
//! | digit | number of the block that holds an index of one dimension, see [`DimLayout`] |
//! | shard | the elements that one rank owns |

mod axis;
mod congruence;
mod mesh;
mod name;
mod reach;
mod sharding;
mod solve;
mod sums;

pub use axis::{Axis, AxisExpr};
pub use mesh::{Mesh, MeshAxis, MeshError, ProductError};
pub use name::Name;
pub use reach::Reach;
pub use sharding::{DimLayout, Placement, Sharding, ShardingError};
pub use solve::{AxisSource, LinearAxes};
pub use sums::SumKind;
