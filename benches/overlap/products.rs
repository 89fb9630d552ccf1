//! Pipelined products, compared with the larger of computing and communicating alone.

use ndarray::{ArrayViewD, ArrayViewMutD};
use polyshard::leaf;
use polyshard::machine::{Device, Interconnect, Level, Machine, units};
use polyshard::planner::cost::Prices;
use polyshard::prelude::*;
use polyshard::runtime::{Backend, Progress, Transport, spmd_emulated};
use polyshard_testing::bench::clock::together;
use polyshard_testing::bench::products::{Algorithm, Grid, Sizes, in_panels};
use polyshard_testing::bench::record::median;
use polyshard_testing::filled::inputs;

/// The leaf that computes nothing, so that only communication is left.
const NOTHING: &str = "nothing";

/// The programs of an algorithm that are timed.
struct Case {
    algorithm: Algorithm,
    panels: usize,
    /// Waits for each panel; `pipelined` fetches each panel while the previous one is computed.
    waiting: Program,
    pipelined: Program,
    /// All operands are where they are read.
    computing: Program,
    /// The leaf computes nothing.
    communicating: Program,
}

impl Case {
    fn new(algorithm: Algorithm, grid: &Grid, size: usize, panels: usize) -> polyshard::Result<Self> {
        let sizes = Sizes { m: size, k: size, n: size };
        let (schedule, panel, loops) = in_panels::<f64>(algorithm, grid, sizes, panels);
        let extent = |program: &Program| program.nest().loops.iter().map(|l| l.extent as usize).product();
        let product = schedule.local.kernel().expect("a product").clone();
        leaf::register(NOTHING, &product, |_: ArrayViewMutD<'_, f64>, _: [ArrayViewD<'_, f64>; 2]| ())?;
        let waiting = schedule.placed.clone().tensorize(loops.clone()).lower()?;
        Ok(Self {
            algorithm,
            panels: extent(&waiting),
            pipelined: schedule.placed.clone().pipeline(panel, 1).tensorize(loops.clone()).lower()?,
            computing: schedule.local.tensorize(loops.clone()).lower()?,
            communicating: schedule.placed.tensorize_with(loops, NOTHING).lower()?,
            waiting,
        })
    }
}

/// Times the products on the launched ranks.
pub(crate) fn on_nodes(grid: &Grid, size: usize, panels: usize, runs: usize) -> polyshard::Result<()> {
    let cases = cases(grid, size, panels)?;
    polyshard::spmd(grid.size(), |world| {
        let backend = if world.backend() == Backend::Mpi { "MPI" } else { "threads" };
        head(world, grid, size, &format!("{backend}, by messages"));
        cases.iter().try_for_each(|case| row(world, case, runs, None))
    })
    .map(drop)
}

/// Times the products on ports slow enough that communicating takes `ratio` times as long as computing.
pub(crate) fn emulated(grid: &Grid, size: usize, panels: usize, ratio: f64, runs: usize) -> polyshard::Result<()> {
    for case in cases(grid, size, panels)? {
        let computing = polyshard::spmd(grid.size(), |world| medians(world, &[&case.computing], runs))?;
        let computing = computing[0][0];
        let flops = [("f64".to_owned(), 2.0 * (size as f64).powi(3) / grid.size() as f64 / computing)].into();
        let device = Device { memory_bandwidth: 1e13, memory_capacity: 1 << 40, flops, ..Device::default() };
        let ports = |bandwidth: f64| {
            let level = Level::new("rank", grid.size(), Interconnect::Switch, bandwidth, 1e-5);
            Machine::new("ports", vec![level], device.clone())
        };
        // Panels that are fetched one after the other do not use all ports at once, so their time is measured.
        let guess = case.waiting.report().traffic_bytes as f64 / (computing * ratio);
        let communicating = spmd_emulated(&ports(guess)?, 1.0, |world| medians(world, &[&case.communicating], runs))?;
        let bandwidth = guess * communicating[0][0] / (computing * ratio);
        let machine = ports(bandwidth)?;
        spmd_emulated(&machine, 1.0, |world| {
            head(world, grid, size, &format!("emulated ports of {}", units::scaled(bandwidth, "B/s")));
            row(world, &case, runs, Some(&machine))
        })?;
    }
    Ok(())
}

fn cases(grid: &Grid, size: usize, panels: usize) -> polyshard::Result<Vec<Case>> {
    let algorithms = [Algorithm::Summa, Algorithm::Cannon, Algorithm::AgGemm, Algorithm::GemmRs];
    algorithms.into_iter().map(|algorithm| Case::new(algorithm, grid, size, panels)).collect()
}

fn head(world: &World, grid: &Grid, size: usize, of: &str) {
    if world.is_root() {
        println!("\n{size}^2 f64 on {grid} ranks, {of}");
        println!(
            "{:8} {:>6} {:>10} {:>13} {:>10} {:>10} {:>8} {:>8} {:>7} {:>10} {:>11} {:>8}",
            "product",
            "panels",
            "computing",
            "communicating",
            "waiting",
            "pipelined",
            "/ larger",
            "+ first",
            "hidden",
            "predicted",
            "by a thread",
            "/ slices"
        );
    }
}

fn row(world: &World, case: &Case, runs: usize, machine: Option<&Machine>) -> polyshard::Result<()> {
    let Case { algorithm, panels, waiting, pipelined, computing, communicating } = case;
    let times = medians(world, &[computing, communicating, waiting, pipelined], runs)?;
    let progress = world.progress();
    world.set_progress(Progress::Thread)?;
    let by_thread = medians(world, &[pipelined], runs)?[0];
    world.set_progress(progress)?;
    if !world.is_root() {
        return Ok(());
    }
    let [computing, communicating, waiting, pipelined_took] = times[..] else { unreachable!("four are timed") };
    let larger = f64::max(computing, communicating);
    let first = communicating / *panels as f64;
    // The time that can be hidden: all panels except the first, under all computing except that of the last.
    let most = f64::min(communicating - first, computing * (1.0 - 1.0 / *panels as f64));
    let hidden = (computing + communicating - pipelined_took) / most;
    let predicted = match machine {
        Some(machine) => units::seconds(Prices::new(machine).of(pipelined)?.seconds()),
        None => String::new(),
    };
    println!(
        "{:8} {:>6} {:>10} {:>13} {:>10} {:>10} {:>8.2} {:>8.2} {:>6.0}% {:>10} {:>11} {:>8.2}",
        algorithm.to_string(),
        panels,
        units::seconds(computing),
        units::seconds(communicating),
        units::seconds(waiting),
        units::seconds(pipelined_took),
        pipelined_took / larger,
        pipelined_took / (larger + first),
        100.0 * hidden,
        predicted,
        units::seconds(by_thread),
        by_thread / pipelined_took
    );
    Ok(())
}

/// The median time of each program, in prepared runs in turns, all by messages.
fn medians(world: &World, programs: &[&Program], runs: usize) -> polyshard::Result<Vec<f64>> {
    medians_by(world, Transport::Messages, programs, runs)
}

/// The same, by this transport.
pub(crate) fn medians_by(
    world: &World,
    transport: Transport,
    programs: &[&Program],
    runs: usize,
) -> polyshard::Result<Vec<f64>> {
    let mut prepared = Vec::new();
    for program in programs {
        let inputs = inputs(world, program, |_, at| f64::from((at.iter().sum::<usize>() % 17) as u8))?;
        let mut made = program.prepare::<f64>(world)?.with_transport(transport);
        let output = made.output()?;
        prepared.push((made, inputs, output));
    }
    let mut seconds = vec![Vec::new(); programs.len()];
    for run in 0..=runs {
        for ((made, inputs, output), seconds) in prepared.iter_mut().zip(&mut seconds) {
            let taken = together(world, || made.run_into(&inputs.iter().collect::<Vec<_>>(), output))?;
            if run > 0 {
                seconds.push(taken);
            }
        }
    }
    Ok(seconds.into_iter().map(median).collect())
}
