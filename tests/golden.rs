//! Emitted source: its text is pinned, it compiles as part of this test, and it gives the same bits as the
//! executor and the values of the sequential reference.
//!
//! `UPDATE_EXPECT=1 cargo test --test golden` writes the files anew.

use expect_test::expect_file;
use ndarray::{ArrayD, ArrayViewD, ArrayViewMutD, IxDyn};
use polyshard::machine::{Device, Interconnect, Level};
use polyshard::prelude::*;
use polyshard::search::product::Product;
use polyshard::{
    CollectiveBy, DType, DistType, Kernel, NestId, ParallelismMatrix, PlacedMesh, Plan, PlanOptions, Sequence,
    SourceOptions, StagedLeg, Strategy, TileId, Transport, reference, runtime, rust_source,
};
use polyshard_testing::laws::reduce::machine;
use polyshard_testing::random::Choices;
use polyshard_testing::random::staged::staged;
use polyshard_testing::written::read_back;

macro_rules! golden {
    ($($name:ident $path:literal)*) => {$(
        #[path = $path]
        #[expect(unreachable_pub, reason = "in a user's crate the emitted items are public")]
        #[allow(dead_code, reason = "not all of the emitted items are called here")]
        mod $name;
    )*};
}
golden! {
    summa "golden/summa.rs"
    pumma "golden/pumma.rs"
    cannon "golden/cannon.rs"
    cannon_plain "golden/cannon_plain.rs"
    summa_ahead "golden/summa_ahead.rs"
    cannon_ahead "golden/cannon_ahead.rs"
    ag_gemm "golden/ag_gemm.rs"
    every_route "golden/every_route.rs"
    torus "golden/torus.rs"
    johnson "golden/johnson.rs"
    gemm_rs_ring "golden/gemm_rs_ring.rs"
    in_stages "golden/in_stages.rs"
    by_procedure "golden/by_procedure.rs"
    scattered "golden/scattered.rs"
    scattered_ahead "golden/scattered_ahead.rs"
    syrk "golden/syrk.rs"
    layers "golden/layers.rs"
    mttkrp "golden/mttkrp.rs"
    named "golden/named.rs"
    block_cyclic "golden/block_cyclic.rs"
    redistribution "golden/redistribution.rs"
    product "golden/product.rs"
    sequence "golden/sequence.rs"
    reduction "golden/reduction.rs"
    rounds "golden/rounds.rs"
}

fn tiled(mesh: &Mesh) -> Schedule {
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let matmul = kernel! {
        fn matmul(A: [f64; 13, 17], B: [f64; 17, 11]) -> C: [f64; 13, 11] { C[m, n] += A[m, k] * B[k, n] }
    };
    matmul.distribute([m, n], [mo, no], [mi, ni], mesh).divide(k, ko, ki, 2).reorder([mo, no, ko, mi, ni, ki])
}

fn plain(schedule: Schedule, mesh: &Mesh) -> Schedule {
    vars!(m, n, k);
    let [x, y] = mesh.axes();
    schedule.shard("A", [m.at(x), k.at(y)]).shard("B", [k.at(x), n.at(y)]).shard("C", [m.at(x), n.at(y)])
}

fn finished(schedule: Schedule) -> Schedule {
    schedule.communicate("A", "ko").communicate("B", "ko").tensorize(["mi", "ni", "ki"])
}

/// Compares the text with the golden file, and the results of the compiled file, the executor and the reference.
macro_rules! check {
    ($module:ident, $schedule:expr, $type:ty, |$prepared:ident, $arrays:ident| $run:expr) => {{
        let program = read_back(&$schedule.lower().expect("a legal schedule"));
        let source = rust_source(&program, &SourceOptions::default());
        expect_file![concat!("golden/", stringify!($module), ".rs")].assert_eq(&source);
        let shards = polyshard::spmd(program.mesh().size(), |world| {
            let $arrays: Vec<_> = inputs::<$type>(world, &program)?;
            let executed = program.run(world, &$arrays.iter().collect::<Vec<_>>())?;
            for transport in [Transport::Auto, Transport::Messages] {
                world.set_transport(transport);
                let mut $prepared = $module::Prepared::new(world)?;
                for _ in 0..2 {
                    let compiled: DistArray<$type> = $run?;
                    assert!(executed.block() == compiled.block(), "source and executor differ");
                }
            }
            Ok(executed.gather(world)?)
        });
        let found = shards.expect("the program runs").into_iter().flatten().next().expect("rank 0 gathers");
        assert_eq!(found, sequential::<$type>(&program));
    }};
}

fn value<T: polyshard::Element>(tensor: usize, index: &[usize]) -> T {
    let sum: usize = index.iter().zip([7, 3, 5]).map(|(i, factor)| i * factor).sum::<usize>() + 4 * tensor;
    num_traits::NumCast::from((sum % 11) as i64 - 5).expect("a small integer is of every type")
}

fn inputs<T: polyshard::Element>(world: &World, program: &Program) -> runtime::Result<Vec<DistArray<T>>> {
    let inputs = program.shardings().enumerate().take(program.kernel().inputs().len());
    inputs.map(|(i, sharding)| DistArray::from_fn(world, sharding, |index| value(i, index))).collect()
}

fn sequential<T: polyshard::Element>(program: &Program) -> ArrayD<T> {
    let inputs = program.kernel().inputs().iter().enumerate().map(|(i, tensor)| {
        ArrayD::from_shape_fn(IxDyn(&tensor.shape), |index| {
            value(i, &(0..tensor.ndim()).map(|dim| index[dim]).collect::<Vec<_>>())
        })
    });
    let inputs: Vec<ArrayD<T>> = inputs.collect();
    reference(program.kernel(), &inputs.iter().collect::<Vec<_>>(), None).expect("the shapes are the kernel's")
}

fn square() -> Mesh {
    Mesh::new([("x", 2), ("y", 2)])
}

#[test]
fn summa_source_is_pinned_compiles_and_agrees() {
    let schedule = finished(plain(tiled(&square()), &square()));
    check!(summa, schedule, f64, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]));
}

#[test]
fn source_of_panels_that_begin_ahead_is_pinned_compiles_and_agrees() {
    let mesh = Mesh::new([("x", 2), ("y", 3)]);
    let schedule = finished(plain(tiled(&mesh), &mesh).pipeline("ko", 2));
    check!(summa_ahead, schedule, f64, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]));
}

#[test]
fn source_of_tiles_that_travel_while_they_are_read_is_pinned_compiles_and_agrees() {
    let schedule = finished(plain(tiled(&square()).rotate("ko", ["mo", "no"]), &square()).pipeline("ko", 1));
    check!(cannon_ahead, schedule, f64, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]));
}

#[test]
fn pumma_source_is_pinned_compiles_and_agrees() {
    let schedule = finished(plain(tiled(&square()).rotate("ko", ["no"]), &square()));
    check!(pumma, schedule, f64, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]));
}

#[test]
fn cannon_source_is_pinned_compiles_and_agrees() {
    vars!(m, n, k);
    let mesh = square();
    let [x, y] = mesh.axes();
    let schedule = tiled(&mesh)
        .rotate("ko", ["mo", "no"])
        .shard("A", [m.at(x), k.at((x + y) % 2)])
        .shard("B", [k.at((x + y) % 2), n.at(y)])
        .shard("C", [m.at(x), n.at(y)]);
    check!(cannon, finished(schedule), f64, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]));
}

#[test]
fn cannon_from_plain_blocks_aligns_them_first() {
    let mesh = Mesh::new([("x", 3), ("y", 3)]);
    let matmul = kernel! {
        fn matmul(A: [f64; 13, 17], B: [f64; 17, 11]) -> C: [f64; 13, 11] { C[m, n] += A[m, k] * B[k, n] }
    };
    let schedule = matmul
        .distribute(["m", "n"], ["mo", "no"], ["mi", "ni"], &mesh)
        .divide("k", "ko", "ki", 3)
        .reorder(["mo", "no", "ko", "mi", "ni", "ki"])
        .rotate("ko", ["mo", "no"]);
    check!(cannon_plain, finished(plain(schedule, &mesh)), f64, |prepared, arrays| prepared
        .run(&arrays[0], &arrays[1]));
}

#[test]
fn ag_gemm_source_is_pinned_compiles_and_agrees() {
    vars!(m, n, mo, mi, no, ni, k);
    let mesh = Mesh::new([("x", 4)]);
    let [x] = mesh.axes();
    let gemm = kernel! {
        fn ag_gemm(A: [f32; 17, 13], B: [f32; 17, 11]) -> C: [f32; 13, 11] { C[m, n] += A[k, m] * B[k, n] }
    };
    let schedule = gemm
        .distribute([m], [mo], [mi], &mesh)
        .divide(n, no, ni, 4)
        .reorder([mo, no, mi, ni, k])
        .shard("A", [m.at(x)])
        .shard("B", [n.at(x)])
        .shard("C", [m.at(x)])
        .communicate("B", no)
        .tensorize([mi, ni, k]);
    check!(ag_gemm, schedule, f32, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]));
}

/// Two accesses of one tensor, with a tile each.
#[test]
fn source_of_two_accesses_is_pinned_compiles_and_agrees() {
    vars!(i, j, k);
    let mesh = square();
    let [x, y] = mesh.axes();
    let kernel = kernel! {
        fn syrk(A: [f64; 13, 7]) -> C: [f64; 13, 13] { C[i, j] += A[i, k] * A[j, k] }
    };
    let schedule = kernel
        .distribute([i, j], ["io", "jo"], ["ii", "ji"], &mesh)
        .divide(k, "ko", "ki", 2)
        .reorder(["ko", "ii", "ji", "ki"])
        .shard("A", [i.at(x), k.at(y)])
        .shard("C", [i.at(x), dim(1).at(y)])
        .communicate("A", "ko")
        .tensorize(["ii", "ji", "ki"]);
    check!(syrk, schedule, f64, |prepared, arrays| prepared.run(&arrays[0]));
}

/// What one layer has goes to all layers, and is permuted in each.
#[test]
fn source_of_layers_is_pinned_compiles_and_agrees() {
    vars!(m, n, k);
    let deep = Mesh::new([("z", 2)]);
    let ([x, y], [z]) = (square().axes(), deep.axes());
    let kernel = kernel! {
        fn terms(A: [f32; 5, 7], B: [f32; 7, 3]) -> P: [f32; 7, 5, 3] { P[k, m, n] = A[m, k] * B[k, n] }
    };
    let schedule = kernel
        .distribute([m, n], ["mo", "no"], ["mi", "ni"], &square())
        .divide(k, "kb", "ki", 2)
        .rotate("kb", ["mo", "no"])
        .distribute(["kb"], ["kz"], ["kt"], &deep)
        .shard("A", [m.at(x), k.at(y), pin(z, 0)])
        .shard("B", [k.at(x), n.at(y), pin(z, 0)])
        .shard("P", [m.at(x), n.at(y), k.at(z)]);
    check!(layers, schedule, f32, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]));
}

/// Integers that wrap, a scalar, an affine index, cyclic and pinned homes, an output that travels.
#[test]
fn source_of_every_route_is_pinned_compiles_and_agrees() {
    vars!(i, j);
    let mesh = Mesh::new([("x", 3), ("y", 2)]);
    let [x, y] = mesh.axes();
    let factor = 3;
    let kernel = kernel! {
        fn mixed(A: [i32; 16, 9], B: [i32; 14, 9], d: [i32; 9]) -> C: [i32; 14, 9] {
            C[i, j] = factor * A[i + 2, j] - B[i, j] / 2 * d[j]
        }
    };
    let schedule = kernel
        .distribute([i, j], ["io", "jo"], ["ii", "ji"], &mesh)
        .shard("A", [dim(0).at(x), dim(1).at(y)])
        .shard("B", [i.cyclic(x, 2), j.at(y)])
        .shard("d", [pin(x, 1), pin(y, 0)])
        .shard("C", [i.cyclic(x, 3), j.at(y)]);
    check!(every_route, schedule, i32, |prepared, arrays| prepared.run(&arrays[0], &arrays[1], &arrays[2], 3));
}

/// Indices that wrap in both dimensions, and a table that goes round several times.
#[test]
fn source_of_a_torus_is_pinned_compiles_and_agrees() {
    vars!(i, j);
    let mesh = Mesh::new([("x", 3), ("y", 2)]);
    let [x, y] = mesh.axes();
    let (m, n) = (7, 5);
    let kernel = kernel! {
        fn torus(A: [f64; m, n], w: [f64; 4]) -> B: [f64; m, n] {
            B[i, j] = A[(i + m - 1) % m, j] + A[(i + 1) % m, j] + A[i, (j - 1) % n] + A[i, (j + 1) % n] - w[(i + j) % 4] * A[i, j]
        }
    };
    let schedule = kernel
        .distribute([i, j], ["io", "jo"], ["ii", "ji"], &mesh)
        .split("ii", "it", "ie", 2)
        .reorder(["it", "ie", "ji"])
        .shard("A", [dim(0).at(x), dim(1).at(y)])
        .shard("w", [dim(0).at(x)])
        .shard("B", [i.at(x), j.at(y)])
        .communicate("A", "it");
    check!(torus, schedule, f64, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]));
}

/// Sums that meet at one of the ranks along `z`.
#[test]
fn johnson_source_is_pinned_compiles_and_agrees() {
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let mesh = Mesh::new([("x", 2), ("y", 2), ("z", 2)]);
    let [x, y, z] = mesh.axes();
    let matmul = kernel! {
        fn matmul(A: [f64; 13, 17], B: [f64; 17, 11]) -> C: [f64; 13, 11] { C[m, n] += A[m, k] * B[k, n] }
    };
    let schedule = matmul
        .distribute([m, n, k], [mo, no, ko], [mi, ni, ki], &mesh)
        .shard("A", [m.at(x), k.at(z), pin(y, 0)])
        .shard("B", [k.at(z), n.at(y), pin(x, 0)])
        .shard("C", [m.at(x), n.at(y), pin(z, 0)])
        .tensorize([mi, ni, ki]);
    check!(johnson, schedule, f64, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]));
}

/// A schedule whose collectives are carried out in stages.
struct InStages(Schedule);

impl InStages {
    fn lower(&self) -> Result<Program, polyshard::LowerError> {
        let program = self.0.lower()?;
        Ok(staged(&program, &mut Choices::new(&[])).expect("it has collectives"))
    }
}

/// A schedule whose sums meet by a procedure.
struct ByProcedure(Schedule);

impl ByProcedure {
    fn lower(&self) -> Result<Program, polyshard::LowerError> {
        let program = self.0.lower()?;
        let machine = machine(&[2, 2, 2]);
        let matrix = ParallelismMatrix::new(vec![vec![2, 1, 1], vec![1, 2, 2]]).expect("a matrix");
        let placed = PlacedMesh::new(program.mesh(), &machine, &matrix).expect("the matrix is for both");
        let plan = placed.reduction(&["z"], 44, DType::F64, Strategy::Best).expect("there is one");
        let by = Some(CollectiveBy::Procedure(plan.procedure_in_mesh()));
        let (nest, tile, why) = (NestId(0), TileId(2), "nodes are of 2 ranks".into());
        Ok(program.in_stages(&[StagedLeg { nest, tile, leg: 0, by, why }]).expect("its sums meet along z"))
    }
}

/// Sums that meet by the steps that a planner has found, rows after rows.
#[test]
fn sums_by_a_procedure_are_pinned_compile_and_agree() {
    vars!(m, n, k, mo, mi, ko, ki, po, pi);
    let mesh = Mesh::new([("x", 2), ("z", 4)]);
    let [x, z] = mesh.axes();
    let matmul = kernel! {
        fn matmul(A: [f64; 13, 17], B: [f64; 17, 11]) -> C: [f64; 13, 11] { C[m, n] += A[m, k] * B[k, n] }
    };
    let schedule = matmul
        .distribute([m, k], [mo, ko], [mi, ki], &mesh)
        .divide(mi, po, pi, 2)
        .reorder([po, pi, n, ki])
        .shard("A", [m.at(x), k.at(z)])
        .shard("B", [k.at(z)])
        .shard("C", [m.at(x)])
        .communicate("C", po)
        .tensorize([pi, n, ki]);
    let schedule = ByProcedure(schedule);
    check!(by_procedure, schedule, f64, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]));
}

/// A factor that is broadcast, and sums that meet part by part, in stages.
#[test]
fn collectives_in_stages_are_pinned_compile_and_agree() {
    vars!(m, n, k, mo, mi, ko, ki);
    let mesh = Mesh::new([("x", 4), ("z", 4)]);
    let [x, z] = mesh.axes();
    let matmul = kernel! {
        fn matmul(A: [f64; 13, 17], B: [f64; 17, 11]) -> C: [f64; 13, 11] { C[m, n] += A[m, k] * B[k, n] }
    };
    let schedule = matmul
        .distribute([m, k], [mo, ko], [mi, ki], &mesh)
        .shard("A", [m.at(x), k.at(z)])
        .shard("B", [k.at(z), pin(x, 1)])
        .shard("C", [m.at(x), n.at(z)])
        .tensorize([mi, n, ki]);
    let schedule = InStages(schedule);
    check!(in_stages, schedule, f64, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]));
}

fn reduced_over(mesh: &Mesh) -> Schedule {
    let matmul = kernel! {
        fn matmul(A: [f32; 14, 17], B: [f32; 17, 11]) -> C: [f32; 14, 11] { C[m, n] += A[m, k] * B[k, n] }
    };
    matmul.distribute(["k"], ["ko"], ["ki"], mesh).divide("m", "mo", "mi", 4).reorder(["mo", "mi", "n", "ki"])
}

/// Sums that travel round a ring.
#[test]
fn gemm_reduce_scatter_on_a_ring_is_pinned_compiles_and_agrees() {
    vars!(m, k);
    let mesh = Mesh::new([("x", 4)]);
    let [x] = mesh.axes();
    let schedule = reduced_over(&mesh)
        .rotate("mo", ["ko"])
        .shard("A", [k.at(x)])
        .shard("B", [k.at(x)])
        .shard("C", [m.at(x)])
        .communicate("C", "mo")
        .tensorize(["mi", "n", "ki"]);
    check!(gemm_rs_ring, schedule, f32, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]));
}

/// Sums that meet part by part, each panel's in turn.
fn scattered_in_panels() -> Schedule {
    vars!(m, k);
    let mesh = Mesh::new([("x", 4)]);
    let [x] = mesh.axes();
    let placed = reduced_over(&mesh).shard("A", [k.at(x)]).shard("B", [k.at(x)]).shard("C", [m.cyclic(x, 1)]);
    placed.communicate("C", "mo").tensorize(["mi", "n", "ki"])
}

#[test]
fn scattered_and_replicated_sums_are_pinned_compile_and_agree() {
    let schedule = scattered_in_panels();
    check!(scattered, schedule, f32, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]));
}

#[test]
fn source_of_panels_that_leave_while_others_are_computed_is_pinned_compiles_and_agrees() {
    let schedule = scattered_in_panels().pipeline("mo", 2);
    check!(scattered_ahead, schedule, f32, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]));
}

/// Sums of products of three tensors, two at a time.
#[test]
fn source_of_several_operands_is_pinned_compiles_and_agrees() {
    vars!(i, j, k, r);
    let mesh = square();
    let [x, y] = mesh.axes();
    let kernel = kernel! {
        fn mttkrp(X: [f32; 13, 9, 7], A: [f32; 9, 5], B: [f32; 7, 5]) -> M: [f32; 13, 5] {
            M[i, r] += X[i, j, k] * A[j, r] * B[k, r]
        }
    };
    let schedule = kernel
        .distribute([i, j], ["io", "jo"], ["ii", "ji"], &mesh)
        .shard("X", [i.at(x), j.at(y)])
        .shard("A", [j.at(y)])
        .shard("B", [k.at([x, y])])
        .shard("M", [i.at(x), r.at(y)])
        .tensorize(["ii", "r", "ji", "k"]);
    let leaf = schedule.lower().expect("a legal schedule").nest().leaf.op.clone();
    assert!(matches!(leaf, polyshard_program::LeafOp::Products { .. }), "{leaf:?}");
    check!(mttkrp, schedule, f32, |prepared, arrays| prepared.run(&arrays[0], &arrays[1], &arrays[2]));
}

/// Calls what is registered, with a scalar, a transposed operand and one that is not sharded.
#[test]
fn source_of_a_registered_leaf_is_pinned_compiles_and_agrees() {
    let weighted = |mut c: ArrayViewMutD<'_, i32>, [alpha, a, b, d]: [ArrayViewD<'_, i32>; 4]| {
        let (rows, columns, depth) = (c.shape()[0], c.shape()[1], a.shape()[1]);
        for (i, j, k) in (0..rows).flat_map(|i| (0..columns).flat_map(move |j| (0..depth).map(move |k| (i, j, k)))) {
            c[[i, j]] += alpha[[]] * a[[i, k]] * b[[k, j]] * d[[j]];
        }
    };
    let s = 1;
    let schedule = kernel! {
        fn weighted(A: [i32; 1, 1], B: [i32; 1, 1], w: [i32; 1]) -> C: [i32; 1, 1] {
            C[i, j] += s * A[i, k] * B[k, j] * w[j]
        }
    };
    polyshard::leaf::register("weighted", schedule.kernel().expect("a kernel"), weighted).expect("a leaf");
    vars!(i, j, k);
    let mesh = Mesh::new([("x", 3), ("y", 2)]);
    let [x, y] = mesh.axes();
    let factor = 3;
    let kernel = kernel! {
        fn weighted(A: [i32; 11, 13], B: [i32; 11, 9], d: [i32; 9]) -> C: [i32; 13, 9] {
            C[i, j] = factor * A[k, i] * B[k, j] * d[j]
        }
    };
    let schedule = kernel
        .distribute([i, j], ["io", "jo"], ["ii", "ji"], &mesh)
        .divide(k, "ko", "ki", 3)
        .reorder(["ko", "ii", "ji", "ki"])
        .shard("A", [i.at(x), k.at(y)])
        .shard("B", [k.at(x), j.at(y)])
        .shard("C", [i.at(x), j.at(y)])
        .communicate("A", "ko")
        .communicate("B", "ko")
        .tensorize_with(["ii", "ji", "ki"], "weighted");
    check!(named, schedule, i32, |prepared, arrays| prepared.run(&arrays[0], &arrays[1], &arrays[2], 3));
}

/// Rows and columns block-cyclic: parts of one tile are copied, gathered, exchanged and sent home.
#[test]
fn source_of_a_block_cyclic_product_is_pinned_compiles_and_agrees() {
    vars!(m, n, k);
    let mesh = square();
    let [x, y] = mesh.axes();
    let matmul = kernel! {
        fn matmul(A: [f64; 13, 17], B: [f64; 17, 11]) -> C: [f64; 13, 11] { C[m, n] += A[m, k] * B[k, n] }
    };
    let schedule = matmul
        .split(m, "mb", "mi", 2)
        .split("mb", "mt", "mp", 2)
        .split(n, "nb", "ni", 3)
        .split("nb", "nt", "np", 2)
        .distribute(["mp", "np"], ["mo", "no"], ["ml", "nl"], &mesh)
        .reorder(["mt", "nt", "ml", "mi", "nl", "ni", "k"])
        .shard("A", [m.cyclic(x, 2), k.at(y)])
        .shard("B", [k.at(x), n.at(y)])
        .shard("C", [m.at(x), n.cyclic(y, 3)])
        .tensorize(["ml", "mi", "nl", "ni", "k"]);
    check!(block_cyclic, schedule, f64, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]));
}

/// As [`check`], of a program that is no schedule of one kernel: a redistribution, a product, a sequence. `$sequential` is
/// its result on whole inputs.
macro_rules! check_program {
    ($module:ident, $program:expr, $type:ty, |$prepared:ident, $arrays:ident| $run:expr, $sequential:expr) => {{
        let program: Program = read_back(&$program);
        let source = rust_source(&program, &SourceOptions::default());
        expect_file![concat!("golden/", stringify!($module), ".rs")].assert_eq(&source);
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
    let sizes = [("I", 7), ("J", 9), ("K", 5)];
    let product = Product::new("A[I_X, J_Y] * B[J, K_X] -> C[I_XY, K]", &mesh, &sizes, DType::F64);
    let device = Device {
        memory_bandwidth: 1e10,
        memory_capacity: 1 << 30,
        flops: [("f64".to_owned(), 1e10)].into(),
        ..Device::default()
    };
    let switch = |_| Level::new("", 1, Interconnect::Switch, 1e9, 1e-6);
    let placed = PlacedMesh::along_axes(&mesh, "two switches", device, switch).expect("a machine");
    let plan = product.and_then(|product| product.plan(&placed)).expect("a plan");
    let cut = plan.best().program().expect("a program");
    check_program!(product, cut, f64, |prepared, arrays| prepared.run(&arrays[0], &arrays[1]), |whole| {
        let [a, b] = [&whole[0], &whole[1]];
        ArrayD::from_shape_fn(IxDyn(&[7, 5]), |at| (0..9).map(|j| a[[at[0], j]] * b[[j, at[1]]]).sum())
    });
}

/// Two products, of which the first leaves columns and the second wants rows.
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
    Sequence::new()
        .stage(&first, ["X", "W"], "Y")
        .stage(&second, ["Y", "scale_of"], "Z")
        .build()
        .expect("stages that fit")
}

#[test]
fn a_sequence_of_kernels_is_pinned_compiles_and_agrees() {
    let run = |prepared: &mut sequence::Prepared<'_>, arrays: &[DistArray<i64>]| {
        prepared.run(&arrays[0], &arrays[1], &arrays[2], -3)
    };
    check_program!(sequence, two_products(), i64, |prepared, arrays| run(&mut prepared, &arrays), |whole| {
        let program = two_products();
        let kernels: Vec<_> = program.nests().map(|nest| &nest.kernel).collect();
        let y = reference(kernels[0], &[&whole[0], &whole[1]], None).expect("the shapes are the kernel's");
        reference(kernels[1], &[&y, &whole[2]], None).expect("the shapes are the kernel's")
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
        let [rows, columns, _] = &program.nests().map(|nest| &nest.kernel).collect::<Vec<_>>()[..] else { panic!() };
        let apply = |kernel: &Kernel, a: &ArrayD<i64>, v: &ArrayD<i64>| reference(kernel, &[a, v], None).expect("fits");
        let (mut a, mut v) = (whole[0].clone(), whole[1].clone());
        for _ in 0..3 {
            let y = apply(rows, &apply(rows, &a, &v), &v);
            (a, v) = (apply(columns, &y, &v), y);
        }
        a
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
    expect_file!["golden/reduction.rs"].assert_eq(&source);
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
