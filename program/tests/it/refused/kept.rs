//! Reuse of tiles that no kernel keeps.

use super::{array, by_rows, mesh};
use expect_test::{Expect, expect};
use polyshard_dsl::{Var, parse_kernel};
use polyshard_layout::{Axis, Mesh, Neighbours, Placement, Reach, Sharding};
use polyshard_polyhedral::Schedule;
use polyshard_program::{Array, ArrayId, ArrayKind, Body, Brought, DType, Leg, Nest, NestId, Program, TileId, example};

/// Two products of which the second one fetches nothing of `B`, but reads the tile of `from`; of another array if it is `elsewhere`.
fn kept(from: (usize, usize), is_elsewhere: bool, is_turned: bool) -> (Vec<Array>, Body) {
    let ((mesh, x), [m, k]) = (mesh(), ["m", "k"].map(Var::new));
    let gathered = Schedule::from_spec(example::matmul(4, 4, 4)).distribute(["m"], ["mo"], ["mi"], &mesh);
    let gathered = gathered.shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]).lower();
    let nest = gathered.expect("a program").nest().clone();
    let mut second = nest.clone();
    second.transfers[1].brought = Brought::For { nest: NestId(from.0), tile: TileId(from.1) };
    let proofs = second.report.proofs.clone();
    let second = second.completed(proofs);
    let kinds = [
        ("A", ArrayKind::Input),
        ("B", ArrayKind::Input),
        ("C", ArrayKind::Output),
        ("D", ArrayKind::Output),
        ("E", ArrayKind::Input),
    ];
    let arrays = kinds.map(|(name, kind)| array(name, by_rows(), kind)).to_vec();
    let of = |nest: Nest, ids: [usize; 3]| Nest { arrays: ids.map(ArrayId).to_vec(), ..nest };
    let second = of(second, [0, if is_elsewhere { 4 } else { 1 }, 3]);
    let mut body = Body::default();
    if is_turned {
        body.run(second);
        body.run(of(nest, [0, 1, 2]));
    } else {
        body.run(of(nest, [0, 1, 2]));
        body.run(second);
    }
    (arrays, body)
}

#[test]
fn a_tile_that_nobody_keeps() {
    let (arrays, body) = kept((0, 1), false, false);
    let program = Program::new(&mesh().0, DType::F32, arrays, body).expect("it is kept");
    // The second kernel receives nothing, and has no tile.
    let alone = program.nests().map(|nest| nest.report.traffic_bytes).collect::<Vec<_>>();
    assert_eq!(alone, [2 * 4 * 4, 0]);
    assert_eq!(program.report().tile_bytes, 4 * 4 * 4);
    let cases = [
        ((0, 1), true, false),
        ((0, 0), false, false),
        ((0, 2), false, false),
        ((0, 7), false, false),
        ((1, 1), false, false),
        ((7, 1), false, false),
        ((1, 1), false, true),
    ];
    for (from, is_elsewhere, is_turned) in cases {
        let (arrays, body) = kept(from, is_elsewhere, is_turned);
        let error = Program::new(&mesh().0, DType::F32, arrays, body).expect_err("nobody keeps it");
        let (nest, tile, statement) = (from.0, from.1, if is_turned { 1 } else { 2 });
        let expected = format!(
            "statement {statement}: `matmul` reads `B` from tile {tile} of nest {nest}, but no run of that nest in the \
             same round leaves it there"
        );
        assert_eq!(error.to_string(), expected);
    }
}

/// Two stencils on a square in blocks, of which the second one needs more of it.
fn around(mesh: &Mesh, kernels: [&str; 2]) -> [Nest; 2] {
    let [x, y]: [Axis; 2] = mesh.axes();
    let [i, j] = ["i", "j"].map(Var::new);
    kernels.map(|value| {
        let text = format!("fn around(u: [f32; 8, 8]) -> v: [f32; 8, 8] {{ v[i, j] = {value} }}");
        let kernel = Schedule::from_spec(parse_kernel(&text).expect("a kernel"));
        let tiles = kernel.distribute(["i", "j"], ["io", "jo"], ["ii", "ji"], mesh);
        let tiles = tiles.shard("u", [i.at(x), j.at(y)]).shard("v", [i.at(x), j.at(y)]);
        tiles.lower().expect("a program").nest().clone()
    })
}

/// The program that runs both, the second on the tile of the first, after a change of their nests.
fn both(kernels: [&str; 2], change: impl Fn(&mut [Nest])) -> Result<Program, String> {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let blocks = [Placement::block(0, "x"), Placement::block(1, "y")];
    let blocks = Sharding::new(&mesh, &[8, 8], &blocks).expect("a sharding");
    let mut body = Body::default();
    for (nest, output) in around(&mesh, kernels).into_iter().zip([1, 2]) {
        body.run(Nest { arrays: [0, output].map(ArrayId).to_vec(), ..nest });
    }
    let mut body = body.with_kept_tiles();
    change(&mut body.nests);
    let kinds = [("u", ArrayKind::Input), ("v", ArrayKind::Output), ("w", ArrayKind::Output)];
    let arrays = kinds.map(|(name, kind)| array(name, blocks.clone(), kind)).to_vec();
    let made = Program::new(&mesh, DType::F32, arrays, body).map_err(|error| error.to_string())?;
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
        let received: Vec<_> = program.nests().map(|nest| nest.report.traffic_bytes).collect();
        assert_eq!(received, [alone.report.traffic_bytes, 0], "{program}");
        // The region that the first one needs is not enough for the second.
        let restored = |nest: &mut Nest| {
            let proofs = nest.report.proofs.clone();
            nest.transfers[0] = narrow.transfers[0].clone();
            *nest = nest.clone().completed(proofs);
        };
        let error = both([PLUS, wide], |nests| restored(&mut nests[0])).expect_err("corners or rims are missing");
        assert_eq!(
            error,
            "statement 2: `around` reads `u` from tile 0 of nest 0, but no run of that nest in the same round leaves it there"
        );
    }
    let refused = |kernels: [&str; 2], change: &dyn Fn(&mut [Nest]), expect: Expect| {
        expect.assert_eq(&both(kernels, change).expect_err("it is no program"));
    };
    refused(
        [PLUS, WIDE],
        &|nests| nests[0].transfers[0].tile.capacity = 36,
        expect!["statement 1: `around` has a transfer, number 0, of 64 elements into a tile of 36"],
    );
    let among = |reach: Neighbours| {
        move |nests: &mut [Nest]| {
            let proofs = nests[0].report.proofs.clone();
            nests[0].transfers[0].route = Leg::Halo { reach: reach.clone() }.into();
            nests[0] = nests[0].clone().completed(proofs);
        }
    };
    // Neighbours along one axis do not have all of it, and neighbours that differ along one axis do not have its corners.
    let near = Reach::Within { low: -1, high: 1 };
    refused(
        [PLUS, FULL],
        &among(Neighbours::in_box([near, Reach::OWN])),
        expect!["statement 1: `around` has a transfer, number 0, whose legs do not lead to all of its part of `u`"],
    );
    refused(
        [PLUS, FULL],
        &among(Neighbours::in_star([near, near])),
        expect![
            "statement 2: `around` reads `u` from tile 0 of nest 0, but no run of that nest in the same round leaves it there"
        ],
    );
    refused(
        [PLUS, WIDE],
        &among(Neighbours::in_star([near, Reach::OWN])),
        expect![
            "statement 2: `around` reads `u` from tile 0 of nest 0, but no run of that nest in the same round leaves it there"
        ],
    );
}
