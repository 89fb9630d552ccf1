//! The values that a run is given for the scalars of its kernels.
//!
//! ```text
//! alpha          the scalar of every kernel that has one
//! first.alpha    that of the kernel `first`, whatever is given for all
//! Y.alpha        that of the kernel that writes `Y`, if several have its name
//! ```

use crate::comm::sentence;
use crate::world::texts_if_differ;
use crate::{Element, Error, Result, RunError, World};
use polyshard_layout::Name;
use polyshard_program::{Kernel, KernelError, Number, Program};

/// A kernel of a program.
struct Stage<'a> {
    kernel: &'a Kernel,
    /// The prefix of scalars of this kernel alone.
    name: Name,
}

/// Checks the values of a run, and returns the kernels with them, by number; `None` where a kernel keeps all of its own.
pub(super) fn kernels<T: Element>(program: &Program, values: &[(&str, T)]) -> Result<Vec<Option<Kernel>>> {
    let stages = stages(program);
    for &(name, _) in values {
        if stages.iter().all(|stage| stage.scalar(name).is_none()) {
            return Err(unknown(Name::new(name), &stages));
        }
    }
    let kernels = stages.iter().map(|stage| {
        let mut taken: Vec<(Name, Number)> = Vec::new();
        // A value for one kernel takes precedence over one for all.
        for of_one in [true, false] {
            let given = values.iter().filter(|(name, _)| name.contains('.') == of_one);
            let given = given.filter_map(|&(name, value)| Some((stage.scalar(name)?, value.number())));
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
        Stage { kernel: &nest.row.kernel, name }
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

fn refused(error: KernelError) -> Error {
    RunError::Scalars(Box::new(error)).into()
}
