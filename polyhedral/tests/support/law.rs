// Shared by the rewrite laws in the documentation of schedules, whose examples include this file.

/// Runs the program on arrays filled from their indices, closes the sums that it leaves open, and compares with the
/// sequential result.
fn same_as_sequential(program: &polyshard::program::Program) -> polyshard::Result<()> {
    use polyshard::ndarray::{ArrayD, Dimension, IxDyn};
    use polyshard::prelude::*;
    let element = |tensor: usize, at: &[usize]| ((5 * at[0] + 3 * at[1] + tensor) % 7) as f32;
    let inputs = program.kernel().inputs().iter().enumerate();
    let inputs = inputs.map(|(i, tensor)| ArrayD::from_shape_fn(IxDyn(&tensor.shape), |at| element(i, at.slice())));
    let inputs: Vec<_> = inputs.collect();
    let expected = polyshard::runtime::reference(program.kernel(), &inputs.iter().collect::<Vec<_>>(), None)?;
    let everywhere = Sharding::replicated(program.mesh(), expected.shape());
    let found = polyshard::spmd(program.mesh().size(), |world| {
        let shardings = program.shardings().take(inputs.len()).enumerate();
        let inputs = shardings.map(|(i, sharding)| DistArray::from_fn(world, sharding, |at| element(i, at)));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let output = program.run(world, &inputs.iter().collect::<Vec<_>>())?;
        Ok(output.redistribute(world, &everywhere)?.block().to_vec())
    })?;
    let expected: Vec<f32> = expected.into_iter().collect();
    assert!(found.iter().all(|found| *found == expected), "{program}");
    Ok(())
}
