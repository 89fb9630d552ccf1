//! How much of an array each rank has: how many ranks own an element, and whether shares are even.

use super::Sharding;
use crate::source::AxisSource;

impl Sharding {
    /// Returns the minimum and maximum number of ranks that own an element; with partial sums, a term of it.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 3), ("y", 2)]);
    /// let [x, y] = mesh.axes();
    /// let copies = |placement| Sharding::new(&mesh, &[6], &[placement]).map(|sharding| sharding.copies());
    /// assert_eq!(copies(Placement::block(0, x))?, [2, 2]);
    /// // Coordinate 2 along x owns what coordinate 0 does.
    /// assert_eq!(copies(Placement::block(0, x % 2))?, [2, 4]);
    /// assert_eq!(copies(Placement::block(0, [x, y]))?, [1, 1]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn copies(&self) -> [usize; 2] {
        let along = |(axis, source): &(usize, AxisSource)| {
            let extent = self.mesh.as_slice()[*axis].extent;
            match source {
                AxisSource::Reader if self.partial.contains(axis) => [1, 1],
                AxisSource::Reader => [extent, extent],
                // Coordinates that differ by a multiple of the parts own the same.
                AxisSource::Skew { parts, .. } => {
                    let parts = (*parts).max(1) as usize;
                    [(extent / parts).max(1), extent.div_ceil(parts)]
                }
                AxisSource::Pin(_) | AxisSource::Digit { .. } => [1, 1],
            }
        };
        let all = self.sources.iter().map(along);
        all.fold([1usize, 1], |[least, most], [fewer, more]| [least.saturating_mul(fewer), most.saturating_mul(more)])
    }

    /// Returns whether each element has one owner, and no rank owns more than an even share, rounded up; false for
    /// partial sums.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2), ("y", 2)]);
    /// let [x, y] = mesh.axes();
    /// let is_even = |shape: &[usize], placements: &[Placement]| {
    ///     Sharding::new(&mesh, shape, placements).map(|sharding| sharding.is_in_even_shares())
    /// };
    /// assert!(is_even(&[6, 4], &[Placement::block(0, x), Placement::block(1, y)])?);
    /// assert!(!is_even(&[6, 4], &[Placement::block(0, x)])?, "it is replicated along y");
    /// assert!(!is_even(&[6, 4], &[Placement::block(0, x), Placement::pin("y", 0)])?, "half of the ranks have nothing");
    /// assert!(!is_even(&[5, 5], &[Placement::block(0, x), Placement::block(1, y)])?, "one rank has 9 of 25");
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn is_in_even_shares(&self) -> bool {
        let ranks = self.mesh.size().max(1) as u64;
        let elements = self.shape.iter().fold(1u64, |product, &extent| product.saturating_mul(extent as u64));
        let is_single = self.partial.is_empty() && self.copies() == [1, 1];
        elements == 0 || is_single && self.largest_shard() <= elements.div_ceil(ranks)
    }
}
