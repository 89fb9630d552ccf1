//! What ranks hold of an array: a tile each, and perhaps only one term of it.
//!
//! A product over a dimension that is cut leaves every rank with a term of a sum. The literature writes this as
//! `C[I, K] {U_X}`, unreduced along `X`; it belongs to the type, since it says what must still be done. Nothing
//! here knows how to do it.

use crate::named::subscript;
use crate::{AxisPart, DistDim, DistType};
use polyshard_layout::{DType, Mesh};
use std::fmt;

/// An array as ranks hold it before or after a step.
///
/// The rank at coordinates `c` holds the tile that begins at [`DistType::offset`]`(c)`. Where the array is
/// unreduced along axes, what it holds is one term: the tile is the sum over the ranks that differ from it along
/// those axes alone, all of which hold a term of the same tile.
///
/// ```text
/// C[I, K] {U_X}, X: 2      rank 0: p    rank 1: q      C = p + q
/// C[I, K_X]                rank 0: a    rank 1: b      C = a b
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sharded {
    tensor: String,
    names: Vec<String>,
    dist_type: DistType,
    unreduced: Vec<usize>,
}

impl Sharded {
    pub(super) fn new(tensor: &str, names: &[String], dist_type: DistType, unreduced: Vec<usize>) -> Self {
        Self { tensor: tensor.to_owned(), names: names.to_vec(), dist_type, unreduced }
    }

    /// Returns the array's name.
    #[must_use]
    pub fn tensor(&self) -> &str {
        &self.tensor
    }

    /// Returns the dimensions' names.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns shape, tiles, and which rank holds which.
    #[must_use]
    pub fn dist_type(&self) -> &DistType {
        &self.dist_type
    }

    /// Returns the positions in the mesh of the axes along which terms are still to be summed, ascending.
    #[must_use]
    pub fn unreduced(&self) -> &[usize] {
        &self.unreduced
    }

    /// Returns the bytes of a rank's tile.
    #[must_use]
    pub fn bytes(&self, dtype: DType) -> u128 {
        self.dist_type.tile_len() as u128 * dtype.size() as u128
    }
}

impl fmt::Display for Sharded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let named = self.dist_type.named(&self.tensor, &names);
        named.expect("arrays of products are cut by whole axes: this is a bug of polyshard").fmt(f)?;
        if self.unreduced.is_empty() {
            return Ok(());
        }
        write!(f, " {{U_{}}}", subscript(self.dist_type.mesh(), &self.unreduced))
    }
}

/// Which axes cut which dimension, major first, and along which terms are to be summed, ascending: what of a type
/// the search changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Layout {
    pub(super) dims: Vec<Vec<usize>>,
    pub(super) unreduced: Vec<usize>,
}

impl Layout {
    /// The layout of a type that whole axes cut. Axes of one rank cut nothing, and none of them is left.
    pub(super) fn of(sharded: &Sharded) -> Self {
        let axes = |dim: &DistDim| dim.parts.iter().rev().map(|part| part.axis).collect();
        Self { dims: sharded.dist_type.dims().iter().map(axes).collect(), unreduced: sharded.unreduced.clone() }
    }

    /// The positions of the axes that cut a dimension or are unreduced.
    pub(super) fn used(&self) -> impl Iterator<Item = usize> + '_ {
        self.dims.iter().flatten().chain(&self.unreduced).copied()
    }
}

/// An array apart from how it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Array {
    pub(super) mesh: Mesh,
    pub(super) tensor: String,
    pub(super) names: Vec<String>,
    pub(super) shape: Vec<usize>,
}

impl Array {
    pub(super) fn of(sharded: &Sharded) -> Self {
        Self {
            mesh: sharded.dist_type.mesh().clone(),
            tensor: sharded.tensor.clone(),
            names: sharded.names.clone(),
            shape: sharded.dist_type.shape(),
        }
    }

    /// The elements of a tile, if all tiles are equal.
    pub(super) fn tile_len(&self, layout: &Layout) -> Option<usize> {
        let tile = |(&size, axes): (&usize, &Vec<usize>)| {
            let pieces = axes.iter().map(|&axis| self.mesh.as_slice()[axis].extent).product();
            size.is_multiple_of(pieces).then(|| size / pieces)
        };
        self.shape.iter().zip(&layout.dims).map(tile).product()
    }

    /// The type with this layout, if all tiles are equal.
    pub(super) fn sharded(&self, layout: &Layout) -> Option<Sharded> {
        self.tile_len(layout)?;
        let dims = self.shape.iter().zip(&layout.dims).map(|(&size, axes)| {
            let parts: Vec<_> = axes.iter().rev().map(|&axis| AxisPart::whole(&self.mesh, axis)).collect();
            let pieces: usize = parts.iter().map(|part| part.extent).product();
            DistDim { tile: size / pieces, parts, size }
        });
        let dist_type = DistType::new(&self.mesh, dims.collect()).ok()?;
        Some(Sharded::new(&self.tensor, &self.names, dist_type, layout.unreduced.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array() -> Array {
        let names = ["I", "K"].map(String::from).to_vec();
        Array { mesh: Mesh::new([("X", 2), ("Y", 3), ("one", 1)]), tensor: "C".into(), names, shape: vec![12, 4] }
    }

    #[test]
    fn arrays_are_written_with_their_partial_sums() {
        let written = |dims: [&[usize]; 2], unreduced: &[usize]| {
            let layout = Layout { dims: dims.map(<[usize]>::to_vec).to_vec(), unreduced: unreduced.to_vec() };
            array().sharded(&layout).map(|sharded| sharded.to_string())
        };
        assert_eq!(written([&[1, 0], &[]], &[]).as_deref(), Some("C[I_YX, K]"));
        assert_eq!(written([&[1], &[]], &[0]).as_deref(), Some("C[I_Y, K] {U_X}"));
        assert_eq!(written([&[], &[]], &[0, 1]).as_deref(), Some("C[I, K] {U_XY}"));
        assert_eq!(written([&[], &[1]], &[]), None, "4 columns do not divide by 3");
    }

    #[test]
    fn layouts_and_types_say_the_same() {
        let layout = Layout { dims: vec![vec![1], vec![0]], unreduced: vec![] };
        let sharded = array().sharded(&layout).expect("it divides");
        assert_eq!(Layout::of(&sharded), layout);
        assert_eq!((sharded.dist_type().tile_shape(), sharded.bytes(DType::Bf16)), (vec![4, 2], 16));
    }
}
