//! A program over `.npy` files: read, run, written whole and, if that is asked for, compared.
//!
//! Under an MPI launcher all processes come here, and the first alone prints.

mod check;
mod choosing;
mod report;
mod shared;

pub(crate) use check::Checked;
pub(crate) use choosing::{Choosing, Found};
pub(crate) use report::{Description, described, held, ran, remark_gap, remark_hints, sure};
pub(crate) use shared::Shared;

use crate::error::{CliError, Result};
use crate::progress::Shown;
use polyshard::machine::units::counted;
use polyshard::runtime::Output;
use polyshard::{DType, DistArray, Element, Execute, Kernel, Name, Program, World, runtime};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The files of a run.
pub(crate) struct Files<'a> {
    /// Those that inputs are read from, in the order of the kernel if there is one, else of the program.
    pub(crate) inputs: &'a [PathBuf],
    /// The one to write.
    pub(crate) out: &'a Path,
    /// Whether the result is to be compared.
    pub(crate) check: bool,
    /// What is computed, if it is one kernel, whichever the program computes it by.
    pub(crate) kernel: Option<&'a Kernel>,
}

/// What came of a run.
pub(crate) struct Ran {
    pub(crate) seconds: f64,
    /// The rounds of each repetition.
    pub(crate) rounds: Vec<u64>,
    /// What did not end rounds that it was to end.
    pub(crate) unended: Vec<String>,
    /// Bytes that the first rank received.
    pub(crate) received: u64,
    pub(crate) out: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) dtype: DType,
    pub(crate) checked: Option<Checked>,
}

/// Runs the program that `plan` gives, on as many of the ranks as its mesh has, and returns what came of it to the first.
///
/// The output file, which will hold `elements` elements, is checked before any work is done.
///
/// # Errors
/// What is wrong with the files, or why the program does not run.
pub(crate) fn compute<'p, T: Element>(
    files: &Files<'_>,
    elements: u128,
    ranks: usize,
    plan: impl Fn(&World) -> Result<&'p Program> + Sync,
) -> Result<Option<Ran>> {
    let on_rank = |world: &World| -> Result<Option<Ran>> {
        // The first rank looks for all at the place that it writes to.
        let wrong = if world.is_root() { files.check_out(elements * size_of::<T>() as u128).err() } else { None };
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
    // What all ranks know is no failure of one of them.
    let results = runtime::spmd(ranks, |world| match on_rank(world) {
        Err(CliError::Said { what }) => Ok(Err(what)),
        result => result.map(Ok),
    })?;
    let results: Result<Vec<_>, String> = results.into_iter().collect();
    Ok(results.map_err(|what| CliError::Said { what })?.into_iter().flatten().next())
}

impl Files<'_> {
    /// Checks that this many bytes can be written to where they are to be.
    fn check_out(&self, bytes: u128) -> Result<()> {
        let inputs = self.inputs.iter().map(PathBuf::as_path);
        Ok(Output::new(self.out)?.other_than(inputs)?.with_room(bytes).map(drop)?)
    }
}

/// Runs a program on the ranks that it has.
fn run_on<T: Element>(files: &Files<'_>, program: &Program, world: &World) -> Result<Option<Ran>> {
    // Kernels in an order of their own read the inputs in that order.
    let place = |nth: usize, name: Name| match files.kernel {
        Some(kernel) => kernel.inputs().iter().position(|tensor| tensor.name == name),
        None => Some(nth),
    };
    let inputs = program.inputs().enumerate().map(|(nth, array)| -> Result<_> {
        let place = place(nth, array.name);
        let path = place.ok_or_else(|| CliError::Bug { what: format!("the kernel does not read `{}`", array.name) })?;
        Ok(DistArray::<T>::read_npy(world, &files.inputs[path], &array.sharding)?)
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let inputs: Vec<_> = inputs.iter().collect();
    world.comm().barrier()?;
    // The machine may have been measured, and arrays were read.
    let (start, before) = (Instant::now(), world.bytes_received());
    let shown = world.is_root().then(|| Shown::new("running"));
    let leaves = program.nests().zip(program.runs()).map(|(nest, runs)| nest.work().times.saturating_mul(runs));
    let leaves = leaves.fold(0, u64::saturating_add);
    let mut prepared = program.prepare(world)?;
    if let Some(shown) = &shown {
        shown.show(0, leaves, "");
        prepared = prepared.told(|done| shown.show(done, leaves, ""));
    }
    let result = prepared.run(&inputs)?;
    world.comm().barrier()?;
    let seconds = start.elapsed().as_secs_f64();
    let rounds = prepared.rounds().to_vec();
    let unended = prepared.unended().into_iter().filter_map(|(repeat, last)| {
        let (until, rounds) = (repeat.until?, counted(repeat.times, "round"));
        let scalar = program.array(until.scalar).name;
        Some(format!("`{scalar}` was {last:?} after {rounds}, not below {:?}", until.below))
    });
    let unended = unended.collect();
    drop(prepared);
    drop(shown);
    let received = world.bytes_received() - before;
    result.to_npy(world, files.out)?;
    // Kernels in sequence are compared in whole, by all ranks; rows of one, by the first.
    let once = program.body().only_nest().filter(|nest| nest.applications() == 1);
    let kernel = files.kernel.or_else(|| once.map(|nest| &nest.kernel));
    let checked = match (files.check, kernel) {
        (false, _) => None,
        (true, Some(kernel)) if world.is_root() => Some(check::rows::<T>(kernel, files)?),
        (true, Some(_)) => None,
        (true, None) => Some(check::whole(program, world, &inputs, &result)?),
    };
    let out = files.out.display().to_string();
    let shape = result.sharding().shape().to_vec();
    Ok(world.is_root().then_some(Ran { seconds, rounds, unended, received, out, shape, dtype: T::DTYPE, checked }))
}
