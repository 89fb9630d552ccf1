//! One run on one rank: inputs, time, answer, check; rank 0 says what came out.

use super::check::{Verdict, check};
use super::launch::failure;
use super::numbers::whole;
use super::operand::Operand;
use super::progress::Progress;
use super::room::{bytes_of, check_room};
use super::values::Number;
use polyshard::planner::units::counted;
use polyshard::runtime::Output;
use polyshard::{Backend, DType, DistArray, Program, World};
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Measuring {
    /// Do not compare with a sequential computation.
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Run this often and tell the best and the median time.
    #[arg(long, default_value = "1", value_name = "N", value_parser = parse_repeat, allow_negative_numbers = true)]
    pub(crate) repeat: u32,
}

fn parse_repeat(text: &str) -> Result<u32, String> {
    whole(text).ok().filter(|&runs| runs > 0).ok_or_else(|| "give a whole number, 1 or more".into())
}

/// A program and the inputs to run it on.
pub(crate) struct Case<'a, T> {
    /// What to call it.
    pub(crate) name: &'a str,
    /// The program.
    pub(crate) program: &'a Program,
    /// Where A and B come from.
    pub(crate) operands: [Operand; 2],
    /// Whether A is stored as A\[k, m\].
    pub(crate) transposed: bool,
    /// The `.npy` file to write C to.
    pub(crate) out: Option<&'a Path>,
    /// How it is run: by walking the program, or compiled.
    pub(crate) run: &'a Run<'a, T>,
}

/// Computes C from A and B.
pub(crate) type Run<'a, T> =
    dyn Fn(&World, &DistArray<T>, &DistArray<T>) -> polyshard::runtime::Result<DistArray<T>> + Sync + 'a;

/// Runs the case on this rank, which all ranks must do; rank 0 prints figures and judges the answer.
pub(crate) fn measure<T: Number>(world: &World, case: &Case<T>, how: &Measuring) -> polyshard::Result<()> {
    let program = case.program;
    let progress = Progress::new(world);
    if world.is_root() {
        check_place(case)?;
    }
    check_memory(world, case, how)?;
    if world.is_root() {
        progress.say(&heading(world, case))?;
    }
    progress.phase("making or reading A and B");
    let [a, b] = &case.operands;
    let a = a.shard::<T>(world, &program.shardings()[0])?;
    let b = b.shard::<T>(world, &program.shardings()[1])?;

    let mut seconds = Vec::new();
    let (mut c, mut received) = (None, 0);
    for nth in 1..=how.repeat {
        progress.phase(format!("running {nth} of {}", how.repeat));
        drop(c.take());
        world.comm().barrier()?;
        let before = world.bytes_received();
        let start = Instant::now();
        c = Some((case.run)(world, &a, &b)?);
        let took = start.elapsed().as_secs_f64();
        received = world.bytes_received() - before;
        seconds.push(slowest(world, took)?);
    }
    let c = c.expect("`--repeat` is at least 1");
    let received = most(world, received)?;
    if world.is_root() {
        progress.say(&figures(program, &mut seconds, received))?;
    }
    if let Some(path) = case.out {
        progress.phase("writing C");
        c.to_npy(world, path)?;
    }
    if !how.no_check {
        progress.phase("checking");
        if let Some(whole) = c.gather(world)? {
            progress.say(&judge(case, &whole)?)?;
        }
    }
    Ok(())
}

/// Looks at the place of C before the time is spent on computing it.
fn check_place<T>(case: &Case<T>) -> polyshard::Result<()> {
    let Some(path) = case.out else { return Ok(()) };
    let bytes = bytes_of::<T>(&case.program.kernel().output().shape);
    // The inputs are read once more when the answer is checked.
    Output::new(path)?.with_room(bytes)?.other_than(case.operands.iter().filter_map(Operand::path))?;
    Ok(())
}

/// Checks that what all ranks hold fits the memory that is free, and what the answer is checked with.
fn check_memory<T>(world: &World, case: &Case<T>, how: &Measuring) -> polyshard::Result<()> {
    let (kernel, report) = (case.program.kernel(), case.program.report());
    // C is gathered and computed, A and B are read or made as a whole.
    let whole: u128 = kernel.tensors().chain([kernel.output()]).map(|tensor| bytes_of::<T>(&tensor.shape)).sum();
    let checking = if how.no_check { 0 } else { whole };
    check_room(world, u128::from(report.shard_bytes) + u128::from(report.tile_bytes), checking)
}

/// The seconds of the slowest rank.
pub(crate) fn slowest(world: &World, took: f64) -> polyshard::Result<f64> {
    let all = gathered(world, took.to_ne_bytes())?;
    Ok(all.into_iter().map(f64::from_ne_bytes).fold(0.0, f64::max))
}

/// The greatest of all ranks' counts.
pub(crate) fn most(world: &World, count: u64) -> polyshard::Result<u64> {
    let all = gathered(world, count.to_ne_bytes())?;
    Ok(all.into_iter().map(u64::from_ne_bytes).fold(0, u64::max))
}

/// Every rank's eight bytes (MPI 3.1, section 5.7).
fn gathered(world: &World, own: [u8; 8]) -> polyshard::Result<Vec<[u8; 8]>> {
    let mut all = vec![0; 8 * world.size()];
    world.comm().all_gather(&own, &mut all, &vec![8; world.size()])?;
    Ok(all.chunks_exact(8).map(|bytes| bytes.try_into().expect("chunks are of 8 bytes")).collect())
}

/// How many ranks there are, and what they are.
pub(crate) fn place(world: &World) -> String {
    let place = match world.backend() {
        Backend::Threads => "threads",
        Backend::Mpi => "MPI",
    };
    format!("{} on {place}", counted(world.size(), "rank"))
}

fn heading<T>(world: &World, case: &Case<T>) -> String {
    let kernel = case.program.kernel();
    let extents = kernel.vars().iter().map(|var| format!("{} = {}", var.name, var.extent));
    let extents = extents.collect::<Vec<_>>().join(", ");
    let mut text = format!("{}: {}, {}, {extents}\n", case.name, kernel.statement(), kernel.dtype());
    // Writing to a string cannot fail.
    let _ = write!(text, "mesh ({}), {}", case.program.mesh(), place(world));
    for tensor in kernel.tensors() {
        if let Some(pattern) = case.program.pattern(tensor.name.as_str()) {
            let _ = write!(text, "\n{}: {pattern}", tensor.name);
        }
    }
    for hint in case.program.hints() {
        let _ = write!(text, "\nhint: {hint}");
    }
    text
}

fn figures(program: &Program, seconds: &mut [f64], received: u64) -> String {
    let flops = 2.0 * program.kernel().vars().iter().map(|var| var.extent as f64).product::<f64>();
    let time = timing(seconds, flops);
    format!("{time}\nreceived per rank: at most {}", counted(received, "byte"))
}

/// The seconds of runs of so many operations each, in words.
pub(crate) fn timing(seconds: &mut [f64], flops: f64) -> String {
    timed(seconds, |seconds| format!("{seconds:.6} s, {:.2} GFLOP/s", flops / seconds / 1e9))
}

/// The seconds of runs, in the words that `say` finds for those of one.
pub(crate) fn timed(seconds: &mut [f64], say: impl Fn(f64) -> String) -> String {
    seconds.sort_by(f64::total_cmp);
    let (best, median) = (say(seconds[0]), say(seconds[seconds.len() / 2]));
    match seconds.len() {
        1 => best,
        runs => format!("best of {runs} runs {best}; median {median}"),
    }
}

/// Compares the answer with the sequential product of the whole inputs.
fn judge<T: Number>(case: &Case<T>, c: &ndarray::ArrayD<T>) -> polyshard::Result<String> {
    let kernel = case.program.kernel();
    let [a, b] = &case.operands;
    let mut a = a.whole::<T>(&kernel.inputs()[0].shape).map_err(failure)?;
    let b = b.whole::<T>(&kernel.inputs()[1].shape).map_err(failure)?;
    if case.transposed {
        a = a.reversed_axes();
    }
    told(case.name, kernel.dtype(), &check(kernel.dtype(), a.view(), b.view(), c.view()))
}

/// How far the answer of an example is from the sequential one, in words; an error if it is too far.
pub(crate) fn told(name: &str, dtype: DType, verdict: &Verdict) -> polyshard::Result<String> {
    let text = format!("largest error against a sequential product: {:e}", verdict.error);
    let bound = match dtype.is_float() {
        true => format!("rounding explains up to {:.1e}", verdict.bound),
        false => "integers are exact".into(),
    };
    if verdict.error <= verdict.bound {
        return Ok(format!("{text} ({bound})"));
    }
    Err(failure(format!("the answer of `{name}` is wrong; {text}, but {bound}")))
}
