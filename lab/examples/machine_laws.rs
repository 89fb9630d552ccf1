//! Detects and measures the machine on all ranks that `mpirun` started, or on `--ranks` threads without it, and checks
//! the properties that must hold anywhere.
//!
//! ```text
//! mpirun -n 4 target/debug/examples/machine_laws --ranks=4
//! ```
//!
//! Times are not checked: only that they exist, that all ranks have the same, and that they make a machine. Nodes of
//! different sizes, and nodes whose ranks are not consecutive, are refused on all ranks.

use polyshard_lab::{MeasureOptions, Topology, detect, measure};
use polyshard_layout::counted;
use polyshard_machine::{Algorithm, Collective, GroupedCollective, Machine, seconds};
use polyshard_runtime::comm::exchange_words;
use polyshard_runtime::{Error, Result, World, spmd};
use polyshard_testing::laws;
use polyshard_testing::laws::nodes::{even, nodes};
use std::time::Duration;

fn main() -> Result<()> {
    let ranks = laws::ranks();
    spmd(ranks, |world| {
        let nodes = nodes(world)?;
        // Levels nest if consecutive ranks are on one node, the same number on each.
        let levels = even(&nodes).filter(|_| nodes.is_sorted()).map(|members| [members.len(), members[0].len()]);
        let said = match levels {
            Some(levels) => {
                found(world, levels)?;
                format!("machines are found on {ranks} ranks of {}", counted(levels[0], "node"))
            }
            None => format!("no machine is found on {ranks} ranks: {}", refused(world)?),
        };
        if world.rank() == 0 {
            println!("{said}");
        }
        Ok::<_, Error>(())
    })
    .map(drop)
}

/// Checks that the detected machine has this many nodes, with this many ranks on each.
fn found(world: &World, [nodes, ranks_per_node]: [usize; 2]) -> Result<()> {
    let found = detect(world)?;
    let topology = Topology::find(world)?;
    assert_eq!((topology.nodes, topology.ranks_per_node), (nodes, ranks_per_node));
    let mut levels = vec![nodes, ranks_per_node];
    // A level of one member has no link, but a machine has a level.
    levels.retain(|&count| count > 1);
    assert_eq!(found.hierarchy(), if levels.is_empty() { vec![1] } else { levels.clone() });
    assert_eq!(found.device().memory_capacity, topology.memory / ranks_per_node as u64);
    check(world, &found)?;
    if world.size() > 1 {
        return measured(world, levels.len());
    }
    let said = measure(world, &MeasureOptions::default()).expect_err("one rank is too few");
    assert_eq!(said.to_string(), "measuring messages needs at least 2 ranks");
    Ok(())
}

/// Returns the error on all ranks for nodes that do not make levels.
fn refused(world: &World) -> Result<String> {
    let said = detect(world).expect_err("levels would not nest").to_string();
    world.agree(&said, &())?;
    assert_eq!(Topology::find(world).expect_err("levels would not nest").to_string(), said);
    assert_eq!(measure(world, &MeasureOptions::default()).expect_err("levels would not nest").to_string(), said);
    Ok(said)
}

fn measured(world: &World, levels: usize) -> Result<()> {
    let ranks = world.size();
    let quick = MeasureOptions {
        sizes: vec![1 << 14, 1000, 1 << 12],
        passes: 2,
        round: Duration::from_micros(200),
        rounds: 2,
        budget: Duration::ZERO,
        rows: 16,
        copy: 1 << 16,
    };
    let measured = measure(world, &quick)?;
    check(world, &measured.machine)?;
    let groups = (2..=ranks).filter(|group| ranks.is_multiple_of(*group)).count();
    assert_eq!(measured.points.len(), 3 * (levels + 8 * groups));
    assert_eq!(measured.errors().len(), (levels + 8 * groups) + groups);
    assert!(measured.points.iter().all(|point| point.bytes.is_multiple_of(4 * ranks) && point.seconds > 0.0));
    // Predictions are made from the measurements, so the machine stores those of all ranks.
    for point in measured.points.iter().filter(|point| point.ranks == ranks && point.call.to_string() == "AllReduce") {
        let groups = vec![(0..ranks).collect()];
        let collective = GroupedCollective { operation: Collective::AllReduce, groups, bytes: point.bytes as f64 };
        let known = seconds(&measured.machine, &collective, Algorithm::Ring).expect("the machine is that of the ranks");
        assert!((known.total() / point.seconds - 1.0).abs() < 1e-9, "{point:?} {known}");
    }
    Ok(())
}

/// Checks that a machine is the same on all ranks and can be written and read.
fn check(world: &World, machine: &Machine) -> Result<()> {
    let text = machine.to_toml();
    let mut others = vec![0; text.len() * world.size()];
    let told = exchange_words(world.comm(), "the length of a text", [text.len() as u64])?;
    assert!(told.iter().all(|note| note[0] == text.len() as u64), "machines differ in length");
    world.comm().all_gather(text.as_bytes(), &mut others, &vec![text.len(); world.size()])?;
    assert!(others.chunks(text.len()).all(|other| other == text.as_bytes()), "machines differ by rank");
    assert_eq!(Machine::from_toml(&text).as_ref(), Ok(machine));
    let device = machine.device();
    assert_eq!(device.flops.keys().collect::<Vec<_>>(), ["f32", "f64", "i32", "i64"]);
    Ok(())
}
