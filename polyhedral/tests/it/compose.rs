//! Routes of two steps: broadcasts before and after permutations.

use crate::lowered;
use expect_test::expect;
use polyshard_dsl::{dim, pin};
use polyshard_layout::Mesh;
use polyshard_polyhedral::Schedule;
use polyshard_program::{Access, KernelSpec, Pattern};
use polyshard_testing::example;

/// `P[k, m, n] = A[m, k] * B[k, n]`: the terms of a matrix product, so that `k` may be distributed.
fn terms(m: usize, n: usize, k: usize) -> KernelSpec {
    let mut spec = example::matmul(m, n, k);
    spec.output = ("P".into(), [k, m, n].map(|extent| extent as i128).to_vec());
    spec.target = Access::plain("P", &["k", "m", "n"]);
    spec
}

/// The steps of 2.5-D on layers of `q` by `q`: each layer takes its share of the `q` steps of Cannon's algorithm.
fn layers([m, n, k]: [usize; 3], [q, c]: [usize; 2]) -> Schedule {
    let (layer, deep) = (Mesh::new([("x", q), ("y", q)]), Mesh::new([("z", c)]));
    let ([x, y], [z]) = (layer.axes(), deep.axes());
    Schedule::from_spec(terms(m, n, k))
        .distribute(["m", "n"], ["mo", "no"], ["mi", "ni"], &layer)
        .divide("k", "kb", "ki", q)
        .rotate("kb", ["mo", "no"])
        .distribute(["kb"], ["kz"], ["kt"], &deep)
        .reorder(["kt", "mi", "ni", "ki"])
        .shard("A", [dim(0).at(x), dim(1).at(y), pin(z, 0)])
        .shard("B", [dim(0).at(x), dim(1).at(y), pin(z, 0)])
        .shard("P", [dim(1).at(x), dim(2).at(y)])
        .communicate("A", "kt")
        .communicate("B", "kt")
}

#[test]
fn each_layer_permutes_what_was_broadcast_to_it() {
    let program = lowered(&layers([64, 64, 64], [4, 2]));
    expect![[r#"
        // matmul: P[k, m, n] += A[m, k] * B[k, n], f32
        // mesh(x: 4, y: 4, z: 2), 32 ranks
        // A[64, 64]: m @ x, k @ y, pin(z, 0)
        // B[64, 64]: k @ x, n @ y, pin(z, 0)
        // P[64, 64, 64]: m @ x, n @ y
        on each rank (x, y, z):
            P_tile[64, 16, 16] = [0..64, 16*x .. +16, 16*y .. +16] of P, empty
            for kt in 0..2:    // distribute([kb], [kz], [kt], mesh(z: 2))
                A_tile[16, 16] = A[16*x .. +16, 16*((x + y + 2*z + kt) % 4) .. +16]: shift along y by 1: from y = y + 1; at kt = 0: broadcast along z from z = 0 of [16*x .. +16, 16*y .. +16]; then permute: from rank (x, (x + y + 2*z) % 4, z), to rank (x, (y - x - 2*z) % 4, z)
                B_tile[16, 16] = B[16*((x + y + 2*z + kt) % 4) .. +16, 16*y .. +16]: shift along x by 1: from x = x + 1; at kt = 0: broadcast along z from z = 0 of [16*x .. +16, 16*y .. +16]; then permute: from rank ((x + y + 2*z) % 4, y, z), to rank ((x - y - 2*z) % 4, y, z)
                P[k, m, n] += A[m, k] * B[k, n]    // nest
                    over k: 16 from 16*((x + y + 2*z + kt) % 4); m: 16 from 16*x; n: 16 from 16*y
            P <- P_tile: all-reduce along z
    "#]].assert_eq(&program.to_string());
    let text = program.explain();
    let of_a: String =
        text.lines().take_while(|line| !line.starts_with("B:")).map(|line| format!("{line}\n")).collect();
    expect![[r#"
        A: shift(y, 1), in each iteration of kt
            shift along y by 1: from y = y + 1; at kt = 0: broadcast along z from z = 0 of [16*x .. +16, 16*y .. +16]; then permute: from rank (x, (x + y + 2*z) % 4, z), to rank (x, (y - x - 2*z) % 4, z)
            tile [16, 16] of A[16*x .. +16, 16*((x + y + 2*z + kt) % 4) .. +16]
            at most 2048 bytes received per rank and step
            two alternating buffers: one is forwarded while the other receives
            read in place where ranks share memory, if they are threads or have a core each, else sent in messages
            - the needed region has one owner, (x, (x + y + 2*z + kt) % 4, 0)
            - axis x: the owner's coordinate is the reader's, aligned
            - axis y: neither aligned nor broadcast
            - axis z: neither aligned nor broadcast
            - axis y: the next region is the one that the neighbour at y + 1 holds now, shift
            - the first iteration on its own:
            -   the needed region has one owner, (x, (x + y + 2*z) % 4, 0)
            -   axis x: the owner's coordinate is the reader's, aligned
            -   axis y: neither aligned nor broadcast
            -   axis z: neither aligned nor broadcast
            -   one owner serves several ranks at a time
            -   each owner's elements are sent to all z, where each owner serves one rank: broadcast, permute
    "#]].assert_eq(&of_a);
}

#[test]
fn one_step_of_layers_is_the_route_of_two() {
    // As many layers as steps, so that each layer has one step.
    let schedule = layers([64, 64, 64], [4, 4]);
    let broadcast = || Pattern::broadcast(["z"]).then(Pattern::Permute);
    lowered(&schedule.clone().expect("A", broadcast()).expect("B", broadcast()));
    let error = schedule.expect("A", Pattern::Permute.then(Pattern::broadcast(["z"]))).lower().expect_err("the order");
    expect!["the transfer of `A` is broadcast(z), permute, not permute, broadcast(z); `explain()` prints the tests that led to it"].assert_eq(&error.kind().to_string());
}

#[test]
fn ragged_sizes_have_the_routes_of_even_ones() {
    let two = || Pattern::broadcast(["z"]).then(Pattern::Permute);
    for size in [[5, 7, 6], [64, 64, 62], [1, 1, 1], [3, 2, 9]] {
        for (mesh, expected) in [([2, 2], two()), ([3, 3], two()), ([4, 2], Pattern::shift("y", 1))] {
            assert_eq!(lowered(&layers(size, mesh)).pattern("A"), Some(expected), "{size:?} on {mesh:?}");
        }
        // The last of two layers has one step of three, and is ahead of the others.
        assert_eq!(lowered(&layers(size, [3, 2])).pattern("A"), Some(Pattern::Exchange), "{size:?}");
    }
}

/// The traffic stated is the sum of both steps.
#[test]
fn a_rank_may_receive_a_tile_in_each_step() {
    let program = lowered(&layers([64, 64, 64], [4, 4]));
    let tile = 16 * 16 * 4;
    assert!(program.explain().contains(&format!("at most {} bytes received per rank and step", 2 * tile)));
    assert!(program.report().traffic_bytes >= 4 * tile);
}

/// All layers need the elements of one layer in another order.
#[test]
fn what_all_layers_need_is_permuted_in_one_and_broadcast() {
    let mesh = Mesh::new([("x", 3), ("y", 3), ("z", 2)]);
    let [x, y, z] = mesh.axes();
    let schedule = Schedule::from_spec(terms(30, 30, 30))
        .distribute(["m", "n", "k"], ["mo", "no", "ko"], ["mi", "ni", "ki"], &mesh)
        .shard("A", [dim(0).at(x), dim(1).at(z), pin(y, 1)])
        .shard("B", [dim(0).at(z), dim(1).at(y), pin(x, 0)])
        .shard("P", [dim(1).at(x), dim(2).at(y), dim(0).at(z)]);
    lowered(&schedule.expect("A", Pattern::broadcast(["y"])).expect("B", Pattern::broadcast(["x"])));
    // The transpose of a matrix on one layer, for all layers.
    let mut spec = terms(30, 30, 8);
    spec.inputs[0].1 = vec![30, 30];
    spec.value = polyshard_program::Value::Mul(
        Box::new(polyshard_program::Value::Access(Access::plain("A", &["n", "m"]))),
        Box::new(polyshard_program::Value::Access(Access::plain("B", &["k", "n"]))),
    );
    let schedule = Schedule::from_spec(spec)
        .distribute(["m", "n", "k"], ["mo", "no", "ko"], ["mi", "ni", "ki"], &mesh)
        .shard("A", [dim(0).at(x), dim(1).at(y), pin(z, 1)])
        .shard("B", [dim(0).at(z), dim(1).at(y)])
        .shard("P", [dim(1).at(x), dim(2).at(y), dim(0).at(z)]);
    let program = lowered(&schedule);
    assert_eq!(program.pattern("A"), Some(Pattern::Permute.then(Pattern::broadcast([z]))), "{}", program.explain());
}
