//! What the search changes of an array: which axes cut it, and along which terms are still to be summed.

use super::Sharded;
use polyshard_layout::Mesh;

/// Which axes cut which dimension, major first, and along which terms are to be summed, ascending: what of a type
/// the search changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Layout {
    pub(super) dims: Vec<Vec<usize>>,
    pub(super) unreduced: Vec<usize>,
}

impl Layout {
    /// How an array lies. Axes of one rank cut nothing, and none of them is left.
    pub(super) fn of(sharded: &Sharded) -> Self {
        Self { dims: sharded.axes(), unreduced: sharded.unreduced().to_vec() }
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
            mesh: sharded.mesh().clone(),
            tensor: sharded.tensor().to_owned(),
            names: sharded.names().to_vec(),
            shape: sharded.shape().to_vec(),
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

    /// The array with this layout, if all tiles are equal.
    pub(super) fn sharded(&self, layout: &Layout) -> Option<Sharded> {
        Sharded::new(&self.tensor, &self.names, &self.mesh, &self.shape, &layout.dims, &layout.unreduced).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyshard_layout::DType;

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
        assert_eq!((sharded.tile_shape(), sharded.bytes(DType::Bf16)), (vec![4, 2], 16));
    }
}
