//! Programs with sums by procedures: those that a planner finds for a machine, in groups of ranks.

use polyshard::prelude::*;
use polyshard::runtime::spmd_emulated;
use polyshard_testing::laws::program::{run_every_way, sequential};
use polyshard_testing::laws::reduce::machine;
use polyshard_testing::random::Choices;
use polyshard_testing::random::by_procedures::{by_procedure, summed_everywhere};
use polyshard_testing::written::read_back;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The program by a random procedure, read back from a file.
fn drawn(choices: &[u32]) -> Program {
    let mut choices = Choices::new(choices);
    let schedule = summed_everywhere::<i64>(&mut choices);
    let program = schedule.lower().unwrap_or_else(|error| panic!("{error}\n{schedule}"));
    let made = by_procedure(&program, &mut choices);
    read_back(&made.unwrap_or_else(|| panic!("its sums do not meet everywhere\n{program}")))
}

/// Checks that the runs of a program give the sequential result, and receive the counted bytes, or at most the bound
/// where there are too many steps to count; returns whether they were counted.
fn is_the_sequential_one(program: &Program) -> bool {
    let expected = sequential::<i64>(program, true);
    let run = |world: &World| run_every_way::<i64>(world, program, true);
    let (nest, ranks) = (program.nest(), program.mesh().size());
    let is_counted = nest.volumes().iter().all(|volume| volume.is_counted);
    let steps: i64 = nest.ranges().counters.iter().product();
    // Counting visits all ranks in the steps of a procedure, once for each rank; each input is one more transfer.
    assert!(is_counted || steps * (ranks * (ranks + 3)) as i64 > 20_000, "{program}");
    let counts = if ranks.is_multiple_of(2) { vec![ranks / 2, 2] } else { vec![ranks] };
    for shards in [polyshard::spmd(ranks, run), spmd_emulated(&machine(&counts), 1e-4, run)] {
        let shards = shards.unwrap_or_else(|error| panic!("{error}\n{program}"));
        let received = shards.iter().map(|(received, _)| *received).max().expect("there are ranks");
        let stated = program.report().traffic_bytes;
        assert!(if is_counted { received == stated } else { received <= stated }, "{received} of {stated}\n{program}");
        assert_eq!(shards[0].1.as_ref(), Some(&expected), "{program}");
    }
    is_counted
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// On threads and on an emulated machine, in place and by messages, twice each: the sequential result, and the
    /// counted number of bytes.
    #[test]
    fn random_sums_by_random_procedures_are_the_sequential_ones(
        choices in prop::collection::vec(0u32..5040, 30),
    ) {
        is_the_sequential_one(&drawn(&choices));
    }

    /// The counted bytes are within the bound that is used for too many steps to count.
    #[test]
    fn what_is_received_is_within_the_bound(choices in prop::collection::vec(0u32..5040, 30), elements in 0usize..50) {
        let program = drawn(&choices);
        let procedure = program.nest().output().row.route.procedure().expect("it is by a procedure");
        let most = procedure.most_received(elements);
        for fewer in 0..=elements {
            let received = procedure.received(|_| fewer).into_iter().max();
            prop_assert!(received <= Some(most), "{fewer} of {elements} by {procedure}: {received:?}, at most {most}");
        }
    }
}

/// A sum with too many steps to count, 150 of 12 ranks, is within the bound.
#[test]
fn a_sum_in_too_many_steps_to_be_counted_is_the_sequential_one() {
    vars!(m, mb, mi, n, k, ko, ki);
    let mesh = Mesh::new([("x", 12)]);
    let [x] = mesh.axes();
    let product =
        kernel! { fn product(A: [i64; 150, 29], B: [i64; 29, 2]) -> C: [i64; 150, 2] { C[m, n] += A[m, k] * B[k, n] } };
    let in_rows = product
        .distribute([k], [ko], [ki], &mesh)
        .divide(m, mb, mi, 150)
        .reorder([mb, mi, n, ki])
        .shard("A", [k.at(x)])
        .shard("B", [k.at(x)])
        .shard("C", [])
        .communicate("C", "mb");
    let program = by_procedure(&in_rows.lower().expect("it is legal"), &mut Choices::new(&[1, 2, 3, 4, 5, 6]));
    assert!(!is_the_sequential_one(&read_back(&program.expect("its sums meet everywhere"))));
}

/// The random programs include procedures of all kinds, and short and empty tiles.
#[test]
fn random_programs_show_procedures_of_all_kinds() {
    let (mut shown, mut assigns, mut sizes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for seed in 0..150u32 {
        let choices: Vec<u32> =
            (0..30).map(|nth| (seed * 7919 + nth * nth * 104_729 + seed * nth * 31) % 5040).collect();
        let program = drawn(&choices);
        let output = program.nest().output();
        shown.insert(output.route.procedure().expect("it is by a procedure").to_string());
        assigns.insert(program.kernel().assign().to_string());
        let ranges = program.nest().ranges();
        let last: Vec<i64> = ranges.counters.iter().map(|extent| extent - 1).collect();
        let at = |rank: usize| program.mesh().coordinates(rank).into_iter().map(|at| at as i64).collect::<Vec<_>>();
        for rank in 0..program.mesh().size() {
            let region = output.region.at(&at(rank), &last);
            let elements = region.map_or(0, |along| along.iter().map(|range| range.count()).product());
            sizes.insert(elements.min(1) + u64::from(elements == output.tile.capacity as u64 && elements > 0));
        }
    }
    for procedure in ["AllReduce", "Reduce-Broadcast", "ReduceScatter-AllReduce-AllGather", "the order of the ranks"] {
        assert!(shown.contains(procedure), "{procedure} is not in {shown:?}");
    }
    assert!(shown.len() > 20, "{shown:?}");
    assert_eq!(assigns.into_iter().collect::<Vec<_>>(), ["+=", "=", "max=", "min="]);
    assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [0, 1, 2], "empty, short and full tiles");
}
