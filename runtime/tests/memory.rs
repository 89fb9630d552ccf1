//! The memory that ranks read of each other exists, is the memory that they expect, and stays until they are done, also when some of them
//! fail or run another program.
//!
//! `scripts/test` runs these under a memory checker, too, where they are smaller: `POLYSHARD_SMALL=1`.

use polyshard_runtime::engine::{Engine, TileId};
use polyshard_runtime::layout::{Mesh, Placement, Sharding};
use polyshard_runtime::{DistArray, Error, Redistribution, spmd};
use polyshard_testing::laws::memory;
use std::time::Duration;

fn is_small() -> bool {
    std::env::var_os("POLYSHARD_SMALL").is_some()
}

#[test]
fn ranks_that_publish_different_things_are_told() {
    // 512 MiB where there are 16 bytes.
    let long = if is_small() { 1 << 14 } else { 1 << 26 };
    for ranks in [2, 3] {
        spmd(ranks, |world| memory::what_differs_is_told(world, ranks * long / 2)).expect("all ranks go on");
    }
}

#[test]
fn short_inputs_and_many_are_read_in_place() {
    spmd(3, |world| {
        memory::short_inputs_are_read_in_place(world)?;
        memory::many_arrays_live(world, if is_small() { 3 } else { 1200 })
    })
    .expect("all ranks read what is there");
}

#[test]
fn a_tile_stays_where_it_is_until_all_have_summed_it_up() {
    let (members, elements, rounds) = if is_small() { (3, 1 << 14, 20) } else { (8, 1 << 20, 30) };
    // One half of the ranks adds up tiles until a rank of the other half fails.
    let mesh = Mesh::new([("x", 2), ("y", members)]);
    let by_row = Sharding::new(&mesh, &[elements], &[Placement::block(0, mesh.axes::<2>()[1])]).expect("a sharding");
    for round in 0..rounds {
        let failed = spmd(2 * members, |world| {
            let mut sums = DistArray::<f64>::filled(world, &by_row, 0.0)?;
            let mut engine = Engine::new(world, [memory::sums::<2>(&by_row, 1)])?;
            let mut run = engine.run(0, &[], &mut sums)?;
            world.comm().barrier()?;
            loop {
                if world.rank() == members {
                    std::thread::sleep(Duration::from_micros(2000 + 700 * round));
                    return Err::<(), _>(Error::Mismatch("it gives up".into()));
                }
                run.fill(TileId(0), &[])?;
                if world.rank() < members {
                    run.transfer(TileId(0), &[])?;
                } else {
                    world.comm().barrier()?;
                }
            }
        });
        assert_eq!(failed.expect_err("a rank fails").to_string(), format!("rank {members}: it gives up"));
    }
}

/// As processes that may open fewer files than there are arrays.
#[cfg(feature = "mpi")]
#[test]
fn processes_read_in_place_what_is_short_and_what_is_many() {
    use polyshard_testing::example_path;
    use polyshard_testing::start::{Start, run};
    for processes in [2, 3, 4] {
        let program = example_path!("memory_laws");
        let limited = format!("ulimit -n 128 && exec {} --ranks={processes} --arrays=1200", program.display());
        let shell = std::path::Path::new("/bin/sh");
        let ended = run(Start::Mpi(processes), shell, &["-c", &limited], Duration::from_secs(120));
        assert!(ended.success, "on {processes} processes, after {:?}:\n{}", ended.took, ended.stderr);
        assert_eq!(ended.stdout, format!("the laws of memory hold on {processes} ranks\n"));
        assert_eq!(ended.stderr, "", "nothing is refused");
    }
}

#[test]
fn open_sums_keep_every_term_on_another_mesh_or_are_refused() {
    let partial = |extents: [(&'static str, usize); 2]| {
        Sharding::new(&Mesh::new(extents), &[5], &[Placement::partial("z")]).expect("a sharding")
    };
    let source = partial([("x", 2), ("z", 4)]);
    let kept = Sharding::new(&Mesh::new([("a", 2), ("z", 4)]), &[5], &[Placement::partial("z")]).expect("a sharding");
    spmd(8, |world| {
        // Of (x, z), rank 4 x + z holds term z; of (x: 4, z: 2) it would be the rank's lowest bit.
        let refused =
            Redistribution::new(world, &source, &partial([("x", 4), ("z", 2)])).err().expect("terms would be lost");
        assert!(refused.to_string().contains("have their terms on other ranks"), "{refused}");
        let term = 1i64 << (8 * (world.rank() % 4));
        let mut array = DistArray::filled(world, &source, 0)?;
        array.block_mut().fill(term);
        let moved = array.redistribute(world, &kept)?;
        let closed = moved.redistribute(world, &kept.closed())?;
        assert_eq!(closed.block(), [0x0101_0101; 5]);
        Ok::<_, Error>(())
    })
    .expect("terms are kept");
}
