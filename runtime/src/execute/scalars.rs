//! The values that a run is given for the scalars of its kernels.
//!
//! ```text
//! alpha          the scalar of every kernel that has one
//! first.alpha    that of the kernel `first`, whatever is given for all
//! Y.alpha        that of the kernel that writes `Y`, if several have its name
//! ```

use crate::comm::{exchange_words, sentence};
use crate::{Element, Error, Result, RunError, World};
use polyshard_layout::Name;
use polyshard_program::{Kernel, KernelError, KernelId, Number, Program};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The kernels that run with scalars other than those that they captured, each with the number of its nest.
pub(super) struct Scalars(Vec<(KernelId, Kernel)>);

/// A kernel of a program.
struct Stage<'a> {
    nest: KernelId,
    kernel: &'a Kernel,
    /// The prefix of scalars of this kernel alone.
    name: Name,
}

impl Scalars {
    /// Checks the values of a run.
    pub(super) fn new<T: Element>(program: &Program, values: &[(&str, T)]) -> Result<Self> {
        let stages = if values.is_empty() { Vec::new() } else { stages(program) };
        for &(name, _) in values {
            if stages.iter().all(|stage| stage.scalar(name).is_none()) {
                return Err(unknown(Name::new(name), &stages));
            }
        }
        let mut kernels = Vec::new();
        for stage in &stages {
            let mut taken: Vec<(Name, Number)> = Vec::new();
            // A value for one kernel takes precedence over one for all.
            for of_one in [true, false] {
                let given = values.iter().filter(|(name, _)| name.contains('.') == of_one);
                let given = given.filter_map(|&(name, value)| Some((stage.scalar(name)?, value.number())));
                let given: Vec<_> = given.filter(|(name, _)| taken.iter().all(|other| other.0 != *name)).collect();
                taken.extend(given);
            }
            if !taken.is_empty() {
                kernels.push((stage.nest, stage.kernel.with_scalars(&taken).map_err(refused)?));
            }
        }
        Ok(Self(kernels))
    }

    /// Checks that the values are the same on all ranks, if ranks compare their calls; collective then, unless no values are given.
    ///
    /// # Errors
    /// [`RunError::ScalarsDiffer`], the same on all ranks.
    pub(super) fn agree(&self, program: &Program, world: &World) -> Result<()> {
        let comm = world.comm();
        if self.0.is_empty() || !comm.is_checked() {
            return Ok(());
        }
        let mut values = Vec::new();
        for Stage { nest, kernel, .. } in stages(program) {
            values.extend(
                self.kernel(nest).unwrap_or(kernel).scalars().iter().map(|&(name, value)| (name, words(value))),
            );
        }
        let mut hasher = DefaultHasher::new();
        values.iter().for_each(|(_, value)| value.hash(&mut hasher));
        let about = "the scalars of a run";
        let told = exchange_words(comm, about, [hasher.finish()])?;
        if told.iter().all(|other| *other == told[0]) {
            return Ok(());
        }
        for (name, value) in values {
            let told = exchange_words(comm, about, value)?;
            if told.iter().any(|other| *other != told[0]) {
                let clause = |(rank, value): (usize, &[u64; 2])| (comm.world_rank(rank), had(*value));
                let values = sentence(told.iter().enumerate().map(clause), ", ").into();
                return Err(RunError::ScalarsDiffer { name, values }.into());
            }
        }
        Ok(())
    }

    /// The kernel of a nest with the values given for it; `None` if it keeps its own.
    pub(super) fn kernel(&self, nest: KernelId) -> Option<&Kernel> {
        self.0.iter().find(|(number, _)| *number == nest).map(|(_, kernel)| kernel)
    }
}

impl Stage<'_> {
    /// The scalar of this kernel that `name` refers to.
    fn scalar(&self, name: &str) -> Option<Name> {
        let name = match name.split_once('.') {
            Some((stage, scalar)) => Some(scalar).filter(|_| self.name == *stage)?,
            None => name,
        };
        self.kernel.scalars().iter().map(|scalar| scalar.0).find(|scalar| *scalar == *name)
    }
}

/// The kernels of a program, each under its own name, or under the array that it writes if several have that name.
fn stages(program: &Program) -> Vec<Stage<'_>> {
    let is_shared = |name| program.nests().filter(|nest| nest.kernel.name() == name).count() > 1;
    let stages = program.nests().map(|nest| {
        let own = nest.kernel.name();
        let name = if is_shared(own) { program.array(nest.writes()).name } else { own };
        Stage { nest: nest.id, kernel: &nest.row.kernel, name }
    });
    stages.collect()
}

/// The error for an unknown scalar `name`, with the scalars that exist.
fn unknown(name: Name, stages: &[Stage<'_>]) -> Error {
    let all = stages.iter().flat_map(|stage| stage.kernel.scalars().iter().map(|scalar| (stage.name, scalar.0)));
    let all: Vec<_> = all.map(|(stage, scalar)| format!("{stage}.{scalar}")).collect();
    match stages {
        [] => RunError::NoKernel { name }.into(),
        [only] => refused(
            only.kernel
                .with_scalars(&[(name, Number::Int(0))])
                .expect_err("a kernel refuses a scalar that it has not; this is a bug in polyshard"),
        ),
        _ if all.is_empty() => refused(KernelError::NoScalar { name, scalars: "the kernels capture none".into() }),
        _ => refused(KernelError::NoScalar { name, scalars: format!("the scalars are {}", all.join(", ")) }),
    }
}

/// A value as ranks exchange it: its kind and its bits.
fn words(value: Number) -> [u64; 2] {
    match value {
        Number::Int(value) => [1, value.cast_unsigned()],
        Number::Float(value) => [2, value.to_bits()],
    }
}

/// A rank's value in words, for one rank and for several.
fn had([kind, bits]: [u64; 2]) -> [String; 2] {
    let number = match kind {
        1 => Number::Int(bits.cast_signed()),
        _ => Number::Float(f64::from_bits(bits)),
    };
    [format!("has {number}"), format!("have {number}")]
}

fn refused(error: KernelError) -> Error {
    RunError::Scalars(Box::new(error)).into()
}
