//! Where the owners of the elements that ranks need are, relative to these ranks.

use super::Sharding;
#[cfg(doc)]
use crate::Mesh;
use crate::source::AxisSource;
use crate::{Neighbours, Reach};

impl Sharding {
    /// Returns where the owners of a rank's elements in `target`, a sharding of the same array, are relative to this rank: along
    /// which axes at its own coordinate, along which possibly at any. If the two are over different meshes, owners may be anywhere;
    /// write them [over](Self::over) a [common refinement](Mesh::common_refinement) first.
    ///
    /// ```
    /// use polyshard::layout::{Neighbours, Reach};
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2), ("y", 2)]);
    /// let [x, y] = mesh.axes();
    /// let of = |placements: &[Placement]| Sharding::new(&mesh, &[6, 4], placements).expect("a sharding");
    /// let tiles = of(&[Placement::block(0, x), Placement::block(1, y)]);
    /// // Whole rows are with the ranks that have other columns of the same rows.
    /// let rows = of(&[Placement::block(0, x)]);
    /// assert_eq!(tiles.owners_of(&rows), Neighbours::in_box([Reach::OWN, Reach::All]));
    /// assert_eq!(rows.owners_of(&tiles), Neighbours::in_box([Reach::OWN, Reach::OWN]));
    /// ```
    #[must_use]
    pub fn owners_of(&self, target: &Self) -> Neighbours {
        let mut is_own = vec![self == target; self.mesh.ndim()];
        if self == target || self.mesh != target.mesh {
            return within(&is_own);
        }
        // If both have the same layout of a dimension, its indices have owners at the same coordinates in both.
        let alike = |dim: usize| self.dims[dim] == target.dims[dim];
        // Each source depends on earlier ones only.
        for (axis, source) in &self.sources {
            is_own[*axis] = match source {
                // Closing a sum needs the terms of all coordinates; a sum that stays open keeps each term in place.
                AxisSource::Reader => !self.partial.contains(axis) || target.partial.contains(axis),
                AxisSource::Pin(at) => target.pins.contains(&(*axis, *at)),
                AxisSource::Digit { digit, .. } => alike(digit.dim),
                AxisSource::Skew { digits, rest, .. } => {
                    let extent = self.mesh.as_slice()[*axis].extent;
                    !source.repeats(extent)
                        && digits.iter().all(|(digit, _)| alike(digit.dim))
                        && rest.terms.iter().all(|(axis, _)| is_own[*axis])
                }
            };
        }
        within(&is_own)
    }
}

/// The ranks at a rank's own coordinate along some axes and at any along the others.
fn within(is_own: &[bool]) -> Neighbours {
    Neighbours::in_box(is_own.iter().map(|&own| if own { Reach::OWN } else { Reach::All }).collect::<Vec<_>>())
}
