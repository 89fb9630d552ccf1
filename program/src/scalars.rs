//! Scalars of a checked kernel with other values.

use crate::kernel::{Kernel, KernelSpec};
use crate::kernel_error::KernelError;
use crate::number::Number;
use polyshard_layout::Name;

impl Kernel {
    /// Returns the kernel with other values for some of its scalars. No schedule depends on them, so a program of this
    /// kernel is one of the other.
    ///
    /// # Errors
    /// [`NoScalar`](KernelError::NoScalar) if there is no such scalar, [`ScalarTwice`](KernelError::ScalarTwice) if one is
    /// given twice, and the errors of [`KernelSpec::check`] for a value that the scalar could not have had from the start:
    /// a float in a kernel over integers, a divisor that becomes the integer 0.
    pub fn with_scalars(&self, values: &[(Name, Number)]) -> Result<Self, KernelError> {
        let mut scalars = self.scalars.clone();
        for (position, &(name, value)) in values.iter().enumerate() {
            if values[..position].iter().any(|earlier| earlier.0 == name) {
                return Err(KernelError::ScalarTwice { name });
            }
            let Some(scalar) = scalars.iter_mut().find(|scalar| scalar.0 == name) else {
                let names: Vec<_> = self.scalars.iter().map(|scalar| scalar.0.as_str()).collect();
                let scalars = if names.is_empty() {
                    format!("`{}` captures none", self.name)
                } else {
                    format!("the scalars of `{}` are {}", self.name, names.join(", "))
                };
                return Err(KernelError::NoScalar { name, scalars });
            };
            scalar.1 = value;
        }
        KernelSpec { scalars, ..self.spec() }.check()
    }

    /// Returns the kernel as it was before it was checked, to be changed and checked again.
    ///
    /// ```
    /// use polyshard::text::parse_kernel;
    /// let kernel = parse_kernel("fn twice(A: [f32; 4]) -> B: [f32; 4] { B[i] = 2.0 * A[i] }")?.check()?;
    /// assert_eq!(kernel.spec().check()?, kernel);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn spec(&self) -> KernelSpec {
        let extents = |shape: &[usize]| shape.iter().map(|&extent| extent as i128).collect();
        let stated = self.vars.iter().filter(|var| self.written.stated.contains(&var.name));
        let range = |start: i128, extent: usize| start..start + extent as i128;
        KernelSpec {
            name: self.name,
            dtype: self.dtype,
            inputs: self.inputs.iter().map(|tensor| (tensor.name, extents(&tensor.shape))).collect(),
            output: (self.output.name, extents(&self.output.shape)),
            ranges: stated.map(|var| (var.name, range(var.start.into(), var.extent))).collect(),
            scalars: self.scalars.clone(),
            moduli: Vec::new(),
            target: self.written.target.clone(),
            assign: self.assign,
            value: self.written.value.clone(),
        }
    }
}
