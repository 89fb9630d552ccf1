//! The values that a run is given for the scalars of its kernels.

use crate::comm::{Header, sentence};
use crate::{Element, Error, Result, RunError, World};
use polyshard_layout::Name;
use polyshard_program::{Kernel, KernelError, Number, Program};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Scalars by name, each of some kernel of a program.
pub(super) struct Scalars(Vec<(Name, Number)>);

impl Scalars {
    /// Checks the values of a run.
    pub(super) fn new<T: Element>(program: &Program, values: &[(&str, T)]) -> Result<Self> {
        let values: Vec<_> = values.iter().map(|&(name, value)| (Name::new(name), value.number())).collect();
        let known = |name: Name| program.nests().any(|nest| has(&nest.kernel, name));
        let scalars = Self(values);
        // A name that no kernel has is refused by any of them, with the names that it has.
        let unknown: Vec<_> = scalars.0.iter().copied().filter(|value| !known(value.0)).collect();
        match (program.nests().next(), &unknown[..]) {
            (_, []) => Ok(scalars),
            (Some(nest), unknown) => nest.kernel.with_scalars(unknown).map(|_| scalars).map_err(refused),
            (None, &[(name, _), ..]) => Err(RunError::NoKernel { name }.into()),
        }
    }

    /// Refuses values that are not the same on all ranks, where ranks compare what they call; collective then, if some are
    /// given.
    ///
    /// # Errors
    /// [`RunError::ScalarsDiffer`], the same on all ranks.
    pub(super) fn agree(&self, program: &Program, world: &World) -> Result<()> {
        let comm = world.comm();
        if self.0.is_empty() || !comm.is_checked() {
            return Ok(());
        }
        let mut hasher = DefaultHasher::new();
        let mut names: Vec<Name> =
            program.nests().flat_map(|nest| nest.kernel.scalars()).map(|scalar| scalar.0).collect();
        names.sort_unstable();
        names.dedup();
        names.iter().for_each(|&name| self.header(name).hash(&mut hasher));
        let about = "the scalars of a run";
        let told = comm.gather_headers_about(about, [hasher.finish(), 0, 0, 0])?;
        if told.iter().all(|header| *header == told[0]) {
            return Ok(());
        }
        for name in names {
            let told = comm.gather_headers_about(about, self.header(name))?;
            if told.iter().any(|header| *header != told[0]) {
                let clause = |(rank, header): (usize, &Header)| (comm.world_rank(rank), given(*header));
                let values = sentence(told.iter().enumerate().map(clause), ", ").into();
                return Err(RunError::ScalarsDiffer { name, values }.into());
            }
        }
        Ok(())
    }

    /// What this rank gives for a scalar: nothing, an integer or a float.
    fn header(&self, name: Name) -> Header {
        match self.0.iter().find(|value| value.0 == name) {
            None => [0; 4],
            Some((_, Number::Int(value))) => [1, value.cast_unsigned(), 0, 0],
            Some((_, Number::Float(value))) => [2, value.to_bits(), 0, 0],
        }
    }

    /// The kernel with the values that are for it; none if it keeps those that it has.
    pub(super) fn put_into(&self, kernel: &Kernel) -> Result<Option<Kernel>> {
        let values: Vec<_> = self.0.iter().copied().filter(|value| has(kernel, value.0)).collect();
        if values.is_empty() {
            return Ok(None);
        }
        kernel.with_scalars(&values).map(Some).map_err(refused)
    }
}

/// Says what a rank gives, for one and for several.
fn given([kind, bits, ..]: Header) -> [String; 2] {
    let number = match kind {
        0 => return ["gives none".into(), "give none".into()],
        1 => Number::Int(bits.cast_signed()),
        _ => Number::Float(f64::from_bits(bits)),
    };
    [format!("gives {number}"), format!("give {number}")]
}

fn refused(error: KernelError) -> Error {
    RunError::Scalars(Box::new(error)).into()
}

fn has(kernel: &Kernel, name: Name) -> bool {
    kernel.scalars().iter().any(|scalar| scalar.0 == name)
}
