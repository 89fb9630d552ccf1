//! Checks a kernel as written: resolves names, infers extents, proves bounds.

use crate::affine::Affine;
use crate::kernel::{Assign, IndexVar, Kernel, KernelSpec, Tensor, span};
use crate::kernel_error::KernelError;
use crate::kernel_numbers;
use crate::number::Number;
use crate::periodic;
use crate::value::Access;
use crate::value::Value;
use polyshard_layout::{DType, Name, joined};
use std::ops::Range;

impl KernelSpec {
    /// Checks the kernel and infers the index variables' extents.
    ///
    /// # Errors
    /// The first [`KernelError`] found.
    pub fn check(self) -> Result<Kernel, KernelError> {
        check(self)
    }
}

impl Kernel {
    /// Checks that one nest of loops over all index variables can be counted. A product of several tensors need not: it may be
    /// computed as several kernels.
    ///
    /// # Errors
    /// [`KernelError::TooLarge`] if the product of all extents does not fit 63 bits.
    pub fn check_points(&self) -> Result<(), KernelError> {
        points("the index variables of one nest", &self.vars)
    }
}

pub(crate) fn check(mut spec: KernelSpec) -> Result<Kernel, KernelError> {
    names(&spec)?;
    periodic::resolve(&mut spec)?;
    let inputs = spec.inputs.iter().map(|t| tensor(t, spec.dtype)).collect::<Result<Vec<_>, _>>()?;
    let output = tensor(&spec.output, spec.dtype)?;
    distinct_names(&spec)?;
    if spec.target.tensor != output.name {
        return Err(KernelError::NotTheOutput { name: spec.target.tensor, output: output.name });
    }
    index_count(&spec.target, &output)?;
    outside(&spec)?;
    for access in spec.value.accesses() {
        if access.tensor == output.name {
            return Err(KernelError::OutputRead { name: output.name });
        }
        let Some(tensor) = inputs.iter().find(|tensor| tensor.name == access.tensor) else {
            let tensors = joined(inputs.iter().map(|tensor| tensor.name), ", ");
            return Err(KernelError::UnknownTensor { name: access.tensor, tensors });
        };
        index_count(access, tensor)?;
    }
    let mut good = merged(&mut spec.target);
    spec.value.rewrite(&mut |value| match value {
        Value::Access(access) if good.is_ok() => good = merged(access),
        Value::Index(index) if good.is_ok() => good = merged_index(index, || "an index as a number".into()),
        _ => {}
    });
    good?;
    let vars = variables(&spec, &inputs, &output)?;
    kernel_numbers::check(&mut spec)?;
    // A product of several tensors may be computed as kernels of two each, whose extents are checked separately.
    if spec.value.factors().is_none_or(|factors| factors.len() < 3) {
        points("the index variables", &vars)?;
    }
    in_bounds(&spec, &vars, &inputs, &output)?;
    numbers_fit(&spec, &vars)?;
    let nothing_runs = vars.iter().any(|var| var.extent == 0);
    // With no values of a contracted index, `=` still writes empty sums to the target.
    let target = counted(&spec.target, &vars, is_empty(&spec.target, &vars));
    let mut value = spec.value.clone();
    value.rewrite(&mut |value| match value {
        Value::Access(access) => *access = counted(access, &vars, nothing_runs),
        Value::Index(index) => *index = counted_index(index, &vars, nothing_runs),
        _ => {}
    });
    records(&mut spec, &output, &vars)?;
    let kernel = Kernel { spec, inputs, output, vars, target, value };
    crate::bounds::kernel(&kernel)?;
    periodic::check(&kernel)?;
    Ok(kernel)
}

/// Checks that a running reduction writes whole records of floats, along the last dimension of the output, from indices that these hold
/// exactly, and notes the size of records.
fn records(spec: &mut KernelSpec, output: &Tensor, vars: &[IndexVar]) -> Result<(), KernelError> {
    let Assign::Running(running) = spec.assign else { return Ok(()) };
    let wrong = |why: String| {
        let (reduction, target) = (running.form().name, spec.target.to_string());
        Err(KernelError::NoRecords { reduction, target, why })
    };
    if !spec.dtype.is_float() {
        return wrong(format!("its elements are {}; let the tensors hold `f32` or `f64`", spec.dtype));
    }
    // The value of an index may be a term.
    let most: i128 = if spec.dtype == DType::F32 { 1 << 24 } else { 1 << 53 };
    for index in spec.value.indices() {
        let (low, high) = span(index, vars, true);
        if -low > most || high - 1 > most {
            return wrong(format!(
                "{} does not hold all values of `{index}`; use a smaller extent, or `f64`",
                spec.dtype
            ));
        }
    }
    let last = spec.target.index.split_last().and_then(|(last, others)| Some((last.as_variable()?, others)));
    let Some((index, others)) = last else {
        return wrong("its last index is not an index variable alone".into());
    };
    let is_whole = spec.ranges.iter().all(|(name, _)| *name != index);
    if others.iter().any(|other| other.coefficient(index) != 0) || !is_whole {
        return wrong(format!("`{index}`, over the elements of a record, has a range or stands in two dimensions"));
    }
    let size = output.shape.last().copied().unwrap_or(0);
    spec.assign = match running.of_size(size) {
        Ok(sized) => Assign::Running(sized),
        Err(why) => return wrong(why),
    };
    Ok(())
}

/// Checks that names can be written in a kernel, since they are printed into source and messages.
fn names(spec: &KernelSpec) -> Result<(), KernelError> {
    // The output may be the next version of an input, `A'`.
    let tensors = spec.inputs.iter().map(|tensor| tensor.0).chain([spec.output.0.array()]);
    let places = [&spec.target].into_iter().chain(spec.value.accesses()).flat_map(|access| &access.index);
    let places = places.chain(spec.value.indices());
    let vars = places.flat_map(|index| index.terms.iter().map(|term| term.0));
    let others = spec.ranges.iter().map(|range| range.0).chain(spec.scalars.iter().map(|scalar| scalar.0));
    match [spec.name].into_iter().chain(tensors).chain(others).chain(vars).find(|name| !name.is_identifier()) {
        Some(name) => Err(KernelError::BadName { name }),
        None => Ok(()),
    }
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

/// Maximum number of factors that a message lists.
const MAX_SHOWN: usize = 6;

/// Checks that the number of points, over all values of the indices, can be counted.
fn points(what: &str, vars: &[IndexVar]) -> Result<(), KernelError> {
    fits(what, &vars.iter().map(|var| var.extent as i128).collect::<Vec<_>>(), 1)
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
    if factors.len() > MAX_SHOWN {
        let last = factors[factors.len() - 1].clone();
        factors = [&factors[..MAX_SHOWN - 2], &["..".to_owned(), last]].concat();
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

/// Checks that the value read outside of an input is a number, and that nothing is written outside of the output.
fn outside(spec: &KernelSpec) -> Result<(), KernelError> {
    if spec.target.outside.is_some() {
        return Err(KernelError::OutsideOutput { access: spec.target.to_string() });
    }
    let accesses = spec.value.accesses();
    match accesses.iter().find(|access| access.outside.as_ref().is_some_and(|value| !value.is_number())) {
        Some(access) => Err(KernelError::OutsideValue { access: access.to_string() }),
        None => Ok(()),
    }
}

/// The index variables with their ranges: those stated, else from the places where they stand alone.
fn variables(spec: &KernelSpec, inputs: &[Tensor], output: &Tensor) -> Result<Vec<IndexVar>, KernelError> {
    let mut known = spec.ranges.iter().map(stated).collect::<Result<Vec<_>, _>>()?;
    let places = places(&spec.target, &spec.value, inputs, output);
    let alone: Vec<_> = places.iter().filter_map(|place| Some((place.index.as_variable()?, place))).collect();
    for &(name, place) in &alone {
        if known.iter().any(|var| var.name == name) {
            continue;
        }
        if let Some((_, other)) = alone.iter().find(|(var, other)| *var == name && other.extent != place.extent) {
            return Err(KernelError::TwoExtents {
                name,
                first: place.extent,
                first_at: format!("`{}`", place.access),
                second: other.extent,
                second_at: format!("`{}`", other.access),
                range: fitting(name, &places),
            });
        }
        known.push(IndexVar { name, start: 0, extent: place.extent });
    }
    let accesses: Vec<_> = [&spec.target].into_iter().chain(spec.value.accesses()).collect();
    let mut order: Vec<Name> = Vec::new();
    let numbers = spec.value.indices();
    let indices = accesses.iter().flat_map(|access| &access.index).chain(numbers.iter().copied());
    let names = indices.flat_map(|index| index.terms.iter().map(|t| t.0));
    for name in names.chain(spec.ranges.iter().map(|range| range.0)) {
        if !order.contains(&name) {
            order.push(name);
        }
    }
    let read = |name: Name| {
        spec.ranges.iter().any(|range| range.0 == name)
            || numbers.iter().any(|index| index.coefficient(name) != 0)
            || accesses[1..].iter().any(|access| access.index.iter().any(|index| index.coefficient(name) != 0))
    };
    for &name in spec.target.index.iter().flat_map(|index| index.terms.iter().map(|(name, _)| name)) {
        if !read(name) {
            return Err(KernelError::UnboundOutput { name, output: output.name });
        }
    }
    order
        .into_iter()
        .map(|name| match known.iter().find(|var| var.name == name) {
            Some(var) => Ok(*var),
            None => Err(KernelError::Unbound { name }),
        })
        .collect()
}

/// Range bounds beyond this would leave no room for sums of a few of them.
const MAX_BOUND: i128 = 1 << 62;

fn stated((name, range): &(Name, Range<i128>)) -> Result<IndexVar, KernelError> {
    let (start, end) = (range.start, range.end);
    if end < start {
        return Err(KernelError::ReversedRange { name: *name, start, end });
    }
    if start < -MAX_BOUND || end > MAX_BOUND {
        return Err(KernelError::TooLarge { what: format!("`{name}`"), product: format!("{start}..{end}") });
    }
    Ok(IndexVar { name: *name, start: start as i64, extent: (end - start) as usize })
}

/// One index expression of an access, with the extent of the dimension that it stands in.
struct Place<'a> {
    access: &'a Access,
    dim: usize,
    index: &'a Affine,
    extent: usize,
}

/// All index expressions that stay inside: those of the target, then those of the inputs, left to right.
fn places<'a>(target: &'a Access, value: &'a Value, inputs: &[Tensor], output: &Tensor) -> Vec<Place<'a>> {
    let mut places = Vec::new();
    for access in [target].into_iter().chain(value.accesses()) {
        let tensor = inputs.iter().chain([output]).find(|tensor| tensor.name == access.tensor);
        let shape = tensor.map_or(&[][..], |tensor| &tensor.shape);
        let inside = access.index.iter().zip(shape).enumerate().filter(|_| access.outside.is_none());
        for (dim, (index, &extent)) in inside {
            places.push(Place { access, dim, index, extent });
        }
    }
    places
}

/// The range of `name` with which all accesses by it alone stay inside, to offer it in a message.
fn fitting(name: Name, places: &[Place<'_>]) -> Option<Box<str>> {
    let indices = places.iter().map(|place| (place.index, place.extent as i128));
    let range = Affine::fitting_range(name, indices)?;
    Some(format!("`for {name} in {}..{}`", range.start, range.end).into())
}

fn in_bounds(spec: &KernelSpec, vars: &[IndexVar], inputs: &[Tensor], output: &Tensor) -> Result<(), KernelError> {
    let places = places(&spec.target, &spec.value, inputs, output);
    let nothing_runs = vars.iter().any(|var| var.extent == 0);
    // Without an instance nothing is read, so nothing can be outside; only an index of the target's own keeps `=` from
    // writing. A periodic index stays inside, since its modulus is at most the extent.
    let touched = |access: &Access| match access.tensor == output.name {
        true => !is_empty(access, vars),
        false => !nothing_runs,
    };
    let affine = places.iter().filter(|place| touched(place.access) && place.index.modulus.is_none());
    for Place { access, dim, index, extent } in affine {
        let (low, high) = span(index, vars, true);
        if low < 0 || high > *extent as i128 {
            let var = match index.terms[..] {
                [(name, _)] if spec.ranges.iter().all(|range| range.0 != name) => Some(name),
                _ => None,
            };
            return Err(KernelError::OutOfBounds {
                access: access.to_string(),
                tensor: access.tensor,
                index: index.to_string(),
                low: saturated(low),
                high: saturated(high),
                dim: *dim,
                extent: *extent,
                range: var.and_then(|var| fitting(var, &places)),
            });
        }
    }
    Ok(())
}

/// Checks that the values of indices used as numbers fit the element type.
fn numbers_fit(spec: &KernelSpec, vars: &[IndexVar]) -> Result<(), KernelError> {
    for index in spec.value.indices() {
        if index.modulus.is_some() {
            return Err(KernelError::PeriodicNumber { index: index.to_string() });
        }
        if vars.iter().any(|var| var.extent == 0) {
            continue;
        }
        let (low, high) = span(index, vars, true);
        let fits = |value: i128| i64::try_from(value).is_ok_and(|value| Number::Int(value).fits(spec.dtype));
        if let Some(value) = [low, high - 1].into_iter().find(|&value| !fits(value)) {
            let number = format!("{index} = {value}");
            return Err(KernelError::NumberTooLarge { number, dtype: spec.dtype.name() });
        }
    }
    Ok(())
}

fn saturated(value: i128) -> i64 {
    value.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Whether one of the indices that the access holds has no values.
fn is_empty(access: &Access, vars: &[IndexVar]) -> bool {
    let holds = |var: &IndexVar| access.index.iter().any(|index| index.coefficient(var.name) != 0);
    vars.iter().any(|var| var.extent == 0 && holds(var))
}

/// The access with indices that count from 0; it is inside its tensor, or `empty`, and touches nothing.
fn counted(access: &Access, vars: &[IndexVar], empty: bool) -> Access {
    let index = access.index.iter().map(|index| counted_index(index, vars, empty));
    Access { index: index.collect(), ..access.clone() }
}

fn counted_index(index: &Affine, vars: &[IndexVar], empty: bool) -> Affine {
    let mut index = index.clone();
    let mut constant = i128::from(index.constant);
    for (name, factor) in &mut index.terms {
        let var = vars.iter().find(|var| var.name == *name);
        let (start, extent) = var.map_or((0, 0), |var| (var.start, var.extent));
        constant = constant.saturating_add(i128::from(*factor) * i128::from(start));
        // Where an index has one value, 0, any factor gives the same, and a small one gives no overflow.
        if empty || extent == 1 {
            *factor = factor.signum();
        }
    }
    if let Some(period) = index.period() {
        constant %= i128::from(period);
    }
    index.constant = if empty { 0 } else { saturated(constant) };
    index
}

/// Brings index expressions into the form that [`Affine`] promises, however they were built: no variable twice, no factor 0.
fn merged(access: &mut Access) -> Result<(), KernelError> {
    let Access { tensor, index, .. } = access;
    index.iter_mut().try_for_each(|index| merged_index(index, || format!("an index of `{tensor}`")))
}

fn merged_index(index: &mut Affine, what: impl Fn() -> String) -> Result<(), KernelError> {
    let mut sum: Vec<(Name, i128)> = Vec::new();
    for &(name, factor) in &index.terms {
        match sum.iter_mut().find(|term| term.0 == name) {
            Some(term) => term.1 += i128::from(factor),
            None => sum.push((name, factor.into())),
        }
    }
    let mut terms = Vec::new();
    for (name, factor) in sum.into_iter().filter(|term| term.1 != 0) {
        let too_large = |_| KernelError::TooLarge { what: what(), product: format!("{factor}*{name}") };
        terms.push((name, i64::try_from(factor).map_err(too_large)?));
    }
    index.terms = terms;
    Ok(())
}

#[cfg(test)]
mod tests;
