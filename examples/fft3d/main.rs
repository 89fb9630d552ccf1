//! A Fourier transform of three dimensions, forward and back, on slabs or on pencils.
//!
//! Each rank transforms whole lines, so every dimension must be whole on it once: a [`Sweep`] moves the array from
//! one such layout to the next. On a mesh of one axis ranks have slabs, two dimensions are whole at first, and one
//! move is enough; on a mesh of two axes they have pencils. T. Birkeland and T. Sorevik, "Parallel Redistribution
//! of Multidimensional Data", ParCo 2007.
//!
//! ```text
//! cargo run --release --example fft3d -- --mesh 2x2 --size 60,70,80
//! mpirun -n 4 target/release/examples/fft3d --mesh 4 --size 256,256,256
//! ```

mod judge;
mod lines;

use clap::{Parser, ValueEnum};
use lines::{Direction, Lines, Seconds};
use polyshard::cli::axes::Axes;
use polyshard::cli::numbers::whole;
use polyshard::cli::say::say;
use polyshard::cli::values::{self, Number};
use polyshard::machine::units::counted;
use polyshard::planner::sweep::{Cube, Network, best_grid};
use polyshard::prelude::*;
use polyshard::runtime::{Stage, Sweep};
use polyshard_testing::example::launch::{Stop, failure, finish};
use polyshard_testing::example::room::{bytes_of, check_room};
use polyshard_testing::example::run::{Measuring, most, place, slowest};
use polyshard_testing::example::size::parse_extents;
use std::process::ExitCode;
use std::time::Instant;

/// A complex Fourier transform of three dimensions, forward and back.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example fft3d -- --mesh 2x2 --size 60,70,80
  mpirun -n 4 target/release/examples/fft3d --mesh 4 --size 64,64,64 --type f32")]
struct Options {
    /// The mesh, as 4 for slabs, as 2x2 for pencils, or with names of its axes, as p=2,q=2 [default: the one whose
    /// moves are cheapest, of 4 ranks; under an MPI launcher, of as many as it started].
    #[arg(long, value_name = "MESH")]
    mesh: Option<Axes>,
    /// Extents of the three dimensions; they need not divide.
    #[arg(long, value_parser = parse_size, value_name = "N0,N1,N2", default_value = "64,64,64",
        allow_hyphen_values = true)]
    size: Size,
    /// The type of real and imaginary parts.
    #[arg(long = "type", value_name = "TYPE", default_value = "f64")]
    dtype: Type,
    /// Makes up the array with this seed.
    #[arg(long, value_parser = whole::<u64>, default_value = "1", allow_negative_numbers = true)]
    seed: u64,
    #[command(flatten)]
    measuring: Measuring,
}

/// An element type that has a Fourier transform.
#[derive(Clone, Copy, ValueEnum)]
enum Type {
    F32,
    F64,
}

/// A type of real and imaginary parts.
trait Real: Number + rustfft::FftNum {
    /// The distance from 1 to the next number.
    const EPSILON: f64;
}

impl Real for f32 {
    const EPSILON: f64 = f32::EPSILON as f64;
}

impl Real for f64 {
    const EPSILON: f64 = f64::EPSILON;
}

/// The extents of the array; a type of its own because clap takes an array for several arguments.
#[derive(Clone, Copy)]
struct Size([usize; 3]);

fn main() -> ExitCode {
    finish(run())
}

fn run() -> Result<(), Stop> {
    let options = Options::try_parse()?;
    let axes = match (&options.mesh, polyshard::runtime::launched_ranks()) {
        (Some(axes), _) => axes.clone(),
        (None, ranks) => Axes::unnamed(&grid(ranks.unwrap_or(4), options.size.0)),
    };
    // A sweep refuses a mesh of three axes, and says why.
    let mesh = axes.mesh(|axis| format!("p{axis}"));
    polyshard::spmd(mesh.size(), |world| match options.dtype {
        Type::F32 => transform::<f32>(world, &mesh, &options),
        Type::F64 => transform::<f64>(world, &mesh, &options),
    })?;
    Ok(())
}

/// Returns the grid of so many ranks on which a sweep moves its array fastest; slabs if there are more ranks than lines.
fn grid(ranks: usize, size: [usize; 3]) -> Vec<usize> {
    // About what processes of one node take: 1 us for a message, and 10 GB/s for complex numbers of 16 bytes.
    let network = Network { latency: 1e-6, per_element: 1.6e-9 };
    let extent = size.into_iter().min().unwrap_or(0);
    best_grid(ranks, Cube { extent, ndim: size.len() }, network).map_or(vec![ranks], |grid| grid.extents)
}

/// Transforms there and back on this rank, which all ranks must do; rank 0 says what came out.
fn transform<T: Real>(world: &World, mesh: &Mesh, options: &Options) -> polyshard::Result<()> {
    let Size(size) = options.size;
    // The fourth dimension has the real and the imaginary part.
    let whole = bytes_of::<T>(&[&size[..], &[2]].concat());
    // At least the array and one of its stages; it is gathered before and after to be checked.
    let checking = if options.measuring.no_check { 0 } else { whole.saturating_mul(3) };
    check_room(world, whole.saturating_mul(2) / world.size() as u128, checking)?;
    let sweep = Sweep::new(world, mesh, &[&size[..], &[2]].concat(), size.len())?;
    if world.is_root() {
        line(&heading::<T>(world, mesh, size, sweep.stages()))?;
    }
    let mut lines = Lines::<T>::new(size);
    // One array per stage, made once: what the moves reach best.
    let stages = 0..sweep.stages().len();
    let mut arrays = stages.map(|stage| sweep.array(world, stage)).collect::<Result<Vec<DistArray<T>>, _>>()?;
    let input = DistArray::from_fn(world, sweep.stages()[0].sharding(), |index| element(options.seed, index))?;

    let (mut there, mut back) = (Vec::new(), Vec::new());
    let mut received = 0;
    for _ in 0..options.measuring.repeat {
        arrays[0].block_mut().copy_from_slice(input.block());
        world.comm().barrier()?;
        let before = world.bytes_received();
        let seconds = forward(world, &sweep, &mut lines, &mut arrays)?;
        received = most(world, world.bytes_received() - before)?;
        there.push(slowest_of(world, seconds)?);
        let seconds = backward(world, &sweep, &mut lines, &mut arrays)?;
        back.push(slowest_of(world, seconds)?);
    }
    if world.is_root() {
        line(&format!("forward: {}", Seconds::of_runs(&mut there)))?;
        line(&format!("back: {}", Seconds::of_runs(&mut back)))?;
        line(&format!("received per rank: at most {} on the way there", counted(received, "byte")))?;
    }
    if options.measuring.no_check {
        return Ok(());
    }
    // Lines are transformed in place, so the way back has consumed the spectrum: it is made once more.
    let returned = arrays[0].gather(world)?;
    arrays[0].block_mut().copy_from_slice(input.block());
    forward(world, &sweep, &mut lines, &mut arrays)?;
    let spectrum = arrays[arrays.len() - 1].gather(world)?;
    if let (Some(spectrum), Some(returned)) = (spectrum, returned) {
        line(&judge::judge(size, options.seed, spectrum.view(), returned.view()).map_err(failure)?)?;
    }
    Ok(())
}

fn line(text: &str) -> polyshard::Result<()> {
    say(&format!("{text}\n")).map_err(failure)
}

/// From the array in the first stage to its spectrum in the last.
fn forward<T: Real>(
    world: &World,
    sweep: &Sweep,
    lines: &mut Lines<T>,
    arrays: &mut [DistArray<T>],
) -> polyshard::Result<Seconds> {
    let mut seconds = Seconds::default();
    for (number, stage) in sweep.stages().iter().enumerate() {
        for &dim in stage.new_dims() {
            lines.transform(&mut arrays[number], dim, Direction::Forward, &mut seconds);
        }
        if let Some((here, [next, ..])) = arrays.split_at_mut_checked(number + 1) {
            let start = Instant::now();
            sweep.forward(number).run_into(world, &here[number], next)?;
            seconds.communication += start.elapsed().as_secs_f64();
        }
    }
    Ok(seconds)
}

/// From the spectrum in the last stage to the array in the first.
fn backward<T: Real>(
    world: &World,
    sweep: &Sweep,
    lines: &mut Lines<T>,
    arrays: &mut [DistArray<T>],
) -> polyshard::Result<Seconds> {
    let mut seconds = Seconds::default();
    for (number, stage) in sweep.stages().iter().enumerate().rev() {
        for &dim in stage.new_dims() {
            lines.transform(&mut arrays[number], dim, Direction::Back, &mut seconds);
        }
        if let Some(before) = number.checked_sub(1) {
            let (earlier, here) = arrays.split_at_mut(number);
            let start = Instant::now();
            sweep.backward(before).run_into(world, &here[0], &mut earlier[before])?;
            seconds.communication += start.elapsed().as_secs_f64();
        }
    }
    lines.normalise(&mut arrays[0], &mut seconds);
    Ok(seconds)
}

/// Each part's seconds on the rank that took longest for it.
fn slowest_of(world: &World, Seconds { fft, packing, communication }: Seconds) -> polyshard::Result<Seconds> {
    Ok(Seconds {
        fft: slowest(world, fft)?,
        packing: slowest(world, packing)?,
        communication: slowest(world, communication)?,
    })
}

/// The real (`index[3]` 0) or imaginary part of the element at the first three indices.
fn element<T: Number>(seed: u64, index: &[usize]) -> T {
    values::element(seed, index)
}

fn heading<T: Real>(world: &World, mesh: &Mesh, size: [usize; 3], stages: &[Stage]) -> String {
    let [n0, n1, n2] = size;
    let stages = stages.iter().map(|stage| {
        let dims: Vec<_> = stage.new_dims().iter().map(usize::to_string).collect();
        format!("\n{}: lines along {}", stage.sharding(), dims.join(" and "))
    });
    let stages: String = stages.collect();
    format!(
        "fft3d: {n0} x {n1} x {n2} complex {}, forward and back\nmesh ({mesh}), {}{stages}",
        T::DTYPE.name(),
        place(world)
    )
}

fn parse_size(text: &str) -> Result<Size, String> {
    parse_extents(text, "n0, n1 and n2", "64,64,64").map(Size)
}
