//! The local product: what a rank multiplies alone, as one contraction over its tiles.
//!
//! Each dimension of a product is a loop of the contraction, whose role follows from which arrays have the dimension. So
//! there is no case for matrices: batches, several contracted dimensions and transposed factors are strides.

use super::tile::Held;
use crate::leaf::{Role, contract};
use crate::region::row_major;
use crate::{Element, Strided, StridedMut};

/// The loops of a local product.
pub(super) struct Local {
    counts: Vec<usize>,
    roles: Vec<Role>,
    /// Of the first factor, the second and the result: elements that each loop moves it by.
    strides: [Vec<i64>; 3],
}

impl Local {
    /// Returns the product of what the rank at `coordinates` has of the factors, to what it has of the result.
    pub(super) fn new(arrays: [&Held; 3], coordinates: &[usize]) -> Self {
        let names = arrays.map(|held| held.array.names());
        let tiles = arrays.map(|held| held.tile(coordinates));
        let strides =
            [0, 1, 2].map(|nth| row_major(&tiles[nth].iter().map(ExactSizeIterator::len).collect::<Vec<_>>()));
        let (mut counts, mut roles, mut moved) = (Vec::new(), Vec::new(), [const { Vec::new() }; 3]);
        for name in names[0].iter().chain(names[1].iter().filter(|name| !names[0].contains(name))) {
            let dims = [0, 1, 2].map(|nth| names[nth].iter().position(|other| other == name));
            let mut ranges = (0..3).filter_map(|nth| Some(&tiles[nth][dims[nth]?]));
            let range = ranges.next().expect("a loop is a dimension of a factor; this is a bug of polyshard");
            assert!(
                ranges.all(|other| other == range || other.is_empty() && range.is_empty()),
                "ranks multiply tiles that lie apart along `{name}`; this is a bug of polyshard"
            );
            counts.push(range.len());
            roles.push(match dims.map(|dim| dim.is_some()) {
                [true, true, true] => Role::Batch,
                [true, _, true] => Role::M,
                [_, true, true] => Role::N,
                _ => Role::K,
            });
            for (nth, moved) in moved.iter_mut().enumerate() {
                moved.push(dims[nth].map_or(0, |dim| strides[nth][dim] as i64));
            }
        }
        Self { counts, roles, strides: moved }
    }

    /// Writes the product of two tiles to `out`.
    pub(super) fn run<T: Element>(&self, left: &[T], right: &[T], out: &mut [T]) {
        out.fill(T::ZERO);
        let [a, b, c] = self.strides.clone();
        let (left, right) = (Strided::new(left, 0, a), Strided::new(right, 0, b));
        contract(&self.counts, &self.roles, T::ONE, left, right, StridedMut::new(out, 0, c));
    }
}
