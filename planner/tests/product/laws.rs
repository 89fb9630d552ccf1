//! Every sequence of every plan gives the sequential product, and costs what its steps cost.

use super::replay::check;
use polyshard_layout::{DType, Mesh};
use polyshard_planner::product::{
    Collective, Free, Link, Operand, Product, ProductError, ProductPlan, ProductStep, Roofline, Sequence, Sharded,
    Wiring, reshard,
};
use polyshard_planner::{Ops, Plan, PlanOptions};
use proptest::prelude::*;

/// A mesh, a product over it as text, and its sizes.
#[derive(Clone, Debug)]
struct Problem {
    mesh: Mesh,
    text: String,
    sizes: Vec<(&'static str, usize)>,
}

/// Products of matrices, of batches of them and of transposed ones, over one to three axes.
fn problems() -> impl Strategy<Value = Problem> {
    let shapes = prop::sample::select(vec![
        [vec!["I", "J"], vec!["J", "K"], vec!["I", "K"]],
        [vec!["J", "I"], vec!["J", "K"], vec!["K", "I"]],
        [vec!["N", "I", "J"], vec!["N", "J"], vec!["I", "N"]],
        [vec!["I", "J", "L"], vec!["J", "L"], vec!["I"]],
        [vec!["I"], vec!["K"], vec!["I", "K"]],
    ]);
    let extents =
        prop::sample::select(vec![vec![2], vec![3], vec![4], vec![1, 2], vec![2, 2], vec![2, 3], vec![2, 2, 2]]);
    (shapes, extents, any::<u64>(), 1..3usize).prop_map(|(shapes, extents, seed, factor)| {
        let axes = ["X", "Y", "Z"];
        let mesh = Mesh::new(extents.iter().enumerate().map(|(nth, extent)| (axes[nth], *extent)));
        let ranks: usize = extents.iter().product();
        let mut seed = seed;
        let mut draw = |below: usize| {
            // Knuth's generator; its high bits are good enough to choose by.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let mut written = |tensor: &str, names: &[&str], open: bool| {
            let mut below = vec![String::new(); names.len()];
            let mut sums = String::new();
            for axis in &axes[..mesh.ndim()] {
                let place = draw(names.len() + 1 + usize::from(open));
                match place {
                    place if place < names.len() && draw(2) == 0 => below[place].insert_str(0, axis),
                    place if place < names.len() => below[place].push_str(axis),
                    place if place > names.len() => sums.push_str(axis),
                    _ => {}
                }
            }
            let dims: Vec<_> = names
                .iter()
                .zip(&below)
                .map(|(name, axes)| if axes.is_empty() { (*name).to_owned() } else { format!("{name}_{axes}") })
                .collect();
            let sums = if sums.is_empty() { sums } else { format!(" {{U_{sums}}}") };
            format!("{tensor}[{}]{sums}", dims.join(", "))
        };
        let contracts = shapes[0].iter().any(|name| !shapes[2].contains(name));
        let text = format!(
            "{} * {} -> {}",
            written("A", &shapes[0], false),
            written("B", &shapes[1], false),
            written("C", &shapes[2], contracts)
        );
        let mut names: Vec<&'static str> = shapes[..2].concat();
        names.sort_unstable();
        names.dedup();
        // The first size alone is larger, so that tiles are not all alike.
        let sizes = names.iter().enumerate().map(|(nth, name)| (*name, ranks * if nth == 0 { factor } else { 1 }));
        Problem { text, sizes: sizes.collect(), mesh }
    })
}

fn machine(mesh: &Mesh, memory_bytes: u128) -> Roofline {
    let wirings = [Wiring::Ring, Wiring::Line, Wiring::Switch];
    let links = mesh.as_slice().iter().enumerate().map(|(nth, axis)| {
        (axis.name, Link { wiring: wirings[nth % 3], bandwidth: 1e9 / (nth + 1) as f64, latency: 1e-9 })
    });
    Roofline { flops: 1e10, memory_bandwidth: 1e10, memory_bytes, links: links.collect() }
}

fn product(problem: &Problem) -> Product {
    Product::new(&problem.text, &problem.mesh, &problem.sizes, DType::F32).expect("a product")
}

fn plan(problem: &Problem) -> ProductPlan {
    product(problem).plan(&machine(&problem.mesh, 1 << 40)).expect("a plan")
}

/// Two sequences are two ways to split the work, or one is listed twice.
fn works(plan: &ProductPlan) -> Vec<&str> {
    plan.sequences().iter().map(Sequence::work).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn every_sequence_gives_the_sequential_product(problem in problems()) {
        let plan = plan(&problem);
        for sequence in plan.sequences() {
            check(plan.product(), sequence);
        }
        let mut distinct = works(&plan);
        distinct.sort_unstable();
        distinct.dedup();
        prop_assert_eq!(distinct.len(), plan.sequences().len());
    }

    #[test]
    fn every_sequence_of_a_free_search_gives_the_sequential_product(problem in problems()) {
        let whole = |array: &str| array.chars().filter(|c| !"_XYZ".contains(*c)).collect::<String>();
        let (factors, out) = problem.text.split_once("->").expect("an arrow");
        let free = Problem { text: format!("{}->{out}", whole(factors)), ..problem.clone() };
        let product = product(&free);
        let plan = product.search(&machine(&problem.mesh, 1 << 40), Free::Both).expect("a plan");
        for sequence in plan.sequences() {
            check(&product, sequence);
            let first = sequence.steps().first();
            prop_assert!(matches!(first, Some(ProductStep::Multiply { .. })), "{}", sequence);
        }
        // Factors as given are a choice that the search has, and may have better ones.
        let given = self::plan(&problem);
        let (free, given) = (plan.best().total(), given.best().total());
        prop_assert!(free.overlapped() <= given.overlapped() * (1.0 + 1e-12));
    }

    #[test]
    fn sequences_are_sorted_and_their_costs_add_up(problem in problems()) {
        let plan = plan(&problem);
        let seconds: Vec<f64> = plan.sequences().iter().map(|sequence| sequence.total().overlapped()).collect();
        prop_assert!(seconds.is_sorted());
        for sequence in plan.sequences() {
            let total = sequence.total();
            prop_assert!(total.overlapped() <= total.sequential());
            prop_assert_eq!(sequence.costs().len(), sequence.steps().len());
            prop_assert!(total.bytes == 0 || total.communication > 0.0);
            let arrays = sequence.left().bytes(DType::F32) + sequence.right().bytes(DType::F32);
            prop_assert!(sequence.costs().iter().all(|cost| cost.memory >= arrays));
            let multiplied = |step: &&ProductStep| matches!(step, ProductStep::Multiply { .. });
            prop_assert_eq!(sequence.steps().iter().filter(multiplied).count(), 1);
        }
    }

    /// No way to split the work, in whatever order of axes, beats the best when its parts are priced one by one.
    #[test]
    fn no_way_to_split_the_work_beats_the_best(
        problem in problems(),
        cuts in prop::collection::vec((0..9usize, any::<bool>()), 3),
    ) {
        let plan = plan(&problem);
        let product = plan.product();
        let (left, right, out) = (product.left().names(), product.right().names(), product.out().names());
        let mut loops: Vec<&String> = left.iter().chain(right).collect();
        loops.sort_unstable();
        loops.dedup();
        let mut below = vec![String::new(); loops.len() + 1];
        for (axis, (cut, first)) in problem.mesh.as_slice().iter().zip(cuts) {
            let nth = cut % below.len();
            let at = if first { 0 } else { below[nth].len() };
            below[nth].insert_str(at, axis.name.as_str());
        }
        let cut = |tensor: &str, names: &[String]| {
            let dims = names.iter().map(|name| {
                let axes = &below[loops.iter().position(|other| *other == name).expect("a loop")];
                if axes.is_empty() { name.clone() } else { format!("{name}_{axes}") }
            });
            format!("{tensor}[{}]", dims.collect::<Vec<_>>().join(", "))
        };
        let contracted = loops.iter().zip(&below).filter(|(name, _)| !out.contains(name));
        let sums: String = contracted.map(|(_, axes)| axes.as_str()).collect();
        let sums = if sums.is_empty() { sums } else { format!(" {{U_{sums}}}") };
        let texts = [cut("A", left), cut("B", right), cut("C", out) + &sums];
        let typed = |text: &String| Sharded::parse(text, &problem.mesh, &problem.sizes).expect("it divides");
        let machine = machine(&problem.mesh, 1 << 40);
        let seconds = |from: &Sharded, to: &Sharded| {
            let steps = reshard(from, to, DType::F32, &machine)?;
            Ok::<f64, ProductError>(steps.iter().map(|(_, cost)| cost.communication).sum())
        };
        // Sums that are to stay open may be complete here.
        let Ok(after) = seconds(&typed(&texts[2]), product.out()) else { return Ok(()) };
        let before = [seconds(product.left(), &typed(&texts[0])), seconds(product.right(), &typed(&texts[1]))];
        let communication = before.into_iter().map(|seconds| seconds.expect("a way")).sum::<f64>() + after;
        let alone = Problem { text: format!("{} * {} -> {}", texts[0], texts[1], texts[2]), ..problem.clone() };
        let alone = self::plan(&alone);
        let multiply = alone.sequences().iter().find(|sequence| sequence.steps().len() == 1).expect("nothing moves");
        let other = communication.max(multiply.total().arithmetic);
        prop_assert!(plan.best().total().overlapped() <= other * (1.0 + 1e-12), "{} {:?}", plan.explain(), texts);
    }

    /// With as little memory as the leanest sequence takes there is a plan, with less there is none.
    #[test]
    fn a_plan_is_found_in_as_little_memory_as_is_said(problem in problems()) {
        let product = product(&problem);
        let error = product.plan(&machine(&problem.mesh, 1)).expect_err("too little");
        let ProductError::Memory { least, .. } = error else { panic!("{error}") };
        let lean = product.plan(&machine(&problem.mesh, least)).expect("it fits");
        prop_assert_eq!(lean.best().total().memory, least);
        check(&product, lean.best());
        prop_assert!(product.plan(&machine(&problem.mesh, least - 1)).is_err());
    }

    /// What moves no sums is one step of a redistribution plan, which the runtime can run.
    #[test]
    fn moves_without_sums_are_steps_of_redistributions(problem in problems()) {
        for step in plan(&problem).sequences().iter().flat_map(Sequence::steps) {
            let ProductStep::Move { op: op @ (Collective::Slice | Collective::AllGather | Collective::AllToAll), operand, from, to, .. } = step else {
                continue;
            };
            let options = PlanOptions { ops: Ops::Fused, element_bytes: 4, ..PlanOptions::default() };
            let plan = Plan::between(&from.sharding().closed(), &to.sharding().closed(), &options).expect("a plan");
            prop_assert_eq!(plan.steps().len(), 1, "{}\n{}", step, plan.explain(4));
            prop_assert_eq!(*op == Collective::Slice, plan.received(0) == 0);
            prop_assert!(*operand == Operand::Out || from.unreduced().is_empty());
        }
    }
}

#[test]
fn a_product_that_needs_nothing_is_one_multiplication() {
    let mesh = Mesh::new([("X", 2), ("Y", 2)]);
    let sizes = vec![("I", 512), ("J", 512), ("K", 512)];
    let problem = Problem { mesh, text: "A[I_X, J] * B[J, K_Y] -> C[I_X, K_Y]".into(), sizes };
    let plan = plan(&problem);
    assert_eq!(plan.best().steps().len(), 1);
    assert_eq!(plan.best().total().bytes, 0);
    assert_eq!(works(&plan)[0], "I_X J K_Y");
}

#[test]
fn each_axis_cuts_one_of_three_loops_or_none() {
    let sizes = vec![("I", 64), ("J", 64), ("K", 64)];
    let problem = Problem { mesh: Mesh::new([("X", 4)]), text: "A[I_X, J] * B[J, K_X] -> C[I_X, K]".into(), sizes };
    let plan = plan(&problem);
    let mut works = works(&plan);
    works.sort_unstable();
    assert_eq!(works, ["I J K", "I J K_X", "I J_X K", "I_X J K"]);
    // Case 4, one way out of it: the literature's other way, and what is done about the result, are in the list.
    let steps: Vec<_> = plan.best().steps().iter().map(ProductStep::to_string).collect();
    assert_eq!(steps, ["AllGather_X B[J, K_X] -> B[J, K]", "A[I_X, J] * B[J, K] -> C[I_X, K]"]);
}

/// The picture in the module's documentation.
#[test]
fn the_loop_that_an_axis_cuts_settles_what_moves() {
    let sizes = vec![("I", 64), ("J", 64), ("K", 64)];
    let problem = Problem { mesh: Mesh::new([("X", 4)]), text: "A[I_X, J] * B[J_X, K] -> C[I_X, K]".into(), sizes };
    let plan = plan(&problem);
    let check = |work: &str, expected: &[(Operand, Collective)]| {
        let sequence = plan.sequences().iter().find(|sequence| sequence.work() == work).expect("this split");
        let mut moves = Vec::new();
        for step in sequence.steps() {
            if let ProductStep::Move { operand, op, .. } = step {
                moves.push((*operand, *op));
            }
        }
        moves.sort_by_key(|(operand, _)| *operand as usize);
        assert_eq!(moves, expected, "{work}");
    };
    check("I_X J K", &[(Operand::Right, Collective::AllGather)]);
    check("I J_X K", &[(Operand::Left, Collective::AllToAll), (Operand::Out, Collective::ReduceScatter)]);
    check(
        "I J K_X",
        &[
            (Operand::Left, Collective::AllGather),
            (Operand::Right, Collective::AllToAll),
            (Operand::Out, Collective::AllToAll),
        ],
    );
    check(
        "I J K",
        &[
            (Operand::Left, Collective::AllGather),
            (Operand::Right, Collective::AllGather),
            (Operand::Out, Collective::Slice),
        ],
    );
}

#[test]
fn plans_are_data_for_other_programs() {
    let sizes = vec![("I", 4), ("J", 4), ("K", 4)];
    let problem = Problem { mesh: Mesh::new([("X", 2)]), text: "A[I, J_X] * B[J_X, K] -> C[I, K]".into(), sizes };
    let report = serde_json::to_value(plan(&problem).report()).expect("numbers and texts");
    assert_eq!(report["case"], 3);
    let split = |sequence: &&serde_json::Value| sequence["work"] == "I J_X K";
    let sequence = report["sequences"].as_array().and_then(|all| all.iter().find(split)).expect("this split");
    assert_eq!(sequence["steps"][1]["op"], "AllReduce");
    assert_eq!(sequence["steps"][1]["axes"], serde_json::json!(["X"]));
    assert_eq!(sequence["steps"][1]["step"], "AllReduce_X C[I, K] {U_X} -> C[I, K]");
    assert_eq!(sequence["bytes"], 64);
    assert_eq!(sequence["fits"], true);
}

#[test]
fn products_without_elements_are_planned_too() {
    for sizes in [[0, 4, 8], [4, 0, 8], [0, 0, 0]] {
        let sizes = ["I", "J", "K"].into_iter().zip(sizes).collect();
        let mesh = Mesh::new([("X", 2), ("Y", 2)]);
        let problem = Problem { mesh, text: "A[I_X, J_Y] * B[J, K_X] -> C[I, K_YX]".into(), sizes };
        let plan = plan(&problem);
        plan.sequences().iter().for_each(|sequence| check(plan.product(), sequence));
        assert!(plan.explain().contains("*1"));
    }
}

#[test]
fn sums_may_stay_open() {
    let mesh = Mesh::new([("X", 2), ("Y", 2)]);
    let sizes = vec![("I", 64), ("J", 64), ("K", 64)];
    let problem = Problem { mesh, text: "A[I, J_X] * B[J_X, K_Y] -> C[I, K_Y] {U_X}".into(), sizes };
    let plan = plan(&problem);
    assert_eq!(plan.best().to_string().lines().count(), 1, "{}", plan.explain());
    assert!(works(&plan).iter().all(|work| work.contains("J_X") || work.contains("J_{X") || work.contains("J_YX")));
}
