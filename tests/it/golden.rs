//! Emitted source: its text is pinned, it compiles as part of this test, and it gives the same bits as the
//! executor and the values of the sequential reference.
//!
//! `UPDATE_EXPECT=1 cargo test --test it golden` writes the files anew.

use expect_test::expect_file;
use ndarray::{ArrayViewD, ArrayViewMutD};
use polyshard::planner::placement::{ParallelismMatrix, PlacedMesh};
use polyshard::planner::reduce::Strategy;
use polyshard::prelude::*;
use polyshard::program::{Algorithm, LegId, StagedLeg, TransferId};
use polyshard::runtime::{Progress, Transport};
use polyshard::source::{SourceOptions, rust_source};
use polyshard_testing::filled::{inputs, sequential};
use polyshard_testing::laws::reduce::machine;
use polyshard_testing::random::Choices;
use polyshard_testing::random::staged::staged;
use polyshard_testing::written::read_back;

mod programs;

macro_rules! golden {
    ($($name:ident $path:literal)*) => {$(
        #[path = $path]
        #[expect(unreachable_pub, reason = "in a user's crate the emitted items are public")]
        #[allow(dead_code, reason = "not all of the emitted items are called here")]
        mod $name;
    )*};
}
golden! {
    summa "../golden/summa.rs"
    pumma "../golden/pumma.rs"
    cannon "../golden/cannon.rs"
    cannon_plain "../golden/cannon_plain.rs"
    summa_ahead "../golden/summa_ahead.rs"
    cannon_ahead "../golden/cannon_ahead.rs"
    ag_gemm "../golden/ag_gemm.rs"
    every_route "../golden/every_route.rs"
    torus "../golden/torus.rs"
    interior_first "../golden/interior_first.rs"
    time_steps "../golden/time_steps.rs"
    johnson "../golden/johnson.rs"
    gemm_rs_ring "../golden/gemm_rs_ring.rs"
    in_stages "../golden/in_stages.rs"
    by_procedure "../golden/by_procedure.rs"
    scattered "../golden/scattered.rs"
    scattered_ahead "../golden/scattered_ahead.rs"
    syrk "../golden/syrk.rs"
    layers "../golden/layers.rs"
    mttkrp "../golden/mttkrp.rs"
    named "../golden/named.rs"
    block_cyclic "../golden/block_cyclic.rs"
    redistribution "../golden/redistribution.rs"
    product "../golden/product.rs"
    sequence "../golden/sequence.rs"
    reduction "../golden/reduction.rs"
    rounds "../golden/rounds.rs"
    nests "../golden/nests.rs"
    kept "../golden/kept.rs"
    together "../golden/together.rs"
    passes "../golden/passes.rs"
    ring "../golden/ring.rs"
    versions "../golden/versions.rs"
}

fn matmul() -> Schedule {
    kernel! { fn matmul(A: [f64; 13, 17], B: [f64; 17, 11]) -> C: [f64; 13, 11] { C[m, n] += A[m, k] * B[k, n] } }
}

fn tiled(mesh: &Mesh) -> Schedule {
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    matmul().distribute([m, n], [mo, no], [mi, ni], mesh).divide(k, ko, ki, 2).reorder([mo, no, ko, mi, ni, ki])
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
        expect_file![concat!("../golden/", stringify!($module), ".rs")].assert_eq(&source);
        let shards = polyshard::spmd(program.mesh().size(), |world| {
            let $arrays: Vec<_> = inputs::<$type>(world, &program, value)?;
            let executed = program.run(world, &$arrays.iter().collect::<Vec<_>>())?;
            let ways = [
                (Transport::Auto, Progress::Slices),
                (Transport::Messages, Progress::Slices),
                (Transport::Messages, Progress::Thread),
            ];
            for (transport, progress) in ways {
                world.set_transport(transport);
                world.set_progress(progress)?;
                let mut $prepared = $module::Prepared::new(world)?;
                for _ in 0..2 {
                    let compiled: DistArray<$type> = $run?;
                    assert!(executed.block() == compiled.block(), "source and executor differ");
                }
            }
            Ok(executed.gather(world)?)
        });
        let found = shards.expect("the program runs").into_iter().flatten().next().expect("rank 0 gathers");
        assert_eq!(found, sequential::<$type>(&program, false, value));
    }};
}

fn value<T: polyshard::runtime::Element>(tensor: usize, index: &[usize]) -> T {
    let sum: usize = index.iter().zip([7, 3, 5]).map(|(i, factor)| i * factor).sum::<usize>() + 4 * tensor;
    num_traits::NumCast::from((sum % 11) as i64 - 5).expect("a small integer is of every type")
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
    let schedule = matmul()
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

/// Two accesses of one tensor, each with its own tile.
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

/// The data of one layer are sent to all layers, and permuted in each.
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

/// Wrapping integers, a scalar, an affine index, cyclic and pinned homes, an output that is sent to its owners.
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

/// Indices that wrap in both dimensions, and a table that wraps around several times.
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

/// The loops over i and j in blocks on a mesh of 3 by 2, with A and B where they are computed.
fn in_blocks(kernel: Schedule) -> Schedule {
    vars!(i, j);
    let mesh = Mesh::new([("x", 3), ("y", 2)]);
    let [x, y] = mesh.axes();
    let blocks = kernel.distribute([i, j], ["io", "jo"], ["ii", "ji"], &mesh);
    blocks.shard("A", [i.at(x), j.at(y)]).shard("B", [i.at(x), j.at(y)])
}

/// A halo that is in flight while the interior is computed.
#[test]
fn source_that_computes_the_interior_first_is_pinned_compiles_and_agrees() {
    let (m, n) = (14, 11);
    let kernel = kernel! {
        fn blur(A: [f64; m, n]) -> B: [f64; m, n] {
            B[i, j] = (A[i - 1, j] else 0.0) + (A[i + 1, j] else 0.0) + A[i, (j - 1) % n] + A[i, (j + 1) % n] - 0.5 * A[i, j]
        }
    };
    check!(interior_first, in_blocks(kernel).interior_first("A"), f64, |prepared, arrays| prepared.run(&arrays[0]));
}

/// A halo for three applications of a kernel.
#[test]
fn source_of_time_steps_is_pinned_compiles_and_agrees() {
    let (m, n) = (14, 11);
    let kernel = kernel! {
        fn blur(A: [f64; m, n]) -> B: [f64; m, n] {
            B[i, j] = (A[i - 1, j] else 0.0) + (A[i + 1, j] else 0.0) + A[i, (j - 1) % n] - 0.5 * A[i, j]
        }
    };
    check!(time_steps, in_blocks(kernel).halo("A", 3), f64, |prepared, arrays| prepared.run(&arrays[0]));
}

/// Sums at one of the ranks along `z`.
#[test]
fn johnson_source_is_pinned_compiles_and_agrees() {
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let mesh = Mesh::new([("x", 2), ("y", 2), ("z", 2)]);
    let [x, y, z] = mesh.axes();
    let schedule = matmul()
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
    fn lower(&self) -> Result<Program, polyshard::schedule::LowerError> {
        let program = self.0.lower()?;
        Ok(staged(&program, &mut Choices::new(&[])).expect("it has collectives"))
    }
}

/// A schedule whose sums are taken by a procedure.
struct ByProcedure(Schedule);

impl ByProcedure {
    fn lower(&self) -> Result<Program, polyshard::schedule::LowerError> {
        let program = self.0.lower()?;
        let machine = machine(&[2, 2, 2]);
        let matrix = ParallelismMatrix::new(vec![vec![2, 1, 1], vec![1, 2, 2]]).expect("a matrix");
        let placed = PlacedMesh::new(program.mesh(), &machine, &matrix).expect("the matrix is for both");
        let plan = placed.reduction(&["z"], 44, DType::F64, Strategy::Best).expect("there is one");
        let by = Algorithm::Procedure(plan.procedure_in_mesh());
        let (transfer, why) = (TransferId(2), "nodes are of 2 ranks".into());
        Ok(program.in_stages(&[StagedLeg { transfer, leg: LegId(0), by, why }]).expect("its sums meet along z"))
    }
}

/// Sums by the steps that a planner has found, rows after rows.
#[test]
fn sums_by_a_procedure_are_pinned_compile_and_agree() {
    vars!(m, n, k, mo, mi, ko, ki, po, pi);
    let mesh = Mesh::new([("x", 2), ("z", 4)]);
    let [x, z] = mesh.axes();
    let schedule = matmul()
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

/// A factor that is broadcast, and sums that are reduce-scattered, in stages.
#[test]
fn collectives_in_stages_are_pinned_compile_and_agree() {
    vars!(m, n, k, mo, mi, ko, ki);
    let mesh = Mesh::new([("x", 4), ("z", 4)]);
    let [x, z] = mesh.axes();
    let schedule = matmul()
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

/// Sums that are sent around a ring.
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

/// Sums that are reduce-scattered, panel by panel.
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

/// Calls a registered leaf, with a scalar, a transposed operand and one that is not sharded.
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

/// Block-cyclic rows and columns: parts of one tile are copied, gathered, exchanged and sent back to their owners.
#[test]
fn source_of_a_block_cyclic_product_is_pinned_compiles_and_agrees() {
    vars!(m, n, k);
    let mesh = square();
    let [x, y] = mesh.axes();
    let schedule = matmul()
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
