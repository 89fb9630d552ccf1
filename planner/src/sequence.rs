//! Sequences: kernels run in sequence, with redistributions put in where shardings do not meet.
//!
//! A kernel's schedule says how its inputs and its output lie, and need not care for the kernels before and after.
//! Where one leaves an array in another sharding than the next one reads it in, a redistribution is planned.
//! Nothing here changes a kernel's schedule to save one.

mod build;
mod error;
#[cfg(test)]
mod tests;

pub use error::SequenceError;

use crate::PlanOptions;
use polyshard_layout::{Name, Sharding};
use polyshard_program::Program;

/// Kernels to run one after the other, each on values that are outputs of earlier ones or come from outside.
///
/// ```text
/// stage 1   Y = first(X, W1)       leaves Y by columns
///           Y by columns to Y by rows
/// stage 2   Z = second(Y, W2)      reads Y by rows
/// ```
///
/// A value that no stage before writes is an input of the whole. It lies as the first stage that reads it expects it,
/// or as [`input`](Self::input) says. Outputs lie as their stages leave them, or as [`output`](Self::output) says.
///
/// A run names scalars as kernels do: `alpha` is that of every kernel that has one, `first.alpha` that of the kernel
/// `first` alone. Of several kernels of one name, each goes by the name of the value that it writes.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::Sequence;
/// let mesh = Mesh::new([("x", 2)]);
/// let [x] = mesh.axes();
/// let product = kernel! { fn product(A: [f32; 4, 4], B: [f32; 4, 4]) -> C: [f32; 4, 4] { C[m, n] += A[m, k] * B[k, n] } };
/// vars!(m, n, k, mo, mi);
/// let square = product.distribute([m], [mo], [mi], &mesh);
/// let rows = square.clone().shard("A", [m.at(x)]).shard("C", [m.at(x)]).lower()?;
/// let columns = square.shard("A", [k.at(x)]).shard("C", [m.at(x)]).lower()?;
///
/// let cube = Sequence::new().stage(&rows, ["X", "W"], "Y").stage(&columns, ["Y", "W"], "Z").build()?;
/// assert_eq!(cube.moves().count(), 1); // Y by rows to Y by columns
/// let found = polyshard::spmd(2, |world| {
///     let x = DistArray::from_fn(world, cube.sharding("X"), |at| (at[0] + at[1]) as f32)?;
///     let w = DistArray::from_fn(world, cube.sharding("W"), |at| if at[0] == at[1] { 2.0 } else { 0.0 })?;
///     let mut prepared = cube.prepare(world)?; // once; to be run often
///     let z = prepared.run(&[&x, &w])?;
///     Ok(z.get(&[2 * world.rank(), 3]))
/// })?;
/// assert_eq!(found, [Some(12.0), Some(20.0)]); // 4 * (0 + 3) and 4 * (2 + 3)
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a sequence is checked and planned by `build`"]
pub struct Sequence {
    stages: Vec<Stage>,
    kept: Vec<Name>,
    inputs: Vec<(Name, Sharding)>,
    outputs: Vec<(Name, Sharding)>,
    options: PlanOptions,
}

/// A kernel and the values that it reads and writes.
#[derive(Clone, Debug)]
struct Stage {
    program: Program,
    inputs: Vec<Name>,
    output: Name,
}

impl Sequence {
    /// Returns a sequence without stages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a kernel that reads the values `inputs`, in the kernel's order, and writes the value `output`.
    ///
    /// A value is written once. What is wrong is said by [`build`](Self::build).
    pub fn stage<N: Into<Name>>(
        mut self,
        program: &Program,
        inputs: impl IntoIterator<Item = N>,
        output: impl Into<Name>,
    ) -> Self {
        let inputs = inputs.into_iter().map(Into::into).collect();
        self.stages.push(Stage { program: program.clone(), inputs, output: output.into() });
        self
    }

    /// Makes the value `name`, which a stage writes, an output of the program too, in the sharding in which the stage
    /// leaves it. What the last stage writes is always an output.
    pub fn keep(mut self, name: impl Into<Name>) -> Self {
        self.kept.push(name.into());
        self
    }

    /// Makes `sharding` the one in which a run is given the input `name`. It is redistributed for the stages that read it in
    /// another one.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::Sequence;
    /// let mesh = Mesh::new([("x", 2)]);
    /// let [x] = mesh.axes();
    /// let twice = kernel! { fn twice(A: [f32; 4, 4]) -> B: [f32; 4, 4] { B[i, j] = 2.0 * A[i, j] } };
    /// vars!(i, j, io, ii);
    /// let twice = twice.distribute([i], [io], [ii], &mesh).shard("A", [i.at(x)]).shard("B", [i.at(x)]).lower()?;
    ///
    /// let columns = Sharding::new(&mesh, &[4, 4], &[Placement::block(1, x)])?;
    /// let program = Sequence::new().stage(&twice, ["X"], "Y").input("X", &columns).output("Y", &columns).build()?;
    /// assert_eq!(program.moves().count(), 2); // X from columns to rows, and Y back
    /// let found = polyshard::spmd(2, |world| {
    ///     let x = DistArray::from_fn(world, &columns, |at| at[0] as f32)?;
    ///     Ok(program.run(world, &[&x])?.get(&[3, 2 * world.rank()]))
    /// })?;
    /// assert_eq!(found, [Some(6.0), Some(6.0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn input(mut self, name: impl Into<Name>, sharding: &Sharding) -> Self {
        self.inputs.push((name.into(), sharding.clone()));
        self
    }

    /// Makes the value `name`, which a stage writes, an output of the program in `sharding`; it is redistributed if the
    /// stage leaves it in another one.
    pub fn output(mut self, name: impl Into<Name>, sharding: &Sharding) -> Self {
        self.outputs.push((name.into(), sharding.clone()));
        self
    }

    /// Sets what redistributions may do and what they are judged by. The bytes of an element are the kernels', whatever
    /// the options say.
    pub fn options(self, options: PlanOptions) -> Self {
        Self { options, ..self }
    }

    /// Checks that the stages fit together, and plans the redistributions between them.
    ///
    /// # Errors
    /// A [`SequenceError`] that names the stage and the value: if there is no stage, one is not a kernel or has another number
    /// of inputs than its kernel, a value has another shape than the kernel's tensor or the sharding that it is to have,
    /// meshes or element types differ, a value is written twice or after it was read, an input is not read or has two
    /// shardings, an output is not written, its sharding opens sums that are complete, or no plan fits into the memory that
    /// the options allow.
    pub fn build(self) -> Result<Program, Box<SequenceError>> {
        build::build(self)
    }
}

impl Stage {
    fn label(&self, position: usize) -> String {
        format!("stage {}, `{}`", position + 1, self.program.kernel().name())
    }
}
