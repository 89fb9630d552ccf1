//! Meshes: named axes over which ranks are laid out.

use crate::{Axis, Name};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One axis of a [`Mesh`]: its name and number of coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MeshAxis {
    /// The axis' name.
    pub name: Name,
    /// The number of coordinates along it.
    pub extent: usize,
}

/// A grid of ranks with named axes; ranks are row-major, the last axis fastest.
///
/// ```
/// use polyshard_layout::Mesh;
/// let mesh = Mesh::new([("x", 2), ("y", 3)]);
/// assert_eq!(mesh.size(), 6);
/// assert_eq!(mesh.coordinates(4), [1, 1]);
/// assert_eq!(mesh.rank(&[1, 1]), 4);
/// assert_eq!(mesh.to_string(), "x: 2, y: 3");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Mesh {
    axes: Vec<MeshAxis>,
}

impl Mesh {
    /// Returns the mesh with these axes, each a name and an extent.
    ///
    /// # Panics
    /// If two axes have one name, an extent is 0, or there are more than 2^62 ranks.
    #[track_caller]
    #[must_use]
    pub fn new<N: Into<Name>>(axes: impl IntoIterator<Item = (N, usize)>) -> Self {
        let axes: Vec<_> = axes.into_iter().map(|(name, extent)| MeshAxis { name: name.into(), extent }).collect();
        for (i, axis) in axes.iter().enumerate() {
            assert!(axis.extent > 0, "mesh axis `{}` has extent 0; an axis has at least one coordinate", axis.name);
            assert!(
                axes[..i].iter().all(|other| other.name != axis.name),
                "mesh has two axes named `{}`; give each axis its own name",
                axis.name
            );
        }
        assert!(countable(&axes), "the number of ranks of the mesh is beyond 2^62; use smaller extents");
        Self { axes }
    }

    /// Returns the axes, outermost first.
    #[must_use]
    pub fn as_slice(&self) -> &[MeshAxis] {
        &self.axes
    }

    /// Returns the axes as values to write placements with.
    ///
    /// # Panics
    /// If the mesh has not exactly `N` axes.
    #[track_caller]
    #[must_use]
    pub fn axes<const N: usize>(&self) -> [Axis; N] {
        let axes: Vec<_> = self.axes.iter().map(|axis| Axis { name: axis.name, extent: axis.extent }).collect();
        let Ok(axes) = axes.try_into() else { panic!("mesh ({self}) has {} axes, not {N}", self.ndim()) };
        axes
    }

    /// Returns the axis named `name`, if there is one.
    #[must_use]
    pub fn axis(&self, name: &str) -> Option<Axis> {
        self.axes.iter().find(|axis| axis.name == *name).map(|axis| Axis { name: axis.name, extent: axis.extent })
    }

    /// Returns the position of the axis named `name`, if there is one.
    #[must_use]
    pub fn position(&self, name: Name) -> Option<usize> {
        self.axes.iter().position(|axis| axis.name == name)
    }

    /// Returns the number of axes.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.axes.len()
    }

    /// Returns the extents, outermost first.
    #[must_use]
    pub fn extents(&self) -> Vec<usize> {
        self.axes.iter().map(|axis| axis.extent).collect()
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.axes.iter().map(|axis| axis.extent).product()
    }

    /// Returns the coordinates of `rank`.
    ///
    /// # Panics
    /// If `rank` is not in `0..self.size()`.
    #[track_caller]
    #[must_use]
    pub fn coordinates(&self, rank: usize) -> Vec<usize> {
        assert!(rank < self.size(), "rank {rank} is not on the mesh ({self})");
        let mut rest = rank;
        let mut coordinates = vec![0; self.ndim()];
        for (coordinate, axis) in coordinates.iter_mut().zip(&self.axes).rev() {
            *coordinate = rest % axis.extent;
            rest /= axis.extent;
        }
        coordinates
    }

    /// Returns the rank at `coordinates`.
    ///
    /// # Panics
    /// If there is not one coordinate per axis, each inside its axis.
    #[track_caller]
    #[must_use]
    pub fn rank(&self, coordinates: &[usize]) -> usize {
        assert_eq!(coordinates.len(), self.ndim(), "a rank of the mesh ({self}) has one coordinate per axis");
        let mut rank = 0;
        for (axis, &coordinate) in self.axes.iter().zip(coordinates) {
            assert!(coordinate < axis.extent, "coordinate {coordinate} is outside axis {}: {}", axis.name, axis.extent);
            rank = rank * axis.extent + coordinate;
        }
        rank
    }

    /// Returns this mesh with the axes of `inner` appended.
    ///
    /// # Errors
    /// [`AxisTwice`](ProductError::AxisTwice) if both have an axis of one name,
    /// [`TooManyRanks`](ProductError::TooManyRanks) if there would be more than 2^62 ranks.
    pub fn product(&self, inner: &Mesh) -> Result<Mesh, ProductError> {
        if let Some(twice) = inner.axes.iter().find(|axis| self.position(axis.name).is_some()) {
            return Err(ProductError::AxisTwice { axis: twice.name });
        }
        let axes: Vec<_> = self.axes.iter().chain(&inner.axes).copied().collect();
        if !countable(&axes) {
            return Err(ProductError::TooManyRanks { outer: self.to_string(), inner: inner.to_string() });
        }
        Ok(Self { axes })
    }
}

/// Why two meshes have no product.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProductError {
    /// Both have an axis of this name.
    #[error("both meshes have an axis `{axis}`; give the inner mesh its own names")]
    AxisTwice {
        /// The axis.
        axis: Name,
    },
    /// The ranks of the product cannot be counted.
    #[error("the meshes ({outer}) and ({inner}) have more than 2^62 ranks together; use smaller extents")]
    TooManyRanks {
        /// The outer mesh.
        outer: String,
        /// The inner mesh.
        inner: String,
    },
}

/// Whether there are at most 2^62 ranks, so that sums of a few coordinates fit 64 bits.
fn countable(axes: &[MeshAxis]) -> bool {
    let size = axes.iter().try_fold(1usize, |size, axis| size.checked_mul(axis.extent));
    size.is_some_and(|size| size as u64 <= 1 << 62)
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, axis) in self.axes.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}: {}", axis.name, axis.extent)?;
        }
        Ok(())
    }
}
