//! Emitted source of programs that are no schedule of one kernel: redistributions, products between them, sequences, rounds and reductions.

use super::{
    kept, nests, passes, product, redistribution, reduction, ring, rounds, sequence, together, value, versions,
};
use crate::sequence::in_flight::begun_early;
use crate::sequence::orders::two_in_one_loop;
use expect_test::expect_file;
use ndarray::{ArrayD, IxDyn};
use polyshard::machine::{Device, Interconnect, Level};
use polyshard::planner::placement::{ParallelismMatrix, PlacedMesh};
use polyshard::planner::reduce::Strategy;
use polyshard::planner::{DistType, Plan, PlanOptions};
use polyshard::prelude::*;
use polyshard::program::Kernel;
use polyshard::runtime;
use polyshard::runtime::reference;
use polyshard::source::{SourceOptions, rust_source};
use polyshard_testing::written::read_back;

/// As `check!`, of a program that is no schedule of one kernel: a redistribution, a product, a sequence. `$sequential` is
/// its result on whole inputs.
macro_rules! check_program {
    ($module:ident, $program:expr, $type:ty, |$prepared:ident, $arrays:ident| $run:expr, $sequential:expr) => {{
        let program: Program = read_back(&$program);
        let source = rust_source(&program, &SourceOptions::default());
        expect_file![concat!("../../golden/", stringify!($module), ".rs")].assert_eq(&source);
        let shards = polyshard::spmd(program.mesh().size(), |world| {
            let $arrays = program.inputs().enumerate();
            let $arrays =
                $arrays.map(|(i, array)| DistArray::<$type>::from_fn(world, &array.sharding, |index| value(i, index)));
            let $arrays = $arrays.collect::<runtime::Result<Vec<_>>>()?;
            let mut executor = program.prepare(world)?;
            let inputs: Vec<_> = $arrays.iter().collect();
            let executed = executor.run(&inputs)?;
            assert!(executed.block() == executor.run(&inputs)?.block(), "a second run differs");
            let mut $prepared = $module::Prepared::new(world)?;
            for _ in 0..2 {
                let compiled: DistArray<$type> = $run?;
                assert!(executed.block() == compiled.block(), "source and executor differ");
            }
            Ok(executed.gather(world)?)
        });
        let found = shards.expect("the program runs").into_iter().flatten().next().expect("rank 0 gathers");
        let whole = program.inputs().enumerate().map(|(i, array)| {
            let shape = array.sharding.shape();
            ArrayD::from_shape_fn(IxDyn(shape), |index| {
                value::<$type>(i, &(0..shape.len()).map(|dim| index[dim]).collect::<Vec<_>>())
            })
        });
        let sequential: fn(Vec<ArrayD<$type>>) -> ArrayD<$type> = $sequential;
        assert_eq!(found, sequential(whole.collect()));
    }};
}

#[test]
fn a_redistribution_is_pinned_compiles_and_agrees() {
    let mesh = Mesh::new([("x", 2), ("y", 6)]);
    let [from, to] =
        ["[4{x,y%3}24, 10]", "[12{y/3}24, 5{x}10]"].map(|text| DistType::parse(text, &mesh).expect("a type"));
    let plan = Plan::new(&from, &to, &PlanOptions::default()).expect("a plan");
    check_program!(
        redistribution,
        plan.program("A", DType::F32),
        f32,
        |prepared, arrays| prepared.run(&arrays[0]),
        |mut whole| { whole.remove(0) }
    );
}

#[test]
fn a_sharded_product_is_pinned_compiles_and_agrees() {
    let mesh = Mesh::new([("X", 2), ("Y", 2)]);
    let product =
        kernel! { fn multiply(A: [f64; 7, 9], B: [f64; 9, 5]) -> C: [f64; 7, 5] { C[i, k] = A[i, j] * B[j, k] } };
    let device = Device {
        memory_bandwidth: 1e10,
        memory_capacity: 1 << 30,
        flops: [("f64".to_owned(), 1e10)].into(),
        ..Device::default()
    };
    let switch = |_| Level::new("", 1, Interconnect::Switch, 1e9, 1e-6);
    let placed = PlacedMesh::along_axes(&mesh, "two switches", device, switch).expect("a machine");
    vars!(i, j, k);
    let [x, y] = mesh.axes();
    let search = product.auto(4, placed.machine()).on_placed(&placed).without_panels().shard("A", [i.at(x), j.at(y)]);
    let choice = search.shard("B", [k.at(x)]).shard("C", [i.at(x).at(y)]).find().expect("a choice");
    let cut = choice.program().clone();
    check_program!(product, cut, f64, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]), |whole| {
        let [a, b] = [&whole[0], &whole[1]];
        ArrayD::from_shape_fn(IxDyn(&[7, 5]), |at| (0..9).map(|j| a[[at[0], j]] * b[[j, at[1]]]).sum())
    });
}

/// Two products, of which the first leaves columns and the second wants rows. A factor of the second is in flight during the first.
/// The array `scale_of` is number 2, and so is the kernel with the scalar `scale`.
fn two_products() -> Program {
    vars!(m, n, k, mo, mi, no, ni);
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let first = kernel! { fn first(X: [i64; 5, 4], W: [i64; 4, 7]) -> Y: [i64; 5, 7] { Y[m, n] += X[m, k] * W[k, n] } };
    let first = first.distribute([n], [no], [ni], &mesh).shard("W", [n.at(x)]).shard("Y", [n.at(x)]);
    let scale = -3i64;
    let second = kernel! {
        fn second(Y: [i64; 5, 7], scale_of: [i64; 7, 6]) -> Z: [i64; 5, 6] {
            Z[m, n] += scale * Y[m, k] * scale_of[k, n]
        }
    };
    let second = second.distribute([m], [mo], [mi], &mesh).shard("Y", [m.at(x)]).shard("Z", [m.at(x)]);
    let [first, second] =
        [first.tensorize([m, ni, k]), second.tensorize([mi, n, k])].map(|schedule| schedule.lower().expect("legal"));
    let rows = Sharding::new(&mesh, &[7, 6], &[Placement::block(0, x)]).expect("a sharding");
    let products = Sequence::new().stage(&first, ["X", "W"], "Y").stage(&second, ["Y", "scale_of"], "Z");
    begun_early(&products.input("scale_of", &rows).build().expect("stages that fit"))
}

#[test]
fn a_sequence_of_kernels_is_pinned_compiles_and_agrees() {
    let run = |prepared: &mut sequence::Prepared<'_>, arrays: &[DistArray<i64>]| {
        prepared.run(&arrays[0], &arrays[1], &arrays[2], -3)
    };
    check_program!(sequence, two_products(), i64, |prepared, arrays| run(&mut prepared, &arrays), |whole| {
        let program = two_products();
        let kernels: Vec<_> = program.nests().map(|nest| &nest.row.kernel).collect();
        let y = reference(kernels[0], &[&whole[0], &whole[1]], None).expect("the shapes are the kernel's");
        reference(kernels[1], &[&y, &whole[2]], None).expect("the shapes are the kernel's")
    });
}

/// Two stencils that read the same halo, of which one needs a part, and their sum: in rounds, and once more after them the other way round.
fn kept_halos() -> Program {
    vars!(i, io, ii);
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let far = kernel! { fn far(U: [i64; 11]) -> V: [i64; 11] { V[i] = (U[i - 2] else 1) + 2 * (U[i + 2] else 0) } };
    let near = kernel! { fn near(U: [i64; 11]) -> V: [i64; 11] { V[i] = U[i] - (U[i + 1] else 3) } };
    let sum = kernel! { fn sum(V: [i64; 11], W: [i64; 11]) -> S: [i64; 11] { S[i] = V[i] + W[i] } };
    let [far, near] = [far, near].map(|stencil| {
        let stencil = stencil.distribute([i], [io], [ii], &mesh);
        stencil.shard("U", [dim(0).at(x)]).shard("V", [i.at(x)]).lower().expect("a legal schedule")
    });
    let sum = sum.distribute([i], [io], [ii], &mesh).shard("V", [i.at(x)]).shard("W", [i.at(x)]).shard("S", [i.at(x)]);
    let sum = sum.lower().expect("a legal schedule");
    let round =
        Sequence::new().stage(&far, ["U"], "V").stage(&near, ["U"], "W").stage(&sum, ["V", "W"], "S").carry("S", "U");
    let last = Sequence::new().repeat(2, round).stage(&near, ["U"], "W").stage(&far, ["U"], "V");
    last.stage(&sum, ["V", "W"], "S").build().expect("stages that fit")
}

#[test]
fn a_sequence_with_kept_tiles_is_pinned_compiles_and_agrees() {
    assert_eq!(kept_halos().nests().map(|nest| nest.kept().count()).sum::<usize>(), 2);
    check_program!(kept, kept_halos(), i64, |prepared, arrays| prepared.run(&arrays[0]), |mut whole| {
        let program = kept_halos();
        let kernels: Vec<_> = program.nests().map(|nest| &nest.row.kernel).collect();
        let of = |kernel: usize, inputs: &[&ArrayD<i64>]| reference(kernels[kernel], inputs, None).expect("shapes fit");
        let mut u = whole.remove(0);
        for _ in 0..3 {
            u = of(2, &[&of(0, &[&u]), &of(1, &[&u])]);
        }
        u
    });
}

/// Rounds that have rounds in them, a move, a tile that stays, a name that goes on to another one, and an end.
fn rounds() -> Program {
    vars!(m, n, k, mo, mi, no, ni);
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let rows = kernel! { fn rows(A: [i64; 7, 7], V: [i64; 7, 7]) -> Y: [i64; 7, 7] { Y[m, n] += A[m, k] * V[k, n] } };
    let rows =
        rows.distribute([m], [mo], [mi], &mesh).shard("A", [m.at(x)]).shard("V", [k.at(x)]).shard("Y", [m.at(x)]);
    let columns =
        kernel! { fn columns(A: [i64; 7, 7], V: [i64; 7, 7]) -> Y: [i64; 7, 7] { Y[m, n] = A[m, n] - V[n, m] } };
    let columns = columns.distribute([n], [no], [ni], &mesh).shard("V", [dim(0).at(x)]).shard("Y", [n.at(x)]);
    let largest = kernel! { fn largest(Z: [i64; 7, 7]) -> s: i64 { s[] max= Z[m, n] } };
    let largest = largest.distribute([n], [no], [ni], &mesh).shard("Z", [n.at(x)]);
    let [rows, columns, largest] =
        [rows.tensorize([mi, n, k]), columns, largest].map(|schedule| schedule.lower().expect("legal"));
    let inside = Sequence::new().stage(&rows, ["A", "V"], "Y").carry("Y", "A");
    let round = Sequence::new()
        .repeat(2, inside)
        .stage(&columns, ["A", "V"], "Z")
        .stage(&largest, ["Z"], "s")
        .carry("A", "V")
        .carry("Z", "A")
        .until("s", -1e15);
    Sequence::new().repeat(3, round).keep("A").build().expect("rounds")
}

#[test]
fn rounds_are_pinned_compile_and_agree() {
    check_program!(rounds, rounds(), i64, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]), |whole| {
        let program = rounds();
        let [rows, columns, _] = &program.nests().map(|nest| &nest.row.kernel).collect::<Vec<_>>()[..] else {
            panic!()
        };
        let apply = |kernel: &Kernel, a: &ArrayD<i64>, v: &ArrayD<i64>| reference(kernel, &[a, v], None).expect("fits");
        let (mut a, mut v) = (whole[0].clone(), whole[1].clone());
        for _ in 0..3 {
            let y = apply(rows, &apply(rows, &a, &v), &v);
            (a, v) = (apply(columns, &y, &v), y);
        }
        a
    });
}

/// Rounds three deep that begin with what the rounds around them carry, and write their vectors in part; the middle ones end by a scalar
/// that the inner ones carry.
fn nests() -> Program {
    vars!(i, io, ii);
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let inner = kernel! {
        fn inner(A: [i64; 7], C: [i64; 7]) -> B: [i64; 7] { B[i] = A[i - 1] + C[i + 1] for i in 1..6 }
    };
    let tail = kernel! { fn tail(A: [i64; 7], s: i64) -> B: [i64; 7] { B[i] += A[i] - s[] for i in 2..7 } };
    let up = kernel! { fn up(A: [i64; 7], s: i64) -> t: i64 { t[] max= max(A[i], s[]) + 1 } };
    let over = |schedule: Schedule, vectors: &[&'static str]| {
        let schedule = schedule.distribute([i], [io], [ii], &mesh);
        let sharded = vectors.iter().fold(schedule, |schedule, name| schedule.shard(*name, [dim(0).at(x)]));
        sharded.lower().expect("a legal schedule")
    };
    let (inner, tail, up) = (over(inner, &["A", "B", "C"]), over(tail, &["A", "B"]), over(up, &["A"]));
    let innermost = Sequence::new().stage(&inner, ["A", "C"], "B").stage(&up, ["B", "s"], "t");
    let innermost = innermost.carry("B", "A").carry("t", "s");
    let middle = Sequence::new().repeat(2, innermost).stage(&tail, ["A", "s"], "D").carry("D", "A").until("s", 20.0);
    let outermost = Sequence::new().repeat(3, middle).stage(&inner, ["A", "C"], "E").carry("E", "C");
    Sequence::new().repeat(2, outermost).build().expect("rounds")
}

#[test]
fn rounds_in_rounds_are_pinned_compile_and_agree() {
    let run = |prepared: &mut nests::Prepared<'_>, arrays: &[DistArray<i64>]| {
        prepared.run(&arrays[0], &arrays[1], &arrays[2])
    };
    check_program!(nests, nests(), i64, |prepared, arrays| run(&mut prepared, &arrays), |whole| {
        let given: Vec<Vec<i64>> = whole.iter().map(|array| array.iter().copied().collect()).collect();
        let mut c = given[1].clone();
        for _ in 0..2 {
            let mut a = given[0].clone();
            for _ in 0..3 {
                let (begun, mut s) = (a.clone(), given[2][0]);
                for _ in 0..2 {
                    let before = a.clone();
                    (1..6).for_each(|i| a[i] = before[i - 1] + c[i + 1]);
                    s = s.max(*a.iter().max().expect("elements")) + 1;
                }
                // The next version of what the middle rounds carry, not of what the inner ones do.
                a = (0..7).map(|i| if i < 2 { begun[i] } else { a[i] - s }).collect();
                if s < 20 {
                    break;
                }
            }
            let before = c.clone();
            (1..6).for_each(|i| c[i] = a[i - 1] + before[i + 1]);
        }
        ArrayD::from_shape_vec(IxDyn(&[7]), c).expect("seven elements")
    });
}

/// Statements that write versions of a vector, as arrays begin, outside of rounds and in them; at the end it has its first name.
fn versions() -> Program {
    vars!(i, io, ii);
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let inside = kernel! { fn inside(X: [i64; 7]) -> Y: [i64; 7] { Y[i] = X[i - 1] - X[i + 1] for i in 1..6 } };
    let product = kernel! { fn product(A: [i64; 7, 7], X: [i64; 7]) -> Y: [i64; 7] { Y[i] += A[i, k] * X[k] } };
    let least = kernel! { fn least(X: [i64; 7]) -> Y: [i64; 7] { Y[i] min= 3 * X[i] for i in 2..7 } };
    let over = |schedule: Schedule, sharded: &[&'static str]| {
        let schedule = schedule.distribute([i], [io], [ii], &mesh);
        let sharded = sharded.iter().fold(schedule, |schedule, name| schedule.shard(*name, [dim(0).at(x)]));
        sharded.lower().expect("a legal schedule")
    };
    let (inside, product) = (over(inside, &["X", "Y"]), over(product, &["A", "Y"]));
    let least = over(least, &["X"]);
    let round = Sequence::new()
        .version(&inside, ["V"], "V1", "V")
        .accumulate(&least, ["B"], "V2", "V1")
        .accumulate(&product, ["A", "V2"], "V3", "V2")
        .carry_from("X2", "V3", "V");
    let begun = Sequence::new().version(&inside, ["B"], "X1", "X").accumulate(&product, ["A", "B"], "X2", "X1");
    begun.repeat(2, round).accumulate(&least, ["X2"], "X3", "V").call("X3", "X").build().expect("stages that fit")
}

#[test]
fn versions_are_pinned_compile_and_agree() {
    let run = |prepared: &mut versions::Prepared<'_>, arrays: &[DistArray<i64>]| {
        prepared.run(&arrays[0], &arrays[1], &arrays[2])
    };
    check_program!(versions, versions(), i64, |prepared, arrays| run(&mut prepared, &arrays), |whole| {
        let program = versions();
        let of = |name: &str| program.inputs().position(|input| input.name.as_str() == name).expect("an input");
        let [x, a, b] = ["X", "A", "B"].map(|name| whole[of(name)].clone());
        let b: Vec<i64> = b.iter().copied().collect();
        let inside = |y: &mut Vec<i64>, x: &[i64]| (1..6).for_each(|i| y[i] = x[i - 1] - x[i + 1]);
        let product = |y: &mut Vec<i64>, x: &[i64]| {
            (0..7).for_each(|i| y[i] += (0..7).map(|k| a[[i, k]] * x[k]).sum::<i64>());
        };
        let least = |y: &mut Vec<i64>, x: &[i64]| (2..7).for_each(|i| y[i] = y[i].min(3 * x[i]));
        let mut x: Vec<i64> = x.iter().copied().collect();
        inside(&mut x, &b);
        product(&mut x, &b);
        let mut v = x.clone();
        for _ in 0..2 {
            let before = v.clone();
            inside(&mut v, &before);
            least(&mut v, &b);
            let before = v.clone();
            product(&mut v, &before);
        }
        least(&mut v, &x);
        ArrayD::from_shape_vec(IxDyn(&[7]), v).expect("seven elements")
    });
}

/// Terms of small integers, another one on each rank and for each element, whose sum is exact.
fn term(rank: usize, element: usize) -> f64 {
    ((7 * rank + 3) * (element + 1) % 101) as f64 - 50.0
}

#[test]
fn a_reduction_is_pinned_compiles_and_agrees() {
    const ELEMENTS: usize = 70_001;
    let machine = Machine::preset("a100").and_then(|machine| machine.with_counts(&[2, 2])).expect("a machine");
    let matrix = ParallelismMatrix::new(vec![vec![2, 2]]).expect("a matrix");
    let placed = PlacedMesh::new(&Mesh::new([("data", 4)]), &machine, &matrix).expect("the matrix is for both");
    let plan = placed.reduction(&["data"], ELEMENTS, DType::F64, Strategy::Best).expect("a reduction");
    let program = read_back(&plan.program("gradient"));
    assert!(plan.procedure().steps().is_some_and(|steps| steps.steps().len() > 1), "it takes several steps: {program}");
    let source = rust_source(&program, &SourceOptions::default());
    expect_file!["../../golden/reduction.rs"].assert_eq(&source);
    let sums = polyshard::spmd(4, |world| {
        let mut terms = DistArray::filled(world, program.sharding("gradient"), 0.0)?;
        terms.block_mut().iter_mut().enumerate().for_each(|(at, element)| *element = term(world.rank(), at));
        let mut prepared = program.prepare(world)?;
        let executed = prepared.run(&[&terms])?;
        assert!(executed.block() == prepared.run(&[&terms])?.block(), "a second run differs");
        let mut compiled = reduction::Prepared::new(world)?;
        for _ in 0..2 {
            assert!(executed.block() == compiled.run(&terms)?.block(), "source and executor differ");
        }
        Ok(executed.block().to_vec())
    });
    let expected: Vec<f64> = (0..ELEMENTS).map(|at| (0..4).map(|rank| term(rank, at)).sum()).collect();
    assert!(sums.expect("the program runs").iter().all(|sums| *sums == expected));
}

#[test]
fn a_pass_whose_arrays_are_in_tiles_is_pinned_compiles_and_agrees() {
    let mesh = Mesh::new([("x", 2)]);
    let [i, j] = ["i", "j"].map(Var::new);
    let attention = crate::passes::attention(6).distribute(["i"], ["io"], ["ii"], &mesh).in_panels_of(100);
    let program = attention.shard("Q", [i.at("x")]).shard("K", [j.at("x")]).lower().expect("a program");
    let program = read_back(&program);
    expect_file!["../../golden/passes.rs"].assert_eq(&rust_source(&program, &SourceOptions::default()));
    let agree = polyshard::spmd(2, |world| {
        let arrays = program.inputs().enumerate();
        let arrays =
            arrays.map(|(i, array)| DistArray::from_fn(world, &array.sharding, |index| value::<f64>(i, index)));
        let arrays = arrays.collect::<runtime::Result<Vec<_>>>()?;
        let executed = program.prepare(world)?.run(&arrays.iter().collect::<Vec<_>>())?;
        let mut prepared = passes::Prepared::new(world)?;
        for _ in 0..2 {
            let found = prepared.run(&arrays[0], &arrays[1], &arrays[2], 0.5)?;
            assert!(executed.block() == found.block(), "source and executor differ");
        }
        Ok(())
    });
    agree.expect("the program runs");
}

#[test]
fn a_running_reduction_in_a_ring_is_pinned_compiles_and_agrees() {
    let program = crate::running::ring([5, 7, 2, 3], 2).pipeline("jo", 1).lower().expect("a program");
    let program = read_back(&program);
    expect_file!["../../golden/ring.rs"].assert_eq(&rust_source(&program, &SourceOptions::default()));
    let agree = polyshard::spmd(2, |world| {
        let arrays = program.inputs().enumerate();
        let arrays =
            arrays.map(|(i, array)| DistArray::from_fn(world, &array.sharding, |index| value::<f64>(i, index) / 64.0));
        let arrays = arrays.collect::<runtime::Result<Vec<_>>>()?;
        let executed = program.prepare(world)?.run(&arrays.iter().collect::<Vec<_>>())?;
        let mut prepared = ring::Prepared::new(world)?;
        for _ in 0..2 {
            let found = prepared.run(&arrays[0], &arrays[1], &arrays[2])?;
            assert!(executed.block() == found.block(), "source and executor differ");
            assert!(found.block().iter().all(|element| element.is_finite()), "values overflow");
        }
        Ok(())
    });
    agree.expect("the program runs");
}

#[test]
fn kernels_in_one_loop_are_pinned_compile_and_agree() {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let program = read_back(&Program::new(two_in_one_loop(&mesh, 1)).expect("it is legal"));
    expect_file!["../../golden/together.rs"].assert_eq(&rust_source(&program, &SourceOptions::default()));
    let agree = polyshard::spmd(4, |world| {
        let arrays = program.inputs().enumerate();
        let arrays =
            arrays.map(|(i, array)| DistArray::from_fn(world, &array.sharding, |index| value::<i64>(i, index)));
        let arrays = arrays.collect::<runtime::Result<Vec<_>>>()?;
        let executed = program.prepare(world)?.run_all(&arrays.iter().collect::<Vec<_>>())?;
        let mut prepared = together::Prepared::new(world)?;
        for _ in 0..2 {
            let (c, d) = prepared.run(&arrays[0], &arrays[1], &arrays[2])?;
            let found = executed.iter().map(|(_, array)| array.block());
            assert!(found.eq([c.block(), d.block()]), "source and executor differ");
        }
        Ok(())
    });
    agree.expect("the program runs");
}
