//! The checks of a pipeline, and its program: what is run when, and how arrays get from one kernel to the next.

use super::{Pipeline, PipelineError, Stage};
use crate::{Options, Plan, PlanError};
use polyshard_layout::{Name, Sharding};
use polyshard_program::{Array, ArrayId, ArrayKind, Move, Program, Statement};

/// Checks the pipeline and puts its program together.
pub(super) fn build(pipeline: Pipeline) -> Result<Program, Box<PipelineError>> {
    let Pipeline { stages, outputs, options } = pipeline;
    let first = stages.first().ok_or(PipelineError::Empty)?;
    for (position, stage) in stages.iter().enumerate() {
        check_stage(stage, position, first)?;
    }
    let (mesh, dtype) = (first.program.mesh().clone(), first.program.dtype());
    let last = stages.last().map(|stage| stage.output);
    let written = || stages.iter().map(|stage| stage.output);
    if let Some(&value) = outputs.iter().find(|&&output| written().all(|other| other != output)) {
        return Err(Box::new(PipelineError::Output { value, written: listed(written()) }));
    }
    let outputs: Vec<_> = outputs.iter().copied().chain(last).collect();
    let options = Options { element_bytes: dtype.size(), ..options };
    let mut builder = Builder { options, outputs, arrays: Vec::new(), origins: Vec::new(), statements: Vec::new() };
    builder.add_inputs(&stages);
    for (position, stage) in stages.iter().enumerate() {
        builder.add_stage(stage, position)?;
    }
    let Builder { arrays, statements, .. } = builder;
    Ok(Program::new(&mesh, dtype, arrays, statements)
        .unwrap_or_else(|error| panic!("stages that fit make no program: {error}; this is a bug of polyshard")))
}

/// Checks what a stage is by itself, and that it is of the same kind as the first.
fn check_stage(stage: &Stage, position: usize, first: &Stage) -> Result<(), Box<PipelineError>> {
    let [Statement::Nest { nest, .. }] = stage.program.body() else {
        let statements = stage.program.body().len();
        return Err(Box::new(PipelineError::NotAKernel { number: position + 1, statements }));
    };
    let kernel = &nest.kernel;
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
    if kernel.dtype() != first.program.dtype() {
        return Err(Box::new(PipelineError::Type {
            stage: stage.label(position),
            dtype: kernel.dtype(),
            other: first.label(0),
            other_dtype: first.program.dtype(),
        }));
    }
    Ok(())
}

/// The program so far.
struct Builder {
    options: Options,
    outputs: Vec<Name>,
    /// The inputs first; a value that lies in several ways is several arrays, the first as it was given or written.
    arrays: Vec<Array>,
    /// By array, where its value is from, for messages.
    origins: Vec<String>,
    statements: Vec<Statement>,
}

impl Builder {
    fn add(&mut self, name: Name, sharding: &Sharding, kind: ArrayKind, origin: String) -> ArrayId {
        self.arrays.push(Array { name, sharding: sharding.clone(), kind });
        self.origins.push(origin);
        ArrayId(self.arrays.len() - 1)
    }

    /// Adds what stages read and none writes before.
    fn add_inputs(&mut self, stages: &[Stage]) {
        let mut written: Vec<Name> = Vec::new();
        for (position, stage) in stages.iter().enumerate() {
            for (&value, sharding) in stage.inputs.iter().zip(&stage.program.nest().shardings) {
                if !written.contains(&value) && self.home(value).is_none() {
                    let origin = format!("an input that {} reads first", stage.label(position));
                    self.add(value, sharding, ArrayKind::Input, origin);
                }
            }
            written.push(stage.output);
        }
    }

    fn add_stage(&mut self, stage: &Stage, position: usize) -> Result<(), Box<PipelineError>> {
        let nest = stage.program.nest();
        let mut inputs = Vec::with_capacity(stage.inputs.len());
        for ((&value, tensor), wanted) in stage.inputs.iter().zip(nest.kernel.inputs()).zip(&nest.shardings) {
            let home = self.home(value).expect("a value that no stage wrote is an input; this is a bug of polyshard");
            let sharding = &self.arrays[home.0].sharding;
            if sharding.shape() != wanted.shape() {
                return Err(Box::new(PipelineError::Shape {
                    stage: stage.label(position),
                    tensor: tensor.name,
                    wanted: wanted.shape().to_vec(),
                    value,
                    found: sharding.shape().to_vec(),
                    origin: self.origins[home.0].clone(),
                }));
            }
            inputs.push(self.in_sharding(home, wanted, stage, position)?);
        }
        if let Some(home) = self.home(stage.output) {
            return Err(Box::new(PipelineError::Taken {
                stage: stage.label(position),
                value: stage.output,
                origin: self.origins[home.0].clone(),
                existing: listed(self.values()),
            }));
        }
        let kind = if self.outputs.contains(&stage.output) { ArrayKind::Output } else { ArrayKind::Temporary };
        let sharding = nest.shardings.last().expect("a kernel has an output; this is a bug of polyshard");
        let output = self.add(stage.output, sharding, kind, format!("the output of {}", stage.label(position)));
        self.statements.push(Statement::Nest { nest: Box::new(nest.clone()), inputs, output });
        Ok(())
    }

    /// Returns the array of a value in a sharding, and moves it there if none lies so yet.
    fn in_sharding(
        &mut self,
        home: ArrayId,
        wanted: &Sharding,
        stage: &Stage,
        position: usize,
    ) -> Result<ArrayId, Box<PipelineError>> {
        let value = self.arrays[home.0].name;
        let fits = |array: &Array| array.name == value && array.sharding == *wanted;
        if let Some(found) = self.arrays.iter().position(fits) {
            return Ok(ArrayId(found));
        }
        let source = self.arrays[home.0].sharding.clone();
        let moved = self.add(value, wanted, ArrayKind::Temporary, self.origins[home.0].clone());
        let moves = match Plan::between(&source, wanted, &self.options) {
            Ok(plan) => {
                let moves = plan.moves([home, moved], &mut self.arrays);
                self.origins.resize(self.arrays.len(), self.origins[home.0].clone());
                moves
            }
            Err(PlanError::Type(why)) => vec![Move::direct(home, moved, [&source, wanted], vec![why.to_string()])],
            Err(why) => {
                return Err(Box::new(PipelineError::Plan {
                    stage: stage.label(position),
                    value,
                    source_sharding: source.to_string(),
                    target_sharding: wanted.to_string(),
                    why,
                }));
            }
        };
        self.statements.extend(moves.into_iter().map(Box::new).map(Statement::Move));
        Ok(moved)
    }

    /// The array of a value as it was given or written.
    fn home(&self, value: Name) -> Option<ArrayId> {
        self.arrays.iter().position(|array| array.name == value).map(ArrayId)
    }

    /// All values, each once.
    fn values(&self) -> Vec<Name> {
        let mut values = Vec::new();
        for array in &self.arrays {
            if !values.contains(&array.name) {
                values.push(array.name);
            }
        }
        values
    }
}

fn listed(names: impl IntoIterator<Item = Name>) -> String {
    names.into_iter().map(Name::as_str).collect::<Vec<_>>().join(", ")
}
