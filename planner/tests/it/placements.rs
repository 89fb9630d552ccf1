//! Placements: worked examples, all matrices against brute force, refused input, and the best for a workload.

use expect_test::expect;
use polyshard_machine::{Collective, Machine};
use polyshard_planner::placement::{ParallelismMatrix, Traffic, best, count, matrices};
use polyshard_planner::reduce::ReduceOptions;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeSet;

fn cases() -> Value {
    serde_json::from_str(include_str!("../data/placement.json")).expect("it is JSON")
}

fn numbers<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("numbers")
}

#[test]
fn all_matrices_of_the_worked_example_are_found() {
    for case in cases()["matrices"].as_array().expect("cases") {
        let found = matrices(&numbers::<Vec<_>>(&case["hierarchy"]), &numbers::<Vec<_>>(&case["axes"]));
        let found: Vec<_> = found.expect("they fit").iter().map(|matrix| matrix.rows().to_vec()).collect();
        assert_eq!(found, numbers::<Vec<Vec<Vec<usize>>>>(&case["matrices"]));
    }
    for case in cases()["simulated"].as_array().expect("cases").iter().filter(|case| case["matrices"].is_array()) {
        let found = matrices(&[4, 16], &numbers::<Vec<_>>(&case["axes"])).expect("they fit");
        let found: Vec<_> = found.iter().map(|matrix| matrix.rows().to_vec()).collect();
        assert_eq!(found, numbers::<Vec<Vec<Vec<usize>>>>(&case["matrices"]));
    }
}

#[test]
fn the_groups_of_figure_2_are_found_by_name() {
    for case in cases()["groups"].as_array().expect("cases") {
        let matrix = ParallelismMatrix::new(numbers(&case["matrix"])).expect("a matrix");
        assert_eq!(matrix.hierarchy(), numbers::<Vec<usize>>(&case["hierarchy"]));
        // Four GPUs on each of the CPUs A to D.
        let name = |rank: &usize| format!("{}{}", ["A", "B", "C", "D"][rank / 4], rank % 4);
        let groups = matrix.groups(&[numbers(&case["reduce_axis"])]).expect("the axis exists");
        let groups: Vec<Vec<_>> = groups.iter().map(|group| group.iter().map(name).collect()).collect();
        assert_eq!(groups, numbers::<Vec<Vec<String>>>(&case["groups"]));
    }
}

fn refused<T, E: std::error::Error>(result: Result<T, E>) -> String {
    format!("{}\n", result.err().expect("it cannot be placed"))
}

#[test]
fn axes_that_cannot_be_placed_are_told_what_would_fit() {
    let matrix = ParallelismMatrix::new(vec![vec![2, 2], vec![2, 8]]).expect("a matrix");
    let traffic = Traffic { operation: Collective::AllGather, axes: vec![3], bytes: 1.0 };
    let machine = Machine::preset("a100").expect("a preset");
    let refusals = [
        refused(matrices(&[4, 16], &[8, 2, 3])),
        refused(matrices(&[4, 16], &[6, 10])),
        refused(matrices(&[4, 16], &[3, 16])),
        refused(matrices(&[4, 16], &[8, 0])),
        refused(matrices(&[4, 16], &[])),
        refused(matrices(&[], &[1])),
        refused(matrices(&[1 << 40, 1 << 40], &[1])),
        refused(ParallelismMatrix::new(vec![vec![1, 2], vec![2]])),
        refused(ParallelismMatrix::new(vec![vec![1, 0]])),
        refused(matrix.groups(&[2])),
        refused(matrix.groups(&[1, 1])),
        refused(matrix.check(&Machine::preset("v100").expect("a preset"))),
        refused(best(&machine, &[8, 8], std::slice::from_ref(&traffic), &ReduceOptions::default())),
        refused(best(
            &machine,
            &[8, 8],
            &[Traffic { axes: vec![0], bytes: -1.0, ..traffic }],
            &ReduceOptions::default(),
        )),
    ]
    .concat();
    expect![[r#"
        the axes [8, 2, 3] make 48 ranks, but the hierarchy [4, 16] has 64 devices; 4 for axis 2 would fit
        the axes [6, 10] make 60 ranks, but the hierarchy [4, 16] has 64 devices; choose axes that multiply to 64
        the axes [3, 16] make 48 ranks, but the hierarchy [4, 16] has 64 devices; 4 for axis 0 would fit
        axis 1 has size 0; give 1 or more
        no axis to place; give at least one
        no level to place; give at least one
        the product of the levels [1099511627776, 1099511627776] does not fit in 64 bits; give smaller ones
        row 1 has 1 factor and row 0 has 2; give each axis one factor per level
        axis 0 has size 0; give 1 or more
        no axis 2; the matrix [[2 2] [2 8]] has 2 axes, numbered from 0
        axis 1 is named twice; name each axis once
        the matrix [[2 2] [2 8]] is for the hierarchy [4, 16], but `v100` has [4, 8]
        no axis 3; the matrix [[1 8] [4 2]] has 2 axes, numbered from 0
        an amount of data must be 0 bytes or more, found -1
    "#]]
    .assert_eq(&refusals);
}

/// All tables of divisors of the axes, whatever their products, and of those the ones that place the axes.
fn by_brute_force(hierarchy: &[usize], axes: &[usize]) -> BTreeSet<Vec<Vec<usize>>> {
    let mut tables: Vec<Vec<usize>> = vec![vec![]];
    for axis in axes {
        for level in hierarchy {
            let factors: Vec<usize> = (1..=*level).filter(|factor| axis.is_multiple_of(*factor)).collect();
            let with =
                |table: Vec<usize>| factors.iter().map(move |&factor| [&table[..], &[factor]].concat()).collect();
            tables = tables.into_iter().flat_map::<Vec<_>, _>(with).collect();
        }
    }
    let rows = |table: Vec<usize>| table.chunks(hierarchy.len()).map(<[usize]>::to_vec).collect::<Vec<_>>();
    let column = |table: &[Vec<usize>], level: usize| table.iter().map(|row| row[level]).product::<usize>();
    let places = |table: &Vec<Vec<usize>>| {
        let right_rows = table.iter().zip(axes).all(|(row, axis)| row.iter().product::<usize>() == *axis);
        right_rows && hierarchy.iter().enumerate().all(|(level, count)| column(table, level) == *count)
    };
    tables.into_iter().map(rows).filter(places).collect()
}

/// A hierarchy of two or three levels and two or three axes that fit it: the products of a table of random factors.
fn placeable() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
    (2usize..=3, 2usize..=3).prop_flat_map(|(axes, levels)| {
        prop::collection::vec(prop_oneof![Just(1usize), Just(2), Just(3)], axes * levels).prop_map(move |factors| {
            let matrix = ParallelismMatrix::new(factors.chunks(levels).map(<[usize]>::to_vec).collect());
            let matrix = matrix.expect("a matrix");
            (matrix.hierarchy(), matrix.axes())
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every matrix multiplies to the axes and to the levels, none is missing and none is listed twice.
    #[test]
    fn matrices_are_complete_and_distinct((hierarchy, axes) in placeable()) {
        prop_assume!(hierarchy.iter().product::<usize>() <= 400);
        let found = matrices(&hierarchy, &axes).expect("they fit");
        for matrix in &found {
            prop_assert_eq!((matrix.hierarchy(), matrix.axes()), (hierarchy.clone(), axes.clone()));
        }
        let distinct: BTreeSet<_> = found.iter().map(|matrix| matrix.rows().to_vec()).collect();
        prop_assert_eq!(distinct.len(), found.len());
        prop_assert_eq!(count(&hierarchy, &axes).expect("they fit"), found.len() as u128);
        prop_assert_eq!(distinct, by_brute_force(&hierarchy, &axes));
    }

    /// A placement numbers every rank exactly once, and groups are the ranks that differ along their axes.
    #[test]
    fn matrices_number_every_rank_once((hierarchy, axes) in placeable(), pick in any::<prop::sample::Index>()) {
        let all = matrices(&hierarchy, &axes).expect("they fit");
        let matrix = &all[pick.index(all.len())];
        let mut ranks = matrix.ranks();
        for (mesh_rank, &rank) in ranks.iter().enumerate() {
            let coordinates = matrix.coordinates(rank);
            let row_major = coordinates.iter().zip(&axes).fold(0, |sum, (at, extent)| sum * extent + at);
            prop_assert_eq!((mesh_rank, rank), (row_major, matrix.rank(&coordinates)));
        }
        ranks.sort_unstable();
        prop_assert_eq!(ranks, (0..matrix.size()).collect::<Vec<_>>());
        for (axis, &extent) in axes.iter().enumerate() {
            let groups = matrix.groups(&[axis]).expect("it exists");
            prop_assert_eq!(groups.len() * extent, matrix.size());
            for group in groups {
                let along: Vec<_> = group.iter().map(|&rank| matrix.coordinates(rank)[axis]).collect();
                prop_assert_eq!(along, (0..extent).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn the_best_placement_keeps_heavy_traffic_inside_nodes() {
    let machine = Machine::preset("a100").expect("a preset");
    let reduce = |axis, bytes| Traffic { operation: Collective::AllReduce, axes: vec![axis], bytes };
    let first = |traffic: &[Traffic]| {
        best(&machine, &[8, 8], traffic, &ReduceOptions::default()).expect("they fit")[0].matrix.to_string()
    };
    assert_eq!(first(&[reduce(0, 1e9)]), "[[1 8] [4 2]]");
    assert_eq!(first(&[reduce(1, 1e9)]), "[[4 2] [1 8]]");
    assert_eq!(first(&[reduce(0, 1e9), reduce(1, 1e8)]), "[[1 8] [4 2]]");
    let shuffle = Traffic { operation: Collective::AllToAll, axes: vec![1], bytes: 1e10 };
    assert_eq!(first(&[reduce(0, 1e9), shuffle]), "[[4 2] [1 8]]");
}

#[test]
fn a_workload_takes_as_long_as_its_parts() {
    let machine = Machine::preset("a100").expect("a preset");
    let traffic = [
        Traffic { operation: Collective::AllReduce, axes: vec![0], bytes: 1e9 },
        Traffic { operation: Collective::AllGather, axes: vec![1, 2], bytes: 1e7 },
        Traffic { operation: Collective::AllToAll, axes: vec![2], bytes: 1e8 },
    ];
    let direct = ReduceOptions { max_steps: 1, ..ReduceOptions::default() };
    let ranked = best(&machine, &[4, 2, 8], &traffic, &ReduceOptions::default()).expect("they fit");
    assert_eq!(ranked.len(), matrices(&[4, 16], &[4, 2, 8]).expect("they fit").len());
    assert!(ranked.windows(2).all(|pair| pair[0].seconds <= pair[1].seconds));
    let plain = best(&machine, &[4, 2, 8], &traffic, &direct).expect("they fit");
    for placed in &ranked {
        assert!((placed.each.iter().sum::<f64>() / placed.seconds - 1.0).abs() < 1e-12);
        // Programs can only improve all-reduces, and change nothing else.
        let same = plain.iter().find(|other| other.matrix == placed.matrix).expect("it is there as well");
        assert!(placed.each[0] <= same.each[0] * (1.0 + 1e-9));
        assert_eq!(placed.each[1..], same.each[1..]);
    }
}
