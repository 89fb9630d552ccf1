//! Collectives inside programs on an emulated machine of two levels: as a single call, and in the stages that the planner
//! chooses.

use ndarray::{ArrayViewD, ArrayViewMutD};
use polyshard::layout::Stages;
use polyshard::machine::{Device, Interconnect, Level, Machine, units};
use polyshard::planner::cost_on;
use polyshard::planner::placement::{ParallelismMatrix, PlacedMesh, place};
use polyshard::prelude::*;
use polyshard::program::Leg;
use polyshard::runtime::{Transport, spmd_emulated};
use polyshard::{launched_ranks, leaf};

use crate::products::medians_by;

/// Bytes per second of a port between nodes, and of a port inside a node.
const PORTS: [f64; 2] = [1e7, 1e8];

/// Prints the seconds of collectives as a single call and in stages, measured and predicted, for matrices of `size` by
/// `size`.
pub(crate) fn compare(size: usize, runs: usize) -> polyshard::Result<()> {
    for shared_ports in [Some(1), None] {
        let of = if shared_ports.is_some() { "of a node" } else { "of each device" };
        println!(
            "\n{size}^2 f64 on 2 nodes of 4, emulated ports {of} of {} between nodes, of {} inside",
            units::scaled(PORTS[0], "B/s"),
            units::scaled(PORTS[1], "B/s")
        );
        println!(
            "{:14} {:31} {:>10} {:>10} {:>10} {:>10} {:>6}  stages",
            "collective", "placed", "at once", "predicted", "in stages", "predicted", "gain"
        );
        let machine = machine(2, 4, shared_ports)?;
        for (mesh, rows) in
            [(Mesh::new([("x", 8)]), vec![vec![2, 4]]), (Mesh::new([("x", 4), ("y", 2)]), vec![vec![1, 4], vec![2, 1]])]
        {
            let placed = PlacedMesh::new(&mesh, &machine, &ParallelismMatrix::new(rows)?)?;
            for (name, schedule) in schedules(&mesh, size)? {
                row(name, &schedule.lower()?, &placed, runs)?;
            }
        }
    }
    Ok(())
}

/// Nodes of devices, with a port between nodes for each device, or `shared_ports` for each node.
fn machine(nodes: usize, devices: usize, shared_ports: Option<usize>) -> polyshard::Result<Machine> {
    let level = |name: &str, count, bandwidth| Level::new(name, count, Interconnect::Switch, bandwidth, 1e-5);
    let between = Level { shared_ports, ..level("node", nodes, PORTS[0]) };
    let flops = [("f64".to_owned(), 1e18)].into();
    let device = Device { memory_bandwidth: 1e18, memory_capacity: 1 << 40, flops, ..Device::default() };
    Ok(Machine::new("levels", vec![between, level("device", devices, PORTS[1])], device)?)
}

/// Prints the seconds of collectives as a single call and in stages on the launched ranks, which are evenly spread over
/// `nodes` nodes; ranks that share memory use it. As one call, sums are taken in rank order, and in the order that MPI
/// chooses.
pub(crate) fn on_nodes(nodes: usize, size: usize, runs: usize) -> polyshard::Result<()> {
    let ranks = launched_ranks().unwrap_or(nodes);
    let mesh = Mesh::new([("x", ranks)]);
    let placement = ParallelismMatrix::new(vec![vec![nodes, ranks / nodes]])?;
    let placed = PlacedMesh::new(&mesh, &machine(nodes, ranks / nodes, Some(1))?, &placement)?;
    let schedules = schedules(&mesh, size)?;
    polyshard::spmd(ranks, |world| {
        if world.is_root() {
            println!("\n{size}^2 f64 on {nodes} nodes of {}", ranks / nodes);
            println!("{:14} {:>10} {:>10} {:>10} {:>6}", "collective", "at once", "any order", "in stages", "gain");
        }
        for (name, schedule) in &schedules {
            let program = schedule.lower()?;
            let any_order = schedule.clone().reassociate("C").lower()?;
            let staged = program.on(&placed)?;
            if stages_of(&staged).is_none() {
                continue;
            }
            let times = medians_by(world, Transport::Auto, &[&program, &any_order, &staged], runs)?;
            if world.is_root() {
                let [at_once, any, in_stages] = [0, 1, 2].map(|nth| units::seconds(times[nth]));
                println!("{name:14} {at_once:>10} {any:>10} {in_stages:>10} {:>6.2}", times[0] / times[2]);
            }
        }
        Ok(())
    })
    .map(drop)
}

/// The stages of the first collective that has stages.
fn stages_of(program: &Program) -> Option<&Stages> {
    program.body().transfers.iter().flat_map(|transfer| &transfer.route.legs).find_map(Leg::stages)
}

/// Products with one kind of communication each, over all ranks of the mesh: the second operand or the output is the
/// large matrix.
fn schedules(mesh: &Mesh, size: usize) -> polyshard::Result<Vec<(&'static str, Schedule)>> {
    vars!(m, n, k, ko, ki);
    let ranks = mesh.size();
    let rows = kernel! {
        fn rows(A: [f64; ranks, size], B: [f64; size, size]) -> C: [f64; ranks, size] { C[m, n] += A[m, k] * B[k, n] }
    };
    let sums = kernel! {
        fn sums(A: [f64; size, ranks], B: [f64; ranks, size]) -> C: [f64; size, size] { C[m, n] += A[m, k] * B[k, n] }
    };
    let [no_rows, no_sums] = [(&rows, "no_rows"), (&sums, "no_sums")];
    for (schedule, name) in [no_rows, no_sums] {
        let kernel = schedule.kernel().expect("a product").clone();
        leaf::register(name, &kernel, |_: ArrayViewMutD<'_, f64>, _: [ArrayViewD<'_, f64>; 2]| ())?;
    }
    let axes: Vec<Axis> = ["x", "y"].iter().filter_map(|name| mesh.axis(name)).collect();
    let over_all = |var: Var| match axes[..] {
        [x, y] => var.at([x, y]),
        _ => var.at(axes[0]),
    };
    // One loop per axis, each of which divides the remainder of the previous one.
    let distributed = |schedule: &Schedule, var: Var| {
        mesh.as_slice().iter().fold((schedule.clone(), var), |(schedule, rest), axis| {
            let [outer, inner] = ["outer", "inner"].map(|loops| Var::new(&format!("{loops}_{}", axis.name)));
            (schedule.distribute([rest], [outer], [inner], &Mesh::new([(axis.name, axis.extent)])), inner)
        })
    };
    let (rows, mi) = distributed(&rows, m);
    let rows = rows.shard("A", [over_all(m)]).shard("B", [over_all(k)]).shard("C", [over_all(m)]);
    let panels = rows.clone().divide(k, ko, ki, ranks).reorder([ko, mi, n, ki]).communicate("B", ko);
    let (sums, kl) = distributed(&sums, k);
    let sums = sums.shard("A", [over_all(k)]).shard("B", [over_all(k)]);
    let on_one = sums.clone().shard("C", axes.iter().map(|&axis| pin(axis, 0)).collect::<Vec<_>>());
    Ok(vec![
        ("broadcast", panels.tensorize_with([mi, n, ki], no_rows.1)),
        ("all-gather", rows.tensorize_with([mi, n, k], no_rows.1)),
        ("all-reduce", sums.clone().shard("C", []).tensorize_with([m, n, kl], no_sums.1)),
        ("reduce", on_one.tensorize_with([m, n, kl], no_sums.1)),
        ("reduce-scatter", sums.shard("C", [over_all(m)]).tensorize_with([m, n, kl], no_sums.1)),
    ])
}

fn row(name: &str, program: &Program, placed: &PlacedMesh, runs: usize) -> polyshard::Result<()> {
    let staged = program.on(placed)?;
    let stages = stages_of(&staged);
    let programs = if stages.is_some() { vec![program, &staged] } else { vec![program] };
    let times = spmd_emulated(placed.machine(), 1.0, |world| {
        medians_by(&*place(world, placed)?, Transport::Messages, &programs, runs)
    })?;
    let predicted = programs.iter().map(|program| Ok(cost_on(*program, placed)?.moving()));
    let predicted = predicted.collect::<polyshard::Result<Vec<f64>>>()?;
    let shown = |of: &[f64], nth: usize| of.get(nth).map_or(String::new(), |&seconds| units::seconds(seconds));
    let stages = stages.map_or("none take less".into(), |stages| stages.names(program.mesh()).join(", then "));
    println!(
        "{name:14} {:31} {:>10} {:>10} {:>10} {:>10} {:>6}  {stages}",
        format!("({}) as {}", placed.mesh(), placed.matrix()),
        shown(&times[0], 0),
        shown(&predicted, 0),
        shown(&times[0], 1),
        shown(&predicted, 1),
        times[0].get(1).map_or(String::new(), |staged| format!("{:.2}", times[0][0] / staged)),
    );
    Ok(())
}
