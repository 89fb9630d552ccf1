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
//! | level | one way of dividing a dimension, or the blocks of the level before, see [`DimLayout`] |
//! | digit | number of the block that holds an index at one level of one dimension |
//! | shard | the elements that one rank owns |
//!
//! | module | holds |
//! | --- | --- |
//! | `mesh`, `axis`, `axis_part`, `linear`, `refinement` | meshes, axes, digits of them and expressions over them |
//! | `sharding`, `placement`, `dim`, `along`, `solve`, `congruence`, `source`, `reach` | shardings: as written, per dimension, and who owns what |
//! | `collective`, `stages`, `sums` | what groups of ranks do, and in which order |
//! | `dtype`, `reduce_op`, `mix` | element types, how elements are combined, and numbers that look random |
//! | `name`, `nearest`, `message`, `words` | names, errors, and numbers and lists in sentences |

mod along;
mod axis;
mod axis_part;
mod collective;
mod congruence;
mod dim;
mod dtype;
mod linear;
mod mesh;
mod message;
mod mix;
mod name;
mod nearest;
mod placement;
mod reach;
mod reduce_op;
mod refinement;
mod sharding;
mod solve;
mod source;
mod stages;
mod sums;
mod words;

pub use along::{Along, ends_of_walk};
pub use axis::{Axis, Axis as MeshAxis, AxisExpr};
pub use axis_part::AxisPart;
pub use collective::Collective;
pub use dim::{Digit, DimLayout, LevelLayout, Owned};
pub use dtype::{DType, NotNative, UnknownDType};
pub use linear::LinearAxes;
#[doc(hidden)]
pub use linear::nearest_to_0;
pub use mesh::{Mesh, MeshError};
#[doc(hidden)]
pub use message::split_message;
#[doc(hidden)]
pub use mix::mix;
pub use name::Name;
pub use nearest::{did_you_mean, nearest};
#[doc(hidden)]
pub use num_integer::gcd;
pub use placement::{Division, Placement};
pub use reach::{Neighbours, Reach, Stencil};
pub use reduce_op::{Combine, Record, Records, ReduceOp};
pub use sharding::{Sharding, ShardingError, SumsError};
pub use source::AxisSource;
pub use stages::{Stages, StagesError};
pub use sums::{SumAlgorithm, SumKind};
pub use words::{are, counted, each_once, in_order, joined, signed_sum};
