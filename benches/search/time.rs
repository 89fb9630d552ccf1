//! The chosen schedule compared with the others: predicted and measured.

use super::kernels::{Kernel, timed};
use polyshard::machine::{Device, Interconnect, Level, Machine, detect, units};
use polyshard::prelude::*;
use polyshard::runtime::{Backend, spmd_emulated};
use polyshard::search::Candidate;
use polyshard_testing::bench::clock::together;
use polyshard_testing::bench::record::median;
use polyshard_testing::filled::inputs;
use std::fmt;

/// Times the schedules of all kernels, or of the one with this name, and prints a row for each.
pub(crate) fn measure(
    ranks: usize,
    runs: usize,
    schedules: usize,
    scale: usize,
    only: Option<&str>,
) -> polyshard::Result<()> {
    polyshard::spmd(ranks, |world| {
        let machine = detect(world)?;
        let backend = if world.backend() == Backend::Mpi { "MPI" } else { "threads" };
        table(world, &machine, &format!("{backend} ({machine})"), [runs, schedules, scale], false, only)
    })?;
    Ok(())
}

/// As [`measure`], on two nodes of four ranks that are emulated by threads: a node's ports are shared, and ten times
/// slower than those of its ranks.
pub(crate) fn emulate(runs: usize, schedules: usize, scale: usize) -> polyshard::Result<()> {
    let level =
        |name: &str, count, bandwidth, latency| Level::new(name, count, Interconnect::Switch, bandwidth, latency);
    let node = Level { shared_ports: Some(1), ..level("node", 2, 1e7, 1e-3) };
    let (levels, device) = (vec![node, level("rank", 4, 1e8, 5e-4)], Device::default());
    let links = Machine::new(
        "two nodes",
        levels.clone(),
        Device { memory_bandwidth: 1e10, memory_capacity: 1 << 40, ..device },
    )?;
    spmd_emulated(&links, 1.0, |world| {
        // The speed of its devices is measured on all ranks at once; its links are the emulated ones.
        let machine = Machine::new("two nodes", levels.clone(), detect(world)?.device().clone())?;
        table(world, &machine, "emulated nodes, none idle", [runs, schedules, scale], true, None)
    })?;
    Ok(())
}

fn table(
    world: &World,
    machine: &Machine,
    of: &str,
    [runs, schedules, scale]: [usize; 3],
    emulated: bool,
    only: Option<&str>,
) -> polyshard::Result<()> {
    if world.is_root() {
        println!(
            "\n{} ranks, {of}, f64, {} of memory a rank a second",
            world.size(),
            units::scaled(machine.device().memory_bandwidth, "B/s")
        );
        println!(
            "{:8} {:>4}  {:20} {:>10} {:>10} {:>6}  {:20} {:>6} {:>6}  {:>6} {:>5}",
            "kernel", "of", "chosen", "predicted", "measured", "off", "fastest", "regret", "noise", "order", "worst"
        );
    }
    let mut worst: Option<Inversion> = None;
    for kernel in timed(scale).iter().filter(|kernel| only.is_none_or(|name| name == kernel.name)) {
        let of_kernel = row(world, kernel, machine, [runs, schedules], emulated, only.is_some())?;
        worst = [worst, of_kernel].into_iter().flatten().max_by(|one, other| one.ratio().total_cmp(&other.ratio()));
    }
    if world.is_root() {
        let none = format!("no pair more than {APART} % apart is in the wrong order");
        println!("{}", worst.map_or(none, |worst| format!("worst inversion: {worst}")));
    }
    Ok(())
}

/// Schedules whose times differ by more than this many percent must be in the right order.
const APART: u8 = 15;

/// Two schedules that were predicted in the wrong order.
struct Inversion {
    kernel: String,
    /// The faster one, then the slower one.
    names: [String; 2],
    predicted: [f64; 2],
    measured: [f64; 2],
}

impl Inversion {
    /// The slower one's time relative to the faster one's.
    fn ratio(&self) -> f64 {
        self.measured[1] / self.measured[0]
    }
}

impl fmt::Display for Inversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, names: [faster, slower], predicted, measured } = self;
        let by = |[less, more]: [f64; 2]| {
            format!("{:.0} % ({} and {})", 100.0 * (more / less - 1.0), units::seconds(less), units::seconds(more))
        };
        // 0 % if both are predicted to take equally long.
        let [predicted, measured] = [by([predicted[1], predicted[0]]), by(*measured)];
        write!(f, "{kernel}: predicted {slower} < {faster} by {predicted}, measured {faster} < {slower} by {measured}")
    }
}

fn row(
    world: &World,
    kernel: &Kernel,
    machine: &Machine,
    [runs, schedules]: [usize; 2],
    emulated: bool,
    lists: bool,
) -> polyshard::Result<Option<Inversion>> {
    let search = kernel.schedule(DType::F64)?;
    let search = search.auto(world.size(), machine).at_least(schedules);
    // With threads as emulated ranks, those that compute would use the cores of idle ones.
    let choice = if emulated { search.all_ranks() } else { search }.find()?;
    let candidates: Vec<&Candidate> = [choice.best()].into_iter().chain(choice.others()).take(schedules).collect();
    // The chosen one twice: the difference between the two is noise.
    let contestants: Vec<&Candidate> = candidates.iter().copied().chain([choice.best()]).collect();
    let programs = contestants.iter().map(|candidate| candidate.schedule().lower());
    let programs = programs.collect::<Result<Vec<Program>, _>>()?;
    let measured = medians(world, &programs.iter().collect::<Vec<_>>(), runs)?;
    let again = measured[candidates.len()];
    let measured = &measured[..candidates.len()];
    if !world.is_root() {
        return Ok(None);
    }
    let predicted: Vec<f64> = candidates.iter().map(|candidate| candidate.cost().seconds()).collect();
    let fastest = (0..measured.len()).min_by(|&a, &b| measured[a].total_cmp(&measured[b])).unwrap_or(0);
    let off: Vec<f64> =
        predicted.iter().zip(measured).map(|(predicted, measured)| predicted / measured - 1.0).collect();
    let worst = off.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0);
    if lists {
        for (candidate, measured) in candidates.iter().zip(measured) {
            let (name, predicted) = (name(candidate), units::seconds(candidate.cost().seconds()));
            println!("  {name:30} predicted {predicted:>10}, measured {:>10}", units::seconds(*measured));
        }
    }
    // The pairs that are further apart than `APART`, and those of them in the right order.
    let (mut apart, mut right, mut inverted) = (0, 0, None);
    for slower in 0..measured.len() {
        for faster in 0..measured.len() {
            if measured[slower] / measured[faster] <= 1.0 + f64::from(APART) / 100.0 {
                continue;
            }
            apart += 1;
            if predicted[slower] > predicted[faster] {
                right += 1;
                continue;
            }
            let pair = [faster, slower];
            let inversion = Inversion {
                kernel: kernel.name.to_owned(),
                names: pair.map(|nth| name(candidates[nth])),
                predicted: pair.map(|nth| predicted[nth]),
                measured: pair.map(|nth| measured[nth]),
            };
            if inverted.as_ref().is_none_or(|worst: &Inversion| worst.ratio() < inversion.ratio()) {
                inverted = Some(inversion);
            }
        }
    }
    println!(
        "{:8} {:>4}  {:20} {:>10} {:>10} {:>5.0}%  {:20} {:>5.0}% {:>5.0}%  {:>6} {:>4.0}%",
        kernel.name,
        candidates.len(),
        name(candidates[0]),
        units::seconds(predicted[0]),
        units::seconds(measured[0]),
        100.0 * off[0],
        name(candidates[fastest]),
        100.0 * (measured[0] / measured[fastest] - 1.0),
        100.0 * (again / measured[0] - 1.0).abs(),
        format!("{right}/{apart}"),
        100.0 * worst
    );
    Ok(inverted)
}

/// The median time of each program on as many ranks as its mesh has, in prepared runs in turns.
pub(crate) fn medians(world: &World, programs: &[&Program], runs: usize) -> polyshard::Result<Vec<f64>> {
    let mut seconds = vec![Vec::new(); programs.len()];
    for run in 0..=runs {
        for (program, seconds) in programs.iter().zip(&mut seconds) {
            let part = world.leading(program.mesh().size())?;
            let mut prepared = None;
            if let Some(part) = &part {
                let inputs = inputs(part, program, |_, at| f64::from((at.iter().sum::<usize>() % 17) as u8))?;
                let mut made = program.prepare::<f64>(part)?;
                let output = made.output()?;
                prepared = Some((made, inputs, output));
            }
            let mut once = || {
                together(world, || {
                    if let Some((prepared, inputs, output)) = &mut prepared {
                        prepared.run_into(&inputs.iter().collect::<Vec<_>>(), output)?;
                    }
                    Ok(())
                })
            };
            // The first run touches new memory, and is not counted.
            once()?;
            let taken = once()?;
            if run > 0 {
                seconds.push(taken);
            }
        }
    }
    Ok(seconds.into_iter().map(median).collect())
}

/// The grid and the steps of a schedule.
pub(crate) fn name(candidate: &Candidate) -> String {
    let grid: Vec<_> =
        candidate.grid().iter().filter(|(_, ranks)| *ranks > 1).map(|(name, ranks)| format!("{name}{ranks}")).collect();
    let steps = candidate.steps();
    let steps = if steps > 1 { format!(" in {steps}") } else { String::new() };
    format!("{}{steps}", if grid.is_empty() { "one rank".to_owned() } else { grid.join(" ") })
}
