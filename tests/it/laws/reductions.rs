//! Reductions by programs, on threads: every program, any length, type and operation.

use polyshard::planner::placement::{PlacedMesh, place};
use polyshard::planner::reduce::{Reduction, Strategy, all_reduce};
use polyshard::program::reduction::{Collective, Lowered, LoweredStep};
use polyshard::runtime::{ReduceOp, World, spmd};
use polyshard::{Error, Result};
use polyshard_testing::laws::reduce::{
    OPS, every, factorizations, hold, placements, programs, reduces, reduces_of, result, subsets,
};
use proptest::prelude::*;

/// Runs every `stride`-th program of reductions over the first axis.
fn check_every(counts: &[usize], extents: &[usize], expected: usize, stride: usize) {
    for placed in placements(counts, extents) {
        if programs(&placed, &[0]).len() != expected {
            continue;
        }
        let ran = spmd(placed.mesh().size(), |world| every(world, &placed, &[0], stride));
        let ran = ran.unwrap_or_else(|error| panic!("{placed}: {error}"));
        assert_eq!(ran[0], expected.div_ceil(stride) + 2);
    }
}

#[test]
fn every_program_of_two_levels_reduces_like_the_direct_one() {
    check_every(&[2, 3], &[6], 47, 1);
    check_every(&[3, 2], &[6], 47, 1);
    // Each group is half of two nodes.
    check_every(&[2, 4], &[4, 2], 47, 1);
}

#[test]
fn programs_of_three_levels_reduce_like_the_direct_one() {
    // Different samples: each program costs a few collectives of all ranks.
    check_every(&[2, 2, 2], &[8], 931, 20);
    check_every(&[2, 3, 2], &[12], 931, 37);
}

#[test]
fn all_placements_of_one_to_six_threads_hold_their_laws() {
    for ranks in [1, 5, 6] {
        let ran = spmd(ranks, |world| hold(world, 11)).expect("the laws hold");
        assert!(ran.iter().all(|&reductions| reductions == ran[0] && reductions >= 10), "{ran:?}");
    }
}

#[test]
fn in_the_order_of_the_mesh_bits_are_those_of_every_placement() {
    for (extents, axes, op) in [
        (&[8][..], &[0][..], ReduceOp::Sum),
        (&[4, 2], &[0], ReduceOp::Product),
        // Devices of a group are not in the order of the mesh.
        (&[4, 2], &[0, 1], ReduceOp::Sum),
        (&[2, 2, 2], &[0, 2], ReduceOp::Sum),
    ] {
        let mut bits: Vec<Vec<u32>> = Vec::new();
        // One node of 8, two of 4, four of 2, eight of 1, and nodes of sockets.
        for counts in [&[8][..], &[2, 4], &[4, 2], &[8, 1], &[2, 2, 2]] {
            for placed in placements(counts, extents) {
                let run = |world: &World| result::<f32>(world, &placed, axes, 53, op, Strategy::Deterministic);
                let mut results = spmd(8, run).expect("a result");
                results.sort_by_key(|(rank, _)| *rank);
                bits.push(results.iter().flat_map(|(_, data)| data).map(|x| x.to_bits()).collect());
            }
        }
        assert!(bits.len() >= 5 && bits.iter().all(|these| *these == bits[0]), "{axes:?} of {extents:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any placement, axes, program, length, type and operation.
    #[test]
    fn any_program_reduces_any_array_like_the_direct_one(
        (ranks, elements) in (1usize..=12, 0usize..200),
        picks in prop::array::uniform6(any::<prop::sample::Index>()),
        dtype in 0usize..4,
    ) {
        let pick = |nth: usize, of: usize| picks[nth].index(of);
        let (levels, meshes) = (factorizations(ranks, 3), factorizations(ranks, 3));
        let (counts, extents) = (&levels[pick(0, levels.len())], &meshes[pick(1, meshes.len())]);
        let placed = placements(counts, extents);
        let placed = &placed[pick(2, placed.len())];
        let axes = subsets(extents.len()).nth(pick(3, 1 << extents.len())).expect("a set of axes");
        let programs = programs(placed, &axes);
        let program = programs[pick(4, programs.len())].clone();
        let op = OPS[pick(5, 4)];
        let run = |world: &World| reduces_of(dtype, world, placed, &axes, elements, op, Strategy::Program(program.clone()));
        let outcome = spmd(ranks, run);
        prop_assert!(outcome.is_ok(), "{:?}", outcome.err());
    }
}

fn line(devices: usize) -> PlacedMesh {
    placements(&[devices], &[devices]).remove(0)
}

fn step(collective: Collective, groups: &[&[usize]], parts: usize) -> LoweredStep {
    LoweredStep { collective, groups: groups.iter().map(|group| group.to_vec()).collect::<Vec<_>>().into(), parts }
}

#[test]
fn steps_of_any_groups_run_in_the_order_of_their_ranks() {
    use Collective::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
    let whole = vec![vec![0, 1, 2, 3]];
    let steps = [
        // A butterfly of two stages.
        (1, vec![step(AllReduce, &[&[0, 1], &[3, 2]], 1), step(AllReduce, &[&[2, 0], &[1, 3]], 1)]),
        // Scattered backwards, and gathered in another order.
        (4, vec![step(ReduceScatter, &[&[3, 1, 2, 0]], 1), step(AllGather, &[&[0, 1, 2, 3]], 4)]),
        // Pieces that are not contiguous: of the halves on 0 and 1, ranks 2 and 3 take the first quarters.
        (
            4,
            vec![
                step(ReduceScatter, &[&[0, 1], &[2, 3]], 1),
                step(ReduceScatter, &[&[2, 0], &[3, 1]], 2),
                step(AllGather, &[&[0, 1], &[3, 2]], 4),
                step(AllGather, &[&[0, 2], &[1, 3]], 2),
            ],
        ),
        // A root other than the lowest rank, with a group that holds nothing in between.
        (
            1,
            vec![
                step(Reduce, &[&[2, 3], &[1, 0]], 1),
                step(AllReduce, &[&[2, 1], &[0, 3]], 1),
                step(Broadcast, &[&[2, 3], &[1, 0]], 1),
            ],
        ),
    ];
    let placed = line(4);
    for (chunks, steps) in steps {
        let lowered = Lowered::from_steps(whole.clone(), chunks, steps).expect("the steps are of four ranks");
        spmd(4, |world| {
            for (nth, elements) in [0, 1, 2, 3, 4, 5, 13, 64].into_iter().enumerate() {
                let strategy = Strategy::Lowered(lowered.clone());
                reduces_of(nth, world, &placed, &[0], elements, OPS[nth % 4], strategy)?;
            }
            Ok::<(), Error>(())
        })
        .unwrap_or_else(|error| panic!("{lowered:?}: {error}"));
    }
}

#[test]
fn a_reduction_in_a_placed_world_is_the_same() {
    for placed in placements(&[2, 3], &[3, 2]) {
        spmd(6, |world| {
            let under = place(world, &placed)?;
            for strategy in [Strategy::Direct, Strategy::Best, Strategy::Deterministic] {
                reduces::<f64>(&under, &placed, &[0], 29, ReduceOp::Sum, strategy.clone())?;
                reduces::<i32>(&under, &placed, &[0, 1], 29, ReduceOp::Product, strategy)?;
            }
            Ok::<(), Error>(())
        })
        .unwrap_or_else(|error| panic!("{placed}: {error}"));
    }
}

#[test]
fn reductions_in_passing_are_made_once() {
    let placed = line(3);
    spmd(3, |world| -> Result<()> {
        for strategy in [Strategy::Best, Strategy::Deterministic] {
            for op in OPS {
                let mut data = [1 << world.rank(), 3i64, -5];
                all_reduce(world, &placed, &["a"], &mut data, op, strategy.clone())?;
                let expected = match op {
                    ReduceOp::Sum => [7, 9, -15],
                    ReduceOp::Product => [8, 27, -125],
                    ReduceOp::Max => [4, 3, -5],
                    ReduceOp::Min => [1, 3, -5],
                    ReduceOp::Records(_) => unreachable!("all but records"),
                };
                assert_eq!(data, expected);
            }
        }
        // More lengths than the cache holds, twice.
        for _ in 0..2 {
            for len in 0..40 {
                let mut data = vec![world.rank() as f32; len];
                all_reduce(world, &placed, &[0], &mut data, ReduceOp::Sum, Strategy::Best)?;
                assert_eq!(data, vec![3.0; len]);
            }
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn an_explanation_shows_steps_groups_and_seconds() {
    let placed = placements(&[2, 4], &[4, 2]).remove(1);
    let explain = |strategy: Strategy| {
        let texts = spmd(8, |world| {
            Ok::<_, Error>(Reduction::<f32>::new(world, &placed, &["a"], 1_000_000, strategy.clone())?.explain())
        });
        let texts = texts.expect("the strategy is fine");
        assert!(texts.iter().all(|text| *text == texts[0]), "all ranks say the same");
        texts[0].clone()
    };
    assert_eq!(
        explain(Strategy::Best),
        "1000000 elements of f32 over `a`, by the fastest program
(a: 4, b: 2) as [[2 2] [1 2]] on switches: 2 level0 x 4 level1
  1. ReduceScatter(level0, InsideGroup)  {0 2} {4 6} {1 3} {5 7}  2.001e-3 s, the ports out of rank 0 at level `level1`
  2. AllReduce(level0, Parallel(root))   {0 4} {2 6} {1 5} {3 7}  2.000e-2 s, the ports out of rank 0 at level `level0`
  3. AllGather(level0, InsideGroup)      {0 2} {4 6} {1 3} {5 7}  2.001e-3 s, the ports out of rank 0 at level `level1`
simulated: 2.400e-2 s, 1.25 times as fast as one all-reduce, 3.001e-2 s"
    );
    assert_eq!(
        explain(Strategy::Direct),
        "1000000 elements of f32 over `a`, in one all-reduce
(a: 4, b: 2) as [[2 2] [1 2]] on switches: 2 level0 x 4 level1
  1. AllReduce  {0 2 4 6} {1 3 5 7}  3.001e-2 s, the ports out of rank 0 at level `level0`
simulated: 3.001e-2 s"
    );
    assert_eq!(
        explain(Strategy::Deterministic),
        "1000000 elements of f32 over `a`, in the order of the mesh
(a: 4, b: 2) as [[2 2] [1 2]] on switches: 2 level0 x 4 level1
  1. AllToAll   {0 2 4 6} {1 3 5 7}  2.000e-2 s, the ports out of rank 0 at level `level0`
  2. AllGather  {0 2 4 6} {1 3 5 7}  1.500e-2 s, the ports out of rank 0 at level `level0`
simulated: 3.500e-2 s, 0.86 times as fast as one all-reduce, 3.001e-2 s"
    );
}
