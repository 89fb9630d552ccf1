//! Products of sharded arrays on threads: programs that the search finds give the sequential product, at their stated cost.

use polyshard::layout::{DType, Mesh, Placement, Sharding};
use polyshard::program::Program;
use polyshard::runtime::{Execute, World, spmd};
use polyshard::{Error, Result, kernel, vars};
use polyshard_testing::laws::product;
use polyshard_testing::laws::product::{Draw, held, hold, reshardings_hold};
use proptest::prelude::*;

/// Meshes of one to three axes, of 1 to 4 ranks each and some of more, and of at most 12 ranks.
fn meshes() -> impl Strategy<Value = Mesh> {
    let ranks = prop::sample::select(vec![1, 2, 3, 4, 6, 8, 12]);
    ranks.prop_flat_map(|ranks| prop::sample::select(product::meshes(ranks)))
}

#[track_caller]
fn on_ranks(mesh: &Mesh, f: impl Fn(&World) -> Result<()> + Sync) {
    spmd(mesh.size(), f).unwrap_or_else(|error| panic!("{error}"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn every_program_gives_the_sequential_product(mesh in meshes(), seed: u64, kind in 0..4usize, any_size: bool) {
        let (problem, dtype) = (Draw(seed).problem(&mesh, any_size), DType::NATIVE[kind]);
        let held = held(&mesh, &problem, dtype).unwrap_or_else(|error| panic!("{problem:?}: {error}"));
        // In the order of the native types.
        on_ranks(&mesh, |world| [hold::<f32>, hold::<f64>, hold::<i32>, hold::<i64>][kind](world, &held));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn open_sums_are_closed_and_kept_as_asked(mesh in meshes(), seed: u64) {
        on_ranks(&mesh, |world| reshardings_hold::<i64>(world, &mesh, &mut Draw(seed)));
    }
}

#[test]
fn what_is_held_from_run_to_run_is_what_moves() {
    let mesh = Mesh::new([("X", 2), ("Y", 2)]);
    let held = |program: &Program| -> Vec<usize> {
        let held = spmd(4, |world| Ok::<_, Error>(program.prepare::<f64>(world)?.staging_bytes()));
        held.unwrap_or_else(|error| panic!("{error}"))
    };
    let product =
        kernel! { fn product(A: [f64; 8, 12], B: [f64; 12, 4]) -> C: [f64; 8, 4] { C[i, k] += A[i, j] * B[j, k] } };
    vars!(i, k, io, ii, ko, ki);
    let [x, y] = mesh.axes();
    let product = product.distribute([i, k], [io, ko], [ii, ki], &mesh);
    let product = product.shard("A", [i.at(x)]).shard("B", [k.at(y)]).shard("C", [i.at(x), k.at(y)]);
    let program = product.lower().expect("it is legal");
    assert_eq!(held(&program), vec![0; 4], "tiles are multiplied where they are");
    let by = |placements: &[Placement]| Sharding::new(&mesh, &[8, 4], placements).expect("a sharding");
    let open = by(&[Placement::block(0, x), Placement::partial(y)]);
    // For terms of 4 rows of 4: a copy and all terms; or a copy, its packed part, and the two rows received.
    let targets = [(by(&[Placement::block(0, x)]), 3 * 4), (by(&[Placement::block(0, [x, y])]), 2 * 4 + 2)];
    for (target, rows) in targets {
        let program = Program::redistribution("C", [&open, &target], DType::F64).expect("sums are closed");
        assert_eq!(held(&program), vec![8 * 4 * rows; 4], "{program}");
        assert_eq!(program.report().tile_bytes, 8 * 4 * rows as u64, "{program}");
    }
}
