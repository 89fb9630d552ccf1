//! Programs whose element type is known to the compiler.

use super::{Execute, check_type};
use crate::{DistArray, Element, Result, World};
use polyshard_program::Program;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::Location;

/// A program over elements of type `T`: running it on arrays of another type does not compile.
///
/// Otherwise it is a [`Program`]. [`Execute::typed`] makes it, and checks once that the kernel is over `T`.
///
/// ```
/// use polyshard::prelude::*;
/// let whole = Sharding::replicated(&Mesh::new([("x", 1)]), &[2, 2]);
/// let program = Program::redistribution("A", [&whole, &whole], DType::F32)?.typed::<f32>()?;
/// spmd(1, |world| {
///     let a = DistArray::filled(world, program.sharding("A"), 1.0)?; // of f32: what the program takes says so
///     let b = program.run(world, &[&a])?;
///     assert_eq!(b.block(), [1.0; 4]);
///     Ok(())
/// })?;
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// ```compile_fail,E0308
/// # use polyshard::prelude::*;
/// # let whole = Sharding::replicated(&Mesh::new([("x", 1)]), &[2, 2]);
/// # let program = Program::redistribution("A", [&whole, &whole], DType::F32)?.typed::<f32>()?;
/// # spmd(1, |world| {
/// let a = DistArray::filled(world, program.sharding("A"), 1.0f64)?;
/// program.run(world, &[&a])?; // expected `&DistArray<f32>`, found `&DistArray<f64>`
/// # Ok(())
/// # })?;
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TypedProgram<T> {
    program: Program,
    element: PhantomData<fn() -> T>,
}

impl<T: Element> TypedProgram<T> {
    #[track_caller]
    pub(super) fn new(program: &Program) -> Result<Self> {
        let at = Location::caller();
        check_type::<T>(program).map_err(|error| error.in_program(at, program))?;
        Ok(Self { program: program.clone(), element: PhantomData })
    }

    /// As [`Execute::run`].
    ///
    /// # Errors
    /// As for [`Execute::run`].
    #[track_caller]
    pub fn run(&self, world: &World, inputs: &[&DistArray<T>]) -> Result<DistArray<T>> {
        self.program.run(world, inputs)
    }

    /// As [`Execute::run_into`].
    ///
    /// # Errors
    /// As for [`Execute::run_into`].
    #[track_caller]
    pub fn run_into(&self, world: &World, inputs: &[&DistArray<T>], output: &mut DistArray<T>) -> Result<()> {
        self.program.run_into(world, inputs, output)
    }

    /// As [`Execute::run_with`].
    ///
    /// # Errors
    /// As for [`Execute::run_with`].
    #[track_caller]
    pub fn run_with(&self, world: &World, inputs: &[&DistArray<T>], scalars: &[(&str, T)]) -> Result<DistArray<T>> {
        self.program.run_with(world, inputs, scalars)
    }
}

impl<T> Deref for TypedProgram<T> {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.program
    }
}
