//! A program run at once: the same calls that emitted source makes, decided while walking the program.

mod value;
mod walk;

use polyshard_layout::Sharding;
use polyshard_polyhedral::{Assign, DType, Program, ScalarType};
use polyshard_runtime::{DistArray, Element, Error, ReduceOp, Result, World};

/// Running a program on a world of ranks.
pub trait Execute {
    /// Runs the program on all ranks of `world`, which must be as many as its mesh has; each returns its shard.
    ///
    /// The output starts from the identity of the kernel's operation: zeros for `=` and `+=`.
    ///
    /// # Errors
    /// If `T` is not the kernel's element type, the inputs are not as many or not sharded as the program
    /// wants them, or communication fails.
    fn run<T: Element + ScalarType>(&self, world: &World, inputs: &[&DistArray<T>]) -> Result<DistArray<T>>;

    /// As [`run`](Self::run), but goes on from what `output` holds; `=` overwrites it.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    fn run_into<T: Element + ScalarType>(
        &self,
        world: &World,
        inputs: &[&DistArray<T>],
        output: &mut DistArray<T>,
    ) -> Result<()>;
}

impl Execute for Program {
    fn run<T: Element + ScalarType>(&self, world: &World, inputs: &[&DistArray<T>]) -> Result<DistArray<T>> {
        world.check_mesh(self.mesh())?;
        check_type::<T>(self)?;
        let mut output = DistArray::filled(world, output_sharding(self), reduce_op(self).identity()).map_err(
            |error| match error {
                Error::Memory { bytes, why, .. } => {
                    let (name, shape) = (self.kernel().output().name, &self.kernel().output().shape);
                    Error::Memory { what: format!("a rank's block of `{name}`, of shape {shape:?}"), bytes, why }
                }
                error => error,
            },
        )?;
        self.run_into(world, inputs, &mut output)?;
        Ok(output)
    }

    fn run_into<T: Element + ScalarType>(
        &self,
        world: &World,
        inputs: &[&DistArray<T>],
        output: &mut DistArray<T>,
    ) -> Result<()> {
        world.check_mesh(self.mesh())?;
        check_type::<T>(self)?;
        let kernel = self.kernel();
        let wanted = kernel.inputs();
        if inputs.len() != wanted.len() {
            let names: Vec<_> = wanted.iter().map(|tensor| tensor.name.as_str()).collect();
            return Err(Error::Usage(format!(
                "`{}` takes {} inputs ({}), but {} are given",
                kernel.name(),
                wanted.len(),
                names.join(", "),
                inputs.len()
            )));
        }
        for ((tensor, sharding), input) in wanted.iter().zip(self.shardings()).zip(inputs) {
            input.expect(tensor.name.as_str(), sharding)?;
        }
        output.expect(kernel.output().name.as_str(), output_sharding(self))?;
        if kernel.assign() == Assign::Set {
            output.block_mut().fill(T::ZERO);
        }
        walk::Walk::new(self, world, inputs, output)?.run()
    }
}

fn output_sharding(program: &Program) -> &Sharding {
    program.shardings().last().expect("a kernel has an output; this is a bug of polyshard")
}

fn check_type<T: ScalarType + Element>(program: &Program) -> Result<()> {
    let wanted: DType = program.kernel().dtype();
    if T::DTYPE == wanted {
        return Ok(());
    }
    let name = program.kernel().name();
    Err(Error::Usage(format!("`{name}` is a kernel over {wanted}, but the arrays hold {}; let them agree", T::NAME)))
}

/// The operation that combines values in the output.
fn reduce_op(program: &Program) -> ReduceOp {
    match program.kernel().assign() {
        Assign::Set | Assign::Add => ReduceOp::Sum,
        Assign::Mul => ReduceOp::Product,
        Assign::Max => ReduceOp::Max,
        Assign::Min => ReduceOp::Min,
    }
}
