//! The relations of shardings, compared with the ownership that the running program computes, element by element.

use super::*;
use crate::isl::Isl;
use crate::source::{Sources, picked};
use polyshard_layout::{AxisExpr, Mesh, Placement};
use polyshard_program::StepId;
use proptest::prelude::*;

/// Shardings of every kind over meshes of 1 to 3 axes and at most 12 ranks.
fn shardings() -> impl Strategy<Value = Sharding> {
    let mesh = prop::collection::vec(1usize..6, 1..4).prop_filter("few ranks", |e| e.iter().product::<usize>() <= 12);
    let dim = (0usize..14, 0u8..12, 1usize..5, 0usize..3);
    (mesh, prop::collection::vec(dim, 1..4), 0usize..9, 0usize..9).prop_filter_map(
        "legal",
        |(extents, dims, pin, open)| {
            let mesh = Mesh::new(["x", "y", "z"].into_iter().zip(extents));
            let axis = |number: usize| AxisExpr::Axis(mesh.as_slice()[number % mesh.ndim()].name);
            let extent = |number: usize| mesh.extents()[number % mesh.ndim()] as i64;
            let list = || AxisExpr::List(mesh.as_slice().iter().map(|axis| axis.name).collect());
            // Three dimensions with many indices have too many points to enumerate.
            let few = if dims.len() > 2 { 5 } else { 14 };
            let shape: Vec<_> = dims.iter().map(|dim| dim.0.min(few)).collect();
            let mut placements = Vec::new();
            for (dim, &(_, kind, block, first)) in dims.iter().enumerate() {
                let skew = (axis(first) * 2 - axis(first + 1) + 1) % extent(first + 1);
                placements.push(match kind {
                    0 => continue,
                    1 => Placement::block(dim, axis(first)),
                    2 => Placement::block_cyclic(dim, axis(first), block),
                    3 => Placement::block(dim, list()),
                    4 => Placement::block_cyclic(dim, list(), block),
                    5 => Placement::block(dim, skew),
                    6 => Placement::block_cyclic(dim, skew, block),
                    7 => Placement::block(dim, axis(first)).at(axis(first + 1)),
                    8 => Placement::block(dim, axis(first)).at(skew),
                    9 => Placement::block(dim, axis(first)).cyclic(axis(first + 1), block),
                    10 => Placement::block_cyclic(dim, axis(first), block + 2).at(axis(first + 1)),
                    _ => (1..mesh.ndim())
                        .fold(Placement::block(dim, axis(first)), |outer, next| outer.at(axis(first + next))),
                });
            }
            if let Some(axis) = mesh.as_slice().get(pin) {
                placements.push(Placement::pin(axis.name, axis.extent - 1));
            }
            if let Some(axis) = mesh.as_slice().get(open) {
                placements.push(Placement::partial(axis.name));
            }
            Sharding::new(&mesh, &shape, &placements).ok()
        },
    )
}

fn indices(ranges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    ranges.iter().fold(vec![vec![]], |all: Vec<Vec<usize>>, range| {
        all.iter().flat_map(|head| range.iter().map(move |&i| [&head[..], &[i]].concat())).collect()
    })
}

/// Pairs of points as a relation, of `from` and `to` numbers.
fn points(pairs: &[(Vec<usize>, Vec<usize>)], [from, to]: [usize; 2]) -> Conditions {
    let pair = |(a, b): &(Vec<usize>, Vec<usize>)| {
        let mut pair = Conditions::new(from, to);
        let columns = a.iter().enumerate().map(|(dim, &at)| (Form::input(dim), at));
        for (column, at) in columns.chain(b.iter().enumerate().map(|(dim, &at)| (Form::output(dim), at))) {
            pair.equal(&column, &Form::constant(at as i64));
        }
        pair
    };
    pairs.iter().map(pair).reduce(Conditions::or).unwrap_or_else(|| {
        let mut none = Conditions::new(from, to);
        none.below(&Form::default(), &Form::default());
        none
    })
}

/// The relation is that of the points, each found by enumeration.
fn check(
    isl: &Isl,
    conditions: &Conditions,
    pairs: &[(Vec<usize>, Vec<usize>)],
    dims: [usize; 2],
) -> Result<(), TestCaseError> {
    let fail = |error: crate::isl::IslError| TestCaseError::fail(error.0);
    let found = isl.relation(conditions).map_err(fail)?;
    let expected = isl.relation(&points(pairs, dims)).map_err(fail)?;
    prop_assert!(found.is_equal(&expected).map_err(fail)?, "{found}\n{pairs:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// isl and the running program agree on the owners of each element.
    #[test]
    fn owners_are_those_whose_pieces_hold_the_element(sharding in shardings()) {
        let mesh = sharding.mesh();
        let mut pairs = Vec::new();
        for at in (0..mesh.size()).map(|rank| mesh.coordinates(rank)) {
            let owned = (0..sharding.shape().len()).map(|dim| {
                sharding.pieces(dim, &at, 0..sharding.shape()[dim]).flat_map(|(range, _)| range).collect()
            });
            pairs.extend(indices(&owned.collect::<Vec<_>>()).into_iter().map(|element| (element, at.clone())));
        }
        check(&Isl::new().expect("isl"), &owners(&sharding), &pairs, [sharding.shape().len(), mesh.ndim()])?;
    }

    /// isl and the running program read an element from the same owner.
    #[test]
    fn the_owner_that_is_read_from_is_the_one_picked(sharding in shardings(), reader in 0usize..12) {
        let mesh = sharding.mesh();
        let reader = mesh.coordinates(reader % mesh.size());
        let ranges: Vec<_> = sharding.shape().iter().map(|&extent| (0..extent).collect()).collect();
        let pairs: Vec<_> = indices(&ranges).into_iter().map(|element| {
            let owner = sharding.owner(&reader, &element);
            (element, owner)
        }).collect();
        let dims = [sharding.shape().len(), mesh.ndim()];
        let mut conditions = Conditions::new(dims[0], dims[1]);
        let (element, owner): (Vec<_>, Vec<_>) =
            ((0..dims[0]).map(Form::input).collect(), (0..dims[1]).map(Form::output).collect());
        let reader: Vec<_> = reader.iter().map(|&at| Form::constant(at as i64)).collect();
        inside_mesh(&mut conditions, &sharding, &owner);
        owned(&mut conditions, &sharding, &element, &owner);
        picked(&mut conditions, &sharding, &owner, &reader);
        let isl = Isl::new().expect("isl");
        check(&isl, &conditions, &pairs, dims)?;
        let (computed, had) = Sources::solved(&sharding);
        let solved = isl.relation(&computed).and_then(|computed| computed.is_subset(&isl.relation(&had)?));
        prop_assert!(solved.expect("isl"), "{computed:?}\n{had:?}");
    }
}

/// The pairs of these tuples.
fn pairs<const A: usize, const B: usize>(pairs: impl IntoIterator<Item = ([usize; A], [usize; B])>) -> Conditions {
    let pairs: Vec<_> = pairs.into_iter().map(|(from, to)| (from.to_vec(), to.to_vec())).collect();
    points(&pairs, [A, B])
}

#[track_caller]
fn same(conditions: &Conditions, expected: &Conditions) {
    let isl = Isl::new().expect("isl starts");
    let [found, expected] = [conditions, expected].map(|conditions| isl.relation(conditions).expect("isl decides"));
    assert!(found.is_equal(&expected).expect("isl decides"), "{found}\n{expected}");
}

/// `C[m, n] += A[m, k] * B[k, n]`, 5 by 2 by 3, whose rows are over 3 ranks, the last of which has one.
fn rows() -> (Kernel, Nest) {
    let kernel = polyshard_testing::example::matmul(5, 2, 3).check().expect("a kernel");
    let mut nest = Nest::default();
    kernel.vars().iter().for_each(|var| nest.add_variable(var.name, var.extent as i64));
    nest.split(0, ("mo".into(), 3), ("mi".into(), 2), 0, StepId(1));
    nest.distributed = 1;
    (kernel, nest)
}

fn var(name: &str) -> Affine {
    Affine::new([(name.into(), 1)], 0)
}

#[test]
fn what_ranks_need_is_the_values_of_their_indices() {
    let (kernel, nest) = rows();
    let relations = Relations { kernel: &kernel, nest: &nest };
    same(&relations.needed(Depth(0), &[var("m")]), &pairs((0..5).map(|m| ([m / 2], [m]))));
    // The second row of the last rank is beyond the end.
    same(&relations.needed(Depth(1), &[var("m")]), &pairs((0..5).map(|m| ([m / 2, m % 2], [m]))));
    // A rank needs all of `k`, whether or not it has rows in this iteration; instances have rows.
    let all = (0..3).flat_map(|rank| (0..2).flat_map(move |mi| (0..3).map(move |k| ([rank, mi], [k]))));
    same(&relations.needed(Depth(1), &[var("k")]), &pairs(all.clone()));
    same(&relations.exact(Depth(1), &[var("k")]), &pairs(all.filter(|(at, _)| *at != [2, 1])));
}

#[test]
fn ranks_and_neighbours_are_functions_and_owners_are_not_where_an_array_is_replicated() {
    let (kernel, nest) = rows();
    let relations = Relations { kernel: &kernel, nest: &nest };
    same(&relations.ranks(Depth(1)), &pairs((0..6).map(|at| ([at / 2, at % 2], [at / 2]))));
    same(&relations.neighbour(Depth(0), 0, 1), &pairs([([0], [1]), ([1], [2]), ([2], [0])]));
    same(&relations.next(Depth(1)), &pairs((0..6).map(|at| ([at / 2, at % 2], [at / 2, at % 2 + 1]))));
    let isl = Isl::new().expect("isl starts");
    let replicated = owners(&Sharding::replicated(&Mesh::new([("x", 3)]), &[5]));
    let is_function =
        |conditions: &Conditions| isl.relation(conditions).and_then(|relation| relation.is_single_valued());
    assert!(is_function(&relations.neighbour(Depth(0), 0, 1)).expect("isl decides"));
    assert!(!is_function(&replicated).expect("isl decides"));
}

#[test]
fn a_step_maps_the_loops_that_it_makes_to_those_that_it_replaces() {
    let (kernel, nest) = rows();
    let steps = Relations { kernel: &kernel, nest: &nest }.steps();
    let [(split, all)] = &steps[..] else { panic!("one step makes loops, not {}", steps.len()) };
    same(split, &pairs((0..5).map(|m| ([m / 2, m % 2], [m]))));
    same(all, &pairs((0..5).map(|m| ([], [m]))));
}

#[test]
fn closed_forms_are_what_they_count_to() {
    use polyshard_program::{AxisId, Ranges, Region};
    let (kernel, nest) = rows();
    let relations = Relations { kernel: &kernel, nest: &nest };
    let ranges = Ranges { coordinates: vec![3], counters: vec![2, 2, 3] };
    let x = Expr::symbol(Symbol::Coordinate(AxisId(0)));
    let turned = x.offset_by(1).rem(3, &ranges);
    same(&relations.points(Depth(0), &[turned], &[]), &pairs([([0], [1]), ([1], [2]), ([2], [0])]));
    let before_two = [(x.clone(), Expr::constant(2))];
    same(&relations.points(Depth(0), &[x.div(2, &ranges)], &before_two), &pairs([([0], [0]), ([1], [0])]));
    // Every second element, starting at the rank.
    let mut region = Region::of_ranges(vec![(x, Expr::constant(5))]);
    region.blocks[0] = Blocks::points(2);
    let elements = [([0], [0]), ([0], [2]), ([0], [4]), ([1], [1]), ([1], [3]), ([2], [2]), ([2], [4])];
    same(&relations.elements(Depth(0), &region), &pairs(elements));
}
