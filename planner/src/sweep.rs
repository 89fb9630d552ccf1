//! Which grid of ranks a sweep should run on: the one on which its moves take the least time.
//!
//! A sweep makes one dimension of an array whole after the other, by an all-to-all along each axis of the grid
//! ([`SweepStage`]). With one axis ranks have slabs, with two pencils: fewer messages for each rank, and more moves.
//! T. Birkeland and T. Sorevik, "Parallel Redistribution of Multidimensional Data", ParCo 2007, section 5, compare grids by a formula;
//! here each grid's moves are priced as the programs that they are.

use crate::cost::{CostError, Prices};
use crate::factor::divisors;
use polyshard_layout::{Mesh, SweepStage};
use polyshard_machine::Machine;
use polyshard_program::{DType, Program};
use std::fmt;

/// A grid for a sweep, with what it costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Ranks along each axis.
    pub extents: Vec<usize>,
    /// Seconds of the moves of one sweep, as [`cost`](crate::cost()) has them.
    pub seconds: f64,
}

/// Returns the grid of `ranks` ranks on which a sweep of dimensions `0..swept` of arrays of `shape` takes the least time on the first
/// devices of a machine; none if no grid fits.
///
/// A grid fits if it has fewer axes than dimensions are swept, and no more ranks along any axis than each of these has indices. All
/// factorisations are tried, in each order; axes of one rank are left out, except that one rank is the grid `1`. Of grids
/// that cost the same the one with fewest axes is taken.
///
/// ```
/// use polyshard::planner::sweep::best_grid;
/// use polyshard::prelude::*;
/// let machine = Machine::preset("a100")?.with_counts(&[4, 16])?;
/// // All ranks in one all-to-all, while there are rows for them.
/// let slabs = best_grid(64, &[64, 64, 64], 3, DType::F64, &machine)?;
/// assert_eq!(slabs.map(|grid| grid.to_string()), Some("64".into()));
/// // Then pencils, as a slab would have no rows for some ranks.
/// let pencils = best_grid(64, &[16, 16, 16], 3, DType::F64, &machine)?.expect("a grid");
/// assert_eq!(pencils.extents.len(), 2);
/// // A prime number of ranks, and only 8 rows.
/// assert_eq!(best_grid(11, &[8, 8, 8], 3, DType::F64, &machine)?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`CostError::Devices`] if the machine has fewer devices.
///
/// # Panics
/// If there are no ranks, or more dimensions are swept than there are.
pub fn best_grid(
    ranks: usize,
    shape: &[usize],
    swept: usize,
    dtype: DType,
    machine: &Machine,
) -> Result<Option<Grid>, CostError> {
    let rows = shape[..swept].iter().copied().min().unwrap_or(0);
    let prices = Prices::new(machine);
    let mut best: Option<Grid> = None;
    for extents in grids(ranks, rows, swept) {
        let seconds = seconds(&extents, shape, swept, dtype, &prices)?;
        let is_better =
            |best: &Grid| seconds.total_cmp(&best.seconds).then(extents.len().cmp(&best.extents.len())).is_lt();
        if best.as_ref().is_none_or(is_better) {
            best = Some(Grid { extents, seconds });
        }
    }
    Ok(best)
}

/// The seconds of all moves of a sweep over a grid.
fn seconds(grid: &[usize], shape: &[usize], swept: usize, dtype: DType, prices: &Prices<'_>) -> Result<f64, CostError> {
    let mesh = Mesh::new(grid.iter().enumerate().map(|(axis, &extent)| (format!("p{axis}"), extent)));
    let stages = SweepStage::all(&mesh, shape, swept);
    let moves = stages.windows(2).map(|pair| {
        let program = Program::redistribution("A", [pair[0].sharding(), pair[1].sharding()], dtype);
        let program =
            program.unwrap_or_else(|error| panic!("a sweep has no move: {error}; this is a bug in polyshard"));
        Ok(prices.of(&program)?.seconds())
    });
    moves.sum()
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.extents.iter().map(usize::to_string).collect::<Vec<_>>().join("x"))
    }
}

/// The grids of `ranks` ranks that fit.
fn grids(ranks: usize, rows: usize, swept: usize) -> Vec<Vec<usize>> {
    assert!(ranks > 0, "a grid of 0 ranks; a grid has at least 1");
    let mut found = Vec::new();
    if swept < 2 {
        return found;
    }
    if ranks == 1 {
        found.push(vec![1]);
    } else {
        factorise(ranks, rows, swept - 1, &mut Vec::new(), &mut found);
    }
    found
}

/// Adds to `found` each way to write `rest` after the factors of `head` with at most `axes` factors of 2 to `most`.
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
        factorise(rest / factor, most, axes - 1, head, found);
        head.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyshard_machine::{Device, Interconnect, Level};

    /// Nodes of two ranks, of which each has a port of its own inside of a node, and all of a node one outside.
    fn nodes(nodes: usize, outside: f64) -> Machine {
        let device = Device { memory_bandwidth: 1e12, memory_capacity: 1 << 30, ..Device::default() };
        let inside = Level::new("rank", 2, Interconnect::Switch, 1e10, 1e-6);
        let level = Level { shared_ports: Some(1), ..Level::new("node", nodes, Interconnect::Switch, outside, 1e-6) };
        Machine::new("nodes", vec![level, inside], device).expect("a machine")
    }

    #[test]
    fn the_grids_that_fit_are_all_factorisations() {
        let check = |ranks, rows, swept, expected: &[&[usize]]| {
            let mut found = grids(ranks, rows, swept);
            found.sort();
            assert_eq!(found, expected, "{ranks} ranks, {rows} rows, {swept} dimensions");
        };
        check(1, 64, 3, &[&[1]]);
        check(7, 64, 3, &[&[7]]);
        check(12, 64, 3, &[&[2, 6], &[3, 4], &[4, 3], &[6, 2], &[12]]);
        check(12, 6, 4, &[&[2, 2, 3], &[2, 3, 2], &[2, 6], &[3, 2, 2], &[3, 4], &[4, 3], &[6, 2]]);
        check(67, 64, 3, &[]);
        check(128, 64, 2, &[]);
        check(1, 5, 1, &[]);
    }

    #[test]
    fn a_grid_takes_as_long_as_its_all_to_alls() {
        let machine = nodes(2, 1e9);
        let of = |grid: &[usize]| seconds(grid, &[8, 8, 8], 3, DType::F64, &Prices::new(&machine)).expect("a price");
        let tile = 8.0 * 512.0 / 4.0;
        let close =
            |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found}, not {expected}");
        // Both ranks of a node send half of their tiles to the other node by one port.
        close(of(&[4]), tile / 1e9 + 1e-6);
        // The second axis is inside of nodes: half of a tile goes to the neighbour, and then one to the other node.
        close(of(&[2, 2]), tile / 2.0 / 1e10 + 1e-6 + tile / 1e9 + 1e-6);
    }

    #[test]
    fn slabs_give_way_to_pencils_where_there_are_no_more_rows() {
        let machine = nodes(8, 1e9);
        let best = |shape: &[usize]| {
            let grid = best_grid(16, shape, 3, DType::F64, &machine).expect("a price");
            grid.map(|grid| grid.extents)
        };
        assert_eq!(best(&[16, 16, 16]), Some(vec![16]));
        assert_eq!(best(&[16, 16, 15]).map(|extents| extents.len()), Some(2));
        assert_eq!(best(&[16, 3, 16]), None);
        let few = best_grid(32, &[32, 32, 32], 3, DType::F64, &machine).expect_err("too few devices");
        assert!(matches!(few, CostError::Devices { ranks: 32, devices: 16, .. }));
    }
}
