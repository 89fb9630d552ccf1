//! From what was written to a kernel: names resolved, extents inferred, bounds proved.

use crate::dtype::{DType, Number};
use crate::kernel::{Access, Affine, IndexVar, Kernel, KernelSpec, Tensor, Value};
use crate::kernel_error::KernelError;
use crate::periodic;
use polyshard_layout::Name;

pub(crate) fn check(mut spec: KernelSpec) -> Result<Kernel, KernelError> {
    periodic::resolve(&mut spec)?;
    let inputs = spec.inputs.iter().map(|t| tensor(t, spec.dtype)).collect::<Result<Vec<_>, _>>()?;
    let output = tensor(&spec.output, spec.dtype)?;
    distinct_names(&spec)?;
    if spec.target.tensor != output.name {
        return Err(KernelError::NotTheOutput { name: spec.target.tensor, output: output.name });
    }
    index_count(&spec.target, &output)?;
    for access in spec.value.accesses() {
        if access.tensor == output.name {
            return Err(KernelError::OutputRead { name: output.name });
        }
        let Some(tensor) = inputs.iter().find(|tensor| tensor.name == access.tensor) else {
            let tensors: Vec<_> = inputs.iter().map(|tensor| tensor.name.as_str()).collect();
            return Err(KernelError::UnknownTensor { name: access.tensor, tensors: tensors.join(", ") });
        };
        index_count(access, tensor)?;
    }
    let vars = extents(&spec, &inputs, &output)?;
    numbers(&spec.value, &spec)?;
    let space: Vec<_> = vars.iter().map(|var| var.extent as i128).collect();
    fits("the index variables", &space, 1)?;
    let kernel = Kernel {
        name: spec.name,
        dtype: spec.dtype,
        inputs,
        output,
        vars,
        scalars: spec.scalars,
        target: spec.target,
        assign: spec.assign,
        value: spec.value,
    };
    periodic::check(&kernel)?;
    if space.iter().all(|&extent| extent > 0) {
        in_bounds(&kernel)?;
    }
    Ok(kernel)
}

fn tensor((name, extents): &(Name, Vec<i128>), dtype: DType) -> Result<Tensor, KernelError> {
    for (dim, &extent) in extents.iter().enumerate() {
        if extent < 0 {
            return Err(KernelError::NegativeExtent { tensor: *name, dim, extent });
        }
    }
    fits(&format!("`{name}`"), extents, dtype.size())?;
    Ok(Tensor { name: *name, shape: extents.iter().map(|&extent| extent as usize).collect() })
}

/// A zero extent does not excuse the others: with it, strides and counts would still overflow.
fn fits(what: &str, extents: &[i128], size: usize) -> Result<(), KernelError> {
    let product = extents.iter().try_fold(size as i128, |product, &extent| product.checked_mul(extent.max(1)));
    if product.is_some_and(|product| product <= i128::from(i64::MAX)) {
        return Ok(());
    }
    let mut factors: Vec<_> = extents.iter().map(i128::to_string).collect();
    if size > 1 {
        factors.push(format!("{size} bytes"));
    }
    Err(KernelError::TooLarge { what: what.into(), product: factors.join(" * ") })
}

fn distinct_names(spec: &KernelSpec) -> Result<(), KernelError> {
    let inputs = spec.inputs.iter().map(|input| input.0);
    let all: Vec<_> = inputs.chain([spec.output.0]).chain(spec.scalars.iter().map(|scalar| scalar.0)).collect();
    let ranges: Vec<_> = spec.ranges.iter().map(|range| range.0).collect();
    for names in [all, ranges] {
        if let Some((_, &name)) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
            return Err(KernelError::NameTwice { name });
        }
    }
    Ok(())
}

fn index_count(access: &Access, tensor: &Tensor) -> Result<(), KernelError> {
    if access.index.len() == tensor.ndim() {
        return Ok(());
    }
    Err(KernelError::WrongIndexCount {
        tensor: tensor.name,
        ndim: tensor.ndim(),
        access: access.to_string(),
        given: access.index.len(),
    })
}

/// The index variables with their extents, from the places where they stand alone and from ranges.
fn extents(spec: &KernelSpec, inputs: &[Tensor], output: &Tensor) -> Result<Vec<IndexVar>, KernelError> {
    let mut known: Vec<(Name, usize, String)> = Vec::new();
    let mut learn = |name: Name, extent: usize, at: String| match known.iter().find(|var| var.0 == name) {
        Some((_, first, first_at)) if *first != extent => Err(KernelError::TwoExtents {
            name,
            first: *first,
            first_at: first_at.clone(),
            second: extent,
            second_at: at,
        }),
        Some(_) => Ok(()),
        None => {
            known.push((name, extent, at));
            Ok(())
        }
    };
    for &(name, extent) in &spec.ranges {
        if extent < 0 {
            return Err(KernelError::NegativeExtent { tensor: name, dim: 0, extent });
        }
        let end = usize::try_from(extent)
            .ok()
            .filter(|&extent| i64::try_from(extent).is_ok())
            .ok_or_else(|| KernelError::TooLarge { what: format!("`{name}`"), product: extent.to_string() })?;
        learn(name, end, format!("`for {name} in 0..{end}`"))?;
    }
    let accesses: Vec<_> = [&spec.target].into_iter().chain(spec.value.accesses()).collect();
    for access in &accesses {
        let tensor = inputs.iter().chain([output]).find(|tensor| tensor.name == access.tensor);
        let shape = tensor.map_or(&[][..], |tensor| &tensor.shape);
        for (index, &extent) in access.index.iter().zip(shape) {
            if let Some(name) = index.as_variable() {
                learn(name, extent, format!("`{access}`"))?;
            }
        }
    }
    let mut order: Vec<Name> = Vec::new();
    let names = accesses.iter().flat_map(|access| &access.index).flat_map(|index| index.terms.iter().map(|t| t.0));
    for name in names.chain(spec.ranges.iter().map(|range| range.0)) {
        if !order.contains(&name) {
            order.push(name);
        }
    }
    let read = |name: Name| {
        spec.ranges.iter().any(|range| range.0 == name)
            || accesses[1..].iter().any(|access| access.index.iter().any(|index| index.coefficient(name) != 0))
    };
    for &name in spec.target.index.iter().flat_map(|index| index.terms.iter().map(|(name, _)| name)) {
        if !read(name) {
            return Err(KernelError::UnboundOutput { name, output: output.name });
        }
    }
    order
        .into_iter()
        .map(|name| match known.iter().find(|var| var.0 == name) {
            Some(&(_, extent, _)) => Ok(IndexVar { name, extent }),
            None => Err(KernelError::Unbound { name }),
        })
        .collect()
}

fn numbers(value: &Value, spec: &KernelSpec) -> Result<(), KernelError> {
    let float = |shown: String, number: Number| match number {
        Number::Float(_) if !spec.dtype.is_float() => {
            Err(KernelError::FloatInInteger { number: shown, dtype: spec.dtype.name() })
        }
        _ => Ok(()),
    };
    match value {
        Value::Access(_) => Ok(()),
        Value::Literal(number) => float(number.to_string(), *number),
        Value::Scalar(name) => match spec.scalars.iter().find(|scalar| scalar.0 == *name) {
            Some(&(_, number)) => float(name.to_string(), number),
            None => Err(KernelError::UnknownScalar { name: *name }),
        },
        Value::Neg(value) => numbers(value, spec),
        Value::Div(_, b) if !b.accesses().is_empty() => Err(KernelError::BadDivisor {
            divisor: b.to_string(),
            why: "it reads a tensor; divide by a scalar, or multiply by a tensor of reciprocals",
        }),
        Value::Add(a, b) | Value::Sub(a, b) | Value::Mul(a, b) | Value::Div(a, b) => {
            numbers(a, spec)?;
            numbers(b, spec)?;
            if matches!(value, Value::Div(..)) && !spec.dtype.is_float() && integer(b, spec) == Some(0) {
                let why = "it is 0, and the elements are integers; divide by another number";
                return Err(KernelError::BadDivisor { divisor: b.to_string(), why });
            }
            Ok(())
        }
    }
}

/// The value of a divisor over integers, `None` if it cannot be computed.
fn integer(value: &Value, spec: &KernelSpec) -> Option<i64> {
    let number = |number: Number| match number {
        Number::Int(value) => Some(value),
        Number::Float(_) => None,
    };
    let pair = |a, b| Some((integer(a, spec)?, integer(b, spec)?));
    match value {
        Value::Access(_) => None,
        Value::Literal(literal) => number(*literal),
        Value::Scalar(name) => number(spec.scalars.iter().find(|scalar| scalar.0 == *name)?.1),
        Value::Neg(value) => Some(integer(value, spec)?.wrapping_neg()),
        Value::Add(a, b) => pair(a, b).map(|(a, b)| a.wrapping_add(b)),
        Value::Sub(a, b) => pair(a, b).map(|(a, b)| a.wrapping_sub(b)),
        Value::Mul(a, b) => pair(a, b).map(|(a, b)| a.wrapping_mul(b)),
        Value::Div(a, b) => pair(a, b).and_then(|(a, b)| a.checked_div(b)),
    }
}

fn in_bounds(kernel: &Kernel) -> Result<(), KernelError> {
    let accesses = [&kernel.target].into_iter().chain(kernel.value.accesses());
    for access in accesses {
        let tensor = kernel.tensors().find(|tensor| tensor.name == access.tensor);
        let shape = tensor.map_or(&[][..], |tensor| &tensor.shape);
        for (dim, (index, &extent)) in access.index.iter().zip(shape).enumerate() {
            // A periodic index stays inside, since its modulus is at most the extent.
            let (low, high) = if index.modulus.is_some() { (0, 0) } else { span(index, &kernel.vars) };
            if low < 0 || high > extent as i128 {
                return Err(KernelError::OutOfBounds {
                    access: access.to_string(),
                    tensor: access.tensor,
                    index: index.to_string(),
                    low: saturated(low),
                    high: saturated(high),
                    dim,
                    extent,
                });
            }
        }
    }
    Ok(())
}

/// The half-open range of values of an index expression; no variable is empty.
pub(crate) fn span(index: &Affine, vars: &[IndexVar]) -> (i128, i128) {
    let start = (i128::from(index.constant), i128::from(index.constant) + 1);
    index.terms.iter().fold(start, |(low, high), &(name, factor)| {
        let last = vars.iter().find(|var| var.name == name).map_or(0, |var| var.extent as i128 - 1);
        let reach = i128::from(factor) * last;
        (low + reach.min(0), high + reach.max(0))
    })
}

fn saturated(value: i128) -> i64 {
    value.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}
