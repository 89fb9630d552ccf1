//! Parallelism matrices: how many ways each mesh axis is cut at each level.
//!
//! A matrix is a map between the coordinates of a mesh and the ranks of a machine, both ways. Inside a level, axis 0
//! is the outer digit; along an axis, the outermost level is.
//!
//! ```text
//! hierarchy 4 nodes, 16 GPUs     axis 0 [2 4]     a rank is node = 2 a + b        a in 0..2, c in 0..4   of axis 0
//! axes 8, 8                      axis 1 [2 4]               GPU  = 4 c + d        b in 0..2, d in 0..4   of axis 1
//!                                                 and stands at coordinates (4 a + c, 4 b + d)
//! ```

use super::PlacementError;
use polyshard_machine::Machine;
use serde::Serialize;
use std::fmt;

/// A placement of the axes of a mesh on the levels of a machine.
///
/// ```
/// use polyshard::planner::placement::ParallelismMatrix;
/// // 4 data-parallel replicas of 16 shards each, on 4 nodes of 16 GPUs: a replica is half of two nodes.
/// let matrix = ParallelismMatrix::new(vec![vec![2, 2], vec![2, 8]])?;
/// assert_eq!((matrix.axes(), matrix.hierarchy()), (vec![4, 16], vec![4, 16]));
/// assert_eq!(matrix.rank(&[3, 5]), 45); // node 2, its second half, the 6th GPU there
/// assert_eq!(matrix.coordinates(45), [3, 5]);
/// assert_eq!(matrix.groups(&[0])?[5], [5, 13, 37, 45]); // the shards 5 of all replicas
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ParallelismMatrix {
    /// By axis, then by level.
    factors: Vec<Vec<usize>>,
}

impl ParallelismMatrix {
    /// Returns the matrix with these rows, one per axis, of one factor per level, outermost first.
    ///
    /// # Errors
    /// If rows or columns are missing, rows differ in length, a factor is 0, or the number of ranks overflows.
    pub fn new(factors: Vec<Vec<usize>>) -> Result<Self, PlacementError> {
        let first = factors.first().ok_or(PlacementError::Nothing { what: "axis" })?.len();
        if first == 0 {
            return Err(PlacementError::Nothing { what: "level" });
        }
        for (row, factors) in factors.iter().enumerate() {
            let columns = factors.len();
            if columns != first {
                return Err(PlacementError::Ragged { row, columns, first });
            }
            if factors.contains(&0) {
                return Err(PlacementError::Zero { what: "axis", position: row });
            }
        }
        let all: Vec<usize> = factors.concat();
        match all.iter().try_fold(1usize, |product, &factor| product.checked_mul(factor)) {
            Some(_) => Ok(Self { factors }),
            None => Err(PlacementError::TooLarge { what: "axes", sizes: all }),
        }
    }

    /// Returns the rows: the factors of each axis, outermost level first.
    #[must_use]
    pub fn rows(&self) -> &[Vec<usize>] {
        &self.factors
    }

    /// Returns the extents of the axes: the products of the rows.
    #[must_use]
    pub fn axes(&self) -> Vec<usize> {
        self.factors.iter().map(|row| row.iter().product()).collect()
    }

    /// Returns the counts of the levels: the products of the columns.
    #[must_use]
    pub fn hierarchy(&self) -> Vec<usize> {
        let levels = 0..self.factors[0].len();
        levels.map(|level| self.factors.iter().map(|row| row[level]).product()).collect()
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.factors.iter().flatten().product()
    }

    /// Returns the rank at these coordinates, one per axis.
    ///
    /// # Panics
    /// If there is not one coordinate per axis, each inside its axis.
    #[must_use]
    pub fn rank(&self, coordinates: &[usize]) -> usize {
        let axes = self.axes();
        assert_eq!(coordinates.len(), axes.len(), "{self} has {} axes", axes.len());
        assert!(coordinates.iter().zip(&axes).all(|(at, extent)| at < extent), "{coordinates:?} is outside {axes:?}");
        let mut inner = axes;
        let mut rank = 0;
        for level in 0..self.factors[0].len() {
            for (axis, row) in self.factors.iter().enumerate() {
                inner[axis] /= row[level];
                rank = rank * row[level] + coordinates[axis] / inner[axis] % row[level];
            }
        }
        rank
    }

    /// Returns the coordinates of `rank`, one per axis.
    ///
    /// # Panics
    /// If `rank` is not in `0..self.size()`.
    #[must_use]
    pub fn coordinates(&self, rank: usize) -> Vec<usize> {
        assert!(rank < self.size(), "rank {rank} is not one of the {} of {self}", self.size());
        let mut rest = self.size();
        let mut coordinates = vec![0; self.factors.len()];
        for level in 0..self.factors[0].len() {
            for (coordinate, row) in coordinates.iter_mut().zip(&self.factors) {
                rest /= row[level];
                *coordinate = *coordinate * row[level] + rank / rest % row[level];
            }
        }
        coordinates
    }

    /// Returns the machine's rank for each rank of the mesh; the mesh's ranks are row-major over the axes.
    ///
    /// ```
    /// use polyshard::planner::placement::ParallelismMatrix;
    /// let matrix = ParallelismMatrix::new(vec![vec![1, 2], vec![2, 1]])?; // axis 0 inside nodes, axis 1 across
    /// assert_eq!(matrix.ranks(), [0, 2, 1, 3]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn ranks(&self) -> Vec<usize> {
        let axes = self.axes();
        let mut ranks = vec![0; self.size()];
        for rank in 0..self.size() {
            let at = self.coordinates(rank).into_iter().zip(&axes);
            ranks[at.fold(0, |of_mesh, (at, extent)| of_mesh * extent + at)] = rank;
        }
        ranks
    }

    /// Returns the groups of ranks that differ along `axes` only, each ascending, by their first rank.
    ///
    /// # Errors
    /// If an axis does not exist or is named twice.
    pub fn groups(&self, axes: &[usize]) -> Result<Vec<Vec<usize>>, PlacementError> {
        self.check_axes(axes)?;
        let mut positions = std::collections::HashMap::new();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for rank in 0..self.size() {
            let mut others = self.coordinates(rank);
            axes.iter().for_each(|&axis| others[axis] = 0);
            let position = *positions.entry(others).or_insert(groups.len());
            if position == groups.len() {
                groups.push(Vec::new());
            }
            groups[position].push(rank);
        }
        Ok(groups)
    }

    /// Checks that the matrix places axes on this machine.
    ///
    /// # Errors
    /// If its columns do not multiply to the machine's counts.
    pub fn check(&self, machine: &Machine) -> Result<(), PlacementError> {
        let (given, hierarchy) = (self.hierarchy(), machine.hierarchy());
        match given == hierarchy {
            true => Ok(()),
            false => {
                let (matrix, machine) = (self.to_string(), machine.name().into());
                Err(PlacementError::Machine { matrix, given, machine, hierarchy })
            }
        }
    }

    /// Checks that these axes exist, each named once.
    pub(crate) fn check_axes(&self, axes: &[usize]) -> Result<(), PlacementError> {
        for (position, &axis) in axes.iter().enumerate() {
            if axis >= self.factors.len() {
                let (matrix, axes) = (self.to_string(), self.factors.len());
                return Err(PlacementError::NoAxis { axis, matrix, axes });
            }
            if axes[..position].contains(&axis) {
                return Err(PlacementError::AxisTwice { axis });
            }
        }
        Ok(())
    }
}

impl fmt::Display for ParallelismMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |row: &Vec<usize>| format!("[{}]", row.iter().map(usize::to_string).collect::<Vec<_>>().join(" "));
        write!(f, "[{}]", self.factors.iter().map(row).collect::<Vec<_>>().join(" "))
    }
}
