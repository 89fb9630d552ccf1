//! A three-dimensional Fourier transform, forward and back, on slabs or on pencils.
//!
//! Each rank transforms whole lines, so every dimension must be whole on each rank once: redistributions move the array
//! from one such layout to the next, each along one axis of the mesh. On a mesh of one axis ranks have slabs: two
//! dimensions are whole at first, and one move is enough. On a mesh of two axes they have pencils. T. Birkeland and T.
//! Sorevik, "Parallel Redistribution of Multidimensional Data", ParCo 2007, section 3.2.
//!
//! ```text
//! cargo run --release --example fft3d -- --mesh 2x2 --size 60,70,80
//! mpirun -n 4 target/release/examples/fft3d --mesh 4 --size 256,256,256
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::layout::AxisExpr;
use polyshard::machine::{Device, Interconnect, Level};
use polyshard::planner::cost;
use polyshard::prelude::*;
use rustfft::num_complex::Complex64;
use rustfft::{Fft, FftPlanner};
use std::cmp::Reverse;
use std::error::Error;
use std::f64::consts::TAU;
use std::time::Instant;

/// A complex Fourier transform in three dimensions, forward and back.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example fft3d -- --mesh 2x2 --size 60,70,80
  mpirun -n 4 target/release/examples/fft3d --mesh 4 --size 64,64,64")]
struct Args {
    /// Mesh: 4 for slabs, 2x2 for pencils, or with named axes, p=2,q=2 [default: the one with the cheapest
    /// redistributions, of 4 ranks; under an MPI launcher, of as many as it started].
    #[arg(long)]
    mesh: Option<Mesh>,
    /// Extents of the three dimensions; the mesh need not divide them.
    #[arg(long, value_name = "N0,N1,N2", value_delimiter = ',', default_value = "64,64,64")]
    size: Vec<usize>,
}

fn main() {
    let args = Args::try_parse().unwrap_or_else(|said| polyshard::exit(said.exit_code(), said));
    run(&args).unwrap_or_else(|error| polyshard::exit(1, format_args!("error: {error}")));
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let &[n0, n1, n2] = &args.size[..] else { return Err("`--size` takes n0, n1 and n2, such as 64,64,64".into()) };
    let size = [n0, n1, n2];
    let best = || grid(launched_ranks().unwrap_or(4), size);
    let mesh = args.mesh.clone().map_or_else(best, Ok)?;
    if mesh.ndim() > 2 {
        let axes = mesh.ndim();
        return Err(format!("`--mesh` takes one axis for slabs or two for pencils, but ({mesh}) has {axes}").into());
    }
    let stages = stages(&mesh, size)?;
    polyshard::spmd(mesh.size(), |world| {
        if world.is_root() {
            stages.iter().for_each(|stage| println!("{}: lines along {:?}", stage.sharding, stage.new));
        }
        let between = |from: &Stage, to: &Stage| Redistribution::new(world, &from.sharding, &to.sharding);
        let moves = stages.windows(2).map(|pair| Ok((between(&pair[0], &pair[1])?, between(&pair[1], &pair[0])?)));
        let moves: Vec<_> = moves.collect::<polyshard::Result<_>>()?;
        // One array per stage, made once, in memory that the moves can write to directly.
        let mut arrays: Vec<DistArray<f64>> = match moves.first() {
            Some((_, back)) => vec![back.output(world)?],
            None => vec![DistArray::filled(world, &stages[0].sharding, 0.0)?],
        };
        for (there, _) in &moves {
            arrays.push(there.output(world)?);
        }
        let input = DistArray::from_fn(world, &stages[0].sharding, |index| part(wave(index), index))?;
        arrays[0].block_mut().copy_from_slice(input.block());

        let mut planner = FftPlanner::new();
        let (start, mut moving) = (Instant::now(), 0.0);
        for (nth, stage) in stages.iter().enumerate() {
            for &dim in &stage.new {
                transform(&mut arrays[nth], dim, &*planner.plan_fft_forward(size[dim]));
            }
            if let Some((here, [next, ..])) = arrays.split_at_mut_checked(nth + 1) {
                let start = Instant::now();
                moves[nth].0.run_into(world, &here[nth], next)?;
                moving += start.elapsed().as_secs_f64();
            }
        }
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received());
        if world.is_root() {
            println!("forward: {seconds:.6} s, {moving:.6} of them in moves; {received} bytes received by rank 0");
        }
        check(world, "spectrum", &arrays[stages.len() - 1], 1.0, |index| spectrum(size, index))?;

        let (start, mut moving) = (Instant::now(), 0.0);
        for (nth, stage) in stages.iter().enumerate().rev() {
            for &dim in &stage.new {
                transform(&mut arrays[nth], dim, &*planner.plan_fft_inverse(size[dim]));
            }
            if let Some(before) = nth.checked_sub(1) {
                let (earlier, here) = arrays.split_at_mut(nth);
                let start = Instant::now();
                moves[before].1.run_into(world, &here[0], &mut earlier[before])?;
                moving += start.elapsed().as_secs_f64();
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        if world.is_root() {
            println!("back: {seconds:.6} s, {moving:.6} of them in moves");
        }
        // Both directions together multiply by the number of elements.
        let elements = size.iter().product::<usize>() as f64;
        check(world, "way there and back", &arrays[0], elements, wave)
    })?;
    Ok(())
}

/// One layout of the array.
struct Stage {
    sharding: Sharding,
    /// The dimensions that are whole on every rank for the first time.
    new: Vec<usize>,
}

/// Returns the layouts on a mesh of at most two axes, one more than it has axes: from each to the next, one axis
/// distributes a different dimension, the last axis first.
///
/// ```text
/// pencils (x, y)                          slabs (x)
///
/// stage 0   [0 @ x, 1 @ y]   2 is new     [0 @ x]   1 and 2 are new
///   | along y                               | along x
/// stage 1   [0 @ x, 2 @ y]   1 is new     [1 @ x]   0 is new
///   | along x
/// stage 2   [1 @ x, 2 @ y]   0 is new
/// ```
fn stages(mesh: &Mesh, size: [usize; 3]) -> polyshard::Result<Vec<Stage>> {
    let axes = mesh.as_slice();
    // The dimension that each axis distributes.
    let mut dims: Vec<usize> = (0..axes.len()).collect();
    let (mut done, mut stages): (Vec<usize>, Vec<Stage>) = (Vec::new(), Vec::new());
    for turn in 0..=axes.len() {
        if let Some(axis) = turn.checked_sub(1).map(|moved| axes.len() - 1 - moved) {
            // The outermost dimension that has an index for each rank of the axis, otherwise the longest: inner
            // dimensions make shorter rows.
            let room = |dim: &usize| (size[*dim].min(axes[axis].extent), Reverse(*dim));
            let free = done.iter().copied().filter(|dim| !dims.contains(dim));
            dims[axis] = free.max_by_key(room).expect("fewer axes than dimensions, so one is whole");
        }
        let placements = dims.iter().zip(axes).map(|(&dim, axis)| Placement::block(dim, AxisExpr::Axis(axis.name)));
        // The fourth dimension holds the real and the imaginary part.
        let shape = [size[0], size[1], size[2], 2];
        let sharding = Sharding::new(mesh, &shape, &placements.collect::<Vec<_>>())?;
        let new: Vec<usize> = (0..3).filter(|dim| !dims.contains(dim) && !done.contains(dim)).collect();
        done.extend(&new);
        stages.push(Stage { sharding, new });
    }
    Ok(stages)
}

/// Returns the grid of this many ranks on which the moves are fastest; slabs if there are more ranks than lines.
fn grid(ranks: usize, size: [usize; 3]) -> Result<Mesh, Box<dyn Error>> {
    // Typical of processes on one node: 1 us per message, and 10 GB/s.
    let device = Device { memory_bandwidth: 1e10, memory_capacity: 1 << 30, ..Device::default() };
    let machine = Machine::new("node", vec![Level::new("rank", ranks, Interconnect::Switch, 1e10, 1e-6)], device)?;
    let mesh = |extents: &[usize]| Mesh::new(["p0", "p1"].into_iter().zip(extents.iter().copied()));
    let lines = size.into_iter().min().unwrap_or(0);
    let pencils = (2..ranks).filter(|first| ranks.is_multiple_of(*first)).map(|first| vec![first, ranks / first]);
    let mut best: Option<(f64, Mesh)> = None;
    for extents in std::iter::once(vec![ranks]).chain(pencils).filter(|grid| grid.iter().all(|&ranks| ranks <= lines)) {
        let (mut seconds, mesh) = (0.0, mesh(&extents));
        for pair in stages(&mesh, size)?.windows(2) {
            let program = Program::redistribution("A", [&pair[0].sharding, &pair[1].sharding], DType::F64)?;
            seconds += cost(&program, &machine)?.seconds();
        }
        if best.as_ref().is_none_or(|(least, _)| seconds < *least) {
            best = Some((seconds, mesh));
        }
    }
    Ok(best.map_or_else(|| mesh(&[ranks]), |(_, mesh)| mesh))
}

/// Transforms all lines of this rank's block along a dimension, which must be whole there.
fn transform(array: &mut DistArray<f64>, dim: usize, fft: &dyn Fft<f64>) {
    let inner: usize = array.local_shape()[dim + 1..3].iter().product();
    if array.block().is_empty() {
        return;
    }
    for plane in array.block_mut().chunks_exact_mut(2 * fft.len() * inner) {
        // Lines are strided: copy them into contiguous memory, transform them, and copy them back.
        let place = |at: usize| 2 * (at % fft.len() * inner + at / fft.len());
        let line = |at: usize| Complex64::new(plane[place(at)], plane[place(at) + 1]);
        let mut lines: Vec<Complex64> = (0..plane.len() / 2).map(line).collect();
        fft.process(&mut lines);
        for (at, element) in lines.iter().enumerate() {
            [plane[place(at)], plane[place(at) + 1]] = [element.re, element.im];
        }
    }
}

/// Radians per element in each dimension: a wave that is not periodic in any length, so that no element of its spectrum
/// is 0.
const FREQUENCIES: [f64; 3] = [1.0, 2.0, 3.0];

/// The element of a plane wave at an index.
fn wave(index: &[usize]) -> Complex64 {
    Complex64::cis(FREQUENCIES.iter().zip(index).map(|(frequency, &i)| frequency * i as f64).sum())
}

/// The element of its transform at an index: a geometric series in each dimension.
fn spectrum(size: [usize; 3], index: &[usize]) -> Complex64 {
    let series = |dim: usize| {
        let (frequency, n) = (FREQUENCIES[dim], size[dim] as f64);
        (1.0 - Complex64::cis(frequency * n)) / (1.0 - Complex64::cis(frequency - TAU * index[dim] as f64 / n))
    };
    series(0) * series(1) * series(2)
}

/// The real part of a number if the fourth index is 0, otherwise the imaginary part.
fn part(number: Complex64, index: &[usize]) -> f64 {
    if index[3] == 0 { number.re } else { number.im }
}

/// Compares an array, divided by `divisor`, with its expected elements; each rank checks its own.
fn check(
    world: &World,
    what: &str,
    array: &DistArray<f64>,
    divisor: f64,
    expected: impl Fn(&[usize]) -> Complex64,
) -> polyshard::Result<()> {
    let expected = DistArray::from_fn(world, array.sharding(), |index| part(expected(index), index))?;
    let errors = array.block().iter().zip(expected.block()).map(|(found, expected)| (found / divisor - expected).abs());
    let mut error = [errors.fold(0.0, polyshard::runtime::Element::maximum)];
    world.all_reduce(&mut error, ReduceOp::Max)?;
    // Some units of rounding of a sum with a term of magnitude 1 per element.
    let bound = 1e-12 * array.shape().iter().product::<usize>() as f64 / divisor;
    if error[0].is_nan() || error[0] > bound {
        let wrong = format!("the {what} is wrong by {:e}, but rounding explains no more than {bound:.1e}", error[0]);
        return Err(polyshard::Error::Other(wrong.into()));
    }
    if world.is_root() {
        println!("largest error of the {what}: {:e}", error[0]);
    }
    Ok(())
}
