//! Runs a program over `.npy` files: reads inputs, runs, writes results whole and, with `--check`, compares them.
//!
//! Under an MPI launcher all processes run this code; only the first prints.

mod check;
mod choosing;
mod report;
mod shared;

pub(crate) use check::Checked;
pub(crate) use choosing::{Choosing, Found};
pub(crate) use report::{Description, described, held, ran, remark_gap, remark_hints, sure};
pub(crate) use shared::Shared;

use crate::command::files::output;
use crate::error::{CliError, Result};
use crate::progress::Shown;
use polyshard::layout::{DType, Name};
use polyshard::machine::units::counted;
use polyshard::program::{ArrayId, ArrayKind, Kernel, Program};
use polyshard::runtime;
use polyshard::runtime::{CompleteNpy, DistArray, Element, Execute, NpyFile, Output, World};
use std::path::PathBuf;
use std::time::Instant;

/// The files of a run.
pub(crate) struct Files<'a> {
    /// The input files, by the names of their arrays.
    pub(crate) inputs: &'a [(Name, PathBuf)],
    /// The same files, opened before a schedule was chosen.
    pub(crate) opened: &'a [NpyFile],
    /// The files to write, all or none.
    pub(crate) outs: &'a [Target],
    /// Whether to check the results.
    pub(crate) check: bool,
    /// The kernel to compute, if it is only one, even if the program divides it into several.
    pub(crate) kernel: Option<&'a Kernel>,
}

/// A result to write.
pub(crate) struct Target {
    /// Its name in the program.
    pub(crate) name: Name,
    pub(crate) path: PathBuf,
    pub(crate) elements: u128,
}

/// A result that was written.
pub(crate) struct Written {
    pub(crate) name: Name,
    pub(crate) path: String,
    pub(crate) shape: Vec<usize>,
    /// The number of rounds that were run, if rounds carry it.
    pub(crate) rounds: Option<u64>,
}

/// The outcome of a run.
pub(crate) struct Ran {
    /// The file of each array that was read.
    pub(crate) read: Vec<(Name, String)>,
    pub(crate) seconds: f64,
    /// The rounds of each repetition.
    pub(crate) rounds: Vec<u64>,
    /// Scalars of `until` that did not reach their bound, as text.
    pub(crate) unended: Vec<String>,
    /// Bytes that the first rank received.
    pub(crate) received: u64,
    /// Inputs whose elements were converted, and the type in the file.
    pub(crate) converted: Vec<(String, DType)>,
    pub(crate) written: Vec<Written>,
    pub(crate) dtype: DType,
    pub(crate) checked: Option<Checked>,
}

/// Runs the program that `plan` returns on the first ranks, as many as its mesh has, and returns the outcome on the first of them.
///
/// The files to write are checked before any work is done.
pub(crate) fn compute<'p, T: Element>(
    files: &Files<'_>,
    ranks: usize,
    plan: impl Fn(&World) -> Result<&'p Program> + Sync,
) -> Result<Option<Ran>> {
    let on_rank = |world: &World| -> Result<Option<Ran>> {
        // Only the first rank writes, so it checks for all.
        let wrong = if world.is_root() { files.check_outs(size_of::<T>()).err() } else { None };
        let wrong = world.broadcast_text(&wrong.map_or_else(String::new, |wrong| wrong.to_string()))?;
        if !wrong.is_empty() {
            return Err(CliError::Said { what: wrong });
        }
        let program = plan(world)?;
        match world.leading(program.mesh().size())? {
            Some(world) => run_on::<T>(files, program, &world),
            None => Ok(None),
        }
    };
    // An error that all ranks share must not be reported as a failure of one of them.
    let results = runtime::spmd(ranks, |world| match on_rank(world) {
        Err(CliError::Said { what }) => Ok(Err(what)),
        result => result.map(Ok),
    })?;
    let results: Result<Vec<_>, String> = results.into_iter().collect();
    Ok(results.map_err(|what| CliError::Said { what })?.into_iter().flatten().next())
}

impl Files<'_> {
    /// Checks that results with elements of this many bytes can be written to their files.
    fn check_outs(&self, element: usize) -> Result<()> {
        let mut checked: Vec<(Output, &Target)> = Vec::new();
        for target in self.outs {
            let inputs = self.inputs.iter().map(|(_, path)| path.as_path());
            let output = output(&target.path)?.other_than(inputs)?.with_room(target.elements * element as u128)?;
            if let Some((_, other)) = checked.iter().find(|(other, _)| other.is_at_place_of(&output)) {
                let path = target.path.display();
                let what = format!("`{}` and `{}` cannot both be written to `{path}`", other.name, target.name);
                return Err(CliError::refused(what, "give each `--out` a file of its own"));
            }
            checked.push((output, target));
        }
        Ok(())
    }

    /// Checks that no input has changed since it was opened.
    fn check_unchanged(&self) -> Result<()> {
        Ok(self.opened.iter().try_for_each(NpyFile::check_unchanged)?)
    }
}

/// Runs a program on the ranks that it has.
fn run_on<T: Element>(files: &Files<'_>, program: &Program, world: &World) -> Result<Option<Ran>> {
    // The program may read them in another order.
    let inputs = program.inputs().map(|array| -> Result<_> {
        let file = files.inputs.iter().find(|(name, _)| *name == array.name);
        let (_, path) = file.ok_or_else(|| CliError::Bug { what: format!("no file is known for `{}`", array.name) })?;
        Ok(DistArray::<T>::read_npy(world, path, &array.sharding)?)
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let inputs: Vec<_> = inputs.iter().collect();
    world.comm().barrier()?;
    // Measuring the machine and reading arrays do not count.
    let (start, before) = (Instant::now(), world.bytes_received());
    let shown = world.is_root().then(|| Shown::new("running"));
    let leaves = program.nests().zip(program.runs()).map(|(nest, runs)| nest.work().times.saturating_mul(runs));
    let leaves = leaves.fold(0, u64::saturating_add);
    let mut prepared = program.prepare(world)?;
    if let Some(shown) = &shown {
        shown.show(0, leaves, "");
        prepared = prepared.told(|done| shown.show(done, leaves, ""));
    }
    let results = prepared.run_all(&inputs)?;
    world.comm().barrier()?;
    let seconds = start.elapsed().as_secs_f64();
    let rounds = prepared.rounds().to_vec();
    let unended = prepared.unended().into_iter().filter_map(|(repeat, last)| {
        let (until, rounds) = (repeat.until?, counted(repeat.times, "round"));
        let scalar = program.array(until.scalar).name;
        Some(match program.condition(repeat) {
            Some(condition) => format!("`{condition}` did not hold after {rounds}"),
            None => format!("`{scalar}` was {last:?} after {rounds}, not below {:?}", until.below),
        })
    });
    let unended = unended.collect();
    drop(prepared);
    drop(shown);
    let received = world.bytes_received() - before;
    let mut written = Vec::new();
    for Target { name, path, .. } in files.outs {
        let found = results.iter().find(|(other, _)| other == name);
        let (_, array) = found.ok_or_else(|| CliError::Bug { what: format!("the program does not leave `{name}`") })?;
        written.push((array, path.as_path()));
    }
    let complete =
        written.iter().map(|(array, path)| array.complete_npy(world, path)).collect::<Result<Vec<_>, _>>()?;
    if world.is_root() {
        files.check_unchanged()?;
    }
    CompleteNpy::commit(world, complete)?;
    // Several kernels are compared whole, by all ranks; rows of one kernel, by the first rank.
    let once = program.body().only_nest().filter(|nest| nest.applications() == 1);
    let kernel = files.kernel.or_else(|| once.map(|nest| &nest.row.kernel));
    let checked = match (files.check, kernel) {
        (false, _) => None,
        (true, Some(kernel)) if world.is_root() => {
            let checked = check::rows::<T>(kernel, files);
            files.check_unchanged()?;
            Some(checked?)
        }
        (true, Some(_)) => None,
        (true, None) => {
            let results: Vec<_> = results.iter().map(|(_, result)| result).collect();
            Some(check::whole(program, world, &inputs, &results)?)
        }
    };
    let written = written.iter().zip(files.outs).map(|((array, path), target)| Written {
        name: target.name,
        path: path.display().to_string(),
        shape: array.sharding().shape().to_vec(),
        rounds: around(program, target.name).map(|repeat| rounds[repeat]),
    });
    let written = written.collect();
    let read = files.inputs.iter().map(|(name, path)| (*name, path.display().to_string())).collect();
    let converted = files.opened.iter().filter(|file| file.dtype() != T::DTYPE);
    let converted = converted.map(|file| (file.path().display().to_string(), file.dtype())).collect();
    let dtype = T::DTYPE;
    Ok(world.is_root().then_some(Ran { read, converted, seconds, rounds, unended, received, written, dtype, checked }))
}

/// The number of the rounds that carry an output from round to round, if one does.
fn around(program: &Program, output: Name) -> Option<usize> {
    let outputs = program.of_kind(ArrayKind::Output);
    let is_it = |id: ArrayId| outputs.contains(&id) && program.array(id).name == output;
    program.body().rounds.iter().position(|rounds| rounds.carried.iter().any(|carried| is_it(carried.value)))
}
