//! The checks of a sequence, and its program: what is run when, and how arrays get from one kernel to the next.

use super::{Sequence, SequenceError, Stage};
use crate::PlanOptions;
use crate::redistribute::redistribution_with;
use polyshard_layout::{DType, Name, Sharding};
use polyshard_program::{Array, ArrayId, ArrayKind, Body, Move, Nest, Program};

/// Checks the sequence and puts its program together.
pub(super) fn build(sequence: Sequence) -> Result<Program, Box<SequenceError>> {
    let Sequence { stages, kept, inputs, outputs, options } = sequence;
    let first = stages.first().ok_or(SequenceError::Empty)?;
    for (position, stage) in stages.iter().enumerate() {
        check_stage(stage, position, first)?;
    }
    let (mesh, dtype) = (first.program.mesh().clone(), first.program.dtype());
    let written = || stages.iter().map(|stage| stage.output);
    let mut named = kept.iter().chain(outputs.iter().map(|(name, _)| name));
    if let Some(&value) = named.find(|&&output| written().all(|other| other != output)) {
        return Err(Box::new(SequenceError::Output { value, written: listed(written()) }));
    }
    let options = PlanOptions { element_bytes: dtype.size(), ..options };
    // What the last stage writes is an output, as it is left if nothing else is said.
    let last = stages.last().map(|last| last.output);
    let last = last.filter(|last| outputs.iter().all(|(name, _)| name != last));
    let kept = kept.into_iter().chain(last).collect();
    let mut builder =
        Builder { options, dtype, kept, outputs, arrays: Vec::new(), origins: Vec::new(), body: Body::default() };
    builder.add_inputs(&stages, &inputs)?;
    for (position, stage) in stages.iter().enumerate() {
        builder.add_stage(stage, position)?;
    }
    let Builder { arrays, body, .. } = builder;
    Ok(Program::new(&mesh, dtype, arrays, body)
        .unwrap_or_else(|error| panic!("stages that fit make no program: {error}; this is a bug of polyshard")))
}

/// Checks what a stage is by itself, and that it is of the same kind as the first.
fn check_stage(stage: &Stage, position: usize, first: &Stage) -> Result<(), Box<SequenceError>> {
    let Some(nest) = stage.program.body().only_nest() else {
        let statements = stage.program.nests().len() + stage.program.moves().len();
        return Err(Box::new(SequenceError::NotAKernel { number: position + 1, statements }));
    };
    let kernel = &nest.kernel;
    if stage.inputs.len() != kernel.inputs().len() {
        let tensors: Vec<_> = kernel.inputs().iter().map(|tensor| tensor.name).collect();
        return Err(Box::new(SequenceError::Inputs {
            stage: stage.label(position),
            expected: tensors.len(),
            tensors: listed(tensors),
            given: stage.inputs.len(),
            values: listed(stage.inputs.iter().copied()),
        }));
    }
    if stage.program.mesh() != first.program.mesh() {
        return Err(Box::new(SequenceError::Mesh {
            stage: stage.label(position),
            mesh: stage.program.mesh().to_string(),
            other: first.label(0),
            other_mesh: first.program.mesh().to_string(),
        }));
    }
    if kernel.dtype() != first.program.dtype() {
        return Err(Box::new(SequenceError::Type {
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
    options: PlanOptions,
    dtype: DType,
    /// Values that are outputs in the sharding in which their stages leave them.
    kept: Vec<Name>,
    /// Values that are outputs in a sharding of their own.
    outputs: Vec<(Name, Sharding)>,
    /// The inputs first; a value that lies in several ways is several arrays, the first as it was given or written.
    arrays: Vec<Array>,
    /// By array, where its value is from, for messages.
    origins: Vec<String>,
    body: Body,
}

impl Builder {
    fn add(&mut self, name: Name, sharding: &Sharding, kind: ArrayKind, origin: String) -> ArrayId {
        self.arrays.push(Array { name, sharding: sharding.clone(), kind });
        self.origins.push(origin);
        ArrayId(self.arrays.len() - 1)
    }

    /// Adds what stages read and none writes before, in the sharding that is given for it, if one is.
    fn add_inputs(&mut self, stages: &[Stage], given: &[(Name, Sharding)]) -> Result<(), Box<SequenceError>> {
        let mut written: Vec<Name> = Vec::new();
        for (position, stage) in stages.iter().enumerate() {
            for (&value, read) in stage.inputs.iter().zip(&stage.program.nest().shardings) {
                if !written.contains(&value) && self.home(value).is_none() {
                    let origin = format!("an input that {} reads first", stage.label(position));
                    let sharding = given.iter().find(|(name, _)| *name == value).map_or(read, |(_, sharding)| sharding);
                    self.add(value, sharding, ArrayKind::Input, origin);
                }
            }
            written.push(stage.output);
        }
        for (nth, (value, sharding)) in given.iter().enumerate() {
            if self.home(*value).is_none() {
                return Err(Box::new(SequenceError::Input { value: *value, inputs: listed(self.values()) }));
            }
            if let Some((_, first)) = given[..nth].iter().find(|(name, _)| name == value) {
                let [first, second] = [first, sharding].map(Sharding::to_string);
                return Err(Box::new(SequenceError::InputTwice { value: *value, first, second }));
            }
        }
        Ok(())
    }

    fn add_stage(&mut self, stage: &Stage, position: usize) -> Result<(), Box<SequenceError>> {
        let nest = stage.program.nest();
        let mut arrays = Vec::with_capacity(nest.arrays.len());
        for ((&value, tensor), read) in stage.inputs.iter().zip(nest.kernel.inputs()).zip(&nest.shardings) {
            let home = self.home(value).expect("a value that no stage wrote is an input; this is a bug of polyshard");
            let sharding = &self.arrays[home.0].sharding;
            if sharding.shape() != read.shape() {
                return Err(Box::new(SequenceError::Shape {
                    stage: stage.label(position),
                    tensor: tensor.name,
                    expected: read.shape().to_vec(),
                    value,
                    found: sharding.shape().to_vec(),
                    origin: self.origins[home.0].clone(),
                }));
            }
            arrays.push(self.in_sharding(home, read, ArrayKind::Temporary, || stage.label(position))?);
        }
        if let Some(home) = self.home(stage.output) {
            return Err(Box::new(SequenceError::Taken {
                stage: stage.label(position),
                value: stage.output,
                origin: self.origins[home.0].clone(),
                existing: listed(self.values()),
            }));
        }
        let sharding = nest.shardings.last().expect("a kernel has an output; this is a bug of polyshard");
        let shardings = self.shardings_of(stage.output);
        let kind = match self.kept.contains(&stage.output) || shardings.iter().any(|asked| asked == sharding) {
            true => ArrayKind::Output,
            false => ArrayKind::Temporary,
        };
        let output = self.add(stage.output, sharding, kind, format!("the output of {}", stage.label(position)));
        arrays.push(output);
        self.body.run(Nest { arrays, ..nest.clone() });
        shardings.iter().try_for_each(|sharding| self.add_output(output, sharding))
    }

    /// The shardings of its own in which a value is an output.
    fn shardings_of(&self, value: Name) -> Vec<Sharding> {
        self.outputs.iter().filter(|(name, _)| *name == value).map(|(_, sharding)| sharding.clone()).collect()
    }

    /// Makes the value that a stage leaves in `home` an output in this sharding.
    fn add_output(&mut self, home: ArrayId, sharding: &Sharding) -> Result<(), Box<SequenceError>> {
        let Array { name: value, sharding: left, .. } = &self.arrays[home.0];
        if left.shape() != sharding.shape() {
            let (found, wanted) = (left.shape().to_vec(), sharding.shape().to_vec());
            return Err(Box::new(SequenceError::OutputShape { value: *value, found, wanted }));
        }
        if sharding.partial().iter().any(|axis| !left.partial().contains(axis)) {
            let [source_sharding, target_sharding] = [left, sharding].map(Sharding::to_string);
            return Err(Box::new(SequenceError::Opened { value: *value, source_sharding, target_sharding }));
        }
        self.in_sharding(home, sharding, ArrayKind::Output, || "the output".into()).map(drop)
    }

    /// Returns the array of a value in a sharding; if there is none yet, adds one of this kind and moves the value there.
    fn in_sharding(
        &mut self,
        home: ArrayId,
        wanted: &Sharding,
        kind: ArrayKind,
        reader: impl FnOnce() -> String,
    ) -> Result<ArrayId, Box<SequenceError>> {
        let value = self.arrays[home.0].name;
        let fits = |array: &Array| array.name == value && array.sharding == *wanted;
        if let Some(found) = self.arrays.iter().position(fits) {
            return Ok(ArrayId(found));
        }
        let (source, origin) = (self.arrays[home.0].sharding.clone(), self.origins[home.0].clone());
        let program = redistribution_with(&source, wanted, self.dtype, &self.options).map_err(|why| {
            let (source_sharding, target_sharding) = (source.to_string(), wanted.to_string());
            Box::new(SequenceError::Plan { reader: reader(), value, source_sharding, target_sharding, why })
        })?;
        // The program's first array is `home`, and its last is the one that was asked for.
        let mut ids = vec![home];
        for array in &program.arrays()[1..] {
            let kind = if array.kind == ArrayKind::Output { kind } else { array.kind };
            ids.push(self.add(value, &array.sharding, kind, origin.clone()));
        }
        for moved in program.moves() {
            let (source, target) = (ids[moved.source.0], ids[moved.target.0]);
            self.body.transfer(Move { source, target, ..moved.clone() });
        }
        Ok(*ids.last().unwrap_or(&home))
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
