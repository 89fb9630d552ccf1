//! The executor: runs programs directly, with the same calls that emitted source makes, chosen while walking the program.

mod arrays;
mod kernel;
mod leaf;
mod local;
mod prepared;
mod scalars;
mod step;
mod typed;
mod value;
mod verify;

pub use prepared::Prepared;
pub use typed::TypedProgram;
pub(crate) use verify::verify;

use crate::instances::Instances;
use crate::layout::Name;
use crate::{DistArray, Element, Result, RunError, World};
use polyshard_program::Program;
use std::panic::Location;

/// Running a program on a world of ranks.
///
/// Scalars that a kernel captured keep their values, unless a run is given others: [`run_with`](Self::run_with), or
/// [`Prepared::set_scalars`] for several runs. So a program is made once and runs with any values.
///
/// ```
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2)]);
/// let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, mesh.axes::<1>()[0])]).expect("a sharding");
/// let program = Program::redistribution("A", [&by(0), &by(1)], DType::F32)?;
/// let found = spmd(2, |world| {
///     let rows = DistArray::from_fn(world, program.sharding("A"), |at| (10 * at[0] + at[1]) as f32)?;
///     let columns = program.run(world, &[&rows])?;
///     Ok((rows.get(&[3, 0]), columns.get(&[3, 0])))
/// })?;
/// assert_eq!(found, [(None, Some(30.0)), (Some(30.0), None)]);
/// # Ok::<(), polyshard::Error>(())
/// ```
pub trait Execute {
    /// Makes the resources of the program's runs, once: groups, tiles, and the arrays between its statements; collective over the world.
    ///
    /// # Errors
    /// [`RunError::ElementType`] if `T` is not the program's element type. If the number of ranks of its mesh is not the world's, a leaf
    /// that it calls is not registered as required, there is too little memory, or another rank failed.
    #[track_caller]
    fn prepare<'a, T: Element>(&'a self, world: &'a World) -> Result<Prepared<'a, T>>;

    /// Runs the program on all ranks of `world`, whose number must be that of its mesh; each returns its shard.
    ///
    /// The output starts from the identity of the kernel's operation: zeros for `=` and `+=`. To run more than once,
    /// [`prepare`](Self::prepare).
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare) and [`Prepared::run`].
    #[track_caller]
    fn run<T: Element>(&self, world: &World, inputs: &[&DistArray<T>]) -> Result<DistArray<T>> {
        self.prepare(world)?.run(inputs)
    }

    /// As [`run`](Self::run), but returns all outputs, by name, in the order in which the program lists them.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare) and [`Prepared::run_all`].
    #[track_caller]
    fn run_all<T: Element>(&self, world: &World, inputs: &[&DistArray<T>]) -> Result<Vec<(Name, DistArray<T>)>> {
        self.prepare(world)?.run_all(inputs)
    }

    /// As [`run`](Self::run), but continues from the contents of `output`; `=` overwrites the elements that the kernel writes, and no
    /// others.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare) and [`Prepared::run_into`].
    #[track_caller]
    fn run_into<T: Element>(&self, world: &World, inputs: &[&DistArray<T>], output: &mut DistArray<T>) -> Result<()> {
        self.prepare(world)?.run_into(inputs, output)
    }

    /// As [`run`](Self::run), with these values for scalars by name, the same on all ranks. Other scalars keep the values that the kernel
    /// captured.
    ///
    /// In a program of several kernels, `alpha` is the scalar of every kernel that has one of this name, and `first.alpha` that of the
    /// kernels `first` alone, such as the statements of a block, which takes precedence. Of several kernels with the same name, `Y.alpha`
    /// is that of those that write `Y`.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare), [`Prepared::set_scalars`] and [`Prepared::run`].
    #[track_caller]
    fn run_with<T: Element>(
        &self,
        world: &World,
        inputs: &[&DistArray<T>],
        scalars: &[(&str, T)],
    ) -> Result<DistArray<T>> {
        let mut prepared = self.prepare(world)?;
        prepared.set_scalars(scalars)?;
        prepared.run(inputs)
    }

    /// Compares `outputs`, the results of a run on `inputs`, with those of the kernels' statements, executed one after the other on one
    /// rank, and returns the largest error on all ranks; collective over the world.
    ///
    /// An error is relative to the largest magnitude in its array, and must not exceed `tolerance`. Sums of n terms in another order differ
    /// by some n.sqrt() units of rounding, integers not at all. Rank 0 gathers all arrays and computes alone: this is for tests and first
    /// runs. An output may have a sharding other than the program's.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// # let mesh = Mesh::new([("x", 2)]);
    /// # let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, "x")]).expect("a sharding");
    /// let program = Program::redistribution("A", [&by(0), &by(1)], DType::F32)?;
    /// spmd(2, |world| {
    ///     let rows = DistArray::from_fn(world, program.sharding("A"), |index| f32::random(1, index))?;
    ///     let columns = program.run(world, &[&rows])?;
    ///     assert_eq!(program.verify(world, &[&rows], &[&columns], 0.0)?, 0.0);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`RunError::Wrong`] on all ranks if an element exceeds the tolerance. If the number of arrays is not the program's, or one has
    /// another shape; if they do not fit in the memory of rank 0, or another rank failed.
    #[track_caller]
    fn verify<T: Element>(
        &self,
        world: &World,
        inputs: &[&DistArray<T>],
        outputs: &[&DistArray<T>],
        tolerance: f64,
    ) -> Result<f64>;

    /// Returns the program with the element type `T`, which the compiler accepts for arrays of `T` only.
    ///
    /// # Errors
    /// [`RunError::ElementType`] if `T` is not the program's element type.
    #[track_caller]
    fn typed<T: Element>(&self) -> Result<TypedProgram<T>>;
}

impl Execute for Program {
    #[track_caller]
    fn prepare<'a, T: Element>(&'a self, world: &'a World) -> Result<Prepared<'a, T>> {
        let at = Location::caller();
        T::prepare(self, world).map_err(|error| error.in_program(at, self))
    }

    #[track_caller]
    fn verify<T: Element>(
        &self,
        world: &World,
        inputs: &[&DistArray<T>],
        outputs: &[&DistArray<T>],
        tolerance: f64,
    ) -> Result<f64> {
        let at = Location::caller();
        T::verify(self, world, inputs, outputs, tolerance).map_err(|error| error.in_program(at, self))
    }

    #[track_caller]
    fn typed<T: Element>(&self) -> Result<TypedProgram<T>> {
        TypedProgram::new(self)
    }
}

fn check_type<T: Element>(program: &Program) -> Result<()> {
    let wanted = program.dtype();
    if T::DTYPE == wanted {
        return Ok(());
    }
    Err(RunError::ElementType { kernel: only_kernel(program), wanted, given: T::DTYPE }.into())
}

/// The name of the program's kernel, if it has exactly one: messages call the program by it.
fn only_kernel(program: &Program) -> Option<Name> {
    let mut nests = program.nests();
    nests.next().filter(|_| nests.next().is_none()).map(|nest| nest.kernel.name())
}
