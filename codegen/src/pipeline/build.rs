//! The checks of a pipeline, and its actions: what is run when, and where arrays are kept meanwhile.

use super::{Action, Conversion, Input, Pipeline, PipelineError, Sequence, Stage, What};
use polyshard_layout::{Name, Sharding};
use polyshard_planner::Options;
use polyshard_runtime::same_owners;

/// Checks the pipeline and lists what is to do.
pub(super) fn build(pipeline: Pipeline) -> Result<Sequence, Box<PipelineError>> {
    let Pipeline { stages, options } = pipeline;
    let first = stages.first().ok_or(PipelineError::Empty)?;
    let (mesh, dtype) = (first.program.mesh().clone(), first.program.kernel().dtype());
    let options = Options { element_bytes: dtype.size(), ..options };
    for (position, stage) in stages.iter().enumerate() {
        check_stage(stage, position, first)?;
    }
    let mut builder =
        Builder { options, inputs: Vec::new(), arrays: Vec::new(), conversions: Vec::new(), actions: Vec::new() };
    builder.add_inputs(&stages)?;
    for (position, stage) in stages.iter().enumerate() {
        builder.add_stage(stage, position)?;
    }
    let Builder { inputs, arrays, conversions, mut actions, .. } = builder;
    free(&mut actions, inputs.len());
    Ok(Sequence { mesh, dtype, stages, inputs, conversions, actions, places: arrays.len() })
}

/// Checks what a stage is by itself, and that it is of the same kind as the first.
fn check_stage(stage: &Stage, position: usize, first: &Stage) -> Result<(), Box<PipelineError>> {
    let kernel = stage.program.kernel();
    if stage.inputs.len() != kernel.inputs().len() {
        let tensors: Vec<_> = kernel.inputs().iter().map(|tensor| tensor.name).collect();
        return Err(Box::new(PipelineError::Inputs {
            stage: stage.label(position),
            wanted: tensors.len(),
            tensors: listed(tensors),
            given: stage.inputs.len(),
            values: listed(stage.inputs.iter().copied()),
        }));
    }
    if stage.program.mesh() != first.program.mesh() {
        return Err(Box::new(PipelineError::Mesh {
            stage: stage.label(position),
            mesh: stage.program.mesh().to_string(),
            other: first.label(0),
            other_mesh: first.program.mesh().to_string(),
        }));
    }
    if kernel.dtype() != first.program.kernel().dtype() {
        return Err(Box::new(PipelineError::Type {
            stage: stage.label(position),
            dtype: kernel.dtype(),
            other: first.label(0),
            other_dtype: first.program.kernel().dtype(),
        }));
    }
    Ok(())
}

/// What is known so far.
struct Builder {
    options: Options,
    inputs: Vec<Input>,
    /// By place.
    arrays: Vec<Array>,
    conversions: Vec<Conversion>,
    actions: Vec<Action>,
}

/// A value in one of its shardings.
struct Array {
    value: Name,
    sharding: Sharding,
    /// Where the value is from, for messages.
    origin: String,
}

impl Builder {
    /// Gives the first places to what stages read and none writes before.
    fn add_inputs(&mut self, stages: &[Stage]) -> Result<(), Box<PipelineError>> {
        let mut written: Vec<Name> = Vec::new();
        for (position, stage) in stages.iter().enumerate() {
            for (&value, sharding) in stage.inputs.iter().zip(stage.program.shardings()) {
                if written.contains(&value) || self.inputs.iter().any(|input| input.name == value) {
                    continue;
                }
                self.inputs.push(Input { name: value, sharding: sharding.clone() });
                let origin = format!("an input that {} reads first", stage.label(position));
                self.arrays.push(Array { value, sharding: sharding.clone(), origin });
            }
            written.push(stage.output);
        }
        Ok(())
    }

    fn add_stage(&mut self, stage: &Stage, position: usize) -> Result<(), Box<PipelineError>> {
        let kernel = stage.program.kernel();
        let mut reads = Vec::with_capacity(stage.inputs.len());
        for ((&value, tensor), wanted) in stage.inputs.iter().zip(kernel.inputs()).zip(stage.program.shardings()) {
            let home = self.home(value).expect("a value that no stage wrote is an input; this is a bug of polyshard");
            let array = &self.arrays[home];
            if array.sharding.shape() != wanted.shape() {
                return Err(Box::new(PipelineError::Shape {
                    stage: stage.label(position),
                    tensor: tensor.name,
                    wanted: wanted.shape().to_vec(),
                    value,
                    found: array.sharding.shape().to_vec(),
                    origin: array.origin.clone(),
                }));
            }
            reads.push(self.laid_out(value, home, wanted, stage, position)?);
        }
        if let Some(home) = self.home(stage.output) {
            return Err(Box::new(PipelineError::Taken {
                stage: stage.label(position),
                value: stage.output,
                origin: self.arrays[home].origin.clone(),
                existing: listed(self.values()),
            }));
        }
        let writes = self.arrays.len();
        let origin = format!("the output of {}", stage.label(position));
        self.arrays.push(Array { value: stage.output, sharding: stage.output_sharding().clone(), origin });
        self.actions.push(Action { what: What::Stage(position), reads, writes, frees: Vec::new() });
        Ok(())
    }

    /// Returns the place of a value in a sharding, and puts a conversion in if there is none yet.
    fn laid_out(
        &mut self,
        value: Name,
        home: usize,
        wanted: &Sharding,
        stage: &Stage,
        position: usize,
    ) -> Result<usize, Box<PipelineError>> {
        let fits = |array: &Array| array.value == value && same_owners(&array.sharding, wanted);
        if let Some(place) = self.arrays.iter().position(fits) {
            return Ok(place);
        }
        let source = &self.arrays[home].sharding;
        let conversion = Conversion::new(value, position, [source, wanted], &self.options);
        self.conversions.push(conversion.map_err(|why| {
            Box::new(PipelineError::Plan {
                stage: stage.label(position),
                value,
                source_sharding: source.to_string(),
                target_sharding: wanted.to_string(),
                why,
            })
        })?);
        let (writes, origin) = (self.arrays.len(), self.arrays[home].origin.clone());
        self.arrays.push(Array { value, sharding: wanted.clone(), origin });
        let what = What::Convert(self.conversions.len() - 1);
        self.actions.push(Action { what, reads: vec![home], writes, frees: Vec::new() });
        Ok(writes)
    }

    /// The place of a value as it was given or written.
    fn home(&self, value: Name) -> Option<usize> {
        self.arrays.iter().position(|array| array.value == value)
    }

    /// All values, each once.
    fn values(&self) -> Vec<Name> {
        let mut values = Vec::new();
        for array in &self.arrays {
            if !values.contains(&array.value) {
                values.push(array.value);
            }
        }
        values
    }
}

/// Lets each action free what it is the last to touch, but for the inputs and for what the last action writes.
fn free(actions: &mut [Action], inputs: usize) {
    let mut touched = vec![];
    let Some(result) = actions.last().map(|action| action.writes) else { return };
    for action in actions.iter_mut().rev() {
        for place in action.reads.iter().copied().chain([action.writes]) {
            if place >= inputs && place != result && !touched.contains(&place) {
                touched.push(place);
                action.frees.push(place);
            }
        }
    }
}

fn listed(names: impl IntoIterator<Item = Name>) -> String {
    names.into_iter().map(Name::as_str).collect::<Vec<_>>().join(", ")
}
