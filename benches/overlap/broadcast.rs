//! A panel that passes from rank to rank over slow ports.

use polyshard::machine::{Device, Interconnect, Level, Machine, units};
use polyshard::prelude::*;
use polyshard::runtime::engine::{Algorithm, Assign, Engine, Kernel, Leg, Owners, TileId, Transfer, coordinates};
use polyshard::runtime::{Region, spmd_emulated};
use polyshard_testing::bench::clock::together;
use polyshard_testing::bench::record::median;

/// The bytes of the panel.
const BYTES: usize = 8 << 20;

/// Bytes per second of a port, and seconds of a message.
const PORT: (f64, f64) = (119e6, 1e-4);

/// Prints the time of a broadcast to different numbers of ranks, compared with the time of the bytes on the wire.
pub(crate) fn compare(runs: usize) -> polyshard::Result<()> {
    println!(
        "\n{} from one rank to all, over emulated ports of {}",
        units::scaled(BYTES as f64, "B"),
        units::scaled(PORT.0, "B/s")
    );
    println!("{:>5} {:>10} {:>10} {:>6}", "ranks", "wire", "took", "ratio");
    for ranks in [2, 4, 8] {
        let level = Level::new("rank", ranks, Interconnect::Switch, PORT.0, PORT.1);
        let device = Device { memory_bandwidth: 1e11, memory_capacity: 1 << 40, ..Device::default() };
        let machine = Machine::new("ports", vec![level], device)?;
        let mesh = Mesh::new([("x", ranks)]);
        let elements = BYTES / size_of::<f64>();
        let home = Sharding::new(&mesh, &[elements], &[polyshard::layout::Placement::pin("x", 0)])?;
        spmd_emulated(&machine, 1.0, |world| {
            let array = DistArray::from_fn(world, &home, |at| at[0] as f64)?;
            let panel = Transfer::input("A", 0)
                .region(move |_: [i64; 1], _: [i64; 0]| Region::new(std::iter::once(0..elements as i64)))
                .by([Leg::collective([0], Owners::One(coordinates(|_: [i64; 1], _: [i64; 0]| [0])))
                    .by(Algorithm::of_broadcast(ranks as u64, BYTES as u64))])
                .ahead(1, elements);
            let kernel = Kernel::new("broadcast", "B[i] = A[i]", &mesh, Assign::Set, [&home, &home]);
            let mut engine = Engine::new(world, [kernel.transfers([panel, Transfer::output("B")])])?;
            let mut unused = DistArray::filled(world, &home, 0.0)?;
            let mut run = engine.run(0, &[&array], &mut unused)?;
            let mut times = Vec::new();
            for turn in 0..=runs {
                let taken = together(world, || {
                    run.begin(TileId(0), &[])?;
                    while run.poll()? {
                        std::thread::yield_now();
                    }
                    run.end(TileId(0))
                })?;
                if turn > 0 {
                    times.push(taken);
                }
            }
            run.finish()?;
            let (wire, took) = (BYTES as f64 / PORT.0, median(times));
            if world.is_root() {
                println!("{ranks:>5} {:>10} {:>10} {:>6.2}", units::seconds(wire), units::seconds(took), took / wire);
            }
            Ok::<_, polyshard::Error>(())
        })?;
    }
    Ok(())
}
