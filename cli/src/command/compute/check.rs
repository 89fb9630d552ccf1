//! The result against a sequential computation, which one rank does on whole arrays.

use super::Files;
use crate::error::{CliError, Result};
use polyshard::ndarray::{ArrayD, Axis, Slice};
use polyshard::runtime::NpyFile;
use polyshard::{DType, DistArray, Element, Execute, Kernel, Name, Program, World, reference};

/// What came of a check.
pub(crate) struct Checked {
    /// The rows that were compared, and how many there are.
    pub(crate) rows: [usize; 2],
    /// The largest difference, as a part of the largest magnitude.
    pub(crate) error: f64,
}

/// The most rows that are compared.
const ROWS: usize = 4;

/// Computes rows of the result sequentially, at equal distances along its first dimension, and compares them with the file.
///
/// # Errors
/// If an element is off by more than rounding explains, or a file cannot be read.
pub(super) fn rows<T: Element>(kernel: &Kernel, files: &Files<'_>) -> Result<Checked> {
    let found = NpyFile::open(files.out)?.read::<T>()?;
    let inputs = files.inputs.iter().map(|path| NpyFile::open(path)?.read::<T>()).collect::<Result<Vec<_>, _>>()?;
    let Some(Sliced { first, dims, count }) = Sliced::new(kernel) else {
        let expected = reference(kernel, &inputs.iter().collect::<Vec<_>>(), None)?;
        let rows = expected.shape().first().copied().unwrap_or(1);
        return Ok(Checked { rows: [rows, rows], error: error(&found, &expected)? });
    };
    // The kernel of one row.
    let mut spec = kernel.spec();
    spec.inputs.iter_mut().zip(&dims).for_each(|((_, shape), dims)| dims.iter().for_each(|&dim| shape[dim] = 1));
    spec.output.1[0] = 1;
    spec.ranges.iter_mut().filter(|(name, _)| *name == first).for_each(|(_, range)| *range = 0..1);
    let of_row = spec.check().map_err(|why| CliError::Bug { what: format!("a row has no kernel: {why}") })?;
    let chosen: Vec<usize> = (0..count.min(ROWS)).map(|nth| nth * (count - 1) / (count.min(ROWS) - 1).max(1)).collect();
    let mut largest: f64 = 0.0;
    for &row in &chosen {
        let one = |array: &ArrayD<T>, dims: &[usize]| {
            let row = Slice::from(row..row + 1);
            dims.iter()
                .fold(array.view(), |view, &dim| {
                    let mut view = view;
                    view.slice_axis_inplace(Axis(dim), row);
                    view
                })
                .to_owned()
        };
        let parts: Vec<_> = inputs.iter().zip(&dims).map(|(array, dims)| one(array, dims)).collect();
        let expected = reference(&of_row, &parts.iter().collect::<Vec<_>>(), None)?;
        largest = largest.max(error(&one(&found, &[0]), &expected)?);
    }
    Ok(Checked { rows: [chosen.len(), count], error: largest })
}

/// Computes all kernels of a program sequentially, on one rank, and compares what the last one writes.
///
/// # Errors
/// If an element is off by more than rounding explains.
pub(super) fn whole<T: Element>(
    program: &Program,
    world: &World,
    inputs: &[&DistArray<T>],
    result: &DistArray<T>,
) -> Result<Checked> {
    let error = program.verify(world, inputs, &[result], tolerance::<T>())?;
    let rows = result.sharding().shape().first().copied().unwrap_or(1);
    Ok(Checked { rows: [rows, rows], error })
}

/// What a row of the result needs of the inputs.
struct Sliced {
    /// The index of the result's rows.
    first: Name,
    /// The dimensions of each input along which a row needs one element alone.
    dims: Vec<Vec<usize>>,
    /// How many rows there are.
    count: usize,
}

impl Sliced {
    /// None if rows cannot be computed by themselves.
    fn new(kernel: &Kernel) -> Option<Self> {
        let first = kernel.target().index.first()?.as_variable()?;
        let var = kernel.vars().iter().find(|var| var.name == first)?;
        let is_alone = |access: &polyshard::Access| {
            access.index.iter().all(|index| index.as_variable() == Some(first) || index.coefficient(first) == 0)
        };
        let once = kernel.target().index.iter().filter(|index| index.coefficient(first) != 0).count() == 1;
        if !once
            || var.start != 0
            || var.extent < 2
            || !kernel.value().accesses().into_iter().all(is_alone)
            || !kernel.value().indices().is_empty()
        {
            return None;
        }
        let dims = kernel.inputs().iter().map(|tensor| {
            let mut of_accesses = kernel.accesses_of(tensor.name).into_iter().map(|access| {
                let dims = access.index.iter().enumerate().filter(|(_, index)| index.as_variable() == Some(first));
                dims.map(|(dim, _)| dim).collect::<Vec<_>>()
            });
            let dims = of_accesses.next()?;
            of_accesses.all(|other| other == dims).then_some(dims)
        });
        Some(Self { first, dims: dims.collect::<Option<Vec<_>>>()?, count: var.extent })
    }
}

/// What rounding explains, as a part of the largest magnitude.
fn tolerance<T: Element>() -> f64 {
    match T::DTYPE {
        DType::F32 => 1e-4,
        DType::F64 => 1e-10,
        _ => 0.0,
    }
}

/// The largest difference, as a part of the largest magnitude that is expected.
fn error<T: Element>(found: &ArrayD<T>, expected: &ArrayD<T>) -> Result<f64> {
    let tolerance = tolerance::<T>();
    let scale =
        expected.iter().map(|element| element.distance(T::ZERO)).filter(|size| size.is_finite()).fold(0.0, f64::max);
    let distance = found.iter().zip(expected).map(|(found, expected)| found.distance(*expected)).fold(0.0, f64::max);
    let error = if distance > 0.0 { distance / scale } else { 0.0 };
    if error > tolerance {
        let what = format!(
            "a row that was computed sequentially differs by {error:.1e} of its largest magnitude; at most {tolerance:e} is allowed"
        );
        return Err(CliError::Bug { what });
    }
    Ok(error)
}
