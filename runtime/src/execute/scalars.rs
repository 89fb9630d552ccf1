//! The values that a run is given for the scalars of its kernels.

use crate::{Element, Error, Result, RunError};
use polyshard_layout::Name;
use polyshard_program::{Kernel, KernelError, Number, Program};

/// Scalars by name, each of some kernel of a program.
pub(super) struct Scalars(Vec<(Name, Number)>);

impl Scalars {
    /// Checks the values of a run.
    pub(super) fn new<T: Element>(program: &Program, values: &[(&str, T)]) -> Result<Self> {
        let values: Vec<_> = values.iter().map(|&(name, value)| (Name::new(name), value.number())).collect();
        let known = |name: Name| program.nests().any(|nest| has(&nest.kernel, name));
        let scalars = Self(values);
        // A name that no kernel has is refused by any of them, with the names that it has.
        let unknown: Vec<_> = scalars.0.iter().copied().filter(|value| !known(value.0)).collect();
        match (program.nests().next(), &unknown[..]) {
            (_, []) => Ok(scalars),
            (Some(nest), unknown) => nest.kernel.with_scalars(unknown).map(|_| scalars).map_err(refused),
            (None, &[(name, _), ..]) => Err(RunError::NoKernel { name }.into()),
        }
    }

    /// The kernel with the values that are for it; none if it keeps those that it has.
    pub(super) fn put_into(&self, kernel: &Kernel) -> Result<Option<Kernel>> {
        let values: Vec<_> = self.0.iter().copied().filter(|value| has(kernel, value.0)).collect();
        if values.is_empty() {
            return Ok(None);
        }
        kernel.with_scalars(&values).map(Some).map_err(refused)
    }
}

fn refused(error: KernelError) -> Error {
    RunError::Scalars(Box::new(error)).into()
}

fn has(kernel: &Kernel, name: Name) -> bool {
    kernel.scalars().iter().any(|scalar| scalar.0 == name)
}
