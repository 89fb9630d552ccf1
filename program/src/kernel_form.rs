//! The form in which kernels are written to files: as the user wrote them, and checked again when they are read.

use crate::kernel::{Assign, Kernel, KernelSpec, Tensor};
use crate::number::Number;
use crate::value::Access;
use crate::value::Value;
use polyshard_layout::{DType, Name};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Range;

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
    fn from(Kernel { spec, inputs, output, .. }: Kernel) -> Self {
        let KernelSpec { name, dtype, ranges, scalars, target, assign, value, .. } = spec;
        // Bounds of a checked kernel are below 2^62.
        let range = |(name, Range { start, end })| RangeForm { name, start: start as i64, end: end as i64 };
        let ranges = ranges.into_iter().map(range).collect();
        Self { name, dtype, inputs, output, ranges, scalars, target, assign, value }
    }
}

impl TryFrom<KernelForm> for Kernel {
    type Error = String;

    fn try_from(form: KernelForm) -> Result<Self, String> {
        let KernelForm { name, dtype, inputs, output, ranges, scalars, target, assign, value } = form;
        let tensor = |tensor: Tensor| (tensor.name, tensor.shape.into_iter().map(|extent| extent as i128).collect());
        let spec = KernelSpec {
            name,
            dtype,
            inputs: inputs.into_iter().map(tensor).collect(),
            output: tensor(output),
            ranges: ranges.into_iter().map(|range| (range.name, range.start.into()..range.end.into())).collect(),
            scalars,
            moduli: Vec::new(),
            target,
            assign,
            value,
        };
        spec.check().map_err(|error| format!("kernel `{name}`: {error}"))
    }
}
