//! Reduction programs: the tables of the paper, the rules, and that every program sums and no other does.

use expect_test::expect;
use polyshard_planner::placement::{ParallelismMatrix, matrices};
use polyshard_planner::reduce::{
    AllowedMasters, Form, Hierarchy, Instruction, ReduceError, ReductionProgram, synthesize,
};
use polyshard_program::reduction::{Collective, Context, Lowered, LoweredStep, ReductionError};
use polyshard_testing::planner::sums;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;

fn cases() -> Value {
    serde_json::from_str(include_str!("../data/placement.json")).expect("it is JSON")
}

fn numbers<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("numbers")
}

fn hierarchy(counts: &[usize]) -> Hierarchy {
    Hierarchy::new(counts.iter().enumerate().map(|(level, count)| (format!("l{level}"), *count))).expect("a hierarchy")
}

#[test]
fn the_groups_are_those_of_table_2() {
    let system = Hierarchy::new([("rack", 1), ("server", 2), ("CPU", 2), ("GPU", 4)]).expect("a hierarchy");
    let mut text = String::new();
    let (rack, server, cpu) = (0, 1, 2);
    for (slice, form) in [
        (cpu, Form::InsideGroup),
        (cpu, Form::Parallel(server)),
        (cpu, Form::Parallel(rack)),
        (cpu, Form::Master(rack)),
        (server, Form::InsideGroup),
        (server, Form::Parallel(rack)),
        (rack, Form::InsideGroup),
    ] {
        let instruction = Instruction { collective: Collective::AllReduce, slice, form };
        let name = |device: &usize| format!("{}{}", ["A", "B", "C", "D"][device / 4], device % 4);
        let group = |group: &Vec<usize>| format!("{{{}}}", group.iter().map(name).collect::<Vec<_>>().join(","));
        let groups = instruction.groups(&system).expect("the levels exist");
        text += &format!("{}\n  {}\n", instruction.describe(&system), groups.iter().map(group).collect::<String>());
    }
    expect![[r#"
        AllReduce(CPU, InsideGroup)
          {A0,A1,A2,A3}{B0,B1,B2,B3}{C0,C1,C2,C3}{D0,D1,D2,D3}
        AllReduce(CPU, Parallel(server))
          {A0,B0}{A1,B1}{A2,B2}{A3,B3}{C0,D0}{C1,D1}{C2,D2}{C3,D3}
        AllReduce(CPU, Parallel(rack))
          {A0,B0,C0,D0}{A1,B1,C1,D1}{A2,B2,C2,D2}{A3,B3,C3,D3}
        AllReduce(CPU, Master(rack))
          {A0,B0,C0,D0}
        AllReduce(server, InsideGroup)
          {A0,A1,A2,A3,B0,B1,B2,B3}{C0,C1,C2,C3,D0,D1,D2,D3}
        AllReduce(server, Parallel(rack))
          {A0,C0}{A1,C1}{A2,C2}{A3,C3}{B0,D0}{B1,D1}{B2,D2}{B3,D3}
        AllReduce(rack, InsideGroup)
          {A0,A1,A2,A3,B0,B1,B2,B3,C0,C1,C2,C3,D0,D1,D2,D3}
    "#]]
    .assert_eq(&text);
}

#[test]
fn the_hierarchies_are_those_of_table_1() {
    let matrix = ParallelismMatrix::new(vec![vec![1, 1, 2, 2], vec![1, 2, 1, 2]]).expect("a matrix");
    assert_eq!(by_columns(&matrix), [1, 1, 1, 2, 2, 1, 2, 2]);
    assert_eq!(matrix.rows().concat(), [1, 1, 2, 2, 1, 2, 1, 2]);
    assert_eq!(matrix.rows()[1], [1, 2, 1, 2]);
    let matrix = ParallelismMatrix::new(vec![vec![1, 2, 3], vec![4, 5, 6], vec![7, 8, 9]]).expect("a matrix");
    assert_eq!(by_columns(&matrix), [1, 4, 7, 2, 5, 8, 3, 6, 9]);
    assert_eq!(matrix.rows().concat(), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

/// The factors by columns: the machine's levels, each split by the axes.
fn by_columns(matrix: &ParallelismMatrix) -> Vec<usize> {
    let levels = 0..matrix.hierarchy().len();
    levels.flat_map(|level| matrix.rows().iter().map(move |row| row[level])).collect()
}

#[test]
fn totals_are_those_of_the_papers_tables() {
    let total = |hierarchy: &[usize], axes: &[usize], reduce: &[usize]| -> usize {
        let all = matrices(hierarchy, axes).expect("they fit");
        let programs = |matrix: &ParallelismMatrix| {
            synthesize(&Hierarchy::reduction(matrix, reduce).expect("axes exist"), 5, AllowedMasters::OthersIdle).len()
        };
        all.iter().map(programs).sum()
    };
    for case in cases()["totals"].as_array().expect("cases") {
        let (axes, reduce): (Vec<_>, Vec<_>) = (numbers(&case["axes"]), numbers(&case["reduce"]));
        assert_eq!(total(&[4, 16], &axes, &reduce), numbers::<usize>(&case["programs"]), "{case}");
    }
    // Appendix A: two nodes of 16, four of 8, and three axes, reduced over the first and the third.
    assert_eq!(total(&[2, 16], &[4, 8], &[0]), 50);
    assert_eq!(total(&[4, 8], &[4, 8], &[0]), 53);
    assert_eq!(total(&[4, 16], &[16, 2, 2], &[0, 2]), 188);
    assert_eq!(total(&[4, 16], &[8, 2, 4], &[0, 2]), 235);
}

#[test]
fn counts_grow_with_steps_until_no_more_exist() {
    let counts = |levels: usize, masters| -> Vec<usize> {
        (1..=7).map(|steps| synthesize(&hierarchy(&vec![2; levels]), steps, masters).len()).collect()
    };
    assert_eq!(counts(0, AllowedMasters::OthersIdle), [1; 7]);
    assert_eq!(counts(1, AllowedMasters::OthersIdle), [1, 3, 3, 3, 3, 3, 3]);
    assert_eq!(counts(2, AllowedMasters::OthersIdle), [1, 5, 27, 47, 47, 47, 47]);
    assert_eq!(counts(3, AllowedMasters::OthersIdle), [1, 7, 61, 321, 931, 1395, 1395]);
    assert_eq!(counts(2, AllowedMasters::Any), [1, 5, 32, 78, 100, 100, 100]);
}

#[test]
fn figure_4s_programs_are_invalid_and_told_why() {
    // Positions in {A0, A1, C0, C1}.
    let refused = |first, second: [usize; 2]| {
        let mut context = Context::initial(4, 4);
        context.apply(first, &[0, 1, 2, 3]).expect("the first step is valid");
        format!("{}\n", context.apply(Collective::AllReduce, &second).expect_err("the second is not"))
    };
    let refusals = [refused(Collective::AllReduce, [0, 2]), refused(Collective::ReduceScatter, [0, 1])].concat();
    expect![[r#"
        the data of device 0 would be added twice in chunk 0
        devices 0 and 1 hold different chunks, which would be added
    "#]]
    .assert_eq(&refusals);
}

#[test]
fn each_rule_refuses_what_it_must() {
    let after = |steps: &[(Collective, &[usize])]| {
        let mut context = Context::initial(4, 4);
        let mut last = String::new();
        for (collective, group) in steps {
            last = match context.apply(*collective, group) {
                Ok(effect) => format!("{effect:?}\n"),
                Err(violation) => format!("{violation}\n"),
            };
        }
        last
    };
    use Collective::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
    let refusals = [
        after(&[(AllGather, &[0, 1])]),
        after(&[(Reduce, &[0, 1]), (AllGather, &[0, 1])]),
        after(&[(Broadcast, &[0, 1])]),
        after(&[(AllReduce, &[0, 1]), (Broadcast, &[0, 1])]),
        after(&[(ReduceScatter, &[0, 1, 2])]),
        after(&[(Reduce, &[0, 1]), (Reduce, &[1, 2])]),
        after(&[(Reduce, &[0, 1, 2]), (AllReduce, &[1, 2])]),
        after(&[(AllReduce, &[3])]),
    ]
    .concat();
    expect![[r#"
        devices 0 and 1 both hold chunk 0, so there is nothing to gather
        device 0 holds 4 chunks and device 1 holds 0; a gather needs the same number from each, and at least one
        a broadcast from device 0 would discard partial sums held only by device 1
        no device lacks data of the first, 0, so there is nothing to broadcast
        4 chunks cannot be scattered over 3 devices; make the number of chunks a multiple
        devices 1 and 2 hold different chunks, which would be added
        Idle
        Idle
    "#]]
    .assert_eq(&refusals);
}

#[test]
fn programs_that_cannot_be_lowered_or_proved_are_told_where() {
    let matrix = ParallelismMatrix::new(vec![vec![2, 2], vec![1, 2]]).expect("a matrix");
    let step = |collective, slice, form| Instruction { collective, slice, form };
    let refused = |instructions: Vec<Instruction>, axes: &[usize]| {
        let lowered = ReductionProgram { instructions }.lower(&matrix, axes);
        let proved = lowered.and_then(|lowered| lowered.prove().map_err(Into::into));
        format!("{}\n", proved.expect_err("it is no sum"))
    };
    use Collective::{AllGather, AllReduce, Reduce, ReduceScatter};
    let refusals = [
        refused(vec![step(AllReduce, 1, Form::InsideGroup)], &[0]),
        refused(vec![step(AllReduce, 0, Form::InsideGroup), step(AllReduce, 1, Form::InsideGroup)], &[0]),
        refused(vec![step(Reduce, 0, Form::InsideGroup), step(AllReduce, 0, Form::InsideGroup)], &[0]),
        refused(vec![step(AllGather, 0, Form::InsideGroup)], &[0]),
        refused(vec![step(ReduceScatter, 3, Form::InsideGroup)], &[0]),
        refused(vec![step(ReduceScatter, 1, Form::Parallel(1))], &[0]),
        refused(vec![step(ReduceScatter, 2, Form::InsideGroup)], &[0]),
        refused(vec![], &[2]),
        refused(vec![], &[0]),
    ]
    .concat();
    expect![[r#"
        after the last step rank 0 lacks 1 of 1 chunk of the sum; add steps
        step 2, AllReduce in the group [0, 2]: the data of device 0 would be added twice in chunk 0
        step 2, AllReduce: one rank holds all of the array and another nothing; all ranks of a step must hold the same amount
        step 1, AllGather: 4 ranks hold all of the array each, which is more than the array; scatter it first
        no level 3; the hierarchy root 1, level0 2, level1 2 has levels 0..3
        level 1 of the form is not outside level 1 of the slice; name one of 0..1
        step 1, ReduceScatter: no group of two ranks or more holds anything; leave the step out
        no axis 2; the matrix [[2 2] [1 2]] has 2 axes, numbered from 0
        after the last step rank 0 lacks 1 of 1 chunk of the sum; add steps
    "#]].assert_eq(&refusals);
    assert!(matches!(Hierarchy::new([("node", 0)]), Err(ReduceError::Counts { .. })));
}

#[test]
fn programs_from_elsewhere_are_proved_or_told_what_is_wrong() {
    let step = |collective, groups: &[&[usize]], parts| {
        let groups = groups.iter().map(|group| group.to_vec()).collect::<Vec<_>>().into();
        LoweredStep { collective, groups, parts }
    };
    let refused = |reduced: &[&[usize]], steps: Vec<LoweredStep>| {
        let lowered = Lowered::from_steps(reduced.iter().map(|group| group.to_vec()).collect::<Vec<_>>(), 2, steps);
        format!("{}\n", lowered.and_then(|lowered| lowered.prove()).expect_err("it is no sum"))
    };
    use Collective::{AllReduce, ReduceScatter};
    let pairs: &[&[usize]] = &[&[0, 1], &[2, 3]];
    let refusals = [
        refused(pairs, vec![step(AllReduce, &[&[0, 2], &[1, 3]], 1)]),
        refused(pairs, vec![step(AllReduce, pairs, 2)]),
        refused(pairs, vec![step(ReduceScatter, pairs, 1), step(AllReduce, &[&[2, 3]], 2)]),
        refused(pairs, vec![step(AllReduce, &[&[0, 1]], 1)]),
        refused(pairs, vec![step(AllReduce, &[&[2]], 1)]),
        refused(pairs, vec![step(AllReduce, &[&[3, 4]], 1)]),
        refused(pairs, vec![step(AllReduce, &[&[0, 1], &[1]], 1)]),
        refused(&[&[2, 3], &[0, 1]], vec![step(ReduceScatter, pairs, 1), step(AllReduce, &[&[2, 3]], 2)]),
    ]
    .concat();
    expect![[r#"
        step 1: the group [0, 2] mixes some of the ranks [0, 1] with others that must not be summed with them
        step 1: rank 0 holds 2 of 2 chunks, which is not one of 2 parts of the array
        after the last step rank 0 lacks 1 of 2 chunks of the sum; add steps
        after the last step rank 2 lacks 2 of 2 chunks of the sum; add steps
        after the last step rank 0 lacks 2 of 2 chunks of the sum; add steps
        rank 4 is in a step but in no group; the groups to be summed have each of the ranks 0..4 once
        rank 1 is twice in one step; the groups to be summed have each of the ranks 0..4 once
        step 2, AllReduce in the group [2, 3]: devices 2 and 3 hold different chunks, which would be added
    "#]]
    .assert_eq(&refusals);
    assert_eq!(Lowered::from_steps(vec![vec![0]], 0, vec![]), Err(ReductionError::NoChunks));
    let refusals = [refused(&[&[0, 1], &[1, 2]], vec![]), refused(&[&[0, 1], &[3]], vec![])].concat();
    expect![[r#"
        rank 1 is in two groups; the groups to be summed have each of the ranks 0..4 once
        rank 3 is too large; the groups to be summed have each of the ranks 0..3 once
    "#]]
    .assert_eq(&refusals);
}

#[test]
fn every_program_of_three_levels_is_proved_and_sums() {
    let matrix = ParallelismMatrix::new(vec![vec![2, 3, 2], vec![1, 2, 1]]).expect("a matrix");
    for masters in [AllowedMasters::OthersIdle, AllowedMasters::Any] {
        for program in synthesize(&Hierarchy::reduction(&matrix, &[0]).expect("it exists"), 5, masters) {
            let lowered = program.lower(&matrix, &[0]).expect("it can be lowered");
            lowered.prove().unwrap_or_else(|error| panic!("{program}: {error}"));
            sums::check(&lowered);
        }
    }
}

/// Small matrices of one to three axes and levels, and at least one axis to reduce over.
fn reductions() -> impl Strategy<Value = (ParallelismMatrix, Vec<usize>)> {
    (1usize..=3, 1usize..=3).prop_flat_map(|(axes, levels)| {
        let factor = prop_oneof![3 => Just(1usize), 2 => Just(2), 1 => Just(3)];
        let reduced = prop::sample::subsequence((0..axes).collect::<Vec<_>>(), 1..=axes).prop_shuffle();
        (prop::collection::vec(factor, axes * levels), reduced).prop_map(move |(factors, reduced)| {
            let rows = factors.chunks(levels).map(<[usize]>::to_vec).collect();
            (ParallelismMatrix::new(rows).expect("a matrix"), reduced)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every synthesised program is proved on the whole machine and sums data there.
    #[test]
    fn lowering_preserves_the_sum((matrix, axes) in reductions()) {
        prop_assume!(matrix.size() <= 150);
        let hierarchy = Hierarchy::reduction(&matrix, &axes).expect("the axes exist");
        for program in synthesize(&hierarchy, 4, AllowedMasters::Any) {
            let lowered = program.lower(&matrix, &axes).expect("it can be lowered");
            prop_assert!(lowered.prove().is_ok(), "{} {}", matrix, program.describe(&hierarchy));
            sums::check(&lowered);
        }
    }

    /// The layout agrees with the replay of `prove`: the chunks match the parts of each step, with all of them at both
    /// ends.
    #[test]
    fn layouts_agree_with_the_parts_of_steps((matrix, axes) in reductions()) {
        prop_assume!(matrix.size() <= 100);
        let hierarchy = Hierarchy::reduction(&matrix, &axes).expect("the axes exist");
        for program in synthesize(&hierarchy, 4, AllowedMasters::OthersIdle) {
            let lowered = program.lower(&matrix, &axes).expect("it can be lowered");
            let layout = lowered.layout().expect("it is valid");
            let chunks = |step: usize, rank: usize| layout[step][rank].iter().map(ExactSizeIterator::len).sum::<usize>();
            for (number, step) in lowered.steps().iter().enumerate() {
                for group in step.groups.iter() {
                    prop_assert_eq!(chunks(number, group[0]) * step.parts, lowered.chunks());
                }
            }
            for rank in 0..lowered.ranks() {
                prop_assert_eq!(chunks(0, rank), lowered.chunks());
                prop_assert_eq!(chunks(lowered.steps().len(), rank), lowered.chunks());
            }
        }
    }
}

#[test]
fn programs_are_written_by_their_levels() {
    let hierarchy = Hierarchy::new([("node", 4), ("gpu", 16)]).expect("a hierarchy");
    let programs = synthesize(&hierarchy, 3, AllowedMasters::OthersIdle);
    let by_name: BTreeMap<_, _> =
        programs.iter().map(|program| (program.to_string(), program.describe(&hierarchy))).collect();
    expect!["Reduce(node, Parallel(root)); AllReduce(node, InsideGroup); Broadcast(node, Parallel(root))"]
        .assert_eq(&by_name["Reduce-AllReduce-Broadcast"]);
    expect!["ReduceScatter(node, Parallel(root)); AllReduce(node, InsideGroup); AllGather(node, Parallel(root))"]
        .assert_eq(&by_name["ReduceScatter-AllReduce-AllGather"]);
}
