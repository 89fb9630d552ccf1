//! Programs on machines of several levels, with collectives carried out in stages.

use ndarray::Array2;
use polyshard::layout::{AxisPart, Stages};
use polyshard::machine::{Device, Interconnect, Level};
use polyshard::planner::cost_on;
use polyshard::planner::placement::{ParallelismMatrix, PlacedMesh, matrices, place};
use polyshard::planner::reduce::Strategy;
use polyshard::prelude::*;
use polyshard::program::{Algorithm, Direction, Leg, LegId, Owners, StagedLeg, TransferId};
use polyshard::runtime::{Transport, spmd_emulated};
use polyshard_testing::filled::inputs;
use polyshard_testing::random::Choices;
use polyshard_testing::random::algorithms::algorithm_of;
use polyshard_testing::random::kernels::kernel_of;
use polyshard_testing::random::schedules::{mesh_of, schedule_of};
use polyshard_testing::random::staged::staged;
use polyshard_testing::random::sums::summed_of;

/// Nodes of devices, with ports between nodes that are 10 times slower.
fn machine(counts: [usize; 2]) -> Machine {
    let level = |name: &str, count, bandwidth| Level::new(name, count, Interconnect::Switch, bandwidth, 1e-6);
    let node = Level { shared_ports: Some(1), ..level("node", counts[0], 1e8) };
    let device = Device {
        memory_bandwidth: 1e11,
        memory_capacity: 1 << 40,
        flops: [("f64".to_owned(), 1e12), ("i64".to_owned(), 1e12)].into(),
        ..Device::default()
    };
    Machine::new("two levels", vec![node, level("device", counts[1], 1e9)], device).expect("a machine")
}

/// Products over all ranks of a mesh of two axes, each of which moves its large matrix in a different way.
fn products(mesh: &Mesh, sizes: [usize; 3]) -> Vec<(&'static str, Program)> {
    vars!(m, n, k, mo, mi, ml, no, ko, ki, kl);
    let [rows, inner, columns] = sizes;
    let [x, y] = mesh.axes();
    let [along_x, along_y] = [0, 1].map(|axis| {
        let axis = mesh.as_slice()[axis];
        Mesh::new([(axis.name, axis.extent)])
    });
    let matmul = kernel! {
        fn matmul(A: [i64; rows, inner], B: [i64; inner, columns]) -> C: [i64; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    let by_rows = matmul.clone().distribute([m], [mo], [mi], &along_x).distribute([mi], [no], [ml], &along_y);
    let by_rows = by_rows.shard("A", [m.at(x).at(y)]).shard("C", [m.at(x).at(y)]);
    let by_sums = matmul.distribute([k], [ko], [ki], &along_x).distribute([ki], [no], [kl], &along_y);
    let by_sums = by_sums.shard("A", [k.at(x).at(y)]).shard("B", [k.at(x).at(y)]);
    let schedules = [
        ("broadcast", by_rows.clone().shard("B", [pin(x, 1), pin(y, 0)])),
        (
            "broadcast",
            by_rows
                .clone()
                .divide(k, ko, ki, mesh.size())
                .reorder([ko, ml, n, ki])
                .shard("B", [k.at([x, y])])
                .communicate("B", ko),
        ),
        ("all_gather", by_rows.shard("B", [n.at([y, x])])),
        ("all_reduce", by_sums.clone().shard("C", [])),
        ("reduce(", by_sums.clone().shard("C", [pin(x, 0), pin(y, 1)])),
        ("reduce_scatter", by_sums.shard("C", [n.at([x, y])])),
    ];
    schedules.map(|(pattern, schedule)| (pattern, schedule.lower().unwrap_or_else(|error| panic!("{error}")))).into()
}

fn is_staged(program: &Program) -> bool {
    program.nest().transfers.iter().any(|transfer| transfer.route.legs.iter().any(|leg| leg.stages().is_some()))
}

/// On all placements, by messages that take the time of the machine's ports and in place, also with short and empty
/// tiles.
#[test]
fn programs_in_stages_give_the_sequential_result() {
    let element = |index: &[usize]| (17 * index[0] * index[0] + 5 * index[1]) as i64 - 100;
    let mut in_stages = 0;
    for (counts, extents, sizes) in [
        ([2, 4], [4, 2], [7, 11, 5]),
        ([2, 4], [2, 4], [64, 48, 40]),
        ([3, 2], [2, 3], [13, 26, 9]),
        ([2, 6], [4, 3], [1, 2, 3]),
    ] {
        let [rows, inner, columns] = sizes;
        let matrix = |m: usize, n: usize| Array2::from_shape_fn((m, n), |(i, j)| element(&[i, j]));
        let expected = matrix(rows, inner).dot(&matrix(inner, columns)).into_dyn();
        let (mesh, machine) = (Mesh::new([("x", extents[0]), ("y", extents[1])]), machine(counts));
        for ((pattern, program), placement) in products(&mesh, sizes).into_iter().flat_map(|product| {
            matrices(&counts, &extents)
                .expect("as many ranks as devices")
                .into_iter()
                .map(move |matrix| (product.clone(), matrix))
        }) {
            let placed = PlacedMesh::new(&mesh, &machine, &placement).expect("the matrix is for both");
            let staged = program.on(&placed).expect("it has a price");
            let seconds = |program| cost_on(program, &placed).expect("it has a price").seconds();
            assert!(seconds(&staged) <= seconds(&program), "{placed}: {staged}");
            let nest = program.nest();
            let shown = nest.transfers.iter().map(|transfer| nest.pattern_of(transfer).to_string());
            assert!(shown.collect::<Vec<_>>().iter().any(|shown| shown.starts_with(pattern)), "{pattern}: {program}");
            in_stages += usize::from(is_staged(&staged));
            let run = |world: &World| -> polyshard::Result<_> {
                let world = place(world, &placed)?;
                let inputs = inputs(&world, &staged, |_, at| element(at))?;
                let inputs: Vec<_> = inputs.iter().collect();
                let mut products = Vec::new();
                for transport in [Transport::Auto, Transport::Messages] {
                    let product = staged.prepare(&world)?.with_transport(transport).run(&inputs)?;
                    products.extend(product.gather(&world)?);
                }
                Ok(products)
            };
            for ranks in [polyshard::spmd(mesh.size(), run), spmd_emulated(&machine, 1e-3, run)] {
                let ranks = ranks.unwrap_or_else(|error| panic!("{placed}: {error}"));
                assert_eq!(ranks[0], [expected.clone(), expected.clone()], "{placed}: {staged}");
            }
        }
    }
    assert!(in_stages > 20, "{in_stages} programs are in stages");
}

/// The random programs include every collective that can be in stages.
#[test]
fn random_programs_show_every_collective_in_stages() {
    let mut shown = std::collections::BTreeSet::new();
    for seed in 0..800u32 {
        let choices: Vec<u32> =
            (0..60).map(|nth| (seed * 7919 + nth * nth * 104_729 + seed * nth * 31) % 5040).collect();
        let mut drawn = Choices::new(&choices);
        let schedule = match seed % 3 {
            0 => algorithm_of::<i64>(&mut drawn).0,
            1 => summed_of::<i64>(&mut drawn),
            _ => {
                let (kernel, mesh) = (kernel_of::<i64>(&mut drawn), mesh_of(&mut drawn));
                schedule_of(kernel, &mesh, &mut drawn)
            }
        };
        let Ok(program) = schedule.lower() else { continue };
        let Some(program) = staged(&program, &mut Choices::new(&choices)) else { continue };
        for transfer in &program.nest().transfers {
            let is_in = transfer.direction == Direction::In;
            for leg in transfer.route.legs.iter().filter(|leg| leg.stages().is_some()) {
                let Leg::Collective { owners, .. } = leg else { unreachable!("only collectives are in stages") };
                shown.insert((
                    is_in,
                    match owners {
                        Owners::One(_) => "one",
                        Owners::All => "all",
                        Owners::Parts => "parts",
                    },
                ));
            }
        }
    }
    let all = [(false, "all"), (false, "one"), (false, "parts"), (true, "one"), (true, "parts")];
    assert_eq!(shown.into_iter().collect::<Vec<_>>(), all);
}

/// A product whose second factor is broadcast along 8 ranks, panel by panel.
fn panels(depth: usize) -> (Mesh, Program) {
    vars!(m, n, k, mo, mi, ko, ki);
    let mesh = Mesh::new([("x", 8)]);
    let [x] = mesh.axes();
    let matmul = kernel! {
        fn matmul(A: [f64; 64, 64], B: [f64; 64, 64]) -> C: [f64; 64, 64] { C[m, n] += A[m, k] * B[k, n] }
    };
    let schedule = matmul
        .distribute([m], [mo], [mi], &mesh)
        .divide(k, ko, ki, 8)
        .reorder([mo, ko, mi, n, ki])
        .shard("A", [m.at(x)])
        .shard("B", [k.at(x)])
        .shard("C", [m.at(x)])
        .communicate("B", ko)
        .tensorize([mi, n, ki]);
    let schedule = if depth > 0 { schedule.pipeline(ko, depth) } else { schedule };
    (mesh, schedule.lower().expect("a legal schedule"))
}

fn halves(mesh: &Mesh) -> Stages {
    let (inside, between) = AxisPart::whole(mesh, 0).split(4);
    Stages::new(mesh, &[0], vec![vec![between], vec![inside]]).expect("they make up the coordinate")
}

#[test]
fn stages_that_cannot_be_are_refused() {
    let (mesh, program) = panels(0);
    let leg = |tile: usize, leg, stages| StagedLeg {
        transfer: TransferId(tile),
        leg: LegId(leg),
        by: Algorithm::Stages(stages),
        why: "it is tried".into(),
    };
    let refused = |program: &Program, leg| program.in_stages(&[leg]).expect_err("it should be refused").to_string();
    let said = refused(&program, leg(0, 0, halves(&mesh)));
    assert_eq!(said, "statement 1: transfer 0 has no collective as leg 0, both numbered from 0");
    assert!(refused(&program, leg(7, 0, halves(&mesh))).contains("transfer 7 has no collective as leg 0,"));
    assert!(refused(&program, leg(1, 1, halves(&mesh))).contains("transfer 1 has no collective as leg 1,"));
    let short = Mesh::new([("x", 4)]);
    let (inside, between) = AxisPart::whole(&short, 0).split(2);
    let of_four = Stages::new(&short, &[0], vec![vec![between], vec![inside]]).expect("they make up 0..4");
    let said = refused(&program, leg(1, 0, of_four));
    assert_eq!(
        said,
        "statement 1: `matmul` has ranks that differ on the transfer of `B`: the digits of axis x in its stages (x%2, \
         x/2%2) do not make up 0..8"
    );
    let said = refused(&panels(1).1, leg(1, 0, halves(&mesh)));
    assert!(said.ends_with("it begins 1 iteration ahead, but a stage waits for the one before it"), "{said}");
}

#[test]
fn what_begins_ahead_and_what_takes_no_less_stay_at_once_and_say_so() {
    let machine = machine([2, 4]);
    let on = |mesh: &Mesh, rows: Vec<Vec<usize>>| {
        let matrix = ParallelismMatrix::new(rows).expect("a matrix");
        PlacedMesh::new(mesh, &machine, &matrix).expect("the matrix is for both")
    };
    let (mesh, waiting) = panels(0);
    let placed = on(&mesh, vec![vec![2, 4]]);
    // A chain in the order of the devices crosses nodes once.
    let staged = waiting.on(&placed).expect("it has a price");
    assert!(!is_staged(&staged) && staged == staged.on(&placed).expect("it has a price"), "{staged}");
    assert!(staged.explain().contains("stages: as one call, "), "{}", staged.explain());
    assert!(staged.explain().contains("no stages take less"), "{}", staged.explain());
    let ahead = panels(1).1.on(&placed).expect("it has a price");
    assert!(!is_staged(&ahead) && ahead.explain().contains("stages: as one call, since it is pipelined"), "{ahead}");
    let other = waiting.on(&on(&Mesh::new([("y", 8)]), vec![vec![2, 4]])).expect_err("another mesh");
    assert_eq!(
        other.to_string(),
        "the program runs on the mesh (x: 8), but the placement is of (y: 8); place the program's mesh"
    );
}

/// The sums of a product over all ranks of a machine of three levels, which all ranks receive, in any order or in rank
/// order. If `turned`, the outer levels are the faster ones, which stages along levels cannot use: they begin with the
/// inner levels.
fn summed(size: usize, any_order: bool, turned: bool) -> (PlacedMesh, Program) {
    vars!(k, ko, ki);
    let level = |name: &str, slower: f64| Level::new(name, 2, Interconnect::Switch, 1e10 / slower, 1e-6 * slower);
    let device = Device {
        memory_bandwidth: 1e11,
        memory_capacity: 1 << 40,
        flops: [("f64".to_owned(), 1e12)].into(),
        ..Device::default()
    };
    let slower = if turned { [1.0, 10.0, 100.0] } else { [100.0, 10.0, 1.0] };
    let levels = ["rack", "node", "device"].iter().zip(slower).map(|(name, slower)| level(name, slower)).collect();
    let machine = Machine::new("three levels", levels, device).expect("a machine");
    let mesh = Mesh::new([("z", 8)]);
    let [z] = mesh.axes();
    let matrix = ParallelismMatrix::new(vec![vec![2, 2, 2]]).expect("a matrix");
    let placed = PlacedMesh::new(&mesh, &machine, &matrix).expect("the matrix is for both");
    let matmul = kernel! {
        fn matmul(A: [f64; size, 19], B: [f64; 19, size]) -> C: [f64; size, size] { C[m, n] += A[m, k] * B[k, n] }
    };
    let sums = matmul.distribute([k], [ko], [ki], &mesh).shard("A", [k.at(z)]).shard("B", [k.at(z)]).shard("C", []);
    let sums = if any_order { sums.reassociate("C") } else { sums };
    (placed, sums.lower().expect("a legal schedule"))
}

/// Procedures of the planner are tried as well as stages if the order of the terms is free, and the fastest is chosen.
#[test]
fn sums_in_any_order_meet_by_what_takes_the_least_time() {
    let element = |index: &[usize]| ((5 * index[0] + 3 * index[1]) % 11) as f64 - 5.0;
    let mut by_procedures = Vec::new();
    let sizes = [1, 3, 40, 300].into_iter().flat_map(|size| [(size, false), (size, true)]);
    for ((size, any_order), turned) in sizes.flat_map(|size| [(size, false), (size, true)]) {
        let (placed, program) = summed(size, any_order, turned);
        let chosen = program.on(&placed).expect("it has a price");
        let seconds = |program: &Program| cost_on(program, &placed).expect("it has a price").seconds();
        let output = chosen.nest().output();
        let is_by_procedure = output.route.legs.iter().any(|leg| leg.procedure().is_some());
        assert!(any_order || !is_by_procedure, "{chosen}");
        if is_by_procedure {
            by_procedures.push((size, turned));
        }
        let plan = placed.reduction(&["z"], size * size, DType::F64, Strategy::Best).expect("a reduction");
        let leg = StagedLeg {
            transfer: program.nest().output().id,
            leg: LegId(0),
            by: Algorithm::Procedure(plan.procedure_in_mesh()),
            why: "it is the fastest procedure".into(),
        };
        if any_order {
            let by_procedure = program.in_stages(&[leg]).expect("all ranks get the sums");
            assert!(seconds(&chosen) <= seconds(&by_procedure), "{chosen}\n{by_procedure}");
        }
        assert!(seconds(&chosen) <= seconds(&program), "{chosen}");
        let matrix = |m: usize, n: usize| Array2::from_shape_fn((m, n), |(i, j)| element(&[i, j]));
        let expected = matrix(size, 19).dot(&matrix(19, size)).into_dyn();
        let found = polyshard::spmd(8, |world| {
            let world = place(world, &placed)?;
            let inputs = inputs(&world, &chosen, |_, at| element(at))?;
            let product = chosen.prepare(&world)?.run(&inputs.iter().collect::<Vec<_>>())?;
            Ok(product.gather(&world)?)
        });
        assert_eq!(found.expect("it runs")[0], Some(expected), "{chosen}");
    }
    assert_eq!(by_procedures, [(1, true), (3, true), (40, true), (300, true)]);
}

/// A block of 2^54 bytes is refused by each run, not only by the first.
#[test]
fn memory_that_a_run_does_not_get_is_asked_for_again_by_the_next() {
    let n = 1 << 17;
    let mesh = Mesh::new([("x", 1)]);
    let [x] = mesh.axes();
    vars!(i, io, ii);
    let outer = kernel! {
        fn outer(a: [f64; n], b: [f64; n], d: [f64; n]) -> c: [f64; n, n, n] { c[i, j, k] = a[i] * b[j] * d[k] }
    };
    let program = outer.distribute([i], [io], [ii], &mesh).shard("c", [i.at(x)]).lower().expect("a legal schedule");
    let errors = polyshard::spmd(1, |world| {
        let inputs = ["a", "b", "d"].map(|name| DistArray::from_fn(world, program.sharding(name), |_| 1.0));
        let [a, b, d] = inputs.map(|input| input.expect("an input of 1 MB"));
        let mut prepared = program.prepare::<f64>(world)?;
        Ok([(); 2].map(|()| prepared.run(&[&a, &b, &d]).map(|_| ()).expect_err("no memory").to_string()))
    })
    .expect("it runs");
    for error in errors.iter().flatten() {
        assert!(error.contains("cannot allocate 18014398509481984 bytes"), "{error}");
    }
}
