//! A program run at once: the same calls that emitted source makes, decided while walking the program.

mod leaf;
mod typed;
mod value;
mod walk;

pub(crate) use leaf::check_registered;
pub use typed::TypedProgram;

use polyshard_layout::{Name, Sharding};
use polyshard_polyhedral::{Assign, DType, Kernel, Number, OutputRoute, Program, ScalarType};
use polyshard_runtime::{DistArray, Element, Error, ReduceOp, Result, World, Written};
use std::borrow::Cow;

/// Running a program on a world of ranks.
///
/// Scalars that the kernel captured keep their values, unless a run is given others: [`run_with`](Self::run_with). A
/// program is lowered once and runs with any.
///
/// ```
/// use polyshard_codegen::Execute;
/// use polyshard_layout::{Mesh, Name};
/// use polyshard_polyhedral::{Assign, Number, Schedule, Value, Var, example};
/// use polyshard_runtime::{DistArray, Error, spmd};
/// let mut spec = example::matmul(4, 4, 4); // C[m, n] += alpha * A[m, k] * B[k, n]
/// let alpha = Name::new("alpha");
/// spec.scalars = vec![(alpha, Number::Float(1.0))];
/// spec.value = Value::Mul(Box::new(Value::Scalar(alpha)), Box::new(spec.value));
/// let mesh = Mesh::new([("x", 2)]);
/// let program = Schedule::from_spec(spec)
///     .distribute([Var::new("m")], [Var::new("mo")], [Var::new("mi")], &mesh)
///     .lower()?;
/// let found = spmd(2, |world| -> Result<_, Error> {
///     let a = DistArray::from_fn(world, program.sharding("A"), |at| at[0] as f32)?;
///     let b = DistArray::filled(world, program.sharding("B"), 1.0f32)?;
///     let once = program.run(world, &[&a, &b])?;
///     let half = program.run_with(world, &[&a, &b], &[("alpha", 0.5)])?;
///     Ok((once.get(&[3, 0]), half.get(&[3, 0])))
/// })?;
/// assert_eq!(found[0], (Some(12.0), Some(6.0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Execute {
    /// Runs the program on all ranks of `world`, which must be as many as its mesh has; each returns its shard.
    ///
    /// The output starts from the identity of the kernel's operation: zeros for `=` and `+=`.
    ///
    /// # Errors
    /// If `T` is not the kernel's element type, the inputs are not as many or not sharded as the program
    /// wants them, or communication fails.
    fn run<T: Element + ScalarType>(&self, world: &World, inputs: &[&DistArray<T>]) -> Result<DistArray<T>> {
        self.run_with(world, inputs, &[])
    }

    /// As [`run`](Self::run), but goes on from what `output` holds; `=` overwrites the elements that the kernel writes,
    /// and no others.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    fn run_into<T: Element + ScalarType>(
        &self,
        world: &World,
        inputs: &[&DistArray<T>],
        output: &mut DistArray<T>,
    ) -> Result<()> {
        self.run_into_with(world, inputs, output, &[])
    }

    /// As [`run`](Self::run), with these values for scalars by name, the same on all ranks. Those that are not given
    /// are as the kernel captured them.
    ///
    /// # Errors
    /// As for [`run`](Self::run), and if the kernel has no such scalar, one is given twice, or one that divides
    /// integers is 0.
    fn run_with<T: Element + ScalarType>(
        &self,
        world: &World,
        inputs: &[&DistArray<T>],
        scalars: &[(&str, T)],
    ) -> Result<DistArray<T>>;

    /// As [`run_into`](Self::run_into), with these values for scalars, as [`run_with`](Self::run_with).
    ///
    /// # Errors
    /// As for [`run_with`](Self::run_with).
    fn run_into_with<T: Element + ScalarType>(
        &self,
        world: &World,
        inputs: &[&DistArray<T>],
        output: &mut DistArray<T>,
        scalars: &[(&str, T)],
    ) -> Result<()>;

    /// Returns the program as one over elements of type `T`, which the compiler lets run on arrays of `T` alone.
    ///
    /// # Errors
    /// If `T` is not the kernel's element type.
    fn typed<T: Element + ScalarType>(&self) -> Result<TypedProgram<T>>;
}

impl Execute for Program {
    fn run_with<T: Element + ScalarType>(
        &self,
        world: &World,
        inputs: &[&DistArray<T>],
        scalars: &[(&str, T)],
    ) -> Result<DistArray<T>> {
        world.check_mesh(self.mesh())?;
        check_type::<T>(self)?;
        let output = DistArray::filled(world, output_sharding(self), reduce_op(self).identity());
        let mut output = output.map_err(|error| of_output(self, error))?;
        self.run_into_with(world, inputs, &mut output, scalars)?;
        Ok(output)
    }

    fn run_into_with<T: Element + ScalarType>(
        &self,
        world: &World,
        inputs: &[&DistArray<T>],
        output: &mut DistArray<T>,
        scalars: &[(&str, T)],
    ) -> Result<()> {
        world.check_mesh(self.mesh())?;
        check_type::<T>(self)?;
        let kernel = with_scalars(self.kernel(), scalars)?;
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
        let leaf = leaf::LeafPlan::new(self, &kernel)?;
        let clears = kernel.assign() == Assign::Set && !self.overwrites();
        let written = kernel.written().filter(|_| clears || self.output().route != OutputRoute::InPlace);
        let written = written.map(|written| {
            let steps: Vec<&[i64]> = written.steps.iter().map(Vec::as_slice).collect();
            Written::new(output, &written.base, &steps, &written.counts)
        });
        if clears {
            match &written {
                Some(written) => written.fill(output, T::ZERO),
                None => output.block_mut().fill(T::ZERO),
            }
        }
        walk::Walk::new(self, leaf, world, inputs, output, written)?.run()
    }

    fn typed<T: Element + ScalarType>(&self) -> Result<TypedProgram<T>> {
        TypedProgram::new(self)
    }
}

/// The kernel with the values that a run is given for its scalars.
fn with_scalars<'k, T: ScalarType>(kernel: &'k Kernel, scalars: &[(&str, T)]) -> Result<Cow<'k, Kernel>> {
    if scalars.is_empty() {
        return Ok(Cow::Borrowed(kernel));
    }
    let values: Vec<(Name, Number)> = scalars.iter().map(|&(name, value)| (Name::new(name), value.number())).collect();
    kernel.with_scalars(&values).map(Cow::Owned).map_err(|wrong| Error::Usage(wrong.to_string()))
}

/// The output goes by its name in what is said of too little memory.
fn of_output(program: &Program, error: Error) -> Error {
    match error {
        Error::Memory { bytes, why, .. } => {
            let output = program.kernel().output();
            Error::Memory {
                what: format!("a rank's block of `{}`, of shape {:?}", output.name, output.shape),
                bytes,
                why,
            }
        }
        error => error,
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
