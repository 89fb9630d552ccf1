//! Sharded products on threads: every sequence of a plan gives the sequential product, at its stated cost.

use polyshard::layout::{DType, Mesh, Placement, Sharding};
use polyshard::program::Program;
use polyshard::runtime::{Execute, World, spmd};
use polyshard::search::product::Product;
use polyshard::{Error, Result};
use polyshard_testing::laws::product;
use polyshard_testing::laws::product::{Draw, Held, hold, machine, reshardings_hold};
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

/// Runs sequences of a product, on elements of the type with this number.
#[track_caller]
fn check(mesh: &Mesh, text: &str, sizes: &[(&str, usize)], kind: usize) {
    let dtype = DType::NATIVE[kind];
    for held in Held::new(mesh, text, sizes, dtype).unwrap_or_else(|error| panic!("{error}")) {
        on_ranks(mesh, |world| match dtype {
            DType::F32 => hold::<f32>(world, &held),
            DType::F64 => hold::<f64>(world, &held),
            DType::I32 => hold::<i32>(world, &held),
            _ => hold::<i64>(world, &held),
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn every_sequence_gives_the_sequential_product(mesh in meshes(), seed: u64, kind in 0..4usize, any_size: bool) {
        let (text, sizes) = Draw(seed).problem(&mesh, any_size);
        check(&mesh, &text, &sizes, kind);
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
fn three_axes_of_two_are_right() {
    let mesh = Mesh::new([("X", 2), ("Y", 2), ("Z", 2)]);
    let sizes = [("I", 8), ("J", 16), ("K", 8)];
    check(&mesh, "A[I_X, J_YZ] * B[J_Z, K_X] -> C[I_Y, K] {U_Z}", &sizes, 2);
    let sizes = [("I", 5), ("J", 13), ("K", 9)];
    check(&mesh, "A[I_ZX, J_Y] * B[J, K_XY] -> C[I, K_YZ]", &sizes, 1);
}

#[test]
fn what_is_held_from_run_to_run_is_what_moves() {
    let mesh = Mesh::new([("X", 2), ("Y", 2)]);
    let sizes = [("I", 8), ("J", 12), ("K", 4)];
    let held = |program: &Program| -> Vec<usize> {
        let held = spmd(4, |world| Ok::<_, Error>(program.prepare::<f64>(world)?.staging_bytes()));
        held.unwrap_or_else(|error| panic!("{error}"))
    };
    let product = Product::new("A[I_X, J] * B[J, K_Y] -> C[I_X, K_Y]", &mesh, &sizes, DType::F64).expect("a product");
    let plan = product.plan(&machine(&mesh)).expect("a plan");
    let program = plan.best().program().expect("the type is computed in");
    assert_eq!((plan.best().steps().len(), held(&program)), (1, vec![0; 4]), "tiles are multiplied where they are");
    let by = |placements: &[Placement]| Sharding::new(&mesh, &[8, 4], placements).expect("a sharding");
    let [x, y] = mesh.axes();
    let open = by(&[Placement::block(0, x), Placement::partial(y)]);
    // For terms of 4 rows of 4: a copy and all terms; or a copy, its packed part, and the two rows received.
    let targets = [(by(&[Placement::block(0, x)]), 3 * 4), (by(&[Placement::block(0, [x, y])]), 2 * 4 + 2)];
    for (target, rows) in targets {
        let program = Program::redistribution("C", [&open, &target], DType::F64).expect("sums are closed");
        assert_eq!(held(&program), vec![8 * 4 * rows; 4], "{program}");
        assert_eq!(program.report().tile_bytes, 8 * 4 * rows as u64, "{program}");
    }
}
