//! One run on one rank: what is said before and after it, and its time.

use super::check::check;
use super::launch::failure;
use super::room::{bytes, check_room};
use ndarray::ArrayD;
use polyshard::cli::numbers::whole;
use polyshard::cli::say::say;
use polyshard::cli::values::Number;
use polyshard::machine::units::counted;
use polyshard::{Backend, Collectives, DistArray, Program, ReduceOp, World};
use std::fmt::Write;
use std::time::Instant;

/// How to measure.
#[derive(clap::Args)]
pub struct Measuring {
    /// Do not compare with a sequential computation.
    #[arg(long)]
    pub no_check: bool,
    /// Run this often and tell the best and the median time.
    #[arg(long, default_value = "1", value_name = "N", value_parser = parse_repeat, allow_negative_numbers = true)]
    pub repeat: u32,
}

/// Reads how often to run.
pub fn parse_repeat(text: &str) -> Result<u32, String> {
    whole(text).ok().filter(|&runs| runs > 0).ok_or_else(|| "give a whole number, 1 or more".into())
}

impl Measuring {
    /// Says what runs, after it has looked whether there is memory for it; collective.
    pub fn begin(&self, world: &World, programs: &[&Program]) -> polyshard::Result<()> {
        let held = programs.iter().map(|program| program.report()).map(|report| report.shard_bytes + report.tile_bytes);
        // The check has all arrays as a whole, twice, and the output once more.
        let arrays = programs.iter().flat_map(|program| {
            let kernel = program.kernel();
            let arrays = kernel.tensors().chain(kernel.tensors()).chain([kernel.output()]);
            arrays.map(|tensor| bytes(kernel.dtype(), &tensor.shape))
        });
        let whole = if self.no_check { 0 } else { arrays.sum() };
        check_room(world, held.map(u128::from).sum(), whole)?;
        if world.is_root() {
            say(&heading(world, programs)).map_err(failure)?;
        }
        Ok(())
    }

    /// Runs as often as `--repeat` says, and says how long that took and how much was received; collective.
    pub fn time<R>(
        &self,
        world: &World,
        flops: f64,
        mut run: impl FnMut() -> polyshard::runtime::Result<R>,
    ) -> polyshard::Result<R> {
        let (mut result, mut received, mut seconds) = (None, 0, Vec::new());
        for _ in 0..self.repeat {
            drop(result.take());
            world.comm().barrier()?;
            let before = world.bytes_received();
            let start = Instant::now();
            result = Some(run()?);
            let took = start.elapsed().as_secs_f64();
            received = world.bytes_received() - before;
            seconds.push(slowest(world, took)?);
        }
        let received = counted(most(world, received)?, "byte");
        if world.is_root() {
            let time = timing(&mut seconds, flops);
            say(&format!("{time}\nreceived per rank: at most {received}\n")).map_err(failure)?;
        }
        Ok(result.expect("`--repeat` is at least 1"))
    }

    /// Returns the whole arrays on the root, unless `--no-check` says that nobody looks at them; collective.
    pub fn gather<T: Number, const N: usize>(
        &self,
        world: &World,
        arrays: [&DistArray<T>; N],
    ) -> polyshard::Result<Option<[ArrayD<T>; N]>> {
        if self.no_check {
            return Ok(None);
        }
        // All ranks gather all arrays, also those on which nothing arrives.
        let gathered: Vec<_> = arrays.into_iter().map(|array| array.gather(world)).collect::<Result<_, _>>()?;
        let arrays: Option<Vec<_>> = gathered.into_iter().collect();
        Ok(arrays.and_then(|arrays| arrays.try_into().ok()))
    }

    /// Compares what was found with what `reference` makes of the inputs, and says how far they are apart.
    ///
    /// # Errors
    /// If they are further apart than rounding explains for sums of so many terms.
    pub fn check<T: Number>(
        &self,
        inputs: &[&ArrayD<T>],
        found: &ArrayD<T>,
        terms: usize,
        reference: impl Fn(&[&ArrayD<T>]) -> polyshard::runtime::Result<ArrayD<T>>,
    ) -> polyshard::Result<()> {
        say(&(check(inputs, found, terms, reference)? + "\n")).map_err(failure)
    }
}

/// Returns the operations of one run: of each instance, one per factor of its product, which is then added.
pub fn flops(program: &Program) -> f64 {
    let kernel = program.kernel();
    let factors: usize = kernel.inputs().iter().map(|tensor| kernel.accesses_of(tensor.name).len()).sum();
    kernel.vars().iter().map(|var| var.extent as f64).product::<f64>() * factors as f64
}

/// The kernels, the mesh, and how each array gets to where it is needed.
fn heading(world: &World, programs: &[&Program]) -> String {
    let mut text = String::new();
    for kernel in programs.iter().map(|program| program.kernel()) {
        let extents: Vec<_> = kernel.vars().iter().map(|var| format!("{} = {}", var.name, var.extent)).collect();
        let (statement, dtype, extents) = (kernel.statement(), kernel.dtype(), extents.join(", "));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}: {statement}, {dtype}, {extents}", kernel.name());
    }
    let _ = writeln!(text, "mesh ({}), {}", programs[0].mesh(), place(world));
    for program in programs {
        for tensor in program.kernel().tensors() {
            let patterns: Vec<_> = program.patterns(tensor.name.as_str()).iter().map(ToString::to_string).collect();
            let _ = writeln!(text, "{}: {}", tensor.name, patterns.join("; "));
        }
        for hint in program.hints() {
            let _ = writeln!(text, "hint: {hint}");
        }
    }
    text
}

/// The seconds of the slowest rank.
pub fn slowest(world: &World, took: f64) -> polyshard::Result<f64> {
    let mut seconds = [took];
    world.all_reduce(&mut seconds, ReduceOp::Max)?;
    Ok(seconds[0])
}

/// The greatest of all ranks' counts.
pub fn most(world: &World, count: u64) -> polyshard::Result<u64> {
    let mut counts = [i64::try_from(count).unwrap_or(i64::MAX)];
    world.all_reduce(&mut counts, ReduceOp::Max)?;
    Ok(counts[0].unsigned_abs())
}

/// How many ranks there are, and what they are.
pub fn place(world: &World) -> String {
    let place = match world.backend() {
        Backend::Threads => "threads",
        Backend::Mpi => "MPI",
    };
    format!("{} on {place}", counted(world.size(), "rank"))
}

/// The seconds of runs of so many operations each, in words.
pub fn timing(seconds: &mut [f64], flops: f64) -> String {
    timed(seconds, |seconds| format!("{seconds:.6} s, {:.2} GFLOP/s", flops / seconds / 1e9))
}

/// The seconds of runs, in the words that `say` finds for those of one.
pub fn timed(seconds: &mut [f64], say: impl Fn(f64) -> String) -> String {
    seconds.sort_by(f64::total_cmp);
    let (best, median) = (say(seconds[0]), say(seconds[seconds.len() / 2]));
    match seconds.len() {
        1 => best,
        runs => format!("best of {runs} runs {best}; median {median}"),
    }
}
