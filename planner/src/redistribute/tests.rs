//! The worked examples of Rink et al., with the figures that they must reach.

use super::*;
use polyshard_layout::{Collective, Mesh};

fn plan(axes: &[(&'static str, usize)], source: &str, target: &str) -> Plan {
    let mesh = Mesh::new(axes.iter().copied());
    let [source, target] = [source, target].map(|text| DistType::parse(text, &mesh).expect("a type"));
    Plan::new(&source, &target, &PlanOptions { ops: Ops::Paper, ..PlanOptions::default() }).expect("a plan")
}

fn ops(plan: &Plan) -> Vec<Collective> {
    plan.steps().iter().map(PlanStep::op).collect()
}

/// Compares the steps, and the weak and the total cost, the peak, the cost of gathering and slicing, and what all lack.
#[track_caller]
fn check(
    axes: &[(&'static str, usize)],
    source: &str,
    target: &str,
    expected: &[Collective],
    figures: (Cost, Cost, usize, Cost, Cost),
) {
    let plan = plan(axes, source, target);
    let text = plan.explain(8);
    assert_eq!(ops(&plan), expected, "{text}");
    assert_eq!(plan.permutes(), expected.contains(&Collective::Permute));
    let found = (plan.weak_cost(), plan.total_cost(), plan.peak(), plan.naive_cost(), plan.exchange_total());
    assert_eq!(found, figures, "{text}");
}

#[test]
fn worked_examples_take_these_steps_and_reach_these_figures() {
    use Collective::{AllGather, AllToAll, Permute, Slice};
    // Examples 4.9 and 7.1.
    check(&[("a", 8)], "[1{a}8, 8]", "[8, 1{a}8]", &[AllToAll], (8, 8, 8, 64, 56));
    // Example 3.1 never gathers what is divided.
    let ops = [AllToAll, Permute, AllToAll];
    check(&[("x", 4), ("y", 6)], "[3{x}12, 2{y}12]", "[2{y}12, 3{x}12]", &ops, (12, 18, 6, 168, 124));
    // Listing 3.
    let figures = (2048, 2048, 2048, 65536, 63488);
    check(&[("devs", 32)], "[32, 64{devs}2048]", "[1{devs}32, 2048]", &[AllToAll], figures);
    // Figure 5, the second row: the better of two ways.
    let (source, target) = ("[32{x}128, 512, 32{y}128]", "[128, 128{y}512, 128]");
    let figures = (2621440, 2621440, 2097152, 10485760, 31457280);
    check(&[("x", 4), ("y", 4)], source, target, &[AllToAll, AllGather], figures);
    // Figure 13 needs no permutation for its first problem.
    let (source, target) = ("[360, 184{c:2}368, 320]", "[90{c:2,a:2}360, 368, 160{b:2}320]");
    let figures = (5299200, 5299200, 21196800, 42393600, 21196800);
    check(&[("a", 2), ("b", 2), ("c", 2)], source, target, &[Slice, Slice, AllToAll], figures);
}

#[test]
fn figure_3_is_one_permutation_each() {
    let axes = [("xdev", 4), ("ydev", 4)];
    for (source, target) in [
        ("[64{ydev, xdev}1024, 128]", "[64{xdev, ydev}1024, 128]"),
        ("[32{xdev}128, 16{ydev}64]", "[32{ydev}128, 16{xdev}64]"),
        ("[32{xdev}128]", "[32{ydev}128]"),
    ] {
        let plan = plan(&axes, source, target);
        assert_eq!(ops(&plan), [Collective::Permute]);
        assert_eq!((plan.weak_cost(), plan.total_cost()), (0, plan.source().tile_len() as Cost));
    }
}

#[test]
fn figure_5_takes_the_better_of_two_ways() {
    let axes = [("x", 4), ("y", 4)];
    let plan_1 = plan(&axes, "[32{x,y}512, 128]", "[128{x}512, 32{y}128]");
    assert!(plan_1.permutes() && ops(&plan_1).contains(&Collective::AllToAll) && plan_1.steps().len() == 2);
    check(&axes, "[32{x,y}512, 128]", "[128{x}512, 32{y}128]", &ops(&plan_1), (4096, 8192, 4096, 65536, 61440));

    // The other way round would need a permutation.
    let plan_2 = plan(&axes, "[32{x}128, 512, 32{y}128]", "[128, 32{y,x}512, 128]");
    assert_eq!(ops(&plan_2), [Collective::AllToAll, Collective::AllToAll]);
    assert_eq!([plan_2.weak_cost(), plan_2.total_cost()], [1048576; 2]);
}

#[test]
fn figure_12_over_partitions_along_an_axis_that_replicates() {
    // The figure's own plan costs 384.
    let plan = plan(&[("x", 4), ("y", 2), ("z", 4)], "[1{y,x}8, 8, 8, 4]", "[8, 4{y}8, 2{x}8, 4]");
    assert_eq!(plan.weak_cost(), 320, "{}", plan.explain(8));
    assert!(plan.total_cost() <= 384, "{}", plan.explain(8));
    assert_eq!(ops(&plan)[0], Collective::Slice);
}

#[test]
fn figure_13_stays_inside_the_memory_bound() {
    let axes = [("a", 2), ("b", 2), ("c", 2)];
    for (source, target, steps, cost) in [
        ("[80, 40{c:2}80, 72, 64]", "[40{b:2}80, 80, 36{c:2}72, 64]", "AllToAll Slice", Some(7372800)),
        ("[296, 360, 156{c:2}312]", "[74{b:2,c:2}296, 180{a:2}360, 312]", "AllToAll Slice Slice", Some(4155840)),
        ("[8{c:2}16, 16, 16, 8{a:2}16, 16, 8{b:2}16]", "[16, 16, 16, 16, 16, 8{a:2}16]", "", None),
    ] {
        let plan = plan(&axes, source, target);
        if let Some(cost) = cost {
            let mut found: Vec<_> = ops(&plan).iter().map(ToString::to_string).collect();
            found.sort_unstable();
            assert_eq!((found.join(" "), plan.weak_cost(), plan.total_cost()), (steps.into(), cost, cost));
        }
        assert_eq!(plan.peak(), plan.source().tile_len().max(plan.target().tile_len()));
        assert!(plan.total_cost() < plan.naive_cost(), "{}", plan.explain(8));
    }
}

#[test]
fn problems_with_nothing_to_do_have_no_steps() {
    assert_eq!(ops(&plan(&[("x", 4)], "[3{x}12]", "[3{x}12]")), []);
    assert_eq!(ops(&plan(&[("x", 1)], "[12{x}12]", "[12]")), []);
    assert_eq!(ops(&plan(&[("x", 4)], "[]", "[]")), []);
    assert_eq!(plan(&[("x", 4)], "[0{x}0, 3]", "[0, 3]").total_cost(), 0);
    assert_eq!(ops(&plan(&[("x", 4)], "[12]", "[3{x}12]")), [Collective::Slice]);
}

#[test]
fn an_all_to_all_may_trade_an_axis_for_one_that_replicates() {
    // The ranks along the diagonal of `x` and `r` hold both halves together.
    let plan = plan(&[("x", 2), ("r", 2)], "[4{x}8, 8]", "[8, 4{r}8]");
    assert_eq!(ops(&plan), [Collective::AllToAll]);
    assert_eq!(plan.steps()[0].groups(), [[0, 3], [1, 2]]);
}

#[test]
fn plans_explain_themselves() {
    let plan = plan(&[("x", 4), ("y", 6)], "[3{x}12, 2{y}12]", "[2{y}12, 3{x}12]");
    expect_test::expect![[r#"
        redistribution over (x: 4, y: 6), 8 bytes per element
          [3{x}12, 2{y}12]
        1 AllToAll of y%3, in groups {0 1 2} {3 4 5} {6 7 8} {9 10 11} .. 8 in all: costs 48 bytes per device, receives at most 32, tiles of at most 48 bytes
          [1{y%3,x}12, 6{y/3}12]
        2 Permute, in cycles {1 6 7 2} {3 12} {4 18 10 14} {5 13 9 19} .. 6 in all: costs 48 bytes per device, receives at most 48, tiles of at most 48 bytes
          [1{x%2,y}12, 6{x/2}12]
        3 AllToAll of x%2, in groups {0 6} {1 7} {2 8} {3 9} .. 12 in all: costs 48 bytes per device, receives at most 24, tiles of at most 48 bytes
          [2{y}12, 3{x}12]
        cost 144 bytes per device: the tiles of all steps
        without fixed target ranks, the cost would be 96
        received 56 to 104 bytes per device, 2304 in all; no plan receives less than 992 in all
        peak 48 bytes per device; the source tile has 48 and the target tile 48
        all-gather and slice would cost 1344 bytes per device, with a peak of 1152
    "#]].assert_eq(&plan.explain(8));
}

/// A gathering step runs, and is priced, as an all-gather only where the pieces are consecutive.
#[test]
fn all_gathers_are_those_whose_pieces_follow_one_another() {
    let mesh = Mesh::new([("a", 2), ("b", 3), ("c", 4)]);
    for (source, target, gathered) in [
        ("[2{a}4, 6]", "[4, 6]", true),
        ("[2{a}4, 6]", "[4, 2{b}6]", false),
        ("[4, 3{a}6]", "[4, 6]", false),
        ("[1, 3{a}6]", "[1, 6]", true),
        // The last axis is first among the ranks of a group only if it numbers the larger pieces.
        ("[1{b,a}6]", "[6]", true),
        ("[1{a,b}6]", "[6]", false),
        ("[1{b,a}6]", "[3{a}6]", true),
        ("[1{b,a}6, 2]", "[3{a}6, 2]", true),
        // Digits of an axis, on meshes that are refined differently.
        ("[3{c}12]", "[12]", true),
        ("[3{c}12]", "[6{c/2}12]", true),
        ("[3{c/2,c%2}12]", "[6{c%2}12]", true),
        ("[3{c/2,c%2}12]", "[12]", false),
    ] {
        let [from, to] = [source, target].map(|text| DistType::parse(text, &mesh).expect("a type"));
        let cut = [&from, &to].map(|side| side.cut(&side.shape()));
        let groups = cut[0].gathered_groups(&cut[1]);
        assert_eq!(groups.is_some(), gathered, "{source} to {target}: {groups:?}");
    }
}
