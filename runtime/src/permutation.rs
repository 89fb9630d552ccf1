//! Permutations of ranks: which rank gets this rank's tile, and whose tile this rank gets.

use crate::{Grid, Region};

impl Grid<'_> {
    /// Returns the rank to which `image` maps this one, and the rank that `image` maps to this one, with that rank's
    /// region, if it exists and its region is not empty.
    ///
    /// `inverse` are the coordinates of the rank that should map to this one; if they are outside of the mesh or map
    /// elsewhere, as short meshes and empty tiles allow, the latter is `None`.
    #[must_use]
    pub fn permutation<C: AsRef<[i64]>>(
        &self,
        image: impl Fn(&[i64]) -> C,
        inverse: &[i64],
        region: impl Fn(&[i64]) -> Region,
    ) -> (usize, Option<(usize, Region)>) {
        let to = self.find(image(self.coords()).as_ref()).unwrap_or_else(|| self.world().rank());
        let from = self.find(inverse).filter(|_| image(inverse).as_ref() == self.coords());
        let from = from.map(|rank| (rank, region(inverse))).filter(|(_, region)| !region.is_empty());
        (to, from)
    }

    /// The rank at the coordinates, if they are on the mesh.
    fn find(&self, coordinates: &[i64]) -> Option<usize> {
        coordinates.iter().zip(self.mesh().as_slice()).try_fold(0, |rank, (&at, axis)| {
            let at = usize::try_from(at).ok().filter(|&at| at < axis.extent)?;
            Some(rank * axis.extent + at)
        })
    }
}

/// Returns a count of iterations: 0 if `count` is negative, as for a tile beyond the end.
#[must_use]
pub fn count(count: i64) -> usize {
    usize::try_from(count).unwrap_or(0)
}
