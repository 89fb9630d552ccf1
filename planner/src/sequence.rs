//! Sequences: kernels run in sequence, with redistributions inserted where shardings differ.
//!
//! A kernel's schedule states the shardings of its inputs and its output, and need not consider the kernels before and
//! after. Where one leaves an array in another sharding than the next one reads it in, a redistribution is planned.
//! Nothing here changes a kernel's schedule to save one.

mod build;
mod error;
#[cfg(test)]
mod tests;

pub use error::SequenceError;

use crate::PlanOptions;
use polyshard_layout::{Name, Sharding};
use polyshard_program::{Continued, Program};

/// Kernels to run in sequence, each on outputs of earlier ones or on inputs of the sequence.
///
/// ```text
/// stage 1   Y = first(X, W1)       leaves Y by columns
///           Y by columns to Y by rows
/// stage 2   Z = second(Y, W2)      reads Y by rows
/// ```
///
/// A value that no stage before writes is an input of the sequence. Its sharding is that in which the first stage reads
/// it, or the one given by [`input`](Self::input). Outputs are in the shardings in which their stages leave them, or
/// those given by [`output`](Self::output).
///
/// A run names scalars as kernels do: `alpha` is that of every kernel that has one, `first.alpha` that of the kernel
/// `first` only. Of several kernels with the same name, each is named by the value that it writes.
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
    called: Vec<(Name, Name)>,
    /// The order of inputs and that of outputs.
    order: [Vec<Name>; 2],
    options: PlanOptions,
}

/// An item of a sequence.
#[derive(Clone, Debug)]
enum Item {
    Stage(Box<Stage>),
    Rounds(u64, Box<Sequence>),
}

/// A carried value, its value in the first round, and the value that it takes over in the next one.
#[derive(Clone, Copy, Debug)]
struct Carry {
    first: Name,
    next: Name,
    value: Name,
}

/// A kernel and the values that it reads and writes.
#[derive(Clone, Debug)]
struct Stage {
    program: Program,
    inputs: Vec<Name>,
    output: Name,
    continues: Option<Continued<Name>>,
}

impl Sequence {
    /// Returns a sequence without stages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a kernel that reads the values `inputs`, in the kernel's order, and writes the value `output`.
    ///
    /// A value is written once. [`build`](Self::build) reports errors.
    pub fn stage<N: Into<Name>>(
        self,
        program: &Program,
        inputs: impl IntoIterator<Item = N>,
        output: impl Into<Name>,
    ) -> Self {
        self.continued(program, inputs, output, None)
    }

    /// As [`stage`](Self::stage), but elements of `output` that the kernel does not write have their values in the value
    /// `of`, an input if no stage writes it. It is moved first if it is in another sharding than the kernel's output.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2)]);
    /// let [x] = mesh.axes();
    /// let step = kernel! { fn step(A: [f64; 6]) -> B: [f64; 6] { B[i] = A[i - 1] + A[i + 1] for i in 1..5 } };
    /// vars!(i, io, ii);
    /// let step = step.distribute([i], [io], [ii], &mesh).shard("A", [dim(0).at(x)]).shard("B", [dim(0).at(x)]).lower()?;
    ///
    /// let program = Sequence::new().version(&step, ["A"], "B", "A").build()?;
    /// let found = polyshard::spmd(2, |world| {
    ///     let a = DistArray::from_fn(world, program.sharding("A"), |at| at[0] as f64)?;
    ///     Ok(program.run(world, &[&a])?.block().to_vec())
    /// })?;
    /// assert_eq!(found.concat(), [0.0, 2.0, 4.0, 6.0, 8.0, 5.0]); // its ends are those of A
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    pub fn version<N: Into<Name>>(
        self,
        program: &Program,
        inputs: impl IntoIterator<Item = N>,
        output: impl Into<Name>,
        of: impl Into<Name>,
    ) -> Self {
        self.continued(program, inputs, output, Some(Continued { array: of.into(), adds: false }))
    }

    /// As [`stage`](Self::stage), but the kernel's terms are combined with the value `onto` by the kernel's operation,
    /// `+=`, `*=`, `max=` or `min=`. The value is an input if no stage writes it, and is moved first if it is in another
    /// sharding than the kernel's output.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2)]);
    /// let [x] = mesh.axes();
    /// let sums = kernel! { fn sums(A: [f64; 4, 3]) -> b: [f64; 4] { b[i] += A[i, j] } };
    /// vars!(i, io, ii);
    /// let sums = sums.distribute([i], [io], [ii], &mesh).shard("A", [i.at(x)]).shard("b", [i.at(x)]).lower()?;
    ///
    /// let program = Sequence::new().stage(&sums, ["A"], "b").accumulate(&sums, ["B"], "c", "b").build()?;
    /// let found = polyshard::spmd(2, |world| {
    ///     let a = DistArray::from_fn(world, program.sharding("A"), |at| at[0] as f64)?;
    ///     let b = DistArray::filled(world, program.sharding("B"), 1.0)?;
    ///     Ok(program.run(world, &[&a, &b])?.block().to_vec())
    /// })?;
    /// assert_eq!(found.concat(), [3.0, 6.0, 9.0, 12.0]); // 3 i + 3
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    pub fn accumulate<N: Into<Name>>(
        self,
        program: &Program,
        inputs: impl IntoIterator<Item = N>,
        output: impl Into<Name>,
        onto: impl Into<Name>,
    ) -> Self {
        self.continued(program, inputs, output, Some(Continued { array: onto.into(), adds: true }))
    }

    /// As [`stage`](Self::stage), [`version`](Self::version) or [`accumulate`](Self::accumulate), whichever `continues`
    /// asks for: nothing, the elements of a value, or its sums.
    pub fn continued<N: Into<Name>>(
        mut self,
        program: &Program,
        inputs: impl IntoIterator<Item = N>,
        output: impl Into<Name>,
        continues: Option<Continued<Name>>,
    ) -> Self {
        let inputs = inputs.into_iter().map(Into::into).collect();
        let (program, output) = (program.clone(), output.into());
        self.items.push(Item::Stage(Box::new(Stage { program, inputs, output, continues })));
        self
    }

    /// Appends rounds of the stages of `round`: `times` of them, or fewer if its [`until`](Self::until) ends them.
    ///
    /// A round reads values from before the rounds, and values that [`carry`](Self::carry) takes over from the round
    /// before; nothing else that a round writes outlasts it. Afterwards the carried values are those of the last round.
    /// They are outputs of the program if these are the last stages and neither [`keep`](Self::keep) nor
    /// [`output`](Self::output) names some of them. Values that no round writes are moved once, before the rounds, and
    /// a tile of them is fetched in the first round only.
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
        self.items.push(Item::Rounds(times, Box::new(round)));
        self
    }

    /// Makes `next` of one round the `value` of the following one; for a sequence that is [repeated](Self::repeat).
    ///
    /// `next` is the next version of `value`: elements of `next` that its stage does not write keep their values in
    /// `value`, such as the fixed rim of a stencil. Values that are not carried start each round undefined.
    ///
    /// It is renamed, not copied. In the first round, `value` is the one from before the rounds, an input if nothing
    /// writes it. All values are renamed at once, so `next` may itself be a carried value:
    /// `.carry("U", "before").carry("after", "U")`.
    pub fn carry(self, next: impl Into<Name>, value: impl Into<Name>) -> Self {
        let value = value.into();
        self.carry_from(value, next, value)
    }

    /// As [`carry`](Self::carry), but in the first round, `value` is the value `first` from before the rounds, an input
    /// if nothing writes it. Several carried values may begin as one `first`, which keeps its own name.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let twice = kernel! { fn twice(A: [f64; 3]) -> B: [f64; 3] { B[i] = 2.0 * A[i] } }.lower()?;
    /// let add = kernel! { fn add(A: [f64; 3], B: [f64; 3]) -> C: [f64; 3] { C[i] = A[i] + B[i] } }.lower()?;
    ///
    /// let round = Sequence::new().stage(&twice, ["Y"], "Z").carry_from("X", "Z", "Y");
    /// let program = Sequence::new().repeat(4, round).stage(&add, ["X", "Y"], "S").build()?;
    /// let found = polyshard::spmd(1, |world| {
    ///     let x = DistArray::filled(world, program.sharding("X"), 1.0)?;
    ///     Ok(program.run(world, &[&x])?.block().to_vec())
    /// })?;
    /// assert_eq!(found, [[17.0; 3]]); // X, and 2^4 times X
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    pub fn carry_from(mut self, first: impl Into<Name>, next: impl Into<Name>, value: impl Into<Name>) -> Self {
        self.carried.push(Carry { first: first.into(), next: next.into(), value: value.into() });
        self
    }

    /// Ends the rounds after the first one that leaves `scalar`, a value without dimensions that a stage of the round
    /// writes, below a bound; for a sequence that is [repeated](Self::repeat). Its sums are closed for all ranks in
    /// rank order, so all ranks stop after the same round.
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

    /// Makes the value `name`, which a stage writes or rounds carry, an output of the program too, in the sharding in
    /// which it is left. The last stage's output is always an output of the program.
    pub fn keep(mut self, name: impl Into<Name>) -> Self {
        self.kept.push(name.into());
        self
    }

    /// Gives the output that holds the value `value` another name in the program: the name by which `run_named`,
    /// [`Program::outputs`] and emitted source know it. An input may have the same name, but no other output.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let twice = kernel! { fn twice(A: [f64; 3]) -> B: [f64; 3] { B[i] = 2.0 * A[i] } }.lower()?;
    /// let program = Sequence::new().stage(&twice, ["X"], "X1").stage(&twice, ["X1"], "X2").call("X2", "X").build()?;
    /// assert_eq!(program.outputs().map(|output| output.name.as_str()).collect::<Vec<_>>(), ["X"]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    pub fn call(mut self, value: impl Into<Name>, name: impl Into<Name>) -> Self {
        self.called.push((value.into(), name.into()));
        self
    }

    /// Makes `sharding` the sharding in which a run receives the input `name`. It is redistributed for the stages that
    /// read it in another one.
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

    /// Makes the value `name`, which a stage writes or rounds carry, an output of the program in `sharding`; it is
    /// redistributed if it is left in another one.
    pub fn output(mut self, name: impl Into<Name>, sharding: &Sharding) -> Self {
        self.outputs.push((name.into(), sharding.clone()));
        self
    }

    /// Makes runs take the inputs, and return the outputs, in the order of these names; those that are not named follow.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let product = kernel! { fn p(A: [f64; 3], B: [f64; 3]) -> C: [f64; 3] { C[i] = A[i] * B[i] } }.lower()?;
    /// let program = Sequence::new().stage(&product, ["X", "W"], "Y").in_order(["W", "X"], ["Y"]).build()?;
    /// assert_eq!(program.inputs().map(|input| input.name.as_str()).collect::<Vec<_>>(), ["W", "X"]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    pub fn in_order<I: Into<Name>, O: Into<Name>>(
        self,
        inputs: impl IntoIterator<Item = I>,
        outputs: impl IntoIterator<Item = O>,
    ) -> Self {
        let order = [inputs.into_iter().map(Into::into).collect(), outputs.into_iter().map(Into::into).collect()];
        Self { order, ..self }
    }

    /// Sets the options and the cost model of redistributions. The element type is the kernels', whatever the options
    /// say.
    pub fn options(self, options: PlanOptions) -> Self {
        Self { options, ..self }
    }

    /// Checks that the stages fit together, and plans the redistributions between them.
    ///
    /// # Errors
    /// A [`SequenceError`] that names the stage and the value: if there are no stages, a stage is not a kernel or has
    /// another number of inputs than its kernel, a value has another shape than the kernel's tensor or its given
    /// sharding, meshes or element types differ, a value is written twice or after it was read, a kernel cannot continue a
    /// value, an input is not read or
    /// has two shardings, an output is not written, its sharding opens sums that are complete, no plan fits into the
    /// memory that the options allow, rounds carry a value that they do not write, the value that ends them is not a
    /// scalar of theirs, or a name is not given to one output.
    pub fn build(self) -> Result<Program, Box<SequenceError>> {
        build::build(self)
    }
}

impl Stage {
    fn label(&self, position: usize) -> String {
        format!("stage {}, `{}`", position + 1, self.program.kernel().name())
    }

    /// The value of which the output has elements or adds to them, if any.
    fn continues(&self) -> Option<Continued<Name>> {
        self.continues.filter(|continues| continues.adds || self.program.kernel().written().is_some())
    }
}
