//! Words of the chosen schedule relative to the bound, if words take all the time; and seconds of searches.

use super::kernels::Kernel;
use polyshard::layout::Name;
use polyshard::machine::{Device, Interconnect, Level, Machine, units};
use polyshard::prelude::*;
use polyshard::program::Number;
use polyshard::search::SequenceSearch;
use polyshard::text::{Definitions, Given};
use polyshard_testing::bench::record::median;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// The number of timed lowerings.
const RUNS: usize = 21;

/// This many devices with a port each; a word takes `slow` times as long as an operation.
fn machine(devices: usize, slow: f64) -> polyshard::Result<Machine> {
    let (name, interconnect) = ("rank".into(), Interconnect::Switch);
    let bandwidth = 8e12 / slow;
    let level = Level { name, count: devices, interconnect, bandwidth, latency: 0.0, shared_ports: None, bypass: None };
    let flops = [("f64".to_owned(), 1e12)].into();
    Ok(Machine::new(
        "switch",
        vec![level],
        Device { memory_bandwidth: 1e13, memory_capacity: 1 << 50, flops, ..Device::default() },
    )?)
}

fn product([m, n, k]: [usize; 3]) -> Kernel {
    Kernel { name: "product", text: "ij,jk->ik", shapes: vec![vec![m, k], vec![k, n]] }
}

fn mttkrp([i, j, k]: [usize; 3], r: usize) -> Kernel {
    Kernel { name: "mttkrp", text: "ijk,jr,kr->ir", shapes: vec![vec![i, j, k], vec![j, r], vec![k, r]] }
}

fn tucker(n: usize, r: usize) -> Kernel {
    Kernel { name: "tucker", text: "ijk,ia,jb,kc->abc", shapes: vec![vec![n; 3], vec![n, r], vec![n, r], vec![n, r]] }
}

/// Prints words over bound for the rows of the literature's tables, next to the best known ratio.
pub(crate) fn compare() -> polyshard::Result<()> {
    println!(
        "{:8} {:24} {:>6} {:>6}  {:16} {:>12} {:>9} {:>9}",
        "kernel", "extents", "ranks", "used", "grid", "words", "/ bound", "known"
    );
    let cube = [4096; 3];
    let products = [
        (
            cube,
            vec![
                (4, 1.135),
                (6, 1.224),
                (7, 1.28),
                (8, 1.0),
                (13, 1.07),
                (16, 1.097),
                (31, 1.07),
                (36, 1.014),
                (64, 1.0),
                (127, 1.01),
                (512, 1.0),
            ],
        ),
        ([9600, 2400, 600], vec![(4, 1.0), (36, 1.0), (512, 1.0)]),
        ([1024, 256, 64], vec![(4, 1.0), (16, 1.0), (64, 1.0), (512, 1.0)]),
        ([32768, 1024, 1024], vec![(16, 1.0), (64, 1.126)]),
    ];
    for (extents, rows) in products {
        for (ranks, known) in rows {
            row(&product(extents), &format!("{extents:?}"), ranks, known, if extents == cube { 1e4 } else { 1e3 })?;
        }
    }
    for (extent, columns, ranks, known) in [
        (1724, 42, 8, 1.0),
        (2900, 68, 64, 1.0),
        (3425, 85, 125, 1.0),
        (4872, 120, 512, 1.0),
        (1908, 48, 12, 1.022),
        (4116, 126, 252, 1.003),
        (64, 4096, 64, 1.0),
    ] {
        row(&mttkrp([extent; 3], columns), &format!("{extent}^3, {columns}"), ranks, known, 450.0 * extent as f64)?;
    }
    println!("\nwhere memory is short: the bytes that a rank may hold, in even shares of a product of 4096^3");
    for (ranks, shares) in
        [(16, 1.1), (16, 1.5), (16, 1.8), (16, 3.0), (64, 1.1), (64, 1.5), (64, 1.8), (64, 2.0), (64, 2.6), (64, 4.0)]
    {
        short(ranks, shares)?;
    }
    println!();
    for ranks in [8, 64, 512] {
        row(&tucker(256, 16), "256^3 to 16^3", ranks, 1.0, 3e4)?;
    }
    Ok(())
}

/// Words take `slow` times as long as operations: enough that words decide, although operations could hide them, but
/// not enough that one rank computes everything.
fn row(kernel: &Kernel, extents: &str, ranks: usize, known: f64, slow: f64) -> polyshard::Result<()> {
    let machine = machine(ranks, slow)?;
    let choice = kernel.schedule(DType::F64)?.auto(ranks, &machine).find()?;
    let best = choice.best();
    // The bound for all ranks, although some of them may be idle.
    let bound = choice.program().kernel().lower_bound(ranks, None).words;
    let grid: Vec<_> = best.grid().iter().map(|(_, ranks)| ranks.to_string()).collect();
    println!(
        "{:8} {extents:24} {ranks:>6} {:>6}  {:16} {:>12} {:>9.3} {known:>9.3}",
        kernel.name,
        best.ranks(),
        grid.join(" "),
        best.words(),
        best.words() as f64 / bound
    );
    Ok(())
}

/// Prints words over the bound of a product of 4096 x 4096 x 4096 whose ranks may hold `shares` times an even share.
fn short(ranks: usize, shares: f64) -> polyshard::Result<()> {
    let machine = machine(ranks, 1e6)?;
    let elements = (shares * 3.0 * 4096.0 * 4096.0 / ranks as f64) as u64;
    let choice =
        product([4096; 3]).schedule(DType::F64)?.auto(ranks, &machine).all_ranks().memory(8 * elements).find()?;
    let bound = choice.bound().words;
    let grid: Vec<_> = choice.best().grid().iter().map(|(_, ranks)| ranks.to_string()).collect();
    let steps = choice.program().nests().map(|nest| nest.work().times).max().unwrap_or(1);
    println!(
        "{ranks:>6} ranks, {shares:>4.1} shares  {:12} {steps:>5} steps {:>12} words, {:>6.3} times the bound",
        grid.join(" "),
        choice.best().words(),
        choice.best().words() as f64 / bound
    );
    Ok(())
}

/// Prints the seconds of searches, on a machine where both words and operations matter.
pub(crate) fn find() -> polyshard::Result<()> {
    println!("{:8} {:>6} {:>10} {:>8} {:>10}", "kernel", "ranks", "grids", "priced", "seconds");
    for ranks in [4, 64, 512, 4096] {
        for kernel in [product([8192; 3]), mttkrp([1024; 3], 64)] {
            let machine = machine(ranks, 30.0)?;
            let schedule = kernel.schedule(DType::F64)?;
            let start = Instant::now();
            let choice = schedule.auto(ranks, &machine).find()?;
            let seconds = start.elapsed().as_secs_f64();
            println!(
                "{:8} {ranks:>6} {:>10} {:>8} {seconds:>10.3}",
                kernel.name,
                choice.considered(),
                1 + choice.others().len()
            );
        }
    }
    println!("\nproducts of three kernels in sequence, 512^3 to 64^3 (examples/poly/tucker.poly), machine a100");
    println!("{:>6} {:>10} {:>10}", "ranks", "meshes", "seconds");
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/poly/tucker.poly"))
        .expect("a file of kernels");
    let extents = [("d0", 512), ("d1", 512), ("d2", 512), ("r0", 64), ("r1", 64), ("r2", 64)];
    let values = extents.map(|(name, extent)| (Name::new(name), Number::Int(extent)));
    let given = Given { arrays: None, values: &values, dtype: Some(DType::F64) };
    let stages = Definitions::parse(&text).and_then(|file| file.bind(&given)).expect("a file of kernels");
    for ranks in [8, 64] {
        let machine = Machine::preset("a100")?;
        let mut search = SequenceSearch::new(ranks, &machine);
        for stage in &stages {
            let inputs = stage.kernel.inputs.iter().map(|(name, _)| *name);
            search = search.stage(&stage.into(), inputs, stage.kernel.output.0);
        }
        let start = Instant::now();
        let choice = search.find()?;
        println!("{ranks:>6} {:>10} {:>10.3}", choice.considered(), start.elapsed().as_secs_f64());
    }
    println!("\none product of 8192^3, lowered; medians of {RUNS}");
    println!("{:>6} {:>12} {:>12}", "ranks", "proved", "not proved");
    for ranks in [8, 64, 512] {
        let schedule = product([8192; 3]).schedule(DType::F64)?;
        let schedule = schedule.auto(ranks, &machine(ranks, 30.0)?).find()?.schedule().clone();
        let time = |lower: &dyn Fn()| {
            let once = |_| {
                let start = Instant::now();
                lower();
                start.elapsed().as_secs_f64()
            };
            median((0..RUNS).map(once).collect())
        };
        let proved = time(&|| drop(schedule.lower()));
        let unproved = time(&|| drop(schedule.unproved()));
        println!("{ranks:>6} {:>12} {:>12}", units::seconds(proved), units::seconds(unproved));
    }
    Ok(())
}
