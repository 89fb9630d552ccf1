//! Rounds of stencils and of conjugate gradients, compared with the same computation without communication.

use crate::products::medians_by;
use polyshard::machine::{Device, Interconnect, Level, Machine, units};
use polyshard::planner::cost::Prices;
use polyshard::prelude::*;
use polyshard::runtime::{Backend, Transport, spmd_emulated};
use polyshard_testing::bench::clock::together;
use polyshard_testing::bench::products::Grid;
use polyshard_testing::bench::record::median;

/// A program of rounds, and one in which each rank does the same work on its own part only.
struct Case {
    name: &'static str,
    program: Program,
    alone: Program,
    rounds: u64,
}

/// Times rounds on the launched ranks, in place and by messages.
pub(crate) fn measure(grid: &Grid, size: usize, rounds: u64, runs: usize) -> polyshard::Result<()> {
    let mesh = Mesh::new([("x", grid.extents[0]), ("y", grid.extents[1])]);
    let cases = [heat(&mesh, size, rounds)?, conjugate_gradients(&mesh, size, rounds)?];
    polyshard::spmd(grid.size(), |world| {
        let backend = if world.backend() == Backend::Mpi { "MPI" } else { "threads" };
        for transport in [Transport::Auto, Transport::Messages] {
            if world.is_root() {
                let how = if transport == Transport::Auto { "in place" } else { "by messages" };
                println!("\n{size}^2 f64 on {grid} ranks, {backend}, {how}, {rounds} rounds");
                println!("{:9} {:>10} {:>10} {:>7} {:>12}", "rounds", "each", "alone", "ratio", "bytes each");
            }
            for case in &cases {
                row(world, case, transport, runs)?;
            }
        }
        if world.is_root() { predicted() } else { Ok(()) }
    })
    .map(drop)
}

/// Ranks on a switch, whose ports have this bandwidth and latency, with operations and bytes of memory per second.
fn ports(ranks: usize, [bandwidth, latency]: [f64; 2], operations: f64, memory: f64) -> polyshard::Result<Machine> {
    let level = Level::new("rank", ranks, Interconnect::Switch, bandwidth, latency);
    let flops = [("f64".to_owned(), operations)].into();
    let device = Device { memory_bandwidth: memory, memory_capacity: 1 << 40, flops, ..Device::default() };
    Ok(Machine::new("ports", vec![level], device)?)
}

/// Times heat that computes the interior while rims are in flight, on ports slow enough that rims take `ratio` times as
/// long as computing.
pub(crate) fn emulated(grid: &Grid, size: usize, rounds: u64, ratio: f64, runs: usize) -> polyshard::Result<()> {
    let mesh = Mesh::new([("x", grid.extents[0]), ("y", grid.extents[1])]);
    let Case { program: waiting, alone, .. } = heat(&mesh, size, rounds)?;
    let first = steps(heat_of(&mesh, size).interior_first("A").expect_overlap("A", 1.0).lower()?, rounds)?;
    let each = |seconds: f64| seconds / rounds as f64;
    let times = polyshard::spmd(grid.size(), |world| medians_by(world, Transport::Messages, &[&alone], runs))?;
    let computing = each(times[0][0]);
    let bytes = waiting.report().traffic_bytes as f64 / rounds as f64;
    let bandwidth = bytes / (computing * ratio);
    let machine =
        ports(grid.size(), [bandwidth, 1e-5], 6.0 * (size * size) as f64 / grid.size() as f64 / computing, 1e13)?;
    let programs = [&alone, &waiting, &first];
    let times = spmd_emulated(&machine, 1.0, |world| medians_by(world, Transport::Messages, &programs, runs))?;
    let [computing, waiting, took] = [0, 1, 2].map(|nth| each(times[0][nth]));
    let communicating = waiting - computing;
    let inside = first.nests().next().map_or(0.0, |nest| nest.interior_part());
    let most = f64::min(communicating, computing * inside);
    let seconds = units::seconds;
    println!("\n{size}^2 f64 on {grid} ranks, emulated ports of {}", units::scaled(bandwidth, "B/s"));
    println!(
        "{:8} {:>10} {:>10} {:>13} {:>14} {:>8} {:>7} {:>10}",
        "rounds", "computing", "waiting", "communicating", "interior first", "/ larger", "hidden", "predicted"
    );
    println!(
        "{:8} {:>10} {:>10} {:>13} {:>14} {:>8.2} {:>6.0}% {:>10}",
        "heat",
        seconds(computing),
        seconds(waiting),
        seconds(communicating),
        seconds(took),
        took / f64::max(computing, communicating),
        100.0 * (waiting - took) / most,
        seconds(each(Prices::new(&machine).of(&first)?.seconds()))
    );
    Ok(())
}

/// Times heat with halos for one or more steps, on ports where a message takes as long as computing a step.
pub(crate) fn wide(grid: &Grid, size: usize, runs: usize) -> polyshard::Result<()> {
    let mesh = Mesh::new([("x", grid.extents[0]), ("y", grid.extents[1])]);
    let (rounds, widths) = (48, [1, 2, 4, 8]);
    let alone = heat(&mesh, size, rounds)?.alone;
    let times = polyshard::spmd(grid.size(), |world| medians_by(world, Transport::Messages, &[&alone], runs))?;
    let computing = times[0][0] / rounds as f64;
    let machine =
        ports(grid.size(), [1e9, computing], 6.0 * (size * size) as f64 / grid.size() as f64 / computing, 1e13)?;
    let of = |width: usize| steps(heat_of(&mesh, size).halo("A", width).lower()?, rounds / width as u64);
    let programs = widths.into_iter().map(of).collect::<polyshard::Result<Vec<_>>>()?;
    let programs: Vec<_> = programs.iter().collect();
    let times = spmd_emulated(&machine, 1.0, |world| medians_by(world, Transport::Messages, &programs, runs))?;
    let each = |seconds: f64| units::seconds(seconds / rounds as f64);
    println!("\n{size}^2 f64 on {grid} ranks, emulated ports with a latency of {}", units::seconds(computing));
    println!("{:8} {:>6} {:>10} {:>10} {:>10}", "rounds", "halo", "computing", "each step", "predicted");
    for ((width, program), took) in widths.iter().zip(programs).zip(&times[0]) {
        let predicted = each(Prices::new(&machine).of(program)?.seconds());
        println!("{:8} {width:>6} {:>10} {:>10} {predicted:>10}", "heat", units::seconds(computing), each(*took));
    }
    Ok(())
}

/// Prints the predicted seconds and the bytes of a step for each rank with equal work, and the number of ranks that it
/// exchanges halos with.
fn predicted() -> polyshard::Result<()> {
    println!("\npredicted on switches of 1 GB/s, at equal work of a rank");
    println!("{:9} {:>6} {:>10} {:>12} {:>9}", "rounds", "ranks", "each", "bytes each", "messages");
    for side in [2, 4, 8, 16] {
        let mesh = Mesh::new([("x", side), ("y", side)]);
        let machine = ports(side * side, [1e9, 1e-6], 4e9, 1e10)?;
        let Case { name, program, .. } = heat(&mesh, 256 * side, 100)?;
        let cost = Prices::new(&machine).of(&program)?;
        let nest = program.nests().next().expect("a kernel");
        let partners = nest.transfers[0].route.partners(&mesh);
        let each = units::seconds(cost.seconds() / 100.0);
        println!("{name:9} {:>6} {each:>10} {:>12} {partners:>9}", side * side, cost.received / 100);
    }
    Ok(())
}

fn row(world: &World, case: &Case, transport: Transport, runs: usize) -> polyshard::Result<()> {
    let Case { name, program, alone, rounds } = case;
    let programs = [program, alone];
    let mut prepared = Vec::new();
    for program in programs {
        let arrays = program.inputs().map(|input| {
            let is_start = input.name.as_str() == "X";
            DistArray::from_fn(world, &input.sharding, |at| {
                if is_start { 0.0 } else { ((at.iter().sum::<usize>() * 7 + at[at.len() - 1]) % 13) as f64 + 1.0 }
            })
        });
        prepared
            .push((program.prepare::<f64>(world)?.with_transport(transport), arrays.collect::<Result<Vec<_>, _>>()?));
    }
    let mut times = vec![Vec::new(); programs.len()];
    let mut received = 0;
    for run in 0..=runs {
        for ((prepared, arrays), times) in prepared.iter_mut().zip(&mut times) {
            let inputs: Vec<_> = arrays.iter().collect();
            let before = world.bytes_received();
            let seconds = together(world, || prepared.run(&inputs).map(drop))?;
            received = received.max(world.bytes_received() - before);
            if run > 0 {
                times.push(seconds);
            }
        }
    }
    if world.is_root() {
        let [each, alone] = [0, 1].map(|nth| median(std::mem::take(&mut times[nth])) / *rounds as f64);
        println!(
            "{name:9} {:>10} {:>10} {:>7.2} {:>12}",
            units::seconds(each),
            units::seconds(alone),
            each / alone,
            received / rounds
        );
    }
    Ok(())
}

/// Steps of the heat equation on a torus; alone, each rank has a separate torus.
fn heat(mesh: &Mesh, size: usize, rounds: u64) -> polyshard::Result<Case> {
    let [x, y] = mesh.axes();
    vars!(p, po, pi);
    let step = heat_of(mesh, size).lower()?;
    let (ranks, rows, columns) = (mesh.size(), size.div_ceil(x.extent), size.div_ceil(y.extent));
    let alone = kernel! {
        fn heat(A: [f64; ranks, rows, columns]) -> B: [f64; ranks, rows, columns] {
            B[p, i, j] = 0.5 * A[p, i, j]
                + 0.125 * (A[p, (i - 1) % rows, j] + A[p, (i + 1) % rows, j]
                    + A[p, i, (j - 1) % columns] + A[p, i, (j + 1) % columns])
        }
    };
    let line = Mesh::new([("z", ranks)]);
    let [z] = line.axes();
    let alone = alone.distribute([p], [po], [pi], &line).shard("A", [p.at(z)]).shard("B", [p.at(z)]).lower()?;
    Ok(Case { name: "heat", program: steps(step, rounds)?, alone: steps(alone, rounds)?, rounds })
}

/// Time steps as rounds of one program.
fn steps(step: Program, rounds: u64) -> polyshard::Result<Program> {
    Ok(Sequence::new().repeat(rounds, Sequence::new().stage(&step, ["A"], "B").carry("B", "A")).build()?)
}

fn heat_of(mesh: &Mesh, size: usize) -> Schedule {
    let [x, y] = mesh.axes();
    vars!(i, j, io, ii, jo, ji);
    let step = kernel! {
        fn heat(A: [f64; size, size]) -> B: [f64; size, size] {
            B[i, j] = 0.5 * A[i, j]
                + 0.125 * (A[(i - 1) % size, j] + A[(i + 1) % size, j] + A[i, (j - 1) % size] + A[i, (j + 1) % size])
        }
    };
    step.distribute([i, j], [io, jo], [ii, ji], mesh)
        .shard("A", [dim(0).at(x), dim(1).at(y)])
        .shard("B", [i.at(x), j.at(y)])
}

/// Conjugate gradients on the Laplacian of a square; alone, each rank has a separate system.
fn conjugate_gradients(mesh: &Mesh, size: usize, rounds: u64) -> polyshard::Result<Case> {
    let [x, y] = mesh.axes();
    vars!(i, j, io, ii, jo, ji, p, po, pi);
    let laplace = kernel! {
        fn laplace(D: [f64; size, size]) -> Q: [f64; size, size] {
            Q[i, j] = 4.0 * D[i, j] - (D[i - 1, j] else 0.0) - (D[i + 1, j] else 0.0)
                - (D[i, j - 1] else 0.0) - (D[i, j + 1] else 0.0)
        }
    };
    let dot = kernel! { fn dot(A: [f64; size, size], B: [f64; size, size]) -> s: f64 { s[] += A[i, j] * B[i, j] } };
    let onward = kernel! {
        fn onward(A: [f64; size, size], s: f64, t: f64, B: [f64; size, size]) -> C: [f64; size, size] {
            C[i, j] = A[i, j] + s[] / t[] * B[i, j]
        }
    };
    let back = kernel! {
        fn back(A: [f64; size, size], s: f64, t: f64, B: [f64; size, size]) -> C: [f64; size, size] {
            C[i, j] = A[i, j] - s[] / t[] * B[i, j]
        }
    };
    let over = |schedule: Schedule, tensors: &[&'static str]| {
        let schedule = schedule.distribute([i, j], [io, jo], [ii, ji], mesh);
        tensors.iter().fold(schedule, |schedule, name| schedule.shard(*name, [dim(0).at(x), dim(1).at(y)])).lower()
    };
    let together = [
        over(laplace, &["D", "Q"])?,
        over(dot, &["A", "B"])?,
        over(onward, &["A", "B", "C"])?,
        over(back, &["A", "B", "C"])?,
    ];
    let (ranks, rows, columns) = (mesh.size(), size.div_ceil(x.extent), size.div_ceil(y.extent));
    let line = Mesh::new([("z", ranks)]);
    let [z] = line.axes();
    let laplace = kernel! {
        fn laplace(D: [f64; ranks, rows, columns]) -> Q: [f64; ranks, rows, columns] {
            Q[p, i, j] = 4.0 * D[p, i, j] - (D[p, i - 1, j] else 0.0) - (D[p, i + 1, j] else 0.0)
                - (D[p, i, j - 1] else 0.0) - (D[p, i, j + 1] else 0.0)
        }
    };
    let dot = kernel! {
        fn dot(A: [f64; ranks, rows, columns], B: [f64; ranks, rows, columns]) -> s: [f64; ranks] {
            s[p] += A[p, i, j] * B[p, i, j]
        }
    };
    let onward = kernel! {
        fn onward(A: [f64; ranks, rows, columns], s: [f64; ranks], t: [f64; ranks], B: [f64; ranks, rows, columns])
            -> C: [f64; ranks, rows, columns] { C[p, i, j] = A[p, i, j] + s[p] / t[p] * B[p, i, j] }
    };
    let back = kernel! {
        fn back(A: [f64; ranks, rows, columns], s: [f64; ranks], t: [f64; ranks], B: [f64; ranks, rows, columns])
            -> C: [f64; ranks, rows, columns] { C[p, i, j] = A[p, i, j] - s[p] / t[p] * B[p, i, j] }
    };
    let over = |schedule: Schedule, tensors: &[&'static str]| {
        let schedule = schedule.distribute([p], [po], [pi], &line);
        tensors.iter().fold(schedule, |schedule, name| schedule.shard(*name, [dim(0).at(z)])).lower()
    };
    let vectors = ["A", "s", "t", "B", "C"];
    let alone =
        [over(laplace, &["D", "Q"])?, over(dot, &["A", "B", "s"])?, over(onward, &vectors)?, over(back, &vectors)?];
    let in_rounds = |[laplace, dot, onward, back]: [Program; 4]| -> polyshard::Result<Program> {
        let round = Sequence::new()
            .stage(&laplace, ["D"], "Q")
            .stage(&dot, ["D", "Q"], "dq")
            .stage(&onward, ["X", "rr", "dq", "D"], "X2")
            .stage(&back, ["R", "rr", "dq", "Q"], "R2")
            .stage(&dot, ["R2", "R2"], "rr2")
            .stage(&onward, ["R2", "rr2", "rr", "D"], "D2")
            .carry("X2", "X")
            .carry("R2", "R")
            .carry("D2", "D")
            .carry("rr2", "rr");
        Ok(Sequence::new().stage(&dot, ["R", "R"], "rr").repeat(rounds, round).keep("X").build()?)
    };
    Ok(Case { name: "cg", program: in_rounds(together)?, alone: in_rounds(alone)?, rounds })
}
