//! Arrays that are filled from their indices, programs that run on them on threads, and the sequential results to
//! compare with.

use ndarray::{ArrayD, Dimension};
use polyshard_program::{Program, Tensor};
use polyshard_runtime::{DistArray, Element, Error, Execute, Result, Transport, World, reference, spmd};

/// The inputs of a program, each element given by the number of its array and its index.
pub fn inputs<T: Element>(
    world: &World,
    program: &Program,
    element: impl Fn(usize, &[usize]) -> T,
) -> Result<Vec<DistArray<T>>> {
    let arrays = program.inputs().enumerate();
    arrays.map(|(nth, array)| DistArray::from_fn(world, &array.sharding, |at| element(nth, at))).collect()
}

/// The inputs of a program, and its output before it runs, as the next array.
pub fn inputs_and_output<T: Element>(
    world: &World,
    program: &Program,
    element: impl Fn(usize, &[usize]) -> T,
) -> Result<(Vec<DistArray<T>>, DistArray<T>)> {
    let inputs = inputs(world, program, &element)?;
    let sharding = &program.outputs().next().expect("a program has an output").sharding;
    let output = DistArray::from_fn(world, sharding, |at| element(inputs.len(), at))?;
    Ok((inputs, output))
}

/// The output of a program on as many threads as its mesh has ranks, and the bytes that each rank received.
pub fn run<T: Element>(program: &Program, element: impl Fn(usize, &[usize]) -> T + Sync) -> (ArrayD<T>, Vec<u64>) {
    on_threads(program, |world| {
        let inputs = inputs(world, program, &element)?;
        let before = world.bytes_received();
        let output = program.run(world, &inputs.iter().collect::<Vec<_>>())?;
        Ok((output, world.bytes_received() - before))
    })
}

/// The output of a program that runs into an output with contents.
pub fn run_into<T: Element>(program: &Program, element: impl Fn(usize, &[usize]) -> T + Sync) -> ArrayD<T> {
    let (output, _) = on_threads(program, |world| {
        let (inputs, mut output) = inputs_and_output(world, program, &element)?;
        program.run_into(world, &inputs.iter().collect::<Vec<_>>(), &mut output)?;
        Ok((output, 0))
    });
    output
}

fn on_threads<T: Element>(
    program: &Program,
    run: impl Fn(&World) -> Result<(DistArray<T>, u64)> + Sync,
) -> (ArrayD<T>, Vec<u64>) {
    let ran = spmd(program.mesh().size(), |world| {
        let (output, received) = run(world)?;
        Ok::<_, Error>((output.gather(world)?, received))
    });
    let ran = ran.unwrap_or_else(|error| panic!("{error}\n{program}"));
    let (outputs, received): (Vec<_>, Vec<_>) = ran.into_iter().unzip();
    (outputs.into_iter().flatten().next().expect("rank 0 gathers"), received)
}

/// All elements of an array.
pub fn whole<T>(shape: &[usize], element: impl Fn(&[usize]) -> T) -> ArrayD<T> {
    ArrayD::from_shape_fn(shape, |at| element(at.slice()))
}

/// The sequential result of a program of one kernel, which starts from the contents of the output if `into` is set.
pub fn sequential<T: Element>(program: &Program, into: bool, element: impl Fn(usize, &[usize]) -> T) -> ArrayD<T> {
    let kernel = program.kernel();
    let array = |(nth, tensor): (usize, &Tensor)| whole(&tensor.shape, |at| element(nth, at));
    let inputs: Vec<_> = kernel.inputs().iter().enumerate().map(array).collect();
    let output = into.then(|| array((inputs.len(), kernel.output())));
    let inputs: Vec<_> = inputs.iter().collect();
    let first = reference(kernel, &inputs, output).expect("arrays of the kernel's shapes");
    // Each time step reads the output of the one before.
    (1..program.nest().applications())
        .fold(first, |found, _| reference(kernel, &[&found], None).expect("an array of the kernel's shape"))
}

/// Runs a program on threads by this transport, compares its output with the sequential result, and returns the maximum
/// of the bytes that a rank received.
pub fn verified<T: Element>(
    program: &Program,
    transport: Transport,
    tolerance: f64,
    element: impl Fn(usize, &[usize]) -> T + Sync,
) -> Result<u64> {
    let received = spmd(program.mesh().size(), |world| {
        let inputs = inputs(world, program, &element)?;
        let inputs: Vec<_> = inputs.iter().collect();
        let before = world.bytes_received();
        let output = program.prepare(world)?.with_transport(transport).run(&inputs)?;
        let received = world.bytes_received() - before;
        program.verify(world, &inputs, &[&output], tolerance)?;
        Ok::<_, Error>(received)
    })?;
    Ok(received.into_iter().max().unwrap_or(0))
}
