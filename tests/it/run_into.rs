//! A kernel writes only what its statement writes: other elements of its output keep every bit, by whatever route the
//! output is sent to its owners.

use ndarray::ArrayD;
use polyshard::prelude::*;
use polyshard::program::{Array, ArrayId, ArrayKind, Body, Leg, Transfer};
use polyshard::runtime::reference;
use polyshard::schedule::Clause;
use polyshard::source::{SourceOptions, rust_source};
use std::collections::BTreeSet;

/// The same kernel with each operation.
macro_rules! with_each_operation {
    ($signature:tt -> $output:ident $shape:tt, $index:tt, $($value:tt)*) => {
        [
            kernel! { fn set $signature -> $output: $shape { $output $index = $($value)* } },
            kernel! { fn add $signature -> $output: $shape { $output $index += $($value)* } },
            kernel! { fn multiply $signature -> $output: $shape { $output $index *= $($value)* } },
            kernel! { fn greatest $signature -> $output: $shape { $output $index max= $($value)* } },
            kernel! { fn least $signature -> $output: $shape { $output $index min= $($value)* } },
        ]
    };
}

/// Previous contents of outputs: numbers that every identity would change if it were combined with them.
const BEFORE: [f64; 4] = [9.0, -0.0, f64::NAN, f64::NEG_INFINITY];

/// The value of an input's element: some of each sign, and one that is not 0.
fn value(index: &[usize]) -> f64 {
    let sum: usize = index.iter().zip([7, 3]).map(|(i, factor)| i * factor).sum();
    (sum % 11) as f64 - 5.5
}

/// The bits of all elements; those of a computed NaN depend on the processor.
fn bits(array: &ArrayD<f64>) -> Vec<u64> {
    array.iter().map(|value| if value.is_nan() { f64::NAN } else { *value }.to_bits()).collect()
}

/// Runs the program into an output full of `before`, and compares the elements that the kernel writes with the
/// sequential result, and the others, bit by bit, with their previous contents.
fn check(program: &Program, before: f64) {
    let kernel = program.kernel();
    let whole = |shape: &[usize]| {
        ArrayD::from_shape_fn(shape, |index| value(&(0..shape.len()).map(|dim| index[dim]).collect::<Vec<_>>()))
    };
    let inputs: Vec<_> = kernel.inputs().iter().map(|tensor| whole(&tensor.shape)).collect();
    let inputs: Vec<_> = inputs.iter().collect();
    let filled = |value: f64| ArrayD::from_elem(kernel.output().shape.clone(), value);
    let expected = reference(kernel, &inputs, Some(filled(before))).expect("the shapes are the kernel's");
    let found = polyshard::spmd(program.mesh().size(), |world| {
        let inputs = program.shardings().take(inputs.len());
        let inputs = inputs.map(|sharding| DistArray::from_fn(world, sharding, value));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let name = kernel.output().name;
        let mut output = DistArray::filled(world, program.sharding(name.as_str()), before)?;
        program.run_into(world, &inputs.iter().collect::<Vec<_>>(), &mut output)?;
        Ok(output.gather(world)?)
    });
    let found = found.expect("the program runs").into_iter().flatten().next().expect("rank 0 gathers");
    let what = || format!("into {before}: {} by {:?}\n{program}", kernel.statement(), program.nest().output().route);
    assert_eq!(bits(&found), bits(&expected), "{}", what());
    // Finds the written elements without the code under test: those where two different outputs become equal, or that
    // change in an output on which every operation has an effect.
    let touched = |start: f64| reference(kernel, &inputs, Some(filled(start))).expect("the shapes are the kernel's");
    let (low, high) = (touched(-100.0), touched(100.0));
    let written = |index: &ndarray::IxDyn| low[index] != -100.0 || high[index] != 100.0;
    let mut kept = 0;
    for (index, held) in found.indexed_iter().filter(|(index, _)| !written(index)) {
        assert_eq!(held.to_bits(), before.to_bits(), "{index:?} held {before}, now {held}: {}", what());
        kept += 1;
    }
    assert!(kept > 0, "nothing is kept: {}", what());
}

/// Runs every kernel with its output in every sharding; returns the routes by which outputs were sent to their owners.
fn check_all(
    kernels: [Schedule; 5],
    shardings: &[&[Clause]],
    lay: impl Fn(Schedule) -> Schedule,
) -> BTreeSet<&'static str> {
    let mut routes = BTreeSet::new();
    for kernel in kernels {
        for clauses in shardings {
            let output = kernel.kernel().expect("a kernel").output().name;
            let schedule = lay(kernel.clone()).shard(output.as_str(), clauses.iter().cloned());
            let program = schedule.lower().expect("a legal schedule");
            BEFORE.iter().for_each(|&before| check(&program, before));
            routes.insert(match &program.nest().output().route.legs[..] {
                [Leg::InPlace] => "InPlace",
                [Leg::Permute { .. }] => "Permute",
                [Leg::Exchange { .. }] => "Exchange",
                legs => panic!("another route: {legs:?}"),
            });
        }
    }
    routes
}

#[test]
fn elements_before_and_behind_are_kept() {
    vars!(i, io, ii);
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let kernels = with_each_operation!((A: [f64; 10]) -> B [f64; 12], [i + 1], A[i]);
    let shardings: [&[Clause]; 4] = [&[dim(0).at(x)], &[dim(0).cyclic(x, 2)], &[], &[pin(x, 1)]];
    let found = check_all(kernels, &shardings, |kernel| kernel.distribute([i], [io], [ii], &mesh));
    assert_eq!(found, BTreeSet::from(["Exchange", "InPlace"]));
}

#[test]
fn elements_between_are_kept() {
    vars!(i, io, ii);
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let kernels = with_each_operation!((A: [f64; 12]) -> B [f64; 24], [2*i + 1], A[i]);
    let shardings: [&[Clause]; 4] = [&[dim(0).at(x)], &[dim(0).at((x + 1) % 3)], &[dim(0).cyclic(x, 3)], &[]];
    let found = check_all(kernels, &shardings, |kernel| kernel.distribute([i], [io], [ii], &mesh));
    assert_eq!(found, BTreeSet::from(["Exchange", "InPlace", "Permute"]));
}

#[test]
fn elements_of_one_rank_in_cyclic_blocks_are_kept() {
    vars!(i, io, ii);
    let mesh = Mesh::new([("x", 1)]);
    let [x] = mesh.axes();
    let kernels = with_each_operation!((A: [f64; 7]) -> B [f64; 24], [3*i + 2], A[i]);
    let shardings: [&[Clause]; 1] = [&[dim(0).cyclic(x, 2)]];
    let found = check_all(kernels, &shardings, |kernel| kernel.distribute([i], [io], [ii], &mesh));
    assert_eq!(found, BTreeSet::from(["InPlace"]));
}

/// A rank computes only part of its term; the rest counts as zero, whatever its previous contents.
#[test]
fn open_sums_are_set_as_a_whole() {
    vars!(i, io, ii);
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let double = kernel! { fn double(A: [f64; 10]) -> B: [f64; 10] { B[i] = 2*A[i] } };
    let program = double.distribute([i], [io], [ii], &mesh).shard("A", [i.at(x)]).shard("B", [partial(x)]);
    let program = program.lower().expect("a program");
    let found = polyshard::spmd(3, |world| {
        let a = DistArray::from_fn(world, program.sharding("A"), value)?;
        let mut b = DistArray::filled(world, program.sharding("B"), 9.0)?;
        program.run_into(world, &[&a], &mut b)?;
        Ok(b.redistribute(world, &Sharding::replicated(&mesh, &[10]))?.block().to_vec())
    });
    let expected: Vec<_> = (0..10).map(|i| 2.0 * value(&[i])).collect();
    assert_eq!(found.expect("the program runs"), vec![expected; 3]);
}

#[test]
fn elements_around_a_box_of_two_dimensions_are_kept() {
    vars!(i, j, io, ii, jo, ji);
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let [x, y] = mesh.axes();
    let kernels = with_each_operation!((A: [f64; 5, 4]) -> C [f64; 12, 7], [2*i + 1, 5 - j], A[i, j]);
    let shardings: [&[Clause]; 4] =
        [&[dim(0).at(x), dim(1).at(y)], &[dim(1).cyclic(x, 2)], &[dim(0).cyclic(x, 3), pin(y, 1)], &[]];
    check_all(kernels, &shardings, |kernel| kernel.distribute([i, j], [io, jo], [ii, ji], &mesh));
}

#[test]
fn elements_beside_a_diagonal_are_kept() {
    vars!(i, io, ii);
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    let shardings: [&[Clause]; 3] = [&[dim(0).at(x)], &[dim(1).cyclic(x, 1)], &[]];
    let lay = |kernel: Schedule| kernel.distribute([i], [io], [ii], &mesh);
    check_all(with_each_operation!((A: [f64; 5]) -> C [f64; 6, 7], [i + 1, i + 2], A[i]), &shardings, lay);
    check_all(with_each_operation!((A: [f64; 4, 3]) -> C [f64; 6, 7], [i + j, 2*i], A[i, j]), &shardings, lay);
}

kernel! {
    pub fn between(A: [f64; 12]) -> B: [f64; 24] { B[2*i + 1] = A[i] }
    mesh(x: 3).distribute([i], [io], [ii]).shard(A, i @ x).shard(B, dim(0) @ x)
}
kernel! {
    pub fn around(A: [f64; 12]) -> B: [f64; 16] { B[14 - i] = A[i] }
    mesh(x: 3).distribute([i], [io], [ii]).shard(B, dim(0) @ cyclic(x, 2))
}
kernel! {
    pub fn greatest(A: [f64; 12]) -> B: [f64; 24] { B[2*i + 1] max= A[i] }
    mesh(x: 3).distribute([i], [io], [ii]).shard(B, dim(0) @ ((x + 1) % 3))
}
kernel! {
    pub fn diagonal(A: [f64; 6]) -> C: [f64; 7, 6] { C[i + 1, i] = A[i] }
    mesh(x: 3).distribute([i], [io], [ii]).shard(C)
}

/// Compiled kernels keep the same elements as the executor.
#[test]
fn emitted_source_keeps_the_same_elements() {
    macro_rules! check {
        ($($module:ident $output:literal)*) => {$(
            let program = $module::schedule().lower().expect("a legal schedule");
            for before in BEFORE {
                polyshard::spmd(3, |world| {
                    let a = DistArray::from_fn(world, &$module::sharding_a(), value)?;
                    let mut emitted = DistArray::filled(world, program.sharding($output), before)?;
                    let mut executed = emitted.clone();
                    $module::run_into(world, &a, &mut emitted)?;
                    program.run_into(world, &[&a], &mut executed)?;
                    let same = emitted.block().iter().zip(executed.block()).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(same, "{}: {:?} and {:?}", stringify!($module), emitted.block(), executed.block());
                    Ok(())
                })
                .expect("the program runs");
                check(&program, before);
            }
            assert_eq!(rust_source(&program, &SourceOptions { runtime: "::polyshard::runtime".into() }), $module::SOURCE);
        )*};
    }
    check!(between "B" around "B" greatest "B" diagonal "C");
}

/// Elements that no term changes keep every bit, although the kernel writes them: if a contracted index has no values,
/// and on ranks that have none.
#[test]
fn what_no_term_changes_is_kept() {
    vars!(k, ko, ki);
    let payload = f64::from_bits(f64::NAN.to_bits() | 5);
    for terms in [0, 1] {
        let kernels = [
            kernel! { fn add(A: [f64; 3, terms]) -> B: [f64; 3] { B[i] += A[i, k] } },
            kernel! { fn multiply(A: [f64; 3, terms]) -> B: [f64; 3] { B[i] *= A[i, k] } },
            kernel! { fn greatest(A: [f64; 3, terms]) -> B: [f64; 3] { B[i] max= A[i, k] } },
            kernel! { fn least(A: [f64; 3, terms]) -> B: [f64; 3] { B[i] min= A[i, k] } },
            kernel! { fn product(A: [f64; 3, terms], D: [f64; terms, 1]) -> B: [f64; 3, 1] { B[i, j] += A[i, k] * D[k, j] } },
            kernel! { fn add_0(A: [f64; terms]) -> B: f64 { B[] += A[k] } },
            kernel! { fn multiply_0(A: [f64; terms]) -> B: f64 { B[] *= A[k] } },
            kernel! { fn greatest_0(A: [f64; terms]) -> B: f64 { B[] max= A[k] } },
            kernel! { fn least_0(A: [f64; terms]) -> B: f64 { B[] min= A[k] } },
        ];
        // The number that each of them leaves unchanged; `D` is 1.
        let neutral = [-0.0, 1.0, f64::NEG_INFINITY, f64::INFINITY, -0.0, -0.0, 1.0, f64::NEG_INFINITY, f64::INFINITY];
        for (kernel, neutral) in kernels.into_iter().zip(neutral) {
            let mesh = Mesh::new([("x", 3)]);
            let [x] = mesh.axes();
            let distributed = kernel.clone().distribute([k], [ko], [ki], &mesh);
            for schedule in [kernel, distributed.clone(), distributed.shard("B", [pin(x, 1)])] {
                let program = schedule.lower().expect("a legal schedule");
                for before in [-0.0, 0.0, 7.5, f64::NAN, payload, f64::NEG_INFINITY, f64::INFINITY] {
                    let held = polyshard::spmd(program.mesh().size(), |world| {
                        let inputs = program.kernel().inputs().iter().zip([neutral, 1.0]);
                        let inputs = inputs.map(|(tensor, value)| {
                            DistArray::filled(world, program.sharding(tensor.name.as_str()), value)
                        });
                        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
                        let mut output = DistArray::filled(world, program.sharding("B"), before)?;
                        program.run_into(world, &inputs.iter().collect::<Vec<_>>(), &mut output)?;
                        Ok(output.block().to_vec())
                    });
                    for value in held.expect("the program runs").concat() {
                        let statement = program.kernel().statement();
                        assert_eq!(
                            value.to_bits(),
                            before.to_bits(),
                            "{before} is now {value}: {statement}\n{program}"
                        );
                    }
                }
            }
        }
    }
}

/// If a contracted index has no values, `=` writes empty sums, where it writes.
#[test]
fn empty_sums_are_written() {
    vars!(i, io, ii);
    let mesh = Mesh::new([("x", 2)]);
    let none = 0;
    let kernel = kernel! { fn sums(A: [f64; 5, none]) -> B: [f64; 7] { B[i + 1] = A[i, k] } };
    let program = kernel.distribute([i], [io], [ii], &mesh).lower().expect("a legal schedule");
    let held = polyshard::spmd(2, |world| {
        let a = DistArray::filled(world, program.sharding("A"), 1.0)?;
        let mut b = DistArray::filled(world, program.sharding("B"), 9.0)?;
        program.run_into(world, &[&a], &mut b)?;
        Ok(b.block().to_vec())
    });
    let expected = [9.0, 0.0, 0.0, 0.0, 0.0, 0.0, 9.0];
    assert_eq!(held.expect("the program runs"), [expected; 2]);
}

/// An output given by the caller may be read by later statements.
#[test]
fn an_output_that_is_read_later_is_written_where_the_caller_holds_it() {
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, x)]).expect("a sharding");
    let (rows, columns) = (by(0), by(1));
    let array = |name: &str, sharding: &Sharding, kind| Array { name: name.into(), sharding: sharding.clone(), kind };
    let arrays = vec![
        array("A", &rows, ArrayKind::Input),
        array("B", &columns, ArrayKind::Output),
        array("T", &rows, ArrayKind::Temporary),
    ];
    let mut body = Body { arrays, ..Body::new(&mesh, DType::F64) };
    body.transfer(Transfer::between([0, 1].map(ArrayId), [&rows, &columns], DType::F64, Vec::new()));
    body.transfer(Transfer::between([1, 2].map(ArrayId), [&columns, &rows], DType::F64, Vec::new()));
    let program = Program::new(body).expect("a program");
    polyshard::spmd(2, |world| {
        let a = DistArray::from_fn(world, &rows, value)?;
        let mut b = DistArray::filled(world, &columns, 0.0)?;
        program.run_into(world, &[&a], &mut b)?;
        assert_eq!(b.block(), DistArray::from_fn(world, &columns, value)?.block());
        assert_eq!(program.run(world, &[&a])?.block(), b.block());
        Ok(())
    })
    .expect("the program runs");
}
