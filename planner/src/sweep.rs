//! Which grid of ranks a sweep should run on: the complexity of the all-to-alls, and its least.
//!
//! T. Birkeland and T. Sorevik, "Parallel Redistribution of Multidimensional Data", ParCo 2007, section 5. A sweep
//! of an array of `n` to the power of `ndim` elements over a grid of `p_1 x .. x p_r` ranks, `R` in all, makes one
//! all-to-all along each axis. Along axis `j` a rank sends `p_j - 1` messages, each of a `p_j`-th of its tile:
//!
//! ```text
//! W = sum over j of (p_j - 1) (ts + tw n^ndim / (R p_j))
//! ```
//!
//! With `r` equal axes this is the paper's W1, equation 5.2, and with one axis of all ranks its W2, equation 5.3.
//!
//! **Splitting an axis.** Where an axis of `p q` ranks becomes two of `p` and `q`, W changes by
//! `(p - 1) (q - 1) (tw n^ndim / (R p q) - ts)`: fewer messages, more elements. For one axis of all `R` ranks the
//! sign depends on `R` alone, so pencils of any shape beat slabs exactly if `R * R > tw n^ndim / ts`.
//!
//! The formulas compare grids. They know neither topology nor contention, and do not predict elapsed times.

use crate::factor::divisors;
use polyshard_layout::Collective;
use polyshard_machine::{Algorithm, GroupedCollective, Machine, MachineError, seconds};
use std::fmt;

/// What a message costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Seconds per message, `ts` of the paper.
    pub latency: f64,
    /// Seconds per element, `tw` of the paper: the inverse of the bandwidth.
    pub per_element: f64,
}

impl Network {
    /// Returns the cost of a message between the first two devices of a machine, for elements of `element_bytes` bytes each; zero if
    /// the machine has only one device.
    ///
    /// ```
    /// use polyshard_machine::{Device, Interconnect, Level, Machine};
    /// use polyshard_planner::sweep::Network;
    /// let device = Device { memory_bandwidth: 1e10, memory_capacity: 1 << 30, ..Device::default() };
    /// let machine = Machine::new("node", vec![Level::new("core", 4, Interconnect::Switch, 1e10, 1e-6)], device)?;
    /// assert_eq!(Network::of(&machine, 16)?, Network { latency: 1e-6, per_element: 1.6e-9 });
    /// # Ok::<(), polyshard_machine::MachineError>(())
    /// ```
    ///
    /// # Errors
    /// None of a machine that has these devices.
    pub fn of(machine: &Machine, element_bytes: usize) -> Result<Self, MachineError> {
        if machine.devices() < 2 {
            return Ok(Self { latency: 0.0, per_element: 0.0 });
        }
        let (operation, groups, bytes) = (Collective::Permute, vec![vec![0, 1]], element_bytes as f64);
        let taken = seconds(machine, &GroupedCollective { operation, groups, bytes }, Algorithm::Ring)?;
        Ok(Self { latency: taken.latency, per_element: taken.transfer })
    }
}

/// An array of `extent` to the power of `ndim` elements, all of whose dimensions are swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cube {
    /// The extent of each dimension.
    pub extent: usize,
    /// The number of dimensions.
    pub ndim: usize,
}

/// A grid for a sweep, with what it costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Ranks along each axis, most first.
    pub extents: Vec<usize>,
    /// Seconds that a rank spends in the all-to-alls of one sweep, by [`sweep_seconds`].
    pub seconds: f64,
}

/// Returns the seconds of a sweep over a grid with these extents: W of the [module](self).
///
/// ```
/// use polyshard_planner::sweep::{Cube, Network, sweep_seconds};
/// let (cube, network) = (Cube { extent: 8, ndim: 3 }, Network { latency: 10.0, per_element: 1.0 });
/// // One axis of 4: 3 messages of 512 / (4 * 4) elements. Two of 2: twice 1 message of 512 / (4 * 2).
/// assert_eq!(sweep_seconds(&[4], cube, network), 3.0 * (10.0 + 32.0));
/// assert_eq!(sweep_seconds(&[2, 2], cube, network), 2.0 * (10.0 + 64.0));
/// ```
#[must_use]
pub fn sweep_seconds(grid: &[usize], cube: Cube, network: Network) -> f64 {
    let ranks: f64 = grid.iter().map(|&p| p as f64).product();
    let along = |&p: &usize| {
        let p = p as f64;
        (p - 1.0) * (network.latency + network.per_element * cube.elements() / (ranks * p))
    };
    grid.iter().map(along).sum()
}

/// Returns the grid of `ranks` ranks on which a sweep of `cube` costs least; none if no grid fits.
///
/// A grid fits if it has fewer axes than the cube has dimensions, and no more ranks along any axis than a
/// dimension has indices. All factorisations are tried, unequal ones too; axes of one rank are left out, except
/// that one rank is the grid `1`. Of grids that cost the same the one with fewest axes is taken.
///
/// ```
/// use polyshard_planner::sweep::{Cube, Network, best_grid};
/// let (cube, network) = (Cube { extent: 8, ndim: 3 }, Network { latency: 10.0, per_element: 1.0 });
/// assert_eq!(best_grid(4, cube, network).expect("a slab has 2 rows").extents, [4]);
/// assert_eq!(best_grid(12, cube, network).expect("a pencil has 2 x 3 rows").to_string(), "4x3");
/// assert_eq!(best_grid(11, cube, network), None); // a prime number of ranks, and only 8 rows
/// ```
///
/// # Panics
/// If there are no ranks.
#[must_use]
pub fn best_grid(ranks: usize, cube: Cube, network: Network) -> Option<Grid> {
    let grids = grids(ranks, cube).into_iter().map(|extents| {
        let seconds = sweep_seconds(&extents, cube, network);
        Grid { extents, seconds }
    });
    grids.min_by(|a, b| a.seconds.total_cmp(&b.seconds).then(a.extents.len().cmp(&b.extents.len())))
}

/// Returns the number of ranks beyond which pencils beat slabs, as a real number: where W of one axis and of two
/// cross, or where slabs run out of rows, whichever comes first.
///
/// ```text
/// slabs   1 .. crossover        pencils   from there on, where the number of ranks has two factors
/// ```
///
/// It does not depend on the shape of the pencils, see the [module](self).
///
/// ```
/// use polyshard_planner::sweep::{Cube, Network, crossover};
/// // sqrt(512 / 10) = 7.2, below the 8 rows that there are.
/// let network = Network { latency: 10.0, per_element: 1.0 };
/// assert!((crossover(Cube { extent: 8, ndim: 3 }, network) - 7.155).abs() < 1e-3);
/// // Messages that cost nothing to begin: slabs, as long as there are rows.
/// assert_eq!(crossover(Cube { extent: 8, ndim: 3 }, Network { latency: 0.0, per_element: 1.0 }), 8.0);
/// ```
#[must_use]
pub fn crossover(cube: Cube, network: Network) -> f64 {
    let balance = (network.per_element * cube.elements() / network.latency).sqrt();
    // An array without elements or a network without cost has no balance; slabs then do as long as they can.
    balance.min(cube.extent as f64)
}

impl Cube {
    fn elements(self) -> f64 {
        (0..self.ndim).map(|_| self.extent as f64).product()
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.extents.iter().map(usize::to_string).collect::<Vec<_>>().join("x"))
    }
}

/// The grids of `ranks` ranks that fit, each with its extents descending.
fn grids(ranks: usize, cube: Cube) -> Vec<Vec<usize>> {
    assert!(ranks > 0, "a grid of 0 ranks; a grid has at least 1");
    let mut found = Vec::new();
    if cube.ndim < 2 {
        return found;
    }
    if ranks == 1 {
        found.push(vec![1]);
    } else {
        factorise(ranks, cube.extent, cube.ndim - 1, &mut Vec::new(), &mut found);
    }
    found
}

/// Adds to `found` each way to write `rest` after the factors of `head` with at most `axes` factors of 2 to `most`,
/// descending.
fn factorise(rest: usize, most: usize, axes: usize, head: &mut Vec<usize>, found: &mut Vec<Vec<usize>>) {
    if rest == 1 {
        found.push(head.clone());
        return;
    }
    if axes == 0 {
        return;
    }
    for factor in divisors(rest).into_iter().filter(|&factor| factor > 1 && factor <= most) {
        head.push(factor);
        factorise(rest / factor, factor, axes - 1, head, found);
        head.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CUBE: Cube = Cube { extent: 64, ndim: 3 };

    #[test]
    fn equal_axes_cost_what_the_paper_says() {
        // W1 = r (P - 1) (ts + tw N^d / P^(r + 1)) with r = 2, P = 4: 2 * 3 * (100 + 0.5 * 262144 / 64).
        let network = Network { latency: 100.0, per_element: 0.5 };
        assert_eq!(sweep_seconds(&[4, 4], CUBE, network), 12_888.0);
        // W2 = (P^r - 1) (ts + tw N^d / P^(2r)): 15 * (100 + 0.5 * 262144 / 256).
        assert_eq!(sweep_seconds(&[16], CUBE, network), 9_180.0);
        // Three axes of 2 in four dimensions of 4: 3 * 1 * (100 + 0.5 * 256 / 16).
        assert_eq!(sweep_seconds(&[2, 2, 2], Cube { extent: 4, ndim: 4 }, network), 324.0);
    }

    #[test]
    fn axes_of_one_rank_cost_nothing() {
        let network = Network { latency: 3.0, per_element: 1.0 };
        assert_eq!(sweep_seconds(&[1], CUBE, network), 0.0);
        assert_eq!(sweep_seconds(&[1, 8], CUBE, network), sweep_seconds(&[8], CUBE, network));
    }

    #[test]
    fn the_grids_that_fit_are_all_factorisations() {
        let check = |ranks, cube, expected: &[&[usize]]| {
            let mut found = grids(ranks, cube);
            found.sort();
            assert_eq!(found, expected, "{ranks} ranks, {cube:?}");
        };
        check(1, CUBE, &[&[1]]);
        check(7, CUBE, &[&[7]]);
        check(12, CUBE, &[&[4, 3], &[6, 2], &[12]]);
        check(12, Cube { extent: 6, ndim: 4 }, &[&[3, 2, 2], &[4, 3], &[6, 2]]);
        check(67, CUBE, &[]);
        check(128, Cube { extent: 64, ndim: 2 }, &[]);
        check(1, Cube { extent: 5, ndim: 1 }, &[]);
    }

    #[test]
    fn slabs_give_way_to_pencils_at_the_crossover() {
        // sqrt(64^3 * 1 / 256) = 32.
        let network = Network { latency: 256.0, per_element: 1.0 };
        assert_eq!(crossover(CUBE, network), 32.0);
        let axes = |ranks| best_grid(ranks, CUBE, network).expect("it fits").extents.len();
        // On the crossover both cost the same, and fewer axes are taken.
        assert_eq!([16, 30, 32, 33, 36, 64].map(axes), [1, 1, 1, 2, 2, 2]);
        // A prime number has no pencils, and beyond the rows there are no slabs.
        assert_eq!(axes(61), 1);
        let cheap = Network { latency: 0.0, per_element: 1.0 };
        assert_eq!(crossover(CUBE, cheap), 64.0);
        assert_eq!([64, 66].map(|ranks| best_grid(ranks, CUBE, cheap).expect("it fits").extents.len()), [1, 2]);
    }

    #[test]
    fn an_array_without_elements_and_a_network_without_cost_still_have_a_crossover() {
        let free = Network { latency: 0.0, per_element: 0.0 };
        assert_eq!(crossover(CUBE, free), 64.0);
        assert_eq!(crossover(Cube { extent: 0, ndim: 3 }, Network { latency: 1.0, per_element: 1.0 }), 0.0);
    }

    /// All tuples of `axes` extents with this product, trivial and unordered ones too.
    fn tuples(ranks: usize, axes: usize) -> Vec<Vec<usize>> {
        if axes == 0 {
            return if ranks == 1 { vec![vec![]] } else { vec![] };
        }
        let heads = (1..=ranks).filter(|&head| ranks.is_multiple_of(head));
        heads
            .flat_map(|head| tuples(ranks / head, axes - 1).into_iter().map(move |rest| [&[head], &rest[..]].concat()))
            .collect()
    }

    proptest! {
        /// No grid that fits costs less than the one that is chosen.
        #[test]
        fn the_choice_is_the_least_of_all_grids(
            ranks in 1usize..200, extent in 1usize..40, ndim in 2usize..5, latency in 0.0..1e3, per_element in 0.0..1.0,
        ) {
            let (cube, network) = (Cube { extent, ndim }, Network { latency, per_element });
            let fitting = tuples(ranks, ndim - 1).into_iter().filter(|grid| grid.iter().all(|&p| p <= extent));
            let least = fitting.map(|grid| sweep_seconds(&grid, cube, network)).min_by(f64::total_cmp);
            let chosen = best_grid(ranks, cube, network);
            prop_assert_eq!(chosen.is_some(), least.is_some());
            if let (Some(chosen), Some(least)) = (chosen, least) {
                prop_assert_eq!(chosen.extents.iter().product::<usize>(), ranks);
                prop_assert!(chosen.extents.iter().all(|&p| p <= extent) && chosen.extents.len() < ndim);
                // Trivial axes and other orders change the last bits of a sum at most.
                prop_assert!(chosen.seconds <= least * (1.0 + 1e-12), "{} {}", chosen.seconds, least);
            }
        }

        /// Pencils of any shape beat slabs beyond the crossover and nowhere before.
        #[test]
        fn the_crossover_does_not_depend_on_the_pencils_shape(
            p in 2usize..12, q in 2usize..12, latency in 1.0..1e4, per_element in 1e-3..1.0,
        ) {
            let (cube, network) = (Cube { extent: 144, ndim: 3 }, Network { latency, per_element });
            let [slabs, pencils] = [&[p * q][..], &[p, q]].map(|grid| sweep_seconds(grid, cube, network));
            let at = crossover(cube, network);
            // At the crossover itself the two are equal up to rounding.
            prop_assume!((at / (p * q) as f64 - 1.0).abs() > 1e-9);
            prop_assert_eq!(pencils < slabs, (p * q) as f64 > at);
        }
    }
}
