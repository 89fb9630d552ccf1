//! Ranks that do not match the mesh, that panic, or that cannot be started.

use super::refused;
use polyshard::ndarray::{ArrayViewD, ArrayViewMutD};
use polyshard::prelude::*;
#[cfg(feature = "mpi")]
use polyshard_testing::example_path;
use polyshard_testing::start::{Start, run};

/// C = A·B on two ranks, by rows, without its leaf.
fn rows() -> Schedule {
    let matmul = kernel! {
        fn matmul(A: [f64; 6, 8], B: [f64; 8, 5]) -> C: [f64; 6, 5] { C[m, n] += A[m, k] * B[k, n] }
    };
    vars!(m, mo, mi, k);
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    let rows = matmul.distribute([m], [mo], [mi], &mesh).shard("A", [m.at(x)]).shard("B", [k.at(x)]);
    rows.shard("C", [m.at(x)])
}

fn program() -> polyshard::program::Program {
    rows().communicate("B", "mo").tensorize(["mi", "n", "k"]).lower().expect("a legal schedule")
}

/// Runs the program on two ranks, of which the second panics when the first waits for its part of B.
#[test]
#[ignore = "fails on purpose: other tests start it"]
fn the_second_rank_panics() {
    let program = program();
    let run = polyshard::spmd(2, |world| {
        let a = DistArray::from_fn(world, program.sharding("A"), |i| (8 * i[0] + i[1]) as f64)?;
        let b = DistArray::from_fn(world, program.sharding("B"), |i| (i[0] * i[1]) as f64)?;
        assert!(world.rank() != 1, "there is no room on rank 1");
        Ok(program.run(world, &[&a, &b])?)
    });
    if let Err(error) = run {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

#[test]
fn a_panic_on_one_rank_ends_all_with_its_message() {
    let this = std::env::current_exe().expect("a test knows its path");
    let arguments = ["--ignored", "--exact", "bad_input::ranks::the_second_rank_panics", "--nocapture"];
    refused(Start::Plain, &this, &arguments, "error: rank 1 panicked: there is no room on rank 1\n");
    #[cfg(feature = "mpi")]
    refused(Start::Mpi(2), &this, &arguments, "rank 1 panicked: there is no room on rank 1\n");
}

/// Runs a program whose leaf is registered on the process of rank 0 only.
#[test]
#[ignore = "fails on purpose: other tests start it"]
fn a_leaf_is_registered_by_one_process() {
    let program = rows().tensorize_with(["mi", "n", "k"], "lonely").lower().expect("a legal schedule");
    let run = polyshard::spmd(2, |world| {
        if world.is_root() {
            let leaf = |_: ArrayViewMutD<'_, f64>, _: [ArrayViewD<'_, f64>; 2]| {};
            polyshard::leaf::register("lonely", program.kernel(), leaf)?;
        }
        let a = DistArray::filled(world, program.sharding("A"), 1.0)?;
        let b = DistArray::filled(world, program.sharding("B"), 1.0)?;
        world.barrier()?;
        Ok(program.run(world, &[&a, &b])?)
    });
    if let Err(error) = run {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
    println!("all ranks have the leaf");
}

#[test]
fn a_leaf_that_one_process_has_not_registered_ends_all() {
    let this = std::env::current_exe().expect("a test knows its path");
    let arguments = ["--ignored", "--exact", "bad_input::ranks::a_leaf_is_registered_by_one_process", "--nocapture"];
    let threads = run(Start::Plain, &this, &arguments, super::SOON);
    assert!(threads.success && threads.stdout.contains("all ranks have the leaf"), "{}", threads.stderr);
    #[cfg(feature = "mpi")]
    {
        let message = "rank 1: no leaf `lonely` for f64; none are registered: call `leaf::register(\"lonely\", \
                       &kernel, function)`, where the kernel is `C[m, n] += A[m, k] * B[k, n]`, before the program runs, in each rank's process\n";
        refused(Start::Mpi(2), &this, &arguments, message);
    }
}

#[test]
fn a_world_of_another_size_is_refused_by_arrays_and_programs() {
    let program = program();
    let said = polyshard::spmd(3, |world| {
        let array = DistArray::from_fn(world, program.sharding("A"), |i| i[0] as f64);
        Ok((array.err().map(|e| e.to_string()), program.run::<f64>(world, &[]).err().map(|e| e.to_string())))
    });
    let line = line!() - 2;
    let message = "the mesh (x: 2) has 2 ranks, but the program runs on 3: call `spmd(2, ..)`";
    let at = |line: u32, column: u32| format!("{message}\n  --> {}:{line}:{column}", file!());
    let array = at(line - 1, 21);
    let run = at(line, 57) + ", in `matmul`";
    assert_eq!(said.expect("all ranks return"), vec![(Some(array), Some(run)); 3]);
}

#[cfg(feature = "mpi")]
#[test]
fn a_mesh_that_is_not_that_of_the_processes_is_refused_with_what_to_start() {
    let message = "rank 0: the program is for 8 ranks, but runs on 3: start it with `mpirun -n 8`\n";
    for name in ["summa", "cannon"] {
        refused(Start::Mpi(3), &example_path!(name), &["--mesh", "4x2"], message);
    }
    let message = "rank 0: the program is for 2 ranks, but runs on 3: start it with `mpirun -n 2`\n";
    refused(Start::Mpi(3), &example_path!("ag_gemm"), &["--mesh", "2"], message);
}
