//! Scalars of a checked kernel with other values.

use crate::kernel::{Kernel, KernelSpec};
use crate::kernel_error::KernelError;
use crate::number::Number;
use polyshard_layout::{Name, joined};

impl Kernel {
    /// Returns the kernel with other values for some of its scalars. No schedule depends on them, so a program of this
    /// kernel is one of the other.
    ///
    /// # Errors
    /// [`NoScalar`](KernelError::NoScalar) if there is no such scalar, [`ScalarTwice`](KernelError::ScalarTwice) if one is
    /// given twice, and the errors of [`KernelSpec::check`] for a value that the scalar could not have had from the start:
    /// a float in a kernel over integers, a divisor that becomes the integer 0.
    pub fn with_scalars(&self, values: &[(Name, Number)]) -> Result<Self, KernelError> {
        let mut scalars = self.spec.scalars.clone();
        for (position, &(name, value)) in values.iter().enumerate() {
            if values[..position].iter().any(|earlier| earlier.0 == name) {
                return Err(KernelError::ScalarTwice { name });
            }
            let Some(scalar) = scalars.iter_mut().find(|scalar| scalar.0 == name) else {
                let names = joined(self.scalars().iter().map(|scalar| scalar.0), ", ");
                let scalars = match names.is_empty() {
                    true => format!("`{}` captures none", self.name()),
                    false => format!("the scalars of `{}` are {names}", self.name()),
                };
                return Err(KernelError::NoScalar { name, scalars });
            };
            scalar.1 = value;
        }
        KernelSpec { scalars, ..self.spec.clone() }.check()
    }
}
