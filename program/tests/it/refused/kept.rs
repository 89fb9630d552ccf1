//! Reuse of tiles that no kernel keeps.

use super::{array, by_rows, mesh};
use expect_test::expect;
use polyshard_dsl::{Var, parse_kernel};
use polyshard_layout::{Axis, Mesh, Neighbours, Placement, Reach, Sharding};
use polyshard_polyhedral::Schedule;
use polyshard_program::{Array, ArrayId, ArrayKind, Body, DType, End, KernelId, Leg, Program, TransferId};
use polyshard_testing::example;

/// Two products of which the second one fetches nothing of `B`, but reads the tile of a transfer; of another array if it is `elsewhere`.
fn kept(from: usize, is_elsewhere: bool, is_turned: bool) -> (Vec<Array>, Body) {
    let ((mesh, x), [m, k]) = (mesh(), ["m", "k"].map(Var::new));
    let gathered = Schedule::from_spec(example::matmul(4, 4, 4)).distribute(["m"], ["mo"], ["mi"], &mesh);
    let gathered = gathered.shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]).lower();
    let one = gathered.expect("a program").body().clone();
    let kinds = [
        ("A", ArrayKind::Input),
        ("B", ArrayKind::Input),
        ("C", ArrayKind::Output),
        ("D", ArrayKind::Output),
        ("E", ArrayKind::Input),
    ];
    let arrays = kinds.map(|(name, kind)| array(name, by_rows(), kind)).to_vec();
    let mut body = Body { arrays: arrays.clone(), ..Body::new(&mesh, DType::F32) };
    body.run(&one, &[0, 1, 2].map(ArrayId));
    body.run(&one, &[0, if is_elsewhere { 4 } else { 1 }, 3].map(ArrayId));
    body.kernels[1].uses[1].transfer = TransferId(from);
    let proofs = body.kernels[1].report.proofs.clone();
    body.complete(KernelId(1), proofs);
    // The second kernel's own transfer of it is gone.
    body.transfers.remove(4);
    body.kernels[1].uses[2].transfer = TransferId(4);
    if is_turned {
        body.kernels.swap(0, 1);
        for transfer in &mut body.transfers {
            for end in [&mut transfer.from, &mut transfer.to] {
                if let End::Tile(kernel) = end {
                    kernel.0 = 1 - kernel.0;
                }
            }
        }
    }
    body.statements.clear();
    body.place();
    (arrays, body)
}

#[test]
fn a_tile_that_no_kernel_keeps() {
    let (arrays, body) = kept(1, false, false);
    let program = super::program(DType::F32, arrays, body).expect("it is kept");
    // The second kernel receives nothing, and has no tile.
    let alone = program.nests().map(|nest| nest.report.traffic_bytes).collect::<Vec<_>>();
    assert_eq!(alone, [2 * 4 * 4, 0]);
    assert_eq!(program.report().tile_bytes, 4 * 4 * 4);
    let refused = |from, is_elsewhere, is_turned| {
        let (arrays, body) = kept(from, is_elsewhere, is_turned);
        super::refusal(DType::F32, arrays, body)
    };
    let refusals =
        [refused(1, true, false), refused(0, false, false), refused(2, false, false), refused(1, false, true)].concat();
    expect![[r#"
        statement 2: `matmul` has transfers between other arrays and tiles than its own
        statement 2: `matmul` has transfers between other arrays and tiles than its own
        statement 2: `matmul` has transfers in another order than its inputs and then its output
        statement 1: `matmul` reads `B` from the tile of transfer 1, but no kernel before it in the same round leaves it there
    "#]].assert_eq(&refusals);
}

/// Two stencils on a square in blocks, of which the second one needs more of it.
fn around(mesh: &Mesh, kernels: [&str; 2]) -> [Program; 2] {
    let [x, y]: [Axis; 2] = mesh.axes();
    let [i, j] = ["i", "j"].map(Var::new);
    kernels.map(|value| {
        let text = format!("fn around(u: [f32; 8, 8]) -> v: [f32; 8, 8] {{ v[i, j] = {value} }}");
        let kernel = Schedule::from_spec(parse_kernel(&text).expect("a kernel"));
        let tiles = kernel.distribute(["i", "j"], ["io", "jo"], ["ii", "ji"], mesh);
        let tiles = tiles.shard("u", [i.at(x), j.at(y)]).shard("v", [i.at(x), j.at(y)]);
        tiles.lower().expect("a program")
    })
}

/// The program that runs both, the second on the tile of the first, after a change.
fn both(kernels: [&str; 2], change: impl Fn(&mut Body)) -> Result<Program, String> {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let blocks = [Placement::block(0, "x"), Placement::block(1, "y")];
    let blocks = Sharding::new(&mesh, &[8, 8], &blocks).expect("a sharding");
    let kinds = [("u", ArrayKind::Input), ("v", ArrayKind::Output), ("w", ArrayKind::Output)];
    let mut body = Body::new(&mesh, DType::F32);
    body.arrays = kinds.map(|(name, kind)| array(name, blocks.clone(), kind)).to_vec();
    for (one, output) in around(&mesh, kernels).iter().zip([1, 2]) {
        body.run(one.body(), &[0, output].map(ArrayId));
    }
    let mut body = body.with_kept_tiles();
    change(&mut body);
    let made = Program::new(body).map_err(|error| error.to_string())?;
    let text = serde_json::to_string(&made).expect("it is written");
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

const PLUS: &str = "u[i - 1, j] else 0 + u[i + 1, j] else 0 + u[i, j - 1] else 0 + u[i, j + 1] else 0";
const FULL: &str = "u[i - 1, j - 1] else 0 + u[i + 1, j + 1] else 0";
const WIDE: &str = "u[i - 2, j] else 0 + u[i + 2, j] else 0 + u[i, j - 2] else 0 + u[i, j + 2] else 0";

#[test]
fn a_first_kernel_that_is_not_brought_what_the_second_one_reads() {
    for wide in [FULL, WIDE] {
        let mesh = Mesh::new([("x", 2), ("y", 2)]);
        let [narrow, alone] = around(&mesh, [PLUS, wide]);
        let program = both([PLUS, wide], |_| ()).expect("it is kept");
        assert_eq!(program.body().transfers.len(), 3, "both outputs, and one input\n{program}");
        let received: Vec<_> = program.nests().map(|nest| nest.report.traffic_bytes).collect();
        assert_eq!(received, [alone.report().traffic_bytes, 0], "{program}");
        // The region that the first one needs is not enough for the second.
        let restored = |body: &mut Body| {
            body.transfers[0] = narrow.body().transfers[0].clone();
            complete(body);
        };
        let error = both([PLUS, wide], restored).expect_err("corners or rims are missing");
        assert!(error.starts_with("statement 2: `around` has a leaf that rea"), "{error}");
    }
    let refused =
        |kernels: [&str; 2], change: &dyn Fn(&mut Body)| both(kernels, change).expect_err("it is not a program") + "\n";
    let among = |reach: Neighbours| {
        move |body: &mut Body| {
            body.transfers[0].route = Leg::Halo { reach: reach.clone() }.into();
            complete(body);
        }
    };
    // Neighbours along one axis do not have all of it, and neighbours that differ along one axis do not have its corners.
    let near = Reach::Within { low: -1, high: 1 };
    let refusals = [
        refused([PLUS, WIDE], &|body| body.transfers[0].tile.capacity = 36),
        refused([PLUS, FULL], &among(Neighbours::in_box([near, Reach::OWN]))),
        refused([PLUS, FULL], &among(Neighbours::in_star([near, near]))),
        refused([PLUS, WIDE], &among(Neighbours::in_star([near, Reach::OWN]))),
    ]
    .concat();
    expect![[r#"
        statement 1: `around` has a transfer, number 0, of 64 elements into a tile of 36
        statement 1: `around` has a transfer, number 0, whose legs do not lead to all of its part of `u`
        statement 2: `around` has a leaf that reads corners of its part of `u`, which are not fetched
        statement 1: `around` has a leaf that reads corners of its part of `u`, which are not fetched
    "#]]
    .assert_eq(&refusals);
}

/// Derives all that follows from the transfers of both kernels again.
fn complete(body: &mut Body) {
    for kernel in [0, 1].map(KernelId) {
        let proofs = body.kernels[kernel.0].report.proofs.clone();
        body.complete(kernel, proofs);
    }
}
