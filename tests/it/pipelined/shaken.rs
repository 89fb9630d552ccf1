//! Messages that overtake each other: a seed draws a delay for each one, and no bit changes.

use super::*;
use std::time::Duration;

/// The maximum delay of a message: longer than most leaves here, so that messages seldom arrive in the order of
/// posting.
const LATE: Duration = Duration::from_micros(500);

/// Runs both programs and compares the bits on each rank: `waiting` without delays, `ahead` with those of each seed.
#[track_caller]
fn check(waiting: &Program, ahead: &Program, seeds: impl IntoIterator<Item = u64>) {
    let ranks = waiting.mesh().size();
    let expected = polyshard::spmd(ranks, |world| bits(world, waiting)).expect("it runs");
    for seed in seeds {
        let machine = machine(ranks, seed as usize % 70);
        let found = spmd_emulated_shaken(&machine, 0.01, seed, LATE, |world| bits(world, ahead));
        let found = found.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{ahead}"));
        assert!(found == expected, "seed {seed}\n{ahead}");
    }
}

fn lowered(schedule: &Schedule) -> Program {
    schedule.lower().unwrap_or_else(|error| panic!("{error}\n{schedule}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_schedules_give_the_same_bits_whatever_comes_first(
        kind in 0usize..3, choices in prop::collection::vec(0u32..5040, 0..90), depth in 1usize..5, seed in any::<u32>(),
    ) {
        let Some([waiting, ahead]) = pair(kind, &choices, depth)? else { return Ok(()) };
        let seed = u64::from(seed);
        check(&waiting, &ahead, [seed, seed + 1]);
        check(&waiting, &ahead.by_exchange(), [seed]);
        check(&waiting, &waiting, [seed]);
    }

    #[test]
    fn random_halos_give_the_same_bits_whatever_comes_first(
        choices in prop::collection::vec(0u32..5040, 0..40), seed in any::<u32>(),
    ) {
        let Some([waiting, first]) = stencil_pair(&choices) else { return Ok(()) };
        let seed = u64::from(seed);
        check(&waiting, &first, [seed, seed + 1]);
    }
}

/// Each kind of transfer that begins ahead, by groups of two ranks, which send directly, and of more, which forward the
/// data.
#[test]
fn broadcasts_shifts_and_sums_give_the_same_bits_whatever_comes_first() {
    let leaf = ["mi", "ni", "ki"];
    for extents in [[2, 2], [1, 4], [2, 3]] {
        let mesh = Mesh::new([("x", extents[0]), ("y", extents[1])]);
        let broadcast = summa(&mesh, [9, 23, 7], 5);
        for depth in [1, 2, 4] {
            let ahead = broadcast.clone().pipeline("ko", depth).tensorize(leaf);
            check(&lowered(&broadcast.clone().tensorize(leaf)), &lowered(&ahead), 0..3);
        }
    }
    let mesh = Mesh::new([("x", 3), ("y", 3)]);
    let shifts = summa(&mesh, [9, 23, 7], 3).rotate("ko", ["mo", "no"]);
    check(&lowered(&shifts.clone().tensorize(leaf)), &lowered(&shifts.pipeline("ko", 1).tensorize(leaf)), 0..5);
    for (ranks, columns) in [(2, 5), (4, 5), (3, 3001)] {
        let mesh = Mesh::new([("x", ranks)]);
        for home in ["reduce", "reduce-scatter", "all-reduce"] {
            let sums = summed(&mesh, [11, 6, columns], 5, home);
            let leaf = ["mi", "n", "ki"];
            for depth in [1, 3] {
                let ahead = sums.clone().pipeline("mo", depth).tensorize(leaf);
                check(&lowered(&sums.clone().tensorize(leaf)), &lowered(&ahead), 0..2);
            }
        }
    }
    let mesh = Mesh::new([("x", 3), ("y", 2)]);
    let blur = blurred(14, &mesh);
    check(&lowered(&blur), &lowered(&blur.clone().interior_first("u")), 0..5);
}
