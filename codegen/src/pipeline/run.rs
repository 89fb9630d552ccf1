//! A pipeline's actions done, on one rank.

use super::{Action, Sequence, What};
use crate::Execute;
use crate::execute::check_registered;
use polyshard_layout::Name;
use polyshard_polyhedral::ScalarType;
use polyshard_runtime::{DistArray, Element, Error, Redistribution, Result, World};

impl Sequence {
    /// Makes the redistributions and their groups, which any number of runs then use; collective over the world.
    ///
    /// # Errors
    /// If the mesh has not as many ranks as the world, or another rank failed.
    pub fn prepare(&self, world: &World) -> Result<Prepared<'_>> {
        world.check_mesh(&self.mesh)?;
        let redistributions = self.conversions.iter().map(|conversion| conversion.prepare(world));
        Ok(Prepared { sequence: self, redistributions: redistributions.collect::<Result<_>>()? })
    }

    /// Runs the stages on all ranks of `world` and returns what the last one writes; collective over the world.
    ///
    /// To run more than once, [`prepare`](Self::prepare).
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare) and [`Prepared::run`].
    pub fn run<T: Element + ScalarType>(&self, world: &World, inputs: &[&DistArray<T>]) -> Result<DistArray<T>> {
        self.prepare(world)?.run(world, inputs)
    }
}

/// A pipeline with its redistributions made, on one rank of a world.
pub struct Prepared<'s> {
    sequence: &'s Sequence,
    /// By conversion.
    redistributions: Vec<Redistribution>,
}

impl Prepared<'_> {
    /// Runs the stages and returns what the last one writes; collective over the world that it was prepared for.
    ///
    /// `inputs` are as [`Sequence::inputs`] says. An array in between is given back after its last use.
    ///
    /// # Errors
    /// If `T` is not the kernels' element type, the inputs are not as many or not sharded as the pipeline wants
    /// them, or communication fails.
    ///
    /// # Panics
    /// If an array is not where it was put: a bug of polyshard.
    pub fn run<T: Element + ScalarType>(&self, world: &World, inputs: &[&DistArray<T>]) -> Result<DistArray<T>> {
        let mut last = None;
        self.walk(world, inputs, |stage, array| {
            if stage + 1 == self.sequence.stages.len() {
                last = array;
            }
        })?;
        Ok(last.expect("a pipeline has a stage; this is a bug of polyshard"))
    }

    /// As [`run`](Self::run), but returns what each stage writes, by name, in the order of the stages.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn run_all<T: Element + ScalarType>(
        &self,
        world: &World,
        inputs: &[&DistArray<T>],
    ) -> Result<Vec<(Name, DistArray<T>)>> {
        let mut outputs = Vec::new();
        self.walk(world, inputs, |stage, array| {
            outputs.extend(array.map(|array| (stage, self.sequence.stages[stage].output, array)));
        })?;
        outputs.sort_by_key(|&(stage, ..)| stage);
        Ok(outputs.into_iter().map(|(_, name, array)| (name, array)).collect())
    }

    /// Does one action after the other. Calls `take` with what a stage wrote when nothing reads it any more.
    fn walk<T: Element + ScalarType>(
        &self,
        world: &World,
        inputs: &[&DistArray<T>],
        mut take: impl FnMut(usize, Option<DistArray<T>>),
    ) -> Result<()> {
        let Sequence { stages, actions, places, .. } = self.sequence;
        self.check(inputs)?;
        let mut arrays: Vec<Option<DistArray<T>>> = (0..*places).map(|_| None).collect();
        let mut writers = vec![None; *places];
        for Action { what, reads, writes, frees } in actions {
            let read = |&place: &usize| match inputs.get(place) {
                Some(input) => *input,
                None => arrays[place].as_ref().expect("what is read is there; this is a bug of polyshard"),
            };
            let reads: Vec<_> = reads.iter().map(read).collect();
            let written = match *what {
                What::Convert(conversion) => self.redistributions[conversion].run(world, reads[0])?,
                What::Stage(stage) => {
                    writers[*writes] = Some(stage);
                    stages[stage].program.run(world, &reads)?
                }
            };
            arrays[*writes] = Some(written);
            for &place in frees {
                let array = arrays[place].take();
                if let Some(stage) = writers[place] {
                    take(stage, array);
                }
            }
        }
        let last = actions.last().expect("a pipeline has a stage; this is a bug of polyshard");
        take(stages.len() - 1, arrays[last.writes].take());
        Ok(())
    }

    fn check<T: Element + ScalarType>(&self, inputs: &[&DistArray<T>]) -> Result<()> {
        let Sequence { stages, inputs: wanted, dtype, .. } = self.sequence;
        if T::DTYPE != *dtype {
            return Err(Error::Usage(format!(
                "the pipeline is over {dtype}, but the arrays hold {}; let them agree",
                T::NAME
            )));
        }
        stages.iter().try_for_each(|stage| check_registered::<T>(&stage.program))?;
        if inputs.len() != wanted.len() {
            let names: Vec<_> = wanted.iter().map(|input| input.name.as_str()).collect();
            return Err(Error::Usage(format!(
                "the pipeline takes {} inputs ({}), but {} are given",
                wanted.len(),
                names.join(", "),
                inputs.len()
            )));
        }
        inputs.iter().zip(wanted).try_for_each(|(input, wanted)| input.expect(wanted.name.as_str(), &wanted.sharding))
    }
}
