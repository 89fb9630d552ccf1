//! Distributed types: the number of pieces along each dimension of an array, and the axes that number them.
//!
//! After N. Rink, A. Paszke, D. Vytiniotis and G. Schmid, "Memory-efficient array redistribution through portable
//! collective communication", arXiv 2112.01075, section 4. A type expresses less than a [`Sharding`] (blocks only,
//! sizes that divide), and that is why plans can be found for it.
//!
//! [`Sharding`]: polyshard_layout::Sharding

use crate::part::{cut, extent, joined, texts};
use crate::{AxisPart, TypeError};
use polyshard_layout::Mesh;
use std::fmt;

/// One dimension of a distributed type: `3{x}12` is 12 indices in tiles of 3, numbered by axis `x`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DistDim {
    /// Indices in a tile.
    pub tile: usize,
    /// The digits of the tile's number, minor first.
    pub parts: Vec<AxisPart>,
    /// Indices in all.
    pub size: usize,
}

/// The distribution of an array over a mesh: `[3{x}12, 2{y}12]`, tile size, axes minor first, and global size.
///
/// Axes that no dimension names replicate. Every rank has one tile, all of one shape.
///
/// ```
/// use polyshard::planner::DistType;
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 4), ("y", 6)]);
/// let rows = DistType::parse("[3{x}12, 2{y}12]", &mesh)?;
/// assert_eq!(rows.tile_shape(), [3, 2]);
/// assert_eq!(rows.offset(&[1, 5]), [3, 10]); // where the tile of the rank at x = 1, y = 5 begins
/// assert_eq!(rows.to_string(), "[3{x}12, 2{y}12]");
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DistType {
    mesh: Mesh,
    dims: Vec<DistDim>,
}

impl DistType {
    /// Returns the type of these dimensions.
    ///
    /// # Errors
    /// The rule that a dimension breaks: its tile times its pieces is its size, digits of one coordinate do not
    /// overlap, and the array has fewer than 2^63 elements.
    pub fn new(mesh: &Mesh, dims: Vec<DistDim>) -> Result<Self, TypeError> {
        let mut seen: Vec<(usize, AxisPart)> = Vec::new();
        for (dim, DistDim { tile, parts, size }) in dims.iter().enumerate() {
            for part in parts {
                let Some(axis) = mesh.as_slice().get(part.axis) else {
                    return Err(TypeError::NoAxis { dim, axis: part.axis, axes: mesh.ndim() });
                };
                if part.end().is_none_or(|end| end == 0 || !axis.extent.is_multiple_of(end)) {
                    let part = part.display(mesh).to_string();
                    return Err(TypeError::Part { dim, part, axis: axis.name, extent: axis.extent });
                }
                if let Some((first, _)) = seen.iter().find(|(_, other)| !part.is_independent_of(other)) {
                    return Err(TypeError::AxisTwice { axis: axis.name, first: *first, second: dim });
                }
                seen.push((dim, *part));
            }
            let pieces = extent(parts);
            if tile.checked_mul(pieces) != Some(*size) {
                return Err(TypeError::Arithmetic { dim, tile: *tile, pieces, size: *size });
            }
        }
        let elements = dims.iter().try_fold(1usize, |product, dim| product.checked_mul(dim.size.max(1)));
        if elements.is_none_or(|elements| elements > isize::MAX as usize) {
            return Err(TypeError::TooLarge);
        }
        let dims = dims.into_iter().map(|dim| DistDim { parts: joined(dim.parts), ..dim }).collect();
        Ok(Self { mesh: mesh.clone(), dims })
    }

    /// Returns the type of an array of `shape` of which every rank has a full copy.
    ///
    /// # Errors
    /// If the array has 2^63 elements or more.
    pub fn replicated(mesh: &Mesh, shape: &[usize]) -> Result<Self, TypeError> {
        Self::new(mesh, shape.iter().map(|&size| DistDim { tile: size, parts: Vec::new(), size }).collect())
    }

    /// Returns the mesh.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Returns the dimensions.
    #[must_use]
    pub fn dims(&self) -> &[DistDim] {
        &self.dims
    }

    /// Returns the number of dimensions.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.dims.len()
    }

    /// Returns the global shape.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        self.dims.iter().map(|dim| dim.size).collect()
    }

    /// Returns the shape of a tile, the same on all ranks.
    #[must_use]
    pub fn tile_shape(&self) -> Vec<usize> {
        self.dims.iter().map(|dim| dim.tile).collect()
    }

    /// Returns the number of elements of a tile.
    #[must_use]
    pub fn tile_len(&self) -> usize {
        self.dims.iter().map(|dim| dim.tile).product()
    }

    /// Returns the number of elements of the array.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dims.iter().map(|dim| dim.size).product()
    }

    /// Returns whether the array has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of the tile along `dim` that the rank at `coordinates` has.
    #[must_use]
    pub fn tile_number(&self, dim: usize, coordinates: &[usize]) -> usize {
        number(&self.dims[dim].parts, coordinates)
    }

    /// Returns the global index at which the tile of the rank at `coordinates` begins: its base offset
    /// (Rink et al., figure 7a).
    #[must_use]
    pub fn offset(&self, coordinates: &[usize]) -> Vec<usize> {
        (0..self.ndim()).map(|dim| self.dims[dim].tile * self.tile_number(dim, coordinates)).collect()
    }

    /// Returns all digits that number tiles, in the order of the dimensions, minor first.
    pub(crate) fn parts(&self) -> impl Iterator<Item = AxisPart> + '_ {
        self.dims.iter().flat_map(|dim| dim.parts.iter().copied())
    }

    /// Returns the digits of an axis, minor first: those that number tiles, and the gaps between them.
    pub(crate) fn digits(&self, axis: usize) -> Vec<AxisPart> {
        let digits = cut(AxisPart::whole(&self.mesh, axis), &self.parts().collect::<Vec<_>>());
        digits.expect("digits of a type divide its axes: this is a bug in polyshard")
    }
}

/// Returns the number that these digits form, minor first.
pub(crate) fn number(parts: &[AxisPart], coordinates: &[usize]) -> usize {
    parts.iter().rev().fold(0, |number, part| number * part.extent + part.digit(coordinates))
}

impl fmt::Display for DistType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dim = |DistDim { tile, parts, size }: &DistDim| match &texts(parts, &self.mesh)[..] {
            [] => size.to_string(),
            parts => format!("{tile}{{{}}}{size}", parts.join(",")),
        };
        write!(f, "[{}]", self.dims.iter().map(dim).collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Debug for DistType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} over ({})", self.mesh)
    }
}
