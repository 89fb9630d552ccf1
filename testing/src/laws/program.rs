//! Laws of every program: run twice after one `prepare`, in place and by messages, it gives the sequential result and
//! receives the bytes that it states.

use super::nodes::is_one_node;
use crate::filled;
use ndarray::ArrayD;
use polyshard::prelude::*;
use polyshard::program::{Array, ArrayId, ArrayKind, Assign, Continued, Kernel, ProgramError};
use polyshard::runtime::comm::Received;
use polyshard::runtime::{Backend, Transport};

/// The element of a tensor at an index: small integers that differ between indices, so that sums are exact.
#[must_use]
pub fn element<T: Element>(tensor: usize, program: &Program, index: &[usize]) -> T {
    let product = program.kernel().assign().to_string() == "*=";
    let sum: usize = index.iter().zip([7, 3, 5, 2]).map(|(i, factor)| i * factor).sum::<usize>() + 11 * tensor;
    let value = if product { [1, -1, 2][sum % 3] } else { (sum % 13) as i64 - 6 };
    num_traits::NumCast::from(value).expect("a small integer is of every type")
}

/// The sequential result, which starts from the output's contents if `into` is set.
#[must_use]
pub fn sequential<T: Element>(program: &Program, into: bool) -> ArrayD<T> {
    filled::sequential(program, into, |tensor, index| element(tensor, program, index))
}

/// Runs the program in every way on all ranks of the world, compares the results, and returns the bytes that this rank
/// received each time, and on rank 0 the result.
pub fn run_every_way<T: Element>(
    world: &World,
    program: &Program,
    into: bool,
) -> polyshard::Result<(u64, Option<ArrayD<T>>)> {
    let filled = filled::inputs_and_output(world, program, |tensor, index| element::<T>(tensor, program, index));
    let (arrays, start) = filled?;
    let before = arrays.clone();
    let inputs: Vec<_> = arrays.iter().collect();
    let mut runs: Vec<(Received, DistArray<T>)> = Vec::new();
    // Processes read short inputs in place only if requested.
    let shared = (world.backend() == Backend::Mpi && is_one_node(world)?).then_some(Transport::Shared);
    for transport in [Transport::Auto, Transport::Messages].into_iter().chain(shared) {
        let mut prepared = program.prepare(world)?.with_transport(transport);
        for _ in 0..2 {
            let before = world.received();
            let output = if into {
                let mut output = start.clone();
                prepared.run_into(&inputs, &mut output)?;
                output
            } else {
                prepared.run(&inputs)?
            };
            runs.push((world.received().since(&before), output));
        }
    }
    // The caller's arrays are never written.
    assert!(arrays.iter().zip(&before).all(|(a, b)| a.block() == b.block()), "an input was written\n{program}");
    let counted: Vec<_> = runs.iter().map(|run| run.0).collect();
    let (received, output) = runs.pop().expect("it has run");
    let bytes = received.bytes();
    assert!(counted.iter().all(|received| received.bytes() == bytes), "twice each: {counted:?}\n{program}");
    assert!(counted[2..4].iter().all(|received| received.in_place == 0), "by messages: {counted:?}\n{program}");
    // Threads read all inputs in place.
    let stays = program.nests().all(|nest| nest.output().route.is_in_place());
    if world.backend() == Backend::Threads && stays {
        assert_eq!((counted[0].messages, counted[0].bytes_in_place), (0, bytes), "in place\n{program}");
    }
    assert!(runs.iter().all(|run| run.1.block() == output.block()), "runs differ\n{program}");
    let output = match output.sharding().partial() {
        [] => output,
        _ => output.redistribute(world, &output.sharding().closed())?,
    };
    // All owners of an element have the same value, and it is gathered from one.
    let everywhere = output.redistribute(world, &Sharding::replicated(output.sharding().mesh(), output.shape()))?;
    let own = DistArray::from_fn(world, output.sharding(), |index| everywhere.get(index).expect("all have all"))?;
    assert!(own.block() == output.block(), "owners of an element differ\n{program}");
    Ok((bytes, output.gather(world)?))
}

/// The program of one kernel whose output begins as another input.
///
/// # Errors
/// If the kernel cannot continue it.
pub fn next_version(program: &Program, adds: bool) -> Result<Program, ProgramError> {
    let mut body = program.body().clone();
    let output = body.arrays[body.kernels[0].writes().0].clone();
    body.kernels[0].continues = Some(Continued { array: ArrayId(body.arrays.len()), adds });
    body.arrays.push(Array { name: "before".into(), kind: ArrayKind::Input, ..output });
    Program::new(body)
}

/// Whether a kernel writes an element, by trying all of them.
fn is_written(kernel: &Kernel, at: &[usize]) -> bool {
    let Some(written) = kernel.written() else { return true };
    let instances = written.counts.iter().product::<usize>();
    (0..instances).any(|nth| {
        let values = written.counts.iter().scan(nth, |rest, &count| {
            let value = *rest % count;
            *rest /= count;
            Some(value as i64)
        });
        let values: Vec<_> = values.collect();
        let index = written.base.iter().zip(&written.strides).map(|(base, strides)| {
            base + strides.iter().zip(&values).map(|(stride, value)| stride * value).sum::<i64>()
        });
        index.eq(at.iter().map(|&at| at as i64))
    })
}

/// Runs the next versions of an array that the kernel of a program writes, with and without adding to it, on all ranks of the world: they
/// have the bits of a run into a copy of the array, or keep those of its elements that the kernel does not write.
///
/// # Panics
/// If they do not.
pub fn versions_hold<T: Element>(world: &World, program: &Program) -> polyshard::Result<()> {
    let nest = program.nest();
    let (mut arrays, start) =
        filled::inputs_and_output(world, program, |tensor, index| element::<T>(tensor, program, index))?;
    let is_open = !start.sharding().partial().is_empty();
    for adds in [true, false] {
        let next = match next_version(program, adds) {
            Ok(next) => crate::written::read_back(&next),
            Err(why) => {
                let expected = nest.time_steps.is_some() || adds && (nest.kernel.assign() == Assign::Set || is_open);
                assert!(expected, "{why}\n{program}");
                continue;
            }
        };
        let inputs: Vec<_> = arrays.iter().collect();
        let expected = if adds || nest.kernel.assign() == Assign::Set {
            let mut expected = start.clone();
            program.run_into(world, &inputs, &mut expected)?;
            expected
        } else if is_open {
            continue;
        } else {
            let fresh = program.run(world, &inputs)?;
            let of = |at: &[usize]| if is_written(&nest.kernel, at) { fresh.get(at) } else { start.get(at) };
            DistArray::from_fn(world, start.sharding(), |at| of(at).expect("its own element"))?
        };
        arrays.push(start.clone());
        let inputs: Vec<_> = arrays.iter().collect();
        for transport in [Transport::Auto, Transport::Messages] {
            let mut prepared = next.prepare(world)?.with_transport(transport);
            let mut into = prepared.output()?;
            prepared.run_into(&inputs, &mut into)?;
            for found in [prepared.run(&inputs)?, prepared.run(&inputs)?, into] {
                assert!(found.block() == expected.block(), "{} by {transport:?}\n{}", world.rank(), next.explain());
                if !is_open {
                    next.verify(world, &inputs, &[&found], 0.0)?;
                }
            }
        }
        assert!(arrays.pop().is_some_and(|before| before.block() == start.block()), "an input was written\n{next}");
    }
    Ok(())
}
