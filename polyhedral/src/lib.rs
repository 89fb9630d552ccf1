//! Tensor kernels, schedules, and the polyhedral analysis that turns them into programs.

mod dtype;
mod kernel;
mod kernel_check;
mod kernel_error;
mod step;

pub use dtype::{DType, Number, ScalarType};
pub use kernel::{Access, Affine, Assign, IndexVar, Kernel, KernelSpec, Tensor, Value};
pub use kernel_error::KernelError;
pub use step::{Clause, Dim, LeafKind, Pattern, Step, Var, dim, pin};
