//! Pipelines: kernels run in sequence, with redistributions put in where shardings do not meet.
//!
//! A kernel's schedule says how its inputs and its output lie, and need not care for the kernels before and after.
//! Where one leaves an array in another sharding than the next one reads it in, a redistribution is planned.
//! Nothing here changes a kernel's schedule to save one.
//!
//! | module | holds |
//! | --- | --- |
//! | `build` | the checks, and the actions in order |
//! | `conversion` | one redistribution |
//! | `explain` | all of it in words |
//! | `run` | the actions done |

mod build;
mod conversion;
mod error;
mod explain;
mod run;
#[cfg(test)]
mod tests;

pub use conversion::{Conversion, Way};
pub use error::PipelineError;
pub use run::Prepared;

use polyshard_layout::{Mesh, Name, Sharding};
use polyshard_planner::Options;
use polyshard_polyhedral::{DType, Program};

/// Kernels to run one after the other, each on values that are outputs of earlier ones or come from outside.
///
/// ```text
/// stage 1   Y = first(X, W1)       leaves Y by columns
///           Y by columns to Y by rows
/// stage 2   Z = second(Y, W2)      reads Y by rows
/// ```
///
/// A value that no stage before writes is an input of the whole, laid out as the first stage that reads it wants.
///
/// ```
/// use polyshard_codegen::Pipeline;
/// use polyshard_layout::Mesh;
/// use polyshard_polyhedral::{Schedule, Var, example};
/// use polyshard_runtime::{DistArray, Error, spmd};
/// let mesh = Mesh::new([("x", 2)]);
/// let [x] = mesh.axes();
/// let [m, k, n] = ["m", "k", "n"].map(Var::new);
/// let square = Schedule::from_spec(example::matmul(4, 4, 4)).distribute([m], [Var::new("mo")], [Var::new("mi")], &mesh);
/// let rows = square.clone().shard("A", [m.at(x)]).shard("C", [m.at(x)]).lower()?;
/// let columns = square.shard("A", [k.at(x)]).shard("C", [m.at(x)]).lower()?;
///
/// let cube = Pipeline::new().stage(&rows, ["X", "W"], "Y").stage(&columns, ["Y", "W"], "Z").build()?;
/// assert_eq!(cube.conversions().len(), 1); // Y by rows to Y by columns
/// let found = spmd(2, |world| {
///     let x = DistArray::from_fn(world, cube.sharding("X"), |at| (at[0] + at[1]) as f32)?;
///     let w = DistArray::from_fn(world, cube.sharding("W"), |at| if at[0] == at[1] { 2.0 } else { 0.0 })?;
///     let prepared = cube.prepare(world)?; // once; to be run often
///     let z = prepared.run(world, &[&x, &w])?;
///     Ok::<_, Error>(z.get(&[2 * world.rank(), 3]))
/// })?;
/// assert_eq!(found, [Some(12.0), Some(20.0)]); // 4 * (0 + 3) and 4 * (2 + 3)
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a pipeline is checked and planned by `build`"]
pub struct Pipeline {
    stages: Vec<Stage>,
    options: Options,
}

/// A kernel and the values that it reads and writes.
#[derive(Clone, Debug)]
struct Stage {
    program: Program,
    inputs: Vec<Name>,
    output: Name,
}

impl Pipeline {
    /// Returns a pipeline without stages.
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

    /// Sets what redistributions may do and what they are judged by. The bytes of an element are the kernels', whatever
    /// the options say.
    pub fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Checks that the stages fit together, and plans the redistributions between them.
    ///
    /// # Errors
    /// A [`PipelineError`] that names the stage and the value: if there is no stage, one has another number of inputs
    /// than its kernel, a value has another shape than the kernel's tensor, meshes or element types differ, a value is
    /// written twice or after it was read, or no plan fits into the memory that the options allow.
    pub fn build(self) -> Result<Sequence, Box<PipelineError>> {
        build::build(self)
    }
}

/// A pipeline that was checked: what to run in which order, and how arrays get from one kernel to the next.
#[derive(Clone, Debug)]
pub struct Sequence {
    mesh: Mesh,
    dtype: DType,
    stages: Vec<Stage>,
    inputs: Vec<Input>,
    conversions: Vec<Conversion>,
    actions: Vec<Action>,
    /// The places that arrays take, those of the inputs first.
    places: usize,
}

/// An array that a pipeline reads and does not write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The value's name.
    pub name: Name,
    /// How it is to be laid out.
    pub sharding: Sharding,
}

/// One thing to do. Arrays are kept in numbered places.
#[derive(Clone, Debug)]
struct Action {
    what: What,
    reads: Vec<usize>,
    writes: usize,
    /// Places whose arrays nothing reads later.
    frees: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// The stage with this position.
    Stage(usize),
    /// The conversion with this position.
    Convert(usize),
}

impl Sequence {
    /// Returns the arrays that a run takes, in the order in which stages name them first.
    #[must_use]
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Returns the sharding of a value: that in which an input is given, or an output written.
    ///
    /// # Panics
    /// If no stage reads or writes a value of this name.
    #[track_caller]
    #[must_use]
    pub fn sharding(&self, name: &str) -> &Sharding {
        let inputs = self.inputs.iter().map(|input| (input.name, &input.sharding));
        let outputs = self.stages.iter().map(|stage| (stage.output, stage.output_sharding()));
        let values: Vec<_> = inputs.chain(outputs).collect();
        match values.iter().find(|(value, _)| *value == *name) {
            Some((_, sharding)) => sharding,
            None => {
                let names: Vec<_> = values.iter().map(|(value, _)| value.as_str()).collect();
                panic!("no value `{name}`; the values are {}", names.join(", "))
            }
        }
    }

    /// Returns the redistributions that were put in, in the order in which they run.
    #[must_use]
    pub fn conversions(&self) -> &[Conversion] {
        &self.conversions
    }

    /// Returns the mesh of all stages.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Returns the element type of all values.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }
}

impl Stage {
    fn output_sharding(&self) -> &Sharding {
        self.program.shardings().last().expect("a kernel has an output; this is a bug of polyshard")
    }

    fn label(&self, position: usize) -> String {
        format!("stage {}, `{}`", position + 1, self.program.kernel().name())
    }
}
