//! Results of a program, compared with its sequential meaning: each kernel in turn on whole arrays, on one rank.

use super::{check_type, only_kernel};
use crate::array::agreed;
use crate::reference::restart;
use crate::room::is_below;
use crate::{Collectives, DistArray, Element, Result, RunError, World, WrongElement, reference};
use ndarray::ArrayD;
use polyshard_layout::Name;
use polyshard_program::{ArrayKind, Body, NestView, Program, Rounds, Statement};
use std::io::{self, Write};

pub(crate) fn verify<T: Element>(
    program: &Program,
    world: &World,
    inputs: &[&DistArray<T>],
    outputs: &[&DistArray<T>],
    tolerance: f64,
) -> Result<f64> {
    check_type::<T>(program)?;
    let [takes, writes]: [Vec<Name>; 2] = [ArrayKind::Input, ArrayKind::Output]
        .map(|kind| program.of_kind(kind).iter().map(|&id| program.array(id).name).collect());
    if takes.len() != inputs.len() {
        return Err(RunError::Inputs { kernel: only_kernel(program), inputs: takes, given: inputs.len() }.into());
    }
    if writes.len() != outputs.len() {
        return Err(RunError::Verified { outputs: writes, given: outputs.len() }.into());
    }
    // All ranks take part in gathering all arrays, also those that receive nothing.
    let whole = |arrays: &[&DistArray<T>]| arrays.iter().map(|array| array.gathered(world)).collect::<Result<Vec<_>>>();
    let (inputs, outputs) = (whole(inputs)?, whole(outputs)?);
    let error = if world.is_root() {
        let [inputs, outputs] = [inputs, outputs].map(|arrays| arrays.into_iter().flatten().collect::<Vec<_>>());
        if instances(program) >= MANY {
            // A failure to write the message cannot be reported.
            let _ = writeln!(io::stderr(), "checking the result on rank 0, which computes it sequentially");
        }
        compare(program, inputs, &outputs, tolerance)
    } else {
        Ok(0.0)
    };
    let mut error = [agreed(world, error)?];
    world.broadcast(&mut error, 0)?;
    Ok(error[0])
}

/// A number of statement instances that takes a core more than a second.
const MANY: u64 = 1 << 32;

/// The statement instances of all kernels, in all rounds.
fn instances(program: &Program) -> u64 {
    let of_nest = |nest: &NestView<'_>| {
        let extents = nest.kernel.vars().iter().map(|var| var.extent as u64);
        extents.fold(nest.applications(), u64::saturating_mul)
    };
    let all = program.nests().zip(program.runs()).map(|(nest, runs)| of_nest(&nest).saturating_mul(runs));
    all.fold(0, u64::saturating_add)
}

/// Compares the outputs with those that the program computes sequentially from the inputs, and returns the largest
/// error.
fn compare<T: Element>(
    program: &Program,
    inputs: Vec<ArrayD<T>>,
    outputs: &[ArrayD<T>],
    tolerance: f64,
) -> Result<f64> {
    let mut largest: f64 = 0.0;
    for ((array, expected), found) in program.outputs().zip(sequential(program, inputs)?).zip(outputs) {
        if found.shape() != expected.shape() {
            let (wanted, given) = (expected.shape().into(), found.shape().into());
            return Err(RunError::WholeShape { tensor: array.name, wanted, given }.into());
        }
        let magnitudes = expected.iter().map(|element| element.distance(T::ZERO));
        let scale = magnitudes.filter(|magnitude| magnitude.is_finite()).fold(0.0, f64::max);
        for ((index, expected), found) in expected.indexed_iter().zip(found) {
            let distance = found.distance(*expected);
            let error = if distance > 0.0 { distance / scale } else { 0.0 };
            if error > tolerance {
                let index = ndarray::Dimension::slice(&index).to_vec();
                let [found, expected] = [found, expected].map(|element| element.to_string());
                let [error, tolerance] = [format!("{error:.1e}"), format!("{tolerance:e}")];
                let wrong = WrongElement { array: array.name, index, found, expected, error, tolerance };
                return Err(RunError::from(Box::new(wrong)).into());
            }
            largest = largest.max(error);
        }
    }
    Ok(largest)
}

/// Returns the outputs of the program, computed on whole arrays.
fn sequential<T: Element>(program: &Program, inputs: Vec<ArrayD<T>>) -> Result<Vec<ArrayD<T>>> {
    let mut arrays: Vec<Option<ArrayD<T>>> = program.arrays().iter().map(|_| None).collect();
    for (id, input) in program.of_kind(ArrayKind::Input).into_iter().zip(inputs) {
        arrays[id.0] = Some(input);
    }
    follow(program.body(), &program.body().statements, &mut arrays)?;
    let outputs = program.of_kind(ArrayKind::Output).into_iter();
    Ok(outputs.map(|id| arrays[id.0].take().expect("every output is written")).collect())
}

/// Executes statements on whole arrays.
fn follow<T: Element>(body: &Body, statements: &[Statement], arrays: &mut [Option<ArrayD<T>>]) -> Result<()> {
    for span in body.spans(statements) {
        for kernel in body.kernels_of(span) {
            let nest = body.nest(kernel);
            let inputs = nest.reads().iter().map(|id| arrays[id.0].as_ref().expect("what is read was written"));
            // The next version of an array keeps the previous values where the kernel does not write.
            let mut begun = body.version_before(nest.row).and_then(|before| arrays[before.0].clone());
            if !nest.adds() {
                begun.iter_mut().for_each(|begun| restart(&nest.kernel, begun));
            }
            let mut found = reference(&nest.kernel, &inputs.collect::<Vec<_>>(), begun)?;
            // Each time step reads the output of the previous one.
            for _ in 1..nest.applications() {
                found = reference(&nest.kernel, &[&found], None)?;
            }
            arrays[nest.writes().0] = Some(found);
        }
        match span.statements {
            [Statement::Begin(id, _)] => {
                if let Some([source, target]) = body.transfers[id.0].arrays() {
                    arrays[target.0] = arrays[source.0].clone();
                }
            }
            [Statement::Free(id)] => arrays[id.0] = None,
            [Statement::Rounds(id, round)] => {
                let Rounds { times, until, carried } = &body.rounds[id.0];
                for carried in carried {
                    arrays[carried.value.0] = arrays[carried.first.0].clone();
                }
                for _ in 0..*times {
                    follow(body, round, arrays)?;
                    let ends = until.is_some_and(|until| {
                        arrays[until.scalar.0].iter().flatten().all(|scalar| is_below(*scalar, until.below))
                    });
                    let next: Vec<_> = carried.iter().map(|carried| arrays[carried.next.0].clone()).collect();
                    for (carried, next) in carried.iter().zip(next) {
                        arrays[carried.value.0] = next;
                    }
                    if ends {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::layout::{Mesh, Placement, Sharding};
    use crate::{DType, DistArray, Element, Execute, Result, World, spmd};
    use polyshard_program::Program;

    /// The message of `verify` for a redistribution over two ranks, given these arrays.
    fn said(tolerance: f64, arrays: impl Fn(&World, [&Sharding; 2]) -> Result<Vec<DistArray<f64>>> + Sync) -> String {
        let mesh = Mesh::new([("x", 2)]);
        let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, "x")]).expect("a sharding");
        let (rows, columns) = (by(0), by(1));
        let program = Program::redistribution("A", [&rows, &columns], DType::F64).expect("a program");
        let said = spmd(2, |world| -> Result<String> {
            let arrays = arrays(world, [&rows, &columns])?;
            let verified = program.verify(world, &[&arrays[0]], &arrays[1..].iter().collect::<Vec<_>>(), tolerance);
            Ok(verified.map_or_else(|error| error.cause().to_string(), |error| error.to_string()))
        });
        let said = said.expect("both ranks say it");
        assert_eq!(said[0], said[1]);
        said[0].clone()
    }

    #[test]
    fn the_largest_error_is_told_to_all_ranks_and_must_not_exceed_the_tolerance() {
        let off = |by: f64| {
            move |world: &World, [rows, columns]: [&Sharding; 2]| {
                let element = |at: &[usize]| (6 * at[0] + at[1]) as f64 - 3.0;
                let wrong = |at: &[usize]| element(at) + if at == [2, 5] { by } else { 0.0 };
                Ok(vec![DistArray::from_fn(world, rows, element)?, DistArray::from_fn(world, columns, wrong)?])
            }
        };
        assert_eq!(said(0.0, off(0.0)), "0");
        assert_eq!(said(0.5, off(5.0)), "0.25", "the largest element is 20");
        let wrong = "wrong result: `A` at [2, 5] is 19, but 14 computed sequentially; the error is 2.5e-1 of the \
                     largest magnitude, but at most 1e-1 is allowed";
        assert_eq!(said(0.1, off(5.0)), wrong);
        assert!(said(0.1, off(f64::NAN)).starts_with("wrong result: `A` at [2, 5] is NaN, but 14 "));
    }

    #[test]
    fn arrays_that_are_not_the_programs_are_refused() {
        let rows = |world: &World, sharding: &Sharding| DistArray::filled(world, sharding, 1.0);
        let one = said(0.0, |world, [sharding, _]| Ok(vec![rows(world, sharding)?]));
        assert_eq!(one, "the program writes A, but 0 arrays are given to compare");
        let other = said(0.0, |world, [sharding, _]| {
            let shape = Sharding::replicated(sharding.mesh(), &[6, 4]);
            Ok(vec![rows(world, sharding)?, rows(world, &shape)?])
        });
        assert_eq!(other, "`A` has shape [4, 6], but the array given has [6, 4]");
    }

    #[test]
    fn random_elements_are_in_their_range_and_alike_in_both_floats() {
        let elements = (0..1000).map(|i| [i % 37, i]);
        for at in elements {
            let (single, double, whole) = (f32::random(3, &at), f64::random(3, &at), i64::random(3, &at));
            assert!((-1.0..1.0).contains(&double) && f64::from(single) == double && (-9..=9).contains(&whole));
        }
        assert_ne!(f64::random(1, &[0, 1]), f64::random(1, &[1, 0]));
        assert_eq!(i64::MIN.distance(i64::MAX), 2f64.powi(64));
        assert_eq!((f64::NAN.distance(f64::NAN), f32::NAN.distance(1.0)), (0.0, f64::INFINITY));
    }
}
