//! The values that a run is given for the scalars of its kernels.
//!
//! ```text
//! alpha          the scalar of every kernel that has one
//! first.alpha    that of the kernels `first`, such as the statements of a block, whatever is given for all
//! Y.alpha        that of the kernels that write `Y`, of several with one name
//! ```

use crate::comm::sentence;
use crate::world::texts_if_differ;
use crate::{Element, Error, Result, RunError, World};
use polyshard_layout::{Name, each_once};
use polyshard_program::{Kernel, KernelError, Number, Program};
use std::collections::HashMap;

/// A kernel of a program.
struct Stage<'a> {
    kernel: &'a Kernel,
    /// The array that it writes, if other kernels have its name.
    array: Option<Name>,
}

/// Checks the values of a run, and returns the kernels with them, by number; `None` where a kernel keeps all of its own.
pub(super) fn kernels<T: Element>(program: &Program, values: &[(&str, T)]) -> Result<Vec<Option<Kernel>>> {
    let stages = stages(program);
    for &(name, _) in values {
        if stages.iter().all(|stage| stage.prefixes().all(|prefix| stage.scalar(prefix, name).is_none())) {
            return Err(unknown(Name::new(name), &stages));
        }
    }
    let kernels = stages.iter().map(|stage| {
        let mut taken: Vec<(Name, Number)> = Vec::new();
        for prefix in stage.prefixes() {
            let given = values.iter();
            let given = given.filter_map(|&(name, value)| Some((stage.scalar(prefix, name)?, value.number())));
            let given: Vec<_> = given.filter(|(name, _)| taken.iter().all(|other| other.0 != *name)).collect();
            taken.extend(given);
        }
        let kernel = (!taken.is_empty()).then(|| stage.kernel.with_scalars(&taken));
        kernel.transpose().map_err(refused)
    });
    kernels.collect()
}

/// Checks that the values are the same on all ranks, if ranks compare their calls; collective then, unless no values are given.
///
/// # Errors
/// [`RunError::ScalarsDiffer`], the same on all ranks.
pub(super) fn agree(program: &Program, kernels: &[Option<Kernel>], world: &World) -> Result<()> {
    let comm = world.comm();
    if kernels.iter().all(Option::is_none) || !comm.is_checked() {
        return Ok(());
    }
    let kernels = program.nests().zip(kernels).map(|(nest, given)| given.as_ref().unwrap_or(&nest.row.kernel));
    let scalars: Vec<_> = kernels.flat_map(Kernel::scalars).collect();
    let says: Vec<_> = scalars.iter().map(|(_, value)| value.to_string()).collect();
    let Some(told) = texts_if_differ(comm, "the scalars of a run", &says.join(" "))? else { return Ok(()) };
    let told: Vec<Vec<_>> = told.iter().map(|says| says.split(' ').collect()).collect();
    let differs = (0..says.len()).find(|&nth| told.iter().any(|says| says[nth] != told[0][nth]));
    let nth = differs.expect("a text differs in a value; this is a bug in polyshard");
    let clause = |(rank, says): (usize, &Vec<&str>)| {
        (comm.world_rank(rank), [format!("has {}", says[nth]), format!("have {}", says[nth])])
    };
    let values = sentence(told.iter().enumerate().map(clause), ", ").into();
    Err(RunError::ScalarsDiffer { name: scalars[nth].0, values }.into())
}

impl Stage<'_> {
    /// The prefixes of its scalars, by precedence; without one, they are those of all kernels.
    fn prefixes(&self) -> impl Iterator<Item = Option<Name>> {
        self.array.map(Some).into_iter().chain([Some(self.kernel.name()), None])
    }

    /// The scalar of this kernel that `name` refers to by this prefix.
    fn scalar(&self, prefix: Option<Name>, name: &str) -> Option<Name> {
        let name = match (prefix, name.split_once('.')) {
            (Some(prefix), Some((stage, scalar))) if prefix == *stage => scalar,
            (None, None) => name,
            _ => return None,
        };
        self.kernel.scalars().iter().map(|scalar| scalar.0).find(|scalar| *scalar == *name)
    }
}

/// The kernels of a program.
fn stages(program: &Program) -> Vec<Stage<'_>> {
    let mut counts: HashMap<Name, usize> = HashMap::new();
    program.nests().for_each(|nest| *counts.entry(nest.kernel.name()).or_default() += 1);
    let stages = program.nests().map(|nest| {
        let array = (counts[&nest.kernel.name()] > 1).then(|| program.array(nest.writes()).name);
        Stage { kernel: &nest.row.kernel, array }
    });
    stages.collect()
}

/// The error for an unknown scalar `name`, with the scalars that exist.
fn unknown(name: Name, stages: &[Stage<'_>]) -> Error {
    let all = stages.iter().flat_map(|stage| {
        let scalars = stage.kernel.scalars().iter();
        scalars.map(|(scalar, _)| format!("{}.{scalar}", stage.array.unwrap_or(stage.kernel.name())))
    });
    let all = each_once(all);
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

fn refused(error: KernelError) -> Error {
    RunError::Scalars(Box::new(error)).into()
}
