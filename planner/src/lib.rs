//! Plans over meshes of ranks: how an array gets from one distribution to another, and what it costs.
//!
//! Everything here is arithmetic over types: [`DistType`] says how an array lies, [`Plan`] how it gets from one
//! to another. Nothing here moves data; the runtime runs plans. It knows neither isl nor MPI, and the work to
//! find a plan depends on the prime factors of a mesh, not on its ranks.
//!
//! What any program costs on a machine, [`cost()`] says, and [`OnMachine::on`] how its collectives are carried out there.
//! On machines whose links are not all alike, [`polyshard_machine`] says how long collectives take, [`placement`] which
//! rank of a mesh should be which device, and [`reduce`] of which steps a reduction should be.
//!
//! | module | holds |
//! | --- | --- |
//! | `types`, `part`, `parse`, `convert`, `named`, `factor`, `error` | distributed types: data, text, from and to shardings |
//! | `redistribute` | plans from one type to another |
//! | `sequence` | kernels in sequence |
//! | `cost` | what a program costs on a machine |
//! | `placement`, `reduce`, `stages` | which rank is which device, and by which steps sums meet there |

mod convert;
pub mod cost;
mod error;
mod factor;
mod named;
mod parse;
mod part;
pub mod placement;
mod redistribute;
pub mod reduce;
mod sequence;
mod stages;
mod types;

pub use cost::{cost, cost_on};
pub use error::{PlanError, TypeError};
pub use named::{Sharded, subscript};
pub use part::AxisPart;
pub use polyshard_layout::Collective;
pub use redistribute::{
    Cost, CostModel, MemoryBound, Ops, Plan, PlanOptions, PlanStep, Report, StepReport, redistribution,
    redistribution_with,
};
pub use sequence::{Sequence, SequenceError};
pub use stages::OnMachine;
pub use types::{DistDim, DistType};
