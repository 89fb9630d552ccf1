//! Plans over meshes of ranks: how to redistribute an array, and at what cost.
//!
//! Everything here is arithmetic over types: [`DistType`] describes how an array is distributed, [`Plan`] how it is
//! redistributed. Nothing here moves data; the runtime runs plans. The crate knows neither isl nor MPI, and the work to
//! find a plan depends on the prime factors of a mesh, not on its ranks.
//!
//! [`cost()`] returns the cost of any program on a machine, and [`OnMachine::on`] chooses how its collectives are
//! carried out there. For machines whose links differ, [`polyshard_machine`] computes how long collectives take,
//! [`placement`] which rank of a mesh should be which device, and [`reduce`] the steps of a reduction.
//!
//! | module | holds |
//! | --- | --- |
//! | `types`, `part`, `parse`, `convert`, `factor`, `error` | distributed types: data, text, from and to shardings |
//! | `redistribute` | plans from one type to another |
//! | `sequence` | kernels in sequence |
//! | `cost` | the cost of a program on a machine |
//! | `placement`, `reduce`, `stages` | which rank is which device, and the steps of sums there |

mod convert;
pub mod cost;
mod error;
mod factor;
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
#[doc(hidden)]
pub use parse::Scanner;
pub use part::AxisPart;
pub use polyshard_layout::Collective;
pub use redistribute::{
    Cost, CostModel, MemoryBound, Ops, Plan, PlanOptions, PlanStep, Report, StepReport, redistribution,
    redistribution_with,
};
pub use sequence::{Sequence, SequenceError};
pub use stages::OnMachine;
pub use types::{DistDim, DistType};
