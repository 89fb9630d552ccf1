//! Reductions by programs, on emulated machines: the same law as on threads, down to the bytes received.

use polyshard::runtime::spmd_emulated;
use polyshard_testing::laws::reduce::{every, placements};

/// The machines are slow and the runs are many: a second of machine time takes a nanosecond.
const FAST: f64 = 1e-9;

#[test]
fn every_program_of_two_levels_reduces_like_the_direct_one() {
    for (counts, extents) in [(&[2, 2][..], &[4][..]), (&[2, 3], &[6])] {
        for placed in placements(counts, extents) {
            let ran = spmd_emulated(placed.machine(), FAST, |world| every(world, &placed, &[0], 1));
            let ran = ran.unwrap_or_else(|error| panic!("{placed}: {error}"));
            assert!(ran.iter().all(|&programs| programs == 47 + 2), "{placed}: {ran:?}");
        }
    }
}
