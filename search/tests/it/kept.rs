//! Shardings before `.auto` are kept, on the given mesh or on the best of all; other steps are refused.

use crate::machines::machine;
use polyshard::prelude::*;
use polyshard::runtime::Transport;
use polyshard::schedule::Block;
use polyshard::search::{Choice, SearchError, SequenceSearch};
use polyshard_testing::filled::verified;

/// Statements with and without indices, in rounds.
fn power(n: usize) -> Schedule<Block> {
    kernel! {
        fn power(M: [f64; n, n], v: [f64; n]) -> (s: f64, v) {
            repeat(3) {
                let y[i] = M[i, j] * v[j];
                s = y[i] * y[i];
                s = sqrt(s);
                v[i] = y[i] / s;
            }
        }
    }
}

fn product(n: usize) -> Schedule {
    kernel! { fn product(A: [f64; n, n], B: [f64; n, n]) -> C: [f64; n, n] { C[m, n] += A[m, k] * B[k, n] } }
}

/// Runs the program of a choice and compares its last output with the statements executed one after the other.
fn check(choice: &Choice) {
    let program = choice.program();
    polyshard::spmd(program.mesh().size(), |world| {
        let fill = |at: &[usize]| 1.0 + ((7 * at[0] + 3 * at.get(1).unwrap_or(&0)) % 5) as f64;
        let inputs = program.inputs().map(|input| DistArray::from_fn(world, &input.sharding, fill));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let inputs: Vec<_> = inputs.iter().collect();
        let outputs = program.prepare(world)?.run_all(&inputs)?;
        program.verify(world, &inputs, &outputs.iter().map(|(_, output)| output).collect::<Vec<_>>(), 1e-12)?;
        Ok(())
    })
    .unwrap_or_else(|error| panic!("{error}\n{program}"));
}

#[test]
fn a_block_keeps_its_shardings_in_all_versions_on_the_given_mesh_and_on_others() {
    let (machine, i) = (machine(4, 10.0), Var::new("i"));
    let kept = power(512).shard("v", [i.at("x")]).shard("M", [dim(1).at("x")]);
    for mesh in [None, Some(Mesh::new([("x", 4)])), Some(Mesh::new([("x", 2), ("y", 2)]))] {
        let search = kept.auto(4, &machine);
        let choice = mesh.iter().fold(search, SequenceSearch::on).find().expect("a schedule");
        let program = choice.program();
        assert!(mesh.is_none_or(|mesh| *program.mesh() == mesh));
        assert_eq!(program.sharding("M").to_string(), "[1 @ x]");
        let of_v = program.arrays().iter().filter(|array| array.name.as_str().starts_with('v'));
        let of_v: Vec<_> = of_v.map(|array| array.sharding.to_string()).collect();
        assert!(of_v.len() > 1 && of_v.iter().all(|sharding| sharding == "[0 @ x]"), "{program}");
        let names =
            |arrays: Vec<&polyshard::program::Array>| arrays.iter().map(|array| array.name.to_string()).collect();
        let [inputs, outputs]: [Vec<String>; 2] =
            [names(program.inputs().collect()), names(program.outputs().collect())];
        assert_eq!((&inputs[..], &outputs[..]), (&["M".into(), "v".into()][..], &["s".into(), "v".into()][..]));
        check(&choice);
    }
}

#[test]
fn statements_without_indices_leave_no_rank_idle() {
    let machine = machine(4, 10.0);
    let choice = power(512).auto(4, &machine).find().expect("a schedule");
    assert_eq!(choice.program().mesh().size(), 4, "{}", choice.program());
    check(&choice);
    // A block after a kernel with a schedule runs on the mesh of that.
    let (mesh, scalar) = (Mesh::new([("x", 4)]), kernel! { fn half(s: f64) -> t: f64 { t = s[] / 2.0 } });
    let sum = kernel! { fn sum(A: [f64; 64]) -> s: f64 { s[] += A[i] } };
    let sum = sum.distribute(["i"], ["io"], ["ii"], &mesh);
    let search = SequenceSearch::new(4, &machine).stage(&sum, ["A"], "s").stage(&scalar, ["s"], "t");
    assert_eq!(search.find().expect("a mesh").program().mesh(), &mesh);
}

#[test]
fn a_kernel_keeps_its_shardings_on_the_best_mesh() {
    let (machine, [m, k]) = (machine(6, 10.0), ["m", "k"].map(Var::new));
    let product = product(48);
    let shardings = [vec![k.at("x")], vec![m.at("x")], vec![], vec![m.at("x"), k.at("y")]];
    for home in shardings {
        let kept = product.clone().shard("A", home.clone());
        let choice = kept.auto(6, &machine).find().expect("a schedule");
        let given = choice.program().mesh().clone();
        // As good as on any mesh that is given.
        let axes = if home.len() == 1 { 1 } else { 2 };
        for extents in [[6, 1], [3, 2], [2, 3], [1, 6], [5, 1], [4, 1], [2, 2], [1, 1]] {
            let mesh = Mesh::new(["x", "y"].into_iter().zip(extents).take(axes));
            let there = product.auto(6, &machine).on(&mesh).shard("A", home.clone()).find().expect("a schedule");
            let [best, there] = [&choice, &there].map(|choice| choice.cost().seconds());
            assert!(best <= 1.0001 * there, "{home:?}: {best} on {given}, {there} on {mesh}");
        }
        let element = |_, at: &[usize]| at.iter().sum::<usize>() as f64;
        verified(choice.program(), Transport::Auto, 1e-12, element).expect("it is right");
    }
}

#[test]
fn kernels_in_sequence_keep_a_sharding_on_the_best_mesh() {
    let machine = Machine::preset("a100").expect("a machine").with_counts(&[4, 1]).expect("counts");
    let product = kernel! {
        fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
    };
    let search = SequenceSearch::new(4, &machine).stage(&product, ["X", "V"], "Y").stage(&product, ["Y", "W"], "Z");
    let kept = search.shard("Y", [dim(1).at("x")]);
    let best = kept.find().expect("a schedule");
    for extent in 1..=4 {
        let there = kept.clone().on(&Mesh::new([("x", extent)])).find().expect("a schedule");
        // Only the program that is best without it is pipelined.
        if there.schedules().iter().any(|schedule| schedule.steps().any(|step| step.method() == "pipeline")) {
            assert!(extent > 1, "nothing is in flight on one rank");
            continue;
        }
        let [best, there] = [&best, &there].map(|choice| choice.cost().seconds());
        assert!(best <= 1.0001 * there, "{best} s is not the best: {there} s on {extent} ranks");
    }
}

#[test]
fn what_a_search_does_not_keep_is_refused_at_its_step() {
    let machine = machine(4, 10.0);
    let (i, m) = (Var::new("i"), Var::new("m"));
    fn refused(found: Result<Choice, SearchError>, expected: &str) {
        let text = found.expect_err("it is refused").to_string();
        // Without the line.
        assert_eq!(text.split("\n  --> ").next(), Some(expected));
    }
    let split = power(8).shard("v", [i.at("x")]).split("j", "jo", "ji", 2);
    let line = split.auto(4, &machine).find().expect_err("it is refused").to_string();
    assert!(line.contains("kept.rs:"), "{line}");
    let only = "a search does not keep this step; leave it out, or write the whole schedule: `shard` alone is kept";
    refused(split.auto(4, &machine).find(), &format!("schedule step 2, `split(j, jo, ji, 2)`: block `power`: {only}"));
    let split = product(8).split("m", "mo", "mi", 2);
    refused(split.auto(4, &machine).find(), &format!("schedule step 1, `split(m, mo, mi, 2)`: {only}"));
    let arrays = "block `power`: the block has no array `w`; the arrays are `M`, `v`, `s` and `y`";
    let of_w = power(8).shard("w", [i.at("x")]);
    refused(of_w.auto(4, &machine).find(), &format!("schedule step 1, `shard(w, i @ x)`: {arrays}"));
    let of_d = product(8).shard("D", [m.at("x")]);
    refused(of_d.auto(4, &machine).find(), "no tensor `D` to shard; the tensors are A, B, C");
    let on = |mesh: Mesh| power(8).shard("v", [i.at("x")]).auto(4, &machine).on(&mesh).find();
    let no_axis = "no schedule fits the given shardings: no axis `x`; the axes are y";
    refused(on(Mesh::new([("y", 4)])), no_axis);
    let large = "the mesh (x: 8) needs 8 ranks, but there are 4; give a smaller mesh, or more ranks";
    refused(on(Mesh::new([("x", 8)])), large);
    let of_many = product(8).shard("A", [m.at("x").at("y"), dim(1).at("z").at("u")]).auto(4, &machine);
    let home = "(m @ x @ y, dim(1) @ z @ u) of `A`";
    let many = format!("the shardings, such as {home}, have too many axes to try all meshes; give a mesh too");
    refused(of_many.find(), &many);
}
