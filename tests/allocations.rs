//! A prepared program makes what it needs in `prepare` or in its first run; later runs allocate nothing, whatever its
//! ranks read from each other. Computations on an index or a sharding take no memory that grows with the elements.
//!
//! Products here are of integers: libraries that multiply floats allocate their packing buffers in each run, no more
//! than the program states. Sends also allocate: a message must be stored until its receiver takes it.
//!
//! A separate test program: its allocator counts.

use allocation_counter::AllocationInfo;
use polyshard::prelude::*;
use polyshard::runtime::engine::{Algorithm, Assign, Engine, Kernel, Leg, Owners, TileId, Transfer, coordinates};
use polyshard::runtime::{Progress, Redistribution, Region, Transport};
use polyshard_testing::filled::inputs_and_output;

/// Checks that no rank allocates when a prepared program runs again.
#[track_caller]
fn check(name: &str, schedule: Schedule) {
    let program = schedule.lower().expect("a legal schedule");
    let counted = match program.kernel().dtype() {
        DType::F64 => allocations::<f64>(&program),
        DType::I64 => allocations::<i64>(&program),
        dtype => panic!("no test is of {dtype}"),
    };
    assert!(counted.iter().all(|&count| count == 0), "{name} allocates when it runs again: {counted:?}\n{program}");
}

/// The number of allocations of each rank in the third run of the program.
fn allocations<T: Element>(program: &Program) -> Vec<u64> {
    allocated::<T>(program).into_iter().map(|counted| counted.count_total).collect()
}

/// The allocations of each rank in the third run of the program.
fn allocated<T: Element>(program: &Program) -> Vec<AllocationInfo> {
    allocated_after::<T>(2, program)
}

/// The allocations of each rank in a run of the program after `runs` others.
fn allocated_after<T: Element>(runs: usize, program: &Program) -> Vec<AllocationInfo> {
    let counted = polyshard::spmd(program.mesh().size(), |world| {
        let (arrays, mut output) = inputs_and_output(world, program, |nth, index| {
            let small = (nth + index.iter().sum::<usize>()) % 7;
            <T as num_traits::NumCast>::from(small).expect("a small integer is of every type")
        })?;
        let inputs: Vec<_> = arrays.iter().collect();
        let mut prepared = program.prepare(world)?;
        for _ in 0..runs {
            prepared.run_into(&inputs, &mut output)?;
        }
        let mut ran = Ok(());
        let counted = allocation_counter::measure(|| ran = prepared.run_into(&inputs, &mut output));
        ran?;
        Ok::<_, polyshard::Error>(counted)
    });
    counted.expect("the program runs")
}

/// Libraries allocate packing buffers in addition to the memory that a program has prepared, and the program states
/// their maximum size.
#[test]
fn products_of_floats_pack_no_more_than_is_said() {
    let mesh = Mesh::new([("x", 2)]);
    let mut packs = [false; 2];
    for [rows, columns, terms] in
        [[2, 3, 5], [1, 700, 900], [700, 1, 900], [60, 60, 4000], [300, 20, 3], [600, 300, 700], [40, 1100, 1300]]
    {
        for (nth, dtype) in [DType::F32, DType::F64].into_iter().enumerate() {
            for (second, shape) in [("B[k, n]", [terms, columns]), ("B[n, k]", [columns, terms])] {
                let [height, width] = shape;
                let text = format!(
                    "fn product(A: [{dtype}; {}, {terms}], B: [{dtype}; {height}, {width}]) -> C: [{dtype}; {}, {columns}] \
                     {{ C[m, n] += A[m, k] * {second} }}",
                    2 * rows,
                    2 * rows
                );
                let kernel = Schedule::from_spec(polyshard::text::parse_kernel(&text).expect("a kernel"));
                let program = kernel.distribute(["m"], ["mo"], ["mi"], &mesh).tensorize(["mi", "n", "k"]).lower();
                let program = program.expect("a legal schedule");
                let packed = match dtype {
                    DType::F32 => allocated::<f32>(&program),
                    _ => allocated::<f64>(&program),
                };
                let most = packed.iter().map(|counted| counted.bytes_max).max().unwrap_or(0);
                assert!(most <= program.packed_bytes(), "{most} > {}: {text}", program.packed_bytes());
                packs[nth] |= most > 1 << 16;
            }
        }
    }
    assert_eq!(packs, [true; 2], "the libraries pack, and it is seen");
}

/// Where in-place reads of shards would change the order of terms of sums over two indices, operands are copied, into
/// memory that is allocated in the first run and reused.
#[test]
fn what_products_copy_from_shards_is_said() {
    vars!(i, j, k, l, io, ii, po, pi);
    let kernel = kernel! {
        fn f(A: [f64; 64, 96, 96], B: [f64; 96, 96, 8]) -> C: [f64; 64, 8] { C[i, j] += A[i, k, l] * B[k, l, j] }
    };
    for (panels, copies) in [(2, false), (4, true)] {
        let mesh = Mesh::new([("x", 2)]);
        let [x] = mesh.axes();
        let rows = kernel.clone().distribute([i], [io], [ii], &mesh).divide(l, po, pi, panels);
        let rows = rows.reorder([po, ii, j, k, pi]).shard("A", [l.at(x)]).shard("B", [l.at(x)]);
        let program = rows.communicate("A", po).communicate("B", po).tensorize([ii, j, k, pi]).lower();
        let program = program.expect("a legal schedule");
        // Half of one rank's part of each row, of 32 rows of A and of B.
        let copied = if copies { 8 * 96 * 24 * (32 + 8) } else { 0 };
        assert_eq!(8 * program.nest().copied(|_| true), copied, "{program}");
        let most = allocated_after::<f64>(0, &program).iter().map(|counted| counted.bytes_max).max().unwrap_or(0);
        let said = program.packed_bytes() + program.report().tile_bytes;
        assert!((copied..=said).contains(&most), "{most} bytes of {copied} to {said}: {program}");
    }
}

/// `C = A B` on 2x2 ranks, each with a block of C.
fn product(parts: usize) -> (Schedule, [Axis; 2]) {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let [x, y] = mesh.axes();
    let matmul = kernel! {
        fn product(A: [i64; 24, 32], B: [i64; 32, 16]) -> C: [i64; 24, 16] { C[m, n] += A[m, k] * B[k, n] }
    };
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let schedule = matmul
        .distribute([m, n], [mo, no], [mi, ni], &mesh)
        .divide(k, ko, ki, parts)
        .reorder([mo, no, ko, mi, ni, ki])
        .shard("C", [m.at(x), n.at(y)]);
    (schedule, [x, y])
}

/// The product in steps, with fetches of A and B in each step.
fn in_steps(schedule: Schedule) -> Schedule {
    vars!(mi, ni, ko, ki);
    schedule.communicate("A", ko).communicate("B", ko).tensorize([mi, ni, ki])
}

#[test]
fn summa() {
    vars!(m, n, k);
    let (schedule, [x, y]) = product(4);
    check("SUMMA", in_steps(schedule.shard("A", [m.at(x), k.at(y)]).shard("B", [k.at(x), n.at(y)])));
}

#[test]
fn cannon() {
    vars!(m, n, k, mo, no, ko);
    let (schedule, [x, y]) = product(2);
    let rotated = schedule.rotate(ko, [mo, no]);
    let skewed = rotated.clone().shard("A", [m.at(x), k.at((x + y) % 2)]).shard("B", [k.at((x + y) % 2), n.at(y)]);
    check("Cannon", in_steps(skewed));
    let plain = rotated.shard("A", [m.at(x), k.at(y)]).shard("B", [k.at(x), n.at(y)]);
    check("Cannon from plain blocks", in_steps(plain));
}

#[test]
fn all_gather() {
    vars!(m, n, k, mo, mi, no, ni);
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let matmul = kernel! {
        fn gathered(A: [i64; 30, 20], B: [i64; 20, 18]) -> C: [i64; 30, 18] { C[m, n] += A[m, k] * B[k, n] }
    };
    let rows = matmul.distribute([m], [mo], [mi], &mesh).shard("A", [m.at(x)]).shard("C", [m.at(x)]);
    let panels = rows.clone().divide(n, no, ni, 3).reorder([mo, no, mi, ni, k]).shard("B", [n.at(x)]);
    check("AllGather by panels", panels.communicate("B", no).tensorize([mi, ni, k]));
    check("AllGather at once", rows.shard("B", [k.at(x)]).tensorize([mi, n, k]));
}

#[test]
fn sums() {
    vars!(m, n, k, ko, ki);
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let matmul = kernel! {
        fn summed(A: [i64; 150, 20], B: [i64; 20, 180]) -> C: [i64; 150, 180] { C[m, n] += A[m, k] * B[k, n] }
    };
    let terms = matmul.distribute([k], [ko], [ki], &mesh).shard("A", [k.at(x)]).shard("B", [k.at(x)]);
    let whole = terms.clone().tensorize([m, n, ki]);
    check("a reduce-scatter", whole.clone().shard("C", [m.at(x)]));
    check("a reduction", whole.clone().shard("C", [pin(x, 1)]));
    check("an all-reduce", whole);
}

#[test]
fn pointwise_kernels_and_stencils() {
    vars!(i, io, ii);
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let axpy = kernel! {
        fn axpy(A: [f64; 20, 30], B: [f64; 20, 30]) -> C: [f64; 20, 30] { C[i, j] = 2 * A[i, j] + B[i, j] }
    };
    let by_rows = |schedule: Schedule| {
        schedule.distribute([i], [io], [ii], &mesh).shard("A", [dim(0).at(x)]).shard("C", [dim(0).at(x)])
    };
    check("axpy", by_rows(axpy).shard("B", [dim(0).at(x)]));
    let transposed = kernel! {
        fn transposed(A: [f64; 20, 20]) -> C: [f64; 20, 20] { C[i, j] = exp(A[j, i]) / (A[i, j] + 2) }
    };
    check("a transpose", by_rows(transposed));
    let torus = kernel! {
        fn torus(A: [f64; 20, 30]) -> C: [f64; 20, 30] {
            C[i, j] = A[i, j] + (A[(i - 1) % 20, j] + A[(i + 1) % 20, j] + A[i, (j - 1) % 30] + A[i, (j + 1) % 30]) / 4
        }
    };
    check("a stencil on a torus", by_rows(torus));
}

/// A transfer that cannot complete before many polls, between slices or by the progress thread.
#[test]
fn what_is_under_way_is_polled_without_memory() {
    let mesh = Mesh::new([("x", 3)]);
    let home = Sharding::new(&mesh, &[3000], &[Placement::pin("x", 0)]).expect("a sharding");
    for progress in [Progress::Slices, Progress::Thread] {
        let counted = polyshard::spmd(3, |world| {
            world.set_transport(Transport::Messages);
            world.set_progress(progress)?;
            let array = DistArray::from_fn(world, &home, |at| at[0] as f64)?;
            let root = coordinates(|_: [i64; 1], _: [i64; 0]| [0]);
            let passed = Transfer::input("A", 0)
                .region(|_: [i64; 1], _: [i64; 0]| Region::new(std::iter::once(0..3000)))
                .by([Leg::collective([0], Owners::One(root)).by(Algorithm::Chain(1))])
                .ahead(1, 3000);
            let kernel = Kernel::new("pass", "B[i] = A[i]", &mesh, Assign::Set, [&home, &home]);
            let mut engine = Engine::new(world, [kernel.transfers([passed, Transfer::output("B")])])?;
            let mut into = DistArray::filled(world, &home, 0.0)?;
            let mut run = engine.run(0, &[&array], &mut into)?;
            if !world.is_root() {
                run.begin(TileId(0), &[])?;
            }
            let mut polled = Ok(false);
            let mut poll = || {
                polled = run.poll();
                run.compute(&[], &[], |_| ()).expect("it computes nothing");
            };
            poll();
            let counted = allocation_counter::measure(|| (0..50).for_each(|_| poll()));
            assert_eq!(polled?, progress == Progress::Slices && !world.is_root());
            world.comm().barrier()?;
            if world.is_root() {
                run.begin(TileId(0), &[])?;
            }
            run.end(TileId(0))?;
            run.finish()?;
            Ok::<_, polyshard::Error>(counted.count_total)
        });
        assert_eq!(counted.expect("it comes"), [0; 3], "{progress:?}");
    }
}

/// Returns the peak number of bytes that a rank holds while `make` runs.
fn held<T>(make: impl FnOnce() -> T) -> u64 {
    allocation_counter::measure(|| drop(make())).bytes_max
}

/// Checks that preparing a program in which each rank computes in its shard takes almost no memory.
#[track_caller]
fn check_prepared(name: &str, schedule: Schedule) {
    let program = schedule.lower().expect("a legal schedule");
    let held = polyshard::spmd(program.mesh().size(), |world| {
        let mut prepared = Ok(());
        let held = held(|| prepared = program.prepare::<f64>(world).map(drop));
        prepared?;
        Ok::<_, polyshard::Error>(held)
    });
    let held = held.expect("the program is prepared");
    assert!(held.iter().all(|&bytes| bytes < 64 << 10), "{name} takes {held:?} bytes\n{program}");
}

#[test]
fn what_is_written_takes_no_memory() {
    vars!(i, io, ii);
    let diagonal = kernel! { fn diagonal(v: [f64; 1500]) -> C: [f64; 1500, 1500] { C[i, i] += v[i] } };
    check_prepared("a diagonal", diagonal);
    let strided = kernel! {
        fn strided(A: [f64; 60000, 2]) -> C: [f64; 120002] { C[2 * i + 2 * j] += A[i, j] }
    };
    check_prepared("overlapping strides", strided);
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let odd = kernel! { fn odd(A: [f64; 60000]) -> C: [f64; 120000] { C[2 * i + 1] = A[i] } };
    let odd = odd.distribute([i], [io], [ii], &mesh).shard("A", [i.at(x)]).shard("C", [dim(0).at(x)]);
    check_prepared("odd elements", odd);
}

#[test]
fn block_cyclic_arrays_are_redistributed_without_lists_of_blocks() {
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let by = |placement: &[Placement]| Sharding::new(&mesh, &[1 << 20], placement).expect("a sharding");
    let cyclic = |block| by(&[Placement::block_cyclic(0, x, block)]);
    let ways = [
        [by(&[Placement::block(0, x)]), cyclic(1)],
        [cyclic(1), by(&[])],
        [cyclic(1), by(&[Placement::block(0, x)])],
        [cyclic(2), cyclic(5)],
        [by(&[Placement::block(0, x)]), cyclic(7)],
    ];
    for [source, target] in ways {
        let held = polyshard::spmd(3, |world| {
            let mut made = Ok(());
            let held = held(|| made = Redistribution::new(world, &source, &target).map(drop));
            made?;
            Ok::<_, polyshard::Error>(held)
        });
        let held = held.expect("a redistribution");
        assert!(held.iter().all(|&bytes| bytes < 64 << 10), "{source} to {target} takes {held:?} bytes");
    }
}

#[test]
fn block_cyclic_arrays_are_read_without_lists_of_blocks() {
    vars!(i, io, ii);
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let scaled = kernel! { fn scaled(A: [f64; 98304]) -> C: [f64; 98304] { C[i] = 2 * A[i] } };
    let scaled = scaled.distribute([i], [io], [ii], &mesh).shard("A", [i.cyclic(x, 1)]).shard("C", [i.at(x)]);
    let program = scaled.lower().expect("a legal schedule");
    let held = polyshard::spmd(3, |world| {
        let a = DistArray::from_fn(world, program.sharding("A"), |index| index[0] as f64)?;
        let mut prepared = program.prepare(world)?;
        let mut ran = None;
        let held = held(|| ran = Some(prepared.run(&[&a])));
        let c = ran.expect("it has run")?;
        assert_eq!(c.get(&[32768 * world.rank() + 5]), Some(2.0 * (32768 * world.rank() + 5) as f64));
        Ok::<_, polyshard::Error>(held)
    });
    // A's tile, the output and the message are 256 KiB each.
    let held = held.expect("the program runs");
    assert!(held.iter().all(|&bytes| bytes < 5 << 18), "{held:?} bytes");
}
