//! With little memory, the chosen schedule moves no more than the best grid that fits.

use crate::machines::machine;
use polyshard_polyhedral::Schedule;
use polyshard_search::Choose;
use polyshard_testing::example;

const RANKS: usize = 64;

/// The words that a rank receives on the best grid of a product of square matrices, in even shares of one matrix, if
/// its memory has room for `room` shares.
///
/// On a grid of `m`, `n` and `k` ranks, the tiles of A, B and C are `n`, `m` and `k` shares, of which a rank owns one.
/// A loop in panels cuts the tiles of two matrices; the third needs its whole tile in addition to the shares, unless
/// the tile is one share.
///
/// ```text
/// room     tiles       received
/// 3 to 5   1, 8, 8     14
/// 5 to 7   2, 4, 8     11
/// from 7   4, 4, 4      9
/// ```
fn fewest(room: f64) -> usize {
    let divisors = || (0..=6).map(|power| 1usize << power);
    let grids = divisors().flat_map(|m| divisors().map(move |n| [n, m, RANKS / (m * n)]));
    let fits = |tiles: &[usize; 3]| {
        let whole = tiles.iter().map(|&tile| if tile > 1 { tile } else { 0 }).min().unwrap_or(0);
        tiles.iter().product::<usize>() == RANKS && 3.0 + whole as f64 <= room
    };
    let received = grids.filter(fits).map(|tiles| tiles.iter().map(|tile| tile - 1).sum());
    received.min().expect("one tile may be a share")
}

#[test]
fn no_grid_that_fits_moves_less_than_what_is_chosen() {
    let (extent, machine) = (4096usize, machine(RANKS, 1e6));
    let (share, product) = (extent * extent / RANKS, Schedule::from_spec(example::matmul(extent, extent, extent)));
    for (shares, expected) in [(1.1, 14), (1.5, 14), (1.8, 11), (2.6, 9)] {
        assert_eq!(fewest(3.0 * shares), expected);
        let bytes = (shares * 3.0 * share as f64) as u64 * 4;
        let choice = product.auto(RANKS, &machine).all_ranks().memory(bytes).find().expect("a choice");
        let received = choice.best().words() as f64 / share as f64;
        assert!(choice.cost().memory <= bytes);
        assert_eq!(received, expected as f64, "{shares} shares\n{}", choice.program());
    }
}
