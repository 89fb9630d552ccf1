//! `polyshard run`: the kernels of a `.poly` file over `.npy` files, on threads or processes.

use crate::command::compute::{
    Choosing, Description, Files, Shared, Target, compute, described, held, ran, remark_hints,
};
use crate::command::files::{ArrayFile, array_file, check_npy};
use crate::command::poly::{Kernels, Lowered, Source};
use crate::error::{CliError, Result};
use crate::say::say;
use crate::with_type;
use polyshard::layout::joined;
use polyshard::machine::units::scaled;
use polyshard::runtime::Element;

/// Arguments of `polyshard run`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  polyshard random --shape 300,200 --seed 1 --out A.npy
  polyshard random --shape 200,100 --seed 2 --out B.npy
  polyshard run examples/poly/summa.poly A.npy B.npy --out summa.npy --check
  polyshard run examples/poly/summa.poly B=B.npy A=A.npy --out C=summa.npy
  mpirun -n 4 polyshard run examples/poly/summa.poly A.npy B.npy --out summa.npy

A `.poly` file holds kernels, each followed by its schedule or by `auto`:
  fn product(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] { C[m, n] += A[m, k] * B[k, n] }
  auto")]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Write the result of the last kernel, or the array NAME, to this `.npy` file. Repeat it, with names, for several arrays: all files
    /// are written, or none. After rounds, `repeat(5, A = B)`, the result is named A.
    #[arg(long, value_name = "[NAME=]FILE.npy", required = true, value_parser = array_file())]
    out: Vec<ArrayFile>,
    #[command(flatten)]
    choosing: Choosing,
    /// Compare with a sequential computation: 8 rows of the result of one kernel, all rows if there are several kernels.
    #[arg(long)]
    check: bool,
}

/// Lowers the file, runs it and writes the result; returns the text to print at the end.
pub(crate) fn run(arguments: &Arguments) -> Result<String> {
    arguments.out.iter().try_for_each(|out| check_npy(&out.path))?;
    let mut kernels = arguments.source.read(None, true)?;
    let ranks = arguments.choosing.ranks(true, kernels.needed())?;
    let outs = kernels.targets(&arguments.out)?;
    with_type!(kernels.dtype()?, T => run_typed::<T>(arguments, &kernels, &outs, ranks))
}

fn run_typed<T: Element>(arguments: &Arguments, kernels: &Kernels, outs: &[Target], ranks: usize) -> Result<String> {
    let (inputs, opened) = (&kernels.inputs, &kernels.opened);
    let files = Files { inputs, opened, outs, check: arguments.check, kernel: None };
    let choosing = &arguments.choosing;
    // Schedules in the file are lowered before any rank starts; chosen ones depend on the machine that ranks find.
    let written = kernels.written()?;
    if let (Some(lowered), Some(allowed)) = (&written, choosing.memory())
        && held(&lowered.program) > allowed
    {
        let [held, allowed] = [held(&lowered.program), allowed].map(|bytes| scaled(bytes as f64, "B"));
        let what = format!("the schedules in the file need up to {held} a rank, but `--memory` allows {allowed}");
        return Err(CliError::refused(what, "raise `--memory`, or write `auto` to have schedules chosen that fit"));
    }
    let mut outputs = written.iter().flat_map(|lowered| lowered.program.outputs());
    if let Some(array) = outputs.find(|array| !array.sharding.partial().is_empty()) {
        let axes = joined(array.sharding.partial_axes(), ", ");
        let what = format!("`{}` is left in partial sums over {axes}, but `--out` writes it", array.name);
        return Err(CliError::refused(what, "leave `partial` out of its `shard`"));
    }
    let chosen: Shared<Lowered> = Shared::new();
    let of_run = compute::<T>(&files, ranks, |world| {
        let program = match &written {
            Some(lowered) => &lowered.program,
            None => {
                let found = choosing.machine_of(world, |machine, limits| kernels.seconds(ranks, machine, limits))?;
                chosen.get(world, || kernels.chosen(ranks, found, choosing.limits()?), |lowered| &lowered.program)?
            }
        };
        if let Some(lowered) = written.as_ref().or(chosen.found()).filter(|_| world.is_root()) {
            say(&head(lowered, ranks))?;
            remark_hints(&lowered.program, lowered.chosen.is_some());
        }
        Ok(program)
    })?;
    let predicted = chosen.found().and_then(|lowered| lowered.chosen.as_ref()).map(|(_, cost, _)| cost.seconds());
    Ok(of_run.map_or_else(String::new, |of_run| ran(&of_run, predicted)))
}

/// The report before a run.
pub(crate) fn head(lowered: &Lowered, ranks: usize) -> String {
    let Lowered { program, chosen, bound, .. } = lowered;
    let gap = chosen.as_ref().map(|(.., gap)| *gap);
    let chosen = chosen.as_ref().map(|(found, cost, _)| (found, cost));
    described(&Description { program, ranks, grid: None, order: None, gap, chosen, bound: *bound })
}
