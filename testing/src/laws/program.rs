//! Laws of every program: run twice after one `prepare`, in place and by messages, it gives the sequential result and
//! receives the bytes that it states.

use super::nodes::is_one_node;
use crate::filled;
use ndarray::ArrayD;
use polyshard::prelude::*;
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
