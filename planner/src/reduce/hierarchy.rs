//! Synthesis hierarchies: the levels that a reduction sees.
//!
//! A parallelism matrix can be written as a hierarchy by its columns or by its rows; the rows of the reduction axes
//! alone make a smaller and more expressive one (Xie et al., theorem 3.2), since all groups that are summed have the
//! same shape. Factors of one machine level are collapsed, because switches gain nothing from splitting them (section
//! 2.5), and levels that the reduction does not cross are left out. A root of one member is put in front, so that every
//! level has a level outside it.

use super::ReduceError;
use crate::placement::ParallelismMatrix;
use polyshard_machine::Machine;
use std::fmt;

/// Named levels, outermost first; the outermost has one member.
///
/// ```
/// use polyshard::planner::placement::ParallelismMatrix;
/// use polyshard::planner::reduce::Hierarchy;
/// let matrix = ParallelismMatrix::new(vec![vec![1, 1, 2, 2], vec![1, 2, 1, 2]])?;
/// assert_eq!(Hierarchy::reduction(&matrix, &[1])?.to_string(), "root 1, level1 2, level3 2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    names: Vec<String>,
    counts: Vec<usize>,
}

impl Hierarchy {
    /// Returns the hierarchy of these levels, outermost first; a `root` is put in front unless the first level has one
    /// member.
    ///
    /// # Errors
    /// If a count is 0 or the number of devices overflows.
    pub fn new<N: Into<String>>(levels: impl IntoIterator<Item = (N, usize)>) -> Result<Self, ReduceError> {
        let (mut names, mut counts): (Vec<String>, Vec<usize>) =
            levels.into_iter().map(|(name, count)| (name.into(), count)).unzip();
        if counts.first() != Some(&1) {
            names.insert(0, "root".into());
            counts.insert(0, 1);
        }
        let devices = counts.iter().try_fold(1usize, |devices, &count| devices.checked_mul(count));
        match devices {
            Some(1..) => Ok(Self { names, counts }),
            _ => Err(ReduceError::Counts { counts }),
        }
    }

    /// Returns the hierarchy of a reduction over `axes`: a root, and each level at which they are cut.
    ///
    /// A level has as many members as the product of the axes' factors there, and is named by its position.
    ///
    /// # Errors
    /// If an axis does not exist or is named twice.
    pub fn reduction(matrix: &ParallelismMatrix, axes: &[usize]) -> Result<Self, ReduceError> {
        Self::cut(matrix, axes, |level| format!("level{level}"))
    }

    /// Returns the same hierarchy as [`reduction`](Self::reduction), with the names of the machine's levels.
    ///
    /// # Errors
    /// If the matrix is not for this machine, or an axis does not exist or is named twice.
    pub fn on_machine(machine: &Machine, matrix: &ParallelismMatrix, axes: &[usize]) -> Result<Self, ReduceError> {
        matrix.check(machine)?;
        Self::cut(matrix, axes, |level| machine.levels()[level].name.clone())
    }

    /// Returns the counts, outermost first; the first is 1.
    #[must_use]
    pub fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// Returns the names, outermost first.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the number of devices.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.counts.iter().product()
    }

    fn cut(matrix: &ParallelismMatrix, axes: &[usize], name: impl Fn(usize) -> String) -> Result<Self, ReduceError> {
        matrix.check_axes(axes)?;
        // Factors of one level are multiplied.
        let factor = |level: usize| axes.iter().map(|&axis| matrix.rows()[axis][level]).product::<usize>();
        let cut = (0..matrix.rows()[0].len()).map(|level| (level, factor(level))).filter(|(_, factor)| *factor > 1);
        Self::new([("root".to_string(), 1)].into_iter().chain(cut.map(|(level, factor)| (name(level), factor))))
    }
}

impl fmt::Display for Hierarchy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels = self.names.iter().zip(&self.counts).map(|(name, count)| format!("{name} {count}"));
        f.write_str(&levels.collect::<Vec<_>>().join(", "))
    }
}
