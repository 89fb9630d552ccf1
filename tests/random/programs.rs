//! Random schedules of each kind, and what their programs compute: by their sequential meaning, and on the ranks of a
//! world.

use crate::random::Choices;
use crate::random::algorithms::algorithm_of;
use crate::random::cyclic::cyclic_of;
use crate::random::kernels::kernel_of;
use crate::random::schedules::{mesh_of, schedule_of};
use crate::random::sums::summed_of;
use ndarray::{ArrayD, IxDyn};
use polyshard::prelude::*;
use polyshard::{Element, Program, Tensor, World, reference};

/// A random schedule of a random kernel.
pub(crate) fn anything<T: Element>(choices: &[u32]) -> Schedule {
    let mut choices = Choices::new(choices);
    let kernel = kernel_of::<T>(&mut choices);
    let mesh = mesh_of(&mut choices);
    schedule_of(kernel, &mesh, &mut choices)
}

/// A random relative of the classical matrix products.
pub(crate) fn algorithm<T: Element>(choices: &[u32]) -> Schedule {
    algorithm_of::<T>(&mut Choices::new(choices)).0
}

/// A random product whose sums meet over ranks.
pub(crate) fn summed<T: Element>(choices: &[u32]) -> Schedule {
    summed_of::<T>(&mut Choices::new(choices))
}

/// A random kernel whose loops are distributed block-cyclically.
pub(crate) fn cyclic<T: Element>(choices: &[u32]) -> Schedule {
    let mut choices = Choices::new(choices);
    let kernel = kernel_of::<T>(&mut choices);
    let mesh = mesh_of(&mut choices);
    cyclic_of(kernel, &mesh, &mut choices)
}

/// The value of a tensor's element: small integers that tell indices apart, so that sums are exact.
fn element<T: Element>(tensor: usize, product: bool, index: &[usize]) -> T {
    let sum: usize = index.iter().zip([7, 3, 5, 2]).map(|(i, factor)| i * factor).sum::<usize>() + 11 * tensor;
    let value = if product { [1, -1, 2][sum % 3] } else { (sum % 13) as i64 - 6 };
    num_traits::NumCast::from(value).expect("a small integer is of every type")
}

fn product(program: &Program) -> bool {
    program.kernel().assign().to_string() == "*="
}

/// Returns what the program's kernel makes of its tensors, one instance after the other.
pub(crate) fn sequential<T: Element>(program: &Program) -> polyshard::Result<ArrayD<T>> {
    let kernel = program.kernel();
    let array = |(position, tensor): (usize, &Tensor)| {
        ArrayD::from_shape_fn(IxDyn(&tensor.shape), |index| {
            let index: Vec<usize> = (0..tensor.ndim()).map(|dim| index[dim]).collect();
            element::<T>(position, product(program), &index)
        })
    };
    let arrays: Vec<_> = kernel.tensors().enumerate().map(array).collect();
    let (output, inputs) = arrays.split_last().expect("a kernel has an output");
    let inputs: Vec<_> = inputs.iter().collect();
    Ok(reference(kernel, &inputs, Some(output.clone()))?)
}

/// Runs the program twice on the ranks of the world, and returns what it makes on rank 0: twice the same, of inputs that
/// are not written, with as many bytes as are stated.
pub(crate) fn distributed_on<T: Element>(world: &World, program: &Program) -> polyshard::Result<Option<ArrayD<T>>> {
    let arrays = program.shardings().enumerate().map(|(position, sharding)| {
        DistArray::from_fn(world, sharding, |index| element::<T>(position, product(program), index))
    });
    let mut arrays = arrays.collect::<polyshard::runtime::Result<Vec<_>>>()?;
    let before = arrays.clone();
    let mut output = arrays.pop().expect("a kernel has an output");
    let inputs: Vec<_> = arrays.iter().collect();
    let mut prepared = program.prepare(world)?;
    let mut again = output.clone();
    let mut run = |output: &mut DistArray<T>| -> polyshard::Result<u64> {
        let received = world.bytes_received();
        prepared.run_into(&inputs, output)?;
        Ok(world.bytes_received() - received)
    };
    let received = run(&mut output)?;
    assert_eq!(run(&mut again)?, received, "a second run receives something else\n{program}");
    assert!(output.block() == again.block(), "a second run differs\n{program}");
    // The caller's arrays are never written.
    assert!(arrays.iter().zip(&before).all(|(a, b)| a.block() == b.block()), "an input was written");
    check_received(world, program, received)?;
    if !output.sharding().partial().is_empty() {
        output = output.redistribute(world, &output.sharding().closed())?;
    }
    Ok(output.gather(world)?)
}

/// Compares the bytes that the rank receives which receives most with those that the report states.
fn check_received(world: &World, program: &Program, received: u64) -> polyshard::Result<()> {
    let received = world.comm().gather_headers([received, 0, 0, 0])?.into_iter().map(|header| header[0]);
    let received = received.max().unwrap_or(0);
    let stated = program.report().traffic_bytes;
    assert!(received <= stated, "{received} bytes received, {stated} stated\n{program}");
    // Where there are few steps, what is stated is counted. A sum of integers is carried out by the library.
    let levels = program.nest().transfers.iter().map(|transfer| transfer.level).chain([program.nest().output.level]);
    let steps = levels.map(|level| program.nest().loops[..level].iter().map(|l| l.extent as usize).product::<usize>());
    let most_partners = program.mesh().size();
    if steps.sum::<usize>() * program.mesh().size() * most_partners <= 8192 {
        assert_eq!(received, stated, "bytes received and stated\n{program}");
    }
    Ok(())
}
