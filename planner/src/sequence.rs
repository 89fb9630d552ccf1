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
    items: Vec<Item>,
    carried: Vec<Carry>,
    until: Option<(Name, f64)>,
    kept: Vec<Name>,
    inputs: Vec<(Name, Sharding)>,
    outputs: Vec<(Name, Sharding)>,
    options: PlanOptions,
}

/// What a sequence does at one place.
#[derive(Clone, Debug)]
enum Item {
    Stage(Box<Stage>),
    Rounds(u64, Sequence),
}

/// A value that the next round knows by another name.
#[derive(Clone, Copy, Debug)]
struct Carry {
    next: Name,
    value: Name,
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
        self.items.push(Item::Stage(Box::new(Stage { program: program.clone(), inputs, output: output.into() })));
        self
    }

    /// Appends rounds of the stages of `round`, `times` of them or as many as its [`until`](Self::until) asks for.
    ///
    /// A round reads values from before the rounds, and what the round before has left to it by [`carry`](Self::carry); nothing else
    /// that it writes outlasts it. Afterwards, what is carried is what the last round left, and is an output of the program if these are the
    /// last stages and neither [`keep`](Self::keep) nor [`output`](Self::output) names some of it. Values that no round writes are
    /// moved once, before the rounds, and a tile of them is brought in the first round alone.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2)]);
    /// let [x] = mesh.axes();
    /// let mean = kernel! { fn mean(A: [f64; 8]) -> B: [f64; 8] { B[i] = 0.5 * (A[(i - 1) % 8] + A[(i + 1) % 8]) } };
    /// vars!(i, io, ii);
    /// let mean = mean.distribute([i], [io], [ii], &mesh).shard("A", [dim(0).at(x)]).shard("B", [i.at(x)]).lower()?;
    ///
    /// let round = Sequence::new().stage(&mean, ["A"], "B").carry("B", "A"); // the next round's A is this one's B
    /// let program = Sequence::new().repeat(3, round).build()?;
    /// let found = polyshard::spmd(2, |world| {
    ///     let a = DistArray::from_fn(world, program.sharding("A"), |at| if at[0] == 0 { 8.0 } else { 0.0 })?;
    ///     Ok(program.run(world, &[&a])?.get(&[4 * world.rank() + 1]))
    /// })?;
    /// assert_eq!(found, [Some(3.0), Some(1.0)]); // of 8 at 0, 3/8 have come to 1 and 1/8 to 5
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    pub fn repeat(mut self, times: u64, round: Self) -> Self {
        self.items.push(Item::Rounds(times, round));
        self
    }

    /// Has `value` be in the next round what is `next` at the end of this one; for a sequence that is [repeated](Self::repeat).
    ///
    /// `next` is the next version of `value`: elements of `next` that its stage does not write have the values that they have in `value`, as
    /// the fixed rim of a stencil. What is not carried starts each round without values.
    ///
    /// It is renamed, not copied. Of the first round, `value` is what it is before the rounds, an input if nothing writes it. All
    /// values are renamed at once, so `next` may be another one that is carried: `.carry("U", "before").carry("after", "U")`.
    pub fn carry(mut self, next: impl Into<Name>, value: impl Into<Name>) -> Self {
        self.carried.push(Carry { next: next.into(), value: value.into() });
        self
    }

    /// Ends the rounds after one that leaves `scalar`, a value without dimensions that a stage of it writes, below a bound; for a sequence
    /// that is [repeated](Self::repeat). Its sums are closed for all ranks in the order of the ranks, so all of them leave after
    /// the same round.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2)]);
    /// let [x] = mesh.axes();
    /// let half = kernel! { fn half(A: [f64; 8]) -> B: [f64; 8] { B[i] = 0.5 * A[i] } };
    /// let square = kernel! { fn square(B: [f64; 8]) -> s: f64 { s[] += B[i] * B[i] } };
    /// vars!(i, io, ii);
    /// let half = half.distribute([i], [io], [ii], &mesh).shard("A", [i.at(x)]).shard("B", [i.at(x)]).lower()?;
    /// let square = square.distribute([i], [io], [ii], &mesh).shard("B", [i.at(x)]).lower()?;
    ///
    /// let round = Sequence::new().stage(&half, ["A"], "B").stage(&square, ["B"], "s").carry("B", "A").until("s", 0.01);
    /// let program = Sequence::new().repeat(100, round).build()?;
    /// polyshard::spmd(2, |world| {
    ///     let a = DistArray::filled(world, program.sharding("A"), 1.0)?;
    ///     let mut prepared = program.prepare(world)?;
    ///     assert_eq!(prepared.run(&[&a])?.block(), [0.03125; 4]);
    ///     assert_eq!(prepared.rounds(), [5]); // 8 / 4^5 is the first below 0.01
    ///     Ok(())
    /// })?;
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    pub fn until(self, scalar: impl Into<Name>, below: f64) -> Self {
        Self { until: Some((scalar.into(), below)), ..self }
    }

    /// Makes the value `name`, which a stage writes or rounds carry, an output of the program too, in the sharding in which it is
    /// left. What the last stage writes is always an output.
    pub fn keep(mut self, name: impl Into<Name>) -> Self {
        self.kept.push(name.into());
        self
    }

    /// Makes `sharding` the one in which a run is given the input `name`. It is redistributed for the stages that read it in
    /// another one.
    ///
    /// ```
    /// use polyshard::prelude::*;
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

    /// Makes the value `name`, which a stage writes or rounds carry, an output of the program in `sharding`; it is redistributed
    /// if it is left in another one.
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
    /// shardings, an output is not written, its sharding opens sums that are complete, no plan fits into the memory that
    /// the options allow, rounds carry what they do not write, or what ends them is not a scalar of theirs.
    pub fn build(self) -> Result<Program, Box<SequenceError>> {
        build::build(self)
    }
}

impl Stage {
    fn label(&self, position: usize) -> String {
        format!("stage {}, `{}`", position + 1, self.program.kernel().name())
    }
}
