//! The form in which kernels are written to files: as the user wrote them, and checked again when they are read.

use crate::kernel::{Assign, Kernel, KernelSpec, Tensor};
use crate::kernel_error::KernelError;
use crate::number::Number;
use crate::value::Access;
use crate::value::Value;
use polyshard_layout::{DType, Name};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A kernel as stored in a file; checking it yields a [`Kernel`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelForm {
    name: Name,
    dtype: DType,
    inputs: Vec<Tensor>,
    output: Tensor,
    /// Stated ranges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ranges: Vec<RangeForm>,
    /// All indices with their extents, in files written before ranges could start anywhere.
    #[serde(default, skip_serializing)]
    vars: Vec<VarForm>,
    scalars: Vec<(Name, Number)>,
    target: Access,
    assign: Assign,
    value: Value,
}

/// `for name in start..end`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeForm {
    name: Name,
    start: i64,
    end: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VarForm {
    name: Name,
    extent: usize,
}

/// Why a file holds no kernel.
#[derive(Debug, thiserror::Error)]
enum FormError {
    #[error("kernel `{name}`: {error}")]
    Kernel { name: Name, error: Box<KernelError> },
    #[error("kernel `{name}`: `vars` gives index `{var}` the extent {given}, but it is {extent}; leave `vars` out")]
    Var { name: Name, var: Name, given: usize, extent: usize },
    #[error("kernel `{name}`: `vars` names index `{var}`, which no access has; leave `vars` out")]
    UnknownVar { name: Name, var: Name },
}

impl Serialize for Kernel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        KernelForm::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Kernel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        KernelForm::deserialize(deserializer)?.try_into().map_err(D::Error::custom)
    }
}

impl From<Kernel> for KernelForm {
    fn from(kernel: Kernel) -> Self {
        let stated = kernel.vars.iter().filter(|var| kernel.written.stated.contains(&var.name));
        // Bounds of a checked kernel are below 2^62.
        let range = |name, start: i64, extent: usize| RangeForm { name, start, end: start + extent as i64 };
        let ranges = stated.map(|var| range(var.name, var.start, var.extent)).collect();
        Self {
            name: kernel.name,
            dtype: kernel.dtype,
            inputs: kernel.inputs,
            output: kernel.output,
            ranges,
            vars: Vec::new(),
            scalars: kernel.scalars,
            target: kernel.written.target,
            assign: kernel.assign,
            value: kernel.written.value,
        }
    }
}

impl TryFrom<KernelForm> for Kernel {
    type Error = FormError;

    fn try_from(form: KernelForm) -> Result<Self, FormError> {
        let KernelForm { name, vars, .. } = form;
        let tensor = |tensor: Tensor| (tensor.name, tensor.shape.into_iter().map(|extent| extent as i128).collect());
        let mut ranges: Vec<_> =
            form.ranges.into_iter().map(|range| (range.name, range.start.into()..range.end.into())).collect();
        let accesses = form.value.accesses();
        let indices = accesses.iter().flat_map(|access| &access.index).chain(&form.target.index);
        let alone: Vec<_> = indices.filter_map(crate::Affine::as_variable).collect();
        for var in vars.iter().filter(|var| !alone.contains(&var.name)) {
            if ranges.iter().all(|range| range.0 != var.name) {
                ranges.push((var.name, 0..var.extent as i128));
            }
        }
        let spec = KernelSpec {
            name,
            dtype: form.dtype,
            inputs: form.inputs.into_iter().map(tensor).collect(),
            output: tensor(form.output),
            ranges,
            scalars: form.scalars,
            moduli: Vec::new(),
            target: form.target,
            assign: form.assign,
            value: form.value,
        };
        let kernel = spec.check().map_err(|error| FormError::Kernel { name, error: Box::new(error) })?;
        for VarForm { name: var, extent: given } in vars {
            match kernel.vars.iter().find(|other| other.name == var) {
                Some(found) if found.extent == given => {}
                Some(found) => return Err(FormError::Var { name, var, given, extent: found.extent }),
                None => return Err(FormError::UnknownVar { name, var }),
            }
        }
        Ok(kernel)
    }
}
