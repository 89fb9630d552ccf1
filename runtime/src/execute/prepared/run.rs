//! A run of a prepared program: its steps, one after the other. Tests: `tests/it/properties.rs`.

use super::Prepared;
use crate::comm::Work;
use crate::execute::arrays::Arrays;
use crate::execute::kernel::Walk;
use crate::execute::step::{MoveStep, Step};
use crate::tile::When;
use crate::{DistArray, Element, Result};
use polyshard_layout::Name;
use polyshard_program::{ArrayId, KernelId, Rounds, Statement, Until};
use smallvec::SmallVec;
use std::panic::Location;
use std::rc::Rc;

/// The arguments of a run.
struct Run<'r, T> {
    inputs: &'r [&'r DistArray<T>],
    /// The line of the call.
    at: &'static Location<'static>,
}

const GIVEN: &str = "an array that is written is given or made; this is a bug in polyshard";

impl<'a, T: Element> Prepared<'a, T> {
    /// Runs the program for the call at a line. An output that is not given in `into` is made and returned.
    pub(crate) fn walk(
        &mut self,
        inputs: &[&DistArray<T>],
        into: Option<&mut DistArray<T>>,
        at: &'static Location<'static>,
    ) -> Result<Vec<(Name, DistArray<T>)>> {
        let program = self.program;
        self.check_inputs(inputs)?;
        self.engine.start();
        let (steps, run) = (Rc::clone(&self.steps), Run { inputs, at });
        let mut versions = program.body().kernels.iter().zip(&self.versions).filter(|(_, before)| before.is_some());
        let mut is_version = |id| versions.any(|(row, _)| row.writes() == id);
        let of_others = self.arrays.outputs.first().copied().filter(|&id| program.is_carried(id) || is_version(id));
        let ran = match (into, of_others) {
            // Arrays that are carried from round to round change their memory, and versions begin as other arrays.
            (Some(output), Some(id)) => self.walk_steps(&steps, &run, None, true).map(|()| {
                let made = self.arrays.made[id.0].take();
                let made = made.expect("rounds leave the output; this is a bug in polyshard");
                match program.writers(id) {
                    None => output.block_mut().copy_from_slice(made.block()),
                    // Elements that nothing writes stay unchanged.
                    Some(writers) => {
                        writers.into_iter().for_each(|kernel| self.engine.copy_written(kernel.0, output, &made));
                    }
                }
                self.put_back(id, made);
            }),
            (into, _) => self.walk_steps(&steps, &run, into, true),
        };
        self.world.comm().note(None);
        // A failed run leaves arrays between statements, whose memory the next run reuses.
        if ran.is_err() {
            (0..self.arrays.made.len()).for_each(|nth| self.free(ArrayId(nth)));
        }
        ran?;
        self.engine.end();
        let Arrays { outputs, made, .. } = &mut self.arrays;
        let outputs = outputs.iter().filter_map(|&id| Some((program.array(id).name, made[id.0].take()?)));
        Ok(outputs.collect())
    }

    /// Runs steps, in the first round or in a later one, and leaves the arrays that they make and do not free.
    fn walk_steps(
        &mut self,
        steps: &[Step<'a>],
        run: &Run<'_, T>,
        mut into: Option<&mut DistArray<T>>,
        is_first: bool,
    ) -> Result<()> {
        for step in steps {
            let into = into.as_deref_mut();
            match step {
                Step::Kernels { together, statements } => {
                    self.run_kernels(together, statements, run, into, is_first)?
                }
                Step::Begin(moved, when) => self.run_move(*moved, Some(*when), run, into)?,
                Step::End(moved) => self.run_move(*moved, None, run, into)?,
                Step::Free(id) => self.free(*id),
                Step::Rounds(id, round) => {
                    let rounds = &self.program.body().rounds[id.0];
                    (self.rounds[id.0], self.scalars[id.0]) = self.repeat(rounds, round, run, into)?;
                }
            }
        }
        Ok(())
    }

    /// Begins a move, to end now or later, or ends it.
    fn run_move(
        &mut self,
        moved: MoveStep,
        begins: Option<When>,
        run: &Run<'_, T>,
        into: Option<&mut DistArray<T>>,
    ) -> Result<()> {
        let MoveStep { number, source, target: written } = moved;
        let is_given = into.is_some() && self.arrays.outputs.contains(&written);
        let mut made = match begins {
            _ if is_given => None,
            None => self.arrays.made[written.0].take(),
            Some(_) => Some(self.target_of_move(number, written)?),
        };
        let (target, given) = match (&mut made, into) {
            (Some(made), into) => (made, into.map(|given| &*given)),
            (None, into) => (into.expect(GIVEN), None),
        };
        let source = self.arrays.get(source, run.inputs, given);
        let tensor = Some(self.program.array(written).name);
        self.world.comm().note(Some(Work { kernel: None, tensor, at: run.at }));
        let ran = match begins {
            Some(when) => self.engine.begun_move(number, source, target, when),
            None => self.engine.ended_move(number, source, target),
        };
        self.arrays.made[written.0] = made;
        ran
    }

    /// Runs statements of kernels that run together.
    fn run_kernels(
        &mut self,
        together: &[KernelId],
        statements: &[Statement],
        run: &Run<'_, T>,
        into: Option<&mut DistArray<T>>,
        is_first: bool,
    ) -> Result<()> {
        let body = self.program.body();
        let writes = |kernel: KernelId| body.kernels[kernel.0].writes();
        let mut made: SmallVec<[Option<DistArray<T>>; 1]> = SmallVec::new();
        for (position, &kernel) in together.iter().enumerate() {
            self.kernels[kernel.0].position = position;
            let is_given = into.is_some() && self.arrays.outputs.contains(&writes(kernel));
            let mut target = if is_given { None } else { Some(self.target_of_kernel(kernel, writes(kernel))?) };
            if let Some(before) = self.versions[kernel.0] {
                // The given output is not a version.
                let target = target.as_mut().expect(GIVEN);
                let before = self.arrays.get(before, run.inputs, into.as_deref());
                match body.kernels[kernel.0].adds() {
                    true => target.block_mut().copy_from_slice(before.block()),
                    false => self.engine.begin_version(kernel.0, target, before),
                }
            }
            made.push(target);
        }
        let is_given = made.iter().any(Option::is_none);
        let (mut into, given) = if is_given { (into, None) } else { (None, into.map(|given| &*given)) };
        let ran = (|| {
            let mut opened = self.engine.begin(run.at);
            for (&kernel, made) in together.iter().zip(&mut made) {
                let target = made.as_mut().or(into.take()).expect(GIVEN);
                let reads = body.reads_from_before(kernel);
                let reads: SmallVec<[_; 4]> = reads.map(|(_, id)| self.arrays.get(id, run.inputs, given)).collect();
                opened.opened(kernel.0, &reads, target)?;
            }
            let mut walk = Walk {
                body,
                kernels: &mut self.kernels,
                together,
                tiles: &self.tiles,
                run: &mut opened,
                leaves: &mut self.leaves,
                tell: self.tell.as_deref(),
                is_first,
            };
            walk.statements(statements)?;
            opened.close()
        })();
        for (&kernel, made) in together.iter().zip(made) {
            self.arrays.made[writes(kernel).0] = made;
        }
        ran
    }

    /// Runs rounds, and returns their number, and the scalar that could have ended them.
    fn repeat(
        &mut self,
        repeat: &'a Rounds,
        round: &[Step<'a>],
        run: &Run<'_, T>,
        mut into: Option<&mut DistArray<T>>,
    ) -> Result<(u64, Option<f64>)> {
        for carried in &repeat.carried {
            self.arrays.names[carried.value.0] = Some(carried.first);
        }
        let (mut rounds, mut scalar) = (0, None);
        while rounds < repeat.times {
            self.walk_steps(round, run, into.as_deref_mut(), rounds == 0)?;
            rounds += 1;
            // It has the same bits on all ranks, so all stop here.
            let last = |until: &Until| self.arrays.get(until.scalar, run.inputs, into.as_deref()).block()[0].to_f64();
            scalar = repeat.until.as_ref().and_then(last);
            self.rename(repeat);
            if repeat.until.zip(scalar).is_some_and(|(until, scalar)| scalar < until.below) {
                break;
            }
        }
        // A value that is still an alias gets an array of its own afterwards.
        for carried in &repeat.carried {
            let value = carried.value;
            if self.arrays.made[value.0].is_none() {
                let mut copy = self.array_in_room(value, None)?;
                copy.block_mut().copy_from_slice(self.arrays.get(value, run.inputs, into.as_deref()).block());
                self.arrays.made[value.0] = Some(copy);
            }
            self.arrays.names[value.0] = None;
        }
        Ok((rounds, scalar))
    }

    /// Replaces each value by its next one, without a copy, and frees everything else that the round left.
    fn rename(&mut self, repeat: &Rounds) {
        let Arrays { made, names, .. } = &mut self.arrays;
        let next = repeat.carried.iter().map(|carried| (made[carried.next.0].take(), names[carried.next.0]));
        let next: Vec<_> = next.collect();
        repeat.carried.iter().for_each(|carried| self.free(carried.value));
        for (carried, (made, name)) in repeat.carried.iter().zip(next) {
            (self.arrays.made[carried.value.0], self.arrays.names[carried.value.0]) = (made, name);
        }
        let is_value = |id: ArrayId| repeat.carried.iter().any(|carried| carried.value == id);
        if let Some(scalar) = repeat.until.map(|until| until.scalar).filter(|scalar| !is_value(*scalar)) {
            self.free(scalar);
        }
    }
}
